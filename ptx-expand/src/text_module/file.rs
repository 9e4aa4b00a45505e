//! `ptx_file!`: a module that is read from disk. What is wrong in it is reported at the path, with the file's lines.

use super::signature::{Signature, separator};
use crate::compile;
use crate::kernel::Reader;
use crate::report;
use crate::root::Given;
use proc_macro2::TokenStream;
use ptx_core::diag::{Diagnostic, codes};
use ptx_core::hash::Map;
use ptx_core::lex::lex;
use ptx_core::span::Span;
use ptx_target::sort::SortSmall;
use quote::quote;
use std::path::{Path, PathBuf};
use syn::parse::{Parse, ParseStream};

/// `"kernel.ptx", pub fn add(a: &[f32], n: u32)`
struct Input {
    path: syn::LitStr,
    root: Option<syn::Path>,
    signatures: Vec<Signature>,
}

impl Parse for Input {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let path = input.parse()?;
        let (mut signatures, mut root) = (Vec::new(), None);
        while !input.is_empty() {
            separator(input)?;
            if Given::is_next(input) {
                root = Some(input.parse::<Given>()?.0);
            } else if !input.is_empty() {
                signatures.push(input.parse()?);
            }
        }
        Ok(Input { path, root, signatures })
    }
}

const LIKE: &str = "`ptx_file!(\"kernel.ptx\")`, and signatures behind it: `pub fn add(a: &[f32], n: u32)`";

/// Expands `ptx_file!`.
pub fn expand(input: TokenStream) -> TokenStream {
    let input: Input = match syn::parse2(input) {
        Ok(input) => input,
        Err(error) => return report::refuse(&mut Reader::default(), &error, LIKE),
    };
    let mut reader = Reader::default();
    let launches = read(&mut reader, &input);
    let diagnostics = report::report(&reader.host, &reader.diagnostics, &[]);
    quote!(#launches #diagnostics)
}

fn read(reader: &mut Reader, input: &Input) -> Option<TokenStream> {
    let path = find(&input.path);
    let text = match std::fs::read(&path).map(String::from_utf8) {
        Ok(Ok(text)) => text,
        Ok(Err(_)) => return unreadable(reader, input, "is not UTF-8 text"),
        Err(error) => return unreadable(reader, input, &error.to_string()),
    };
    let (source, mut found) = lex(text.as_bytes());
    let (outcome, mut diagnostics) = compile::checked(source);
    found.append(&mut diagnostics);
    let at = reader.host.token(input.path.span());
    let places = Places::new(&text, &found);
    reader.diagnostics.extend(found.into_iter().map(|d| at_path(d, at, &input.path.value(), &places)));
    // The compiler reads the same file, and so builds again when it changes.
    let path = path.to_str()?;
    let ptx = quote!(::core::include_str!(#path));
    let module = compile::module_of(&outcome);
    super::launches(reader, module, input.root.as_ref(), &input.signatures, (&text, ptx))
}

fn unreadable(reader: &mut Reader, input: &Input, why: &str) -> Option<TokenStream> {
    let message = format!("cannot read `{}`: {why}", input.path.value());
    let help = "the path starts at the folder of this source file, or at the package's root";
    reader.error(&codes::P0908, &input.path, message, help);
    None
}

/// Beside the source file that names it, else from the package's root.
fn find(literal: &syn::LitStr) -> PathBuf {
    let written = PathBuf::from(literal.value());
    let source = literal.span().local_file();
    let beside = source.as_ref().and_then(|file| Some(file.parent()?.join(&written)));
    let root = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let in_package = root.as_ref().map(|root| root.join(&written));
    let found = [beside, in_package].into_iter().flatten().find(|path| path.exists());
    // rust-analyzer does not say which file it expands.
    let found = found.or_else(|| root.filter(|_| source.is_none()).and_then(|root| find_below(&root, &written, DEPTH)));
    let found = found.unwrap_or(written);
    std::path::absolute(&found).unwrap_or(found)
}

/// Folders below a package's root in which its sources stand.
const DEPTH: u32 = 6;

/// A file with the path in this folder, or in one below it.
fn find_below(folder: &Path, written: &Path, depth: u32) -> Option<PathBuf> {
    let here = folder.join(written);
    if here.is_file() || depth == 0 {
        return here.is_file().then_some(here);
    }
    let mut below: Vec<_> = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    below.sort_small();
    let is_source = |path: &PathBuf| !path.ends_with("target") && path.is_dir() && !path.is_symlink();
    below.iter().filter(|path| is_source(path)).find_map(|path| find_below(path, written, depth - 1))
}

/// Lines and columns, from 1, of the places that diagnostics name.
struct Places(Map<u32, (usize, usize)>);

impl Places {
    /// Reads the text once, however many diagnostics there are.
    fn new(text: &str, diagnostics: &[Diagnostic]) -> Places {
        let spans = diagnostics.iter().flat_map(|d| std::iter::once(d.span).chain(d.labels.iter().map(|l| l.span)));
        let mut wanted: Vec<u32> = spans.map(|span| span.lo).collect();
        wanted.sort_small();
        wanted.dedup();
        let (mut line, mut column, mut from) = (1, 1, 0);
        let found = wanted.into_iter().map(|at| {
            let piece = text.get(from..at as usize).unwrap_or_default();
            let (before, last) = piece.rsplit_once('\n').map_or((None, piece), |(before, last)| (Some(before), last));
            if let Some(before) = before {
                line += 1 + before.matches('\n').count();
                column = 1;
            }
            column += last.chars().count();
            from += piece.len();
            (at, (line, column))
        });
        Places(found.collect())
    }

    fn place(&self, file: &str, span: Span) -> String {
        let (line, column) = self.0.get(&span.lo).copied().unwrap_or((1, 1));
        format!("{file}:{line}:{column}")
    }
}

/// A diagnostic of the file, moved to the path: its place becomes a part of the message.
fn at_path(diagnostic: Diagnostic, at: Span, file: &str, places: &Places) -> Diagnostic {
    let message = format!("{}: {}", places.place(file, diagnostic.span), diagnostic.message);
    let mut moved = Diagnostic { span: at, message, labels: Vec::new(), ..diagnostic.clone() };
    for label in &diagnostic.labels {
        moved = moved.help(format!("{}: {}", places.place(file, label.span), label.text));
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_in_one_reading() {
        let text = "a\n\u{e4}bc d\n\nend";
        let at = |what: &str| Span { lo: text.find(what).map_or(0, |at| at as u32), ..Span::default() };
        let error = |what| Diagnostic::error(&codes::P0908, at(what), "").label(at("bc"), "");
        let places = Places::new(text, &[error("end"), error("d"), error("a")]);
        let found = ["end", "d", "a", "bc"].map(|what| places.place("f", at(what)));
        assert_eq!(found, ["f:4:1", "f:2:5", "f:1:1", "f:2:2"]);
    }

    #[test]
    fn places_of_many_diagnostics_on_one_line_take_linear_time() {
        let text = "x ".repeat(200_000);
        let error = |at: u32| Diagnostic::error(&codes::P0908, Span { lo: 2 * at, ..Span::default() }, "");
        let all: Vec<Diagnostic> = (0..200_000).map(error).collect();
        let places = Places::new(&text, &all);
        assert_eq!(places.place("f", all[199_999].span), "f:1:399999");
    }
}

//! `ptx_file!`: a module that is read from disk. What is wrong in it is reported at the path, with the file's lines.

use super::signature::{Signature, separator};
use crate::compile;
use crate::kernel::Reader;
use crate::report;
use crate::root::Given;
use proc_macro2::TokenStream;
use ptx_core::diag::{Diagnostic, codes};
use ptx_core::lex::lex;
use ptx_core::span::Span;
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
    let (checked, mut diagnostics) = compile::checked(source.clone());
    found.append(&mut diagnostics);
    let at = reader.host.token(input.path.span());
    reader.diagnostics.extend(found.into_iter().map(|d| at_path(d, at, &input.path.value(), &text)));
    // The compiler reads the same file, and so builds again when it changes.
    let path = path.to_str()?;
    let ptx = quote!(::core::include_str!(#path));
    let module = checked.map_or_else(|| compile::declared(source), |c| c.module().clone());
    super::launches(reader, &module, input.root.as_ref(), &input.signatures, &ptx)
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
    let beside = literal.span().local_file().and_then(|file| Some(file.parent()?.join(&written)));
    let in_package = std::env::var_os("CARGO_MANIFEST_DIR").map(|root| Path::new(&root).join(&written));
    let found = [beside, in_package].into_iter().flatten().find(|path| path.exists()).unwrap_or(written);
    std::path::absolute(&found).unwrap_or(found)
}

/// A diagnostic of the file, moved to the path: its place becomes a part of the message.
fn at_path(diagnostic: Diagnostic, at: Span, file: &str, text: &str) -> Diagnostic {
    let place = |span: Span| {
        let before = text.get(..span.lo as usize).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        format!("{file}:{line}:{column}")
    };
    let mut moved = diagnostic.clone();
    moved.span = at;
    moved.message = format!("{}: {}", place(diagnostic.span), diagnostic.message);
    moved.labels = Vec::new();
    for label in &diagnostic.labels {
        moved = moved.help(format!("{}: {}", place(label.span), label.text));
    }
    moved
}

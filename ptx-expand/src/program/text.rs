//! Modules that are PTX already, from a compiler or a person: their entries as kernels, with the Rust types of signatures.

use super::{Module, Problems, Program, Text, problems, refused};
use crate::compile::{self, Compiled};
use crate::describe::{Problem, Scope, describe, problem};
use crate::kernel::Reader;
use crate::launchable::Launchable;
use crate::nesting;
use crate::text_module::Signature;
use proc_macro2::{LexError, Span, TokenStream};
use ptx_core::diag::{Diagnostic, Severity};
use ptx_core::ir;
use ptx_core::lex::lex;
use ptx_language::{Entry, EntryParam};
use syn::Token;
use syn::punctuated::Punctuated;

/// The text that has the mistakes.
#[derive(Clone, Debug)]
pub enum Refused {
    /// The PTX.
    Text(Problems),
    /// The signatures.
    Signatures(Problems),
}

/// Checks a module of PTX. `signatures` are Rust signatures of its entries: `#[ptx_kernel(block = 256)] fn add(x: &[f32], out: &mut [f32], n: u32);`.
/// An entry without one takes the numbers that its PTX declares, and pointers as `u64`.
///
/// # Errors
/// Everything that is wrong in one of the texts.
pub fn compile_ptx(ptx: &str, signatures: &str) -> Result<Program, Refused> {
    let (source, mut found) = lex(ptx.as_bytes());
    let (checked, mut diagnostics) = compile::checked(source);
    found.append(&mut diagnostics);
    let places = found.iter().map(|diagnostic| in_text(ptx, diagnostic));
    let (warnings, errors): (Vec<_>, Vec<_>) = places.partition(|problem| problem.is_warning);
    let Some(checked) = checked.ok().filter(|_| errors.is_empty()) else { return Err(Refused::Text(Problems(errors))) };
    let signatures = parse(signatures).map_err(Refused::Signatures)?;
    let mut reader = Reader::default();
    let (module, text) = (checked.module(), ptx.to_owned());
    let module = described(&mut reader, module, &signatures, text, String::new());
    let wrong: Vec<Problem> = problems(&reader).into_iter().filter(|problem| !problem.is_warning).collect();
    match wrong.is_empty() {
        true => Ok(Program { modules: vec![module], warnings }),
        false => Err(Refused::Signatures(Problems(wrong))),
    }
}

fn parse(signatures: &str) -> Result<Vec<Signature>, Problems> {
    use syn::parse::Parser;
    let tokens: TokenStream = signatures.parse().map_err(|error: LexError| refused(error.into()))?;
    nesting::check_nesting(&tokens).map_err(|deep| refused(deep.into()))?;
    let parsed = Punctuated::<Signature, Token![;]>::parse_terminated.parse2(tokens).map_err(refused)?;
    Ok(parsed.into_iter().collect())
}

/// A module of PTX with its entries as kernels.
pub fn described(
    reader: &mut Reader,
    module: &ir::Module,
    signatures: &[Signature],
    ptx: String,
    name: String,
) -> Module {
    let (mut compiled, mut launchables): (Compiled, Vec<Launchable>) = Default::default();
    for (entry, launchable) in reader.entries(module, signatures) {
        let params = (0..launchable.params.len()).map(EntryParam::Value).collect();
        let layouts = launchable.params.iter().map(|param| param.layout.unwrap_or_default());
        compiled.params.insert(entry.clone(), layouts.collect());
        let kernel = launchables.len();
        compiled.entries.push(Entry { name: entry, kernel, instance: None, params, dynamic: None });
        launchables.push(launchable);
    }
    reader.silence();
    let scope = Scope::default();
    let kernels = launchables.iter().enumerate();
    let kernels = kernels.flat_map(|(index, launchable)| describe(index, launchable, &compiled, &scope));
    let text = Text { target: module.arch.to_string(), ptx, lines: Vec::new() };
    Module { name, kernels: kernels.collect(), texts: vec![text], memory: Vec::new() }
}

/// A diagnostic whose span counts the bytes of a text.
fn in_text(text: &str, diagnostic: &Diagnostic) -> Problem {
    let (start, end) = (place(text, diagnostic.span.lo), place(text, diagnostic.span.hi));
    Problem {
        is_warning: diagnostic.severity == Severity::Warning,
        help: diagnostic.help.clone(),
        section: diagnostic.section,
        start,
        end,
        ..problem(diagnostic.code.id, diagnostic.message.clone(), Span::call_site(), Span::call_site())
    }
}

/// The line and the column of a byte, from 1.
fn place(text: &str, byte: u32) -> (usize, usize) {
    let before = text.as_bytes().get(..byte as usize).unwrap_or(text.as_bytes());
    let line = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let column = String::from_utf8_lossy(before.get(line..).unwrap_or_default()).chars().count();
    (before.iter().filter(|byte| **byte == b'\n').count() + 1, column + 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::super::{From, Kind};
    use super::*;

    const PTX: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry add(.param .u64 x, .param .u32 n)\n.reqntid 64\n{\n    ret;\n}\n";

    fn wrong(ptx: &str, signatures: &str) -> (bool, Problem) {
        match compile_ptx(ptx, signatures).unwrap_err() {
            Refused::Text(problems) => (true, problems.0[0].clone()),
            Refused::Signatures(problems) => (false, problems.0[0].clone()),
        }
    }

    #[test]
    fn entries_are_kernels() {
        let program = compile_ptx(PTX, "#[ptx_kernel(grid = n.div_ceil(64))] fn add(x: &mut [f32], n: u32);").unwrap();
        let add = &program.modules[0].kernels[0];
        assert_eq!((add.entry.as_str(), add.params.len(), add.dims.len()), ("add", 2, 0));
        assert_eq!(add.params[0].kind, Kind::Slice { element: "f32".to_owned(), written: true });
        let taken: Vec<_> = add.taken.iter().map(|taken| (taken.size, taken.from)).collect();
        assert_eq!(taken, [(8, From::Param(0)), (4, From::Param(1))]);
        let launch = add.launch.as_ref().unwrap();
        assert!(launch.grid.is_some() && launch.block.is_some());
        let plain = compile_ptx(PTX, "").unwrap();
        assert_eq!(plain.modules[0].kernels[0].params[0].kind, Kind::Value("u64".to_owned()));
    }

    #[test]
    fn mistakes_have_the_place_of_their_text() {
        let (in_text, problem) = wrong(&PTX.replace("ret;", "rat;"), "");
        assert_eq!((in_text, problem.start, problem.code), (true, (7, 5), "P0201"));
        let (in_text, problem) = wrong(PTX, "fn add(x: &mut [f32]);");
        assert_eq!((in_text, problem.start, problem.code), (false, (1, 4), "P0911"));
        let (in_text, problem) = wrong(PTX, "fn sub(x: &mut [f32], n: u32);");
        assert!(!in_text && problem.help[0].contains("add"), "{problem:?}");
        assert!(!wrong(PTX, "fn add(").0);
    }
}

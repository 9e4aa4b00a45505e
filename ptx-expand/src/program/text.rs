//! Modules that are PTX already, from a compiler or a person: their entries as kernels, with the Rust types of signatures.

use super::{Module, Problems, Program, Text, launch_errors, problems, refused};
use crate::compile::{self, Compiled};
use crate::describe::{Problem, Scope, describe, problem};
use crate::kernel::Reader;
use crate::launchable::Launchable;
use crate::single::Single;
use crate::text_module::Signature;
use crate::{fields, nesting};
use proc_macro2::{Ident, LexError, Span, TokenStream};
use ptx_core::diag::{Diagnostic, Severity};
use ptx_core::ir;
use ptx_core::lex::lex;
use ptx_language::{Entry, EntryParam, StructLayout};
use quote::quote;
use std::collections::BTreeMap;
use syn::Token;
use syn::parse::{Parse, ParseStream};

/// The text that has the mistakes.
#[derive(Clone, Debug)]
pub enum Refused {
    /// The PTX.
    Text(Problems),
    /// The signatures.
    Signatures(Problems),
}

/// Checks a module of PTX. `signatures` are Rust signatures of its entries: `#[ptx_kernel(block = 256)] fn add(x: &[f32], out: &mut [f32], n: u32);`.
/// An entry without one takes the numbers that its PTX declares, and pointers as `u64`. Structs that they name stand among them:
/// `#[repr(C)] struct Problem { n: u32 }`.
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
    let Signatures { signatures, structs } = parse(signatures).map_err(Refused::Signatures)?;
    let find = |path: &syn::Path| {
        let name = path.get_ident()?;
        structs.iter().find(|item| item.ident == *name).and_then(fields::named)
    };
    let mut reader = Reader::default();
    let text = (checked.module(), ptx.to_owned());
    let module = described(&mut reader, text, (&signatures, &find), &Scope::at(&[], &[]));
    let wrong = problems(&reader).into_iter().filter(|problem| !problem.is_warning);
    let wrong: Vec<Problem> = wrong.chain(launch_errors(&module.kernels)).collect();
    match wrong.is_empty() {
        true => Ok(Program { modules: vec![module], warnings }),
        false => Err(Refused::Signatures(Problems(wrong))),
    }
}

/// Signatures, and the structs that they name.
#[derive(Default)]
struct Signatures {
    signatures: Vec<Signature>,
    structs: Vec<syn::ItemStruct>,
}

impl Parse for Signatures {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut read = Signatures::default();
        while !input.is_empty() {
            let ahead = input.fork();
            ahead.call(syn::Attribute::parse_outer)?;
            ahead.parse::<syn::Visibility>()?;
            if ahead.peek(Token![struct]) {
                read.structs.push(input.parse()?);
            } else {
                read.signatures.push(input.parse()?);
                if !input.is_empty() {
                    input.parse::<Token![;]>()?;
                }
            }
        }
        Ok(read)
    }
}

fn parse(signatures: &str) -> Result<Signatures, Problems> {
    let tokens: TokenStream = signatures.parse().map_err(|error: LexError| refused(error.into()))?;
    nesting::check_nesting(&tokens).map_err(|deep| refused(deep.into()))?;
    syn::parse2(tokens).map_err(refused)
}

/// The fields of the struct that a path names.
type Find<'f> = &'f dyn Fn(&syn::Path) -> Option<TokenStream>;

/// The structs that signatures take, as a kernel has them that takes the same.
fn layouts(signatures: &[Signature], find: Find<'_>) -> Vec<StructLayout> {
    let taken = signatures.iter().flat_map(|signature| &signature.item.sig.inputs).filter_map(|input| match input {
        syn::FnArg::Typed(input) => path(&input.ty),
        syn::FnArg::Receiver(_) => None,
    });
    let mut known: BTreeMap<Ident, TokenStream> = BTreeMap::new();
    let mut names: Vec<Ident> = Vec::new();
    let mut paths: Vec<(syn::Path, bool)> = taken.map(|path| (path.clone(), true)).collect();
    while let Some((path, is_taken)) = paths.pop() {
        let Some((name, fields)) = path.segments.last().map(|last| last.ident.clone()).zip(find(&path)) else {
            continue;
        };
        if known.contains_key(&name) {
            continue;
        }
        if let Ok(inner) = syn::parse2::<syn::FieldsNamed>(quote!({ #fields })) {
            paths
                .extend(inner.named.iter().filter_map(|field| self::path(&field.ty)).map(|path| (path.clone(), false)));
        }
        names.extend(is_taken.then(|| name.clone()));
        known.insert(name, fields);
    }
    if names.is_empty() {
        return Vec::new();
    }
    let (all, fields) = (known.keys(), known.values());
    let options = quote!(arch = "sm_80", params(#(#all { #fields }),*));
    let params = names.iter().enumerate().map(|(at, name)| (quote::format_ident!("p{at}"), name));
    let params = params.map(|(param, name)| quote!(#param: #name));
    let kernel: syn::ItemFn = syn::parse_quote!(fn taken(#(#params),*) {});
    Single::compile(Reader::default(), options, &kernel, &Scope::default()).compiled.structs
}

/// The path of a type, or of an array's elements.
fn path(ty: &syn::Type) -> Option<&syn::Path> {
    match ty {
        syn::Type::Path(ty) => Some(&ty.path),
        syn::Type::Array(array) => path(&array.elem),
        _ => None,
    }
}

/// A module of PTX with its entries as kernels. `scope` has the constants that attributes may name.
pub fn described(
    reader: &mut Reader,
    (module, ptx): (&ir::Module, String),
    (signatures, find): (&[Signature], Find<'_>),
    scope: &Scope,
) -> Module {
    let (mut compiled, mut launchables): (Compiled, Vec<Launchable>) = Default::default();
    compiled.structs = layouts(signatures, find);
    for (entry, launchable) in reader.entries(module, signatures) {
        let params = (0..launchable.params.len()).map(EntryParam::Value).collect();
        let layouts = launchable.params.iter().map(|param| param.layout.unwrap_or_default());
        compiled.params.insert(entry.clone(), layouts.collect());
        let kernel = launchables.len();
        compiled.entries.push(Entry { name: entry, kernel, instance: None, params, dynamic: None });
        launchables.push(launchable);
    }
    reader.silence();
    let kernels = launchables.iter().enumerate();
    let kernels = kernels.flat_map(|(index, launchable)| describe(index, launchable, &compiled, scope));
    let text = Text { target: module.arch.to_string(), ptx, lines: Vec::new() };
    Module { name: String::new(), kernels: kernels.collect(), texts: vec![text], memory: Vec::new() }
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
    fn conditions_have_fields_of_structs() {
        use crate::describe::{Expr, Field, Plain};
        let ptx = PTX.replace(".param .u32 n", ".param .align 4 .b8 p[16]");
        let structs =
            "#[repr(C)] struct Inner { at: [u32; 2] }\n#[repr(C)] struct P { n: u32, inner: Inner, last: i32 }\n";
        let signature =
            "#[ptx_kernel(grid = p.n, requires(p.inner.at[1] > 0, p.last < 5))] fn add(x: &mut [f32], p: P);";
        let grid = |program: Program| program.modules[0].kernels[0].launch.clone().unwrap().grid.unwrap();
        let n = Expr::Field(1, Field { offset: 0, ty: Plain::Unsigned(4) });
        assert_eq!(grid(compile_ptx(&ptx, &format!("{structs}{signature}")).unwrap()), n);
        // The same where the text stands among the items of a file.
        let derived = structs.replace("#[repr(C)]", "#[derive(KernelParam)]\n#[repr(C)]");
        let file = format!("{derived}ptx! {{ {signature} {ptx} }}");
        assert_eq!(grid(super::super::compile(&file, &Default::default()).unwrap()), n);
        let unknown = compile_ptx(&ptx, signature).unwrap();
        assert!(unknown.modules[0].kernels[0].launch.as_ref().unwrap_err().message.contains("p.inner.at"));
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

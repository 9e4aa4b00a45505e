//! A whole PTX module as text: `ptx! { .version … }` at item level, and `ptx_file!("kernel.ptx")`.
//!
//! Every `.entry` becomes a launch function. A PTX parameter says how many bytes it has and not what they mean: without
//! a signature every parameter is the number of its PTX type, a pointer its address as `u64`, an array `[T; N]`. A
//! signature gives Rust types: `ptx_file!("add.ptx", #[ptx_kernel(block = 256)] pub fn add(a: &[f32], n: u32))`.

mod entry;
mod file;
mod signature;

use crate::compile::{self, Compiled};
use crate::kernel::{Launchable, Reader};
use crate::tokens::source;
use crate::{launch, report};
use proc_macro2::{Span, TokenStream};
use ptx_core::diag::codes;
use ptx_core::ir::Module;
use ptx_core::kernel::{Entry, EntryParam};
use ptx_core::token::{Kind, Source};
use quote::quote;
use signature::Signature;

pub use file::expand as expand_file;

/// Expands `ptx! { … }` where no kernel is around it.
pub fn expand(body: TokenStream) -> TokenStream {
    let (mut reader, text) = compile(Span::call_site(), body);
    let launches = text.map(|text| {
        let ptx = &text.ptx;
        launches(&mut reader, &text.module, &[], &quote!(#ptx))
    });
    let diagnostics = report::report(&reader.host, &reader.diagnostics);
    quote!(#launches #diagnostics)
}

/// A module that the user wrote whole.
pub struct Text {
    /// What it declares.
    pub module: Module,
    /// Its PTX; empty if something is wrong with it.
    pub ptx: String,
}

/// Reads the body of a `ptx! { … }`; `group` is its span. `None` if it is no module; that is reported.
pub fn compile(group: Span, body: TokenStream) -> (Reader, Option<Text>) {
    let mut reader = Reader::default();
    let (source, mut diagnostics) = source(&mut reader.host, group, body);
    reader.diagnostics.append(&mut diagnostics);
    if !is_module(&source) {
        let help = "instructions stand in a `#[ptx_kernel]` function; a whole module begins with `.version`";
        reader.error_at(&codes::P0909, source.span(0), "this `ptx!` stands in no kernel", help);
        return (reader, None);
    }
    let (checked, mut diagnostics) = compile::checked(source.clone());
    reader.diagnostics.append(&mut diagnostics);
    let ptx = checked.as_ref().map_or_else(String::new, compile::as_written);
    let module = checked.map_or_else(|| compile::declared(source), |c| c.module().clone());
    (reader, Some(Text { module, ptx }))
}

/// Whether it begins as modules do.
fn is_module(source: &Source) -> bool {
    source.tokens.first().is_some_and(|first| first.kind == Kind::Dot && source.text(0) == ".version")
}

/// The constant and the launch function of every entry. `ptx` is the text, as an expression.
fn launches(reader: &mut Reader, module: &Module, signatures: &[Signature], ptx: &TokenStream) -> TokenStream {
    let (mut entries, mut launchables): (Vec<Entry>, Vec<Launchable>) = Default::default();
    for (name, launchable) in reader.entries(module, signatures) {
        let params = (0..launchable.params.len()).map(EntryParam::Value).collect();
        entries.push(Entry { name, kernel: entries.len(), instance: None, params });
        launchables.push(launchable);
    }
    let compiled = Compiled { entries, failed: reader.failed(), ..Compiled::default() };
    launch::beside(&launchables, &compiled, &module.arch.to_string(), ptx)
}

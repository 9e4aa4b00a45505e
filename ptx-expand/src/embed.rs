//! Machine code at build time: `cubin` in the attribute, or `PTX_EMBED=always`, runs ptxas on each text of a module and
//! puts what it makes beside the PTX. The loader takes it where it fits, and the PTX elsewhere.
//!
//! A build never differs silently: a build with machine code and without ptxas is an error, and the variables that
//! decide are known to cargo, which builds again when they change.

mod ptxas;
#[cfg(test)]
mod tests;

use crate::compile::{Compiled, Text};
use crate::kernel::Reader;
use proc_macro2::{Ident, TokenStream};
use ptx_core::diag::codes;
use ptx_core::span::Span;
use ptxas::{Failure, Ptxas};
use quote::quote;

/// Value of `PTX_EMBED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// `never`: not even where the attribute has `cubin`.
    Never,
    /// Not set: where the attribute has `cubin`.
    AsAsked,
    /// `always`: every kernel.
    Always,
}

impl Wish {
    fn of(value: Option<&str>) -> Option<Wish> {
        match value {
            None | Some("") => Some(Wish::AsAsked),
            Some("never") => Some(Wish::Never),
            Some("always") => Some(Wish::Always),
            Some(_) => None,
        }
    }
}

/// The variables that decide, in the expansion, so that cargo builds again when they change.
pub fn tracked(rt: &TokenStream) -> TokenStream {
    quote!(
        const _: [#rt::core::option::Option<&#rt::core::primitive::str>; 2] =
            [#rt::core::option_env!("PTX_EMBED"), #rt::core::option_env!("PTXAS")];
    )
}

/// Adds machine code to the texts of a module, if it is wanted. `asked` is the option of the attribute, `name` stands for
/// the kernel or module where there is none.
pub fn embed(reader: &mut Reader, compiled: &mut Compiled, asked: Option<&Ident>, name: &Ident) {
    let value = std::env::var("PTX_EMBED").ok();
    let at = asked.unwrap_or(name);
    match Wish::of(value.as_deref()) {
        None => {
            let message = format!("PTX_EMBED is `{}`", value.unwrap_or_default());
            reader.error(&codes::P0913, at, message, "set it to `always` or `never`, or unset it");
        }
        Some(Wish::Always) => assemble(reader, compiled, Ptxas::find(), at),
        Some(Wish::AsAsked) if asked.is_some() => assemble(reader, compiled, Ptxas::find(), at),
        Some(Wish::Never | Wish::AsAsked) => {}
    }
    compiled.failed = reader.failed();
}

/// Runs ptxas on each text of a module without errors.
fn assemble(reader: &mut Reader, compiled: &mut Compiled, ptxas: Option<Ptxas>, at: &Ident) {
    if compiled.failed {
        return;
    }
    let Some(ptxas) = ptxas else {
        let help = "install the CUDA toolkit, or `pip install nvidia-cuda-nvcc` and set PTXAS to its ptxas; a build with \
                    PTX_EMBED=never leaves machine code out";
        return reader.error(&codes::P0913, at, "machine code is asked for, and there is no ptxas", help);
    };
    for text in &mut compiled.texts {
        match ptxas.assemble(text) {
            Ok(cubin) => text.cubin = Some(cubin),
            Err(failures) => failures.iter().for_each(|failure| refused(reader, text, failure, at)),
        }
    }
}

/// Reports an error of ptxas, on the tokens that its line of PTX comes from.
fn refused(reader: &mut Reader, text: &Text, failure: &Failure, at: &Ident) {
    let span = failure.line.and_then(|line| origin(text, line)).unwrap_or_else(|| reader.host.syntax(at));
    let message = format!("ptxas, for {}: {}", text.arch, failure.message);
    reader.error_at(&codes::P0913, span, message, "a build with PTX_EMBED=never leaves machine code out");
}

/// Origin of a line of the PTX: the span of the last listed line up to it.
fn origin(text: &Text, line: u32) -> Option<Span> {
    let after = text.lines.partition_point(|(at, _)| *at <= line);
    text.lines.get(after.checked_sub(1)?).map(|(_, span)| *span)
}

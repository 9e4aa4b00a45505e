//! The Rust that a kernel becomes: a module with its PTX as data, and a typed function that launches it.
//!
//! `ptx-launch/tests/contract.rs` is the same written by hand; `ptx_launch::expansion` is all that it calls.

mod argument;
mod data;
mod function;
mod host;
mod instances;
mod tile;

pub use argument::Passing;
pub use tile::{Map, Tile};

use crate::compile::Compiled;
use crate::kernel::Launchable;
use crate::tokens::Host;
use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;

/// A kernel with all that its Rust is made of.
pub struct Launch<'a> {
    /// What the user wrote.
    pub kernel: &'a Launchable,
    /// What the compiler made of it.
    pub compiled: &'a Compiled,
    /// Which of the compiled module's kernels it is.
    pub index: usize,
}

/// A kernel that stands alone: its module holds the PTX.
pub fn single(host: &Host, kernel: &Launchable, compiled: &Compiled) -> TokenStream {
    let launch = Launch { kernel, compiled, index: 0 };
    let texts = data::texts(host, &kernel.name.unraw().to_string(), compiled);
    let kernel = launch.data(&texts, &quote!(MODULE));
    let (function, layouts) = (launch.function(), data::layouts(compiled));
    quote!(#kernel #function #layouts)
}

/// The kernels of a module, which hold the PTX of all of them together.
pub fn several(host: &Host, name: &syn::Ident, kernels: &[Launchable], compiled: &Compiled) -> TokenStream {
    let texts = data::texts(host, &name.to_string(), compiled);
    let shared = data::shared();
    let each = kernels.iter().enumerate().map(|(index, kernel)| {
        let launch = Launch { kernel, compiled, index };
        let (kernel, function) = (launch.data(&shared, &quote!(MODULE)), launch.function());
        quote!(#kernel #function)
    });
    let layouts = data::layouts(compiled);
    quote!(#texts #(#each)* #layouts)
}

/// The entries of a PTX text, which have no module around them: the first holds what is loaded.
pub fn beside(kernels: &[Launchable], compiled: &Compiled, arch: &str, ptx: &TokenStream) -> TokenStream {
    let Some(first) = kernels.first().map(|k| &k.name) else { return quote!(const _: &str = #ptx;) };
    let each = kernels.iter().enumerate().map(|(index, kernel)| {
        let launch = Launch { kernel, compiled, index };
        let (texts, module) = match index {
            0 => (data::text(&first.unraw().to_string(), arch, ptx), quote!(MODULE)),
            _ => (data::same_text(ptx), quote!(super::#first::MODULE)),
        };
        let (kernel, function) = (launch.data(&texts, &module), launch.function());
        quote!(#kernel #function)
    });
    quote!(#(#each)*)
}

//! The Rust that a kernel becomes: a module with its PTX as data, and a typed function that launches it.
//!
//! `ptx-launch/tests/contract.rs` is the same written by hand; `ptx_launch::expansion` is all that it calls.

mod argument;
mod contract;
mod data;
mod function;
mod host;
mod instances;
mod layout;
mod named;
mod overlap;
mod shared;
mod statics;
mod tile;
mod values;

pub use data::Written;
pub use statics::Variables;

use crate::compile::Compiled;
use crate::launchable::Launchable;
use crate::report;
use crate::root::Root;
use crate::tokens::Host;
use proc_macro2::TokenStream;
use ptx_core::diag::Diagnostic;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use values::Value;

/// A kernel with all that its Rust is made of.
pub struct Launch<'a> {
    /// The user's kernel.
    pub kernel: &'a Launchable,
    /// The compiled kernel.
    pub compiled: &'a Compiled,
    /// Which of the compiled module's kernels it is.
    pub index: usize,
    /// The path to `ptx-launch`, seen from the launch function.
    pub root: &'a Root,
    /// The module that holds the variables of the kernels, seen from the launch function.
    pub statics: TokenStream,
    /// Values of the instance's constants, each in a variable.
    values: &'a [Value],
}

impl Launch<'_> {
    /// The module that the launch function calls.
    fn rt(&self) -> TokenStream {
        self.root.expansion()
    }

    /// The same, seen from the module of the kernel's name.
    fn inner_rt(&self) -> TokenStream {
        self.root.inside().expansion()
    }
}

/// A kernel that stands alone: its module holds the PTX.
pub fn single(host: &Host, kernel: &Launchable, compiled: &Compiled, root: &Root) -> TokenStream {
    let launch = Launch { kernel, compiled, index: 0, root, statics: kernel.name.to_token_stream(), values: &[] };
    let name = kernel.name.unraw().to_string();
    let texts = data::texts(host, &name.to_token_stream(), compiled, &launch.inner_rt());
    let statics = Variables { items: &[], compiled, root: &root.inside() };
    let (data, function) = (launch.data(&quote!(#texts #statics), &quote!(MODULE)), launch.function());
    let layouts = layout::assertions(std::slice::from_ref(kernel), compiled, root);
    quote!(#data #function #layouts)
}

/// The kernels of a module, which hold the PTX of all of them together. `root` is seen from this module.
pub fn several(
    host: &Host,
    (kernels, statics): (&[Launchable], &[syn::ItemStatic]),
    compiled: &Compiled,
    root: &Root,
) -> TokenStream {
    // Many modules are called `kernels`; their paths differ.
    let rt = root.expansion();
    let texts = data::texts(host, &quote!(#rt::core::module_path!()), compiled, &rt);
    let statics = Variables { items: statics, compiled, root };
    let shared = data::shared();
    let each = kernels.iter().enumerate().map(|(index, kernel)| {
        let launch = Launch { kernel, compiled, index, root, statics: quote!(self), values: &[] };
        let (data, function) = (launch.data(&shared, &quote!(MODULE)), launch.function());
        quote!(#data #function)
    });
    let layouts = layout::assertions(kernels, compiled, root);
    let scope = root.needs_scope().then(data::scope);
    quote!(#scope #texts #statics #(#each)* #layouts)
}

/// The entries of a PTX text, which have no module around them: the first holds what is loaded.
pub fn beside(kernels: &[Launchable], compiled: &Compiled, written: &Written<'_>, root: &Root) -> TokenStream {
    let (rt, ptx) = (root.expansion(), &written.constant);
    let Some(first) = kernels.first().map(|k| &k.name) else {
        return quote!(const _: &#rt::core::primitive::str = #ptx;);
    };
    let each = kernels.iter().enumerate().map(|(index, kernel)| {
        let launch = Launch { kernel, compiled, index, root, statics: quote!(self), values: &[] };
        let inner = launch.inner_rt();
        let (texts, module) = match index {
            0 => (data::text(&first.unraw().to_string(), written, &inner), quote!(MODULE)),
            _ => (data::same_text(ptx, &inner), quote!(super::#first::MODULE)),
        };
        let (data, function) = (launch.data(&texts, &module), launch.function());
        quote!(#data #function)
    });
    let layouts = layout::assertions(kernels, compiled, root);
    quote!(#(#each)* #layouts)
}

/// The launch function of a kernel whose signature has an error. The length of its parameter is a call of `compile_error!`, so the
/// compiler accepts any arguments: the error is the only one, and those who launch the kernel have none.
fn unknown_shape(
    (visibility, name, generics): (&syn::Visibility, &syn::Ident, &TokenStream),
    wrong: &TokenStream,
    result: &TokenStream,
) -> TokenStream {
    quote! {
        #[allow(missing_docs)]
        #visibility fn #name<#generics>(_: [(); #wrong]) -> #result {
            ::core::unreachable!()
        }
    }
}

/// The launch function where `ptx-launch` is missing: that error is the last of `diagnostics`.
pub fn stub(host: &Host, kernel: &Launchable, diagnostics: &[Diagnostic]) -> TokenStream {
    let wrong = diagnostics.last().map(|error| report::as_tokens(host, error));
    let result = quote!(::core::result::Result<(), ::std::boxed::Box<dyn ::std::error::Error>>);
    let generics = &kernel.generics;
    unknown_shape((&kernel.visibility, &kernel.name, &quote!(#(#generics),*)), &wrong.unwrap_or_default(), &result)
}

//! `#[ptx_kernel]` on a function that stands alone: a PTX module of one kernel.

#[cfg(test)]
mod speed;

use crate::kernel::Reader;
use crate::{compile, launch, report};
use proc_macro2::TokenStream;
use ptx_core::kernel::tree::Module;
use quote::quote;

/// Expands the attribute.
pub fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut reader = Reader::default();
    let function: syn::ItemFn = match syn::parse2(item) {
        Ok(function) => function,
        Err(error) => return report::refuse(&mut reader, &error, "`#[ptx_kernel]` stands on a function with a body"),
    };
    let mut attribute = reader.attribute(options);
    let structs = std::mem::take(&mut attribute.structs);
    reader.needs_arch(&attribute, &function.sig.ident, "kernel", r#"#[ptx_kernel(arch = "sm_80")]"#);
    let (kernel, launchable) = reader.kernel(attribute, &function);
    let (arches, version) = (kernel.options.arch.clone(), kernel.options.version);
    let modules = reader.prelude();
    let module = Module { structs, modules, kernels: vec![kernel], ..Module::default() };
    let compiled = compile::module(&mut reader, &module, &arches, version);
    // A method has no place for the module that comes with a launch function.
    let launch = function.sig.receiver().is_none().then(|| launch::single(&reader.host, &launchable, &compiled));
    let diagnostics = report::report(&reader.host, &reader.diagnostics);
    quote!(#launch #diagnostics)
}

//! `#[derive(KernelParam)]`.

use crate::kernel::Reader;
use crate::report;
use proc_macro2::TokenStream;
use ptx_core::diag::codes;
use quote::quote;

/// Expands the derive.
pub fn expand(item: TokenStream) -> TokenStream {
    let item: syn::ItemStruct = match syn::parse2(item) {
        Ok(item) => item,
        Err(error) => return report::refuse(&mut Reader::default(), &error, "it is for structs"),
    };
    let mut reader = Reader::default();
    if !is_repr_c(&item) {
        let help = "write `#[repr(C)]` in front of it: only then the layout is what the kernel's `.param` has";
        reader.error(&codes::P0912, &item.ident, "a kernel parameter needs a fixed layout", help);
    }
    if !item.generics.params.is_empty() {
        let help = "write a struct for each list of arguments";
        reader.error(&codes::P0912, &item.generics, "a kernel parameter is not generic", help);
    }
    let diagnostics = report::report(&reader.host, &reader.diagnostics, &[]);
    let implementation = reader.diagnostics.is_empty().then(|| implementation(&item));
    quote!(#implementation #diagnostics)
}

fn is_repr_c(item: &syn::ItemStruct) -> bool {
    let mut c = false;
    for attribute in item.attrs.iter().filter(|a| a.path().is_ident("repr")) {
        // What is not an option of `repr` the compiler itself reports.
        let _ = attribute.parse_nested_meta(|meta| {
            c |= meta.path.is_ident("C") || meta.path.is_ident("transparent");
            Ok(())
        });
    }
    c
}

/// The promise, and the proofs that it holds: every field is a parameter, and there is no padding.
fn implementation(item: &syn::ItemStruct) -> TokenStream {
    let (name, fields) = (&item.ident, item.fields.iter().map(|f| &f.ty).collect::<Vec<_>>());
    let padding =
        format!("`{name}` has padding: add fields for it, so that every byte that the kernel sees is initialised");
    quote! {
        // SAFETY: every field is a `KernelParam`, and there is no padding, as is asserted below.
        unsafe impl ::ptx_launch::expansion::KernelParam for #name {}
        const _: () = {
            const fn is_param<T: ::ptx_launch::expansion::KernelParam>() {}
            #(is_param::<#fields>();)*
            ::core::assert!(::core::mem::size_of::<#name>() == 0 #(+ ::core::mem::size_of::<#fields>())*, #padding);
        };
    }
}

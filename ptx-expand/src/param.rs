//! `#[derive(KernelParam)]`.

use crate::kernel::Reader;
use crate::root::{Given, Root};
use crate::{fields, report};
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
    let given = given(&mut reader, &item);
    let root = Root::or_report(given.as_ref(), &mut reader, &item.ident);
    let diagnostics = report::report(&reader.host, &reader.diagnostics, &[]);
    let implementation = root.filter(|_| reader.diagnostics.is_empty()).map(|root| implementation(&item, &root));
    let carrier = fields::carrier(&item);
    quote!(#implementation #carrier #diagnostics)
}

/// `#[kernel_param(crate = path)]`
fn given(reader: &mut Reader, item: &syn::ItemStruct) -> Option<syn::Path> {
    let attribute = item.attrs.iter().find(|a| a.path().is_ident("kernel_param"))?;
    match attribute.parse_args::<Given>() {
        Ok(Given(path)) => Some(path),
        Err(error) => {
            let help = "write `#[kernel_param(crate = path::to::ptx_launch)]`";
            reader.error(&codes::P0903, attribute, error.to_string(), help);
            None
        }
    }
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
fn implementation(item: &syn::ItemStruct, root: &Root) -> TokenStream {
    let (name, fields) = (&item.ident, item.fields.iter().map(|f| &f.ty).collect::<Vec<_>>());
    let padding =
        format!("`{name}` has padding: add fields for it, so that every byte that the kernel sees is initialized");
    let (rt, core) = (root.expansion(), quote!(#root::expansion::core));
    quote! {
        // SAFETY: every field is a `KernelParam`, and there is no padding, as is asserted below.
        unsafe impl #rt::KernelParam for #name {}
        const _: () = {
            const fn is_param<T: #rt::KernelParam>() {}
            #(is_param::<#fields>();)*
            #core::assert!(#core::mem::size_of::<#name>() == 0 #(+ #core::mem::size_of::<#fields>())*, #padding);
        };
    }
}

//! Assertions that the types of a signature are in Rust what the kernel takes them for.

use super::Launch;
use super::argument::absolute;
use super::function::written;
use crate::argument::{Argument, Passing, bare, is_builtin_name};
use crate::compile::Compiled;
use crate::launchable::Launchable;
use crate::root::Root;
use crate::tokens::{contains_ident, joined};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use ptx_language::StructLayout;
use quote::{ToTokens, quote};
use syn::{GenericParam, Type};

/// The assertions for kernels that stand side by side.
pub fn assertions(kernels: &[Launchable], compiled: &Compiled, root: &Root) -> TokenStream {
    let structs = joined(compiled.structs.iter().map(|layout| of_struct(layout, kernels, root)));
    let sizes = kernels.iter().enumerate().map(|(index, kernel)| {
        let launch = Launch { kernel, compiled, index, root, statics: TokenStream::new(), values: &[] };
        let entry = launch.entry(kernel.generics.first().map(|_| 0));
        launch.sizes(&entry, &|ty| !launch.is_generic(ty), root)
    });
    quote!(#structs #(#sizes)*)
}

impl Launch<'_> {
    /// Assertions of the sizes of what is passed by value, where `when` holds for its type. The kernel's own types have theirs.
    pub fn sizes(&self, entry: &str, when: &dyn Fn(&Type) -> bool, root: &Root) -> TokenStream {
        let rt = root.expansion();
        let assertion = |(argument, size): (&Argument, u64)| match argument.passing() {
            Passing::Value(ty) if when(&ty) && !is_builtin(&ty) => {
                let (ty, bytes) = (absolute(&ty, root), Literal::u64_unsuffixed(size));
                let message = format!("`{}` has {size} bytes in the kernel, and its type has not", argument.name);
                Some(quote! {
                    #[allow(unused_qualifications)]
                    const _: () = #rt::core::assert!(#rt::core::mem::size_of::<#ty>() == #bytes, #message);
                })
            }
            _ => None,
        };
        joined(self.argument_sizes(entry).into_iter().filter_map(assertion))
    }

    /// A type contains a parameter of a generic kernel.
    pub fn is_generic(&self, ty: &Type) -> bool {
        self.kernel.generics.iter().any(|generic| match generic {
            GenericParam::Type(generic) => contains_ident(ty.to_token_stream(), &generic.ident),
            GenericParam::Const(generic) => contains_ident(ty.to_token_stream(), &generic.ident),
            GenericParam::Lifetime(_) => false,
        })
    }
}

fn is_builtin(ty: &Type) -> bool {
    matches!(bare(ty), Type::Path(path) if path.path.get_ident().is_some_and(is_builtin_name))
}

/// That a struct has the kernel's layout, by each path that a signature has for it.
fn of_struct(layout: &StructLayout, kernels: &[Launchable], root: &Root) -> TokenStream {
    let mut paths: Vec<syn::Path> = Vec::new();
    for argument in kernels.iter().flat_map(|kernel| &kernel.params) {
        if let Passing::Read(ty) | Passing::Write(ty) | Passing::Value(ty) = argument.passing() {
            named(&ty, &layout.name, &mut paths);
        }
    }
    if paths.is_empty() {
        paths.push(Ident::new(&layout.name, Span::call_site()).into());
    }
    joined(paths.iter().map(|path| of_path(path, layout, root)))
}

/// The paths in a type that end in a name, each once.
fn named(ty: &Type, name: &str, paths: &mut Vec<syn::Path>) {
    match bare(ty) {
        Type::Path(path) => {
            let is_it = path.path.segments.last().is_some_and(|last| last.ident == name);
            let text = |path: &syn::Path| path.to_token_stream().to_string();
            if is_it && !paths.iter().any(|known| text(known) == text(&path.path)) {
                paths.push(path.path.clone());
            }
        }
        Type::Array(array) => named(&array.elem, name, paths),
        Type::Tuple(tuple) => tuple.elems.iter().for_each(|elem| named(elem, name, paths)),
        _ => {}
    }
}

fn of_path(path: &syn::Path, layout: &StructLayout, root: &Root) -> TokenStream {
    let rt = root.expansion();
    let (size, align) = (Literal::u64_unsuffixed(layout.size), Literal::u64_unsuffixed(layout.align));
    let offsets = layout.offsets.iter().map(|(field, offset)| {
        let (field, offset) = (written(field), Literal::u64_unsuffixed(*offset));
        quote!(&& #rt::core::mem::offset_of!(#path, #field) == #offset)
    });
    let name = &layout.name;
    let message = format!("`{name}` is not laid out as the kernel takes it: are the fields those that it was told?");
    quote! {
        const _: () = #rt::core::assert!(
            #rt::core::mem::size_of::<#path>() == #size && #rt::core::mem::align_of::<#path>() == #align #(#offsets)*,
            #message
        );
    }
}

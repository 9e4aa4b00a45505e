//! Generic kernels: one type for each list of arguments, and a trait that only those of `instances` have.

use super::Launch;
use super::argument::{absolute, located};
use crate::root::Root;
use crate::tokens::joined;
use proc_macro2::{Delimiter, Group, Ident, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::GenericParam;

impl<'a> Launch<'a> {
    /// `NAME::Instance<…>`, for a generic kernel.
    pub fn instance_type(&self) -> Option<TokenStream> {
        let (name, args) = (&self.kernel.name, self.generic_names());
        (!args.is_empty()).then(|| quote!(#name::Instance<#(#args),*>))
    }

    /// The launch function's generic parameters and its `where` clause.
    pub fn generics(&self) -> (Option<TokenStream>, Option<TokenStream>) {
        let Some(instance) = self.instance_type() else { return (None, None) };
        let (name, declared) = (&self.kernel.name, self.declared(self.root));
        let types = self.type_bounds();
        // On the kernel's name, for the compiler's notes.
        let exists = quote_spanned!(name.span()=> #instance: #name::Exists);
        (Some(quote!(<#(#declared),*>)), Some(quote!(where #types #exists)))
    }

    /// The instances of a generic kernel.
    pub fn instances(&self, module: &TokenStream) -> TokenStream {
        let (rt, declared, types) = (self.inner_rt(), self.declared(&self.root.inside()), self.types());
        let message = format!("the kernel `{}` has no instance with these arguments", self.kernel.name);
        let label = format!("the instances are {}", self.listed());
        let fits = |(_, args): &(usize, &Vec<syn::Expr>)| {
            args.len() == self.kernel.generics.len() && self.kernel.generics.iter().zip(*args).all(is_of_kind)
        };
        let all =
            self.kernel.instances.iter().enumerate().filter(fits).map(|(at, args)| self.instance(at, args, module));
        // On the kernel's name, for the compiler's notes; which lets the lints of the user's code see it.
        let located = located(&rt, self.kernel.name.span());
        let instance = quote_spanned! {self.kernel.name.span()=>
            pub struct Instance<#(#declared),*>(#located::core::marker::PhantomData<(#(#types,)*)>);
        };
        quote! {
            /// The instance with these arguments.
            #[allow(unreachable_pub, unused_qualifications)]
            #instance
            /// The kernel of an instance that exists.
            #[diagnostic::on_unimplemented(
                message = #message,
                label = #label,
                note = "add it to `instances` in the kernel's attribute"
            )]
            pub trait Exists: sealed::Sealed {
                /// Its kernel.
                fn kernel() -> &'static #rt::Kernel;
            }
            /// Nobody outside of this module adds an instance.
            mod sealed {
                #[allow(unreachable_pub, missing_docs)]
                pub trait Sealed {}
            }
            #(#all)*
        }
    }

    fn instance(&self, at: usize, args: &[syn::Expr], module: &TokenStream) -> TokenStream {
        // On the arguments as they are written, for the compiler's list of those that exist.
        let written = joined(args.iter().map(ToTokens::to_token_stream));
        let (first, last) = crate::tokens::ends(&written);
        let (rt, inside) = (self.inner_rt(), self.root.inside());
        let kernel = self.instance_kernel(at, module);
        let name = static_name(at);
        let args: Vec<_> = args.iter().map(|arg| generic_arg(arg, &inside)).collect();
        let head = quote_spanned!(first=> impl Exists for);
        let this = quote_spanned!(last=> Instance<#(#args),*>);
        let mut body = Group::new(Delimiter::Brace, quote!(fn kernel() -> &'static #rt::Kernel { &#name }));
        body.set_span(last);
        let sealed = quote!(impl sealed::Sealed for Instance<#(#args),*> {});
        quote!(#kernel #sealed #[allow(unused_qualifications)] #head #this #body)
    }

    /// The kernel of an instance: a static in the module of the kernel's name. No constant holds it: up to Rust 1.89 a constant has no
    /// reference to a static that changes.
    pub fn instance_kernel(&self, at: usize, module: &TokenStream) -> TokenStream {
        let (rt, inside) = (self.inner_rt(), self.root.inside());
        let args: Vec<_> =
            self.kernel.instances.get(at).into_iter().flatten().map(|arg| generic_arg(arg, &inside)).collect();
        let entry = self.entry(Some(at));
        let sizes = self.sizes(&entry, &|ty| self.is_generic(ty), &inside);
        let kernel = self.kernel_value(&entry, module);
        let names = self.kernel.generics.iter().zip(&args).map(|(generic, arg)| match generic {
            GenericParam::Const(generic) => {
                let (name, ty) = (&generic.ident, absolute(&generic.ty, &inside));
                quote!(const #name: #ty = #arg;)
            }
            GenericParam::Type(generic) => {
                let name = &generic.ident;
                quote!(type #name = #arg;)
            }
            GenericParam::Lifetime(_) => quote!(),
        });
        let name = static_name(at);
        let claims = self.claims(Some(at));
        quote! {
            #[allow(unused_qualifications)]
            static #name: #rt::Kernel = {
                #(#[allow(dead_code)] #names)*
                #sizes
                #claims
                #kernel
            };
        }
    }

    /// The bounds of the type parameters.
    pub fn type_bounds(&self) -> TokenStream {
        let rt = self.rt();
        let bound = |t: &Ident| {
            let mapped = self.is_mapped(t).then(|| quote!(+ #rt::TensorElement));
            quote!(#t: #rt::KernelParam #mapped,)
        };
        joined(self.types().map(bound))
    }

    /// `<3>`, `<4>`
    pub fn listed(&self) -> String {
        let one = |(at, args): (usize, &Vec<syn::Expr>)| {
            let args: Vec<_> = args.iter().map(|a| a.to_token_stream().to_string()).collect();
            match self.kernel.names.get(at) {
                Some(name) => format!("`{name} = ({})`", args.join(", ")),
                None => format!("`<{}>`", args.join(", ")),
            }
        };
        self.kernel.instances.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
    }

    /// The generic parameters as a type or a function declares them.
    fn declared(&self, root: &Root) -> Vec<TokenStream> {
        let declare = |generic: &GenericParam| match generic {
            GenericParam::Const(generic) => {
                let (name, ty) = (&generic.ident, absolute(&generic.ty, root));
                Some(quote!(const #name: #ty))
            }
            GenericParam::Type(generic) => Some(generic.ident.to_token_stream()),
            GenericParam::Lifetime(_) => None,
        };
        self.kernel.generics.iter().filter_map(declare).collect()
    }

    fn generic_names(&self) -> Vec<&'a Ident> {
        let name = |generic: &'a GenericParam| match generic {
            GenericParam::Const(generic) => Some(&generic.ident),
            GenericParam::Type(generic) => Some(&generic.ident),
            GenericParam::Lifetime(_) => None,
        };
        self.kernel.generics.iter().filter_map(name).collect()
    }

    pub fn types(&self) -> impl Iterator<Item = &Ident> {
        self.kernel.generics.iter().filter_map(|generic| match generic {
            GenericParam::Type(generic) => Some(&generic.ident),
            _ => None,
        })
    }
}

/// The name of the static with the kernel of an instance.
pub fn static_name(at: usize) -> Ident {
    format_ident!("KERNEL_{at}")
}

/// Returns true if a parameter can have this argument: no number is a type. The other way round, a path may be
/// either.
fn is_of_kind((generic, argument): (&GenericParam, &syn::Expr)) -> bool {
    !(matches!(generic, GenericParam::Type(_)) && matches!(argument, syn::Expr::Lit(_) | syn::Expr::Unary(_)))
}

/// An argument as it stands in `< >`: a name alone, anything else in braces.
pub fn generic_arg(value: &syn::Expr, root: &Root) -> TokenStream {
    match value {
        syn::Expr::Path(path) => {
            let ty = syn::TypePath { qself: None, path: path.path.clone() };
            absolute(&syn::Type::Path(ty), root).into_token_stream()
        }
        syn::Expr::Lit(_) | syn::Expr::Block(_) => value.to_token_stream(),
        other => quote!({ #other }),
    }
}

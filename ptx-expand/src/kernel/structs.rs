//! Structs of arguments: a kernel takes the struct, its entry and the driver the fields.

use super::{Reader, is_for_tools, parameter_attributes};
use crate::argument::{Argument, OURS, bare};
use crate::tokens::local;
use proc_macro2::{Ident, TokenStream, TokenTree};
use ptx_core::diag::codes;
use ptx_language::tree::Param;
use quote::{ToTokens, quote};
use std::ops::Range;
use syn::ext::IdentExt;
use syn::{FnArg, ItemStruct, Type};

/// The structs of arguments of a module.
#[derive(Default)]
pub struct Structs(Vec<ItemStruct>);

/// A parameter that is such a struct.
pub struct Taken {
    /// Its name.
    pub name: Ident,
    /// The name of the struct.
    pub ty: Ident,
    /// The names of its fields.
    pub fields: Vec<Ident>,
    /// The numbers of the fields among the parameters of the kernel.
    pub numbers: Range<usize>,
}

/// The parameters of a kernel.
#[derive(Default)]
pub struct Signature {
    /// For the tree.
    pub params: Vec<Param>,
    /// For the host, with the fields of structs in place of the structs.
    pub arguments: Vec<Argument>,
    /// The structs among them.
    pub structs: Vec<Taken>,
}

impl Structs {
    /// The structs among the items of a module that a kernel can only take as its fields: those that the host does not have, and those that hold memory, a
    /// tensor map or a texture.
    pub fn of_items<'a>(items: impl IntoIterator<Item = &'a syn::Item>) -> Structs {
        let structs = items.into_iter().filter_map(|item| match item {
            syn::Item::Struct(item) if !is_for_the_host(item) || has_arguments(item) => Some(item.clone()),
            _ => None,
        });
        Structs(structs.collect())
    }

    /// The struct of this name.
    pub fn find(&self, name: &Ident) -> Option<&ItemStruct> {
        self.0.iter().find(|item| item.ident == *name)
    }

    /// The structs as the host has them. The launch function decides the types of the fields.
    pub fn definitions(&self, taken: &[&Taken], core: &TokenStream) -> TokenStream {
        let taken = self.0.iter().filter(|item| taken.iter().any(|taken| taken.ty == item.ident));
        taken.map(|item| definition(item, core)).collect()
    }
}

/// Returns true if a struct exists on the host too: it is visible there, or has an attribute for Rust.
pub fn is_for_the_host(item: &ItemStruct) -> bool {
    let private = matches!(item.vis, syn::Visibility::Inherited);
    let device = |attribute: &syn::Attribute| is_for_tools(attribute) || attribute.path().is_ident("align");
    !private || !item.attrs.iter().all(device)
}

fn has_arguments(item: &ItemStruct) -> bool {
    item.fields.iter().any(|field| match bare(&field.ty) {
        Type::Reference(reference) => matches!(bare(&reference.elem), Type::Slice(_)),
        Type::Path(path) => path.path.segments.last().is_some_and(|last| OURS.iter().any(|ours| last.ident == ours)),
        _ => false,
    })
}

fn definition(item: &ItemStruct, core: &TokenStream) -> TokenStream {
    let name = &item.ident;
    let fields = item.fields.iter().filter_map(|field| {
        let name = field.ident.as_ref()?;
        Some((name, quote::format_ident!("{}", camel_case(&name.unraw().to_string())), docs(&field.attrs)))
    });
    let fields: Vec<_> = fields.collect();
    let types = fields.iter().map(|(_, ty, _)| ty);
    let declared = fields.iter().map(|(name, ty, docs)| quote!(#(#docs)* pub #name: #ty));
    let docs = docs(&item.attrs);
    let visibility = match &item.vis {
        syn::Visibility::Inherited => quote!(pub),
        written => written.to_token_stream(),
    };
    quote! {
        #(#docs)*
        #[allow(missing_docs, unreachable_pub)]
        #[derive(#core::clone::Clone, #core::marker::Copy, #core::fmt::Debug)]
        #visibility struct #name<#(#types),*> { #(#declared),* }
    }
}

/// The attributes for Rust's tools.
fn docs(attributes: &[syn::Attribute]) -> Vec<&syn::Attribute> {
    attributes.iter().filter(|attribute| is_for_tools(attribute)).collect()
}

/// `q_map` as `QMap`.
fn camel_case(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>()).unwrap_or_default()
    };
    name.split('_').map(word).collect()
}

impl Reader {
    /// The parameters of a kernel.
    pub fn signature<'a>(&mut self, inputs: impl IntoIterator<Item = &'a FnArg>) -> Signature {
        let mut signature = Signature::default();
        for input in inputs {
            let Some((mut param, argument)) = self.param(input) else { continue };
            match self.fields(&argument.ty) {
                Some((ty, fields)) => {
                    for attribute in parameter_attributes(input).iter().filter(|a| !is_for_tools(a)) {
                        self.attribute_without_meaning(attribute, "write it on a field of the struct");
                    }
                    let start = signature.arguments.len();
                    param.fields = self.field_params(&argument.name, &fields, &mut signature.arguments);
                    let fields = fields.into_iter().filter_map(|field| field.ident).collect();
                    let numbers = start..signature.arguments.len();
                    signature.structs.push(Taken { name: argument.name, ty, fields, numbers });
                }
                None => signature.arguments.push(argument),
            }
            signature.params.push(param);
        }
        signature
    }

    /// The name and the fields of a struct of arguments, with the generic arguments of its type.
    fn fields(&self, ty: &Type) -> Option<(Ident, Vec<syn::Field>)> {
        let Type::Path(path) = bare(ty) else { return None };
        let segment = path.path.segments.first().filter(|_| path.path.segments.len() == 1)?;
        let item = self.structs.find(&segment.ident)?;
        let given: Vec<TokenStream> = match &segment.arguments {
            syn::PathArguments::AngleBracketed(given) => given.args.iter().map(ToTokens::to_token_stream).collect(),
            _ => Vec::new(),
        };
        let names = item.generics.params.iter().map(|param| match param {
            syn::GenericParam::Type(param) => &param.ident,
            syn::GenericParam::Const(param) => &param.ident,
            syn::GenericParam::Lifetime(param) => &param.lifetime.ident,
        });
        let generics: Vec<(&Ident, TokenStream)> = names.zip(given).collect();
        let field = |field: &syn::Field| {
            let ty = syn::parse2(replaced(field.ty.to_token_stream(), &generics)).ok()?;
            let mut attrs = field.attrs.clone();
            for attribute in &mut attrs {
                if let syn::Meta::List(list) = &mut attribute.meta {
                    list.tokens = replaced(list.tokens.clone(), &generics);
                }
            }
            Some(syn::Field { ty, attrs, ..field.clone() })
        };
        Some((item.ident.clone(), item.fields.iter().filter_map(field).collect()))
    }

    /// The fields as parameters of the entry.
    fn field_params(&mut self, of: &Ident, fields: &[syn::Field], arguments: &mut Vec<Argument>) -> Vec<Param> {
        let mut params = Vec::with_capacity(fields.len());
        for field in fields {
            let Some(name) = &field.ident else { continue };
            let (attrs, ty): (Vec<_>, _) =
                (field.attrs.iter().filter(|a| !is_for_tools(a)).cloned().collect(), &field.ty);
            if let Some(tma) = attrs.iter().find(|attribute| attribute.path().is_ident("tma")) {
                let help = "a tile with a tensor map is a parameter of its own";
                self.error(&codes::P0851, tma, "`#[tma]` has no meaning on a field", help);
            }
            let input: FnArg = syn::parse_quote!(#(#attrs)* #name: #ty);
            let Some((param, argument)) = self.param(&input) else { continue };
            params.push(param);
            arguments.push(Argument {
                name: local(&format!("{}_{}", of.unraw(), name.unraw())),
                text: format!("{}.{}", of.unraw(), name.unraw()),
                ..argument
            });
        }
        params
    }
}

/// Tokens with generic arguments in place of their parameters.
fn replaced(tokens: TokenStream, generics: &[(&Ident, TokenStream)]) -> TokenStream {
    let replace = |tree: TokenTree| match tree {
        TokenTree::Ident(name) => match generics.iter().find(|(generic, _)| **generic == name) {
            Some((_, argument)) => argument.clone(),
            None => TokenTree::from(name).into(),
        },
        TokenTree::Group(group) => {
            let mut inner = proc_macro2::Group::new(group.delimiter(), replaced(group.stream(), generics));
            inner.set_span(group.span());
            TokenTree::from(inner).into()
        }
        other => other.into(),
    };
    tokens.into_iter().map(replace).collect()
}

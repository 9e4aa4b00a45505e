//! `#[derive(Args)]`: the fields of a struct as parameters of the functions that take it.

use crate::emit::emit_part;
use crate::item::param_of;
use crate::options::Options;
use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Fields, GenericParam, Generics, Ident, Item, Lifetime, LifetimeParam, Path, Result, Token,
    parse_quote,
};

pub(crate) fn derive(item: TokenStream) -> Result<TokenStream> {
    let item = match syn::parse2(item)? {
        Item::Struct(item) => item,
        other => return Err(Error::new(other.span(), "expected a struct")),
    };
    let Fields::Named(fields) = &item.fields else {
        return Err(Error::new(item.fields.span(), "expected fields with names, which Python sees"));
    };
    let types: Vec<Ident> = item.generics.type_params().map(|param| param.ident.clone()).collect();
    let (mut parts, mut names, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for (field, name) in fields.named.iter().filter_map(|field| Some((field, field.ident.as_ref()?))) {
        parts.push(emit_part(&types, &[], &param_of(name, &field.ty, false)?, &Options::default()));
        names.push(name);
        counts.push(&field.ty);
    }
    let (root, name, (own, arguments, _)) = (root_of(&item.attrs)?, &item.ident, item.generics.split_for_impl());
    let (generics, lifetime) = with_lifetime(&item.generics, &types);
    let (all, _, bounds) = generics.split_for_impl();
    Ok(quote! {
        const _: () = {
            use #root::rt as __rt;

            impl #own __rt::Args for #name #arguments #bounds {
                const PARTS: &'static [__rt::Part] = &[#(#parts),*];
            }

            impl #all __rt::FromArg<#lifetime> for #name #arguments #bounds {
                const COUNT: usize = 0 #(+ <#counts as __rt::FromArg<#lifetime>>::COUNT)*;

                fn from_arg(call: &__rt::Call<#lifetime>, mut at: usize) -> __rt::Result<Self> {
                    ::core::result::Result::Ok(Self { #(#names: __rt::next(call, &mut at)?),* })
                }
            }
        };
    })
}

/// The struct's parameters with the lifetime of a call, which is its own where it has one, and with bounds on the elements.
fn with_lifetime(generics: &Generics, types: &[Ident]) -> (Generics, Lifetime) {
    let mut generics = generics.clone();
    let own = generics.lifetimes().next().map(|param| param.lifetime.clone());
    let lifetime = own.unwrap_or_else(|| {
        let lifetime = Lifetime::new("'call", proc_macro2::Span::call_site());
        generics.params.insert(0, GenericParam::Lifetime(LifetimeParam::new(lifetime.clone())));
        lifetime
    });
    let bounds = &mut generics.make_where_clause().predicates;
    bounds.extend(types.iter().map(|name| -> syn::WherePredicate { parse_quote!(#name: __rt::Dtype) }));
    (generics, lifetime)
}

/// The path of `ptx-ffi`: `#[args(crate = path)]`, or its name.
fn root_of(attributes: &[Attribute]) -> Result<Path> {
    let mut root = parse_quote!(::ptx_ffi);
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("args")) {
        attribute.parse_args_with(|input: syn::parse::ParseStream<'_>| {
            input.parse::<Token![crate]>()?;
            input.parse::<Token![=]>()?;
            root = input.call(Path::parse_mod_style)?;
            Ok(())
        })?;
    }
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::derive;
    use quote::quote;

    #[test]
    fn structs_without_names_are_refused() {
        for (item, start) in [
            (
                quote!(
                    enum E {
                        A,
                    }
                ),
                "expected a struct",
            ),
            (
                quote!(
                    struct S<'a>(TensorRef<'a, f32, 1>);
                ),
                "expected fields with names",
            ),
            (
                quote!(
                    struct S {
                        x: [f32; 2],
                    }
                ),
                "expected TensorRef, TensorMut",
            ),
            (
                quote!(
                    struct S {
                        x: Option<Other>,
                    }
                ),
                "expected TensorRef, TensorMut",
            ),
            (
                quote!(
                    #[args(path = x)]
                    struct S {
                        x: f32,
                    }
                ),
                "expected `crate`",
            ),
        ] {
            let message = derive(item).err().map_or(String::new(), |error| error.to_string());
            assert!(message.starts_with(start), "{message}");
        }
        let item = quote!(
            #[args(crate = engine::ptx_ffi)]
            struct S<'a, T> {
                x: TensorRef<'a, T, 1>,
                more: Other,
            }
        );
        let text = derive(item).map(|tokens| tokens.to_string()).unwrap_or_default();
        assert!(text.contains("use engine :: ptx_ffi :: rt as __rt") && text.contains("T : __rt :: Dtype"), "{text}");
    }
}

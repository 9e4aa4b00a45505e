//! The path by which generated code reaches `ptx-launch`: the one that `crate = path` gives, else the name that the package's
//! manifest has for it.

mod manifest;

use manifest::Dependency;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::Token;
use syn::parse::{Parse, ParseStream};

/// A path to `ptx-launch` that holds where a kernel stands.
#[derive(Clone)]
pub struct Root(syn::Path);

impl Root {
    /// The path that the user gives, or the name of the dependency; `None` if the package has no such dependency.
    pub fn find(given: Option<&syn::Path>) -> Option<Root> {
        match given {
            Some(path) => Some(Root(path.clone())),
            None => Root::dependency(manifest::dependency()),
        }
    }

    fn dependency(dependency: Dependency) -> Option<Root> {
        let Dependency::Named(name) = dependency else { return None };
        let name = Ident::new(&name, Span::call_site());
        Some(Root(syn::parse_quote!(::#name)))
    }

    /// The module that generated code calls.
    pub fn expansion(&self) -> TokenStream {
        let path = &self.0;
        quote!(#path::expansion)
    }

    /// The same path, seen from a module beside the kernel.
    pub fn inside(&self) -> Root {
        let mut path = self.0.clone();
        let first = self.first();
        if first == "super" {
            path.segments.insert(0, syn::PathSegment::from(Ident::new("super", Span::call_site())));
        } else if first == "self"
            && let Some(segment) = path.segments.first_mut()
        {
            segment.ident = Ident::new("super", segment.ident.span());
        }
        Root(path)
    }

    /// A module beside the kernel needs the names around it to find the path.
    pub fn needs_scope(&self) -> bool {
        self.0.leading_colon.is_none() && !matches!(self.first().as_str(), "crate" | "$crate" | "self" | "super")
    }

    fn first(&self) -> String {
        self.0.segments.first().map(|segment| segment.ident.to_string()).unwrap_or_default()
    }
}

impl ToTokens for Root {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.0.to_tokens(tokens);
    }
}

/// `crate = path`
pub struct Given(pub syn::Path);

impl Given {
    /// The input starts with it.
    pub fn is_next(input: ParseStream<'_>) -> bool {
        input.peek(Token![crate]) && input.peek2(Token![=])
    }
}

impl Parse for Given {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        input.parse::<Token![crate]>()?;
        input.parse::<Token![=]>()?;
        input.call(syn::Path::parse_mod_style).map(Given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(path: &syn::Path) -> [String; 2] {
        let root = Root(path.clone());
        [root.inside().to_token_stream(), root.inside().inside().to_token_stream()]
            .map(|tokens| tokens.to_string().replace(' ', ""))
    }

    #[test]
    fn modules_beside_the_kernel_find_the_same() {
        assert_eq!(paths(&syn::parse_quote!(::gpu)), ["::gpu"; 2]);
        assert_eq!(paths(&syn::parse_quote!(crate::gpu)), ["crate::gpu"; 2]);
        assert_eq!(paths(&syn::parse_quote!(gpu)), ["gpu"; 2]);
        assert_eq!(paths(&syn::parse_quote!(self::gpu)), ["super::gpu", "super::super::gpu"]);
        assert_eq!(paths(&syn::parse_quote!(super::gpu)), ["super::super::gpu", "super::super::super::gpu"]);
    }
}

//! The `static`s of a module: variables that the host reads and writes, and whose uses by launches are ordered.

use super::Launch;
use super::function::written;
use crate::compile::Compiled;
use crate::kernel::is_for_tools;
use crate::root::Root;
use crate::tokens::joined;
use crate::tokens::local;
use proc_macro2::{Ident, Literal, Span, TokenStream};
use ptx_core::isa::Type;
use ptx_language::StaticVariable;
use quote::{ToTokens, quote};
use syn::ItemStatic;
use syn::ext::IdentExt;

/// The `static`s that the host has: those that say `pub`, and those that kernels write.
pub struct Variables<'a> {
    /// As written.
    pub items: &'a [ItemStatic],
    /// The compiled module.
    pub compiled: &'a Compiled,
    /// The path to `ptx-launch`, seen from the module.
    pub root: &'a Root,
}

impl Variables<'_> {
    fn definition(&self, item: &ItemStatic) -> Option<TokenStream> {
        let name = item.ident.unraw().to_string();
        let is_it = |variable: &&StaticVariable| variable.shared && variable.name.as_ref() == Some(&name);
        let variable = self.compiled.statics.iter().find(is_it)?;
        let mutable = matches!(item.mutability, syn::StaticMutability::Mut(_));
        let kept = |a: &&syn::Attribute| is_for_tools(a) || a.path().is_ident("cfg") || a.path().is_ident("cfg_attr");
        let (attributes, visibility, name) = (item.attrs.iter().filter(kept), &item.vis, &item.ident);
        let has_docs = item.attrs.iter().any(|a| a.path().is_ident("doc"));
        let own = (!has_docs).then(|| format!("The variable `{name}` of these kernels."));
        let own = own.map(|own| quote!(#[doc = #own]));
        let defined = self.defined(variable, name, mutable);
        Some(quote! {
            #own
            #(#attributes)*
            #[allow(dead_code)]
            #visibility #defined
        })
    }

    fn defined(&self, variable: &StaticVariable, name: &Ident, mutable: bool) -> TokenStream {
        let (rt, ty, symbol) = (self.root.expansion(), host_type(variable, self.root), &variable.symbol);
        quote!(static #name: #rt::Static<#ty> = #rt::Static::new(&MODULE, #symbol, #mutable);)
    }

    /// A variable of a body, which the host has for the order of launches alone.
    fn hidden(&self, (at, variable): (usize, &StaticVariable)) -> Option<TokenStream> {
        let defined = self.defined(variable, &hidden_name(at), true);
        (variable.shared && variable.name.is_none()).then(|| quote!(#[doc(hidden)] pub(super) #defined))
    }
}

impl ToTokens for Variables<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(joined(self.items.iter().filter_map(|item| self.definition(item))));
        tokens.extend(joined(self.compiled.statics.iter().enumerate().filter_map(|variable| self.hidden(variable))));
    }
}

impl Launch<'_> {
    /// Orders this launch among the uses of the variables that the host may write, or kernels do.
    pub fn static_bindings(&self, stream: &Ident) -> TokenStream {
        let rt = self.rt();
        let uses = |(_, variable): &(usize, &StaticVariable)| {
            variable.shared && self.compiled.used_by(self.index).any(|used| used.names.contains(&variable.symbol))
        };
        let of_module = self.compiled.statics.iter().enumerate().filter(uses);
        let bindings = of_module.map(|(at, variable)| {
            let (bound, home) = (local(&format!("_static_{at}")), &self.statics);
            let name = variable.name.as_ref().map_or_else(|| hidden_name(at), |name| written(name));
            quote!(let #bound = #rt::Static::bind(&#home::#name, #stream)?;)
        });
        joined(bindings)
    }
}

fn hidden_name(at: usize) -> Ident {
    Ident::new(&format!("STATIC_{at}"), Span::call_site())
}

/// The type of Rust with the bits of a variable.
fn host_type(variable: &StaticVariable, root: &Root) -> TokenStream {
    let element = element_type(variable.element, root);
    variable.dims.iter().rev().fold(element, |inner, len| {
        let len = Literal::u64_unsuffixed(*len);
        quote!([#inner; #len])
    })
}

fn element_type(ty: Type, root: &Root) -> TokenStream {
    const OURS: [&str; 4] = ["f16", "bf16", "f16x2", "bf16x2"];
    let ident = |name: &str| Ident::new(name, Span::call_site());
    let (name, rt) = (ty.name(), root.expansion());
    if OURS.contains(&name) {
        let name = ident(name);
        return quote!(#root::prelude::#name);
    }
    let signed = name.strip_prefix('s').filter(|bits| bits.parse::<u32>().is_ok());
    let primitive = match (name, signed) {
        ("f32" | "f64", _) => name.to_owned(),
        (_, Some(bits)) => format!("i{bits}"),
        // Untyped bits and packed small floats.
        _ => format!("u{}", 8 * ty.bytes()),
    };
    let primitive = ident(&primitive);
    quote!(#rt::core::primitive::#primitive)
}

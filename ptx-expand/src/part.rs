//! `#[ptx_part]`: items of kernel modules in files of their own.
//!
//! The attribute leaves a `macro_rules!` of the part's name, which hands the items over as that of a struct does with its fields (`fields`). A module
//! with `parts(name)` calls it, and goes on in `resume` with these items behind its own.

use crate::fields::{List, ask};
use crate::kernel::Reader;
use crate::report;
use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use ptx_core::diag::codes;
use quote::{format_ident, quote};

/// Expands the attribute: the macro that passes the items on.
pub fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut reader = Reader::default();
    if !options.is_empty() {
        let help = "write `#[ptx_part]`; the module that names the part has the options";
        reader.error(&codes::P0903, &options, "a part has no options", help);
    }
    let part: syn::ItemMod = match syn::parse2(item.clone()) {
        Ok(part) => part,
        Err(error) => {
            let help = report::kind_or_syntax(&item, "mod", "`#[ptx_part]` stands on a module", &error);
            return report::refuse(&mut reader, &error, help);
        }
    };
    let Some(items) = body(&item) else {
        reader.error(&codes::P0907, &part, "the part has no body", "write its items in braces here");
        return report::report(&reader.host, &reader.diagnostics, &[]);
    };
    let diagnostics = report::report(&reader.host, &reader.diagnostics, &[]);
    let (name, at, items) = (&part.ident, part.ident.span().start(), items.stream());
    let own = format_ident!("__ptx_part_{}_{}_{}", name, at.line, at.column, span = Span::call_site());
    quote! {
        #diagnostics
        #[doc(hidden)]
        #[allow(unused_macros)]
        macro_rules! #own {
            ({ $($resume:tt)* } $($attribute:tt)*) => { $($resume)* ! { $($attribute)* { #items } } };
        }
        #[doc(hidden)]
        #[allow(unused_imports)]
        pub(crate) use #own as #name;
    }
}

/// The call of the macro of the first part among the options, if there is one.
pub fn request(options: &TokenStream, item: &TokenStream) -> Option<TokenStream> {
    ask(&first(options)?, "part", options, item)
}

/// The path of the first part among the options.
pub fn first(options: &TokenStream) -> Option<syn::Path> {
    Some(List::of(options, "parts")?.first_path()?.path)
}

/// The options without their first part.
pub fn without_first(options: TokenStream) -> TokenStream {
    let Some(parts) = List::of(&options, "parts") else { return options };
    let Some(mut entry) = parts.first_path() else { return options };
    entry.end += 1; // the comma, which every entry has
    parts.replace(&entry, Vec::new(), options)
}

/// A module with more items.
pub fn with_items(module: TokenStream, items: &Group) -> TokenStream {
    let Some(own) = body(&module) else { return module };
    let mut all = Group::new(Delimiter::Brace, own.stream().into_iter().chain(items.stream()).collect());
    all.set_span(own.span());
    let before = module.into_iter().take_while(|token| !is_body(token)).collect::<Vec<_>>();
    before.into_iter().chain([all.into()]).collect()
}

/// The braces of a module.
fn body(module: &TokenStream) -> Option<Group> {
    module.clone().into_iter().find_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        _ => None,
    })
}

fn is_body(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

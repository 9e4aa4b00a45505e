//! `#[ptx_part]`: items of kernel modules in files of their own.
//!
//! The attribute leaves a `macro_rules!` of the part's name, which hands the items over as that of a struct does with its fields (`fields`). A module
//! with `parts(name)` calls it, and goes on in `resume` with these items behind its own. With `modules(name)` the items stay in a module of that name.

use crate::fields::{Entry, List, ask};
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

/// The options that name parts. The items of `parts` join those of the module; `modules` become modules inside of it.
const LISTS: [&str; 2] = ["parts", "modules"];

/// A part that the options of a module name.
pub struct Named {
    /// Its path.
    pub path: syn::Path,
    /// The option that names it.
    option: &'static str,
}

impl Named {
    /// The first part among the options.
    fn first(options: &TokenStream) -> Option<Named> {
        let path = |option| List::of(options, option)?.first_path().map(|entry| entry.path);
        LISTS.into_iter().find_map(|option| Some(Named { path: path(option)?, option }))
    }

    /// All parts among the options, and the options without them.
    pub fn all(mut options: TokenStream) -> (Vec<Named>, TokenStream) {
        let mut all = Vec::new();
        for option in LISTS {
            let Some(list) = List::of(&options, option) else { continue };
            let (paths, rest) = list.take_paths(options);
            all.extend(paths.into_iter().map(|path| Named { path, option }));
            options = rest;
        }
        (all, options)
    }

    /// The name of the module that the items stay in, or none if they join those of the module.
    pub fn inner(&self) -> Option<&syn::Ident> {
        self.path.segments.last().map(|segment| &segment.ident).filter(|_| self.option == "modules")
    }

    /// The options without this part, their first one.
    fn removed(&self, options: TokenStream) -> TokenStream {
        let first = List::of(&options, self.option).and_then(|list| Some((list.first_path()?, list)));
        let Some((entry, list)) = first else { return options };
        // With the comma, which every entry has.
        list.replace(&Entry { end: entry.end + 1, ..entry }, Vec::new(), options)
    }
}

/// The call of the macro of the first part among the options, if there is one.
pub fn request(options: &TokenStream, item: &TokenStream) -> Option<TokenStream> {
    ask(&Named::first(options)?.path, "part", options, item)
}

/// The options and the module behind such a call: with the items of the first part.
pub fn resumed(options: TokenStream, module: TokenStream, items: &Group) -> (TokenStream, TokenStream) {
    let Some(part) = Named::first(&options) else { return (options, module) };
    let module = match part.inner() {
        Some(name) => with_items(module, quote!(mod #name #items)),
        None => with_items(module, items.stream()),
    };
    (part.removed(options), module)
}

/// A module with more items.
fn with_items(module: TokenStream, items: TokenStream) -> TokenStream {
    let Some(own) = body(&module) else { return module };
    let mut all = Group::new(Delimiter::Brace, own.stream().into_iter().chain(items).collect());
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

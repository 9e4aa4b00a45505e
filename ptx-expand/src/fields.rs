//! `params(Name)`: the fields of a struct that is declared elsewhere in the crate.
//!
//! A macro sees only its own tokens. So `#[derive(KernelParam)]` leaves a `macro_rules!` of the struct's name, which hands the fields over:
//! an attribute with such a name becomes a call of that macro, which calls `resume` with the attribute, the item and the fields. Names are filled in
//! one after the other; then the attribute expands as if its author had written the fields.

use crate::root::{Given, Root};
use proc_macro2::{Delimiter, Group, Ident, Punct, Spacing, Span, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::parse::{Parse, Parser};

/// The macro of a struct, which passes its fields on. Only structs with names for their fields are parameters with fields.
pub fn carrier(item: &syn::ItemStruct) -> Option<TokenStream> {
    let fields = named(item)?;
    let (name, at) = (&item.ident, item.ident.span().start());
    // Macros of structs of one name do not hide one another.
    let own = format_ident!("__ptx_fields_{}_{}_{}", name, at.line, at.column, span = Span::call_site());
    Some(quote! {
        #[doc(hidden)]
        #[allow(unused_macros)]
        macro_rules! #own {
            ({ $($resume:tt)* } $($attribute:tt)*) => { $($resume)* ! { $($attribute)* { #fields } } };
        }
        #[doc(hidden)]
        #[allow(unused_imports)]
        pub(crate) use #own as #name;
    })
}

/// The fields of a struct, as kernels name their types: `x: u32, y: u32`.
pub fn named(item: &syn::ItemStruct) -> Option<TokenStream> {
    let syn::Fields::Named(fields) = &item.fields else { return None };
    let names = fields.named.iter().map(|field| &field.ident);
    let types = fields.named.iter().map(|field| without_path(&field.ty));
    Some(quote!(#(#names: #types),*))
}

/// The type as kernels name it: modules of the host are none of theirs.
fn without_path(ty: &syn::Type) -> syn::Type {
    match ty {
        syn::Type::Path(path) => match path.path.segments.last() {
            Some(last) => syn::Type::Path(syn::TypePath { qself: None, path: last.clone().into() }),
            None => ty.clone(),
        },
        syn::Type::Array(array) => {
            syn::Type::Array(syn::TypeArray { elem: Box::new(without_path(&array.elem)), ..array.clone() })
        }
        _ => ty.clone(),
    }
}

/// The call of the macro of the first struct without fields among the options, if there is one. It ends in `resume`, with the `kind` of the item.
pub fn request(kind: &str, options: &TokenStream, item: &TokenStream) -> Option<TokenStream> {
    ask(&first_struct(options)?, kind, options, item)
}

/// The first struct without fields among the options.
pub fn first_struct(options: &TokenStream) -> Option<syn::Path> {
    Some(List::of(options, "params")?.first_path()?.path)
}

/// The call of the macro at `path`, which ends in `resume`.
pub fn ask(path: &syn::Path, kind: &str, options: &TokenStream, item: &TokenStream) -> Option<TokenStream> {
    let root = Root::find(given(options).as_ref())?.expansion();
    let kind = Ident::new(kind, Span::call_site());
    Some(quote!(#path! { { #root::resume } #kind { #options } { #item } }))
}

/// The options, with these fields for the first struct that has none.
pub fn with_fields(options: TokenStream, fields: &Group) -> TokenStream {
    let Some(params) = List::of(&options, "params") else { return options };
    let Some(entry) = params.first_path() else { return options };
    let name = entry.path.segments.last().map(|segment| segment.ident.clone());
    let filled = name.into_iter().map(TokenTree::from).chain([fields.clone().into()]);
    params.replace(&entry, filled.collect(), options)
}

/// The list of the option `params` or `parts`.
pub struct List {
    /// The place of the list among the tokens of the options.
    at: usize,
    tokens: Vec<TokenTree>,
}

/// A path in the list, with nothing behind it: its tokens are those from `at` to `end`.
pub struct Entry {
    pub at: usize,
    pub end: usize,
    pub path: syn::Path,
}

impl List {
    /// The list of the option `name`.
    pub fn of(options: &TokenStream, name: &str) -> Option<List> {
        let tokens: Vec<TokenTree> = options.clone().into_iter().collect();
        let is_option = |pair: &[TokenTree]| match pair {
            [TokenTree::Ident(option), TokenTree::Group(list)] => {
                option == name && list.delimiter() == Delimiter::Parenthesis
            }
            _ => false,
        };
        let at = tokens.windows(2).position(is_option)? + 1;
        let TokenTree::Group(list) = &tokens[at] else { return None };
        let tokens: Vec<TokenTree> = list.stream().into_iter().collect();
        let entries = tokens.split(is_comma).filter(|entry| !entry.is_empty());
        Some(List { at, tokens: entries.flat_map(separate).collect() })
    }

    /// The first entry that is a path.
    pub fn first_path(&self) -> Option<Entry> {
        let mut at = 0;
        for entry in self.tokens.split(is_comma) {
            let end = at + entry.len();
            if let Ok(path) = syn::Path::parse_mod_style.parse2(entry.iter().cloned().collect()) {
                return Some(Entry { at, end, path });
            }
            at = end + 1;
        }
        None
    }

    /// All entries that are paths, which the options then have no longer: in one pass, since there may be thousands.
    pub fn take_paths(mut self, options: TokenStream) -> (Vec<syn::Path>, TokenStream) {
        let (mut paths, mut others) = (Vec::new(), Vec::new());
        for entry in self.tokens.split(is_comma).filter(|entry| !entry.is_empty()) {
            match syn::Path::parse_mod_style.parse2(entry.iter().cloned().collect()) {
                Ok(path) => paths.push(path),
                Err(_) => others.extend(entry.iter().cloned().chain([comma()])),
            }
        }
        self.tokens = others;
        (paths, self.put_into(options))
    }

    /// The options that this list is one of, with these tokens for an entry of it.
    pub fn replace(mut self, entry: &Entry, tokens: Vec<TokenTree>, options: TokenStream) -> TokenStream {
        self.tokens.splice(entry.at..entry.end, tokens);
        self.put_into(options)
    }

    fn put_into(self, options: TokenStream) -> TokenStream {
        let mut options: Vec<TokenTree> = options.into_iter().collect();
        if let Some(TokenTree::Group(group)) = options.get_mut(self.at) {
            let mut filled = Group::new(Delimiter::Parenthesis, self.tokens.into_iter().collect());
            filled.set_span(group.span());
            *group = filled;
        }
        options.into_iter().collect()
    }
}

/// `path::{A, B}` as `path::A, path::B,`, and any other entry as it is.
fn separate(entry: &[TokenTree]) -> Vec<TokenTree> {
    match entry {
        [path @ .., TokenTree::Group(names)] if matches!(path.last(), Some(TokenTree::Punct(_))) => {
            let names: Vec<TokenTree> = names.stream().into_iter().collect();
            let paths = names.split(is_comma).filter(|name| !name.is_empty());
            paths.flat_map(|name| path.iter().chain(name).cloned().chain([comma()])).collect()
        }
        _ => entry.iter().cloned().chain([comma()]).collect(),
    }
}

/// A comma between options, or between the entries of a list.
pub fn comma() -> TokenTree {
    Punct::new(',', Spacing::Alone).into()
}

/// Returns true for such a comma.
pub fn is_comma(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',')
}

/// The path of `crate = path` among the options.
fn given(options: &TokenStream) -> Option<syn::Path> {
    let tokens: Vec<TokenTree> = options.clone().into_iter().collect();
    let given = |option: &[TokenTree]| Given::parse.parse2(option.iter().cloned().collect()).ok();
    tokens.split(is_comma).find_map(given).map(|Given(path)| path)
}

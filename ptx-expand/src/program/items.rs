//! The kernels of a source text, and the attributes with the arguments and the target that its reader chose.

use super::Options;
use super::names::{Index, Place};
use crate::describe::{Problem, problem};
use crate::fields::{self, comma, is_comma};
use crate::part::Named;
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use ptx_core::diag::codes;
use quote::quote;
use syn::spanned::Spanned;

/// An item to compile.
pub struct Item<'a> {
    /// The module that has it.
    pub place: Place,
    /// The item.
    pub kind: ItemKind<'a>,
}

/// The attribute's tokens, and the item without it.
#[allow(clippy::large_enum_variant, reason = "a handful of them live at a time")]
pub enum ItemKind<'a> {
    /// `#[ptx_kernel]` on a function.
    Kernel(TokenStream, syn::ItemFn),
    /// `#[ptx_module]` on a module.
    Module(TokenStream, syn::ItemMod),
    /// `ptx! { … }`, a module of PTX as it is.
    Text(&'a syn::ItemMacro),
}

/// The kernels and kernel modules among items, in order.
pub fn kernels(items: &[syn::Item]) -> Vec<Item<'_>> {
    let mut found = Vec::new();
    add_kernels(&mut found, &[], items);
    found
}

/// The problem of each item that has the name of a kernel of its module.
pub fn declared_twice(items: &[syn::Item]) -> Vec<Problem> {
    declared_twice_in(items, false)
}

/// The same. The expansion of a kernel module reports kernels with the names of its helpers.
fn declared_twice_in(items: &[syn::Item], has_helpers: bool) -> Vec<Problem> {
    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        Kernel,
        Function,
        Variable,
    }
    let mut seen: Vec<(&Ident, Kind)> = Vec::new();
    let mut found = Vec::new();
    for item in items {
        let (name, attrs, kind) = match item {
            syn::Item::Fn(function) => match options(&function.attrs, "ptx_kernel") {
                Some(_) => (&function.sig.ident, &function.attrs, Kind::Kernel),
                None => (&function.sig.ident, &function.attrs, Kind::Function),
            },
            syn::Item::Const(constant) => (&constant.ident, &constant.attrs, Kind::Variable),
            syn::Item::Static(variable) => (&variable.ident, &variable.attrs, Kind::Variable),
            syn::Item::Mod(module) => {
                let has_helpers = options(&module.attrs, "ptx_module").is_some();
                found.extend(module.content.iter().flat_map(|(_, items)| declared_twice_in(items, has_helpers)));
                continue;
            }
            _ => continue,
        };
        // Of several with conditions, one remains.
        if attrs.iter().any(|attribute| is_named(attribute, "cfg")) {
            continue;
        }
        let is_wrong = |kinds: [Kind; 2]| match has_helpers {
            true => kinds.contains(&Kind::Kernel) && !kinds.contains(&Kind::Function),
            false => kinds.contains(&Kind::Kernel),
        };
        if seen.iter().any(|(other, other_kind)| *other == name && is_wrong([*other_kind, kind])) {
            let message = format!("`{name}` is declared twice");
            let help = vec!["give one of them another name".to_owned()];
            found.push(Problem { help, ..problem(codes::P0502.id, message, name.span(), name.span()) });
        }
        seen.push((name, kind));
    }
    found
}

fn add_kernels<'a>(found: &mut Vec<Item<'a>>, place: &[String], items: &'a [syn::Item]) {
    let item = |kind| Item { place: place.to_vec(), kind };
    for from in items {
        match from {
            syn::Item::Fn(function) => found.extend(options(&function.attrs, "ptx_kernel").map(|tokens| {
                let attrs = others(&function.attrs, "ptx_kernel");
                item(ItemKind::Kernel(tokens, syn::ItemFn { attrs, ..function.clone() }))
            })),
            syn::Item::Mod(module) => match options(&module.attrs, "ptx_module") {
                Some(tokens) => {
                    let attrs = others(&module.attrs, "ptx_module");
                    found.push(item(ItemKind::Module(tokens, syn::ItemMod { attrs, ..module.clone() })));
                }
                None => {
                    let inner = [place, &[module.ident.to_string()]].concat();
                    module.content.iter().for_each(|(_, items)| add_kernels(found, &inner, items));
                }
            },
            syn::Item::Macro(call) if call.mac.path.segments.last().is_some_and(|last| last.ident == "ptx") => {
                found.push(item(ItemKind::Text(call)));
            }
            _ => {}
        }
    }
}

/// The options of a kernel among the items of a module, and its function.
pub fn kernel_of(item: &syn::Item) -> Option<(TokenStream, &syn::ItemFn)> {
    let syn::Item::Fn(function) = item else { return None };
    options(&function.attrs, "ptx_kernel").map(|tokens| (tokens, function))
}

/// Returns true unless one kernel is wanted, and it is not here.
pub fn is_chosen(item: &Item<'_>, options: &Options) -> bool {
    let Some(only) = &options.only else { return true };
    match &item.kind {
        ItemKind::Kernel(_, function) => function.sig.ident == only,
        // The kernels of parts are known when the module is put together.
        ItemKind::Module(..) => true,
        ItemKind::Text(_) => false,
    }
}

/// The tokens of an attribute, if it is there.
fn options(attributes: &[syn::Attribute], name: &str) -> Option<TokenStream> {
    attributes.iter().find(|attribute| is_named(attribute, name)).map(tokens)
}

/// Attributes that Rust expands before the kernel's, and that leave the kernel as it is: `#[ptx_ffi::export]`.
const BEFORE: &[&str] = &["export"];

/// The other attributes that the kernel's own sees.
fn others(attributes: &[syn::Attribute], name: &str) -> Vec<syn::Attribute> {
    let own = attributes.iter().position(|attribute| is_named(attribute, name)).unwrap_or_default();
    let is_expanded = |attribute: &syn::Attribute| BEFORE.iter().any(|before| is_named(attribute, before));
    let (before, after) = attributes.split_at(own);
    before.iter().filter(|attribute| !is_expanded(attribute)).chain(after.iter().skip(1)).cloned().collect()
}

fn tokens(attribute: &syn::Attribute) -> TokenStream {
    match &attribute.meta {
        syn::Meta::List(list) => list.tokens.clone(),
        _ => TokenStream::new(),
    }
}

/// Returns true for an attribute of this name, with any path.
pub fn is_named(attribute: &syn::Attribute, name: &str) -> bool {
    attribute.path().segments.last().is_some_and(|segment| segment.ident == name)
}

/// The options of a kernel, with the instance and the target that were chosen, and the fields of its structs.
pub fn chosen(
    attribute: TokenStream,
    generics: &syn::Generics,
    (index, place): (&Index, &[String]),
    options: &Options,
) -> Result<TokenStream, Problem> {
    let attribute = with_structs(attribute, index, place)?;
    instantiated(targeted(attribute, options), generics, options)
}

/// The options with the fields of the structs that `params` names.
fn with_structs(mut attribute: TokenStream, index: &Index, place: &[String]) -> Result<TokenStream, Problem> {
    while let Some(path) = fields::first_struct(&attribute) {
        let found = index.fields(place, &path).ok_or_else(|| {
            let help = "put it beside the kernel: `#[derive(KernelParam)] #[repr(C)] struct …`, or write its fields: `params(Name { n: u32 })`";
            missing(&path, "struct of parameters", help)
        })?;
        attribute = fields::with_fields(attribute, &Group::new(Delimiter::Brace, found.clone()));
    }
    Ok(attribute)
}

/// The same for a module: its options, and its items with those of its parts, whose kernels have the chosen instance.
pub fn chosen_module(
    attribute: TokenStream,
    mut module: syn::ItemMod,
    (index, place): (&Index, &[String]),
    options: &Options,
) -> Result<(TokenStream, syn::ItemMod), Problem> {
    let (named, attribute) = Named::all(with_structs(targeted(attribute, options), index, place)?);
    let Some((_, items)) = &mut module.content else { return Ok((attribute, module)) };
    for part in named {
        let help = "write the part into this text: `#[ptx_part] mod …`";
        let own = index.part(place, &part.path).ok_or_else(|| missing(&part.path, "part", help))?;
        match part.inner() {
            Some(inner) => items.push(syn::parse_quote!(mod #inner { #(#own)* })),
            None => items.extend(own.iter().cloned()),
        }
    }
    if let Some(only) = &options.only {
        items.retain(|item| kernel_of(item).is_none_or(|(_, function)| function.sig.ident == only));
    }
    for item in items.iter_mut() {
        let syn::Item::Fn(function) = item else { continue };
        let Some(own) = function.attrs.iter_mut().find(|attribute| is_named(attribute, "ptx_kernel")) else { continue };
        let chosen = instantiated(tokens(own), &function.sig.generics, options)?;
        *own = syn::parse_quote!(#[ptx_kernel(#chosen)]);
    }
    Ok((attribute, module))
}

/// The error of a path that leads to nothing.
fn missing(path: &syn::Path, kind: &str, help: &str) -> Problem {
    let span = path.segments.last().map_or_else(Span::call_site, |last| last.ident.span());
    let name = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
    let message = format!("the {kind} `{name}` is not in this text");
    Problem { help: vec![help.to_owned()], ..problem("", message, span, span) }
}

/// With the target that was chosen.
fn targeted(attribute: TokenStream, options: &Options) -> TokenStream {
    match &options.target {
        Some(target) => with(without(attribute, "arch"), quote!(arch = #target)),
        None => attribute,
    }
}

/// With the one instance of the chosen arguments, if there is one for each generic parameter.
fn instantiated(attribute: TokenStream, generics: &syn::Generics, options: &Options) -> Result<TokenStream, Problem> {
    let names = generics.params.iter().filter_map(|generic| match generic {
        syn::GenericParam::Type(generic) => Some(&generic.ident),
        syn::GenericParam::Const(generic) => Some(&generic.ident),
        syn::GenericParam::Lifetime(_) => None,
    });
    let names: Vec<&Ident> = names.collect();
    let given =
        |name: &&Ident| options.with.iter().find(|(given, _)| *name == given).map(|(_, text)| (name.span(), text));
    let missing: Vec<String> = names.iter().filter(|name| given(name).is_none()).map(ToString::to_string).collect();
    if missing.len() == names.len() {
        return Ok(attribute);
    }
    if !missing.is_empty() {
        let message = format!("the generic parameters {} have no argument", missing.join(", "));
        return Err(problem("", message, generics.span(), generics.span()));
    }
    let mut list = Vec::new();
    for name in &names {
        let Some((span, text)) = given(name) else { continue };
        let value = text.parse().ok().and_then(|tokens| syn::parse2::<syn::Expr>(at(tokens, span)).ok());
        list.push(value.ok_or_else(|| problem("", format!("`{text}` is no argument for `{name}`"), span, span))?);
    }
    // A struct among the arguments needs a name for the instance.
    let is_plain = |value: &syn::Expr| matches!(value, syn::Expr::Lit(_) | syn::Expr::Path(_) | syn::Expr::Unary(_));
    let name = (!list.iter().all(is_plain)).then(|| quote!(chosen =));
    Ok(with(without(attribute, "instances"), quote!(instances = [#name (#(#list,)*)])))
}

/// Tokens of another text, at a place of this one.
fn at(tokens: TokenStream, span: Span) -> TokenStream {
    let moved = tokens.into_iter().map(|token| match token {
        TokenTree::Group(group) => {
            let mut moved = Group::new(group.delimiter(), at(group.stream(), span));
            moved.set_span(span);
            TokenTree::Group(moved)
        }
        mut other => {
            other.set_span(span);
            other
        }
    });
    moved.collect()
}

/// The options with one more.
fn with(options: TokenStream, option: TokenStream) -> TokenStream {
    let comma = (!options.is_empty()).then(comma);
    options.into_iter().chain(comma).chain(option).collect()
}

/// The options without one of them.
fn without(options: TokenStream, name: &str) -> TokenStream {
    let options: Vec<TokenTree> = options.into_iter().collect();
    let is_other = |option: &&[TokenTree]| match option.first() {
        Some(TokenTree::Ident(first)) => first != name,
        first => first.is_some(),
    };
    let others: Vec<&[TokenTree]> = options.split(is_comma).filter(is_other).collect();
    others.join(&comma()).into_iter().collect()
}

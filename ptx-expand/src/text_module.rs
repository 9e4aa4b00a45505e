//! A whole PTX module as text: `ptx! { .version … }` at item level, and `ptx_file!("kernel.ptx")`.
//!
//! Every `.entry` becomes a launch function. A PTX parameter declares its bytes and not their meaning: without
//! a signature every parameter is the number of its PTX type, a pointer its address as `u64`, an array `[T; N]`. A
//! signature gives Rust types: `ptx_file!("add.ptx", #[ptx_kernel(block = 256)] pub fn add(a: &[f32], n: u32))`, and in
//! front of a text `ptx! { pub fn add(a: &[f32], n: u32); .version … }`.

mod entry;
mod file;
mod signature;

use crate::compile::{self, Compiled};
use crate::kernel::Reader;
use crate::launchable::Launchable;
use crate::root::{Given, Root};
use crate::tokens::{joined, source};
use crate::{launch, nesting, report};
use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};
use ptx_core::check::waiting;
use ptx_core::diag::codes;
use ptx_core::ir::Module;
use ptx_core::token::{Kind, Source};
use ptx_language::{Entry, EntryParam};
use quote::quote;
pub use signature::Signature;
use syn::Token;
use syn::parse::{Parse, ParseStream};

pub use file::expand as expand_file;

/// Expands `ptx! { … }` where no kernel is around it.
pub fn expand(body: TokenStream) -> TokenStream {
    if let Err(deep) = nesting::check_nesting(&body) {
        return deep.refuse();
    }
    let (mut reader, text) = compile(Span::call_site(), body);
    let launches = text.and_then(|text| {
        let ptx = &text.ptx;
        launches(&mut reader, &text.module, text.root.as_ref(), &text.signatures, (ptx, quote!(#ptx)))
    });
    let diagnostics = report::report(&reader.host, &reader.diagnostics, &[]);
    quote!(#launches #diagnostics)
}

/// A module that the user wrote whole.
pub struct Text {
    /// Its declarations.
    pub module: Module,
    /// Its PTX; empty if something is wrong with it.
    pub ptx: String,
    /// The Rust types of its entries, as far as they are given.
    pub signatures: Vec<Signature>,
    /// Path of `ptx-launch`, if the head gives it.
    root: Option<syn::Path>,
}

/// Reads the body of a `ptx! { … }`; `group` is its span. `None` if it is no module; that is reported.
pub fn compile(group: Span, body: TokenStream) -> (Reader, Option<Text>) {
    let mut reader = Reader::default();
    let Head { root, signatures, module, end } = match Head::of(body) {
        Ok(head) => head,
        Err(error) => {
            let span = reader.host.token(error.span());
            reader.error_at(&codes::P0904, span, error.to_string(), LIKE);
            return (reader, None);
        }
    };
    if let Some(text) = end.and_then(|end| behind(group, end)) {
        reader.host.texts.push_front(text);
    }
    let (source, mut diagnostics) = source(&mut reader.host, group, module);
    reader.diagnostics.append(&mut diagnostics);
    if !is_module(&source) {
        let help = "instructions stand in a `#[ptx_kernel]` function; a whole module begins with `.version`";
        reader.error_at(&codes::P0909, source.span(0), "this `ptx!` stands in no kernel", help);
        return (reader, None);
    }
    let (outcome, mut diagnostics) = compile::checked(source);
    reader.diagnostics.append(&mut diagnostics);
    let ptx = outcome.as_ref().map_or_else(|_| String::new(), ptx_core::emit::ptx::print);
    let module = compile::module_of(&outcome).clone();
    (reader, Some(Text { module, ptx, signatures, root }))
}

const LIKE: &str = "signatures stand in front of the text: `ptx! { pub fn add(a: &[f32], n: u32); .version … }`";

/// A `ptx!` at item level: `crate = path;`, signatures, and the module behind them.
struct Head {
    root: Option<syn::Path>,
    signatures: Vec<Signature>,
    module: TokenStream,
    /// The last token of the signatures.
    end: Option<Span>,
}

impl Head {
    fn of(body: TokenStream) -> syn::Result<Head> {
        let mut tokens = body.clone().into_iter().peekable();
        let attributes = tokens.peek().is_some_and(|first| matches!(first, TokenTree::Punct(p) if p.as_char() == '#'));
        // A doc comment in front of the text is attributes to Rust.
        let signed = match tokens.find(|token| !is_of_attribute(token)) {
            Some(TokenTree::Ident(word)) => attributes || word == "pub" || word == "fn" || word == "crate",
            _ => false,
        };
        if signed {
            syn::parse2(body)
        } else {
            Ok(Head { root: None, signatures: Vec::new(), module: body, end: None })
        }
    }
}

impl Parse for Head {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let (mut signatures, mut root, mut end) = (Vec::new(), None, None);
        if Given::is_next(input) {
            root = Some(input.parse::<Given>()?.0);
            end = Some(input.span());
            input.parse::<Token![;]>()?;
        }
        while !is_text(input) {
            signatures.push(input.parse()?);
            end = Some(input.span());
            input.parse::<Token![;]>()?;
        }
        Ok(Head { root, signatures, module: input.parse()?, end })
    }
}

/// Returns true if a token is one of `#[…]` and `#![…]`, brackets as one.
fn is_of_attribute(token: &TokenTree) -> bool {
    match token {
        TokenTree::Punct(punct) => matches!(punct.as_char(), '#' | '!'),
        TokenTree::Group(group) => group.delimiter() == Delimiter::Bracket,
        _ => false,
    }
}

/// Returns true if the text begins here, perhaps with a doc comment.
fn is_text(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    ahead.call(syn::Attribute::parse_outer).is_ok() && ahead.peek(Token![.])
}

/// The text after a token up to the end of the macro call, in braces.
fn behind(group: Span, token: Span) -> Option<String> {
    let text = group.source_text()?;
    let (from, to) = (group.start(), token.end());
    let line = text.split_inclusive('\n').take(to.line.checked_sub(from.line)?).map(str::len).sum();
    let first = if to.line == from.line { from.column } else { 0 };
    let rest = text.get(line..)?;
    let column = rest.char_indices().nth(to.column.checked_sub(first)?).map_or(rest.len(), |(at, _)| at);
    Some(format!("{{{}", rest.get(column..)?))
}

/// Returns true if it begins as modules do.
fn is_module(source: &Source) -> bool {
    source.tokens.first().is_some_and(|first| first.kind == Kind::Dot && source.text(0) == ".version")
}

/// The constant and the launch function of every entry. `constant` is the text as an expression.
fn launches(
    reader: &mut Reader,
    module: &Module,
    given: Option<&syn::Path>,
    signatures: &[Signature],
    (ptx, constant): (&str, TokenStream),
) -> Option<TokenStream> {
    let (mut entries, mut launchables): (Vec<Entry>, Vec<Launchable>) = Default::default();
    for (name, launchable) in reader.entries(module, signatures) {
        let params = (0..launchable.params.len()).map(EntryParam::Value).collect();
        entries.push(Entry { name, kernel: entries.len(), instance: None, params, dynamic: None });
        launchables.push(launchable);
    }
    let mut compiled = Compiled { entries, ..Compiled::default() };
    compiled.wait_in(0, waiting(module));
    compiled.block_threads = compile::block_threads(module);
    reader.check_overlap(&launchables, &compiled);
    reader.take_contracts(&launchables, &mut compiled);
    reader.silence();
    compiled.failed = reader.failed();
    let place = Ident::new("ptx", Span::call_site());
    let Some(root) = Root::or_report(given, reader, &place) else {
        return Some(joined(launchables.iter().map(|kernel| launch::stub(&reader.host, kernel, &reader.diagnostics))));
    };
    let written = launch::Written { arch: module.arch.to_string(), ptx, constant };
    Some(launch::beside(&launchables, &compiled, &written, &root))
}

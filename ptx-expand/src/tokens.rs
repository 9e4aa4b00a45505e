//! The macro host: what a [`ptx_core::Span`] is here, and how a `ptx!` body becomes PTX tokens.
//!
//! Nothing here depends on the kernel language; nothing outside turns a span back into Rust tokens.

pub mod leaves;
pub mod places;
mod source;
#[cfg(test)]
mod tests;

pub use source::source;

use proc_macro2::{Ident, Span as RustSpan, TokenStream, TokenTree};
use ptx_core::hash::Set;
use ptx_core::span::Span;
use ptx_language::Location;
use quote::ToTokens;
use std::collections::VecDeque;

/// The Rust tokens that were given to `ptx-core`. A [`Span`] is a range of them.
///
/// Tokens are added in the order of the source, so that the union of two spans is what lies between them.
#[derive(Default)]
pub struct Host {
    spans: Vec<RustSpan>,
    /// The position of the first token.
    base: u32,
    /// The `ptx!` blocks that are read next, in order, of a text that the compiler never saw: the prelude.
    pub texts: VecDeque<String>,
}

impl Host {
    /// A host of a text that the compiler never saw, whose positions are those of no other host.
    pub fn of_text(base: u32) -> Host {
        Host { base, ..Host::default() }
    }

    /// Adds one token.
    pub fn token(&mut self, span: RustSpan) -> Span {
        let at = self.len();
        self.spans.push(span);
        Span::new(at, at + 1)
    }

    /// Adds the first and the last token of a run whose inner tokens nobody will ask for.
    pub fn run(&mut self, first: RustSpan, last: RustSpan) -> Span {
        let first = self.token(first);
        first.to(self.token(last))
    }

    /// Adds the ends of a piece of syntax.
    pub fn syntax(&mut self, node: &impl ToTokens) -> Span {
        let (first, last) = ends(node);
        self.run(first, last)
    }

    /// Number of tokens: the position of the next one.
    fn len(&self) -> u32 {
        self.base + self.spans.len() as u32
    }

    /// The first and the last token of a span; the macro's call site if it has none.
    pub fn ends(&self, span: Span) -> (RustSpan, RustSpan) {
        let at = |i: u32| {
            let own = i.checked_sub(self.base).and_then(|i| self.spans.get(i as usize)).copied();
            own.unwrap_or_else(RustSpan::call_site)
        };
        (at(span.lo), at(span.hi.max(span.lo + 1) - 1))
    }

    /// The line of the source, from 1, where a span starts.
    pub fn line(&self, span: Span) -> usize {
        self.ends(span).0.start().line
    }

    /// The file, line and column of the source where a span starts.
    pub fn location(&self, span: Span) -> Option<Location> {
        let first = self.ends(span).0;
        let start = first.start();
        let (line, column) = (u32::try_from(start.line).ok()?, u32::try_from(start.column).ok()? + 1);
        Some(Location { file: first.file(), line, column })
    }
}

/// The spans of the first and the last token of a piece of syntax.
pub fn ends(node: &impl ToTokens) -> (RustSpan, RustSpan) {
    ends_of_stream(node.to_token_stream())
}

/// The same for all kinds of syntax, so that each adds one small function.
fn ends_of_stream(tokens: TokenStream) -> (RustSpan, RustSpan) {
    let mut trees = tokens.into_iter();
    let Some(first) = trees.next() else {
        return (RustSpan::call_site(), RustSpan::call_site());
    };
    let open = match &first {
        TokenTree::Group(group) => group.span_open(),
        tree => tree.span(),
    };
    let close = match trees.last().unwrap_or(first) {
        TokenTree::Group(group) => group.span_close(),
        tree => tree.span(),
    };
    (open, close)
}

/// A variable that no parameter of the user can hide; `name` may be made of raw ones. A `let` or a parameter whose name is that of
/// a constant in scope would be a pattern that matches it, so no local has a name that people write.
pub fn local(name: &str) -> Ident {
    Ident::new(&format!("{}_", name.replace("r#", "")), RustSpan::mixed_site())
}

/// Returns true if a name occurs in tokens.
pub fn contains_ident(tokens: TokenStream, name: &Ident) -> bool {
    tokens.into_iter().any(|tree| match tree {
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Group(group) => contains_ident(group.stream(), name),
        _ => false,
    })
}

/// Pieces one behind the other. `collect` would do the same, with hundreds of lines of code for each kind of iterator.
pub fn joined(pieces: impl IntoIterator<Item = TokenStream>) -> TokenStream {
    let mut all = Vec::new();
    for piece in pieces {
        all.push(piece);
    }
    all.into_iter().collect()
}

/// Adds the names in tokens.
pub fn names(tokens: TokenStream, found: &mut Set<String>) {
    for tree in tokens {
        match tree {
            TokenTree::Ident(name) => drop(found.insert(name.to_string())),
            TokenTree::Group(group) => names(group.stream(), found),
            _ => {}
        }
    }
}

/// Syntax as the user wrote it; without the source, as Rust prints its tokens.
pub fn source_text(syntax: &impl ToTokens) -> String {
    let (first, last) = ends(syntax);
    let whole = first.join(last).and_then(|span| span.source_text());
    whole.unwrap_or_else(|| spaced(syntax.to_token_stream()))
}

/// Tokens with blanks around operators only.
pub fn spaced(tokens: TokenStream) -> String {
    let text = tokens.to_string();
    ["(", ")", ".", ",", "::", "[", "&"].iter().fold(text, |text, mark| match *mark {
        "(" => text.replace(" (", "(").replace("( ", "("),
        ")" => text.replace(" )", ")"),
        "." => text.replace(" . ", "."),
        "," => text.replace(" ,", ","),
        "[" => without_blank_before_index(&text),
        "&" => text.replace("(& ", "(&").replace(", & ", ", &"),
        _ => text.replace(" :: ", "::"),
    })
}

/// `x [0]` as `x[0]`; an array begins behind something else than a value.
fn without_blank_before_index(text: &str) -> String {
    let mut parts = text.split(" [");
    let mut joined = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_value = joined.ends_with(|last: char| last.is_alphanumeric() || "_)]".contains(last));
        joined += if is_value { "[" } else { " [" };
        joined += part;
    }
    joined
}

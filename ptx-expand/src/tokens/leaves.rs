//! A Rust token stream as a flat list of leaves: the text of each and where it stands.

use proc_macro2::{Delimiter, Group, Spacing, Span, TokenStream, TokenTree};
use std::fmt::Write;

/// The leaves of a stream. Delimiters are leaves; doc comments, which Rust makes attributes of, are none.
#[derive(Default)]
pub struct Leaves {
    /// The text of all leaves, one behind the other.
    pub text: String,
    /// End of each leaf in the text.
    pub ends: Vec<u32>,
    /// Span of each leaf.
    pub spans: Vec<Span>,
    /// The next one follows without a blank, which Rust records for punctuation alone.
    joint: Vec<bool>,
}

impl Leaves {
    /// Flattens a stream.
    pub fn from_stream(stream: TokenStream) -> Self {
        let mut leaves = Leaves::default();
        leaves.stream(stream);
        leaves
    }

    /// The text of one leaf.
    pub fn leaf(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[start as usize..self.ends[at] as usize]
    }

    /// The next leaf is punctuation and follows without a blank.
    pub fn is_joint(&self, at: usize) -> bool {
        self.joint[at]
    }

    fn stream(&mut self, stream: TokenStream) {
        let mut trees = stream.into_iter().peekable();
        while let Some(tree) = trees.next() {
            match tree {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    let inner = trees.next_if(|t| matches!(t, TokenTree::Punct(p) if p.as_char() == '!'));
                    if trees.next_if(is_doc).is_none() {
                        self.put(&punct, punct.span());
                        inner.iter().for_each(|bang| self.put(bang, bang.span()));
                    }
                }
                TokenTree::Group(group) => self.group(&group),
                TokenTree::Punct(punct) => {
                    self.put(&punct, punct.span());
                    if let Some(last) = self.joint.last_mut() {
                        *last = punct.spacing() == Spacing::Joint;
                    }
                }
                leaf => self.put(&leaf, leaf.span()),
            }
        }
    }

    fn group(&mut self, group: &Group) {
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => return self.stream(group.stream()),
        };
        self.put(open, group.span_open());
        self.stream(group.stream());
        self.put(close, group.span_close());
    }

    fn put(&mut self, text: impl std::fmt::Display, span: Span) {
        // Writing to a string does not fail.
        let _ = write!(self.text, "{text}");
        self.ends.push(self.text.len() as u32);
        self.spans.push(span);
        self.joint.push(false);
    }
}

/// `[doc = "…"]`
fn is_doc(tree: &TokenTree) -> bool {
    let TokenTree::Group(group) = tree else { return false };
    matches!(group.stream().into_iter().next(), Some(TokenTree::Ident(name)) if name == "doc")
}

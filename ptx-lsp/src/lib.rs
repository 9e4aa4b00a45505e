//! What an editor shows of PTX: a text and its changes in, answers out. The command `ptx lsp` has the protocol; nothing here reads, writes or waits.
//!
//! A [`Document`](document::Document) is a text in pieces that are parsed on their own, so that a keystroke costs one piece. Every answer is a function of a
//! document and a position, in bytes. [`findings`](findings::findings) alone needs the whole text, since a diagnostic may depend on all of it: a server
//! computes them on another thread.

#![forbid(unsafe_code)]

pub mod around;
pub mod complete;
pub mod document;
pub mod findings;
pub mod fixes;
mod fragments;
pub mod hints;
pub mod hover;
mod names;
pub mod navigate;
pub mod outline;
pub mod paint;
mod piece;
mod place;
mod rust;
pub mod signature;
pub mod text;
mod typed;

/// The text in the layout of `ptx fmt`; `None` if it has syntax errors, which keep it as it is.
pub fn formatted(document: &document::Document) -> Option<String> {
    let (tree, found) = ptx_core::parse::parse_text(document.text().as_str().as_bytes());
    let is_sound =
        document.language() == document::Language::Ptx && !found.iter().any(ptx_core::diag::Diagnostic::is_error);
    is_sound.then(|| String::from_utf8(ptx_core::emit::fmt::format(&tree)).ok()).flatten()
}

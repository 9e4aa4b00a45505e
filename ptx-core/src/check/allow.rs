//! Comments that silence warnings: `// ptx: allow(P0701)`. At the end of a line it holds for that line, on a line of its own for the statement
//! that follows, which may be a whole function, and in front of `.version` for the module.

use crate::diag::near::nearest;
use crate::diag::{Diagnostic, codes};
use crate::span::Span;
use crate::syntax::{StmtId, Tree};
use crate::token::TokenId;
use std::collections::HashMap;

/// The beginning of such a comment, behind its slashes.
const WORDS: &str = "ptx: allow(";

/// Takes away the warnings that comments allow, and reports codes that are none. Only a module with findings is searched for comments.
pub(super) fn silence(tree: &Tree, diagnostics: &mut Vec<Diagnostic>) {
    if diagnostics.is_empty() {
        return;
    }
    let Ok(text) = std::str::from_utf8(&tree.source.bytes) else { return };
    let mut statements = None;
    let mut unknown = Vec::new();
    let mut allows: Vec<(&str, Span)> = Vec::new();
    for (at, _) in text.match_indices(WORDS) {
        let Some(within) = scope(tree, text, at, &mut statements) else { continue };
        let named = &text[at + WORDS.len()..];
        let named = &named[..named.find([')', '\n']).unwrap_or(named.len())];
        for code in named.split(',').map(str::trim) {
            match codes::find(code) {
                Some(known) => allows.push((known.id, within)),
                None => unknown.push(no_code(code, at)),
            }
        }
    }
    let is_allowed = |found: &Diagnostic| {
        let touches = |within: &Span| within.lo <= found.span.hi && found.span.lo <= within.hi;
        !found.is_error() && allows.iter().any(|(code, within)| *code == found.code.id && touches(within))
    };
    diagnostics.retain(|found| !is_allowed(found));
    diagnostics.extend(unknown);
}

/// The text that a comment at this place is about; `None` if it is no comment.
fn scope(tree: &Tree, text: &str, at: usize, statements: &mut Option<HashMap<TokenId, StmtId>>) -> Option<Span> {
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    if !text[line..at].trim_end().ends_with("//") {
        return None;
    }
    let behind = token_behind(tree, at);
    if behind < count(tree) && tree.source.place(behind).lead as usize > at {
        return None;
    }
    let of_line = behind.checked_sub(1).filter(|token| tree.source.place(*token).hi as usize > line);
    if of_line.is_some() {
        let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
        return Some(Span::new(line as u32, end as u32));
    }
    if behind == 0 {
        return Some(Span::new(0, u32::MAX));
    }
    let statements = statements
        .get_or_insert_with(|| (0..).zip(&tree.stmts).map(|(id, stmt)| (stmt.head.start, StmtId(id))).collect());
    let last = end(tree, *statements.get(&behind)?);
    Some(tree.source.span(behind).to(tree.source.span(last)))
}

fn count(tree: &Tree) -> TokenId {
    tree.source.tokens.len() as TokenId
}

/// The first token behind a place.
fn token_behind(tree: &Tree, at: usize) -> TokenId {
    let (mut low, mut high) = (0, count(tree));
    while low < high {
        let middle = low + (high - low) / 2;
        if tree.source.place(middle).lo as usize > at { high = middle } else { low = middle + 1 }
    }
    low
}

/// The last token of a statement. Recursion is as deep as scopes nest, which the parser bounds.
fn end(tree: &Tree, id: StmtId) -> TokenId {
    let stmt = tree.stmt(id);
    match (stmt.tail().is_empty(), stmt.children().last()) {
        (true, Some(last)) => end(tree, *last),
        (true, None) => stmt.head.end.saturating_sub(1).max(stmt.head.start),
        (false, _) => stmt.tail().end - 1,
    }
}

fn no_code(code: &str, at: usize) -> Diagnostic {
    let span = Span::new(at as u32, (at + WORDS.len()) as u32);
    let found = Diagnostic::warning(&codes::P0105, span, format!("there is no warning `{code}`"));
    match nearest(code, codes::ALL.iter().map(|code| code.id)) {
        Some(near) => found.help(format!("did you mean `{near}`?")),
        None => found.help("write the code of a warning, as in `// ptx: allow(P0701)`"),
    }
}

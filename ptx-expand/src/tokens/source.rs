//! The body of a `ptx!` as PTX tokens: the user's own bytes where the compiler still has them, else text made from
//! the Rust tokens (inside `macro_rules!`, where the source is the template and not what it expanded to).

use super::Host;
use super::leaves::Leaves;
use proc_macro2::{Span as RustSpan, TokenStream};
use ptx_core::diag::Diagnostic;
use ptx_core::lex::lex;
use ptx_core::span::Span;
use ptx_core::token::{Kind, Source, TokenId};

/// The PTX tokens of a `ptx!` body. `group` is the span of its braces and what they hold, or of
/// the whole macro call.
///
/// Each token's origin is the range of Rust tokens that it is made of.
pub fn source(host: &mut Host, group: RustSpan, body: TokenStream) -> (Source, Vec<Diagnostic>) {
    let leaves = Leaves::from_stream(body);
    let base = host.len();
    host.spans.extend(&leaves.spans);
    if leaves.spans.is_empty() {
        host.token(group);
    }
    let text = host.texts.pop_front().or_else(|| group.source_text());
    let verbatim = text.and_then(|text| align(lex(inner(&text).as_bytes()), &leaves, base));
    verbatim.unwrap_or_else(|| {
        let (mut source, diagnostics) = lex(spaced(&leaves).as_bytes());
        let everything = Span::new(base, host.len());
        source.origins = vec![everything; source.tokens.len()];
        align((source.clone(), diagnostics), &leaves, base).unwrap_or((source, Vec::new()))
    })
}

/// The tokens between the delimiters of a macro call, given with or without its path.
fn inner(text: &str) -> &str {
    let text = text.trim_end();
    let open = text.find(['{', '(', '[']).map_or(0, |at| at + 1);
    text.get(open..text.len().saturating_sub(1)).unwrap_or("")
}

/// Gives each PTX token the Rust tokens that hold its bytes; `None` if the two do not have the same bytes.
fn align(lexed: (Source, Vec<Diagnostic>), leaves: &Leaves, base: u32) -> Option<(Source, Vec<Diagnostic>)> {
    let (mut source, mut diagnostics) = lexed;
    let mut cursor = Cursor { leaves, at: 0, byte: 0 };
    let mut origins = Vec::with_capacity(source.tokens.len());
    for token in 0..source.tokens.len() as TokenId {
        let (first, last) = match source.kind(token) {
            Kind::Eof => (cursor.at.saturating_sub(1), cursor.at),
            _ => cursor.take(source.bytes(token))?,
        };
        origins.push(Span::new(base + first, base + last.max(first + 1)));
    }
    if cursor.byte as usize != leaves.text.len() {
        return None;
    }
    for diagnostic in &mut diagnostics {
        diagnostic.span = relocate(&source, &origins, diagnostic.span);
    }
    source.origins = origins;
    Some((source, diagnostics))
}

/// The origin of a byte range: that of the tokens it touches.
fn relocate(source: &Source, origins: &[Span], bytes: Span) -> Span {
    let touched = |t: &usize| {
        let place = source.place(*t as TokenId);
        place.hi > bytes.lo && place.lo < bytes.hi.max(bytes.lo + 1)
    };
    let mut spans = (0..origins.len()).filter(touched).map(|t| origins[t]);
    let Some(first) = spans.next() else {
        return origins.last().copied().unwrap_or_default();
    };
    spans.fold(first, Span::to)
}

/// A place in the text of the leaves.
struct Cursor<'a> {
    leaves: &'a Leaves,
    /// The leaf that holds the next byte.
    at: u32,
    /// The next byte.
    byte: u32,
}

impl Cursor<'_> {
    /// Steps over bytes; the leaves that hold them.
    fn take(&mut self, bytes: &[u8]) -> Option<(u32, u32)> {
        let end = self.byte + bytes.len() as u32;
        if self.leaves.text.as_bytes().get(self.byte as usize..end as usize)? != bytes {
            return None;
        }
        let first = self.at;
        while self.leaves.ends.get(self.at as usize).is_some_and(|e| *e <= end) {
            self.at += 1;
        }
        let last = self.at + u32::from(self.starts_inside(end));
        self.byte = end;
        Some((first, last))
    }

    /// Returns true if `end` is behind the first byte of the current leaf.
    fn starts_inside(&self, end: u32) -> bool {
        let start = if self.at == 0 { 0 } else { self.leaves.ends[self.at as usize - 1] };
        end > start
    }
}

/// The text of leaves with blanks where PTX requires or usually has them.
fn spaced(leaves: &Leaves) -> String {
    let mut text = String::with_capacity(leaves.text.len() * 2);
    for at in 0..leaves.spans.len() {
        if at > 0 {
            text.push_str(between(leaves, at));
        }
        text.push_str(leaves.leaf(at));
    }
    text
}

/// Text before a leaf: empty where it touched the previous one, or where PTX would read it as a part of that one.
fn between(leaves: &Leaves, at: usize) -> &'static str {
    let (before, after) = (leaves.leaf(at - 1), leaves.leaf(at));
    let gap = gap(leaves, at);
    match gap {
        Some(0) => "",
        _ if leaves.is_joint(at - 1) => "",
        _ if before == ";" => "\n",
        None if before == "%" && is_operator(leaves, at - 1) => " ",
        None if after == "$" && is_name(leaves, at - 1) => "",
        _ if matches!(before, "." | "%" | "$" | "@" | "!" | "[" | "(" | "{" | "<") => "",
        _ if matches!(after, "," | ";" | "]" | ")" | "}" | ":" | "<" | ">") => "",
        None if ends_in_colons(leaves, at) || goes_on(leaves, at) || is_bank(leaves, at) => "",
        // `.align 4 .b8`, but `.cta_group::1.kind::f16`.
        None if after == "." && is_number(before) && ends_in_colons(leaves, at - 1) => "",
        None if after == "." && is_number(before) => " ",
        None if after == "." && at + 1 < leaves.spans.len() && DIRECTIVES.contains(&leaves.leaf(at + 1)) => " ",
        None if after == "." && before != "," => "",
        _ => " ",
    }
}

/// Returns true if a `%` is the operator behind a number or a bracket, not the beginning of a name.
fn is_operator(leaves: &Leaves, at: usize) -> bool {
    at.checked_sub(1).is_some_and(|at| leaves.leaf(at) == ")" || is_number(leaves.leaf(at)))
}

/// Returns true if a leaf is a name or part of one, not an opcode or a modifier. A `$` behind it belongs to the name.
fn is_name(leaves: &Leaves, at: usize) -> bool {
    let before = |at: usize| at.checked_sub(1).map_or(";", |at| leaves.leaf(at));
    let is_word = |leaf: &str| leaf.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    // `.loc … function_name $L1` has a word of PTX there.
    is_word(leaves.leaf(at))
        && leaves.leaf(at) != "function_name"
        && match before(at) {
            "$" | "%" | "," | "(" | "[" | "=" | "+" | "-" => true,
            // Behind a modifier or an opcode, but not behind a guard.
            word if is_word(word) => matches!(before(at - 1), "." | ";" | "{" | "}" | ":"),
            _ => false,
        }
}

/// Returns true if a leaf starts like a number.
fn is_number(leaf: &str) -> bool {
    leaf.starts_with(|c: char| c.is_ascii_digit())
}

/// Words that begin a directive and are no modifiers: they belong to no word in front of them, such as the one of `.target`.
const DIRECTIVES: [&str; 11] = [
    "version",
    "target",
    "address_size",
    "entry",
    "func",
    "visible",
    "extern",
    "noreturn",
    "file",
    "section",
    "pragma",
];

/// A leaf continues a modifier with a name in braces: `cvt.rn.{T}x2.f32`, `wgmma.mma_async.m64n{N}k16.f32`, but not `max.{T} value`.
fn goes_on(leaves: &Leaves, at: usize) -> bool {
    let is = |at: Option<usize>, text: &str| at.is_some_and(|at| at < leaves.spans.len() && leaves.leaf(at) == text);
    let named = is(at.checked_sub(1), "}") && is(at.checked_sub(3), "{");
    let dotted = is(at.checked_sub(4), ".") || is(at.checked_sub(5), ".");
    named && dotted && is(Some(at + 1), ".")
}

/// The bracket of a constant bank, which is part of the modifier: `ld.const[2].u32`.
fn is_bank(leaves: &Leaves, at: usize) -> bool {
    at >= 2 && leaves.leaf(at) == "[" && leaves.leaf(at - 1) == "const" && leaves.leaf(at - 2) == "."
}

/// `::` stands in front of a leaf, which so belongs to the same modifier.
fn ends_in_colons(leaves: &Leaves, at: usize) -> bool {
    at >= 2 && leaves.leaf(at - 1) == ":" && leaves.leaf(at - 2) == ":"
}

/// Number of columns between a leaf and the previous one; `None` where they are not on one line of one source: one of them is a
/// macro's argument, both come from a text without a file, or an editor does not report positions.
fn gap(leaves: &Leaves, at: usize) -> Option<usize> {
    let (before, after) = (leaves.spans[at - 1], leaves.spans[at]);
    if !(stands(before, leaves.leaf(at - 1)) && stands(after, leaves.leaf(at))) {
        return None;
    }
    let (end, start) = (before.end(), after.start());
    let same_line = end.line == start.line && before.file() == after.file();
    start.column.checked_sub(end.column).filter(|_| same_line)
}

/// A span is as wide as its leaf. In rust-analyzer every span is empty, and all of them are at the same place.
fn stands(span: RustSpan, leaf: &str) -> bool {
    let (start, end) = (span.start(), span.end());
    start.line == end.line && end.column.checked_sub(start.column) == Some(leaf.chars().count())
}

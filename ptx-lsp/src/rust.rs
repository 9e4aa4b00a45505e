//! PTX inside Rust: where `ptx!` stands in a text, and the names that a kernel gives it. A scanner is enough: `ptx-expand` finds the mistakes.

use crate::piece::Piece;
use ptx_core::isa::{show, table};
use ptx_language::prelude::{FILES, Helper, helpers, source};
use std::ops::Range;

/// A token of Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Word,
    Punct(u8),
    Literal,
}

type Token = (Kind, Range<usize>);

/// The tokens of a text, without comments. Any text has some.
fn scan(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let rest = &bytes[at..];
        let (kind, end) = match rest {
            [b'/', b'/', ..] => (None, at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())),
            [b'/', b'*', ..] => (None, block_comment(bytes, at)),
            [b'"', ..] => (Some(Kind::Literal), string(bytes, at + 1)),
            [b'r' | b'b' | b'c', ..] if raw(bytes, at).is_some() => {
                (Some(Kind::Literal), raw(bytes, at).unwrap_or(at + 1))
            }
            [b'\'', b'\\', ..] => (Some(Kind::Literal), quote(bytes, at + 3)),
            [b'\'', ..] => {
                let width = text.get(at + 1..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
                let is_char = bytes.get(at + 1 + width) == Some(&b'\'');
                (Some(Kind::Literal), if is_char { at + width + 2 } else { word_end(bytes, at + 1) })
            }
            _ if is_name(*byte) => {
                let kind = if byte.is_ascii_digit() { Kind::Literal } else { Kind::Word };
                (Some(kind), word_end(bytes, at))
            }
            _ if byte.is_ascii_whitespace() => (None, at + 1),
            _ => (Some(Kind::Punct(*byte)), at + 1),
        };
        let end = end.clamp(at + 1, bytes.len());
        tokens.extend(kind.map(|kind| (kind, at..end)));
        at = end;
    }
    tokens
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn word_end(bytes: &[u8], at: usize) -> usize {
    at + bytes[at.min(bytes.len())..].iter().take_while(|byte| is_name(**byte)).count()
}

/// The end of a block comment, which may hold others.
fn block_comment(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0usize);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] if depth <= 1 => return at + 2,
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    at
}

fn string(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn quote(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest.iter().take(10).position(|byte| *byte == b'\'').map_or(0, |at| at + 1)
}

/// The end of `r"…"`, `br#"…"#`, `b"…"`, if one begins here.
fn raw(bytes: &[u8], start: usize) -> Option<usize> {
    let letters = bytes[start..].iter().take(2).take_while(|byte| matches!(byte, b'r' | b'b' | b'c')).count();
    let is_raw = bytes[start..start + letters].contains(&b'r');
    let hashes = bytes[start + letters..].iter().take_while(|byte| **byte == b'#').count();
    let open = start + letters + hashes;
    if bytes.get(open) != Some(&b'"') || hashes > 0 && !is_raw || start > 0 && is_name(bytes[start - 1]) {
        return None;
    }
    if !is_raw {
        return Some(string(bytes, open + 1));
    }
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let rest = bytes.get(open + 1..)?;
    let end = rest.windows(close.len()).position(|window| window == close);
    Some(end.map_or(bytes.len(), |end| open + 1 + end + close.len()))
}

/// The contents of each `ptx! { … }`, in order.
pub(crate) fn pieces(text: &str) -> Vec<Piece> {
    let tokens = scan(text);
    let mut pieces: Vec<Piece> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let opens = match &tokens[at..] {
            [(Kind::Word, word), (Kind::Punct(b'!'), _), (Kind::Punct(b'{' | b'(' | b'['), open), ..] => {
                (text.get(word.clone()) == Some("ptx")).then_some(open.end)
            }
            _ => None,
        };
        at += 1;
        let Some(start) = opens else { continue };
        let close = closing(&tokens, at + 1);
        let end = tokens.get(close).map_or(text.len(), |(_, close)| close.start);
        let inner = text.get(start..end).unwrap_or_default();
        pieces.push(Piece::new(start..end, !is_module(inner)));
        at = close;
    }
    pieces
}

/// The token that closes the bracket at `open`.
fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, (kind, _)) in tokens.iter().enumerate().skip(open) {
        match kind {
            Kind::Punct(b'{' | b'(' | b'[') => depth += 1,
            Kind::Punct(b'}' | b')' | b']') if depth <= 1 => return at,
            Kind::Punct(b'}' | b')' | b']') => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Returns true for a whole module, which begins with its header.
fn is_module(text: &str) -> bool {
    let (source, _) = ptx_core::lex::lex(text.as_bytes());
    source.bytes(0) == b".version"
}

/// A name that a kernel declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Local {
    pub(crate) name: String,
    pub(crate) range: Range<usize>,
    /// Its type as written, or empty.
    pub(crate) ty: String,
}

/// The parameters and variables of the function around a position that are declared before it, in order.
pub(crate) fn locals(text: &str, offset: usize) -> Vec<Local> {
    let tokens = scan(text);
    let word = |token: &Token| if token.0 == Kind::Word { text.get(token.1.clone()).unwrap_or_default() } else { "" };
    let behind = tokens.partition_point(|(_, range)| range.start < offset);
    let Some(first) = tokens[..behind].iter().rposition(|token| word(token) == "fn") else { return Vec::new() };
    let mut found: Vec<Local> = Vec::new();
    let is_colon = |at: usize| {
        let colon = |at: usize| tokens.get(at).is_some_and(|(kind, _)| *kind == Kind::Punct(b':'));
        colon(at) && !colon(at + 1) && !colon(at - 1)
    };
    let (mut depth, mut in_body) = (0usize, false);
    let mut pattern: Option<usize> = None;
    for at in first + 1..behind {
        match (tokens[at].0, word(&tokens[at])) {
            (Kind::Punct(b'(' | b'['), _) => depth += 1,
            (Kind::Punct(b')' | b']'), _) => depth = depth.saturating_sub(1),
            (Kind::Punct(b'{'), _) => in_body = true,
            (_, "let" | "for") => pattern = Some(depth),
            (Kind::Punct(b'=' | b';'), _) | (_, "in") => pattern = None,
            (Kind::Punct(b':'), _) if pattern == Some(depth) && is_colon(at) => pattern = None,
            (Kind::Word, "mut" | "ref") => {}
            (Kind::Word, name) => {
                let is_parameter = !in_body && depth == 1 && is_colon(at + 1);
                if pattern.is_some() || is_parameter {
                    let ty = if is_colon(at + 1) { type_behind(text, &tokens, at + 2) } else { String::new() };
                    found.push(Local { name: name.to_owned(), range: tokens[at].1.clone(), ty });
                }
            }
            _ => {}
        }
    }
    found
}

/// The type that begins at a token.
fn type_behind(text: &str, tokens: &[Token], start: usize) -> String {
    let mut depth = 0usize;
    let mut end = start;
    for (kind, _) in tokens.iter().skip(start) {
        match kind {
            Kind::Punct(b'(' | b'[' | b'<') => depth += 1,
            Kind::Punct(b')' | b']' | b',' | b'=' | b';' | b'{') if depth == 0 => break,
            Kind::Punct(b')' | b']' | b'>') => depth = depth.saturating_sub(1),
            _ => {}
        }
        end += 1;
    }
    let range = tokens.get(start).zip(tokens.get(end.saturating_sub(1))).map(|(first, last)| first.1.start..last.1.end);
    range.and_then(|range| text.get(range)).unwrap_or_default().to_owned()
}

/// The declaration of a name in the kernel around a position.
pub(crate) fn local(text: &str, offset: usize, name: &str) -> Option<Local> {
    locals(text, offset).into_iter().rev().find(|local| local.name == name)
}

/// The path that ends at a position, and what stands in front of its last name: `warp::`, `tid.`.
fn path_before(text: &str, offset: usize) -> Option<(&str, &str, &str)> {
    let before = text.get(..offset)?;
    let word = |text: &str| text.len() - text.bytes().rev().take_while(|byte| is_name(*byte)).count();
    let start = word(before);
    let (last, rest) = (&before[start..], &before[..start]);
    let (separator, rest) = match rest {
        rest if rest.ends_with("::") => ("::", &rest[..rest.len() - 2]),
        rest if rest.ends_with('.') => (".", &rest[..rest.len() - 1]),
        _ => return Some(("", "", last)),
    };
    Some((&rest[word(rest)..], separator, last))
}

/// A word that can end a path.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) detail: String,
    pub(crate) is_function: bool,
}

/// The words that can follow `warp::`, `tid.` or a variable of a struct in front of a position, and the start of the one being typed.
pub(crate) fn members(text: &str, offset: usize) -> Option<(usize, Vec<Member>)> {
    let (owner, separator, last) = path_before(text, offset)?;
    let start = offset - last.len();
    let found: Vec<Member> = match separator {
        "::" => helpers(source(owner)?)
            .into_iter()
            .filter(|helper| !helper.name.contains("::"))
            .map(|helper| Member { name: helper.name, detail: helper.signature, is_function: true })
            .collect(),
        "." => special_members(owner)
            .into_iter()
            .chain(fields(text, &local(text, offset, owner).unwrap_or_else(none).ty))
            .collect(),
        _ => FILES
            .iter()
            .filter(|(name, _)| !last.is_empty() && name.starts_with(last))
            .map(|(name, _)| Member {
                name: format!("{name}::"),
                detail: "the helper library".to_owned(),
                is_function: false,
            })
            .collect(),
    };
    (!found.is_empty()).then_some((start, found))
}

fn none() -> Local {
    Local { name: String::new(), range: 0..0, ty: String::new() }
}

/// The components of a special register: `x`, `y` and `z` of `tid`.
fn special_members(owner: &str) -> Vec<Member> {
    let prefix = format!("%{owner}.");
    let mut found: Vec<Member> = table()
        .specials
        .values()
        .filter_map(|register| {
            let name = register.name.strip_prefix(&prefix)?.to_owned();
            Some(Member { name, detail: format!("{} .{}", register.name, register.ty.name()), is_function: false })
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// The fields of the struct that a type names, if the text has it.
fn fields(text: &str, ty: &str) -> Vec<Member> {
    let tokens = scan(text);
    let names: Vec<&str> =
        ty.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty()).collect();
    let word = |at: usize| tokens.get(at).and_then(|token| text.get(token.1.clone())).unwrap_or_default();
    let declared = (0..tokens.len()).find(|at| word(*at) == "struct" && names.contains(&word(at + 1)));
    let Some(open) = declared.and_then(|at| (at..tokens.len()).find(|at| matches!(word(*at), "{" | ";"))) else {
        return Vec::new();
    };
    let close = closing(&tokens, open);
    let mut found = Vec::new();
    for at in open + 1..close {
        let starts = matches!(word(at - 1), "{" | "," | "pub") || word(at - 1) == "]";
        if starts && tokens[at].0 == Kind::Word && word(at + 1) == ":" && word(at + 2) != ":" {
            found.push(Member {
                name: word(at).to_owned(),
                detail: type_behind(text, &tokens, at + 2),
                is_function: false,
            });
        }
    }
    found
}

/// A helper of the library, a special register or a variable at a position outside of `ptx!`: its bytes and a text about it.
pub(crate) fn hover(text: &str, offset: usize) -> Option<(Range<usize>, String)> {
    let offset = crate::text::floor_char(text, offset);
    let rest = text.get(offset..)?;
    let end = offset + rest.bytes().take_while(|byte| is_name(*byte)).count();
    let (owner, separator, last) = path_before(text, end)?;
    let range = end - last.len()..end;
    if last.is_empty() {
        return None;
    }
    let special =
        |name: &str| table().specials.get(name).map(|register| format!("```ptx\n{}\n```", show::special(register)));
    let found = match separator {
        "::" => helper(owner, last),
        "." => special(&format!("%{owner}.{last}")),
        _ => special(&format!("%{last}")).or_else(|| {
            let local = local(text, end, last)?;
            (!local.ty.is_empty()).then(|| format!("```rust\nlet {}: {}\n```", local.name, local.ty))
        }),
    };
    Some((range, found?))
}

fn helper(module: &str, name: &str) -> Option<String> {
    let known = helpers(source(module)?);
    let Helper { about, signature, text, .. } = known.into_iter().find(|helper| helper.name == name)?;
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("///"));
    Some(format!("```rust\n{signature}\n```\n{about}\n\n```rust\n{}\n```", lines.collect::<Vec<_>>().join("\n")))
}

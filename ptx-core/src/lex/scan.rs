//! Byte classes and runs: where the thing that starts here ends. No tokens, no diagnostics.

use crate::token::Kind;

/// The kind of token that a byte starts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Unknown,
    Blank,
    Word,
    Digit,
    Dot,
    Percent,
    Slash,
    Quote,
    Punct,
}

/// The class of every byte. NUL is a blank: modules cut out of binaries are padded with it; so is the end of a file on DOS.
static CLASS: [Class; 256] = {
    let mut table = [Class::Unknown; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0c | 0x1a | 0 => Class::Blank,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => Class::Word,
            b'0'..=b'9' => Class::Digit,
            b'.' => Class::Dot,
            b'%' => Class::Percent,
            b'/' => Class::Slash,
            b'"' => Class::Quote,
            b',' | b';' | b':' | b'[' | b']' | b'(' | b')' | b'{' | b'}' | b'<' | b'>' => Class::Punct,
            b'@' | b'!' | b'&' | b'|' | b'^' | b'~' | b'+' | b'-' | b'*' | b'=' | b'?' => Class::Punct,
            _ => Class::Unknown,
        };
        byte += 1;
    }
    table
};

#[inline]
pub(super) fn class(byte: u8) -> Class {
    CLASS[byte as usize]
}

/// End of the run of bytes that satisfy `accept`.
#[inline]
fn run(bytes: &[u8], from: usize, accept: impl Fn(u8) -> bool) -> usize {
    let mut at = from;
    while bytes.get(at).is_some_and(|&b| accept(b)) {
        at += 1;
    }
    at
}

/// The end of `[A-Za-z0-9_$]*`.
#[inline]
pub(super) fn word(bytes: &[u8], from: usize) -> usize {
    run(bytes, from, |b| matches!(class(b), Class::Word | Class::Digit))
}

/// The end of the line, before its `\n`.
pub(super) fn line(bytes: &[u8], from: usize) -> usize {
    run(bytes, from, |b| b != b'\n')
}

/// The end of `/* … */`, which does not nest; `None` if it never ends.
pub(super) fn block_comment_end(bytes: &[u8], from: usize) -> Option<usize> {
    let body = from + 2;
    bytes[body..].windows(2).position(|w| w == b"*/").map(|n| body + n + 2)
}

/// Returns true if a `# 12 "file"` or `#line 12` of the C preprocessor starts here. ptxas skips those to the end of
/// the line.
pub(super) fn is_line_marker(bytes: &[u8], at: usize) -> bool {
    let Some(rest) = bytes[at..].strip_prefix(b"#") else { return false };
    let rest = rest.trim_ascii_start();
    rest.starts_with(b"line") || rest.first().is_some_and(u8::is_ascii_digit)
}

/// The end of a run of unknown bytes.
pub(super) fn unknown(bytes: &[u8], from: usize) -> usize {
    run(bytes, from + 1, |b| class(b) == Class::Unknown)
}

/// The end of a string. It may hold line ends, and no escapes; without a closing quote it ends at its line's end.
pub(super) fn string(bytes: &[u8], from: usize) -> usize {
    match bytes[from + 1..].iter().position(|&b| b == b'"') {
        Some(n) => from + n + 2,
        None => line(bytes, from),
    }
}

/// Returns true if a string token has its closing quote.
pub(super) fn closed(text: &[u8]) -> bool {
    text.len() > 1 && text.ends_with(b"\"")
}

/// A token that starts with a dot: a modifier with its `::` pieces, a number such as `.5`, or the dot alone.
///
/// Dots in a row (`...`, `0..4`) stay alone, so that a number can follow them.
#[inline]
pub(super) fn dot(bytes: &[u8], at: usize, touches_name: bool) -> (Kind, usize) {
    let after_dots = at > 0 && bytes[at - 1] == b'.';
    let mut end = word(bytes, at + 1);
    if end == at + 1 || after_dots {
        return (Kind::Punct(b'.'), at + 1);
    }
    if !touches_name && let Some(end) = fraction(bytes, at) {
        return (Kind::Float, end);
    }
    while bytes[end..].starts_with(b"::") {
        match word(bytes, end + 2) {
            next if next > end + 2 => end = next,
            _ => break,
        }
    }
    (Kind::Dot, bank(bytes, at, ratio(bytes, end)))
}

/// The end of `[2]` behind the `.const` of an instruction: a constant bank is a part of its modifier, but an operand of a
/// directive, before which its line has nothing, a label or another dot.
fn bank(bytes: &[u8], dot: usize, end: usize) -> usize {
    let close = digits(bytes, end + 1);
    let written = bytes.get(end) == Some(&b'[') && close > end + 1 && bytes.get(close) == Some(&b']');
    if !written || &bytes[dot..end] != b".const" {
        return end;
    }
    let joined = |b: &u8| matches!(class(*b), Class::Word | Class::Digit | Class::Dot | Class::Blank) && *b != b'\n';
    let start = bytes[..dot].iter().rposition(|b| !joined(b)).map_or(0, |before| before + 1);
    match bytes[start..=dot].iter().find(|b| class(**b) != Class::Blank) {
        Some(b'.') => end,
        _ => close + 1,
    }
}

/// The end of `:4` behind `.sp::2`.
fn ratio(bytes: &[u8], at: usize) -> usize {
    let digit = matches!(bytes[..at], [.., b':', b':', b'0'..=b'9']);
    let end = digits(bytes, at + 1);
    if digit && bytes.get(at) == Some(&b':') && end > at + 1 { end } else { at }
}

/// The end of `.5` or `.5e-3`, where no other name byte follows (`.2d` is a modifier).
fn fraction(bytes: &[u8], at: usize) -> Option<usize> {
    let digits = digits(bytes, at + 1);
    let end = exponent(bytes, digits).unwrap_or(digits);
    (digits > at + 1 && word(bytes, end) == end).then_some(end)
}

fn digits(bytes: &[u8], from: usize) -> usize {
    run(bytes, from, |b| b.is_ascii_digit())
}

/// The end of `e+5`, if there is one.
fn exponent(bytes: &[u8], at: usize) -> Option<usize> {
    let mark = matches!(bytes.get(at)?, b'e' | b'E');
    let from = at + 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
    let end = digits(bytes, from);
    (mark && end > from).then_some(end)
}

/// An integer or a floating-point literal: manual section 4.5.1 and 4.5.2.
#[inline]
pub(super) fn number(bytes: &[u8], at: usize) -> (Kind, usize) {
    if let Some(found) = prefixed(bytes, at) {
        return found;
    }
    let whole = digits(bytes, at);
    let end = match bytes.get(whole) {
        Some(b'.') => match point(bytes, whole) {
            Some(end) => end,
            None => return (Kind::Int, whole),
        },
        Some(b'e' | b'E') => whole,
        _ => return (Kind::Int, suffix(bytes, whole)),
    };
    match exponent(bytes, end) {
        Some(end) => (Kind::Float, end),
        None if end > whole => (Kind::Float, end),
        None => (Kind::Int, whole),
    }
}

/// Past the point of a decimal and its digits; `None` where the dot starts something else (`1.x`, `0..4`).
fn point(bytes: &[u8], dot: usize) -> Option<usize> {
    let end = digits(bytes, dot + 1);
    let other = end == dot + 1 && exponent(bytes, end).is_none();
    let taken = bytes.get(end).is_some_and(|&b| matches!(class(b), Class::Word | Class::Dot));
    (!(other && taken)).then_some(end)
}

/// `0x1F`, `0b11`, `0f3F800000`, `0d3FF0000000000000`, in any case.
#[inline]
fn prefixed(bytes: &[u8], at: usize) -> Option<(Kind, usize)> {
    if bytes[at] != b'0' {
        return None;
    }
    let from = at + 2;
    match bytes.get(at + 1)?.to_ascii_lowercase() {
        b'x' => integer(bytes, from, run(bytes, from, |b| b.is_ascii_hexdigit())),
        b'b' => integer(bytes, from, run(bytes, from, |b| matches!(b, b'0' | b'1'))),
        b'f' => bits(bytes, from, 8),
        b'd' => bits(bytes, from, 16),
        _ => None,
    }
}

fn integer(bytes: &[u8], from: usize, end: usize) -> Option<(Kind, usize)> {
    (end > from).then(|| (Kind::Int, suffix(bytes, end)))
}

fn bits(bytes: &[u8], from: usize, count: usize) -> Option<(Kind, usize)> {
    let digits = bytes.get(from..from + count)?;
    digits.iter().all(u8::is_ascii_hexdigit).then_some((Kind::Float, from + count))
}

/// Past the `U` of an unsigned literal.
fn suffix(bytes: &[u8], at: usize) -> usize {
    at + usize::from(bytes.get(at) == Some(&b'U'))
}

//! Directives are written as their lines of the table say: numbers, strings and names, each in its place.
//!
//! What the numbers and names mean is checked elsewhere, and so is their existence for the target and version (`features`).

use crate::diag::{Diagnostic, codes};
use crate::hash::Map;
use crate::ir::Module;
use crate::isa::{DirectiveInfo, table};
use crate::syntax::{Directive, StmtKind, Tokens, Tree};
use crate::token::{Kind, TokenId};

/// A piece of a directive's form.
#[derive(Debug)]
enum Part {
    /// `line`, `nx`: a number of 32 bits.
    Int,
    /// `timestamp`, `size`: a number of 64 bits.
    Long,
    /// `offset`: a number of 32 bits that has no name.
    Offset,
    /// `major.minor`
    Version,
    /// `"name"`
    Str,
    /// `label`, `function`, `target`: a name.
    Name,
    /// A comma, or a word with an underscore: stands for itself.
    Literal(&'static str),
    /// `{, ny}`; with `…` at its end any number of times.
    Optional(Vec<Part>, bool),
}

/// The words of a form that stand for names; the others stand for numbers.
const NAMES: &[&str] = &["label", "function", "name", "target", "option"];

pub(super) fn check_directives(tree: &Tree, _: &Module, out: &mut Vec<Diagnostic>) {
    let mut forms = Forms::default();
    let mut check = |name, tokens: &Tokens, closed| out.extend(mistake(tree, &mut forms, (name, tokens, closed)));
    for stmt in &tree.stmts {
        match &stmt.kind {
            StmtKind::Directive(d) => {
                let closed = tree.source.bytes(stmt.head.end - 1) == b";";
                let end = stmt.head.end - u32::from(closed);
                check(d.name, &(d.name + 1..end), closed);
            }
            StmtKind::Func(func) => func.directives.iter().for_each(|d| check(d.name, &arguments(tree, d), false)),
            StmtKind::Prototype(prototype) => {
                prototype.directives.iter().for_each(|d| check(d.name, &arguments(tree, d), false));
            }
            _ => {}
        }
    }
}

/// The forms of a module's directives, behind their names and without their `;`.
type Forms = Map<&'static str, Vec<Part>>;

fn read_form(info: &DirectiveInfo) -> Vec<Part> {
    let (_, behind) = info.text.split_once(info.name).unwrap_or_default();
    parts(&mut behind.trim_end_matches(';'))
}

/// The tokens behind a directive's name.
fn arguments(tree: &Tree, directive: &Directive) -> Tokens {
    let last = tree.list(&directive.args).last();
    directive.name + 1..last.map_or(directive.name + 1, |e| tree.expr(*e).tokens.end)
}

/// The error of a directive, which may end in a `;`.
fn mistake(tree: &Tree, forms: &mut Forms, (name, tokens, closed): (TokenId, &Tokens, bool)) -> Option<Diagnostic> {
    let text = tree.source.text(name);
    let info = table().directives.get(text)?;
    let form = forms.entry(info.name).or_insert_with(|| read_form(info));
    let mut at = tokens.start;
    let fits = matches(tree, form, &mut at, tokens.end) && at == tokens.end;
    if fits && (!closed || info.text.ends_with(';')) {
        return None;
    }
    let span = tree.source.span(name).to(tree.source.span(at.min(tokens.end.saturating_sub(1)).max(name)));
    let text = format!("this is no `{text}`: it is written `{}`", info.text);
    let d = Diagnostic::error(&codes::P0609, span, text).section(info.section);
    Some(if fits { d.help("leave out the `;`") } else { d })
}

/// Moves `at` behind the parts; stops at the token that does not fit.
fn matches(tree: &Tree, parts: &[Part], at: &mut TokenId, end: TokenId) -> bool {
    parts.iter().all(|part| match part {
        Part::Optional(inner, again) => {
            let begins = |at: TokenId| at < end && inner.first().is_none_or(|first| fits(tree, first, at));
            let mut times = 0;
            while begins(*at) && (times == 0 || *again) {
                if !matches(tree, inner, at, end) {
                    return false;
                }
                times += 1;
            }
            true
        }
        part => {
            let fits = *at < end && fits(tree, part, *at);
            *at += u32::from(fits);
            while fits && *at < end && matches!(part, Part::Name) && touches(tree, *at) {
                *at += 1; // `bb.1`
            }
            fits
        }
    })
}

fn touches(tree: &Tree, at: TokenId) -> bool {
    tree.source.kind(at) == Kind::Dot && tree.source.trivia(at).is_empty()
}

fn fits(tree: &Tree, part: &Part, at: TokenId) -> bool {
    match (part, tree.source.kind(at)) {
        (Part::Int | Part::Offset, Kind::Int) => {
            u32::try_from(crate::parse::integer_value(tree.source.bytes(at))).is_ok()
        }
        (Part::Long, Kind::Int) => true,
        (Part::Int, Kind::Word) => tree.source.bytes(at) == b"WARP_SZ",
        (Part::Version, Kind::Float) | (Part::Str, Kind::Str) | (Part::Name, Kind::Word | Kind::Dot) => true,
        (Part::Literal(text), _) => tree.source.text(at) == *text,
        _ => false,
    }
}

/// Reads a form up to its end or to a `}`.
fn parts(text: &mut &'static str) -> Vec<Part> {
    let mut out = Vec::new();
    while let Some(first) = text.trim_start().chars().next() {
        *text = text.trim_start();
        let length = match first {
            '"' => 2 + text[1..].find('"').unwrap_or(0),
            _ if is_word(first) => text.find(|c| !is_word(c)).unwrap_or(text.len()),
            _ => first.len_utf8(),
        };
        let (word, rest) = text.split_at(length);
        *text = rest;
        match first {
            '}' => return out,
            '{' => {
                let inner = parts(text);
                let again = matches!(inner.last(), Some(Part::Literal("…")));
                let inner = inner.into_iter().filter(|p| !matches!(p, Part::Literal("…"))).collect();
                out.push(Part::Optional(inner, again));
            }
            _ => out.push(part(word, first)),
        }
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.')
}

fn part(word: &'static str, first: char) -> Part {
    match word {
        _ if first == '"' => Part::Str,
        "major.minor" => Part::Version,
        "offset" => Part::Offset,
        "timestamp" | "size" => Part::Long,
        _ if NAMES.contains(&word) => Part::Name,
        _ if is_word(first) && !word.contains('_') => Part::Int,
        _ => Part::Literal(word),
    }
}

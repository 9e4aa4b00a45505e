//! The statement that is being typed: the tokens in front of a position, and what can follow them. The statement has no end yet, so its tree has little of it.

use crate::document::{Document, Part};
use crate::place::{is_word, path};
use ptx_core::isa::find::Form;
use ptx_core::isa::{OperandSpec, Version, table};
use ptx_core::syntax::{StmtId, StmtKind};
use ptx_core::token::{Kind, TokenId};
use std::ops::Range;

/// The place of a position in its statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Context<'d> {
    /// Nothing stands before it but a guard.
    Start,
    /// Behind the opcode and these modifiers, without their dots.
    Modifier { opcode: &'d str, before: Vec<&'d str> },
    /// At an operand.
    Operand { opcode: &'d str, modifiers: Vec<&'d str>, at: usize, in_brackets: bool },
    /// A guard's register.
    Guard,
    /// Inside a directive or a declaration, behind these words.
    Directive { words: Vec<&'d str> },
    /// Inside a comment, a string or a number: nothing is to be added.
    Nothing,
}

/// A position in a text that is being typed.
pub(crate) struct Typed<'d> {
    pub(crate) part: Part<'d>,
    /// The bytes of the word that the position ends, empty where one begins.
    pub(crate) word: Range<usize>,
    pub(crate) context: Context<'d>,
    /// The statements around the position.
    pub(crate) path: Vec<StmtId>,
}

impl Document {
    /// The context of a position.
    pub(crate) fn typed(&self, offset: usize) -> Option<Typed<'_>> {
        let part = self.part(self.piece_before(offset)?)?;
        let source = &part.tree.source;
        let nothing = |context| Typed { part, word: offset..offset, context, path: Vec::new() };
        let Some(last) = last_before(&part, offset) else {
            let next = source.place(0).lo as usize + part.base;
            let blank = !self.text().as_str().get(part.base..offset.min(next)).unwrap_or_default().contains(['/', '*']);
            return Some(nothing(if blank { Context::Start } else { Context::Nothing }));
        };
        let range = part.token(last);
        let path = path(part.tree, last);
        let touches = range.end >= offset;
        if in_comment(self, range.end.min(offset), offset) || touches && matches!(source.kind(last), Kind::Str) {
            return Some(nothing(Context::Nothing));
        }
        // What is typed is the word that touches the position; what stands before it decides.
        let is_partial =
            touches && (is_word(source.kind(last)) || matches!(source.kind(last), Kind::Punct(b'.' | b'%')));
        let word = if is_partial { range.start..offset } else { offset..offset };
        let tokens = before(self, &part, &path, last, offset);
        let context = context(&part, tokens, is_partial);
        Some(Typed { part, word, context, path })
    }
}

/// The last token that begins before a position.
fn last_before(part: &Part<'_>, offset: usize) -> Option<TokenId> {
    part.last_at(offset.checked_sub(1)?)
}

fn in_comment(document: &Document, from: usize, to: usize) -> bool {
    let blank = document.text().as_str().get(from..to).unwrap_or_default();
    let line = blank.rsplit('\n').next().unwrap_or_default();
    line.contains("//") || blank.rfind("/*").is_some_and(|open| !blank[open..].contains("*/"))
}

/// The tokens of the statement that a position is in, up to it.
fn before(document: &Document, part: &Part<'_>, path: &[StmtId], last: TokenId, offset: usize) -> Range<TokenId> {
    let tree = part.tree;
    let none = last + 1..last + 1;
    let Some(stmt) = path.last().map(|id| tree.stmt(*id)) else { return none };
    let kind = tree.source.kind(last);
    let is_end = matches!(kind, Kind::Punct(b';' | b'}')) && !stmt.head.contains(&(last + 1));
    let opens = stmt.body.is_some() && last + 1 == stmt.head.end;
    if stmt.tail().contains(&last) && !stmt.tail().is_empty() || is_end || opens {
        return none;
    }
    if matches!(stmt.kind, StmtKind::Label(_)) && kind == Kind::Punct(b':') {
        return none;
    }
    let gap = document.text().as_str().get(part.token(last).end..offset).unwrap_or_default();
    let is_open = matches!(stmt.kind, StmtKind::Directive(_) | StmtKind::Error);
    if is_open && gap.contains('\n') && kind != Kind::Punct(b',') {
        return none;
    }
    let mut start = last;
    while start > stmt.head.start && tree.source.kind(start - 1) != Kind::Punct(b';') {
        start -= 1;
    }
    if tree.source.kind(last) == Kind::Punct(b';') { none } else { start..last + 1 }
}

fn context<'d>(part: &Part<'d>, tokens: Range<TokenId>, is_partial: bool) -> Context<'d> {
    let source = &part.tree.source;
    let known = tokens.start..tokens.end - u32::from(is_partial && !tokens.is_empty());
    let mut at = known.start;
    if at < known.end && source.kind(at) == Kind::Punct(b'@') {
        at += 1;
        if at < known.end && source.kind(at) == Kind::Punct(b'!') {
            at += 1;
        }
        if at >= known.end {
            return Context::Guard;
        }
        at += 1;
    }
    // A label on the same line.
    if at + 1 < known.end && source.kind(at + 1) == Kind::Punct(b':') {
        at += 2;
    }
    if at >= known.end {
        return Context::Start;
    }
    match source.kind(at) {
        Kind::Word => instruction(part, at, &known, is_partial),
        Kind::Dot | Kind::Punct(b'.') => Context::Directive { words: known.map(|token| source.text(token)).collect() },
        _ => Context::Nothing,
    }
}

fn instruction<'d>(part: &Part<'d>, opcode: TokenId, known: &Range<TokenId>, is_partial: bool) -> Context<'d> {
    let source = &part.tree.source;
    let mut behind = opcode + 1;
    while behind < known.end && source.kind(behind) == Kind::Dot {
        behind += 1;
    }
    let modifiers: Vec<&str> = (opcode + 1..behind).map(|token| source.text(token).trim_start_matches('.')).collect();
    let opcode = source.text(opcode);
    let touches = |token: TokenId| (token as usize) < source.tokens.len() && source.trivia(token).is_empty();
    if behind >= known.end && is_partial && touches(behind) && !is_value(source.kind(behind)) {
        return Context::Modifier { opcode, before: modifiers };
    }
    let (mut depth, mut at, mut brackets) = (0usize, 0, 0usize);
    for token in behind..known.end {
        match source.kind(token) {
            Kind::Punct(open @ (b'{' | b'[' | b'(')) => {
                depth += 1;
                brackets += usize::from(open == b'[');
            }
            Kind::Punct(close @ (b'}' | b']' | b')')) => {
                depth = depth.saturating_sub(1);
                brackets = brackets.saturating_sub(usize::from(close == b']'));
            }
            Kind::Punct(b',') if depth == 0 => at += 1,
            _ => {}
        }
    }
    Context::Operand { opcode, modifiers, at, in_brackets: brackets > 0 }
}

fn is_value(kind: Kind) -> bool {
    matches!(kind, Kind::Int | Kind::Float | Kind::Str | Kind::Word)
}

/// The forms that an opcode and its modifiers have, with the operand of each at a place; those that lack modifiers count if nothing fits.
pub(crate) fn operands(opcode: &str, modifiers: &[&str], at: usize) -> Vec<(Form, Option<&'static OperandSpec>)> {
    let forms = table().find_in(Version::NEWEST, opcode, modifiers).unwrap_or_default();
    forms
        .into_iter()
        .map(|form| {
            let spec = form.row.operands.get(at);
            (form, spec)
        })
        .collect()
}

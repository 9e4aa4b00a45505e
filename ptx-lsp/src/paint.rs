//! Semantic tokens: the meaning of each word, as colors.

use crate::document::{Document, Part};
use crate::text::units_of;
use ptx_core::isa::{Type, table};
use ptx_core::syntax::{StmtId, StmtKind, Tree};
use ptx_core::token::{Kind, TokenId};
use std::ops::Range;

/// The names of token types, in the order of `Paint::kind`.
pub const TYPES: &[&str] = &[
    "keyword",
    "type",
    "modifier",
    "macro",
    "variable",
    "parameter",
    "label",
    "function",
    "number",
    "string",
    "property",
];

/// The names of token modifiers; the bit of each is its place.
pub const MODIFIERS: &[&str] = &["declaration", "readonly", "defaultLibrary", "static"];

const KEYWORD: u32 = 0;
const TYPE: u32 = 1;
const MODIFIER: u32 = 2;
const DIRECTIVE: u32 = 3;
const VARIABLE: u32 = 4;
const PARAMETER: u32 = 5;
const LABEL: u32 = 6;
const FUNCTION: u32 = 7;
const NUMBER: u32 = 8;
const STRING: u32 = 9;
const PROPERTY: u32 = 10;

const DECLARATION: u32 = 1;
const READONLY: u32 = 2;
const LIBRARY: u32 = 4;
const STATIC: u32 = 8;

/// The tokens of the lines that a range touches, as the protocol encodes them: line and character relative to the token before, length, type, modifiers.
pub fn tokens(document: &Document, range: Range<usize>) -> Vec<u32> {
    let mut encoder = Encoder { document, data: Vec::new(), line: 0, character: 0 };
    for part in document.parts_in(&range) {
        let first = part.last_at(range.start).unwrap_or(0);
        let mut painter = Painter { part, path: Vec::new(), until: 0, meaning: Meaning::Other };
        for token in first..part.tree.source.tokens.len() as TokenId {
            let bytes = part.token(token);
            if bytes.start >= range.end {
                break;
            }
            if let Some((kind, modifiers)) = painter.paint(token) {
                encoder.push(bytes, kind, modifiers);
            }
        }
    }
    encoder.data
}

struct Encoder<'d> {
    document: &'d Document,
    data: Vec<u32>,
    line: u32,
    character: u32,
}

impl Encoder<'_> {
    fn push(&mut self, bytes: Range<usize>, kind: u32, modifiers: u32) {
        let at = self.document.text().position(bytes.start);
        let text = self.document.text().as_str().get(bytes).unwrap_or_default();
        // A token of several lines, which only a string can be, is left to the grammar.
        if text.contains(['\n', '\r']) {
            return;
        }
        let character = if at.line == self.line { at.character.saturating_sub(self.character) } else { at.character };
        self.data.extend([at.line.saturating_sub(self.line), character, units_of(text), kind, modifiers]);
        (self.line, self.character) = (at.line, at.character);
    }
}

/// The part of a statement that its tokens have in common.
#[derive(Clone, Copy)]
enum Meaning {
    Inst { opcode: TokenId, modifiers_end: TokenId },
    Label,
    Other,
}

struct Painter<'d> {
    part: Part<'d>,
    path: Vec<StmtId>,
    /// The first token behind the statement.
    until: TokenId,
    meaning: Meaning,
}

impl Painter<'_> {
    /// Moves to the statement of a token.
    fn enter(&mut self, token: TokenId) {
        let tree = self.part.tree;
        self.path = crate::place::path(tree, token);
        let stmt = self.path.last().map(|id| tree.stmt(*id));
        self.until = stmt.map_or(token + 1, |stmt| if stmt.head.contains(&token) { stmt.head.end } else { token + 1 });
        self.meaning = match stmt.map(|stmt| &stmt.kind) {
            Some(StmtKind::Inst(inst)) => {
                Meaning::Inst { opcode: inst.opcode, modifiers_end: inst.modifiers.end.max(inst.opcode + 1) }
            }
            Some(StmtKind::Label(_)) => Meaning::Label,
            _ => Meaning::Other,
        };
    }

    fn paint(&mut self, token: TokenId) -> Option<(u32, u32)> {
        let source = &self.part.tree.source;
        let kind = source.kind(token);
        if token >= self.until {
            self.enter(token);
        }
        match (kind, self.meaning) {
            (Kind::Int | Kind::Float, _) => Some((NUMBER, 0)),
            (Kind::Str, _) => Some((STRING, 0)),
            (Kind::Word, Meaning::Inst { opcode, .. }) if opcode == token => Some((KEYWORD, 0)),
            (Kind::Dot, Meaning::Inst { opcode, modifiers_end }) if token > opcode && token < modifiers_end => {
                let is_type = Type::find(source.text(token).trim_start_matches('.')).is_some();
                Some((if is_type { TYPE } else { MODIFIER }, 0))
            }
            (Kind::Dot, Meaning::Inst { .. }) => Some((PROPERTY, 0)),
            (Kind::Word, Meaning::Label) => Some((LABEL, DECLARATION)),
            (Kind::Word, _) => Some(word(self.part.tree, &self.path, token)),
            (Kind::Dot, _) => {
                let is_type = Type::find(source.text(token).trim_start_matches('.')).is_some();
                Some((if is_type { TYPE } else { DIRECTIVE }, 0))
            }
            _ => None,
        }
    }
}

/// A name, by its spelling and the statement that it is in.
fn word(tree: &Tree, path: &[StmtId], token: TokenId) -> (u32, u32) {
    let text = tree.source.text(token);
    if text.starts_with('%') {
        let base = table().specials.contains_key(text);
        return if base { (VARIABLE, READONLY | LIBRARY) } else { (VARIABLE, declares(tree, path, token)) };
    }
    let Some(stmt) = path.last().map(|id| tree.stmt(*id)) else { return (VARIABLE, 0) };
    match &stmt.kind {
        StmtKind::Func(func) if func.name == Some(token) => (FUNCTION, DECLARATION),
        StmtKind::Func(_) => (PARAMETER, DECLARATION),
        StmtKind::Var(var) if tree.source.text(var.space) == ".reg" => (VARIABLE, DECLARATION),
        StmtKind::Var(_) => (VARIABLE, declares(tree, path, token) | STATIC),
        StmtKind::Inst(_) => (named(tree, path, text), 0),
        _ => (VARIABLE, 0),
    }
}

fn declares(tree: &Tree, path: &[StmtId], token: TokenId) -> u32 {
    let declares = path
        .last()
        .is_some_and(|id| crate::place::role(tree, tree.stmt(*id), token) == crate::place::Role::Declaration);
    if declares { DECLARATION } else { 0 }
}

/// An operand without `%`: compilers write labels with `$`, and the parameters of the function are few.
fn named(tree: &Tree, path: &[StmtId], text: &str) -> u32 {
    if text.starts_with("$L") || text.starts_with("$__") {
        return LABEL;
    }
    let params = path.first().map(|id| &tree.stmt(*id).kind);
    let is_param = matches!(params, Some(StmtKind::Func(func)) if func
        .params
        .iter()
        .flat_map(|var| tree.names(var))
        .any(|name| tree.source.text(name.name) == text));
    if is_param { PARAMETER } else { VARIABLE }
}

//! What stands at a position: the token, its statement, and the part that it plays there.

use crate::document::{Document, Part};
use ptx_core::isa::find::{Form, Misfit};
use ptx_core::isa::{OperandSpec, Version, table};
use ptx_core::syntax::{ExprId, Func, Inst, Stmt, StmtId, StmtKind, Tokens, Tree};
use ptx_core::token::{Kind, TokenId};
use std::ops::Range;

/// A token, with the statements around it from the outermost on.
pub(crate) struct Spot<'d> {
    pub(crate) part: Part<'d>,
    pub(crate) token: TokenId,
    pub(crate) path: Vec<StmtId>,
}

/// The part that a token plays in its statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Opcode,
    /// A modifier of an instruction, by its number.
    Modifier(usize),
    /// Anything that may be a name: an operand, a guard, an argument.
    Operand,
    /// A name where it is declared.
    Declaration,
    /// A word with a dot, outside of instructions.
    Directive,
    Other,
}

/// The statements that hold a token, from the outermost on.
pub(crate) fn path(tree: &Tree, token: TokenId) -> Vec<StmtId> {
    let mut path = Vec::new();
    let mut list = tree.items.as_slice();
    loop {
        let behind = list.partition_point(|id| tree.stmt(*id).head.start <= token);
        let found = behind.checked_sub(1).and_then(|at| list.get(at));
        let Some(id) = found.filter(|id| token < tree.stmt(**id).tail().end) else { return path };
        path.push(*id);
        list = tree.stmt(*id).children();
    }
}

impl Document {
    /// The token at a position. Between two tokens that touch it is a word rather than punctuation, and the second of two words.
    pub(crate) fn spot(&self, offset: usize) -> Option<Spot<'_>> {
        let index = self.piece_before(offset)?;
        let here = |index: usize| {
            let part = self.part(index)?;
            let token = touching(&part, offset)?;
            Some(Spot { part, token, path: path(part.tree, token) })
        };
        match here(index) {
            Some(spot) if is_word(spot.part.tree.source.kind(spot.token)) => Some(spot),
            other => here(index + 1).or(other),
        }
    }
}

fn touching(part: &Part<'_>, offset: usize) -> Option<TokenId> {
    let last = part.last_at(offset)?;
    let touches = |token: &TokenId| {
        let range = part.token(*token);
        range.start <= offset && offset <= range.end
    };
    let before = last.checked_sub(1).filter(touches);
    match is_word(part.tree.source.kind(last)) {
        true => Some(last).filter(touches),
        false => before.filter(|token| is_word(part.tree.source.kind(*token))).or(Some(last).filter(touches)),
    }
}

pub(crate) fn is_word(kind: Kind) -> bool {
    matches!(kind, Kind::Word | Kind::Dot | Kind::Int | Kind::Float | Kind::Str)
}

impl<'d> Spot<'d> {
    pub(crate) fn stmt(&self) -> Option<&'d Stmt> {
        self.path.last().map(|id| self.part.tree.stmt(*id))
    }

    /// The function around it.
    pub(crate) fn function(&self) -> Option<StmtId> {
        self.path.iter().copied().find(|id| matches!(self.part.tree.stmt(*id).kind, StmtKind::Func(_)))
    }

    pub(crate) fn inst(&self) -> Option<&'d Inst> {
        match &self.stmt()?.kind {
            StmtKind::Inst(inst) => Some(inst),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> &'d str {
        self.part.tree.source.text(self.token)
    }

    pub(crate) fn range(&self) -> Range<usize> {
        self.part.token(self.token)
    }

    pub(crate) fn role(&self) -> Role {
        let Some(stmt) = self.stmt() else { return Role::Other };
        role(self.part.tree, stmt, self.token)
    }

    /// The tokens of the name that it is a part of: `%tid` and `.x`.
    pub(crate) fn name(&self) -> Tokens {
        let source = &self.part.tree.source;
        let touches = |token: TokenId| source.kind(token) == Kind::Dot && source.trivia(token).is_empty();
        let mut start = self.token;
        while start > 0 && touches(start) {
            start -= 1;
        }
        if source.kind(start) != Kind::Word {
            return self.token..self.token + 1;
        }
        let mut end = start + 1;
        while (end as usize) < source.tokens.len() && touches(end) {
            end += 1;
        }
        start..end
    }
}

/// The part that a token plays in a statement.
pub(crate) fn role(tree: &Tree, stmt: &Stmt, token: TokenId) -> Role {
    let kind = tree.source.kind(token);
    if !matches!(kind, Kind::Word | Kind::Dot) {
        return Role::Other;
    }
    let declares = |func: &Func| {
        let params = func.params.iter().chain(&func.returns);
        func.name == Some(token) || params.flat_map(|var| tree.names(var)).any(|name| name.name == token)
    };
    match &stmt.kind {
        StmtKind::Inst(inst) if inst.opcode == token => Role::Opcode,
        StmtKind::Inst(inst) if inst.modifiers.contains(&token) => {
            Role::Modifier((token - inst.modifiers.start) as usize)
        }
        StmtKind::Label(name) if name.contains(&token) => Role::Declaration,
        StmtKind::Var(var) if tree.names(var).iter().any(|name| name.name == token) => Role::Declaration,
        StmtKind::Func(func) if declares(func) => Role::Declaration,
        StmtKind::Error => Role::Other,
        StmtKind::Inst(_) => Role::Operand,
        _ if kind == Kind::Dot => Role::Directive,
        _ => Role::Operand,
    }
}

/// The forms that a written instruction has, or nearly has.
pub(crate) fn forms(tree: &Tree, inst: &Inst) -> Result<Vec<Form>, Vec<Misfit>> {
    let modifiers: Vec<&str> =
        inst.modifiers.clone().map(|token| tree.source.text(token).trim_start_matches('.')).collect();
    table().find_in(Version::NEWEST, tree.source.text(inst.opcode), &modifiers)
}

/// The operand of an instruction that holds a token: its number, and its expression.
pub(crate) fn operand(tree: &Tree, inst: &Inst, token: TokenId) -> Option<(usize, ExprId)> {
    let list = tree.list(&inst.operands).iter().copied().enumerate();
    list.into_iter().find(|(_, id)| tree.expr(*id).tokens.contains(&token))
}

/// The row's operands that are written, if `count` are: optional groups come from the left.
pub(crate) fn written(specs: &[OperandSpec], count: usize) -> Vec<&OperandSpec> {
    let needed = specs.iter().filter(|spec| spec.group == 0).count();
    let mut spare = count.saturating_sub(needed);
    let mut open = 0;
    let mut found = Vec::new();
    for spec in specs {
        if spec.group != 0 && spec.group != open {
            let size = specs.iter().filter(|other| other.group == spec.group).count();
            if size > spare {
                continue;
            }
            spare -= size;
            open = spec.group;
        }
        found.push(spec);
    }
    found
}

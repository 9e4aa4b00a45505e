//! Scopes: what a name means where it stands. Inner scopes hide outer ones.

use crate::ir::{FuncId, LabelId, ProtoId, RegId, Register, TargetsId, VarId};
use crate::isa::Type;
use crate::span::Span;
use std::collections::HashMap;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entity {
    Reg(RegId),
    /// A range `%r<5>`: an index into [`Names::ranges`].
    Range(usize),
    Var(VarId),
    Func(FuncId),
    Label(LabelId),
    Proto(ProtoId),
    Targets(TargetsId),
}

/// `.reg .b32 %r<5>;`: its registers come into being when they are used.
#[derive(Debug)]
struct Range {
    count: u64,
    ty: Type,
    vector: u32,
    span: Span,
    scope: usize,
}

/// A declared name and the place of its declaration.
type Scope<'t> = HashMap<&'t str, (Entity, Span)>;

/// The stack of scopes; the first is the module's.
#[derive(Debug, Default)]
pub(super) struct Names<'t> {
    scopes: Vec<Scope<'t>>,
    ranges: Vec<Range>,
}

impl<'t> Names<'t> {
    pub(super) fn open(&mut self) {
        self.scopes.push(Scope::new());
    }

    pub(super) fn close(&mut self) {
        self.scopes.pop();
    }

    /// Declares a name; gives the place of an earlier declaration in the same scope.
    pub(super) fn declare(&mut self, name: &'t str, entity: Entity, span: Span) -> Option<Span> {
        let scope = self.scopes.last_mut()?;
        let ranged = || split(name).and_then(|(prefix, number)| held(&self.ranges, scope.get(prefix)?, number));
        match scope.get(name).map(|(_, earlier)| *earlier).or_else(ranged) {
            None => {
                scope.insert(name, (entity, span));
                None
            }
            earlier => earlier,
        }
    }

    /// Declares `prefix0` to `prefix{count-1}`.
    pub(super) fn declare_range(
        &mut self,
        prefix: &'t str,
        (count, ty, vector): (u64, Type, u32),
        span: Span,
    ) -> Option<Span> {
        let scope = self.scopes.len().saturating_sub(1);
        let member = |(name, (entity, span)): (&&str, &(Entity, Span))| {
            let number = name.strip_prefix(prefix).filter(|_| matches!(entity, Entity::Reg(_)))?;
            is_below(number, count).then_some(*span)
        };
        if let Some(earlier) = self.scopes.last().and_then(|s| s.iter().filter_map(member).min()) {
            return Some(earlier);
        }
        self.ranges.push(Range { count, ty, vector, span, scope });
        self.declare(prefix, Entity::Range(self.ranges.len() - 1), span)
    }

    /// What a name means here; a register of a range is added to `registers` at its first use.
    pub(super) fn find(&mut self, name: &'t str, registers: &mut Vec<Register>) -> Option<Entity> {
        let plain = self.scopes.iter().rev().find_map(|s| s.get(name)).map(|(entity, _)| *entity);
        match plain {
            Some(Entity::Range(_)) | None => self.in_range(name, registers),
            found => found,
        }
    }

    /// ptxas takes all the digits at the end of a name for the number: `%v1<8>` declares nothing that can be named.
    fn in_range(&mut self, name: &'t str, registers: &mut Vec<Register>) -> Option<Entity> {
        let (prefix, number) = split(name)?;
        let found = self.scopes.iter().rev().find_map(|s| s.get(prefix));
        let Some((Entity::Range(at), _)) = found else { return None };
        let range = self.ranges.get(*at)?;
        if !is_below(number, range.count) {
            return None;
        }
        let entity = Entity::Reg(RegId(u32::try_from(registers.len()).ok()?));
        let (scope, span) = (range.scope, range.span);
        registers.push(Register { name: name.to_owned(), ty: range.ty, vector: range.vector, span });
        self.scopes.get_mut(scope)?.insert(name, (entity, span));
        Some(entity)
    }

    /// The declared name nearest to this one, for "did you mean".
    pub(super) fn nearest(&self, name: &str) -> Option<&'t str> {
        let all = self.scopes.iter().flat_map(|s| s.keys().copied());
        crate::diag::near::nearest(name, all)
    }
}

/// The prefix and the number that a register of a range would have.
fn split(name: &str) -> Option<(&str, &str)> {
    let (prefix, number) = name.split_at(name.trim_end_matches(|c: char| c.is_ascii_digit()).len());
    (!number.is_empty()).then_some((prefix, number))
}

/// Whether this is the number of a register in a range of `count`, without needless zeros.
fn is_below(number: &str, count: u64) -> bool {
    let plain = number.len() == 1 || !number.starts_with('0');
    plain && number.bytes().all(|b| b.is_ascii_digit()) && number.parse().is_ok_and(|n: u64| n < count)
}

/// Where the range that holds this number is declared.
fn held(ranges: &[Range], (entity, span): &(Entity, Span), number: &str) -> Option<Span> {
    let Entity::Range(at) = entity else { return None };
    ranges.get(*at).filter(|range| is_below(number, range.count)).map(|_| *span)
}

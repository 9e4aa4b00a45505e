//! Scopes: what a name means where it stands. Inner scopes hide outer ones.

use crate::hash::Map;
use crate::ir::{FuncId, LabelId, ProtoId, RegId, Register, TargetsId, VarId};
use crate::isa::Type;
use crate::span::Span;
use std::cell::Cell;

/// Meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Entity {
    Reg(RegId),
    Var(VarId),
    Func(FuncId),
    Label(LabelId),
    Proto(ProtoId),
    Targets(TargetsId),
}

/// The declaration `prefix<5>`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ranged {
    /// Registers, which come into being when they are used: type, vector and alignment.
    Registers(Type, u32, u64),
    /// Variables, one after the other: the first.
    Variables(VarId),
}

#[derive(Debug)]
struct Range {
    count: u64,
    of: Ranged,
    span: Span,
    /// Those in use, by number.
    used: Vec<Option<RegId>>,
    /// Those in use with very high numbers.
    far: Map<u64, RegId>,
}

/// The numbers of a range that have a place of their own.
const NUMBERED: usize = 1 << 16;

/// The names of one scope. A range's prefix is no name: `.reg .b32 a, a<5>;` declares six registers.
#[derive(Debug, Default)]
struct Scope<'t> {
    names: Map<&'t str, (Entity, Span)>,
    ranges: Map<&'t str, Range>,
}

/// The stack of scopes; the first is the module's.
#[derive(Debug, Default)]
pub(super) struct Names<'t> {
    scopes: Vec<Scope<'t>>,
    /// The number of names compared with unknown ones.
    compared: Cell<usize>,
}

impl<'t> Names<'t> {
    pub(super) fn open(&mut self) {
        self.scopes.push(Scope::default());
    }

    pub(super) fn close(&mut self) {
        self.scopes.pop();
    }

    /// Declares a name; gives the place of an earlier declaration in the same scope.
    pub(super) fn declare(&mut self, name: &'t str, entity: Entity, span: Span) -> Option<Span> {
        let scope = self.scopes.last_mut()?;
        let of_range = || scope.range(name).filter(|_| !is_label(entity)).map(|range| range.span);
        let earlier = scope.names.get(name).map(|(_, span)| *span).or_else(of_range);
        if earlier.is_none() {
            scope.names.insert(name, (entity, span));
        }
        earlier
    }

    /// Declares a name that is new for the whole module.
    pub(super) fn declare_outside(&mut self, name: &'t str, entity: Entity, span: Span) {
        if let Some(scope) = self.scopes.first_mut() {
            scope.names.insert(name, (entity, span));
        }
    }

    /// The declaration outside of the innermost scope that has the name, if it is not a label.
    pub(super) fn outer(&self, name: &str) -> Option<Entity> {
        let mut found = self.scopes.iter().rev().filter_map(|scope| scope.names.get(name)).map(|(entity, _)| *entity);
        found.nth(1).filter(|entity| !matches!(entity, Entity::Label(_)))
    }

    /// Declares `prefix0` to `prefix{count-1}`; gives the place of an earlier declaration of one of them.
    pub(super) fn declare_range(&mut self, prefix: &'t str, count: u64, of: Ranged, span: Span) -> Option<Span> {
        let scope = self.scopes.last_mut()?;
        // Names that only mean a register of the range, as `r01` does, are hidden by it.
        let one_of =
            |name: &str| is_canonical(name) && numbered(name).is_some_and(|(p, number)| p == prefix && number < count);
        let names = |name: &str| name.starts_with(prefix) && one_of(name);
        let taken = scope.names.iter().filter(|(name, (entity, _))| names(name) && !is_label(*entity));
        let single = || taken.map(|(_, (_, span))| *span).min();
        let earlier = scope.ranges.get(prefix).map(|range| range.span).or_else(single);
        scope.ranges.entry(prefix).or_insert(Range { count, of, span, used: Vec::new(), far: Map::default() });
        earlier
    }

    /// Meaning of a name here; a register of a range is added to `registers` at its first use.
    pub(super) fn find(&mut self, name: &'t str, registers: &mut Vec<Register>) -> Option<Entity> {
        self.scopes.iter_mut().rev().find_map(|scope| scope.find(name, registers))
    }

    /// Meaning of a name that no range declares.
    pub(super) fn named(&self, name: &str) -> Option<Entity> {
        self.scopes.iter().rev().find_map(|scope| scope.names.get(name)).map(|(entity, _)| *entity)
    }

    /// Returns true if a range declares the name, and no scope further inside has it.
    pub(super) fn is_in_range(&self, name: &str) -> bool {
        let named = |scope: &Scope<'_>| scope.names.get(name).is_some_and(|(entity, _)| !is_label(*entity));
        let first = self.scopes.iter().rev().find(|scope| named(scope) || scope.range(name).is_some());
        first.is_some_and(|scope| !named(scope))
    }

    /// Suggestion for an undeclared name: one of its range, the nearest one of all.
    pub(super) fn hint(&self, name: &str) -> Option<String> {
        let beyond = numbered(name).and_then(|(prefix, _)| {
            let range = self.scopes.iter().rev().find_map(|scope| scope.ranges.get(prefix))?;
            let last = range.count.checked_sub(1)?;
            Some(format!("`{prefix}<{}>` declares `{prefix}0` to `{prefix}{last}`", range.count))
        });
        beyond.or_else(|| {
            let all = |scope: &Scope<'_>| {
                let used: usize = scope.ranges.values().map(|range| range.used.len()).sum();
                scope.names.len() + scope.ranges.len() + used
            };
            let compared = self.compared.get() + self.scopes.iter().map(all).sum::<usize>();
            if compared > crate::diag::near::MOST_COMPARED {
                return None;
            }
            self.compared.set(compared);
            let used: Vec<String> = self.scopes.iter().flat_map(|s| &s.ranges).flat_map(|(p, r)| r.names(p)).collect();
            let written = self.scopes.iter().flat_map(|s| s.names.keys().chain(s.ranges.keys()).copied());
            crate::diag::near::nearest(name, written.chain(used.iter().map(String::as_str)))
                .map(|near| format!("did you mean `{near}`?"))
        })
    }
}

impl<'t> Scope<'t> {
    fn find(&mut self, name: &'t str, registers: &mut Vec<Register>) -> Option<Entity> {
        let place = numbered(name).filter(|_| !self.ranges.is_empty());
        if let Some(known) = place.and_then(|(prefix, number)| self.ranges.get(prefix)?.known(number)) {
            return Some(Entity::Reg(known));
        }
        let named = self.names.get(name).map(|(entity, _)| *entity);
        let is_hidden = named.is_none_or(is_label) || !is_canonical(name);
        let Some((prefix, number)) = place.filter(|_| is_hidden) else { return named };
        let Some(range) = self.ranges.get_mut(prefix).filter(|range| number < range.count) else { return named };
        match range.of {
            Ranged::Variables(first) => Some(Entity::Var(VarId(first.0.checked_add(u32::try_from(number).ok()?)?))),
            Ranged::Registers(ty, vector, align) => {
                let id = RegId(u32::try_from(registers.len()).ok()?);
                registers.push(Register { name: format!("{prefix}{number}"), ty, vector, align, span: range.span });
                range.remember(number, id);
                Some(Entity::Reg(id))
            }
        }
    }

    /// The range that a name belongs to.
    fn range(&self, name: &str) -> Option<&Range> {
        let (prefix, number) = numbered(name)?;
        self.ranges.get(prefix).filter(|range| number < range.count)
    }
}

impl Range {
    /// The names of those in use.
    fn names(&self, prefix: &str) -> impl Iterator<Item = String> {
        let used = self.used.iter().enumerate().filter(|(_, id)| id.is_some());
        used.map(|(number, _)| number as u64)
            .chain(self.far.keys().copied())
            .map(move |number| format!("{prefix}{number}"))
    }

    fn known(&self, number: u64) -> Option<RegId> {
        match usize::try_from(number).ok().filter(|at| *at < NUMBERED) {
            Some(at) => self.used.get(at).copied().flatten(),
            None => self.far.get(&number).copied(),
        }
    }

    fn remember(&mut self, number: u64, id: RegId) {
        let Some(at) = usize::try_from(number).ok().filter(|at| *at < NUMBERED) else {
            self.far.insert(number, id);
            return;
        };
        if self.used.len() <= at {
            self.used.resize(at + 1, None);
        }
        self.used[at] = Some(id);
    }
}

/// A label may be named as one of a range, and then cannot be jumped to: the name is the register's.
fn is_label(entity: Entity) -> bool {
    matches!(entity, Entity::Label(_))
}

/// Returns true if the number at the end of a name has no zeros in front.
fn is_canonical(name: &str) -> bool {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    digits < 2 || name.as_bytes()[name.len() - digits] != b'0'
}

/// ptxas takes all the digits at the end of a name for the number, modulo 2^32: `%v1<8>` declares nothing that can be named, and `%r01` is `%r1`.
fn numbered(name: &str) -> Option<(&str, u64)> {
    let bytes = name.as_bytes();
    let mut start = bytes.len();
    while start > 0 && bytes[start - 1].is_ascii_digit() {
        start -= 1;
    }
    let (prefix, number) = name.split_at_checked(start)?;
    if number.is_empty() {
        return None;
    }
    let digit = |number: u32, digit: u8| number.wrapping_mul(10).wrapping_add(u32::from(digit - b'0'));
    Some((prefix, number.bytes().fold(0, digit).into()))
}

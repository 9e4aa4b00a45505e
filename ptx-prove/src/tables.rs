//! Memory whose addresses a buffer holds, such as the memory that the ranks of a node share: an element of the buffer that a table covers is the address of
//! memory with a length and an alignment.
//!
//! Entries with different numbers are the addresses of different memory. Other launches may write it, so that no load of it has a known value. One of the entries may
//! be the address of an argument.

use crate::form::{Cond, Form};
use crate::machine::Machine;
use crate::nearby::is_decided_nearby;
use crate::query::{Clause, difference};
use crate::strides::Under;
use crate::trace::{Base, What};
use crate::world::{Effort, Meaning, Origin, Scope, Symbol};
use ptx_core::ir::Space;

/// Bytes of an address.
const ADDRESS: i128 = 8;
/// The greatest address.
const MOST: i128 = 1 << 47;

impl Machine<'_> {
    /// The address that a place of a buffer holds, if a table covers it on the way to this instruction.
    pub(crate) fn entry_of_table(&mut self, param: usize, offset: &Form) -> Option<Form> {
        let own = (0..self.launch.tables.len()).filter(|table| self.launch.tables[*table].param == param);
        let own: Vec<usize> = own.collect();
        if own.is_empty() || !offset.is_multiple_of(ADDRESS) {
            return None;
        }
        let (number, _) = self.world.floor(offset, ADDRESS)?;
        let table = own.into_iter().find(|table| self.covers(*table, &number).unwrap_or(false))?;
        self.constant.insert(What::Param(param));
        Some(self.entry(table, number))
    }

    /// Returns true if a number is that of an entry, on the way to this instruction.
    fn covers(&self, table: usize, number: &Form) -> Option<bool> {
        let table = &self.launch.tables[table];
        let sides = [Cond::le(&table.first, number)?, Cond::lt(number, &table.end)?];
        let way = [self.world.here.cond()];
        let under = Under { world: &self.world, conds: &way, facts: &self.world.facts };
        let holds = |side: Cond| {
            let goal = self.world.simplify(side).negate();
            // The number in a ring is a choice, in which the number of entries is a factor.
            goal == Cond::Const(false)
                || is_decided_nearby(&under, &goal, 1)
                || (self.world.excludes)(&self.world, &way, &goal, Effort::Much)
        };
        Some(sides.into_iter().all(holds))
    }

    /// The address of an entry.
    fn entry(&mut self, table: usize, number: Form) -> Form {
        let known = self.entries.iter().position(|(own, of)| (*own, of) == (table, &number));
        if let Some(base) = known.and_then(|entry| self.base_of.get(&What::Entry(entry))) {
            return Form::symbol(self.base_symbols[*base]);
        }
        let what = What::Entry(self.entries.len());
        self.entries.push((table, number));
        let table = &self.launch.tables[table];
        let (len, align) = (table.len.clone(), table.align);
        let named = self.base_of.get(&What::Param(table.param)).map(|base| self.bases[*base].name.clone());
        let base = Base { what, space: Space::Global, name: named.unwrap_or_default(), len, align };
        let (scope, origin, meaning) = (Scope::Thread, Origin::Loose, Meaning::Base);
        let symbol = self.world.add(Symbol { least: 0, most: MOST, scope, origin, meaning, facts: Vec::new() });
        self.world.align(symbol, base.align.into());
        self.register(base, symbol)
    }

    /// The parameter whose memory an entry may be.
    pub(crate) fn param_of_entry(&self, entry: usize) -> Option<What> {
        let (table, _) = self.entries.get(entry)?;
        self.launch.tables[*table].of.map(What::Param)
    }

    /// Returns true if two buffers or variables may be the same memory.
    pub(crate) fn may_share(&self, first: usize, second: usize) -> bool {
        let (a, b) = (self.bases[first].what, self.bases[second].what);
        let of = |what: What| match what {
            What::Entry(entry) => self.param_of_entry(entry),
            other => Some(other),
        };
        let is_one_table = match (a, b) {
            (What::Entry(a), What::Entry(b)) => self.entries[a].0 == self.entries[b].0,
            _ => false,
        };
        first == second || is_one_table || of(a).is_some() && of(a) == of(b)
    }

    /// Returns true if two bases are entries of a table, which may be different ones.
    pub(crate) fn may_be_others(&self, first: usize, second: usize) -> bool {
        !self.same_entry(first, second).is_empty()
    }

    /// The conditions under which two entries of a table, each of one of two threads, are the same one.
    pub(crate) fn same_entry(&self, first: usize, second: usize) -> Vec<Clause> {
        match (self.bases[first].what, self.bases[second].what) {
            (What::Entry(a), What::Entry(b)) if self.entries[a].0 == self.entries[b].0 => {
                let (a, b) = (&self.entries[a].1, &self.entries[b].1);
                let sides = [difference((0, a), (1, b), 0), difference((1, b), (0, a), 0)];
                sides.map(|atom| vec![vec![atom]]).into()
            }
            _ => Vec::new(),
        }
    }
}

//! Queries that every rule makes about a function: its instructions, its calls, its blocks.

use super::address::{Addresses, Origin};
use super::calls::Calls;
use super::defs::Defs;
use super::{Pattern, is};
use crate::check::graph::Graph;
use crate::hash::Set;
use crate::ir::{Base, Function, Inst, Module, Operand};
use crate::isa::Row;
use std::cell::OnceCell;

/// A function and what is known about it. What costs time is made when first asked for.
pub(super) struct Body<'a> {
    pub(super) module: &'a Module,
    pub(super) function: &'a Function,
    /// Each form once.
    rows: Vec<&'static Row>,
    /// True if it takes the address of a variable.
    points: bool,
    calls: &'a Calls<'a>,
    /// Its place in the module.
    number: usize,
    graph: OnceCell<Graph>,
    defs: OnceCell<Defs>,
    addresses: OnceCell<Addresses>,
}

impl<'a> Body<'a> {
    pub(super) fn new(calls: &'a Calls<'a>, number: usize) -> Self {
        let module = calls.module;
        let function = &module.functions[number];
        let rows = rows(function);
        let points = function.insts.iter().flat_map(|i| &i.operands).any(|o| matches!(o, Operand::Symbol(..)));
        let (graph, defs, addresses) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Body { module, function, rows, points, calls, number, graph, defs, addresses }
    }

    /// Returns true if the function itself may have an instruction of these.
    pub(super) fn has(&self, patterns: &[Pattern]) -> bool {
        self.has_row(|row| patterns.iter().any(|(name, _)| *name == row.name))
    }

    /// Returns true if it has an instruction of such a form.
    pub(super) fn has_row(&self, such: impl Fn(&Row) -> bool) -> bool {
        self.rows.iter().any(|row| such(row))
    }

    /// The origin of an operand, or of the address in its brackets.
    pub(super) fn origin(&self, operand: &Operand) -> Origin {
        match operand {
            // No register can point into a variable.
            Operand::Memory { base: Base::Reg(_), .. } if !self.points => Origin::Any,
            _ => self.addresses.get_or_init(|| Addresses::new(self.function, self.defs())).origin(operand),
        }
    }

    /// Returns true if these might also happen outside: in a callee, or in the caller of what is no entry.
    pub(super) fn elsewhere(&self, patterns: &'static [Pattern]) -> bool {
        !self.function.entry || self.calls.open(self.number) || self.calls(patterns)
    }

    /// Returns true if a function that it calls, or one that that one calls, has an instruction of these.
    pub(super) fn calls(&self, patterns: &'static [Pattern]) -> bool {
        self.calls.lead_to(self.number, patterns)
    }

    pub(super) fn graph(&self) -> &Graph {
        self.graph.get_or_init(|| Graph::new(self.function))
    }

    pub(super) fn defs(&self) -> &Defs {
        self.defs.get_or_init(|| Defs::new(self.function))
    }

    /// The instructions of these, with their places.
    pub(super) fn all<'b>(&'b self, patterns: &'b [Pattern]) -> impl Iterator<Item = (usize, &'a Inst)> + 'b {
        self.of_rows(&|row| patterns.iter().any(|(name, _)| *name == row.name)).filter(|(_, i)| is(i, patterns))
    }

    /// The instructions of such forms, with their places.
    pub(super) fn of_rows(&self, such: &dyn Fn(&Row) -> bool) -> impl Iterator<Item = (usize, &'a Inst)> + use<'a> {
        let rows: Vec<&'static Row> = self.rows.iter().copied().filter(|row| such(row)).collect();
        let insts = if rows.is_empty() { &[][..] } else { &self.function.insts };
        insts.iter().enumerate().filter(move |(_, i)| i.row.is_some_and(|row| rows.contains(&row)))
    }

    /// Returns true if a thread that executed one instruction can come to the other.
    pub(super) fn before(&self, first: usize, second: usize) -> bool {
        let graph = self.graph();
        let (from, to) = (graph.block_of(first), graph.block_of(second));
        from == to && first < second || graph.behind(from)[to]
    }

    /// The first instruction of `these` that a thread can execute and then never come to one of `those`.
    pub(super) fn without(&self, these: &[Pattern], those: &[Pattern]) -> Option<&'a Inst> {
        let graph = self.graph();
        let insts = &self.function.insts;
        let have: Vec<bool> =
            (0..graph.next.len()).map(|b| insts[graph.range(b)].iter().any(|i| is(i, those))).collect();
        let lead = graph.lead_to(&have);
        let followed =
            |at: usize, block: usize| lead[block] || insts[at + 1..graph.range(block).end].iter().any(|i| is(i, those));
        let alone = |at: usize| Some(graph.block_of(at)).is_some_and(|b| graph.reached[b] && !followed(at, b));
        self.all(these).find(|(at, _)| alone(*at)).map(|(_, inst)| inst)
    }
}

fn rows(function: &Function) -> Vec<&'static Row> {
    let mut seen = Set::default();
    function.insts.iter().filter_map(|i| i.row).filter(|row| seen.insert(std::ptr::from_ref(*row).addr())).collect()
}

//! What every rule asks about a function: which instructions it has, which functions it may call, its blocks.

use super::address::Addresses;
use super::{Pattern, is};
use crate::check::access;
use crate::check::graph::Graph;
use crate::ir::{Function, Inst, Module, Operand, Param, RegId, Symbol};
use crate::isa::Access;
use std::cell::OnceCell;
use std::collections::HashSet;

/// Functions of the CUDA runtime that take part in no protocol.
const HARMLESS: &[&str] = &["vprintf", "malloc", "free", "__assertfail", "__assert_fail"];

/// A function and what is known about it. What costs time is made when first asked for.
pub(super) struct Body<'a> {
    pub(super) module: &'a Module,
    pub(super) function: &'a Function,
    names: HashSet<&'static str>,
    callees: OnceCell<Callees<'a>>,
    graph: OnceCell<Graph>,
    addresses: OnceCell<Addresses>,
}

/// The functions that a call may lead to.
#[derive(Default)]
struct Callees<'a> {
    known: Vec<&'a Function>,
    /// Whether there are others.
    open: bool,
}

impl<'a> Body<'a> {
    pub(super) fn new(module: &'a Module, function: &'a Function) -> Self {
        let names = function.insts.iter().map(|i| i.row.map_or("", |r| r.name)).collect();
        let (callees, graph, addresses) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Body { module, function, names, callees, graph, addresses }
    }

    /// Whether the function itself may have an instruction of these.
    pub(super) fn has(&self, patterns: &[Pattern]) -> bool {
        patterns.iter().any(|(name, _)| self.names.contains(name))
    }

    /// Whether these might also happen outside: in a callee, or in the caller of what is no entry.
    pub(super) fn elsewhere(&self, patterns: &[Pattern]) -> bool {
        let callees = self.callees.get_or_init(|| callees(self.module, self.function));
        let within = |f: &&Function| f.insts.iter().any(|i| is(i, patterns));
        !self.function.entry || callees.open || callees.known.iter().any(within)
    }

    pub(super) fn graph(&self) -> &Graph {
        self.graph.get_or_init(|| Graph::new(self.function))
    }

    pub(super) fn addresses(&self) -> &Addresses {
        self.addresses.get_or_init(|| Addresses::new(self.function))
    }

    /// The instructions of these, with their places.
    pub(super) fn all<'b>(&'b self, patterns: &'b [Pattern]) -> impl Iterator<Item = (usize, &'a Inst)> + 'b {
        self.function.insts.iter().enumerate().filter(|(_, i)| is(i, patterns))
    }

    /// Whether a thread that executed one instruction can come to the other.
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

/// For each register whether it may hold a value from outside: a parameter, or one that no instruction writes.
pub(super) fn from_outside(function: &Function) -> Vec<bool> {
    let mut outside = vec![true; function.registers.len()];
    let mut set = |reg: RegId, value| outside.get_mut(reg.index()).into_iter().for_each(|o| *o = value);
    for inst in &function.insts {
        access::registers(inst, &mut |reg, access| {
            if access != Access::Read {
                set(reg, false);
            }
        });
    }
    for param in &function.params {
        if let Param::Reg(reg) = param {
            set(*reg, true);
        }
    }
    outside
}

fn callees<'a>(module: &'a Module, function: &'a Function) -> Callees<'a> {
    let mut found = Callees { open: function.insts.iter().any(|i| i.row.is_none()), known: Vec::new() };
    let mut seen = HashSet::new();
    let mut pending = vec![function];
    while let Some(function) = pending.pop() {
        for inst in function.insts.iter().filter(|i| i.row.is_some_and(|r| r.opcode() == "call")) {
            let callee = inst.operands.iter().find_map(|o| match o {
                Operand::Func(id) | Operand::Symbol(Symbol::Func(id), _) => module.functions.get(id.index()),
                _ => None,
            });
            let Some(callee) = callee else {
                found.open = true;
                continue;
            };
            found.open |= !callee.defined && !HARMLESS.contains(&callee.name.as_str());
            if callee.defined && seen.insert(&callee.name) {
                found.known.push(callee);
                pending.push(callee);
            }
        }
    }
    found
}

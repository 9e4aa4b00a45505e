//! Branches on what is not described, such as a value from memory: both sides are executed, one after the other, by all lanes that come there, and a
//! register has either value behind them.
//!
//! The sides may compute and read shared memory, and nothing else. One state stands for all ways then, whichever lanes take a side: more reads only ask
//! for more. A synchronization of the warp on a side brings the lanes behind what they have accessed there, and so it counts only if all lanes take
//! the same side and were synchronized before.

use super::code::Role;
use super::state::{Both, Split, State, Warp};
use super::term::{Atom, Poly};
use super::value::{OPERATIONS, Value};
use super::walk::{Done, Halt, Walk, gap};
use crate::flow::End;
use ptx_core::check::graph;
use ptx_core::ir::Operand;
use std::rc::Rc;

impl Both {
    /// Registers at the end of both sides.
    pub(super) fn join(&self, registers: &mut Rc<Vec<Value>>) {
        let own = registers.iter().zip(self.registers.iter());
        let joined = |(a, b): (&Value, &Value)| match a.either(b) {
            Value::Uniform if a != b && !self.is_uniform => Value::Unknown,
            value => value,
        };
        *registers = Rc::new(own.map(joined).collect());
    }
}

impl Warp {
    /// Returns true if it executes a side of a branch that depends on what is not described.
    pub(super) fn is_on_a_side(&self) -> bool {
        self.splits.iter().any(|split| split.both.is_some())
    }
}

impl Walk<'_, '_> {
    /// A branch that depends on what is not described.
    pub(super) fn undecided(&mut self, state: &mut State, w: usize, at: usize, block: usize) -> Result<Done, Halt> {
        let meet = self.code.meet[block];
        let graph = &self.code.flow.graph;
        let seen = self.sides(block);
        if seen.iter().any(|next| self.code.flow.ends[*next] == End::Leave) {
            return gap(at, "a value that is not described decides if threads end");
        }
        let inside: Vec<usize> =
            seen.iter().flat_map(|block| graph.range(*block)).filter(|at| self.code.counts[*at]).collect();
        // The turns of a loop are not counted, and so it has to compute alone.
        let is_loop = seen.contains(&block);
        let acts = |at: &&usize| {
            let role = self.code.roles[**at];
            let is_described = role.only_computes() || role.only_orders() || role == Role::ReadShared && !is_loop;
            !is_described && !graph::ends(&self.code.function.insts[**at])
        };
        if let Some(other) = inside.iter().find(acts) {
            let line = self.code.site(*other).map_or("", |site| site.row.name);
            return gap(
                at,
                format!("a value that is not described, such as one from memory, decides if `{line}` is executed"),
            );
        }
        let meet = self.code.start(meet);
        if is_loop {
            for at in inside.into_iter().filter(|at| self.code.roles[*at].only_computes()) {
                self.forget(state, w, at);
            }
            state.warps[w].at = meet;
            return Ok(Done::Next);
        }
        let End::Jump(to) = self.code.flow.ends[block] else {
            return gap(at, "a jump to a computed place is not described");
        };
        let guard = self.code.function.insts[at].guard;
        let warp = &mut state.warps[w];
        let is_uniform = guard.is_some_and(|guard| warp.registers[guard.register.index()].is_uniform());
        let both = Both {
            registers: warp.registers.clone(),
            is_uniform: is_uniform && warp.mask == warp.live,
            is_synchronized: warp.since == 0 && warp.behind.is_none(),
        };
        warp.splits.push(Split { meet, mask: warp.mask, other: Some((at + 1, warp.mask)), both: Some(both) });
        warp.at = self.code.start(to);
        Ok(Done::Next)
    }

    /// The blocks between a branch and the place where its sides meet.
    fn sides(&self, block: usize) -> Vec<usize> {
        let (meet, graph) = (self.code.meet[block], &self.code.flow.graph);
        let (mut seen, mut pending) = (vec![false; graph.next.len()], graph.next[block].clone());
        while let Some(next) = pending.pop() {
            if next != meet && !std::mem::replace(&mut seen[next], true) {
                pending.extend(&graph.next[next]);
            }
        }
        (0..seen.len()).filter(|block| seen[*block]).collect()
    }

    /// Returns true if an open condition is that of a loop that only waits for a value from memory: its turns do not count.
    pub(super) fn waits_for_memory(&self, block: usize, of: &Poly) -> bool {
        let is_data = |atom: Atom| self.atoms.is_fresh(atom) && self.atoms.is_data(&Poly::atom(atom));
        if !of.atoms().all(is_data) {
            return false;
        }
        let sides = self.sides(block);
        let all =
            || sides.iter().flat_map(|block| self.code.flow.graph.range(*block)).filter(|at| self.code.counts[*at]);
        let computes = |at: usize| self.code.roles[at].only_computes() || graph::ends(&self.code.function.insts[at]);
        let is_volatile =
            |at: usize| self.code.roles[at] == Role::Load && self.code.site(at).is_some_and(|site| !site.is("nc"));
        sides.contains(&block)
            && all().all(computes)
            && all().any(is_volatile)
            && !sides.iter().any(|next| self.code.flow.ends[*next] == End::Leave)
    }

    /// Returns true if the result of an instruction is the same in all of these lanes, though it is not described.
    pub(super) fn is_uniform(&self, state: &State, w: usize, at: usize, lanes: u32) -> bool {
        let Some(site) = self.code.site(at) else { return false };
        let is_uniform = |operand: &Operand| match operand {
            Operand::Reg(register) | Operand::Sum(register, _) => {
                state.warps[w].registers[register.index()].is_uniform()
            }
            Operand::Not(inner) => match &**inner {
                Operand::Reg(register) => state.warps[w].registers[register.index()].is_uniform(),
                _ => false,
            },
            Operand::Int(_) | Operand::Absent => true,
            _ => false,
        };
        match self.code.roles[at] {
            // All that vote get the same.
            Role::Vote => match site.operand(2) {
                Operand::Int(mask) => *mask as u32 & lanes == lanes,
                _ => false,
            },
            Role::Compare | Role::Select => (1..site.inst.operands.len()).all(|at| is_uniform(site.operand(at))),
            Role::Compute if OPERATIONS.iter().any(|operation| operation.name == site.row.name) => {
                (1..site.inst.operands.len()).all(|at| is_uniform(site.operand(at)))
            }
            _ => false,
        }
    }
}

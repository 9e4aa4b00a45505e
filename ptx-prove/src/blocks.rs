//! The walk over basic blocks: in an order in which predecessors come first, with the paths joined where they meet. An inner loop is one step.

use crate::flow::End;
use crate::form::Cond;
use crate::machine::{Machine, State, Value};
use crate::path;
use crate::world::Scope;
use ptx_core::ir::RegId;
use std::collections::BTreeMap;
use std::rc::Rc;

/// States that leave a part of the function.
#[derive(Default)]
pub(crate) struct Edges {
    /// Out of it, with the block that follows.
    pub(crate) exits: Vec<(usize, State)>,
    /// Back to its header.
    pub(crate) back: Vec<State>,
}

impl Machine<'_> {
    /// Executes a loop's body once from its header, or the whole function.
    pub(crate) fn region(&mut self, header: Option<usize>, entry: usize, state: State) -> Edges {
        let flow = self.flow;
        let inside = |block: usize| {
            let own = header.and_then(|header| flow.loops[header].as_ref());
            own.is_none_or(|own| own.blocks[block])
        };
        let mut edges = Edges::default();
        let mut pending: BTreeMap<usize, (usize, Vec<State>)> = BTreeMap::new();
        pending.insert(flow.order[entry], (entry, vec![state]));
        let mut first = true;
        while let Some((_, (block, states))) = pending.pop_first() {
            let Some(state) = self.join(states) else { continue };
            let is_inner = flow.loops[block].is_some() && !(first && header == Some(block));
            first = false;
            let next = if is_inner { self.turns(block, state) } else { self.block(block, state) };
            for (to, mut state) in next {
                self.drop_dead(to, &mut state);
                if header == Some(to) {
                    edges.back.push(state);
                } else if inside(to) {
                    pending.entry(flow.order[to]).or_insert_with(|| (to, Vec::new())).1.push(state);
                } else {
                    edges.exits.push((to, state));
                }
            }
        }
        edges
    }

    /// Forgets the registers that nobody reads from a block on.
    pub(crate) fn drop_dead(&self, block: usize, state: &mut State) {
        let is_dead =
            |(at, value): (usize, &Value)| *value != Value::Unknown && !self.flow.live.has(block, RegId(at as u32));
        if state.registers.iter().enumerate().any(is_dead) {
            let registers = Rc::make_mut(&mut state.registers).iter_mut().enumerate();
            registers.filter(|(at, value)| is_dead((*at, value))).for_each(|(_, value)| *value = Value::Unknown);
        }
    }

    /// Executes a block; the states that leave it.
    fn block(&mut self, block: usize, mut state: State) -> Vec<(usize, State)> {
        let range = self.flow.graph.range(block);
        let node = self.trace.node(&state.from, &self.open, &state.path);
        state.from = vec![node];
        let end = self.flow.ends[block];
        let last = range.end - 1;
        let stop = if end == End::Fall { range.end } else { last };
        for at in range.start..stop {
            if self.steps == 0 {
                self.gap(at, "the entry is too long, or its loops have too many turns, for the budget of a proof");
                return Vec::new();
            }
            self.steps -= 1;
            self.execute(at, &mut state);
        }
        let falls = (block + 1 < self.flow.ends.len()).then_some(block + 1);
        match end {
            End::Fall => {
                self.annotate(range.end, true, &mut state);
                falls.map(|next| (next, state)).into_iter().collect()
            }
            End::Other => {
                self.gap(last, "a jump to a computed place is not described");
                Vec::new()
            }
            End::Leave => {
                if !self.flow.traps[block] {
                    self.trace.end(node);
                }
                self.branch(block, state, (None, falls))
            }
            End::Jump(to) => self.branch(block, state, (Some(to), falls)),
        }
    }

    /// The two sides of the jump or the return that ends a block. Where one side ends the launch with an error, that threads are on the other one is a fact.
    fn branch(
        &mut self,
        block: usize,
        mut state: State,
        (taken, falls): (Option<usize>, Option<usize>),
    ) -> Vec<(usize, State)> {
        let at = self.flow.graph.range(block).end - 1;
        self.annotate(at, false, &mut state);
        self.current = state.registers.clone();
        let inst = &self.function.insts[at];
        let guard = self.guard(inst);
        let guard = self.world.simplify(guard);
        let branch = self.next_branch();
        let flow = self.flow;
        let reaches =
            |block: Option<usize>| block.is_some_and(|block| flow.reaches_barrier[block] || flow.passes_by[block]);
        let aborts = |side: Option<usize>| side.map_or(flow.traps[block], |side| flow.aborts[side]);
        let sides = [(taken, guard.clone(), falls, true), (falls, guard.negate(), taken, false)];
        let mut next = Vec::new();
        for (to, cond, other, jumps) in sides {
            if let Some(to) = to.filter(|_| cond != Cond::Const(false)) {
                let path = match aborts(other) && !flow.aborts[to] {
                    true => state.path.fact(cond),
                    false => state.path.branch(cond, branch, !reaches(other)),
                };
                let mut side = State { path, ..state.clone() };
                if !jumps {
                    self.annotate(at + 1, true, &mut side);
                }
                // The walk of a warp, or of a thread, takes the sides that numbers leave open.
                if self.has_sides {
                    side.from = vec![self.trace.node(&side.from, &self.open, &side.path)];
                }
                next.push((to, side));
            }
        }
        next
    }

    /// Joins states that exclude each other.
    pub(crate) fn join(&mut self, mut states: Vec<State>) -> Option<State> {
        // The sides of the innermost branch first: they leave no condition behind.
        while states.len() > 1 {
            let pairs = (0..states.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
            let common = |(a, b): &(usize, usize)| states[*a].path.common(&states[*b].path);
            let (a, b) = pairs.max_by_key(|pair| (common(pair), std::cmp::Reverse(*pair)))?;
            let second = states.remove(b);
            let first = states.remove(a);
            let joined = self.join_two(first, second);
            states.insert(a, joined);
        }
        states.pop()
    }

    fn join_two(&mut self, a: State, b: State) -> State {
        let meeting = path::meet(&a.path, &b.path, |cond| self.world.bounded(cond));
        let from = a.from.iter().chain(&b.from).copied().collect();
        if Rc::ptr_eq(&a.registers, &b.registers) {
            return State { registers: a.registers, path: meeting.path, from };
        }
        let mut path = meeting.path;
        let first = match meeting.first {
            Some(cond) => cond,
            None => {
                // A bit for the path on which a thread comes.
                let bit = self.world.any_truth(Scope::Thread);
                let ways =
                    Cond::any([Cond::all([bit.clone(), a.path.cond()]), Cond::all([bit.negate(), b.path.cond()])]);
                path = path.fact(self.world.bounded(ways));
                bit
            }
        };
        let values: Vec<Value> = a
            .registers
            .iter()
            .zip(b.registers.iter())
            .map(|(yes, no)| match yes == no {
                true => yes.clone(),
                false => {
                    let value = self.chosen(&first, yes.clone(), no.clone());
                    self.bounded(value)
                }
            })
            .collect();
        State { registers: Rc::new(values), path, from }
    }
}

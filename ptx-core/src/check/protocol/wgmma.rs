//! The order of `wgmma`: fence, multiply, commit, wait; and hands off the accumulators until then.

use super::{Body, Pattern, is};
use crate::check::access;
use crate::check::graph::forward;
use crate::diag::{Code, Diagnostic, codes};
use crate::ir::{Inst, Operand};
use crate::isa::Access;

const MULTIPLY: &[Pattern] = &[("wgmma.mma_async", "")];
const FENCE: &[Pattern] = &[("wgmma.fence", "")];
const COMMIT: &[Pattern] = &[("wgmma.commit_group", "")];
const WAIT: &[Pattern] = &[("wgmma.wait_group", "")];
/// Copies of registers, which a compiler leaves anywhere and ptxas removes.
const MOVES: &[Pattern] = &[("mov", "")];
/// Groups told apart; older ones count as one.
const MOST_GROUPS: usize = 8;

/// Instructions that must follow, with the message if they do not.
const STEPS: &[(&[Pattern], &Code, &str, &str)] = &[
    (
        COMMIT,
        &codes::P0702,
        "nothing commits this `wgmma.mma_async`",
        "write `wgmma.commit_group.sync.aligned;` behind it",
    ),
    (
        WAIT,
        &codes::P0703,
        "nothing waits for this `wgmma.mma_async`",
        "write `wgmma.wait_group.sync.aligned 0;` before the results are used",
    ),
];

pub(super) fn check_wgmma(body: &Body, out: &mut Vec<Diagnostic>) {
    if !body.has(MULTIPLY) || [MULTIPLY, FENCE, COMMIT, WAIT].iter().any(|p| body.elsewhere(p)) {
        return;
    }
    for (those, code, text, help) in STEPS {
        if let Some(inst) = body.without(MULTIPLY, those) {
            out.push(Diagnostic::warning(code, inst.name_span, *text).help(*help).section("9.7.15.7"));
        }
    }
    Flight::new(body).report(out);
}

/// A set of the registers that `wgmma` uses.
#[derive(Clone, Default, PartialEq, Eq)]
struct Set(Vec<u64>);

impl Set {
    fn insert(&mut self, at: usize) {
        if self.0.len() <= at / 64 {
            self.0.resize(at / 64 + 1, 0);
        }
        self.0[at / 64] |= 1 << (at % 64);
    }

    fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Adds all of another; whether that changed anything.
    fn add(&mut self, other: &Set) -> bool {
        let before = self.clone();
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
        self.0.iter().zip(before.0.iter().chain(std::iter::repeat(&0))).any(|(a, b)| a != b)
    }
}

/// Operations in flight before an instruction, on any path.
#[derive(Clone, Default)]
struct State {
    /// A fence was executed.
    fenced: bool,
    /// Registers written by others since the last fence.
    written: Set,
    /// Accumulators in no group yet.
    open: Set,
    /// Accumulators of the committed groups, newest first.
    groups: Vec<Set>,
}

impl State {
    fn meet(&mut self, other: &State) -> bool {
        let mut changed = !self.fenced && other.fenced;
        self.fenced |= other.fenced;
        changed |= self.written.add(&other.written) | self.open.add(&other.open);
        self.groups.resize(self.groups.len().max(other.groups.len()), Set::default());
        self.groups.iter_mut().zip(&other.groups).fold(changed, |c, (a, b)| a.add(b) | c)
    }

    fn commit(&mut self) {
        self.groups.insert(0, std::mem::take(&mut self.open));
        if let Some(oldest) = self.groups.get(MOST_GROUPS).cloned() {
            self.groups.truncate(MOST_GROUPS);
            if let Some(last) = self.groups.last_mut() {
                last.add(&oldest);
            }
        }
    }
}

/// The registers that `wgmma` uses, and what is under way at the start of each block.
struct Flight<'b, 'a> {
    body: &'b Body<'a>,
    /// By register.
    numbers: Vec<Option<usize>>,
}

impl<'b, 'a> Flight<'b, 'a> {
    fn new(body: &'b Body<'a>) -> Self {
        let (mut numbers, mut next) = (vec![None; body.function.registers.len()], 0);
        for (_, inst) in body.all(MULTIPLY) {
            access::registers(inst, &mut |reg, _| {
                if let Some(number @ None) = numbers.get_mut(reg.index()) {
                    *number = Some(next);
                    next += 1;
                }
            });
        }
        Flight { body, numbers }
    }

    /// The registers of `wgmma` that an instruction uses in this way.
    fn used(&self, inst: &Inst, which: fn(Access) -> bool) -> Vec<usize> {
        let mut found = Vec::new();
        access::registers(inst, &mut |reg, access| {
            if which(access) {
                found.extend(self.numbers.get(reg.index()).copied().flatten());
            }
        });
        found
    }

    fn step(&self, state: &mut State, at: usize) {
        let Some(inst) = self.body.function.insts.get(at) else { return };
        if is(inst, MULTIPLY) {
            self.used(inst, |a| a != Access::Read).into_iter().for_each(|r| state.open.insert(r));
        } else if is(inst, FENCE) {
            state.fenced = true;
            state.written = Set::default();
        } else if is(inst, COMMIT) {
            state.commit();
        } else if is(inst, WAIT) {
            let keep = inst.operands.first().map_or(0, |o| if let Operand::Int(n) = o { *n } else { 0 });
            state.groups.truncate(usize::try_from(keep).unwrap_or(MOST_GROUPS));
        } else if !copies(inst) {
            self.used(inst, |a| a != Access::Read).into_iter().for_each(|r| state.written.insert(r));
        }
    }

    /// The first multiplication without its fence, and the first instruction that touches what is under way.
    fn report(&self, out: &mut Vec<Diagnostic>) {
        let graph = self.body.graph();
        let starts = forward(graph, State::default(), |s, at| self.step(s, at), State::meet);
        let (mut fence, mut touch) = (None, None);
        for (block, start) in starts.into_iter().enumerate() {
            let Some(mut state) = start else { continue };
            for at in graph.range(block) {
                let Some(inst) = self.body.function.insts.get(at) else { continue };
                fence = fence.or_else(|| self.unfenced(&state, inst));
                touch = touch.or_else(|| self.touched(&state, inst));
                self.step(&mut state, at);
            }
        }
        out.extend(fence);
        out.extend(touch);
    }

    fn unfenced(&self, state: &State, inst: &Inst) -> Option<Diagnostic> {
        if !is(inst, MULTIPLY) {
            return None;
        }
        let text = match self.used(inst, |a| a == Access::ReadWrite).into_iter().find(|r| state.written.has(*r)) {
            Some(reg) => format!("`{}` was written after the last `wgmma.fence`", self.name(reg)),
            None if !state.fenced => "no `wgmma.fence` comes before this `wgmma.mma_async`".to_owned(),
            None => return None,
        };
        Some(
            Diagnostic::warning(&codes::P0701, inst.name_span, text)
                .help(
                    "write `wgmma.fence.sync.aligned;` before the first of a batch, behind all writes of its registers",
                )
                .section("9.7.15.7.1"),
        )
    }

    fn touched(&self, state: &State, inst: &Inst) -> Option<Diagnostic> {
        let nothing = state.open.0.is_empty() && state.groups.is_empty();
        if nothing || is(inst, MULTIPLY) || copies(inst) {
            return None;
        }
        let used = self.used(inst, |_| true);
        let open = used.iter().find(|r| state.open.has(**r));
        let waits = || used.iter().find(|r| state.groups.iter().any(|g| g.has(**r)));
        let (reg, help) = match (open, waits()) {
            (Some(reg), _) => (reg, "commit the group and wait for it first: `wgmma.commit_group`, `wgmma.wait_group`"),
            (None, Some(reg)) => (reg, "wait for its group first: `wgmma.wait_group.sync.aligned 0;`"),
            (None, None) => return None,
        };
        let text =
            format!("`{}` is an accumulator of a `wgmma.mma_async` that may still be under way", self.name(*reg));
        Some(Diagnostic::warning(&codes::P0704, inst.span, text).help(help).section("9.7.15.7.3"))
    }

    fn name(&self, number: usize) -> &str {
        let reg = self.numbers.iter().position(|n| *n == Some(number));
        reg.and_then(|r| self.body.function.registers.get(r)).map_or("", |r| r.name.as_str())
    }
}

/// Returns true if it only copies a register.
fn copies(inst: &Inst) -> bool {
    is(inst, MOVES) && inst.operands.last().is_some_and(|o| !o.is_literal())
}

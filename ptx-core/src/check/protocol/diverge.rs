//! Instructions that all threads of a warp, or of a warpgroup, must execute together, where a branch parts the threads.
//! Which values part them is `lanes.rs`.

use super::lanes::{Value, Values, WARP};
use super::postdom::PostDominators;
use super::{Body, Pattern, is};
use crate::diag::{Code, Diagnostic, codes};
use crate::hash::Set;
use crate::ir::{Guard, Inst};
use crate::isa::Row;

const BARRIERS: &[Pattern] = &[
    ("bar.sync", ""),
    ("bar.red", ""),
    ("bar.arrive", ""),
    ("bar.cta.sync", ""),
    ("bar.cta.red", ""),
    ("bar.cta.arrive", ""),
    ("barrier.sync", "aligned"),
    ("barrier.red", "aligned"),
    ("barrier.arrive", "aligned"),
    ("barrier.cta.sync", "aligned"),
    ("barrier.cta.red", "aligned"),
    ("barrier.cta.arrive", "aligned"),
];
const WHOLE_WARPGROUP: &[Pattern] =
    &[("wgmma.mma_async", ""), ("wgmma.fence", ""), ("wgmma.commit_group", ""), ("wgmma.wait_group", "")];
pub(super) const REGISTERS: &[Pattern] = &[("setmaxnreg.inc", ""), ("setmaxnreg.dec", "")];
const ENDS_THREADS: &[Pattern] = &[("ret", ""), ("exit", "")];

/// log2 of the threads of a warpgroup.
const WARPGROUP: u32 = 7;

/// A set of instructions and who must execute them together.
struct Kind {
    code: &'static Code,
    concerns: fn(&Inst) -> bool,
    /// log2 of the number of threads.
    log: u32,
    group: &'static str,
    section: &'static str,
}

const KINDS: &[Kind] = &[
    Kind {
        code: &codes::P0721,
        concerns: |inst| {
            inst.has("aligned") && !is(inst, BARRIERS) && !is(inst, REGISTERS) && !is(inst, WHOLE_WARPGROUP)
        },
        log: WARP,
        group: "warp",
        section: "9.7.13.1",
    },
    Kind { code: &codes::P0722, concerns: |i| is(i, BARRIERS), log: WARP, group: "warp", section: "9.7.13.1" },
    Kind {
        code: &codes::P0721,
        concerns: |i| is(i, WHOLE_WARPGROUP),
        log: WARPGROUP,
        group: "warpgroup",
        section: "9.7.15",
    },
    Kind {
        code: &codes::P0723,
        concerns: |i| is(i, REGISTERS),
        log: WARPGROUP,
        group: "warpgroup",
        section: "9.7.19.5",
    },
];

pub(super) fn check_diverge(body: &Body, out: &mut Vec<Diagnostic>) {
    let aligned = |row: &Row| row.slots.iter().any(|s| s.members.iter().any(|m| m.text == "aligned"));
    let named =
        |row: &Row| [BARRIERS, WHOLE_WARPGROUP, REGISTERS].iter().any(|p| p.iter().any(|(n, _)| *n == row.name));
    let insts: Vec<(usize, &Inst)> = body.of_rows(&|row| aligned(row) || named(row)).collect();
    for log in [WARP, WARPGROUP] {
        let concerned = |k: &&Kind| k.log == log && insts.iter().any(|(_, i)| (k.concerns)(i));
        let kinds: Vec<&Kind> = KINDS.iter().filter(concerned).collect();
        if !kinds.is_empty() {
            let parted = Parted::new(body, log);
            kinds.into_iter().for_each(|kind| parted.report(kind, &insts, out));
        }
    }
}

/// Places where the threads of a group diverge, with the diverging instruction.
pub(super) struct Parted<'b, 'a> {
    body: &'b Body<'a>,
    values: Values,
    by: Vec<Option<usize>>,
}

impl<'b, 'a> Parted<'b, 'a> {
    /// Of the threads of a warp.
    pub(super) fn of_warps(body: &'b Body<'a>) -> Self {
        Parted::new(body, WARP)
    }

    /// The instruction that parts the threads which come to this one, or this one itself.
    pub(super) fn by(&self, at: usize, inst: &Inst) -> Option<usize> {
        self.parts(inst).map(|_| at).or(self.by[self.body.graph().block_of(at)])
    }

    /// The branches at which some threads of a group may end while others go on.
    pub(super) fn leaving(&self) -> Vec<usize> {
        let (graph, insts) = (self.body.graph(), &self.body.function.insts);
        let ends = |block: usize, inst: &Inst| {
            is(inst, ENDS_THREADS) || graph.next[block].iter().any(|next| self.only_leaves(*next))
        };
        let last = |block: usize| graph.range(block).end - 1;
        let branches = (0..graph.next.len()).filter(|b| graph.reached[*b]).map(|b| (b, last(b)));
        branches
            .filter(|(b, at)| self.parts(&insts[*at]).is_some() && ends(*b, &insts[*at]))
            .map(|(_, at)| at)
            .collect()
    }

    /// Returns true for a branch that parts the threads whatever comes from outside.
    pub(super) fn is_certain(&self, branch: usize) -> bool {
        self.body.function.insts.get(branch).and_then(|inst| self.parts(inst)) == Some(true)
    }

    /// For each block, true if it is executed only on one side of a branch that is none of these.
    pub(super) fn depend_on_others(&self, branches: &[usize]) -> Vec<bool> {
        let graph = self.body.graph();
        let dominators = PostDominators::new(graph, &self.exits());
        let mut found = vec![false; graph.next.len()];
        for block in (0..graph.next.len()).filter(|b| graph.next[*b].len() > 1) {
            if !branches.contains(&(graph.range(block).end - 1)) {
                for dependent in graph.next[block].iter().flat_map(|next| dominators.dependent(block, *next)) {
                    found[dependent] = true;
                }
            }
        }
        found
    }

    /// The blocks at whose end threads end.
    fn exits(&self) -> Vec<bool> {
        let (graph, insts) = (self.body.graph(), &self.body.function.insts);
        let ends = |b: usize| graph.next[b].is_empty() || is(&insts[graph.range(b).end - 1], ENDS_THREADS);
        (0..graph.next.len()).map(ends).collect()
    }

    fn new(body: &'b Body<'a>, log: u32) -> Self {
        let values = Values::new(body.function, body.defs(), log);
        let by = vec![None; body.graph().next.len()];
        let mut parted = Parted { body, values, by };
        parted.spread();
        parted
    }

    /// From every branch that parts threads to the blocks that depend on it, and on through their branches.
    fn spread(&mut self) {
        let graph = self.body.graph();
        let insts = &self.body.function.insts;
        let last = |b: usize| graph.range(b).end - 1;
        let mut pending: Vec<(usize, usize, bool)> = (0..graph.next.len())
            .filter_map(|b| self.parts(&insts[last(b)]).map(|certain| (b, last(b), certain)))
            .collect();
        if pending.is_empty() {
            return;
        }
        let dominators = PostDominators::new(graph, &self.exits());
        while let Some((block, by, certain)) = pending.pop() {
            // Threads that leave early do no harm, or we cannot be sure that any do.
            if !certain && graph.next[block].iter().any(|n| self.only_leaves(*n)) {
                continue;
            }
            for dependent in graph.next[block].iter().flat_map(|n| dominators.dependent(block, *n)) {
                if self.by[dependent].is_none() {
                    self.by[dependent] = Some(by);
                    if graph.next[dependent].len() > 1 {
                        pending.push((dependent, by, certain));
                    }
                }
            }
        }
    }

    fn only_leaves(&self, block: usize) -> bool {
        let range = self.body.graph().range(block);
        range.len() == 1 && is(&self.body.function.insts[range.start], ENDS_THREADS)
    }

    /// `Some` if a guarded instruction makes the threads diverge; true if that is certain.
    fn parts(&self, inst: &Inst) -> Option<bool> {
        let Guard { register, .. } = inst.guard?;
        match self.values.register(register) {
            Value::Parts { certain } if !inst.has("uni") => Some(certain),
            _ => None,
        }
    }

    fn report(&self, kind: &Kind, insts: &[(usize, &Inst)], out: &mut Vec<Diagnostic>) {
        let mut told = Set::default();
        for &(at, inst) in insts.iter().filter(|(_, i)| (kind.concerns)(i)) {
            let Some(by) = self.by(at, inst).filter(|by| told.insert(*by)) else { continue };
            let group = kind.group;
            let name = inst.row.map_or("", |r| r.name);
            let text = format!("`{name}` must be executed by all threads of a {group} together");
            let branch = self.body.function.insts.get(by).map_or(inst.span, |i| i.span);
            out.push(
                Diagnostic::warning(kind.code, inst.name_span, text)
                    .label(branch, format!("the threads of one {group} can disagree here"))
                    .help(format!("move it out of the branch, or branch on what is the same for the whole {group}"))
                    .section(kind.section),
            );
        }
    }
}

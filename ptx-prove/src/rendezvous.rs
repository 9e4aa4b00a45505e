//! Barriers of a whole grid. One thread of each block adds the block's share to a counter, and waits until the counter's highest bit has changed; before
//! and behind it are barriers of the block. The shares are at least one and add up to that bit, so that nobody goes on before all blocks have come. What
//! threads access before is then ordered before all that others access behind it.
//!
//! The counter is a variable of the module that nothing but these barriers names, so that its other bits are zero between them.

use crate::form::{Cond, Form};
use crate::machine::Machine;
use crate::query::{BUDGET, decide};
use crate::settled::settled;
use crate::site::Site;
use crate::trace::{Kind, Mark, Span, What};
use ptx_core::check::access;
use ptx_core::hash::Set;
use ptx_core::ir::{Base, Function, Operand, RegId, Space, Symbol, VarId};

/// The instructions of the thread that stands for its block, with modifiers that they have: it adds, and waits in a loop.
const PATTERN: [(&str, &[&str]); 6] = [
    ("atom", &["acq_rel", "gpu", "global", "add", "u32"]),
    ("ld", &["acquire", "gpu", "global", "u32"]),
    ("xor", &["b32"]),
    ("setp", &["ge", "u32"]),
    ("bra", &[]),
    ("bra", &[]),
];

/// The highest bit of the counter.
const HIGHEST: i128 = 1 << 31;

/// The accesses of global memory before and behind a barrier of the grid.
struct Rendezvous {
    before: Set<usize>,
    behind: Set<usize>,
}

/// All barriers of the grid.
pub(crate) struct All(Vec<Rendezvous>);

/// A place in the trace: a node, and the number of a mark in it.
type Place = (usize, usize);

impl All {
    pub(crate) fn new(machine: &Machine<'_>) -> All {
        let accesses: Vec<usize> = marks(machine)
            .filter_map(|(_, mark)| match mark {
                Mark::Access(access) => Some(access),
                _ => None,
            })
            .collect();
        let (arrivals, others): (Vec<usize>, Vec<usize>) = accesses.iter().partition(|at| arrives(machine, **at));
        let inst = |at: &usize| machine.trace.accesses[*at].inst;
        let loops: Set<usize> =
            arrivals.iter().map(inst).filter(|first| !others.iter().any(|at| inst(at) == *first)).collect();
        let arrivals = arrivals.into_iter().filter(|at| match machine.bases[machine.trace.accesses[*at].base].what {
            What::Var(counter) => is_private(machine, counter, &loops),
            _ => false,
        });
        All(arrivals.filter_map(|arrival| rendezvous(machine, arrival)).collect())
    }

    /// Returns true if all threads make one of two accesses before any makes the other one.
    pub(crate) fn order(&self, first: usize, second: usize) -> bool {
        let is = |own: &Rendezvous, a: usize, b: usize| own.before.contains(&a) && own.behind.contains(&b);
        self.0.iter().any(|own| is(own, first, second) || is(own, second, first))
    }
}

fn marks<'m>(machine: &'m Machine<'_>) -> impl Iterator<Item = (Place, Mark)> + 'm {
    let nodes = machine.trace.nodes.iter().enumerate();
    nodes.flat_map(|(at, node)| node.marks.iter().enumerate().map(move |(place, mark)| ((at, place), *mark)))
}

/// The accesses before the last barrier of the block before an arrival, and those behind the first one behind it.
fn rendezvous(machine: &Machine<'_>, arrival: usize) -> Option<Rendezvous> {
    let trace = &machine.trace;
    let reached = |start: Place, stop: Option<usize>| -> Set<usize> {
        trace.follow(start, &|barrier| Some(barrier) == stop).into_iter().map(|(access, _)| access).collect()
    };
    let (mut from, mut to) = (None, None);
    for (place, mark) in marks(machine) {
        let Mark::Barrier(barrier) = mark else { continue };
        // All threads of the block come to it together, or `barriers` has a finding. Not in another turn of a loop.
        if trace.barriers[barrier].span != Span::Block || !trace.nodes[place.0].turns.is_empty() {
            continue;
        }
        let (early, late) = (reached((0, 0), Some(barrier)), reached((place.0, place.1 + 1), None));
        match (early.contains(&arrival), late.contains(&arrival)) {
            // The last one that the thread which arrives has passed before, and the first one that it can only pass behind.
            (false, true) => from = Some(late),
            (true, false) if to.is_none() => to = Some(early),
            _ => {}
        }
    }
    let (late, early) = (from?, to?);
    let is_plain = |at: &usize| {
        let access = &trace.accesses[*at];
        !access.is_copy && matches!(access.kind, Kind::Read | Kind::Write | Kind::Atomic)
    };
    let all = || (0..trace.accesses.len()).filter(is_plain);
    let before = all().filter(|at| !late.contains(at)).collect();
    let behind = all().filter(|at| !early.contains(at)).collect();
    Some(Rendezvous { before, behind })
}

/// Returns true if one thread of each block adds its block's share, once, and waits for the others.
fn arrives(machine: &Machine<'_>, at: usize) -> bool {
    let access = &machine.trace.accesses[at];
    let (What::Var(counter), Space::Global) = (machine.bases[access.base].what, machine.bases[access.base].space)
    else {
        return false;
    };
    let is_there = access.kind == Kind::Atomic && access.size == 4 && access.offset.known() == Some(0);
    let is_free = access.turns.is_empty() && access.guard == Cond::Const(true);
    is_there
        && is_free
        && is_one_thread(machine, at)
        && waits(machine.function, access.inst, counter)
        && has_share(machine, at).unwrap_or(false)
}

/// One thread of the block comes to an access, whatever the launch is; or it comes to no barrier anymore.
fn is_one_thread(machine: &Machine<'_>, at: usize) -> bool {
    let mut threads = vec![true; machine.world.threads];
    for step in machine.trace.accesses[at].path.steps().filter(|step| step.decides) {
        match step.cond.decided(machine.world.threads) {
            Some(table) => threads.iter_mut().zip(table).for_each(|(all, own)| *all &= own),
            None if step.excused => {}
            None => return false,
        }
    }
    threads.iter().filter(|comes| **comes).count() == 1
}

/// Returns true if the share of the first block is what the others' ones leave of the highest bit.
fn has_share(machine: &Machine<'_>, at: usize) -> Option<bool> {
    let (world, launch) = (&machine.world, &machine.launch);
    let access = &machine.trace.accesses[at];
    let share = access.value.as_ref()?;
    let blocks = launch.blocks.iter().try_fold(Form::number(1), |product, extent| product.mul(extent))?;
    let rest = Form::number(HIGHEST + 1).sub(&blocks)?;
    let is_first = launch.block.iter().map(|place| Cond::le(place, &Form::number(0))).collect::<Option<Vec<_>>>()?;
    let is_first = Cond::all(is_first);
    let wrong = [
        (is_first.clone(), Cond::equal(share, &rest)?.negate()),
        (is_first.negate(), Cond::equal(share, &Form::number(1))?.negate()),
        (Cond::Const(true), Cond::lt(&Form::number(HIGHEST), &blocks)?),
    ];
    let never = |(cond, goal): &(Cond, Cond)| {
        let goal = world.simplify(goal.clone());
        let way = [access.path.cond(), cond.clone()];
        let decided = match settled(world, &way, &launch.facts, &goal) {
            Some(own) => decide(&own.world, &own.conds, &own.facts, &own.goal, BUDGET),
            None => decide(world, &way, &launch.facts, &goal, BUDGET),
        };
        goal == Cond::Const(false) || decided.is_impossible()
    };
    Some(wrong.iter().all(never))
}

/// Returns true if a loop that waits for the highest bit follows an addition to the counter.
fn waits(function: &Function, first: usize, counter: VarId) -> bool {
    let site = |at: usize| {
        let inst = function.insts.get(first + at)?;
        let (name, modifiers) = PATTERN[at];
        let site = Site { function, inst, row: inst.row? };
        (site.row.name == name && modifiers.iter().all(|modifier| site.is(modifier))).then_some(site)
    };
    let all: Option<Vec<Site<'_>>> = (0..PATTERN.len()).map(site).collect();
    let Some([add, load, xor, test, out, back]) = all.as_deref() else { return false };
    let register = |operand: &Operand| match operand {
        Operand::Reg(register) => Some(*register),
        _ => None,
    };
    let results = [add, load, xor, test].map(|site| register(site.operand(0)));
    let [Some(before), Some(now), Some(bits), Some(differs)] = results else { return false };
    let sources = |site: &Site<'_>| [1, 2].map(|at| register(site.operand(at)));
    let is_own = |set: &[RegId]| set.iter().collect::<Set<_>>().len() == set.len();
    let plain = [add, load, xor, test, back].iter().all(|site| site.inst.guard.is_none());
    let of_counter = |operand: &Operand| matches!(operand, Operand::Memory { base: Base::Symbol(Symbol::Var(id)), offset: 0, .. } if *id == counter);
    let to = |site: &Site<'_>| match site.operand(0) {
        Operand::Label(label) => function.labels.get(label.index()).map(|label| label.at as usize),
        _ => None,
    };
    let is_out = |at: usize| !(first..first + PATTERN.len()).contains(&at);
    plain
        && is_own(&[before, now, bits, differs])
        && of_counter(add.operand(1))
        && of_counter(load.operand(1))
        && [[Some(before), Some(now)], [Some(now), Some(before)]].contains(&sources(xor))
        && test.operand(1) == &Operand::Reg(bits)
        && test.operand(2) == &Operand::Int(HIGHEST as u64)
        && *test.operand(3) == Operand::Absent
        && out.inst.guard.is_some_and(|guard| guard.register == differs && !guard.negated)
        && to(out).is_some_and(is_out)
        && to(back) == Some(first + 1)
}

/// Returns true if the counter begins with zeros, and only these loops name it, of this entry alone. Each begins at an addition.
fn is_private(machine: &Machine<'_>, counter: VarId, loops: &Set<usize>) -> bool {
    let is_zero = |init: &ptx_core::ir::Init| init.relocations.is_empty() && init.bytes.iter().all(|byte| *byte == 0);
    let variable = machine.module.variables.get(counter.index());
    let is_here = |linkage: Option<&str>| linkage.is_none_or(|linkage| linkage == "visible");
    let is_plain = variable.is_some_and(|own| is_here(own.linkage) && own.init.as_ref().is_none_or(is_zero));
    let others = machine.module.functions.iter().filter(|function| function.name != machine.function.name);
    let insts = &machine.function.insts;
    let named = insts.iter().enumerate().filter(|(_, inst)| inst.operands.iter().any(|own| names(own, counter)));
    // The addition, or the load behind it.
    let of_loop = |at: usize| [Some(at), at.checked_sub(1)].into_iter().flatten().any(|first| loops.contains(&first));
    let mut inits = machine.module.variables.iter().filter_map(|variable| variable.init.as_ref());
    is_plain
        && !inits.any(|init| init.relocations.iter().any(|own| own.of == Symbol::Var(counter)))
        && named.into_iter().all(|(at, _)| of_loop(at))
        && !others.flat_map(|function| &function.insts).any(|inst| inst.operands.iter().any(|own| names(own, counter)))
}

/// Returns true if an operand names a variable.
fn names(operand: &Operand, variable: VarId) -> bool {
    let mut found = false;
    access::symbols(operand, &mut |symbol| found |= symbol == Symbol::Var(variable));
    found
}

//! Barriers: all threads of the block that have not ended come to each, or none does.

use crate::finding::{blank, counterexample, worse};
use crate::form::{Cond, Form, Sym};
use crate::machine::Machine;
use crate::query::{Atom, BUDGET, Decision, View, Views};
use crate::report::{Finding, Property, Verdict};
use crate::trace::{Barrier, Collective, Lanes, Source, Span};
use crate::world::Scope;
use std::collections::BTreeMap;

pub(crate) fn check(machine: &Machine<'_>) -> Vec<Finding> {
    let mut found: BTreeMap<usize, Finding> = BTreeMap::new();
    for barrier in machine.trace.barriers.iter().chain(&machine.trace.meetings) {
        let verdict = together(machine, barrier);
        let finding = Finding { verdict, ..blank(machine, Property::Barriers, barrier.inst) };
        match found.get_mut(&barrier.inst) {
            Some(old) => worse(old, finding),
            None => drop(found.insert(barrier.inst, finding)),
        }
    }
    for Collective { barrier, lanes, source } in &machine.trace.collectives {
        let verdict = lanes_together(machine, barrier, (lanes, source));
        let finding = Finding { verdict, verb: "executes", ..blank(machine, Property::Barriers, barrier.inst) };
        match found.get_mut(&barrier.inst) {
            Some(old) => worse(old, finding),
            None => drop(found.insert(barrier.inst, finding)),
        }
    }
    found.into_values().collect()
}

/// Decides whether the lanes that an instruction names execute it together.
fn lanes_together(machine: &Machine<'_>, barrier: &Barrier, (lanes, source): (&Lanes, &Source)) -> Verdict {
    let steps = barrier.path.steps().filter(|step| step.decides).map(|step| step.cond.clone());
    let conds: Vec<Cond> = steps
        .chain([barrier.guard.clone()])
        .filter(|cond| *cond != Cond::Const(true) && machine.world.cond_scope(cond) == Scope::Thread)
        .collect();
    if let Lanes::Mask(mask) = lanes
        && named(&conds, mask, machine.world.threads)
    {
        return match mask.constant().is_some_and(|mask| reads(&conds, source, &|thread| mask.at(thread), machine)) {
            true => Verdict::Proved,
            false => Verdict::Unknown(ABSENT.to_owned()),
        };
    }
    // In a block without a whole last warp some lanes do not exist.
    if !machine.world.threads.is_multiple_of(32) && !reads(&conds, source, &|_| 0xffff_ffff, machine) {
        return Verdict::Unknown(ABSENT.to_owned());
    }
    if !matches!(lanes, Lanes::All) {
        let missing = "the mask names lanes that are not known to come here together";
        return Verdict::Unknown(missing.to_owned());
    }
    let mut verdict = Verdict::Proved;
    for cond in conds {
        match differs(machine, barrier, &cond, false) {
            Verdict::Proved => {}
            Verdict::Unknown(missing) => verdict = Verdict::Unknown(missing),
            refuted => return refuted,
        }
    }
    verdict
}

/// A shuffle whose lanes are not known.
const ABSENT: &str =
    "a lane may be read that does not execute this: the mask does not name it, or the block does not have it";

/// Returns true if numbers tell that each thread reads a lane that its mask names, and that comes.
fn reads(conds: &[Cond], source: &Source, mask: &dyn Fn(usize) -> i128, machine: &Machine<'_>) -> bool {
    let lanes = match source {
        Source::Named => return true,
        Source::Unknown => return false,
        Source::Lanes(lanes) => lanes,
    };
    let threads = machine.world.threads;
    let tables: Vec<Option<Vec<bool>>> = conds.iter().map(|cond| cond.decided(threads)).collect();
    let comes = |thread: usize| thread < threads && tables.iter().flatten().all(|table| table[thread]);
    (0..threads).filter(|thread| comes(*thread)).all(|thread| {
        let lane = lanes[thread];
        mask(thread) >> lane & 1 == 1 && comes(thread / 32 * 32 + lane)
    })
}

/// Returns true if numbers tell that each thread that comes is in its mask, and that all threads of its mask come.
fn named(conds: &[Cond], mask: &Form, threads: usize) -> bool {
    let tables: Option<Vec<Vec<bool>>> = conds.iter().map(|cond| cond.decided(threads)).collect();
    let (Some(tables), Some(mask)) = (tables, mask.constant()) else { return false };
    let comes = |thread: usize| thread < threads && tables.iter().all(|table| table[thread]);
    (0..threads).filter(|thread| comes(*thread)).all(|thread| {
        let (mask, first) = (mask.at(thread), thread / 32 * 32);
        mask >> (thread % 32) & 1 == 1 && (0..32).all(|lane| mask >> lane & 1 == 0 || comes(first + lane))
    })
}

/// The widest scope whose numbers all threads of a barrier share.
fn common(span: Span) -> Scope {
    match span {
        Span::Warp => Scope::Warp,
        Span::Block | Span::Group(_) => Scope::Block,
    }
}

/// Decides whether the threads that come to a barrier are all that can come to one.
fn together(machine: &Machine<'_>, barrier: &Barrier) -> Verdict {
    // Threads that have ended do not count for a barrier with a number of threads.
    let counts = matches!(barrier.span, Span::Group(_));
    let tells_apart = |cond: &Cond| machine.world.cond_scope(cond) > common(barrier.span);
    let steps: Vec<Cond> = barrier
        .path
        .since(&barrier.since)
        .into_iter()
        .filter(|step| step.decides && (counts || !step.excused))
        .map(|step| step.cond.clone())
        .chain([barrier.guard.clone()])
        .filter(|cond| *cond != Cond::Const(true) && tells_apart(cond))
        .filter(|cond| !(counts && matches!(cond, Cond::Table(_))))
        .collect();
    let mut verdict = Verdict::Proved;
    for cond in steps {
        match differs(machine, barrier, &cond, !counts) {
            Verdict::Proved => {}
            Verdict::Unknown(missing) => verdict = Verdict::Unknown(missing),
            refuted => return refuted,
        }
    }
    // Hardware does not wait for threads that have ended, but it is not said that the kernel may depend on that.
    let ended = barrier.path.since(&barrier.since).into_iter().filter(|step| step.decides && step.excused && !counts);
    let mut ended = ended.filter(|step| tells_apart(&step.cond));
    if verdict == Verdict::Proved && ended.any(|step| differs(machine, barrier, &step.cond, false) != Verdict::Proved) {
        let missing = "some threads end before this barrier, which is for the whole block: let all come to it";
        return Verdict::Unknown(missing.to_owned());
    }
    verdict
}

/// Looks for two threads of a block, or of a warp, of which one fulfills a condition on the way and the other does not.
fn differs(machine: &Machine<'_>, barrier: &Barrier, cond: &Cond, may_end: bool) -> Verdict {
    let world = &machine.world;
    // Lanes that meet are in the same turn of a loop in which they take each jump back together.
    let turns = machine.trace.loops.iter().filter(|own| own.warps && barrier.span == Span::Warp).map(|own| own.turn);
    let turns: Vec<Sym> = turns.collect();
    let view = |second: bool| View {
        own: Box::new({
            let (turns, common) = (turns.clone(), common(barrier.span));
            move |at, symbol: &crate::world::Symbol| second && symbol.scope > common && !turns.contains(&at)
        }),
        shift: ptx_core::hash::Map::default(),
        threads: match barrier.span {
            Span::Group(at) => {
                let own = &machine.trace.groups[at].threads;
                Some((0..own.len()).filter(|thread| own[*thread]).collect())
            }
            _ => None,
        },
    };
    let mut conds: Vec<(usize, Cond)> = machine.launch.facts.iter().map(|fact| (0, fact.clone())).collect();
    conds.extend([(0, barrier.path.cond()), (0, barrier.guard.clone()), (1, cond.negate())]);
    // The other thread came so far, and has not ended before, if that is an excuse.
    conds.push((1, barrier.since.cond()));
    conds.extend(
        barrier.path.steps().filter(|step| may_end && step.excused && step.decides).map(|step| (1, step.cond.clone())),
    );
    let mut mixed = Vec::new();
    if barrier.span == Span::Warp {
        let warps = Form::table((0..world.threads).map(|thread| thread as i128 / 32).collect());
        let apart =
            |factor: i128| Atom { parts: vec![(0, warps.clone(), factor), (1, warps.clone(), -factor)], constant: 0 };
        mixed.push(vec![vec![apart(1), apart(-1)]]);
    }
    match (Views { world, views: vec![view(false), view(true)], conds, mixed, compares: false }).decide(BUDGET) {
        Decision::Impossible => Verdict::Proved,
        Decision::Unknown => {
            Verdict::Unknown("the conditions are too hard to decide in the budget of a proof".to_owned())
        }
        Decision::Possible(model) if model.is_loose => Verdict::Unknown(
            "the threads that come here depend on a value that is not described, such as one from memory".to_owned(),
        ),
        Decision::Possible(model) => Verdict::Refuted(Box::new(counterexample(machine, &model, 0))),
    }
}

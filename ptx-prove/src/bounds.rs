//! Bounds and alignment of every access.

use crate::contract::Contract;
use crate::finding::{blank, counterexample, describe, worse};
use crate::form::{Cond, Form};
use crate::machine::Machine;
use crate::query::{BUDGET, Decision, decide};
use crate::report::{Finding, Property, Verdict};
use crate::settled::{Settled, settled};
use crate::strides::{Under, holds};
use crate::trace::Access;
use ptx_core::hash::Map;
use std::collections::BTreeMap;

pub(crate) fn check(machine: &mut Machine<'_>, contract: &Contract) -> Vec<Finding> {
    let mut found: BTreeMap<(usize, usize, Property), Finding> = BTreeMap::new();
    let mut done: Map<(usize, usize, Form, Cond, Cond), Form> = Map::default();
    for at in 0..machine.trace.accesses.len() {
        let access = machine.trace.accesses[at].clone();
        let key = (access.inst, access.base, access.offset.clone(), access.path.cond(), access.guard.clone());
        if let Some(offset) = done.get(&key) {
            machine.trace.accesses[at].offset = offset.clone();
            continue;
        }
        let (bounds, access) = decided(machine, at, access);
        done.insert(key, access.offset.clone());
        let alignment = aligned(machine, &access);
        for (property, verdict) in [(Property::Bounds, bounds), (Property::Alignment, alignment)] {
            let finding = Finding { verdict, ..describe(machine, contract, property, &access) };
            match found.get_mut(&(access.inst, access.base, property)) {
                Some(old) => worse(old, finding),
                None => drop(found.insert((access.inst, access.base, property), finding)),
            }
        }
    }
    for inst in machine.outside_params.clone() {
        let verdict = Verdict::Unknown("the load is not inside of one parameter".to_owned());
        found.insert(
            (inst, usize::MAX, Property::Bounds),
            Finding { verdict, ..blank(machine, Property::Bounds, inst) },
        );
    }
    found.into_values().collect()
}

/// Decides bounds. A sum of integers that is in the buffer is a number of the address's width, so that the width is a question only where it is not.
fn decided(machine: &mut Machine<'_>, at: usize, access: Access) -> (Verdict, Access) {
    let verdict = within(machine, &access);
    if verdict == Verdict::Proved || access.bits == 0 {
        return (verdict, access);
    }
    machine.world.here = access.path.clone();
    let offset = machine.world.number(&access.offset, access.bits, true);
    if offset == access.offset {
        return (verdict, access);
    }
    machine.trace.accesses[at].offset = offset.clone();
    let access = Access { offset, ..access };
    (within(machine, &access), access)
}

fn within(machine: &Machine<'_>, access: &Access) -> Verdict {
    let base = &machine.bases[access.base];
    let least = Form::number(0);
    let end = access.offset.plus(access.size.into());
    let sides = [Cond::le(&least, &access.offset), end.and_then(|end| Cond::le(&end, &base.len))];
    let mut verdict = Verdict::Proved;
    for side in sides {
        let Some(side) = side.map(|cond| machine.world.simplify(cond)) else { return overflow() };
        match ask(machine, access, &side) {
            Verdict::Proved => {}
            Verdict::Unknown(missing) => verdict = Verdict::Unknown(missing),
            refuted => return refuted,
        }
    }
    verdict
}

fn overflow() -> Verdict {
    Verdict::Unknown("the numbers of the address do not fit into 128 bits".to_owned())
}

/// Decides a condition that every thread of an access must fulfill.
fn ask(machine: &Machine<'_>, access: &Access, must: &Cond) -> Verdict {
    if *must == Cond::Const(true) {
        return Verdict::Proved;
    }
    let conds = [access.path.cond(), access.guard.clone()];
    let goal = must.negate();
    let under = Under { world: &machine.world, conds: &conds, facts: &machine.launch.facts };
    if holds(&under, must) || is_decided_simply(machine, &conds, &goal, SPLITS) {
        return Verdict::Proved;
    }
    match decide(&machine.world, &conds, &machine.launch.facts, &goal, BUDGET) {
        Decision::Impossible => Verdict::Proved,
        Decision::Unknown => Verdict::Unknown("the conditions are too hard to decide in the budget of a proof".to_owned()),
        Decision::Possible(model) if model.is_passed => Verdict::Unknown(
            "the conditions do not bound the numbers in a struct that the offset depends on: state in `requires(…)` how far they reach".to_owned(),
        ),
        Decision::Possible(model) if model.is_loose => Verdict::Unknown(
            "the offset or a condition depends on a value that is not described, such as one from memory: check it in the kernel".to_owned(),
        ),
        Decision::Possible(model) => match model.form(&machine.world, &access.offset, 0) {
            Some(offset) => Verdict::Refuted(Box::new(counterexample(machine, &model, offset))),
            None => overflow(),
        },
    }
}

/// The most choices of which both ways are questions of their own.
const SPLITS: usize = 3;

/// Decides it where the way settles choices, or without the alternatives of the launch that are conjunctions. Most questions need none of these.
fn is_decided_simply(machine: &Machine<'_>, conds: &[Cond], goal: &Cond, splits: usize) -> bool {
    let (world, facts) = (&machine.world, &machine.launch.facts);
    if world.is_spent() {
        return false;
    }
    let plain: Vec<Cond> = facts.iter().filter(|fact| !has_conjunctions(fact)).cloned().collect();
    let question = settled(world, conds, &plain, goal);
    let left = question.as_ref().map_or(goal, |question| &question.goal);
    if let Some(choice) = world.choice_of_factor(left).filter(|_| splits > 0) {
        return [choice.clone(), choice.negate()].into_iter().all(|side| {
            let conds: Vec<Cond> = conds.iter().cloned().chain([side]).collect();
            is_decided_simply(machine, &conds, goal, splits - 1)
        });
    }
    let Some(Settled { world: own, conds, facts: plain, goal }) = question else {
        return plain.len() < facts.len() && decide(world, conds, &plain, goal, BUDGET / 4).is_impossible();
    };
    let is_proved = decide(&own, &conds, &plain, &goal, BUDGET / 4).is_impossible();
    world.work.set(own.work.get());
    is_proved
}

fn has_conjunctions(fact: &Cond) -> bool {
    matches!(fact, Cond::Any(parts) if parts.iter().any(|part| matches!(part, Cond::All(_))))
}

fn aligned(machine: &mut Machine<'_>, access: &Access) -> Verdict {
    let align = i128::from(access.align.max(1));
    let base = &machine.bases[access.base];
    if !i128::from(base.align).rem_euclid(align).eq(&0) {
        let name = &base.name;
        return Verdict::Unknown(format!("the address of `{name}` is known to be a multiple of {} only", base.align));
    }
    if access.offset.is_multiple_of(align) {
        return Verdict::Proved;
    }
    let Some((_, rest)) = machine.world.floor(&access.offset, align) else { return overflow() };
    match Cond::equal(&rest, &Form::number(0)) {
        Some(must) => {
            let must = machine.world.simplify(must);
            ask(machine, access, &must)
        }
        None => overflow(),
    }
}

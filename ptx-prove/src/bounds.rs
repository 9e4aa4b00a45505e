//! Bounds and alignment of every access.

use crate::contract::Contract;
use crate::finding::{blank, counterexample, describe, worse};
use crate::form::{Cond, Form, Sym};
use crate::machine::Machine;
use crate::near::has_conjunctions;
use crate::nearby::is_decided_nearby;
use crate::query::{BUDGET, Decision, decide};
use crate::report::{Finding, Property, Verdict};
use crate::settled::{Settled, is_left, settled};
use crate::solver::gcd;
use crate::strides::{By, Under, holds};
use crate::trace::{Access, What};
use crate::world::WORK;
use ptx_core::hash::Map;
use std::collections::BTreeMap;

/// Findings by instruction, buffer and property.
type Found = BTreeMap<(usize, usize, Property), Finding>;

/// An access: its instruction and buffer, the offset and the bytes that it needs, and its way and guard.
type Question = (usize, usize, [Option<Form>; 2], Cond, Cond);

/// At first an access has this part of all work, so that those which are hard leave enough for the others. Behind these they share what is left.
const PART: u32 = 10;

/// The work for each of many accesses.
const EACH: u32 = 100_000;

/// The verdict on what is too hard to decide.
const TOO_HARD: &str = "the conditions are too hard to decide in the budget of a proof";

pub(crate) fn check(machine: &mut Machine<'_>, contract: &Contract) -> Vec<Finding> {
    let mut found = Found::new();
    let mut done: Map<Question, Form> = Map::default();
    let mut hard = Vec::new();
    let work = u32::try_from(machine.trace.accesses.len()).unwrap_or(u32::MAX).saturating_mul(EACH);
    // Behind cuts that are kept, questions settle numbers alone, and most of them are hard.
    machine.world.work.set(if machine.keeps_cuts { WORK } else { work.max(WORK) });
    for at in 0..machine.trace.accesses.len() {
        let access = &machine.trace.accesses[at];
        let places = [Some(access.offset.clone()), access.needs.clone()];
        let key = (access.inst, access.base, places, access.path.cond(), access.guard.clone());
        if let Some(offset) = done.get(&key) {
            machine.trace.accesses[at].offset = offset.clone();
            continue;
        }
        let verdicts = decided(machine, at, WORK / PART);
        done.insert(key, machine.trace.accesses[at].offset.clone());
        match verdicts.iter().any(|(_, verdict)| is_too_hard(verdict)) {
            true => hard.push(at),
            false => note(machine, contract, (at, verdicts), &mut found),
        }
    }
    for (at, others) in hard.iter().copied().zip((1..=hard.len() as u32).rev()) {
        let verdicts = decided(machine, at, machine.world.work.get() / others);
        note(machine, contract, (at, verdicts), &mut found);
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

fn is_too_hard(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Unknown(missing) if missing == TOO_HARD)
}

/// The verdicts on bounds and alignment of an access.
type Verdicts = [(Property, Verdict); 2];

/// Adds verdicts to those on the same instruction and buffer.
fn note(machine: &Machine<'_>, contract: &Contract, (at, verdicts): (usize, Verdicts), found: &mut Found) {
    let access = &machine.trace.accesses[at];
    for (property, verdict) in verdicts {
        let finding = Finding { verdict, ..describe(machine, contract, property, access) };
        match found.get_mut(&(access.inst, access.base, property)) {
            Some(old) => worse(old, finding),
            None => drop(found.insert((access.inst, access.base, property), finding)),
        }
    }
}

/// Decides an access with at most so much work.
fn decided(machine: &mut Machine<'_>, at: usize, most: u32) -> Verdicts {
    let all = machine.world.work.get();
    machine.world.work.set(all.min(most));
    machine.world.here = machine.trace.accesses[at].path.clone();
    let bounds = inside(machine, at);
    let access = machine.trace.accesses[at].clone();
    let verdicts = [(Property::Bounds, bounds), (Property::Alignment, aligned(machine, &access))];
    machine.world.work.set(all - all.min(most) + machine.world.work.get());
    verdicts
}

/// Decides bounds. A sum of integers that is in the buffer is a number of the address's width, so that the width is a question only where it is not.
fn inside(machine: &mut Machine<'_>, at: usize) -> Verdict {
    let access = machine.trace.accesses[at].clone();
    let verdict = within(machine, &access);
    if verdict == Verdict::Proved || access.bits == 0 {
        return verdict;
    }
    let offset = machine.world.number(&access.offset, access.bits, true);
    if offset == access.offset {
        return verdict;
    }
    machine.trace.accesses[at].offset = offset.clone();
    within(machine, &Access { offset, ..access })
}

fn within(machine: &Machine<'_>, access: &Access) -> Verdict {
    let base = &machine.bases[access.base];
    let least = Form::number(0);
    let end = match &access.needs {
        Some(bytes) => access.offset.add(bytes),
        None => access.offset.plus(access.size.into()),
    };
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
    // A way that decides most questions with little work comes before those that take much where they fail.
    if is_decided_nearby(&under, &goal, NEAR_SPLITS)
        || is_decided_simply(machine, (&conds, &goal), SPLITS, LITTLE)
        || holds(&under, must, By::All)
        || is_decided_simply(machine, (&conds, &goal), SPLITS, BUDGET / 4)
    {
        return Verdict::Proved;
    }
    match decide(&machine.world, &conds, &machine.launch.facts, &goal, BUDGET) {
        Decision::Impossible => Verdict::Proved,
        Decision::Unknown => Verdict::Unknown(TOO_HARD.to_owned()),
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

/// Work that most questions take, of those that conditions around their parts do not decide.
const LITTLE: u32 = BUDGET / 12;

/// The most choices of which both ways are questions of their own.
const SPLITS: usize = 3;
/// The same for questions by the conditions around parts.
const NEAR_SPLITS: usize = 2;

/// Decides it where the way settles choices, or without the alternatives of the launch that are conjunctions. Most questions need none of these.
fn is_decided_simply(machine: &Machine<'_>, (conds, goal): (&[Cond], &Cond), splits: usize, budget: u32) -> bool {
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
            is_decided_simply(machine, (&conds, goal), splits - 1, budget)
        });
    }
    let Some(Settled { world: own, conds, facts: plain, goal }) = question else {
        return plain.len() < facts.len() && decide(world, conds, &plain, goal, budget).is_impossible();
    };
    let is_proved = decide(&own, &conds, &plain, &goal, budget).is_impossible();
    world.work.set(own.work.get());
    is_proved
}

fn aligned(machine: &mut Machine<'_>, access: &Access) -> Verdict {
    let align = i128::from(access.align.max(1));
    let base = &machine.bases[access.base];
    let is_start_aligned = i128::from(base.align).rem_euclid(align) == 0;
    let place = match base.what {
        _ if is_start_aligned => Some(access.offset.clone()),
        // Conditions may tell more of an address in a struct.
        What::Field(..) => access.offset.add(&Form::symbol(machine.base_symbols[access.base])),
        _ => {
            let name = &base.name;
            return Verdict::Unknown(format!(
                "the address of `{name}` is known to be a multiple of {} only",
                base.align
            ));
        }
    };
    let Some(place) = place else { return overflow() };
    if place.is_multiple_of(align) || are_multiples(machine, access, &place, align) {
        return Verdict::Proved;
    }
    let Some((_, rest)) = machine.world.floor(&place, align) else { return overflow() };
    match Cond::equal(&rest, &Form::number(0)) {
        Some(must) => {
            let must = machine.world.simplify(must);
            ask(machine, access, &must)
        }
        None => overflow(),
    }
}

/// Returns true if each product of a sum is a multiple of a number, because on the way to the access one of its factors is one.
fn are_multiples(machine: &mut Machine<'_>, access: &Access, sum: &Form, align: i128) -> bool {
    sum.constant.values().iter().all(|value| value.rem_euclid(align) == 0)
        && sum.terms.iter().all(|(mono, coef)| {
            let by = coef.values().iter().try_fold(align, |by, value| gcd(by, *value));
            by.is_some_and(|by| mono.iter().any(|symbol| is_multiple(machine, access, *symbol, align / by)))
        })
}

/// Returns true if a symbol is a multiple of a number on the way to an access.
fn is_multiple(machine: &mut Machine<'_>, access: &Access, symbol: Sym, of: i128) -> bool {
    let rest =
        machine.world.floor(&Form::symbol(symbol), of).and_then(|(_, rest)| Cond::equal(&rest, &Form::number(0)));
    rest.is_some_and(|must| {
        let must = machine.world.simplify(must);
        let way = [access.path.cond(), access.guard.clone()];
        is_left(&way, &machine.launch.facts, &must) || ask(machine, access, &must) == Verdict::Proved
    })
}

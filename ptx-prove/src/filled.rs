//! Ranges of shared memory that the threads of a block fill together, up to a number of elements: in turn `t` thread `i` stores element
//! `threads · t + i`, while that is less than the number. So each element below it is stored, whichever thread that is.

use crate::finding::reached;
use crate::form::{Coef, Cond, Form, Sym};
use crate::local::{FAR, is_excluded};
use crate::machine::Machine;
use crate::query::{BUDGET, decide};
use crate::trace::{Access, Turns};
use crate::world::Scope;
use ptx_target::sort::SortSmall;

/// A range from `first` on: all bytes up to `first + most`, and those of the element there.
struct Filled {
    first: i128,
    most: Form,
}

/// Returns true if a store in a loop before a read fills a range in which all bytes of the read lie. Both are multiples of a piece.
pub(crate) fn holds(machine: &Machine<'_>, write: &Access, read: &Access, piece: i128) -> bool {
    filled(machine, write, read).is_some_and(|range| lies_in(machine, read, &range, piece).unwrap_or(false))
}

/// The range that a store fills.
fn filled(machine: &Machine<'_>, write: &Access, read: &Access) -> Option<Filled> {
    let [own] = write.turns[..] else { return None };
    let own = &machine.trace.loops[own];
    let size = i128::from(write.size);
    let first = first_of_row(machine, write, own.turn)?;
    let mut conds: Vec<Cond> = Vec::new();
    let steps = write.path.steps().filter(|step| step.decides).map(|step| &step.cond);
    steps.chain([&write.guard, own.enters.as_ref()?]).for_each(|cond| add_parts(cond, &mut conds));
    let (at, most) = conds.iter().enumerate().find_map(|(at, cond)| {
        let most = most_of(write, cond, (first, size))?;
        is_before(machine, own, &most).then_some((at, most))
    })?;
    let is = conds.swap_remove(at);
    // Every turn up to the last one of a thread leads to the store, and to the next turn.
    let path: Vec<&Cond> = read.path.steps().map(|step| &step.cond).collect();
    let holds = |cond: &Cond| {
        let is_common = machine.world.cond_scope(cond) <= Scope::Block && path.contains(&cond);
        is_common || is_excluded(&machine.world, (std::slice::from_ref(&is), &[]), &cond.negate(), FAR)
    };
    conds.iter().all(holds).then_some(Filled { first, most })
}

fn add_parts(cond: &Cond, found: &mut Vec<Cond>) {
    match cond {
        Cond::All(parts) => parts.iter().for_each(|part| add_parts(part, found)),
        Cond::Const(true) => {}
        other => found.push(other.clone()),
    }
}

/// The first byte of a store that the threads make side by side, and in the next turn behind that.
fn first_of_row(machine: &Machine<'_>, write: &Access, turn: Sym) -> Option<i128> {
    let ([(mono, Coef::One(step))], size) = (write.offset.terms.as_slice(), i128::from(write.size)) else {
        return None;
    };
    let mut places: Vec<i128> = (0..machine.world.threads).map(|thread| write.offset.constant.at(thread)).collect();
    places.sort_small();
    let is_row = places.iter().zip(0..).all(|(place, number)| *place == places[0] + number * size);
    (mono[..] == [turn] && is_row && *step == places.len() as i128 * size).then_some(places[0])
}

/// The greatest distance from the first byte at which a condition lets a store be: `size · condition + distance`, whatever the turn and the thread are.
fn most_of(write: &Access, cond: &Cond, (first, size): (i128, i128)) -> Option<Form> {
    let Cond::AtLeast(form) = cond else { return None };
    form.scale(size)?.add(&write.offset)?.plus(-first).filter(Form::is_even)
}

/// Returns true if a sum is the same for the threads of a block, and no turn makes it.
fn is_before(machine: &Machine<'_>, own: &Turns, sum: &Form) -> bool {
    machine.world.scope(sum) <= Scope::Block && sum.symbols().all(|symbol| symbol < own.first)
}

/// Returns true if all bytes of a read are in a range, wherever a thread makes it.
fn lies_in(machine: &Machine<'_>, read: &Access, Filled { first, most }: &Filled, piece: i128) -> Option<bool> {
    let (world, facts, conds) = (&machine.world, &machine.launch.facts, reached(machine, read));
    let start = read.offset.plus(-first)?;
    let last = start.plus(i128::from(read.size) - piece)?;
    let sides = [Cond::at_least(start), Cond::le(&last, most)?];
    Some(sides.into_iter().all(|side| {
        let outside = world.simplify(side).negate();
        outside == Cond::Const(false)
            || is_excluded(world, (&conds, facts), &outside, FAR)
            || decide(world, &conds, facts, &outside, BUDGET / 4).is_impossible()
    }))
}

//! Registers that go around: the stage of a ring, which a loop sets back to the first one behind the last. Turns are executed from their first values
//! until these return; every other register may have any value meanwhile.

use crate::form::Form;
use crate::machine::{Machine, State, Value};
use crate::world::World;
use ptx_core::ir::RegId;

/// The most stages.
const STAGES: usize = 16;

/// A register whose value is `first + step · ((turn + shift) mod length - shift)`.
pub(crate) struct Ring {
    pub(crate) register: RegId,
    step: i128,
    shift: i128,
    length: i128,
}

impl Ring {
    /// Of values relative to the first one, turn by turn; nothing if they have no common step. All registers return behind the last turn, one alone may
    /// do so several times: a stage does while its phase does not.
    fn new(register: RegId, values: &[i128]) -> Option<Ring> {
        let returns = |length: &usize| {
            values.len().is_multiple_of(*length) && (0..values.len()).all(|turn| values[turn] == values[turn % length])
        };
        let values = &values[..(1..=values.len()).find(returns)?];
        let length = values.len() as i128;
        (0..length).find_map(|shift| {
            let index = |turn: usize| (turn as i128 + shift) % length - shift;
            let turn = (0..values.len()).find(|turn| index(*turn) != 0)?;
            let step = values[turn] / index(turn);
            let fits = (0..values.len()).all(|turn| step.checked_mul(index(turn)) == Some(values[turn]));
            fits.then_some(Ring { register, step, shift, length })
        })
    }

    /// The value in a turn.
    pub(crate) fn value(&self, world: &mut World, first: &Form, turn: u32) -> Option<Form> {
        let index = world.remainder(&Form::symbol(turn).plus(self.shift)?, self.length)?;
        first.add(&index.plus(-self.shift)?.scale(self.step)?)
    }
}

/// An execution until all values return.
enum Round {
    /// By register: the values relative to the first one.
    Whole(Vec<Vec<i128>>),
    /// Some of them do not: those that may.
    Fewer(Vec<RegId>),
}

impl Machine<'_> {
    /// The registers of a loop that go around; `inductive` ones are others.
    pub(crate) fn rings(&mut self, header: usize, state: &State, written: &[RegId], inductive: &[RegId]) -> Vec<Ring> {
        let may = |register: &&RegId| {
            let is_wide = self.bits_of(**register).is_some_and(|bits| bits >= 16);
            is_wide && matches!(state.get(**register), Value::Bits(_)) && !inductive.contains(register)
        };
        let mut open: Vec<RegId> = written.iter().filter(may).copied().collect();
        while !open.is_empty() {
            match self.round(header, state, written, &open) {
                Round::Whole(values) => {
                    let rings = open.iter().zip(&values).filter_map(|(register, values)| Ring::new(*register, values));
                    return rings.collect();
                }
                Round::Fewer(fewer) if fewer.len() < open.len() => open = fewer,
                Round::Fewer(_) => break,
            }
        }
        Vec::new()
    }

    /// Executes turns from the first values of some registers.
    fn round(&mut self, header: usize, state: &State, written: &[RegId], open: &[RegId]) -> Round {
        let mut values: Vec<Vec<i128>> = vec![Vec::new(); open.len()];
        let mut now = vec![0; open.len()];
        for _ in 0..STAGES {
            values.iter_mut().zip(&now).for_each(|(values, now)| values.push(*now));
            let next = self.turn_from(header, state, written, (open, &now));
            let known: Option<Vec<i128>> = next.iter().copied().collect();
            let Some(known) = known else {
                let fewer = open.iter().zip(&next).filter(|(_, next)| next.is_some());
                return Round::Fewer(fewer.map(|(register, _)| *register).collect());
            };
            if known.iter().all(|value| *value == 0) {
                return Round::Whole(values);
            }
            now = known;
        }
        let returns = |values: &[i128]| values.iter().skip(1).any(|value| *value == 0);
        let fewer = open.iter().zip(&values).filter(|(_, values)| returns(values));
        Round::Fewer(fewer.map(|(register, _)| *register).collect())
    }

    /// The values behind one turn, relative to the first ones.
    fn turn_from(
        &mut self,
        header: usize,
        state: &State,
        written: &[RegId],
        (open, now): (&[RegId], &[i128]),
    ) -> Vec<Option<i128>> {
        let mut start = state.clone();
        self.forget(&mut start, written);
        for (register, more) in open.iter().zip(now) {
            if let Value::Bits(first) = state.get(*register)
                && let Some(value) = first.plus(*more)
            {
                start.set(*register, Value::Bits(value));
            }
        }
        let after = self.probe(|machine| {
            let edges = machine.region(Some(header), header, start);
            machine.join(edges.back)
        });
        let after = after.flatten();
        let value = |register: &RegId| match (after.as_ref()?.get(*register), state.get(*register)) {
            (Value::Bits(new), Value::Bits(first)) => new.sub(&first)?.known(),
            _ => None,
        };
        open.iter().map(value).collect()
    }
}

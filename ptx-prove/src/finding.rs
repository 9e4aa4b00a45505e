//! Findings about instructions, and the launch of a model.

use crate::contract::{Contract, Passed};
use crate::form::{Cond, Form};
use crate::machine::Machine;
use crate::query::Model;
use crate::report::{Counterexample, Finding, Place, Property, Verdict};
use crate::trace::{Access, Kind, What};

/// A finding about an instruction without memory.
pub(crate) fn blank(machine: &Machine<'_>, property: Property, inst: usize) -> Finding {
    Finding {
        property,
        span: machine.function.insts.get(inst).map_or(machine.function.span, |inst| inst.span),
        other: None,
        memory: String::new(),
        argument: None,
        verb: "",
        size: 0,
        verdict: Verdict::Proved,
    }
}

/// A violation in the launch of a model.
pub(crate) fn counterexample(machine: &Machine<'_>, model: &Model, offset: i128) -> Counterexample {
    Counterexample { offset, is_certain: !model.is_later(&machine.world), ..launch_of(machine, model) }
}

/// The launch of a model.
pub(crate) fn launch_of(machine: &Machine<'_>, model: &Model) -> Counterexample {
    let world = &machine.world;
    let extent = |value: Option<i128>| u32::try_from(value.unwrap_or(0).max(0)).unwrap_or(u32::MAX);
    let [x, y, _] = machine.block.map(|extent| extent as usize);
    let place = |view: usize, thread: usize| Place {
        thread: [thread % x, thread / x % y, thread / x / y].map(|at| at as u32),
        block: std::array::from_fn(|d| extent(model.form(world, &machine.launch.block[d], view))),
    };
    let number = |form: &Form| model.form(world, form, 0);
    let params = machine.launch.params.iter().enumerate();
    Counterexample {
        places: model.threads.iter().enumerate().map(|(view, thread)| place(view, *thread)).collect(),
        grid: std::array::from_fn(|d| extent(number(&machine.launch.blocks[d]))),
        params: params.map(|(at, form)| form.as_ref().filter(|_| !machine.is_address(at)).and_then(number)).collect(),
        lens: machine.launch.lens.iter().map(|form| number(form).and_then(|len| u64::try_from(len).ok())).collect(),
        numbers: machine.launch.numbers.iter().map(|form| number(form).unwrap_or(0)).collect(),
        offset: 0,
        is_certain: true,
        seen: None,
        filled: None,
    }
}

/// Keeps the verdict that is worse for the property.
pub(crate) fn worse(old: &mut Finding, new: Finding) {
    let rank = |verdict: &Verdict| match verdict {
        Verdict::Proved => 0,
        Verdict::Unknown(_) => 1,
        Verdict::Refuted(_) => 2,
    };
    if rank(&new.verdict) > rank(&old.verdict) {
        *old = new;
    }
}

/// A finding about an access.
pub(crate) fn describe(machine: &Machine<'_>, contract: &Contract, property: Property, access: &Access) -> Finding {
    let base = &machine.bases[access.base];
    let argument = match base.what {
        What::Param(param) => match contract.params.get(param) {
            Some(Passed::Argument(argument)) => Some(*argument),
            _ => None,
        },
        What::Var(_) | What::Peer(..) | What::Entry(_) | What::Field(..) | What::Tensor => None,
    };
    let verb = match access.kind {
        Kind::Read | Kind::Take => "reads",
        Kind::Write => "writes",
        Kind::Atomic => "updates",
        Kind::Fetch => "prefetches",
        Kind::Signal => "uses",
    };
    Finding { memory: base.name.clone(), argument, verb, size: access.size, ..blank(machine, property, access.inst) }
}

/// The conditions under which an access happens.
pub(crate) fn reached(machine: &Machine<'_>, access: &Access) -> Vec<Cond> {
    let mut conds = vec![access.path.cond(), access.guard.clone()];
    conds.extend(machine.launch.facts.iter().cloned());
    conds
}

//! Launches of a contract that are worth a run, where a proof leaves something open.

use crate::finding::launch_of;
use crate::form::{Cond, Form};
use crate::machine::Machine;
use crate::query::{Decision, LOOP_BUDGET, Views};
use crate::report::Counterexample;

/// The least numbers that a launch has, where its contract allows: a warp and a bit, several blocks, and few.
const LEAST: [i128; 4] = [37, 300, 1000, 1];
/// The work for all of them.
const WORK: u32 = 400_000;
/// Numbers are at most so many times as large.
const RATIO: i128 = 4;

/// A few launches that fulfill the contract.
pub(crate) fn samples(machine: &Machine<'_>) -> Vec<Counterexample> {
    // The proof may have spent all of its work.
    machine.world.work.set(WORK);
    let mut found: Vec<Counterexample> = Vec::new();
    for least in LEAST {
        if let Some(sample) = sample(machine, least)
            && !found.contains(&sample)
        {
            found.push(sample);
        }
    }
    found
}

fn sample(machine: &Machine<'_>, least: i128) -> Option<Counterexample> {
    let (world, launch) = (&machine.world, &machine.launch);
    let decide = |conds: &[Cond]| Views::one(world, conds.to_vec()).decide(LOOP_BUDGET);
    let mut conds: Vec<Cond> = launch.facts.clone();
    conds.extend(launch.block.iter().filter_map(|block| Cond::le(block, &Form::number(0))));
    let numbers = (0..launch.params.len()).filter(|at| !machine.is_address(*at));
    let numbers = numbers.filter_map(|at| launch.params[at].clone()).chain(launch.numbers.iter().cloned());
    let bounds = |form: &Form| {
        Some(Cond::all([
            Cond::le(&Form::number(least), form)?,
            Cond::le(form, &Form::number(least.saturating_mul(RATIO)))?,
        ]))
    };
    let wished: Vec<Cond> = numbers.filter_map(|form| bounds(&form)).collect();
    let all = [&conds[..], &wished[..]].concat();
    let model = match decide(&all) {
        Decision::Possible(model) => model,
        _ => {
            // Each number that can be so large.
            for cond in wished {
                let more = [&conds[..], &[cond]].concat();
                if matches!(decide(&more), Decision::Possible(_)) {
                    conds = more;
                }
            }
            match decide(&conds) {
                Decision::Possible(model) => model,
                _ => return None,
            }
        }
    };
    Some(launch_of(machine, &model))
}

//! Questions that the conditions around their parts decide, where the way or a side of a choice settles choices.

use crate::form::Cond;
use crate::local::{FAR, is_excluded};
use crate::settled::{Settled, settled};
use crate::strides::{By, Under, holds};

/// Decides it by the conditions around its parts, where the way or a side of a choice settles choices.
pub(crate) fn is_decided_nearby(under: &Under<'_>, goal: &Cond, splits: usize) -> bool {
    let Under { world, conds, facts } = *under;
    if world.is_spent() {
        return false;
    }
    if is_excluded(world, (conds, facts), goal, FAR) {
        return true;
    }
    let question = settled(world, conds, facts, goal);
    let (own, left) = match &question {
        Some(Settled { world, conds, facts, goal }) => (&Under { world, conds, facts }, goal),
        None => (under, goal),
    };
    let is_settled = question.is_some() && is_excluded(own.world, (own.conds, own.facts), left, FAR);
    let is_decided = is_settled || holds(own, &left.negate(), By::Near);
    world.work.set(own.world.work.get());
    let choice = world.choice_of_factor(left).filter(|_| !is_decided && splits > 0);
    let is_split = choice.is_some_and(|choice| {
        [choice.clone(), choice.negate()].into_iter().all(|side| {
            let conds: Vec<Cond> = conds.iter().cloned().chain([side]).collect();
            is_decided_nearby(&Under { world, conds: &conds, facts }, goal, splits - 1)
        })
    });
    is_decided || is_split
}

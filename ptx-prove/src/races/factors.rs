//! Factors that two threads share. Where tiles are numbered in bands, their places are products of the thread's own numbers, such as the height of its band. If
//! the threads meet in one place only with the same factors, the products are the same, too, which the solver does not find by itself.

use super::{Question, same};
use crate::form::{Coef, Cond, Form, Sym};
use crate::grids::Digit;
use crate::machine::Machine;
use crate::query::{BUDGET, Clause, differ};
use crate::rows;
use crate::world::Scope;
use ptx_core::hash::Set;

/// The work to find that threads share a factor, and that for all of them.
const FACTOR: u32 = 2 * BUDGET;
const ALL: u32 = 16 * BUDGET;
/// The most factors.
const FACTORS: usize = 12;

/// Of the own numbers of two threads that meet, those that both have to share, one after the other: each is a small question.
pub(super) fn shared(
    question: &Question<'_>,
    conds: &[(usize, Cond)],
    meet: &[Clause],
    mut open: Vec<Form>,
) -> Vec<Form> {
    let mut found: Vec<Form> = Vec::new();
    let (work, mut left) = (&question.machine.world.work, ALL);
    loop {
        let before = found.len();
        open.retain(|factor| {
            let known = found.iter().flat_map(same);
            let meet: Vec<Clause> = meet.iter().cloned().chain(known).chain([differ(factor, factor)]).collect();
            let given = left.min(FACTOR);
            work.set(given);
            let is_shared = question.views(conds.to_vec(), &meet, false).decide(given).is_impossible();
            left -= given - work.get();
            found.extend(is_shared.then(|| factor.clone()));
            !is_shared
        });
        if found.len() == before {
            return found;
        }
    }
}

/// The factors in places and in conditions that each thread has for itself.
pub(super) fn own(conds: &[(usize, Cond)], digits: &[Digit], is_own: &dyn Fn(Sym) -> bool) -> Vec<Form> {
    let mut found: Vec<Form> = Vec::new();
    each_form(conds, digits, &mut |form| {
        let products = form.terms.iter().filter(|(mono, _)| mono.len() > 1);
        for factor in products.flat_map(|(mono, _)| mono).filter(|symbol| is_own(**symbol)).copied().map(Form::symbol) {
            if found.len() < FACTORS && !found.contains(&factor) {
                found.push(factor);
            }
        }
    });
    found
}

/// Multiples of a number of the launch: those of two threads differ by that number at least, or not at all.
pub(super) fn multiples(conds: &[(usize, Cond)], digits: &[Digit], is_stride: &dyn Fn(Sym) -> bool) -> Vec<Clause> {
    let mut products: Vec<Form> = Vec::new();
    each_form(conds, digits, &mut |form| {
        for (mono, _) in form.terms.iter().filter(|(mono, _)| mono.len() == 2) {
            let product = Form { terms: vec![(mono.clone(), Coef::One(1))], constant: Coef::One(0) };
            if mono.iter().filter(|symbol| is_stride(**symbol)).count() == 1 && !products.contains(&product) {
                products.push(product);
            }
        }
    });
    products.iter().flat_map(|product| rows::clauses(product, product, is_stride)).collect()
}

/// The forms of the first thread's places and conditions.
fn each_form(conds: &[(usize, Cond)], digits: &[Digit], visit: &mut dyn FnMut(&Form)) {
    digits.iter().for_each(|digit| visit(&digit.forms[0]));
    conds.iter().filter(|(view, _)| *view == 0).for_each(|(_, cond)| cond.forms(visit));
}

/// The parts of conditions that are about the places: with numbers of these alone, of those that these are made of, and of the launch. The others are about other
/// turns of loops.
pub(super) fn about(machine: &Machine<'_>, conds: &[(usize, Cond)], digits: &[Digit]) -> Vec<(usize, Cond)> {
    let world = &machine.world;
    let mut pending: Vec<Sym> = digits.iter().flat_map(|digit| &digit.forms).flat_map(Form::symbols).collect();
    let mut own: Set<Sym> = Set::default();
    while let Some(symbol) = pending.pop() {
        if own.insert(symbol) {
            world.facts_of(symbol).iter().for_each(|fact| fact.forms(&mut |form| pending.extend(form.symbols())));
        }
    }
    let is_known = |symbol: Sym| own.contains(&symbol) || world.symbol(symbol).scope == Scope::Grid;
    let is_about = |cond: &Cond| {
        let mut is = true;
        cond.forms(&mut |form| is &= form.symbols().all(is_known));
        is
    };
    let parts = |(view, cond): &(usize, Cond)| {
        let parts = match cond {
            Cond::All(parts) => parts.to_vec(),
            part => vec![part.clone()],
        };
        parts.into_iter().filter(is_about).map(|part| (*view, part)).collect::<Vec<_>>()
    };
    conds.iter().flat_map(parts).collect()
}

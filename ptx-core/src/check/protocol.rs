//! Protocols of the machine that ptxas does not hold: fences, commits, waits, barriers that all threads must reach.
//!
//! One file is one theme. Which instructions it concerns is a table of [`Pattern`]s at its top. A false alarm is worse
//! than a miss: what cannot be known here (a call to elsewhere, an address from outside) is taken to be right.

mod address;
mod align;
mod body;
mod bounds;
mod calls;
mod copies;
mod counts;
mod defs;
mod dependency;
mod diverge;
mod exchange;
mod lanes;
mod mbarrier;
mod postdom;
mod proxy;
mod registers;
mod wgmma;

use crate::diag::Diagnostic;
use crate::ir::{Inst, Module};
use crate::syntax::Tree;
use body::Body;
use calls::Calls;
pub use dependency::{Waiting, waiting};

/// Rows of this name that have this modifier (any, if it is empty).
type Pattern = (&'static str, &'static str);

/// Returns true if the instruction is one of these.
fn is(inst: &Inst, patterns: &[Pattern]) -> bool {
    let fits = |(name, modifier): &Pattern, row: &str| *name == row && (modifier.is_empty() || inst.has(modifier));
    inst.row.is_some_and(|row| patterns.iter().any(|p| fits(p, row.name)))
}

/// A rule over one function.
type Rule = fn(&Body, &mut Vec<Diagnostic>);

const RULES: &[Rule] = &[
    wgmma::check_wgmma,
    mbarrier::check_mbarrier,
    proxy::check_proxy,
    diverge::check_diverge,
    exchange::check_exchange,
    copies::check_copies,
    counts::check_counts,
    align::check_alignment,
    bounds::check_bounds,
    registers::check_registers,
    dependency::check_dependency,
];

pub(super) fn check_protocol(_: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    let calls = Calls::new(module);
    for (number, _) in module.functions.iter().enumerate().filter(|(_, function)| function.defined) {
        let body = Body::new(&calls, number);
        RULES.iter().for_each(|rule| rule(&body, out));
    }
}

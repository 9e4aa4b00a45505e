//! The thread counts of named barriers: whole warps, and the same for those who arrive and those who wait.

use super::address::Origin;
use super::{Body, Pattern};
use crate::diag::{Diagnostic, codes};
use crate::ir::Inst;
use crate::span::Span;

const ARRIVE: &[Pattern] =
    &[("bar.arrive", ""), ("bar.cta.arrive", ""), ("barrier.arrive", ""), ("barrier.cta.arrive", "")];
const WAIT: &[Pattern] = &[
    ("bar.sync", ""),
    ("bar.red", ""),
    ("bar.cta.sync", ""),
    ("bar.cta.red", ""),
    ("barrier.sync", ""),
    ("barrier.red", ""),
    ("barrier.cta.sync", ""),
    ("barrier.cta.red", ""),
];
/// Threads of a warp.
const WARP: i64 = 32;

/// A use of a barrier, as far as it is known.
struct Use {
    barrier: Option<i64>,
    count: Option<i64>,
    span: Span,
}

pub(super) fn check_counts(body: &Body, out: &mut Vec<Diagnostic>) {
    if !body.has(ARRIVE) && !body.has(WAIT) {
        return;
    }
    let uses = |patterns| body.all(patterns).map(|(_, inst)| known(body, inst)).collect::<Vec<_>>();
    let (arrivals, waits) = (uses(ARRIVE), uses(WAIT));
    for one in arrivals.iter().chain(&waits) {
        if let Some(count) = one.count.filter(|c| c % WARP != 0) {
            let text = format!("{count} threads are no whole warps");
            let help = "a barrier counts warps: the number of threads must be a multiple of 32";
            out.push(Diagnostic::warning(&codes::P0741, one.span, text).help(help).section("9.7.13.1"));
        }
    }
    if !body.elsewhere(ARRIVE) && !body.elsewhere(WAIT) && waits.iter().all(|w| w.barrier.is_some()) {
        arrivals.iter().for_each(|one| unmatched(one, &waits, out));
    }
}

/// Reports an arrival at a barrier where threads wait, but none for that many.
fn unmatched(arrival: &Use, waits: &[Use], out: &mut Vec<Diagnostic>) {
    let (Some(barrier), Some(count)) = (arrival.barrier, arrival.count) else { return };
    let partners: Vec<&Use> = waits.iter().filter(|w| w.barrier == arrival.barrier).collect();
    if partners.iter().any(|w| w.count.is_none_or(|c| c == count)) {
        return;
    }
    let Some((other, span)) = partners.first().and_then(|w| Some((w.count?, w.span))) else { return };
    let text = format!("{count} threads arrive at barrier {barrier}, but those who wait there wait for {other}");
    out.push(
        Diagnostic::warning(&codes::P0742, arrival.span, text)
            .label(span, format!("waits for {other} threads"))
            .help("all who use a barrier at a time give the same number of threads")
            .section("9.7.13.1"),
    );
}

fn known(body: &Body, inst: &Inst) -> Use {
    let operand = |name: &str| inst.row.and_then(|row| row.operand(name));
    let number = |name: &str| match operand(name).and_then(|at| inst.operands.get(at)).map(|o| body.origin(o)) {
        Some(Origin::Number(value)) => Some(value),
        _ => None,
    };
    let span = body.function.operand_span(inst, operand("b").unwrap_or(usize::MAX));
    Use { barrier: number("a"), count: number("b"), span }
}

//! `mbarrier` objects that are used although nothing can have initialized them.

use super::address::Origin;
use super::{Body, Pattern, is};
use crate::diag::{Diagnostic, codes};
use crate::ir::{Inst, Operand, Symbol};

const INIT: &[Pattern] = &[("mbarrier.init", "")];
/// Other writes to an object: a program may build or copy one manually.
const CALLS: &[Pattern] = &[("call", "")];
/// Uses of an object, and the operand that names it.
const USES: &[(&str, &str)] = &[
    ("mbarrier.expect_tx", "addr"),
    ("mbarrier.complete_tx", "addr"),
    ("mbarrier.arrive", "addr"),
    ("mbarrier.arrive.expect_tx", "addr"),
    ("mbarrier.arrive_drop", "addr"),
    ("mbarrier.arrive_drop.expect_tx", "addr"),
    ("mbarrier.test_wait", "addr"),
    ("mbarrier.test_wait.parity", "addr"),
    ("mbarrier.try_wait", "addr"),
    ("mbarrier.try_wait.parity", "addr"),
    ("mbarrier.inval", "addr"),
    ("cp.async.mbarrier.arrive", "addr"),
    ("cp.async.bulk", "mbar"),
    ("cp.async.bulk.tensor", "mbar"),
    ("cp.reduce.async.bulk", "mbar"),
    ("st.async", "mbar"),
    ("red.async", "mbar"),
    ("tcgen05.commit", "mbar"),
    ("clusterlaunchcontrol.try_cancel.async", "mbar"),
];

pub(super) fn check_mbarrier(body: &Body, out: &mut Vec<Diagnostic>) {
    if !USES.iter().any(|(name, _)| body.has(&[(name, "")])) || body.elsewhere(INIT) || body.elsewhere(CALLS) {
        return;
    }
    let inits: Vec<(usize, Origin)> = body.all(INIT).map(|(at, i)| (at, origin(body, i, "addr"))).collect();
    for (at, inst) in body.of_rows(&|row| USES.iter().any(|(name, _)| *name == row.name)) {
        let Some((_, operand)) = USES.iter().find(|(name, _)| is(inst, &[(name, "")])) else { continue };
        let used = origin(body, inst, operand);
        let known = matches!(used, Origin::In(Symbol::Var(_), _)) && body.graph().reached[body.graph().block_of(at)];
        if known && !inits.iter().any(|(init, of)| may_be(*of, used) && in_time(body, *init, at)) {
            return out.push(report(body, inst, operand));
        }
    }
}

/// Returns true if the initialization may come first: other threads may have made it while this one took another way.
fn in_time(body: &Body, init: usize, used: usize) -> bool {
    !body.before(used, init) || body.before(init, used)
}

fn report(body: &Body, inst: &Inst, operand: &str) -> Diagnostic {
    let span = position(inst, operand).map_or(inst.span, |at| body.function.operand_span(inst, at));
    Diagnostic::warning(&codes::P0711, span, "no `mbarrier.init` of this object comes before its use")
        .help("one thread initializes it (`mbarrier.init.shared::cta.b64 [mbar], count;`), then a barrier follows")
        .section("9.7.13.15.9")
}

fn position(inst: &Inst, operand: &str) -> Option<usize> {
    let at = inst.row?.operand(operand)?;
    matches!(inst.operands.get(at), Some(Operand::Memory { .. })).then_some(at)
}

fn origin(body: &Body, inst: &Inst, operand: &str) -> Origin {
    position(inst, operand).and_then(|at| inst.operands.get(at)).map_or(Origin::Any, |o| body.origin(o))
}

/// Returns true if both addresses can be the same.
fn may_be(a: Origin, b: Origin) -> bool {
    match (a, b) {
        (Origin::In(a, Some(x)), Origin::In(b, Some(y))) => a == b && x == y,
        (Origin::In(a, _), Origin::In(b, _)) => a == b,
        _ => true,
    }
}

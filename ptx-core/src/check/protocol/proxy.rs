//! Shared memory that threads write (generic proxy) and that an asynchronous copy or matrix instruction then reads
//! (async proxy) with no `fence.proxy.async` in between.

use super::address::Origin;
use super::{Body, Pattern, is};
use crate::check::graph::forward;
use crate::diag::{Diagnostic, codes};
use crate::hash::Map;
use crate::ir::{Inst, Symbol, VarId};
use crate::isa::OperandKind;
use crate::span::Span;

/// Writes through the generic proxy.
const WRITES: &[Pattern] =
    &[("st", "shared"), ("st", "shared::cta"), ("stmatrix", ""), ("atom", "shared"), ("red", "shared")];
/// Reads through the async proxy; the operand is `src`.
const COPIES: &[Pattern] = &[
    ("cp.async.bulk", "bulk_group"),
    ("cp.async.bulk.tensor", "bulk_group"),
    ("cp.reduce.async.bulk", "bulk_group"),
    ("cp.reduce.async.bulk.tensor", "bulk_group"),
];
/// Reads through the async proxy by descriptors, whose addresses are not known here.
const MATRICES: &[Pattern] =
    &[("wgmma.mma_async", ""), ("tcgen05.mma", ""), ("tcgen05.mma.ws", ""), ("tcgen05.cp", "")];
/// Fills shared memory through the async proxy.
const FILLS: &[Pattern] = &[
    ("cp.async.bulk", "shared::cluster"),
    ("cp.async.bulk", "shared::cta"),
    ("cp.async.bulk.tensor", "shared::cluster"),
    ("cp.async.bulk.tensor", "shared::cta"),
];
const FENCES: &[Pattern] = &[("fence.proxy", ""), ("membar.proxy", "")];

pub(super) fn check_proxy(body: &Body, out: &mut Vec<Diagnostic>) {
    if !body.has(WRITES)
        || !(body.has(COPIES) || body.has(MATRICES))
        || body.elsewhere(FENCES)
        || body.elsewhere(WRITES)
    {
        return;
    }
    copies(body, out);
    matrices(body, out);
}

/// State of a variable on the path to an instruction. Where ways meet, the greater one stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// Written here, and no fence since.
    Written(Span),
    /// Fenced on some way.
    Fenced,
}

type States = Map<VarId, State>;

/// Copies from a variable that threads write, and that no asynchronous copy fills.
fn copies(body: &Body, out: &mut Vec<Diagnostic>) {
    let fills: Vec<Option<VarId>> =
        body.all(FILLS).filter(|(_, i)| !i.has("bulk_group")).map(|(_, i)| variable(body, i, "dst")).collect();
    if fills.iter().any(Option::is_none) {
        return;
    }
    let starts = forward(body.graph(), States::default(), |state, at| step(body, state, at), meet);
    for (block, start) in starts.into_iter().enumerate() {
        let Some(mut state) = start else { continue };
        for at in body.graph().range(block) {
            let Some(inst) = body.function.insts.get(at) else { continue };
            let source =
                is(inst, COPIES).then(|| variable(body, inst, "src")).flatten().filter(|v| !fills.contains(&Some(*v)));
            if let Some(State::Written(write)) = source.and_then(|v| state.get(&v)) {
                return out.push(report(inst, *write));
            }
            step(body, &mut state, at);
        }
    }
}

fn step(body: &Body, state: &mut States, at: usize) {
    let Some(inst) = body.function.insts.get(at) else { return };
    if is(inst, FENCES) {
        state.values_mut().for_each(|s| *s = State::Fenced);
    } else if is(inst, WRITES) {
        let first = inst.row.and_then(|r| r.operands.iter().find(|o| matches!(o.kind, OperandKind::Memory { .. })));
        let written = first.and_then(|o| variable(body, inst, o.name));
        state.extend(written.map(|v| (v, State::Written(inst.span))));
    }
}

fn meet(into: &mut States, from: &States) -> bool {
    let mut changed = false;
    for (variable, state) in from {
        let old = into.get(variable).copied();
        if old.is_none_or(|o| o < *state && *state == State::Fenced) {
            into.insert(*variable, *state);
            changed = true;
        }
    }
    changed
}

/// The variable that an operand points into.
fn variable(body: &Body, inst: &Inst, operand: &str) -> Option<VarId> {
    let at = inst.row?.operand(operand)?;
    match body.origin(inst.operands.get(at)?) {
        Origin::In(Symbol::Var(var), _) => Some(var),
        _ => None,
    }
}

/// Matrix instructions in a kernel where only threads can have written what they read.
fn matrices(body: &Body, out: &mut Vec<Diagnostic>) {
    if !body.has(MATRICES) || body.has(FENCES) || body.all(FILLS).any(|(_, i)| !i.has("bulk_group")) {
        return;
    }
    for (at, write) in body.all(WRITES) {
        let behind = body.all(MATRICES).find(|(read, _)| body.before(at, *read));
        if let Some((_, inst)) = behind {
            return out.push(report(inst, write.span));
        }
    }
}

fn report(inst: &Inst, write: Span) -> Diagnostic {
    let name = inst.row.map_or("", |r| r.name);
    let text = format!("`{name}` reads shared memory that threads wrote, with no `fence.proxy.async` in between");
    Diagnostic::warning(&codes::P0712, inst.name_span, text)
        .label(write, "written here, through the generic proxy")
        .help("write `fence.proxy.async.shared::cta;` behind the writes, before the barrier")
        .section("9.7.13.4")
}

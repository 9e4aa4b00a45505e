//! Programmatic dependent launch: kernels that wait for the grid before them, and accesses to global memory ahead of that wait.
//!
//! A launch of such a kernel may begin while that grid still runs, so that only the wait makes its data complete.

use super::{Body, Calls, Pattern, is};
use crate::check::graph::forward;
use crate::diag::{Diagnostic, codes};
use crate::ir::{Inst, Module};

const WAITS: &[Pattern] = &[("griddepcontrol", "wait")];
/// Instructions behind which a thread may rely on a wait of another thread. Nothing is known about functions.
const LEARNS: &[Pattern] = &[
    ("bar.sync", ""),
    ("bar.red", ""),
    ("bar.cta.sync", ""),
    ("bar.cta.red", ""),
    ("bar.warp.sync", ""),
    ("barrier", ""),
    ("barrier.red", ""),
    ("barrier.cta", ""),
    ("barrier.cta.red", ""),
    ("barrier.cluster.wait", ""),
    ("mbarrier.test_wait", ""),
    ("mbarrier.test_wait.parity", ""),
    ("mbarrier.try_wait", ""),
    ("mbarrier.try_wait.parity", ""),
    ("call", ""),
];
/// Accesses to global memory. Atomic ones of both grids may meet, and prefetches read nothing.
const ACCESSES: &[Pattern] = &[
    ("ld", "global"),
    ("ldu", "global"),
    ("st", "global"),
    ("cp.async", ""),
    ("cp.async.bulk", "global"),
    ("cp.async.bulk.tensor", ""),
    ("cp.reduce.async.bulk", "global"),
    ("cp.reduce.async.bulk.tensor", ""),
    ("tex", ""),
    ("tex.base", ""),
    ("tex.level", ""),
    ("tex.grad", ""),
    ("tld4", ""),
    ("suld.b", ""),
    ("sust.b", ""),
    ("sust.p", ""),
];

/// A kernel that waits for the grids before it, itself or in a function that it calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The name of the entry.
    pub entry: String,
    /// True if it accesses global memory on a path that did not wait.
    pub early: bool,
}

impl Waiting {
    /// The bit of a module's text of this number, if launches of the kernel may overlap the grids before them.
    pub fn bit(&self, text: usize) -> u32 {
        let bit = u32::try_from(text).ok().and_then(|text| 1_u32.checked_shl(text)).unwrap_or(0);
        if self.early { 0 } else { bit }
    }
}

/// The kernels of a module that wait for the grids before them: launches of those that wait before all accesses may overlap these grids.
pub fn waiting(module: &Module) -> Vec<Waiting> {
    let calls = Calls::new(module);
    let entries = module.functions.iter().enumerate().filter(|(_, function)| function.entry && function.defined);
    let bodies =
        entries.map(|(number, _)| Body::new(&calls, number)).filter(|body| body.has(WAITS) || body.has(LEARNS));
    let waiting = bodies.filter(|body| body.all(WAITS).next().is_some() || body.calls(WAITS));
    waiting.map(|body| Waiting { entry: body.function.name.clone(), early: early_access(&body).is_some() }).collect()
}

pub(super) fn check_dependency(body: &Body, out: &mut Vec<Diagnostic>) {
    let Some((_, wait)) = body.all(WAITS).next().filter(|_| body.function.entry) else { return };
    let Some(inst) = early_access(body) else { return };
    let text = "this access comes before the wait for the grid before, which may still write or read there";
    out.push(
        Diagnostic::warning(&codes::P0761, inst.name_span, text)
            .label(wait.span, "waits here")
            .help("move it behind `griddepcontrol.wait;`: until then the kernel is launched after the grid before has ended")
            .section("9.7.13.13"),
    );
}

/// The first access to global memory on a path on which no thread can have waited.
fn early_access<'a>(body: &Body<'a>) -> Option<&'a Inst> {
    let insts = &body.function.insts;
    let step = |early: &mut bool, at: usize| {
        *early &= !insts.get(at).is_some_and(|inst| is(inst, WAITS) || is(inst, LEARNS));
    };
    let meet = |into: &mut bool, from: &bool| {
        let changed = !*into && *from;
        *into |= from;
        changed
    };
    let starts = forward(body.graph(), true, step, meet);
    starts.into_iter().enumerate().find_map(|(block, start)| {
        let mut early = start?;
        body.graph().range(block).find_map(|at| {
            let inst = insts.get(at)?;
            let found = early && is(inst, ACCESSES) && inst.slot("sem").is_none();
            step(&mut early, at);
            found.then_some(inst)
        })
    })
}

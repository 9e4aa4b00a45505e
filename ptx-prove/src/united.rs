//! One verdict where a kernel synchronizes by barriers in memory: what `pipeline` explores together with what the other checks decide.
//!
//! The exploration executes every warp of a cluster. If it finishes, it has compared all accesses of copies and products in shared and in tensor
//! memory with all others there, and nobody waits forever. It leaves these questions, which are decided here or elsewhere:
//!
//! - Accesses of instructions with each other, in shared and in global memory: `races`, with the order of barriers of blocks and warps alone. What
//!   barriers in memory order besides is less than is true.
//! - Global memory that copies access: `transfers`.
//! - Loads, stores and allocations of tensor memory with each other: `tensor`.
//! - Reads of instructions of bytes that nobody wrote: `initial`, or, as it sees copies besides, the exploration.
//! - Its terms have no width: here, by the numbers that `machine` reads at the same instructions.
//! - It takes `ld.global.nc` for constant: here.

use crate::machine::Machine;
use crate::pipeline::{Outcome, Pipeline};
use crate::trace::What;

/// The instruction and the fact that is missing in a proof of the pipeline; nothing if it is proved.
pub(crate) fn missing(machine: &Machine<'_>, explored: &Pipeline) -> Option<(usize, String)> {
    match &explored.outcome {
        Outcome::Violated(_, order) => {
            Some((explored.inst, format!("an order of its pipeline seems to go wrong: {order}")))
        }
        Outcome::Unknown(_, missing) => Some((explored.inst, format!("its pipeline is not proved: {missing}"))),
        Outcome::Proved => inexact(machine, explored).or_else(|| changed(machine, explored)),
    }
}

/// An instruction whose operands may not fit their registers.
fn inexact(machine: &Machine<'_>, explored: &Pipeline) -> Option<(usize, String)> {
    let inst = explored.reads.iter().copied().find(|inst| machine.trace.inexact.contains(inst))?;
    let missing = "its pipeline depends on numbers that may not fit their registers, or that are not described";
    Some((inst, missing.to_owned()))
}

/// A load of constant memory that the kernel writes.
fn changed(machine: &Machine<'_>, explored: &Pipeline) -> Option<(usize, String)> {
    let is_changed = |inst: usize| {
        let mut own = machine.trace.accesses.iter().filter(|access| access.inst == inst).peekable();
        let is_constant = |what: What| matches!(what, What::Param(_) | What::Var(_)) && !machine.writes.contains(&what);
        own.peek().is_none() || own.any(|access| !is_constant(machine.bases[access.base].what))
    };
    let inst = explored.loads.iter().find(|inst| is_changed(**inst))?;
    Some((*inst, "its pipeline depends on memory that the kernel may write".to_owned()))
}

//! Registers that an asynchronous instruction is still writing or reading.

use super::party;
use crate::exec::ExecState;
use crate::fault::{Fault, FaultKind};
use crate::watch::notes::Note;
use ptx_core::diag::codes;

/// Objects if the running instruction touches an accumulator in flight, or writes a fragment of A in flight.
pub(in crate::watch) fn check_flying(exec: &ExecState, note: &Note) -> Result<(), Fault> {
    if exec.warp.flight.is_empty() {
        return Ok(());
    }
    let (warp, flight) = (&exec.warp, &exec.warp.flight);
    let touched = note.touched.iter().find_map(|slot| flight.accumulates(warp.origin + slot));
    // Who reads them waits for the value (9.7.16.6.4.5); who writes them may be overtaken.
    let loaded = note.written.iter().find_map(|slot| flight.loads(warp.origin + slot));
    if let Some(load) = loaded {
        return Err(Fault::new(FaultKind::Async, "a write to a register that `tcgen05.ld` may still be writing")
            .code(&codes::W0406)
            .party(party(exec.listing, load, "this one; nothing has waited for it yet".into()))
            .help("`tcgen05.wait::ld` before the register is used for something else"));
    }
    let written = note.written.iter().find_map(|slot| flight.holds(warp.origin + slot));
    let (doing, product) = match (touched, written) {
        (Some(product), _) => ("writing", product),
        (None, Some(product)) => ("reading", product),
        (None, None) => return Ok(()),
    };
    Err(Fault::new(FaultKind::Async, format!("a register that `wgmma.mma_async` may still be {doing}"))
        .code(&codes::W0404)
        .party(party(exec.listing, product, "this one; nothing has waited for it yet".into()))
        .help("`wgmma.commit_group` and `wgmma.wait_group 0` before the register is used"))
}

/// Objects if an accumulator or a fragment of A of the running `wgmma` was touched since the last `wgmma.fence`.
pub(in crate::watch) fn check_fence(exec: &ExecState, note: &Note) -> Result<(), Fault> {
    let (warp, flight) = (&exec.warp, &exec.warp.flight);
    let Some(slot) = note.written.iter().find(|slot| !flight.is_fenced(warp.origin + *slot)) else { return Ok(()) };
    let function = exec.listing.code.get(exec.warp.at as usize).map_or(0, |code| code.function);
    let name = exec.listing.register_name(function, *slot);
    let message = format!("`wgmma.mma_async` without `wgmma.fence` since `{name}` was touched");
    Err(Fault::new(FaultKind::Async, message)
        .code(&codes::W0405)
        .help("`wgmma.fence.sync.aligned` before it; `wgmma`s of one shape that follow each other need no other"))
}

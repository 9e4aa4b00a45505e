//! Registers that an asynchronous instruction is still writing or reading.

use super::party;
use crate::diag::codes;
use crate::interp::ctx::Ctx;
use crate::interp::fault::{Fault, FaultKind};

/// Objects if the running instruction touches an accumulator in flight, or writes a fragment of A in flight.
pub(in crate::interp::watch) fn check(ctx: &Ctx) -> Result<(), Fault> {
    let (warp, flight) = (&ctx.warp, &ctx.warp.flight);
    if flight.is_empty() {
        return Ok(());
    }
    let Some(code) = ctx.program.code.get(warp.at as usize) else { return Ok(()) };
    let touched = code.touched.iter().find_map(|slot| flight.accumulates(warp.origin + slot));
    let written = code.written.iter().find_map(|slot| flight.holds(warp.origin + slot));
    let (doing, product) = match (touched, written) {
        (Some(product), _) => ("writing", product),
        (None, Some(product)) => ("reading", product),
        (None, None) => return Ok(()),
    };
    Err(Fault::new(FaultKind::Async, format!("a register that `wgmma.mma_async` may still be {doing}"))
        .code(&codes::W0404)
        .party(party(ctx.program, product, "this one; nothing has waited for it yet".into()))
        .help("`wgmma.commit_group` and `wgmma.wait_group 0` before the register is used"))
}

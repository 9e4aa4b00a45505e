//! Registers that an asynchronous instruction is still writing.

use super::party;
use crate::diag::codes;
use crate::interp::ctx::Ctx;
use crate::interp::fault::{Fault, FaultKind};
use crate::interp::watch::role::{Act, Role};

/// Objects if the running instruction touches a register in flight. Those of the same kind may: they go on with it.
pub(in crate::interp::watch) fn check(ctx: &Ctx, role: Role) -> Result<(), Fault> {
    let Some(threads) = ctx.warp.threads.as_ref().filter(|_| ctx.warp.flying) else { return Ok(()) };
    let Some(code) = ctx.program.code.get(ctx.warp.at as usize) else { return Ok(()) };
    let threads = threads.borrow();
    let touched = |slot: u32| code.touched.iter().any(|own| ctx.warp.origin + own == slot);
    let mine = |actor| matches!(role.act, Act::Async { writes, .. } if writes == actor);
    let Some(register) = threads.flying.iter().find(|r| !mine(r.actor) && touched(r.slot)) else { return Ok(()) };
    Err(Fault::new(FaultKind::Async, "a register that `wgmma.mma_async` may still be writing")
        .code(&codes::W0404)
        .party(party(ctx.program, register.pc, "this computes it; nothing has waited for it yet".into()))
        .help("`wgmma.commit_group` and `wgmma.wait_group 0` before the accumulator is used"))
}

//! Aligned barriers where the threads of a warp are apart.

use super::party;
use crate::exec::ExecState;
use crate::fault::{Fault, FaultKind};
use crate::warp::lanes;
use ptx_core::diag::codes;

/// Objects if other threads of the warp wait at another aligned barrier. (Threads that come later to the same one are
/// waited for; threads that have ended do not count.)
pub(in crate::watch) fn check_divergence(exec: &ExecState, active: u32) -> Result<(), Fault> {
    let warp = &*exec.warp;
    let aligned = |pc: u32| exec.listing.code.get(pc as usize).is_some_and(|code| code.role.aligned);
    let elsewhere = |lane: usize| warp.pc[lane] != warp.at && aligned(warp.pc[lane]);
    let Some(other) = lanes(warp.live & warp.waiting & !active).find(|lane| elsewhere(*lane)) else { return Ok(()) };
    let there = lanes(warp.live & warp.waiting).filter(|lane| warp.pc[*lane] == warp.pc[other]).count();
    let message = format!(
        "an aligned barrier where a warp is apart: {} of its threads are here, {there} wait at another one",
        active.count_ones()
    );
    Err(Fault::new(FaultKind::Sync, message)
        .code(&codes::W0301)
        .party(party(exec.listing, warp.pc[other], format!("{there} threads of warp {} wait here", warp.index)))
        .help(
            "let all threads of a warp take the same way to a barrier; `barrier.sync` without `.aligned` allows more",
        ))
}

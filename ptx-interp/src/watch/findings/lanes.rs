//! Reads of a warp's lanes from lanes that take no part: they have ended, never existed, or no member mask names
//! them. Only `shfl` reads one lane. Votes, matches, reductions and barriers of a warp are about the lanes that have not
//! ended (9.7.13.9), so their masks may name others.

use super::party;
use crate::exec::ExecState;
use crate::fault::{Fault, FaultKind};
use crate::warp::lanes;
use ptx_core::diag::codes;

/// Lanes read values of others: objects if one of those is not there, or is not named by the reader's member mask.
#[cold]
pub(in crate::watch) fn check_sources(
    exec: &ExecState,
    group: u32,
    named: &dyn Fn(usize) -> u32,
    source: &dyn Fn(usize) -> usize,
) -> Result<(), Fault> {
    for lane in lanes(group) {
        let from = source(lane);
        if named(lane) & group & exec.warp.live & 1 << from == 0 {
            let message = format!("lane {lane} reads the value of lane {from}");
            return Err(no_part(exec, (lane, from), &message, named(lane)));
        }
    }
    Ok(())
}

/// The fault about a lane that takes no part, with the reason and the fix.
fn no_part(exec: &ExecState, (lane, other): (usize, usize), message: &str, named: u32) -> Fault {
    let threads = exec.grid.threads().saturating_sub(32 * exec.warp.index).min(32);
    let fault = |why: &str| Fault::new(FaultKind::Sync, format!("{message}, {why}")).code(&codes::W0308).lane(lane);
    match () {
        () if other as u32 >= threads => fault(&format!("which does not exist: this warp has {threads} threads")).help(
            "launch whole warps (a multiple of 32 threads in a block), or name only the threads of the block in the member mask",
        ),
        () if named >> other & 1 == 0 => fault(&format!("which the member mask {named:#010x} does not name"))
            .help("let the member mask name every lane that is read, or end the segment before it (operand `c` of `shfl`)"),
        () if exec.warp.live >> other & 1 == 0 => fault("which has ended")
            .party(party(exec.listing, exec.warp.pc[other], format!("lane {other} ended here")))
            .help(
                "let all lanes come here: give those beyond the end of the data a value that changes nothing (0 for a sum) \
                 instead of returning early",
            )
            .help("or take the lanes that go on from `vote.sync.ballot` before the branch, and name only them"),
        () => fault("which is not at this instruction"),
    }
}

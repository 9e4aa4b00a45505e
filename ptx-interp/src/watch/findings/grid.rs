//! Blocks that wait for each other in a launch that does not promise that all of them run at once.

use super::{Touch, party, triple};
use crate::exec::ExecState;
use crate::fault::{Fault, FaultKind, Party};
use crate::watch::Watch;
use ptx_core::diag::codes;

/// A barrier of the grid, at which another block waits too.
#[cold]
pub(in crate::watch) fn not_cooperative(
    exec: &ExecState,
    watch: &Watch,
    (other, pc): (u32, u32),
    touch: &Touch,
) -> Fault {
    let lane = touch.lanes.trailing_zeros() as usize % 32;
    let other = watch.own.id(other);
    let message = "a barrier of the grid in a launch that is not cooperative: blocks that have not begun may never begin, \
                   because those that wait do not end";
    let waits = party(exec.listing, pc, format!("block {} waits here, too", triple(other)));
    Fault::new(FaultKind::Sync, message)
        .code(&codes::W0309)
        .at(touch.address)
        .place(exec.name_of(touch.place, lane))
        .lane(lane)
        .party(waits.map(|party| Party { block: Some(other), ..party }))
        .help("launch it cooperatively: `cooperative` in the kernel's attribute, `Config::cooperative(true)`, `ptx run --cooperative`")
}

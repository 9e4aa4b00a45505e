//! Accesses that leave the variable to which their address belongs.

use super::Touch;
use crate::exec::ExecState;
use crate::fault::{Fault, FaultKind};
use crate::watch::within::Extent;
use ptx_core::diag::codes;

/// An access that belongs to a variable, and is not inside of it; `at` is in the terms of the extent.
pub(in crate::watch) fn leaves(exec: &ExecState, touch: &Touch, extent: &Extent, at: u64) -> Fault {
    let Extent { name, size, at: start, .. } = extent;
    let where_to = match at.checked_sub(*start) {
        Some(byte) => format!("from byte {byte} on"),
        None => format!("{} bytes before it", start - at),
    };
    let verb = if touch.writes { "write" } else { "read" };
    let message = format!("a {verb} of {} bytes that leaves `{name}`, which has {size} bytes: {where_to}", touch.size);
    let lane = touch.lanes.trailing_zeros() as usize % 32;
    Fault::new(FaultKind::OutOfBounds, message)
        .code(&codes::W0106)
        .at(touch.address)
        .place(exec.name_of(touch.place, lane))
        .lane(lane)
        .help(format!("keep the offset in `{name}`, or make it larger"))
}

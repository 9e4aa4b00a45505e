//! Reads of bytes that nobody has written: not the host, not a kernel.

use super::Touch;
use crate::diag::codes;
use crate::interp::ctx::Ctx;
use crate::interp::fault::{Fault, FaultKind};
use crate::interp::space::Where;

/// The finding about a read whose byte at `offset` holds nothing.
pub(in crate::interp::watch) fn found(ctx: &Ctx, touch: &Touch, offset: u64) -> Fault {
    let lane = touch.lanes.trailing_zeros() as usize % 32;
    let message = format!(
        "a read of {} bytes of {} memory of which nobody has written byte {offset}",
        touch.size,
        touch.place.space.name()
    );
    Fault::new(FaultKind::Unwritten, message)
        .code(&codes::W0104)
        .at(touch.address.wrapping_add(offset))
        .place(ctx.name_of(touch.at(offset), lane))
        .lane(lane)
        .help(match touch.place.space {
            Where::Shared => "write it first; shared memory holds nothing when a block begins",
            Where::Local => "write it first; local memory holds nothing when a function begins",
            _ => "write it first, from the host (`upload`, `zeros`) or in a kernel",
        })
}

//! Reads of bytes that nobody has written: not the host, not a kernel.

use super::Touch;
use crate::diag::codes;
use crate::interp::fault::{Fault, FaultKind};

/// The finding about a read whose byte at `offset` holds nothing.
pub(in crate::interp::watch) fn found(touch: &Touch, offset: u64) -> Fault {
    let message = format!(
        "a read of {} bytes of {} memory of which nobody has written byte {offset}",
        touch.size,
        touch.place.space.name()
    );
    Fault::new(FaultKind::Unwritten, message)
        .code(&codes::W0104)
        .at(touch.address.wrapping_add(offset))
        .lane(touch.lanes.trailing_zeros() as usize % 32)
}

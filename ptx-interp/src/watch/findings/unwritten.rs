//! Reads of bytes that nobody has written: not the host, not a kernel.

use super::{Touch, party};
use crate::ctx::Ctx;
use crate::fault::{Fault, FaultKind};
use crate::program::Program;
use crate::space::Where;
use ptx_core::diag::codes;

/// The finding about a read whose byte at `offset` holds nothing.
pub(in crate::watch) fn found(ctx: &Ctx, touch: &Touch, offset: u64) -> Fault {
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

/// The finding about a use of a register without a value; the first that had none came from the load at `first`.
pub(in crate::watch) fn mattered(
    program: &Program,
    (name, lane): (&str, usize),
    first: Option<(u32, &Fault)>,
) -> Fault {
    let message = format!("a use of `{name}`, whose value comes from memory that nobody has written");
    let from = first.and_then(|(pc, fault)| {
        let place = fault.named().map_or(String::new(), |name| format!(", {name}"));
        party(program, pc, format!("it was loaded here: {}{place}", fault.message))
    });
    Fault::new(FaultKind::Unwritten, message).code(&codes::W0104).lane(lane).party(from).help(
        "write the memory first, or keep what was never written out of what others see: branches, addresses, results",
    )
}

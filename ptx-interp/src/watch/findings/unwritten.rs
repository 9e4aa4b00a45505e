//! Reads of bytes that nobody has written: not the host, not a kernel.

use super::{Touch, party};
use crate::exec::ExecState;
use crate::fault::{Fault, FaultKind};
use crate::listing::Listing;
use crate::space::Where;
use crate::watch::notes::{Note, Notes};
use crate::watch::within::Within;
use ptx_core::diag::codes;

/// The finding about a read whose byte at `offset` holds nothing.
pub(in crate::watch) fn found(exec: &ExecState, notes: &Notes, touch: &Touch, offset: u64) -> Fault {
    let lane = touch.lanes.trailing_zeros() as usize % 32;
    let message = format!(
        "a read of {} bytes of {} memory of which nobody has written byte {offset}",
        touch.size,
        touch.place.space.name()
    );
    let fault = Fault::new(FaultKind::Unwritten, message)
        .code(&codes::W0104)
        .at(touch.address.wrapping_add(offset))
        .place(exec.name_of(touch.at(offset), lane))
        .lane(lane);
    if let Some(store) = unordered_store(exec, notes, touch, offset) {
        let text = "this stores there, and no barrier stands between it and the read".to_string();
        return fault.party(party(exec.listing, store, text)).help(BARRIER);
    }
    fault.help(match touch.place.space {
        Where::Shared => "write it first; shared memory holds nothing when a block begins",
        Where::Local => "write it first; local memory holds nothing when a function begins",
        _ => "write it first, from the host (`upload`, `zeros`) or in a kernel",
    })
}

const BARRIER: &str = "if another thread writes it, let a barrier stand between the write and this read: `bar.sync 0;` (`block::sync()`), \
                       or `bar.warp.sync -1;` (`warp::sync()`) if it is a thread of the same warp";

/// The last store before a read, in the order of the text, that may write this byte of the block's shared memory, if the text
/// has no barrier between the two.
fn unordered_store(exec: &ExecState, notes: &Notes, touch: &Touch, offset: u64) -> Option<u32> {
    if touch.place.space != Where::Shared || touch.place.rank != exec.block.rank {
        return None;
    }
    let code = exec.listing.code.get(..exec.warp.at as usize)?;
    let function = exec.listing.code.get(exec.warp.at as usize)?.function;
    let before = code.iter().enumerate().rev().take_while(|(_, code)| code.function == function);
    let waits = |name: &str| BARRIERS.iter().any(|barrier| name.starts_with(barrier));
    let at = touch.at(offset).at;
    let holds = |within: &Within| within.leaves(Where::Shared, at, 1).is_none();
    let may_write = |note: &Note| note.fills && note.within.as_ref().is_none_or(|within| holds(within));
    let mut unordered = before.take_while(|(_, code)| !waits(code.name)).map(|(pc, _)| pc as u32);
    unordered.find(|pc| notes.at(*pc).is_some_and(may_write))
}

/// The starts of names of instructions that wait for other threads.
const BARRIERS: &[&str] = &["bar.sync", "bar.red", "bar.cta", "bar.warp", "barrier.", "mbarrier.t"];

/// The finding about a use of a register without a value; the first that had none came from the load at `first`.
pub(in crate::watch) fn mattered(
    listing: &Listing,
    (name, lane): (&str, usize),
    first: Option<(u32, &Fault)>,
) -> Fault {
    let message = format!("a use of `{name}`, whose value comes from memory that nobody has written");
    let barrier = first.is_some_and(|(_, fault)| fault.advice().iter().any(|help| help == BARRIER));
    let from = first.and_then(|(pc, fault)| {
        let place = fault.named().map_or(String::new(), |name| format!(", {name}"));
        party(listing, pc, format!("it was loaded here: {}{place}", fault.message))
    });
    let help =
        "write the memory first, or keep what was never written out of what others see: branches, addresses, results";
    let fault = Fault::new(FaultKind::Unwritten, message).code(&codes::W0104).lane(lane).party(from);
    match first.filter(|_| barrier) {
        Some((_, load)) => {
            load.parties().iter().fold(fault, |fault, store| fault.party(Some(store.clone()))).help(BARRIER)
        }
        None => fault.help(help),
    }
}

//! Tensor memory that others still use, and what nobody has put there.

use super::who;
use crate::exec::ExecState;
use crate::fault::{Fault, FaultKind};
use crate::role::Actor;
use crate::tmem::Use;
use crate::watch::Watch;
use crate::watch::event::Event;
use crate::watch::shadow::Clash;
use ptx_core::diag::codes;

/// Fixes for an earlier use, by its actor.
const CURES: &[(Actor, &str)] = &[
    (
        Actor::Tensor,
        "`tcgen05.commit` to an mbarrier behind it, wait for that phase, then `tcgen05.fence::after_thread_sync`: only products \
         that follow each other (and copies before products) need no wait, in one thread or with `tcgen05.fence`s around a barrier",
    ),
    (
        Actor::Store,
        "`tcgen05.wait::st` in the warp that stores; for other threads then `tcgen05.fence::before_thread_sync`, a barrier, and \
         `tcgen05.fence::after_thread_sync`",
    ),
    (
        Actor::Load,
        "`tcgen05.wait::ld` in the warp that loads; for other threads then `tcgen05.fence::before_thread_sync`, a barrier, and \
         `tcgen05.fence::after_thread_sync`",
    ),
    (Actor::Thread, "let a barrier of the block stand between `tcgen05.alloc`, the uses, and `tcgen05.dealloc`"),
];

/// Columns of a pair that go back before the other block's `tcgen05.alloc` is known to be complete.
pub(in crate::watch) fn peer(exec: &ExecState, watch: &Watch, alloc: Option<Event>) -> Fault {
    let name = exec.listing.name_at(exec.warp.at);
    let relation = match alloc {
        Some(_) => "nothing orders it behind the `tcgen05.alloc` of the other block of the pair",
        None => "the `tcgen05.alloc` of the other block of the pair is not complete",
    };
    let fault = Fault::new(FaultKind::Async, format!("`{name}` gives columns of a pair back, and {relation}"));
    let party = alloc.and_then(|event| who(exec.listing, watch, event, "executed it here"));
    fault.code(&codes::W0408).party(party).help(
        "let a barrier of the cluster stand between the two: `barrier.cluster.arrive` and `barrier.cluster.wait` in both blocks",
    )
}

/// A use of cells that an earlier one may not be done with.
pub(in crate::watch) fn race(
    exec: &ExecState,
    watch: &Watch,
    (lane, column): (u32, u32),
    how: Use,
    clash: &Clash,
) -> Fault {
    let (name, other) = (exec.listing.name_at(exec.warp.at), exec.listing.name_at(clash.other.pc()));
    let now = match how {
        Use::Read | Use::Depend => "reads",
        Use::Write | Use::Update => "writes",
        Use::Own => "takes or gives back",
    };
    let (doing, did) = match (clash.other.actor(), clash.wrote) {
        (Actor::Thread, _) => ("", "executed"),
        (_, true) => ("writing", "wrote"),
        (_, false) => ("reading", "read"),
    };
    let relation = match clash.other.actor() {
        Actor::Thread => format!("{now} tensor memory, and nothing orders it behind `{other}`"),
        _ => format!("{now} tensor memory that `{other}` may still be {doing}"),
    };
    let message = format!("`{name}` {relation}: column {column} of the lanes {lane} to {}", lane + 15);
    let cure = CURES.iter().find(|(actor, _)| *actor == clash.other.actor()).map_or("", |(_, cure)| cure);
    Fault::new(FaultKind::Async, message)
        .code(&codes::W0408)
        .party(who(exec.listing, watch, clash.other, &format!("{did} it here")))
        .help(cure)
}

/// A use that needs what nobody has put there.
pub(in crate::watch) fn unwritten(how: Use, (lane, column): (u32, u32)) -> Fault {
    let (what, help) = match how {
        Use::Update => (
            "a sum on top of tensor memory that nobody has written",
            "let the first product of a sum overwrite: its predicate `enable-input-d` false; or clear D with `tcgen05.st` and \
             `tcgen05.wait::st`",
        ),
        _ => (
            "a factor in tensor memory that nobody has written",
            "write it first: `tcgen05.st` and `tcgen05.wait::st`, or `tcgen05.cp`; `tcgen05.alloc` leaves columns as they were",
        ),
    };
    let message = format!("{what}: column {column} of the lanes {lane} to {}", lane + 15);
    Fault::new(FaultKind::Unwritten, message).code(&codes::W0104).help(help)
}

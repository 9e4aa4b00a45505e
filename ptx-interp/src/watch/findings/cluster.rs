//! Shared memory of other blocks of the cluster, which is there only while they run.

use super::{Touch, located, triple};
use crate::exec::ExecState;
use crate::fault::{Fault, FaultKind};
use crate::listing::Listing;
use crate::role::Actor;
use crate::warp::lanes;
use crate::watch::clock::Clock;
use crate::watch::extent::Seat;
use crate::watch::threads::Threads;
use crate::watch::{ClusterWatch, Reach, Watch};
use ptx_core::diag::codes;
use ptx_target::sort::SortSmall;

/// An access to a block of which the thread does not know that it has begun.
#[cold]
pub(in crate::watch) fn not_begun(exec: &ExecState, touch: &Touch, lane: usize) -> Fault {
    let message =
        format!("an access to shared memory of block {} of the cluster, which may not have begun", touch.place.rank);
    Fault::new(FaultKind::Sync, message)
        .code(&codes::W0108)
        .at(touch.address)
        .place(exec.name_of(touch.place, lane))
        .lane(lane)
        .help("`barrier.cluster.arrive` and `barrier.cluster.wait` first: behind them all blocks of the cluster have begun")
}

/// Objects if a block could have ended before threads of other blocks had accessed its memory.
pub(in crate::watch) fn check_cluster(listing: &Listing, watch: &Watch, cluster: &ClusterWatch) -> Result<(), Fault> {
    for (rank, target) in cluster.blocks.iter().enumerate() {
        let reached = target.reached.borrow();
        let mut warps: Vec<_> = reached.iter().collect();
        warps.sort_small_by_key(|(warp, _)| **warp);
        for (warp, lanes) in warps {
            let seat = watch.place(*warp);
            let knows = |lane: usize, reach: &Reach| {
                let view = &target.gone.view;
                let tick = |clock: &Clock| clock.tick(seat.block, seat.of(Actor::Thread) + lane);
                tick(&view.seen).max(tick(&view.reads)) >= reach.tick || target.waited > reach.arrived
            };
            let early = lanes.iter().enumerate().find(|(lane, reach)| reach.tick > 0 && !knows(*lane, reach));
            if let Some((lane, reach)) = early {
                let place = (seat, lane as u32);
                return Err(may_be_gone(listing, watch, (rank, watch.own.id(target.number)), place, reach.pc));
            }
        }
    }
    Ok(())
}

type Thread = (Seat, u32);

fn may_be_gone(
    listing: &Listing,
    watch: &Watch,
    (rank, id): (usize, [u32; 3]),
    (place, lane): Thread,
    pc: u32,
) -> Fault {
    let message = format!(
        "an access to shared memory of block {rank} of the cluster, block {} of the grid, which may have ended before",
        triple(id)
    );
    let fault = Fault::new(FaultKind::Sync, message).code(&codes::W0108).help(
        "let all blocks meet behind the last access: `barrier.cluster.arrive` and `barrier.cluster.wait` before they end",
    );
    located(fault, listing, pc, (Some(watch.own.thread(place, lane)), watch.own.id(place.block)))
}

/// Lanes end: what they know, their block knew when it ended.
pub(in crate::watch) fn leave(exec: &mut ExecState, group: u32) {
    let cluster = ClusterWatch::of_mut(&mut exec.cluster.kept).filter(|cluster| cluster.blocks.len() > 1);
    let block = cluster.and_then(|cluster| cluster.blocks.get_mut(exec.block.rank));
    let Some((threads, block)) = Threads::of_mut(&mut exec.warp.kept).zip(block) else { return };
    threads.release(group, &mut block.gone);
    let waited = lanes(group).map(|lane| threads.gates(lane).waited).max();
    block.waited = block.waited.max(waited.unwrap_or(0));
}

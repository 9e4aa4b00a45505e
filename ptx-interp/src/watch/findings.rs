//! Findings of the watcher: one file each, with its sentences. The codes are in `diag/codes.rs` (W…), their pages in
//! `explain/`.

pub(super) mod annotation;
pub(super) mod blank;
pub(super) mod cluster;
pub(super) mod copies;
pub(super) mod divergence;
pub(super) mod flying;
pub(super) mod grid;
pub(super) mod lanes;
pub(super) mod mbarrier;
pub(super) mod phase;
pub(super) mod race;
pub(super) mod registers;
pub(super) mod tensor;
pub(super) mod tmem;
pub(super) mod unwritten;
pub(super) mod variable;

use super::event::Event;
use super::{ClusterWatch, Watch};
use crate::cluster::Cluster;
use crate::fault::{Fault, Party, triple};
use crate::listing::{Listing, party};
use crate::map::Map;
use crate::observe::Touch;
use crate::role::Actor;

/// The thread of an earlier access, and its action; `None` in another program, whose lines are not in this listing.
fn who(listing: &Listing, watch: &Watch, event: Event, did: &str) -> Option<Party> {
    let launch = watch.launch_of(event.warp)?;
    if launch.program != watch.own.program {
        return None;
    }
    let place = launch.place(event.warp);
    let thread = (event.actor() != Actor::Phase).then(|| launch.thread(place, event.lanes.trailing_zeros() % 32));
    let party = party(listing, event.pc(), format!("{} {did}", subject(watch, event)))?;
    Some(Party { thread, block: Some(launch.id(place.block)), ..party })
}

/// The same for an access of another program than the one that runs.
fn who_elsewhere(watch: &Watch, event: Event, did: &str) -> Option<String> {
    let elsewhere = watch.launch_of(event.warp)?.program != watch.own.program;
    elsewhere.then(|| format!("{}, which runs another kernel, {did}", subject(watch, event)))
}

/// The name of who made an earlier access.
fn subject(watch: &Watch, event: Event) -> String {
    let launch = watch.launch_of(event.warp).unwrap_or(watch.own);
    let place = launch.place(event.warp);
    let block = triple(launch.id(place.block));
    let thread = triple(launch.thread(place, event.lanes.trailing_zeros() % 32));
    let rank = if watch.ended.is_some() { format!(" of rank {}", launch.rank) } else { String::new() };
    match event.actor() {
        Actor::Thread => format!("thread {thread} of block {block}{rank}"),
        Actor::Phase => format!("an asynchronous operation for block {block}{rank}"),
        _ => format!("the asynchronous operation of thread {thread} of block {block}{rank}"),
    }
}

/// The finding at an instruction that was executed before, by a thread of a block.
fn located(mut fault: Fault, listing: &Listing, pc: u32, (thread, block): (Option<[u32; 3]>, [u32; 3])) -> Fault {
    let code = listing.code.get(pc as usize);
    fault.span = code.map(|code| code.span);
    fault.function = code.and_then(|code| listing.function_name(code.function));
    (fault.thread, fault.block) = (thread, Some(block));
    fault
}

/// Checks the obligations of the blocks of a cluster at their end.
pub(super) fn check_end(watch: &Watch, map: Map, blocks: &ClusterWatch, cluster: &Cluster) -> Result<(), Fault> {
    let ends = cluster.blocks.iter().zip(&cluster.shared.tensor).zip(&blocks.blocks);
    for (((block, _), tensor), state) in ends {
        registers::balance(map.listing, map.grid, block, &state.pool)?;
        tmem::leak(map.listing, block, tensor, state.allocated)?;
    }
    for (block, warps) in &cluster.blocks {
        divergence::check_warpgroups(map.listing, block, warps)?;
        copies::reading(map.listing, block, warps)?;
    }
    copies::writing(map, blocks)?;
    cluster::check_cluster(map.listing, watch, blocks)
}

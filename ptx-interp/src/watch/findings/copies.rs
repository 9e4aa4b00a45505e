//! Asynchronous copies that still use the shared memory of a block that ends, or put their bytes where a product does not look.

use super::{located, party};
use crate::block::Block;
use crate::exec::ExecState;
use crate::fault::{Fault, FaultKind};
use crate::listing::Listing;
use crate::map::Map;
use crate::warp::Warp;
use crate::watch::ClusterWatch;
use crate::watch::threads::Threads;
use ptx_core::diag::codes;
use ptx_target::tensor::Swizzle;

/// Objects if a thread of a block ends before its bulk copies have read what they copy.
pub(in crate::watch) fn reading(listing: &Listing, block: &Block, warps: &[Warp]) -> Result<(), Fault> {
    for warp in warps {
        let reads = Threads::of(&warp.kept).and_then(|threads| threads.borrow().still_reads());
        if let Some((lane, pc)) = reads {
            return Err(found(listing, pc, (warp.tid[lane], block.id), "read"));
        }
    }
    Ok(())
}

/// Objects if nobody has waited for a copy that completes on an mbarrier.
pub(in crate::watch) fn writing(map: Map, cluster: &ClusterWatch) -> Result<(), Fault> {
    let left = cluster.phases.iter().filter_map(|(place, phases)| {
        let (phase, copy) = phases.copies?;
        (phase > phases.seen).then_some((place, copy))
    });
    let Some(((_, at), copy)) = left.min_by_key(|(place, _)| **place) else { return Ok(()) };
    let fault = found(map.listing, copy.pc, (copy.thread, copy.block), "write");
    Err(match map.shared(*at) {
        Some(name) => fault.help(format!("its mbarrier is {name}")),
        None => fault,
    })
}

fn found(listing: &Listing, pc: u32, (thread, block): ([u32; 3], [u32; 3]), does: &str) -> Fault {
    let message = format!("a block ends while this copy may still {does} its shared memory: nobody has waited for it");
    let help = match does {
        "read" => "`cp.async.bulk.commit_group` and `cp.async.bulk.wait_group.read 0` in the thread that began it",
        _ => "wait for the phase of its mbarrier before the block ends, in the last turn of a loop too",
    };
    let fault = Fault::new(FaultKind::Async, message).code(&codes::W0407).help(help);
    located(fault, listing, pc, (Some(thread), block))
}

/// A matrix that a descriptor reads with another swizzle than that of the tensor map by which it was copied.
pub(in crate::watch) fn swizzles(exec: &ExecState, at: u64, reads: Swizzle, (pc, brought): (u32, Swizzle)) -> Fault {
    let (reads, brought) = (reads.words(), brought.words());
    let message = format!("a matrix in shared memory is read with {reads}, but was copied there with {brought}");
    Fault::new(FaultKind::Async, message)
        .code(&codes::W0409)
        .at(at)
        .place(exec.map().shared(at))
        .party(party(exec.listing, pc, format!("the tensor map of this copy has {brought}")))
        .help("give the tensor map and the matrix descriptor the same swizzle")
}

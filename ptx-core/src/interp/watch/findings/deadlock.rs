//! Clusters in which nobody can go on: who waits for what.

use super::{party, triple};
use crate::diag::codes;
use crate::interp::block::Block;
use crate::interp::cluster::Shared;
use crate::interp::fault::{Fault, FaultKind, Party};
use crate::interp::program::Program;
use crate::interp::warp::{Warp, lanes};

/// How many of those who wait are listed.
const MOST: usize = 16;

/// Threads of a warp that wait at one instruction.
struct Waiting {
    block: [u32; 3],
    warp: u32,
    threads: u32,
    pc: u32,
    what: String,
}

/// The fault of a cluster in which nobody can go on.
pub(in crate::interp) fn found(program: &Program, shared: &Shared, blocks: &[(Block, Vec<Warp>)]) -> Fault {
    let warps = || blocks.iter().flat_map(|(block, warps)| warps.iter().map(move |warp| (block, warp)));
    let waiting: Vec<Waiting> = warps().flat_map(|(block, warp)| of_warp(shared, block, warp)).collect();
    let message = format!("no thread of the block can go on: {}", summary(&waiting));
    let mut fault = Fault::new(FaultKind::Deadlock, message).code(&codes::W0303);
    for w in waiting.iter().take(MOST) {
        let text = format!("{} threads of warp {} of block {} wait {}", w.threads, w.warp, triple(w.block), w.what);
        fault = fault.party(party(program, w.pc, text).map(|party| Party { block: Some(w.block), ..party }));
    }
    let first = waiting.first();
    let inst = first.and_then(|w| program.code.get(w.pc as usize));
    fault.span = inst.map(|i| i.span);
    fault.function = inst.and_then(|i| program.function_name(i.function));
    let guilty = warps().find(|(_, warp)| warp.live != 0);
    fault.thread = guilty.map(|(_, warp)| warp.tid[warp.live.trailing_zeros() as usize % 32]);
    fault.block = guilty.map(|(block, _)| block.id);
    fault
}

/// How many threads wait for what.
fn summary(waiting: &[Waiting]) -> String {
    let mut reasons: Vec<&str> = Vec::new();
    for w in waiting {
        if !reasons.contains(&w.what.as_str()) {
            reasons.push(&w.what);
        }
    }
    let tell = |what: &str| {
        let who: Vec<&Waiting> = waiting.iter().filter(|w| w.what == what).collect();
        let threads: u32 = who.iter().map(|w| w.threads).sum();
        match who.as_slice() {
            [only] => format!("{threads} threads of warp {} wait {what}", only.warp),
            _ => format!("{threads} threads wait {what}"),
        }
    };
    reasons.into_iter().map(tell).collect::<Vec<_>>().join("; ")
}

/// The threads of a warp, together where they wait for the same.
fn of_warp(shared: &Shared, block: &Block, warp: &Warp) -> Vec<Waiting> {
    let mut found: Vec<Waiting> = Vec::new();
    for lane in lanes(warp.live) {
        let bit = 1 << lane;
        let what = match () {
            () if (warp.meeting | warp.syncing) & bit != 0 => "for the other lanes of their member mask".to_string(),
            () => block
                .waits_for(warp.index, lane)
                .or_else(|| shared.waits_for(block.rank, warp.index, lane))
                .unwrap_or_else(|| "for others".to_string()),
        };
        match found.iter_mut().find(|w| w.pc == warp.pc[lane] && w.what == what) {
            Some(same) => same.threads += 1,
            None => found.push(Waiting { block: block.id, warp: warp.index, threads: 1, pc: warp.pc[lane], what }),
        }
    }
    found
}

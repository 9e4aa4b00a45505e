//! Launches in which nobody can go on: who waits for what.

use super::spin::Spin;
use crate::block::Block;
use crate::cluster::Shared;
use crate::fault::{Fault, FaultKind, Party, triple};
use crate::listing::{Listing, party};
use crate::map::Map;
use crate::observe::{Observer, Reasons};
use crate::warp::{Warp, lanes};
use ptx_core::diag::{codes, plural};
use ptx_target::sort::SortSmall;

/// Number of waiting threads that are listed.
const MOST: usize = 8;

/// The blocks of a cluster, and what they share.
type Cluster<'a> = (&'a Shared, &'a [(Block, Vec<Warp>)]);

/// Threads of a warp that wait at one instruction.
#[derive(Clone)]
struct Waiting {
    block: [u32; 3],
    warp: u32,
    threads: u32,
    lane: usize,
    pc: u32,
    what: String,
}

/// The fault of clusters in which nobody can go on: all wait, or run in loops that nothing ends.
pub(super) fn explain_deadlock(
    map: Map,
    observer: Option<&dyn Observer>,
    clusters: &[Cluster],
    spins: &[Spin],
) -> Fault {
    let (listing, mut waiting, mut ended, mut first) = (map.listing, Vec::new(), 0, None);
    for (shared, blocks) in clusters.iter().copied() {
        for (block, warps) in blocks {
            ended += warps.iter().filter(|warp| warp.live == 0).count();
            for warp in warps.iter().filter(|warp| warp.live != 0) {
                let of_warp = of_warp(map, shared, (block, warp), spins);
                first = first.or(of_warp.first().map(|w| (block.id, warp.tid[w.lane])));
                waiting.extend(of_warp);
            }
        }
    }
    let gone = match ended {
        0 => String::new(),
        1 => "; 1 warp has ended".to_string(),
        some => format!("; {some} warps have ended"),
    };
    // Loops that look at nothing wait for nobody.
    let endless = !spins.is_empty() && spins.iter().all(|spin| spin.reads.is_none());
    let mut fault = match endless {
        true => {
            let message =
                format!("a loop that never ends, since no turn of it changes anything: {}", summary(&waiting));
            Fault::new(FaultKind::StepLimit, message).code(&codes::W0601)
        }
        false => {
            let message = format!("no thread can go on: {}{gone}", summary(&waiting));
            Fault::new(FaultKind::Deadlock, message).code(&codes::W0303)
        }
    };
    for w in by_block(&waiting).iter().take(MOST) {
        let text = format!("{} of block {} {}", threads(w.threads), triple(w.block), w.what);
        fault = fault.party(party(listing, w.pc, text).map(|party| Party { block: Some(w.block), ..party }));
    }
    let inst = waiting.first().and_then(|w| listing.code.get(w.pc as usize));
    fault.span = inst.map(|i| i.span);
    fault.function = inst.and_then(|i| listing.function_name(i.function));
    (fault.block, fault.thread) = (first.map(|f| f.0), first.map(|f| f.1));
    let mut reasons: Vec<Reasons> = Vec::new();
    if let Some(observer) = observer {
        clusters.iter().for_each(|cluster| reasons.extend(open_phases(observer, listing, *cluster, spins)));
    }
    for party in reasons.iter().flat_map(|reasons| &reasons.parties).take(MOST) {
        fault = fault.party(Some(party.clone()));
    }
    if let Some(help) = reasons.into_iter().find_map(|reasons| reasons.help) {
        return fault.help(help);
    }
    fault.help(match spins {
        _ if endless => "let a turn of the loop change the condition that ends it",
        [] => "every thread that others wait for must get to the barrier, or arrive at the mbarrier",
        _ => "let a thread that still runs change what the loop reads; blocks that have not begun cannot",
    })
}

/// Why the phases are open for which somebody waits, or in whose loop he spins.
fn open_phases(observer: &dyn Observer, listing: &Listing, (shared, blocks): Cluster, spins: &[Spin]) -> Vec<Reasons> {
    let here = |spin: &&Spin| blocks.iter().any(|(block, _)| block.id == spin.block);
    let polled = spins.iter().filter(here).filter_map(|spin| spin.reads).map(|read| (read.place.rank, read.place.at));
    let mut places: Vec<(usize, u64)> = shared.awaited().chain(polled).collect();
    places.sort_small();
    places.dedup();
    let open = places.into_iter().filter_map(|place| Some((place, shared.mbarrier(place)?)));
    open.map(|phase| observer.explain_phase(listing, shared, phase, blocks)).collect()
}

/// Those of a block that wait for the same, together.
fn by_block(waiting: &[Waiting]) -> Vec<Waiting> {
    let mut found: Vec<Waiting> = Vec::new();
    for w in waiting {
        match found.iter_mut().find(|f| (f.block, f.pc) == (w.block, w.pc) && f.what == w.what) {
            Some(same) => same.threads += w.threads,
            None => found.push(w.clone()),
        }
    }
    found
}

fn threads(count: u32) -> String {
    plural(count as usize, "thread")
}

/// Summary of the waits: numbers of threads and reasons.
fn summary(waiting: &[Waiting]) -> String {
    let mut reasons: Vec<&str> = Vec::new();
    for w in waiting {
        if !reasons.contains(&w.what.as_str()) {
            reasons.push(&w.what);
        }
    }
    let tell = |what: &&str| {
        let who: Vec<&Waiting> = waiting.iter().filter(|w| w.what == *what).collect();
        let count = threads(who.iter().map(|w| w.threads).sum());
        match who.as_slice() {
            [only] => format!("{count} of warp {} {what}", only.warp),
            _ => format!("{count} {what}"),
        }
    };
    let more = reasons.len().saturating_sub(MOST);
    let told: Vec<String> = reasons.iter().take(MOST).map(tell).collect();
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    told.join("; ") + &more
}

/// The threads of a warp, together where they wait for the same.
fn of_warp(map: Map, shared: &Shared, (block, warp): (&Block, &Warp), spins: &[Spin]) -> Vec<Waiting> {
    let mut found: Vec<Waiting> = Vec::new();
    let spin = spins.iter().find(|spin| spin.block == block.id && spin.warp == warp.index);
    for lane in lanes(warp.live) {
        let bit = 1 << lane;
        let spin = spin.filter(|spin| spin.lanes & bit != 0);
        let what = match spin {
            Some(spin) => looping(map, spin),
            None if (warp.meeting | warp.syncing) & bit != 0 => {
                "waiting for the other lanes of their member mask".to_string()
            }
            None => block
                .waits_for(warp.index, lane)
                .or_else(|| shared.waits_for(|at| map.shared(at), (block.rank, warp.index, lane)))
                .map_or("waiting for others".to_string(), |what| format!("waiting {what}")),
        };
        let pc = spin.map_or(warp.pc[lane], |spin| spin.reads.map_or(spin.pc, |read| read.pc));
        match found.iter_mut().find(|w| w.pc == pc && w.what == what) {
            Some(same) => same.threads += 1,
            None => found.push(Waiting { block: block.id, warp: warp.index, threads: 1, lane, pc, what }),
        }
    }
    found
}

/// The wait of a loop.
fn looping(map: Map, spin: &Spin) -> String {
    let inside = map.listing.loop_around(spin.pc).map_or(String::new(), |(_, _, name)| format!(" at `{name}`"));
    let read = spin.reads.map(|read| {
        let name = map.name_of(read.place).unwrap_or_else(|| format!("address {:#x}", read.place.at));
        format!(" until somebody changes {} bytes at {name}", read.size)
    });
    format!("spinning in the loop{inside}{}", read.unwrap_or_default())
}

//! Why a phase of an mbarrier is not complete: what has come to it, who still has to come, and what to look at.

use super::{party, triple};
use crate::block::Block;
use crate::cluster::Shared;
use crate::fault::Party;
use crate::kept::MbarrierPlace;
use crate::listing::Listing;
use crate::mbarrier::Mbarrier;
use crate::observe::Reasons;
use crate::warp::{Warp, lanes};
use crate::watch::ClusterWatch;
use crate::watch::history::{Came, History};
use crate::watch::vars::Phases;
use ptx_core::diag::plural;

/// Number of instructions that are shown for one mbarrier.
const MOST: usize = 4;

/// The reasons for which the running phase of the mbarrier at a place is open.
pub(in crate::watch) fn reasons(
    listing: &Listing,
    (watch, shared): (&ClusterWatch, &Shared),
    (place, state): (MbarrierPlace, Mbarrier),
    blocks: &[(Block, Vec<Warp>)],
) -> Reasons {
    let Some(phases) = watch.phases.get(&place) else { return Reasons::default() };
    let history = &phases.history;
    let owing = history.owing().flat_map(|came| whereabouts(blocks, &came));
    let owing = owing.filter_map(|(pc, block, text)| told(listing, pc, block, text));
    let mut parties: Vec<Party> = came(listing, phases).into_iter().chain(owing).take(MOST).collect();
    let nobody = history.now.is_empty() && phases.count == 0;
    if nobody {
        parties.extend(party(listing, phases.init, "nobody has arrived since it was initialized here".into()));
    }
    let help =
        missed(phases, state, |came| waits(shared, place, blocks, came)).or_else(|| help(history, state, nobody));
    Reasons { parties, help }
}

/// Arrivals at an mbarrier in its running phase.
pub(super) fn came(listing: &Listing, phases: &Phases) -> Vec<Party> {
    let all = by_instruction(&phases.history.now);
    all.iter().filter_map(|came| told(listing, came.pc, came.block, did(came))).take(MOST).collect()
}

fn told(listing: &Listing, pc: u32, block: [u32; 3], text: String) -> Option<Party> {
    party(listing, pc, text).map(|party| Party { block: Some(block), ..party })
}

fn by_instruction(all: &[Came]) -> Vec<Came> {
    let mut found: Vec<Came> = Vec::new();
    for came in all {
        match found.iter_mut().find(|f| (f.pc, f.block) == (came.pc, came.block)) {
            Some(same) => {
                same.arrivals += came.arrivals;
                same.announced += came.announced;
                same.brought += came.brought;
            }
            None => found.push(*came),
        }
    }
    found
}

/// `2 arrivals in this phase, and 64 bytes announced`
fn did(came: &Came) -> String {
    let parts = [
        (came.arrivals > 0).then(|| plural(came.arrivals as usize, "arrival")),
        (came.announced > 0).then(|| format!("{} announced", plural(came.announced as usize, "byte"))),
        (came.brought > 0).then(|| format!("{} brought", plural(came.brought as usize, "byte"))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("in this phase {} by block {}", parts.join(" and "), triple(came.block))
}

/// Positions of threads that have yet to arrive.
fn whereabouts(blocks: &[(Block, Vec<Warp>)], came: &Came) -> Vec<(u32, [u32; 3], String)> {
    let warp = blocks.iter().find(|(block, _)| block.id == came.block).and_then(|(_, w)| w.get(came.warp as usize));
    let Some(warp) = warp else { return Vec::new() };
    let owe = |count: u32, place: &str| {
        let threads = plural(count as usize, "thread");
        format!("{threads} of warp {} arrived in the phase before and not in this one: {place}", came.warp)
    };
    let mut found: Vec<(u32, u32)> = Vec::new();
    for lane in lanes(came.lanes & warp.live) {
        match found.iter_mut().find(|(pc, _)| *pc == warp.pc[lane]) {
            Some((_, count)) => *count += 1,
            None => found.push((warp.pc[lane], 1)),
        }
    }
    let ended = (came.lanes & !warp.live).count_ones();
    let gone = (ended > 0).then(|| (came.pc, came.block, owe(ended, "from here; they have ended")));
    let here = found.into_iter().map(|(pc, count)| (pc, came.block, owe(count, "they are here")));
    here.chain(gone).collect()
}

/// Returns true if a warp that came to an mbarrier waits for it now, with all lanes that came.
fn waits(shared: &Shared, place: MbarrierPlace, blocks: &[(Block, Vec<Warp>)], came: &Came) -> bool {
    let rank = blocks.iter().find(|(block, _)| block.id == came.block).map(|(block, _)| block.rank);
    rank.is_some_and(|rank| came.lanes & !shared.waiting_lanes(place, (rank, came.warp)) == 0)
}

/// The help where a phase is complete and nothing has come since: the wait may be for the phase before.
fn missed(phases: &Phases, state: Mbarrier, waits: impl Fn(&Came) -> bool) -> Option<String> {
    let (history, (missing, bytes)) = (&phases.history, state.open());
    if phases.count == 0 || !history.now.is_empty() || missing == 0 || bytes != 0 {
        return None;
    }
    let (now, before) = (state.parity, state.parity ^ 1);
    let over =
        format!("the phase of parity {before} has been completed, and nothing has arrived in that of parity {now}");
    let mut arrived = history.before.iter().filter(|came| came.arrivals > 0).peekable();
    Some(match arrived.peek().is_some() && arrived.all(waits) {
        true => format!(
            "{over}: all who arrived wait here, so the wait is for the other parity; wait for {before}, and let the parity turn over \
             after each phase"
        ),
        false => {
            format!(
                "{over}: wait for parity {before} if the phase before is meant, or let {missing} more arrivals come"
            )
        }
    })
}

fn help(history: &History, state: Mbarrier, nobody: bool) -> Option<String> {
    let sum = |of: fn(&Came) -> u64| history.now.iter().map(of).sum::<u64>();
    let (announced, brought) = (sum(|came| came.announced), sum(|came| came.brought));
    match state.open() {
        (0, bytes) if bytes > 0 => Some(format!(
            "`expect_tx` announced {announced} bytes and {brought} have come, {bytes} fewer: announce what the copies of the phase bring, \
             or begin the copy that is missing"
        )),
        (_, bytes) if bytes < 0 => Some(format!(
            "copies have brought {brought} bytes and `expect_tx` announced {announced}: announce all of them, with \
             `mbarrier.arrive.expect_tx`, before the copies begin"
        )),
        _ if nobody => Some(
            "a producer that waits until its stages are empty begins with parity 1, which passes at once; a consumer begins \
             with parity 0"
                .to_string(),
        ),
        (missing, _) if missing > 0 => Some(format!(
            "{missing} more arrivals are needed: let as many threads arrive as `mbarrier.init` says, or initialize it for those \
             that do"
        )),
        _ => None,
    }
}

//! Runs that do not end.

use crate::block::Block;
use crate::fault::{Fault, FaultKind};
use crate::listing::{Listing, party};
use crate::warp::Warp;
use ptx_core::diag::codes;

const RAISE: &str = "if it is only long, raise the limit: `Device::cpu().steps(n)` or `ptx run --steps n`";

/// The fault of a launch that has used up its steps, with the loop in which a warp is.
pub(super) fn endless(listing: &Listing, warp: &Warp, block: &Block, limit: u64) -> Fault {
    still_runs((listing, warp, block), &format!("after {limit} warp instructions, the limit"), RAISE)
}

/// The fault of a launch that whoever waits for it has given up.
pub(super) fn given_up(listing: &Listing, warp: &Warp, block: &Block, steps: u64) -> Fault {
    let text = format!("after {steps} warp instructions, and no block has ended for long");
    still_runs((listing, warp, block), &text, "if it is only long, say how long it may run: `ptx run --steps n`")
}

fn still_runs((listing, warp, block): (&Listing, &Warp, &Block), when: &str, raise: &str) -> Fault {
    let lane = warp.ready().trailing_zeros() as usize % 32;
    let pc = warp.pc[lane];
    let around = listing.loop_around(pc);
    let inside = around.map_or(String::new(), |(_, _, name)| format!("; it is in the loop at `{name}`"));
    let message = format!("the launch still runs {when}{inside}; {raise}");
    let mut fault = Fault::new(FaultKind::StepLimit, message).code(&codes::W0601);
    if let Some((first, last, _)) = around {
        fault = fault.party(party(listing, first, "the loop begins here".into())).party(party(
            listing,
            last,
            "and goes back from here".into(),
        ));
    }
    let inst = listing.code.get(pc as usize);
    fault.span = inst.map(|i| i.span);
    fault.function = inst.and_then(|i| listing.function_name(i.function));
    fault.thread = Some(warp.tid[lane]);
    fault.block = Some(block.id);
    fault
}

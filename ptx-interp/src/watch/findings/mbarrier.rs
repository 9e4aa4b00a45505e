//! mbarriers used against their rules.

use super::party;
use super::phase::came;
use crate::exec::ExecState;
use crate::fault::{Fault, FaultKind};
use crate::kept::MbarrierPlace;
use crate::listing::Listing;
use crate::watch::ClusterWatch;
use ptx_core::diag::codes;

/// One that is initialized a second time.
pub(in crate::watch) fn again(listing: &Listing, first: u32, lane: usize, at: u64) -> Fault {
    Fault::new(FaultKind::Sync, "`mbarrier.init` of an mbarrier that is in use")
        .code(&codes::W0412)
        .at(at)
        .lane(lane)
        .party(party(listing, first, "it was initialized here".into()))
        .help("`mbarrier.inval` ends its use; then the memory may hold another one")
}

/// One that may not be there when an operation that completes on it is begun.
pub(in crate::watch) fn not_begun(listing: &Listing, init: u32, lane: usize, at: u64) -> Fault {
    Fault::new(FaultKind::Sync, "an operation that completes on an mbarrier whose `mbarrier.init` may come after it")
        .code(&codes::W0411)
        .at(at)
        .lane(lane)
        .party(party(listing, init, "it is initialized here".into()))
        .help("let a barrier stand between `mbarrier.init` and the first use: of the block, or of the cluster")
}

/// One that an operation of the async proxy may not see.
pub(in crate::watch) fn not_fenced(listing: &Listing, (name, init): (&str, u32), lane: usize, at: u64) -> Fault {
    let message = format!(
        "`{name}` completes on an mbarrier that the async proxy may not see: no fence follows its `mbarrier.init`"
    );
    Fault::new(FaultKind::Async, message)
        .code(&codes::W0415)
        .at(at)
        .lane(lane)
        .party(party(listing, init, "it is initialized here".into()))
        .help(
            "let the thread that initializes it execute `fence.mbarrier_init.release.cluster` (`mbarrier::fence_init()`) or \
             `fence.proxy.async` before the barrier",
        )
}

/// Adds what is known of an mbarrier to the fault of an operation on it: where its use began or ended, and what has come to it in
/// this phase.
#[cold]
pub(in crate::watch) fn explain_misuse(exec: &ExecState, fault: Fault, place: MbarrierPlace) -> Fault {
    let Some(watch) = ClusterWatch::of(&exec.cluster.kept) else { return fault };
    let Some(phases) = watch.phases.get(&place) else {
        let ended = watch.ended.get(&place).copied();
        let ended = ended.and_then(|pc| party(exec.listing, pc, "its use was ended here".into()));
        return match ended {
            Some(ended) => fault.party(Some(ended)).help(
                "let all threads that use it meet at a barrier before one of them ends it, or initialize it again",
            ),
            None => fault.help("`mbarrier.init` by one thread, then a barrier, before anybody uses it"),
        };
    };
    let init = party(exec.listing, phases.init, "it was initialized here".into());
    came(exec.listing, phases).into_iter().fold(fault.party(init), |fault, came| fault.party(Some(came))).help(
        "initialize it for as many arrivals as come in a phase, and let nobody arrive twice: `mbarrier.arrive.expect_tx` is \
         an arrival, too, and for one thread",
    )
}

//! mbarriers used against their rules.

use super::party;
use super::phase::came;
use crate::ctx::Ctx;
use crate::fault::{Fault, FaultKind};
use crate::kept::MbarrierPlace;
use crate::program::Program;
use crate::watch::ClusterWatch;
use ptx_core::diag::codes;

/// One that is initialized a second time.
pub(in crate::watch) fn again(program: &Program, first: u32, lane: usize, at: u64) -> Fault {
    Fault::new(FaultKind::Sync, "`mbarrier.init` of an mbarrier that is in use")
        .code(&codes::W0412)
        .at(at)
        .lane(lane)
        .party(party(program, first, "it was initialized here".into()))
        .help("`mbarrier.inval` ends its use; then the memory may hold another one")
}

/// One that may not be there when an operation that completes on it is begun.
pub(in crate::watch) fn not_begun(program: &Program, init: u32, lane: usize, at: u64) -> Fault {
    Fault::new(FaultKind::Sync, "an operation that completes on an mbarrier whose `mbarrier.init` may come after it")
        .code(&codes::W0411)
        .at(at)
        .lane(lane)
        .party(party(program, init, "it is initialized here".into()))
        .help("let a barrier stand between `mbarrier.init` and the first use: of the block, or of the cluster")
}

/// One that an operation of the async proxy may not see.
pub(in crate::watch) fn not_fenced(program: &Program, (name, init): (&str, u32), lane: usize, at: u64) -> Fault {
    let message = format!(
        "`{name}` completes on an mbarrier that the async proxy may not see: no fence follows its `mbarrier.init`"
    );
    Fault::new(FaultKind::Async, message)
        .code(&codes::W0415)
        .at(at)
        .lane(lane)
        .party(party(program, init, "it is initialized here".into()))
        .help(
            "let the thread that initialises it execute `fence.mbarrier_init.release.cluster` (`mbarrier::fence_init()`) or \
             `fence.proxy.async` before the barrier",
        )
}

/// Adds what is known of an mbarrier to the fault of an operation on it: where its use began or ended, and what has come to it in
/// this phase.
#[cold]
pub(in crate::watch) fn explain_misuse(ctx: &Ctx, fault: Fault, place: MbarrierPlace) -> Fault {
    let Some(watch) = ClusterWatch::of(&ctx.cluster.kept) else { return fault };
    let Some(phases) = watch.phases.get(&place) else {
        let ended = watch.ended.get(&place).copied();
        let ended = ended.and_then(|pc| party(ctx.program, pc, "its use was ended here".into()));
        return match ended {
            Some(ended) => fault.party(Some(ended)).help(
                "let all threads that use it meet at a barrier before one of them ends it, or initialise it again",
            ),
            None => fault.help("`mbarrier.init` by one thread, then a barrier, before anybody uses it"),
        };
    };
    let init = party(ctx.program, phases.init, "it was initialized here".into());
    came(ctx.program, phases).into_iter().fold(fault.party(init), |fault, came| fault.party(Some(came))).help(
        "initialise it for as many arrivals as come in a phase, and let nobody arrive twice: `mbarrier.arrive.expect_tx` is \
         an arrival, too, and for one thread",
    )
}

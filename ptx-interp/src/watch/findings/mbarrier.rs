//! mbarriers used against their rules.

use super::party;
use super::phase::came;
use crate::ctx::Ctx;
use crate::fault::{Fault, FaultKind};
use crate::program::Program;
use ptx_core::diag::codes;

/// One that is initialized a second time.
pub(crate) fn again(program: &Program, first: u32, lane: usize, at: u64) -> Fault {
    Fault::new(FaultKind::Sync, "`mbarrier.init` of an mbarrier that is in use")
        .code(&codes::W0412)
        .at(at)
        .lane(lane)
        .party(party(program, first, "it was initialized here".into()))
        .help("`mbarrier.inval` ends its use; then the memory may hold another one")
}

/// One that may not be there when an operation that completes on it is begun.
pub(crate) fn not_begun(program: &Program, init: u32, lane: usize, at: u64) -> Fault {
    Fault::new(FaultKind::Sync, "an operation that completes on an mbarrier whose `mbarrier.init` may come after it")
        .code(&codes::W0411)
        .at(at)
        .lane(lane)
        .party(party(program, init, "it is initialized here".into()))
        .help("let a barrier stand between `mbarrier.init` and the first use: of the block, or of the cluster")
}

/// One that an operation of the async proxy may not see.
pub(crate) fn not_fenced(program: &Program, (name, init): (&str, u32), lane: usize, at: u64) -> Fault {
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

/// One whose use ends while threads wait for it.
pub(crate) fn ended(ctx: &Ctx, lane: usize, place: (usize, u64), at: u64) -> Fault {
    let (waiting, first) = ctx.cluster.waiters_of(place);
    let who = first.and_then(|(rank, warp)| (rank == ctx.block.rank).then_some(warp));
    let which = who.map_or(String::new(), |warp| format!(", the first of them in warp {warp}"));
    Fault::new(FaultKind::Sync, format!("`mbarrier.inval` of an mbarrier for which {waiting} threads wait{which}"))
        .code(&codes::W0412)
        .at(at)
        .lane(lane)
        .place(ctx.map().shared(place.1))
        .help("let all threads that wait for it meet at a barrier before one of them ends it")
}

/// Memory that holds none.
pub(crate) fn none() -> Fault {
    let message = "these 64 bits are no mbarrier: `mbarrier.init` has not run, or something overwrote it";
    Fault::new(FaultKind::Sync, message).code(&codes::W0411)
}

/// Counts that it cannot have.
pub(crate) fn counts(message: String) -> Fault {
    Fault::new(FaultKind::Sync, message).code(&codes::W0413)
}

impl Ctx<'_> {
    /// Adds what is known of an mbarrier to the fault of an operation on it: its name, where its use began or ended, and what
    /// has come to it in this phase.
    #[cold]
    pub(crate) fn misused(&self, fault: Fault, place: (usize, u64), (lane, at): (usize, u64)) -> Fault {
        let fault = fault.at(at).lane(lane).place(self.map().shared(place.1));
        let Some(watch) = &self.cluster.watch else { return fault };
        let Some(phases) = watch.phases.get(&place) else {
            let ended = watch.ended.get(&place).copied();
            let ended = ended.and_then(|pc| party(self.program, pc, "its use was ended here".into()));
            return match ended {
                Some(ended) => fault.party(Some(ended)).help(
                    "let all threads that use it meet at a barrier before one of them ends it, or initialise it again",
                ),
                None => fault.help("`mbarrier.init` by one thread, then a barrier, before anybody uses it"),
            };
        };
        let init = party(self.program, phases.init, "it was initialized here".into());
        came(self.program, phases).into_iter().fold(fault.party(init), |fault, came| fault.party(Some(came))).help(
            "initialise it for as many arrivals as come in a phase, and let nobody arrive twice: `mbarrier.arrive.expect_tx` is \
             an arrival, too, and for one thread",
        )
    }
}

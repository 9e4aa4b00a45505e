//! mbarriers used against their rules.

use super::party;
use crate::diag::codes;
use crate::interp::fault::{Fault, FaultKind};
use crate::interp::program::Program;

/// One that is initialised a second time.
pub(in crate::interp) fn again(program: &Program, first: u32, lane: usize, at: u64) -> Fault {
    Fault::new(FaultKind::Sync, "`mbarrier.init` of an mbarrier that is in use")
        .code(&codes::W0412)
        .at(at)
        .lane(lane)
        .party(party(program, first, "it was initialised here".into()))
        .help("`mbarrier.inval` ends its use; then the memory may hold another one")
}

/// One that may not be there when an operation that completes on it is begun.
pub(in crate::interp) fn not_begun(program: &Program, init: u32, lane: usize, at: u64) -> Fault {
    Fault::new(FaultKind::Sync, "an operation that completes on an mbarrier whose `mbarrier.init` may come after it")
        .code(&codes::W0411)
        .at(at)
        .lane(lane)
        .party(party(program, init, "it is initialised here".into()))
        .help("let a barrier stand between `mbarrier.init` and the first use: of the block, or of the cluster")
}

/// One whose use ends while threads wait for it.
pub(in crate::interp) fn ended(lane: usize, at: u64, waiting: u32) -> Fault {
    Fault::new(FaultKind::Sync, format!("`mbarrier.inval` of an mbarrier for which {waiting} threads wait"))
        .code(&codes::W0412)
        .at(at)
        .lane(lane)
}

/// Memory that holds none.
pub(in crate::interp) fn none() -> Fault {
    let message = "these 64 bits are no mbarrier: `mbarrier.init` has not run, or something overwrote it";
    Fault::new(FaultKind::Sync, message).code(&codes::W0411)
}

/// Counts that it cannot have.
pub(in crate::interp) fn counts(message: String) -> Fault {
    Fault::new(FaultKind::Sync, message).code(&codes::W0413)
}

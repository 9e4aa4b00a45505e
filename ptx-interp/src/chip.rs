//! The limit of cooperative launches, from the table of chips.

use super::fault::{Fault, FaultKind};
use super::launch::Launch;
use ptx_core::isa::{Arch, Suffix};
pub use ptx_target::chip::{CHIPS, Chip, Needs, Occupancy};

/// Refuses a cooperative launch with more blocks than any chip that runs the target's code holds at once.
pub(super) fn check_resident(arch: Arch, fixed: u64, launch: &Launch) -> Result<(), Fault> {
    let blocks: u64 = launch.grid.iter().map(|d| u64::from(*d)).fold(1, u64::saturating_mul);
    let threads: u64 = launch.block.iter().map(|d| u64::from(*d)).product();
    let shared = fixed.saturating_add(launch.dynamic_shared.into());
    let runs = |chip: &&Chip| match arch.suffix {
        Suffix::None => chip.target >= arch.number,
        Suffix::Family => chip.target / 10 == arch.number / 10 && chip.target >= arch.number,
        Suffix::Arch => chip.target == arch.number,
    };
    let needs = Needs { threads, registers: None, shared };
    let holds = |chip: &Chip| chip.occupancy(needs).blocks * chip.multiprocessors;
    let most = CHIPS.iter().filter(runs).map(holds).max();
    match most {
        Some(most) if blocks > most => Err(Fault::new(
            FaultKind::Launch,
            format!(
                "a cooperative launch of {blocks} blocks of {threads} threads and {shared} bytes of shared memory; \
                 the largest chip for {arch} holds {most} such blocks at once"
            ),
        )
        .help("launch at most as many blocks as are resident, and let each work on several parts in a loop")),
        _ => Ok(()),
    }
}

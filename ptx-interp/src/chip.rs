//! Number of blocks that a chip holds at once: the limit of cooperative launches.

use super::fault::{Fault, FaultKind};
use super::launch::Launch;
use ptx_core::isa::{Arch, Suffix};

/// The largest chip of a target.
struct Chip {
    target: u16,
    multiprocessors: u64,
    /// Of a multiprocessor.
    threads: u64,
    blocks: u64,
    shared: u64,
}

const fn chip(target: u16, multiprocessors: u64, (threads, blocks, kib): (u64, u64, u64)) -> Chip {
    Chip { target, multiprocessors, threads, blocks, shared: kib << 10 }
}

/// Threads, blocks and KiB of shared memory of a multiprocessor stand in the programming guide's table of compute capabilities.
const CHIPS: &[Chip] = &[
    chip(70, 80, (2048, 32, 96)),
    chip(75, 72, (1024, 16, 64)),
    chip(80, 108, (2048, 32, 164)),
    chip(86, 84, (1536, 16, 100)),
    chip(87, 16, (1536, 16, 164)),
    chip(89, 142, (1536, 24, 100)),
    chip(90, 132, (2048, 32, 228)),
    chip(100, 148, (2048, 32, 228)),
    chip(103, 160, (2048, 32, 228)),
    chip(120, 188, (1536, 24, 100)),
    chip(121, 48, (1536, 24, 100)),
];

/// The shared memory that the system takes of each block.
const RESERVED: u64 = 1 << 10;

impl Chip {
    /// Number of blocks, with so many threads and bytes of shared memory, that it holds at once.
    fn holds(&self, threads: u64, shared: u64) -> u64 {
        let warps = threads.next_multiple_of(32).max(32);
        let each = self.blocks.min(self.threads / warps).min(self.shared / (shared + RESERVED));
        each * self.multiprocessors
    }
}

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
    let most = CHIPS.iter().filter(runs).map(|chip| chip.holds(threads, shared)).max();
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

//! Chips: one table of their sizes and peaks. From it come the number of blocks that a chip holds at once, which limits cooperative
//! launches and is a kernel's occupancy, and the roofline.

use crate::sort::SortSmall;
use crate::{Arch, Suffix};

/// A chip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chip {
    /// `H100`
    pub name: &'static str,
    /// The number of its target: 90 for `sm_90`.
    pub target: u16,
    /// Streaming multiprocessors.
    pub multiprocessors: u64,
    /// Threads that a multiprocessor holds at once.
    pub threads: u64,
    /// Blocks that a multiprocessor holds at once.
    pub blocks: u64,
    /// Bytes of shared memory of a multiprocessor.
    pub shared: u64,
    /// Bytes of L1 cache and shared memory of a multiprocessor together.
    pub l1: u64,
    /// Bytes of L2 cache.
    pub l2: u64,
    /// Bytes that its memory moves in a second.
    pub bandwidth: f64,
    /// Double-precision operations in a second, without tensor cores.
    pub fp64: f64,
    /// Single-precision operations in a second, without tensor cores.
    pub fp32: f64,
    /// Operations of tensor cores in a second, on dense matrices of 16-bit floats.
    pub tensor: f64,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIGA: f64 = 1e9;
const TERA: f64 = 1e12;

const fn chip(
    (name, target, multiprocessors): (&'static str, u16, u64),
    (threads, blocks, shared, l1): (u64, u64, u64, u64),
    (l2, bandwidth): (u64, f64),
    [fp64, fp32, tensor]: [f64; 3],
) -> Chip {
    Chip {
        name,
        target,
        multiprocessors,
        threads,
        blocks,
        shared: shared * KIB,
        l1: l1 * KIB,
        l2: l2 * MIB,
        bandwidth: bandwidth * GIGA,
        fp64: fp64 * TERA,
        fp32: fp32 * TERA,
        tensor: tensor * TERA,
    }
}

/// The chips, the usual one of each target first. Threads, blocks and KiB of shared memory and L1 of a multiprocessor stand in the programming
/// guide's table of compute capabilities; MiB of L2, GB/s and TFLOP/s in the data sheets and white papers of the chips.
pub const CHIPS: &[Chip] = &[
    chip(("V100", 70, 80), (2048, 32, 96, 128), (6, 900.0), [7.8, 15.7, 125.0]),
    chip(("T4", 75, 40), (1024, 16, 64, 96), (4, 320.0), [0.25, 8.1, 65.0]),
    chip(("TITAN RTX", 75, 72), (1024, 16, 64, 96), (6, 672.0), [0.51, 16.3, 130.5]),
    chip(("A100", 80, 108), (2048, 32, 164, 192), (40, 2039.0), [9.7, 19.5, 312.0]),
    chip(("A6000", 86, 84), (1536, 16, 100, 128), (6, 768.0), [0.6, 38.7, 154.8]),
    chip(("Orin", 87, 16), (1536, 16, 164, 192), (4, 204.8), [0.08, 5.3, 42.6]),
    chip(("L40S", 89, 142), (1536, 24, 100, 128), (96, 864.0), [1.4, 91.6, 362.0]),
    chip(("H100", 90, 132), (2048, 32, 228, 256), (50, 3352.0), [33.5, 66.9, 989.4]),
    chip(("H200", 90, 132), (2048, 32, 228, 256), (50, 4800.0), [33.5, 66.9, 989.4]),
    chip(("B200", 100, 148), (2048, 32, 228, 256), (126, 8000.0), [37.0, 75.0, 2250.0]),
    chip(("B300", 103, 160), (2048, 32, 228, 256), (126, 8000.0), [1.3, 77.0, 2500.0]),
    chip(("RTX PRO 6000", 120, 188), (1536, 24, 100, 128), (128, 1792.0), [1.95, 125.0, 503.8]),
    chip(("GB10", 121, 48), (1536, 24, 100, 128), (24, 273.0), [0.48, 31.0, 125.0]),
];

/// The shared memory that the system takes of each block, and the unit in which a block gets it.
const RESERVED: u64 = KIB;
const SHARED_UNIT: u64 = 128;
/// Threads of a warp.
const WARP: u64 = 32;
/// Registers of one of the four parts of a multiprocessor, and the unit in which a warp gets them.
const PARTS: u64 = 4;
const REGISTERS_OF_A_PART: u64 = 16 << 10;
const REGISTER_UNIT: u64 = 256;

/// The needs of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Its threads.
    pub threads: u64,
    /// Registers of a thread, if they are known.
    pub registers: Option<u64>,
    /// Bytes of static and dynamic shared memory.
    pub shared: u64,
}

/// The blocks that a multiprocessor holds at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Blocks of a multiprocessor.
    pub blocks: u64,
    /// Warps of a multiprocessor.
    pub warps: u64,
    /// Warps that it could hold.
    pub most_warps: u64,
    /// The limits that each resource alone sets, the smallest first.
    pub limits: [(&'static str, u64); 4],
}

/// A size in whole units; the greatest number for what no chip has.
fn units(size: u64, unit: u64) -> u64 {
    size.checked_next_multiple_of(unit).unwrap_or(u64::MAX)
}

impl Chip {
    /// The chip of this name, in any case and with or without blanks.
    pub fn find(name: &str) -> Option<&'static Chip> {
        let plain = |text: &str| text.to_ascii_lowercase().replace([' ', '-', '_'], "");
        CHIPS.iter().find(|chip| plain(chip.name) == plain(name))
    }

    /// All of them with their targets, for a `help:`: `V100 (sm_70), T4 (sm_75), …`.
    pub fn names() -> String {
        let names: Vec<String> = CHIPS.iter().map(|chip| format!("{} (sm_{})", chip.name, chip.target)).collect();
        names.join(", ")
    }

    /// Its target, with all that it has: `sm_90a` for the H100.
    pub fn arch(&self) -> Arch {
        let suffix = if Suffix::Arch.exists_for(self.target) { Suffix::Arch } else { Suffix::None };
        Arch { number: self.target, suffix }
    }

    /// The usual chip for a target, or the nearest older one.
    pub fn usual(arch: Arch) -> &'static Chip {
        let older = CHIPS.iter().filter(|chip| chip.target <= arch.number).map(|chip| chip.target).max();
        let target = older.unwrap_or(CHIPS[0].target);
        CHIPS.iter().find(|chip| chip.target == target).unwrap_or(&CHIPS[0])
    }

    /// The occupancy of blocks with these needs: the rules of the CUDA occupancy calculator.
    pub fn occupancy(&self, needs: Needs) -> Occupancy {
        let warps = needs.threads.div_ceil(WARP).max(1);
        let most_warps = self.threads / WARP;
        let registers = needs.registers.filter(|registers| *registers > 0).map_or(self.blocks, |registers| {
            let of_a_warp = units(registers.saturating_mul(WARP), REGISTER_UNIT);
            REGISTERS_OF_A_PART / of_a_warp * PARTS / warps
        });
        let of_a_block = units(needs.shared.saturating_add(RESERVED), SHARED_UNIT);
        let mut limits = [
            ("blocks", self.blocks),
            ("warps", most_warps / warps),
            ("registers", registers),
            ("shared memory", self.shared / of_a_block),
        ];
        limits.sort_small_by_key(|(_, blocks)| *blocks);
        let blocks = limits[0].1;
        Occupancy { blocks, warps: blocks * warps, most_warps, limits }
    }
}

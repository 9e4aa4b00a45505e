//! A launch: its dimensions, what it starts with, and whose turn it is.

use super::fault::{Fault, FaultKind};
use super::mix::mix;
use super::texture::Texture;
use std::collections::HashMap;

/// State that is equal for every thread of a launch.
#[derive(Debug)]
pub(super) struct Grid<'a> {
    pub id: u64,
    /// The number of the entry among the functions.
    pub entry: usize,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    /// The entry's parameters.
    pub params: &'a [u8],
    /// The constant bank.
    pub constants: &'a [u8],
    /// The address of each variable in global memory.
    pub addresses: &'a [u64],
    /// Textures and surfaces, by handle.
    pub textures: &'a HashMap<u64, Texture>,
    /// Start and size of dynamic shared memory.
    pub dynamic: u64,
    pub dynamic_bytes: u64,
    pub seed: u64,
    pub step_limit: u64,
    /// The registers that a thread starts with, if the entry's directives say.
    pub registers: Option<u32>,
}

impl Grid<'_> {
    /// The address of a variable in global memory.
    pub(super) fn address(&self, variable: u32) -> u64 {
        self.addresses.get(variable as usize).copied().unwrap_or(0)
    }

    /// Threads of a block.
    pub(super) fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Clusters in x, y, z.
    pub(super) fn clusters(&self) -> [u32; 3] {
        std::array::from_fn(|d| self.grid[d] / self.cluster[d].max(1))
    }

    /// Maximum number of instructions of a turn. Seed 0 gives all of them; other seeds now few, now many.
    pub(super) fn quantum(&self, most: u64, at: u64) -> u64 {
        if self.seed == 0 {
            return most;
        }
        let random = mix(self.seed.rotate_left(32) ^ mix(at));
        (most >> (random % 12)).max(1)
    }

    /// Which of `count` has the turn. Seed 0 goes in order; with others each round starts somewhere else and goes up or
    /// down, always in the same way. Everybody has one turn in a round.
    pub(super) fn turn(&self, turn: usize, count: usize, round: u64) -> usize {
        if self.seed == 0 {
            return turn;
        }
        let random = mix(self.seed ^ mix(round));
        let first = (random >> 1) as usize % count.max(1);
        let step = if random & 1 == 0 { turn } else { count - 1 - turn };
        (first + step) % count.max(1)
    }

    /// Number of clusters that may run beside each other: with seed 0 one starts when those before it wait or take
    /// long, with others some are interleaved from the start.
    pub(super) fn width(&self) -> usize {
        if self.seed == 0 { usize::MAX >> 8 } else { 1 + (mix(self.seed) % 8) as usize }
    }

    pub(super) fn warps(&self) -> u32 {
        self.threads().div_ceil(32)
    }
}

/// Checks the dimensions of a launch.
pub(super) fn check_dimensions(grid: [u32; 3], block: [u32; 3], cluster: [u32; 3]) -> Result<(), Fault> {
    const GRID: [u32; 3] = [0x7fff_ffff, 65535, 65535];
    const BLOCK: [u32; 3] = [1024, 1024, 64];
    let refuse = |message: String| Err(Fault::new(FaultKind::Launch, message));
    for d in 0..3 {
        let axis = ["x", "y", "z"][d];
        for (what, asked, most) in [("grid", grid[d], GRID[d]), ("block", block[d], BLOCK[d])] {
            if asked == 0 || asked > most {
                return refuse(format!("a {what} of {asked} in {axis}; 1 to {most} are possible"));
            }
        }
        if cluster[d] == 0 || !grid[d].is_multiple_of(cluster[d]) {
            return refuse(format!(
                "a grid of {} in {axis} with clusters of {}: it must be a multiple",
                grid[d], cluster[d]
            ));
        }
    }
    let threads: u64 = block.iter().map(|d| u64::from(*d)).product();
    if threads > 1024 {
        return refuse(format!("a block of {threads} threads; 1024 are possible"));
    }
    let blocks: u64 = cluster.iter().map(|d| u64::from(*d)).fold(1, u64::saturating_mul);
    if blocks > 16 {
        return refuse(format!("a cluster of {blocks} blocks; 16 are possible"));
    }
    Ok(())
}

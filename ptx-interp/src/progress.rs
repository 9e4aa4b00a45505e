//! Progress of a launch, for those who wait for it.

use std::fmt;
use std::ops::ControlFlow;

/// Warp instructions between two reports, so that a report costs nothing beside them.
const INTERVAL: u64 = 1 << 12;

/// How far a launch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Instructions that warps have issued.
    pub warp_instructions: u64,
    /// Blocks that have ended.
    pub ended: u64,
    /// Blocks of the grid.
    pub blocks: u64,
}

/// Who is told, every few thousand warp instructions. `Break` ends the launch as an endless one.
pub struct Reporter {
    tell: Box<dyn FnMut(Progress) -> ControlFlow<()> + Send>,
    blocks: u64,
    ended: u64,
    next: u64,
}

impl Reporter {
    /// Calls `tell` while launches run.
    pub fn new(tell: impl FnMut(Progress) -> ControlFlow<()> + Send + 'static) -> Reporter {
        Reporter { tell: Box::new(tell), blocks: 0, ended: 0, next: 0 }
    }

    /// A launch of `blocks` blocks begins.
    pub(super) fn begin(&mut self, blocks: u64) {
        (self.blocks, self.ended, self.next) = (blocks, 0, 0);
    }

    pub(super) fn add_ended(&mut self, blocks: u64) {
        self.ended += blocks;
    }

    /// Returns true if the launch should end.
    #[inline]
    pub(super) fn stops(&mut self, warp_instructions: u64) -> bool {
        if warp_instructions < self.next {
            return false;
        }
        self.next = warp_instructions + INTERVAL;
        let progress = Progress { warp_instructions, ended: self.ended, blocks: self.blocks };
        (self.tell)(progress).is_break()
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").field("ended", &self.ended).finish_non_exhaustive()
    }
}

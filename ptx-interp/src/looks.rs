//! Values that the lanes of a warp read from memory that other threads may change; see `poll`.

/// A turn of at most so many instructions that ends with a look was for nothing.
const LOOK: u64 = 64;
/// Number of such turns of a warp, while its lanes disagree, before it counts as one that waits: each lane has
/// looked.
const ROUNDS: u32 = 64;

/// Values that the lanes of a warp saw when they last looked at memory that others may change.
#[derive(Debug)]
pub(super) struct Looks {
    /// The instruction that looked.
    pub pc: [u32; 32],
    /// A digest of what it read.
    pub seen: [u64; 32],
    /// Turns for nothing, in a row.
    idle: u32,
}

impl Looks {
    pub(super) const NONE: Looks = Looks { pc: [u32::MAX; 32], seen: [0; 32], idle: 0 };
}

impl Looks {
    /// A turn of `ran` instructions ends because lanes can do nothing before others had a turn. Says whether that is true of
    /// the whole warp: at once if they are alone, else after each lane has looked.
    pub(super) fn end_turn(&mut self, alone: bool, ran: u64) -> bool {
        self.idle = if ran <= LOOK { self.idle + 1 } else { 0 };
        self.idle >= if alone { 1 } else { ROUNDS }
    }

    /// A turn ends in which the warp has worked.
    pub(super) fn has_worked(&mut self) {
        self.idle = 0;
    }
}

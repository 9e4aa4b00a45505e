//! Blocks that take turns at atomics on global memory, so that those of a small grid run beside each other as they do on a chip. `poll` has the steps.
//!
//! Without a seed a block runs until it ends or waits. Then the first one takes every task of a work queue, and races between the tasks of
//! different blocks do not show. So the schedule lets others go first at an atomic whose result is read, in front of it: a block that has
//! arrived at a barrier of the grid goes on, and is seen to wait there.

/// Clusters that take turns.
pub(super) const CONTENDERS: usize = 4;
/// Turns that a cluster gives away; then it runs on, since more of the same would show little.
const MOST: u32 = 64;

/// Whether a cluster lets others go first.
#[derive(Debug, Default)]
pub(super) struct Contention {
    /// True if there are others, and not too many.
    pub open: bool,
    /// True if a warp has asked for the end of this turn.
    pub yields: bool,
    given: u32,
}

impl Contention {
    /// A turn begins, beside others if `open`.
    pub(super) fn begin_turn(&mut self, open: bool) {
        (self.open, self.yields) = (open && self.given < MOST, false);
    }

    /// A turn ends; returns true if that is so because others should go first.
    pub(super) fn end_turn(&mut self) -> bool {
        self.given += u32::from(self.yields);
        self.open = false;
        self.yields
    }
}

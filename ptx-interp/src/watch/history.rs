//! Arrivals at an mbarrier in its running phase and in the one before: whoever came last time, and not yet, is
//! awaited.

/// The most that is remembered of a phase.
const MOST: usize = 256;

/// Actions of one instruction of one warp on an mbarrier in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Came {
    pub block: [u32; 3],
    pub warp: u32,
    pub lanes: u32,
    pub pc: u32,
    pub arrivals: u64,
    /// Bytes that it has announced, and those that it has brought.
    pub announced: u64,
    pub brought: u64,
}

impl Came {
    /// Returns true if both are of one instruction of one warp.
    fn continues(&self, other: &Came) -> bool {
        (self.block, self.warp, self.pc) == (other.block, other.warp, other.pc)
    }
}

/// Arrivals at an mbarrier.
#[derive(Debug, Default)]
pub(super) struct History {
    pub now: Vec<Came>,
    pub before: Vec<Came>,
}

impl History {
    pub(super) fn add(&mut self, came: Came) {
        let Some(old) = self.now.iter_mut().find(|old| old.continues(&came)) else {
            if self.now.len() < MOST {
                self.now.push(came);
            }
            return;
        };
        old.lanes |= came.lanes;
        old.arrivals += came.arrivals;
        old.announced += came.announced;
        old.brought += came.brought;
    }

    /// The next phase begins.
    pub(super) fn turn(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    /// Lanes of warps that arrived in the phase before, and have not in this one.
    pub(super) fn owing(&self) -> impl Iterator<Item = Came> {
        let has_come = |of: &Came| {
            let same = |came: &&Came| came.arrivals > 0 && (came.block, came.warp) == (of.block, of.warp);
            self.now.iter().filter(same).fold(0, |lanes, came| lanes | came.lanes)
        };
        let arrived = self.before.iter().filter(|came| came.arrivals > 0);
        arrived.map(move |came| Came { lanes: came.lanes & !has_come(came), ..*came }).filter(|came| came.lanes != 0)
    }
}

//! State of the watcher from one launch of a machine to the next.

use super::extent::Extent;
use super::ranks::Together;
use super::{Notes, Watch};
use crate::global::Global;
use crate::launch::Launch;
use crate::program::Program;
use std::cell::RefCell;

/// The launches so far.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// Warps that were watched: accesses of earlier launches have smaller numbers than those of this one.
    warps: u32,
    /// The first warp of the last launch.
    last: Option<u32>,
}

impl Past {
    /// The watcher of a launch, if it is on: it gives the warps numbers that none had before. `waits`: the entry may begin before
    /// the launch before has ended.
    pub(crate) fn watch(
        &mut self,
        global: &mut Global,
        program: &Program,
        launch: &Launch,
        waits: bool,
    ) -> Option<Watch> {
        let before = self.last.take().filter(|_| waits);
        let blocks = launch.grid.iter().fold(1, |n: u32, d| n.saturating_mul(*d));
        let warps = launch.block.iter().product::<u32>().div_ceil(32);
        let count = blocks.saturating_mul(warps);
        let notes = program.notes.clone().and_then(|notes| notes.downcast::<Notes>().ok());
        let Some(notes) = notes.filter(|_| launch.options.watch && count <= u32::MAX / 2) else {
            global.mark_all();
            return None;
        };
        if u32::MAX - self.warps - 2 < count {
            global.forget();
            self.warps = 0;
        }
        let first = self.warps + 1;
        self.warps += count;
        self.last = Some(first);
        let Launch { grid, block, cluster, cooperative, .. } = *launch;
        let own =
            Extent { rank: 0, number: 1, program: program.id, first, count, base: 0, warps, grid, block, cluster };
        let (start, agent) = Default::default();
        let meetings = (!cooperative).then(RefCell::default);
        let shared = Together::new();
        Some(Watch { notes, own, since: first, shared, start, ended: None, meetings, before, agent })
    }
}

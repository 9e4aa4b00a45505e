//! Environment of a step: the state that it reads and changes, and those who watch.

use super::exec::ExecState;
use super::fault::Fault;
use super::kept::Keeper;
use super::observe::Observer;
use super::probe::Probe;
use super::trace::Tracer;
use super::warp::Warp;
use std::ops::{Deref, DerefMut};

/// The state of a warp, and those who watch it run. Operations use the state as if it was the context's own ([`Deref`]); observers
/// get the state alone.
pub(super) struct Ctx<'a> {
    pub exec: ExecState<'a>,
    /// The observer. `bytes` and its kin report their accesses to it.
    pub observer: Option<&'a dyn Observer>,
    /// The lane in whose name an operation of one thread reads matrices.
    pub issuer: usize,
    /// Accesses of the warp, while it is examined for spinning.
    pub probe: Option<&'a Probe>,
    /// Who is told what chosen threads execute.
    pub tracer: Option<&'a mut Tracer>,
    /// The warps of the block before this one and behind it, for a debugger.
    pub others: [&'a [Warp]; 2],
}

impl<'a> Deref for Ctx<'a> {
    type Target = ExecState<'a>;

    fn deref(&self) -> &ExecState<'a> {
        &self.exec
    }
}

impl<'a> DerefMut for Ctx<'a> {
    fn deref_mut(&mut self) -> &mut ExecState<'a> {
        &mut self.exec
    }
}

/// Effect of a step on its lanes.
pub(super) type Step = Box<dyn Fn(&mut Ctx, u32) -> Result<Flow, Fault> + Send + Sync>;

/// Next instruction of the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// At the next instruction, all of them.
    Next,
    /// At this one, all of them.
    Jump(u32),
    /// The step has set `pc`, or made them wait or exit.
    Apart,
    /// At the next instruction, after other warps had a turn.
    Yield,
    /// At this instruction once more, after other warps had a turn.
    Again,
}

impl<'a> Ctx<'a> {
    /// Changes the size of a lane's local memory.
    pub(super) fn resize_local<T>(
        &mut self,
        lane: usize,
        change: impl FnOnce(&mut Warp) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let before = self.warp.local[lane].len() as u64;
        let changed = change(self.warp)?;
        if let Some(observer) = self.observer {
            let after = self.warp.local[lane].len() as u64;
            observer.resize_local(&mut self.warp.kept, lane, before, after);
        }
        Ok(changed)
    }

    /// The observer's own state.
    pub(super) fn keeper(&self) -> Option<&'a dyn Keeper> {
        self.observer.map(|observer| observer as &dyn Keeper)
    }

    /// Lanes have synchronized with each other.
    pub(super) fn met(&mut self, group: u32) {
        if let Some(observer) = self.observer.filter(|_| group != 0) {
            observer.meet(&mut self.exec.warp.kept, group, self.exec.warp.live);
        }
    }
}

//! Views carried from thread to thread: by strong accesses to the same address, and by the phases of mbarriers.

use super::clock::{Release, View};
use super::event::Event;
use super::history::History;
use crate::role::Scope;
use std::collections::HashMap;
use std::sync::Arc;

/// Releases at each address.
pub(super) type Vars = HashMap<u64, Var>;

/// Releases at an address, by who may acquire them: the scope, and the number of the releaser's block, cluster or GPU.
#[derive(Debug, Default)]
pub(super) struct Var(HashMap<(Scope, u32), Left>);

/// Position of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home {
    pub block: u32,
    pub cluster: u32,
    pub rank: u32,
}

impl Home {
    /// The threads of a scope around this one.
    fn within(self, scope: Scope) -> (Scope, u32) {
        let number = match scope {
            Scope::Block => self.block,
            Scope::Cluster => self.cluster,
            Scope::Gpu => self.rank,
            Scope::System => 0,
        };
        (scope, number)
    }
}

/// The release, and its view, until something is added.
#[derive(Debug, Default)]
struct Left {
    release: Release,
    view: Option<Arc<View>>,
}

impl Left {
    fn add(&mut self, view: &Arc<View>) {
        self.release.join(view);
        self.view = None;
    }

    fn view(&mut self) -> Arc<View> {
        self.view.get_or_insert_with(|| self.release.shared()).clone()
    }
}

impl Var {
    /// As [`View::forget_before`].
    pub(super) fn forget_before(&mut self, block: u32) {
        for left in self.0.values_mut() {
            left.release.forget_before(block);
            left.view = None;
        }
    }

    /// A thread releases a view to those who acquire it with this very scope.
    pub(super) fn release(&mut self, home: Home, scope: Scope, view: &Arc<View>) {
        self.0.entry(home.within(scope)).or_default().add(view);
    }

    /// Views that a thread acquires with a scope, each with the scope in which it was released.
    pub(super) fn acquire(&mut self, home: Home, scope: Scope) -> Vec<(Scope, Arc<View>)> {
        let found = |scope: &Scope| Some((*scope, self.0.get_mut(&home.within(*scope))?.view()));
        scope.inner().iter().filter_map(found).collect()
    }
}

/// A copy that completes on an mbarrier, and who began it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    pub pc: u32,
    pub thread: [u32; 3],
    pub block: [u32; 3],
}

/// The phases of an mbarrier.
#[derive(Debug, Default)]
pub(super) struct Phases {
    /// The instruction that initialized it.
    pub(super) init: u32,
    /// The number of its agent among those of its block.
    pub(super) agent: u32,
    /// Number of complete phases.
    pub count: u32,
    /// Set once the thread that initialized it has executed `fence.mbarrier_init`.
    pub(super) fenced: bool,
    /// When it was initialized.
    pub(super) begun: Option<Event>,
    /// The last phase in which a copy completes, and which.
    pub(super) copies: Option<(u32, Copy)>,
    /// The last phase that somebody has seen complete.
    pub seen: u32,
    /// Who has come to it.
    pub(super) history: History,
    /// Arrivals in this phase.
    pub(super) arriving: Release,
    /// Release of the last complete phase.
    pub(super) done: Option<Arc<View>>,
}

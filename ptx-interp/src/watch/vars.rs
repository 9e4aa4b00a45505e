//! Views carried from thread to thread: by strong accesses to the same address, and by the phases of mbarriers.

use super::clock::{Release, View};
use super::event::Event;
use super::history::History;
use crate::role::Scope;
use std::collections::HashMap;
use std::sync::Arc;

/// Releases at each address.
pub(super) type Vars = HashMap<u64, Var>;

/// Releases at an address, by who may acquire them: the releaser's block, its cluster, everybody.
#[derive(Debug, Default)]
pub(super) struct Var {
    blocks: HashMap<u32, Left>,
    clusters: HashMap<u32, Left>,
    all: Left,
}

/// Position of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home {
    pub block: u32,
    pub cluster: u32,
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
    /// A thread releases with a scope.
    pub(super) fn release(&mut self, home: Home, scope: Scope, view: &Arc<View>) {
        self.blocks.entry(home.block).or_default().add(view);
        if scope >= Scope::Cluster {
            self.clusters.entry(home.cluster).or_default().add(view);
        }
        if scope >= Scope::Gpu {
            self.all.add(view);
        }
    }

    /// View that a thread acquires with a scope.
    pub(super) fn acquire(&mut self, home: Home, scope: Scope) -> Vec<Arc<View>> {
        let mut views: Vec<_> = self.blocks.get_mut(&home.block).map(Left::view).into_iter().collect();
        if scope >= Scope::Cluster {
            views.extend(self.clusters.get_mut(&home.cluster).map(Left::view));
        }
        if scope >= Scope::Gpu {
            views.push(self.all.view());
        }
        views
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

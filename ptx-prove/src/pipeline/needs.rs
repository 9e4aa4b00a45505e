//! The events that barriers pass on. A warp behind a barrier is behind all that the arrivals were behind, and checks need little of that. If states
//! differed in the rest, each order of the turns of loops would be a state of its own.
//!
//! So a barrier passes on only the events that checks need. The first exploration passes on none. A check that misses an event adds it and passes, and
//! the exploration is repeated. It counts only if no check has missed an event. To pass on less is always safe, because then less is proved.

use super::effect::Place;
use ptx_core::hash::Set;

/// A barrier that passes on an order: in memory or with a number, of a block, or that of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    Memory(Place),
    Number(Place),
    Cluster,
}

/// An event that others must come behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Of {
    /// A warp has seen a phase of this barrier.
    Passed(Place),
    /// A phase of the barrier of the component is complete.
    Phase,
    /// The bytes from a place on were read, or written, or a fence has shown them to copies and products.
    Read(Place),
    Written(Place),
    Shown(Place),
    /// Any other event is always passed on.
    Other,
}

/// An event of a component.
pub(crate) type Need = (usize, Of);

/// Earlier explorations after which a barrier passes on all.
const PATIENCE: usize = 8;

/// The events that barriers pass on.
#[derive(Default)]
pub(crate) struct Needs {
    /// Of one barrier.
    pairs: Set<(Holder, Need)>,
    /// Of all.
    everywhere: Set<Need>,
    /// By warp, the events that checks of this exploration have missed.
    asked: Set<(usize, Need)>,
    new: Vec<(Holder, Need)>,
    new_everywhere: Vec<Need>,
    rounds: usize,
    has_all: bool,
}

impl Needs {
    /// Returns true if a barrier passes an event on.
    pub(crate) fn has(&self, holder: Holder, need: Need) -> bool {
        self.has_all || need.1 == Of::Other || self.everywhere.contains(&need) || self.pairs.contains(&(holder, need))
    }

    /// A warp is not behind an event, after it came behind these barriers last. Returns true if one of them may not have passed it on.
    pub(crate) fn ask(&mut self, warp: usize, joined: &[Holder], need: Need) -> bool {
        if self.has_all || need.1 == Of::Other || self.everywhere.contains(&need) {
            return false;
        }
        if self.asked.insert((warp, need)) {
            let open = || joined.iter().rev().filter(|holder| !self.pairs.contains(&(**holder, need)));
            match (open().count() == joined.len(), open().next()) {
                (true, Some(last)) => self.new.push((*last, need)),
                (false, Some(_)) => self.new.extend(open().map(|holder| (*holder, need))),
                (_, None) => self.new_everywhere.push(need),
            }
        }
        true
    }

    /// The number of events that checks of this exploration have missed.
    pub(crate) fn asked(&self) -> usize {
        self.asked.len()
    }

    /// Ends an exploration: the next one passes on what was missed. Returns true if nothing was.
    pub(crate) fn end(&mut self) -> bool {
        let is_complete = self.asked.is_empty();
        self.asked.clear();
        self.pairs.extend(self.new.drain(..));
        self.everywhere.extend(self.new_everywhere.drain(..));
        self.rounds += 1;
        self.has_all |= self.rounds > PATIENCE;
        is_complete
    }

    /// Passes on all. Returns false if it does already.
    pub(crate) fn give_all(&mut self) -> bool {
        !std::mem::replace(&mut self.has_all, true)
    }
}

//! What barriers pass on. Whoever comes behind a barrier is behind all that its arrivals were behind, and most of that is never asked for. If states
//! differed in it, each order in which the turns of loops may follow each other would be a state of its own.
//!
//! So a barrier passes on no more than an exploration needs. The first one starts with nothing. A check that fails because of it adds what it needs, and
//! passes; and the exploration is made once more. It counts only if every check has passed without that, because to know less of an order is always safe.

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

/// What barriers pass on.
#[derive(Default)]
pub(crate) struct Needs {
    /// Of one barrier.
    pairs: Set<(Holder, Need)>,
    /// Of all.
    everywhere: Set<Need>,
    /// What checks of this exploration have asked for.
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
                (false, Some(_)) => self.new.extend(open().map(|holder| (*holder, need)).collect::<Vec<_>>()),
                (_, None) => self.new_everywhere.push(need),
            }
        }
        true
    }

    /// How much was asked for in this exploration.
    pub(crate) fn asked(&self) -> usize {
        self.asked.len()
    }

    /// Ends an exploration. Returns true if none of its checks asked for more.
    pub(crate) fn is_settled(&mut self) -> bool {
        let is_settled = self.asked.is_empty();
        self.asked.clear();
        self.pairs.extend(self.new.drain(..));
        self.everywhere.extend(self.new_everywhere.drain(..));
        self.rounds += 1;
        self.has_all |= self.rounds > PATIENCE;
        is_settled
    }

    /// Passes on all. Returns false if it does already.
    pub(crate) fn give_all(&mut self) -> bool {
        self.asked.clear();
        !std::mem::replace(&mut self.has_all, true)
    }
}

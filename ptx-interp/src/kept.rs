//! State of an observer beside the engine's, and the reports that need nothing else. See [`super::observe`].

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// An observer's state beside a part of the engine's. Empty while nobody watches.
#[derive(Default)]
pub(super) struct Kept(Option<Box<dyn Any + Send>>);

impl Kept {
    pub(super) fn new(state: impl Any + Send) -> Kept {
        Kept(Some(Box::new(state)))
    }

    /// The state, if it is of this type.
    #[inline]
    pub(super) fn get<T: Any>(&self) -> Option<&T> {
        self.0.as_deref()?.downcast_ref()
    }

    /// The same, to change.
    #[inline]
    pub(super) fn get_mut<T: Any>(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()?.downcast_mut()
    }

    /// The same; begins it where there is none.
    pub(super) fn get_or_default<T: Any + Send + Default>(&mut self) -> Option<&mut T> {
        self.0.get_or_insert_with(|| Box::new(T::default())).downcast_mut()
    }

    /// The state itself, if it is of this type.
    pub(super) fn take<T: Any>(self) -> Option<T> {
        Some(*self.0?.downcast().ok()?)
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Kept" } else { "Nothing" })
    }
}

/// State that threads leave for those who wait for them.
pub(super) type Message = Option<Arc<dyn Any + Send + Sync>>;

/// The block's rank in its cluster and the address of an mbarrier.
pub(super) type MbarrierPlace = (usize, u64);

/// An observer's own state: the part of its reports that needs no more of the engine.
#[expect(unused_variables, reason = "a default does nothing with what it is told")]
pub(super) trait Keeper: Send {
    // ---- the launch ----

    /// A block of a cluster starts; those of lower rank have.
    fn start_block(&self, cluster: &mut Kept, id: [u32; 3]) {}

    /// A warp of a block starts, by its number there.
    fn start_warp(&self, warp: &mut Kept, block: [u32; 3], index: u32) {}

    /// Returns true if every instruction of a block's warps is reported, not only those that were marked.
    fn follows(&self, block: [u32; 3]) -> bool {
        false
    }

    // ---- blocks that run ahead ----

    /// Returns true if blocks that run ahead miss nothing that was seen of others.
    fn is_quiet(&self) -> bool {
        true
    }

    /// The blocks since the fork run again.
    fn rewind(&self) {}

    /// The state of an allocation for blocks that run ahead.
    fn fork_memory(&self, kept: &mut Kept) -> Kept {
        Kept::default()
    }

    /// Returns true if both states of an allocation together say all that one would have said.
    fn has_room_for(&self, mine: &Kept, theirs: &Kept) -> bool {
        true
    }

    /// Adds what blocks that ran ahead have seen of an allocation.
    fn take_over(&self, mine: &mut Kept, theirs: Kept) {}

    /// No block runs ahead any more.
    fn settle_memory(&self, kept: &mut Kept) {}

    // ---- local memory ----

    /// The engine itself has written local memory of a lane, which has `len` bytes.
    fn write_local(&self, warp: &mut Kept, lane: usize, bytes: Range<u64>, len: u64) {}

    /// Local memory of a lane has grown or shrunk, from so many bytes to so many.
    fn resize_local(&self, warp: &mut Kept, lane: usize, before: u64, after: u64) {}

    // ---- threads that meet ----

    /// Lanes have synchronized with each other.
    fn meet(&self, warp: &mut Kept, group: u32, live: u32) {}

    /// Woken lanes get what others left, at once or with their next fence.
    fn learn(&self, warp: &mut Kept, (group, live): (u32, u32), message: &Message, acquires: bool) {}

    /// A barrier of a block opens.
    fn open_barrier(&self, cluster: &mut Kept, rank: usize, barrier: usize) -> Message {
        None
    }

    /// The barrier of the cluster opens.
    fn open_gate(&self, cluster: &mut Kept) -> Message {
        None
    }

    /// The message that the gate left when it last opened.
    fn gate_message(&self, cluster: &Kept) -> Message {
        None
    }

    /// A phase of an mbarrier is complete, for which somebody waits or nobody does.
    fn complete_phase(&self, cluster: &mut Kept, place: MbarrierPlace, awaited: bool) -> Message {
        None
    }
}

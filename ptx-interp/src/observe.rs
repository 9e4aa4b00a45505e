//! Observers: what the engine reports to whoever watches a launch.
//!
//! The engine and `ops/` report accesses, barriers and the like, and never learn who listens. An observer may object, which
//! ends the launch, and changes nothing else. It keeps its state where the engine has a place for it ([`Kept`]): beside each
//! warp, each cluster and each allocation. What woken threads learn from those who woke them goes through the engine as a
//! [`Message`]. Every report has a default that does nothing, so an observer names only those it needs.
//!
//! Most instructions are of no interest. `before`, `after` and `check_guard` come only for instructions that were marked when
//! the program was decoded (`Code::reported`), and for all of a warp while the observer wants that (`Warp::reported`).

use super::block::Block;
use super::cluster::Shared;
use super::ctx::{Ctx, Src};
use super::fault::{Fault, Party};
use super::grid::Cluster;
use super::mbarrier::Mbarrier;
use super::names::Map;
use super::program::Program;
use super::role::Actor;
use super::space::{Place, Where};
use super::tmem::{Cells, Use};
use super::warp::Warp;
use ptx_core::tensor::Swizzle;
use std::any::Any;
use std::fmt;
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

/// An access as an instruction makes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    pub place: Place,
    /// Lanes that access the same bytes.
    pub lanes: u32,
    /// As the instruction saw it.
    pub address: u64,
    pub size: u64,
    pub writes: bool,
}

impl Touch {
    /// The place of one of its bytes.
    pub(super) fn at(&self, offset: u64) -> Place {
        Place { at: self.place.at.wrapping_add(offset), ..self.place }
    }
}

/// The block's rank in its cluster and the address of an mbarrier.
pub(super) type MbarrierPlace = (usize, u64);

/// Facts about a phase that somebody waits for.
#[derive(Default)]
pub(super) struct Reasons {
    pub parties: Vec<Party>,
    pub help: Option<String>,
}

/// Somebody who watches a launch.
#[expect(unused_variables, reason = "a default does nothing with what it is told")]
pub(super) trait Observer: Send {
    // ---- the launch ----

    /// A block of a cluster starts; those of lower rank have.
    fn start_block(&self, shared: &mut Shared, id: [u32; 3]) {}

    /// A warp of a block starts.
    fn start_warp(&self, warp: &mut Warp, block: [u32; 3]) {}

    /// A cluster has ended.
    fn finish_cluster(&self, map: Map, cluster: &Cluster) -> Result<(), Fault> {
        Ok(())
    }

    /// The reasons for which a phase of an mbarrier is not complete, in a launch where nobody can go on.
    fn explain_phase(
        &self,
        program: &Program,
        shared: &Shared,
        phase: (MbarrierPlace, Mbarrier),
        blocks: &[(Block, Vec<Warp>)],
    ) -> Reasons {
        Reasons::default()
    }

    // ---- blocks that run ahead ----

    /// An observer of blocks that run ahead, which begins with what this one has seen.
    fn fork(&self) -> Box<dyn Observer>;

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

    // ---- instructions ----

    /// A predicate is about to decide which lanes run.
    fn check_guard(&self, ctx: &Ctx, group: u32, slot: u32) -> Result<(), Fault> {
        Ok(())
    }

    /// An instruction is about to run in lanes.
    fn before(&self, ctx: &mut Ctx, active: u32) -> Result<(), Fault> {
        Ok(())
    }

    /// It has run.
    fn after(&self, ctx: &mut Ctx, active: u32) {}

    /// Lanes end.
    fn exit(&self, ctx: &mut Ctx, group: u32) {}

    // ---- memory ----

    /// Bytes are about to be read.
    fn read(&self, ctx: &Ctx, touch: &Touch) -> Result<(), Fault> {
        Ok(())
    }

    /// Bytes are about to be written.
    fn write(&self, ctx: &mut Ctx, touch: &Touch) -> Result<(), Fault> {
        Ok(())
    }

    /// A whole warp is about to read neighbors of `size` bytes each. `false`: the lanes report one by one.
    fn read_row(&self, ctx: &Ctx, place: Place, size: u64) -> bool {
        true
    }

    /// The same, to write.
    fn write_row(&self, ctx: &mut Ctx, place: Place, size: u64) -> bool {
        true
    }

    /// A read that may find bytes that nobody has written: a bit for each, of the first 64.
    fn read_gaps(&self, ctx: &Ctx, touch: &Touch) -> Result<u64, Fault> {
        Ok(0)
    }

    /// Lanes have loaded a register from such bytes; `byte` is the first of them in the read.
    fn leave_gap(&self, ctx: &mut Ctx, (slot, group): (u32, u32), touch: &Touch, byte: u64) {}

    /// The engine itself has written local memory of a lane.
    fn write_local(&self, warp: &mut Warp, lane: usize, at: u64, size: u64) {}

    /// Local memory of a lane has another size than before.
    fn resize_local(&self, warp: &mut Warp, lane: usize, before: u64) {}

    /// A lane uses tensor memory of a block (of the whole warp, if the instruction is one of `.sync.aligned`). The columns are
    /// allocated.
    fn use_tensor(&self, ctx: &mut Ctx, rank: usize, lane: usize, cells: Cells, how: Use) -> Result<(), Fault> {
        Ok(())
    }

    /// Columns of a block's tensor memory are allocated.
    fn allocate_columns(&self, ctx: &mut Ctx, rank: usize, column: u32, count: u32) {}

    /// A copy by tensor map has put up to 16 bytes at an address of shared memory.
    fn note_tile(&self, ctx: &mut Ctx, at: u64, swizzle: Swizzle) {}

    /// A matrix with this swizzle is read at an address of a block's shared memory.
    fn check_tile(&self, ctx: &Ctx, rank: usize, at: u64, swizzle: Swizzle) -> Result<(), Fault> {
        Ok(())
    }

    // ---- warps ----

    /// Lanes read values of others that their member masks name.
    fn check_sources(
        &self,
        ctx: &Ctx,
        group: u32,
        named: &dyn Fn(usize) -> u32,
        source: &dyn Fn(usize) -> usize,
    ) -> Result<(), Fault> {
        Ok(())
    }

    /// A register of lanes gets what another one of other lanes holds.
    fn shuffle(&self, ctx: &mut Ctx, registers: (u32, Src), group: u32, source: &dyn Fn(usize) -> usize) {}

    /// Lanes have synchronized with each other.
    fn meet(&self, warp: &mut Warp, group: u32) {}

    /// Woken lanes get what others left, at once or with their next fence.
    fn learn(&self, warp: &mut Warp, group: u32, message: &Message, acquires: bool) {}

    // ---- barriers ----

    /// Lanes arrive at a barrier of their block.
    fn arrive(&self, ctx: &mut Ctx, barrier: usize, group: u32) {}

    /// A barrier of a block opens.
    fn open_barrier(&self, shared: &mut Shared, rank: usize, barrier: usize) -> Message {
        None
    }

    /// Lanes arrive at the barrier of the cluster.
    fn arrive_at_gate(&self, ctx: &mut Ctx, group: u32) {}

    /// The barrier of the cluster opens.
    fn open_gate(&self, shared: &mut Shared) -> Message {
        None
    }

    /// What it left when it opened last.
    fn gate_message(&self, shared: &Shared) -> Message {
        None
    }

    // ---- mbarriers ----

    /// An mbarrier is initialized.
    fn begin_mbarrier(&self, ctx: &mut Ctx, lane: usize, place: MbarrierPlace, at: u64) -> Result<(), Fault> {
        Ok(())
    }

    /// Its use ends.
    fn end_mbarrier(&self, ctx: &mut Ctx, place: MbarrierPlace) {}

    /// A lane works on one.
    fn use_mbarrier(&self, ctx: &Ctx, space: Where, lane: usize, at: u64) -> Result<(), Fault> {
        Ok(())
    }

    /// A lane arrives at one, or an asynchronous operation of it does.
    fn arrive_at_mbarrier(&self, ctx: &mut Ctx, lane: usize, place: MbarrierPlace) {}

    /// A lane has changed one.
    fn change_mbarrier(&self, ctx: &mut Ctx, lane: usize, place: MbarrierPlace, states: [Mbarrier; 2]) {}

    /// A phase is complete, for which somebody waits or nobody does.
    fn complete_phase(&self, shared: &mut Shared, place: MbarrierPlace, awaited: bool) -> Message {
        None
    }

    /// A lane has seen that the last phase is complete.
    fn see_phase(&self, ctx: &mut Ctx, lane: usize, place: MbarrierPlace) {}

    /// The operations that an agent of a lane has begun so far complete in the running phase.
    fn hand_over(&self, ctx: &mut Ctx, lane: usize, actor: Actor, place: MbarrierPlace) {}

    /// The running operation completes in the running phase. The report comes before those of its accesses, once for each mbarrier.
    fn complete_on(&self, ctx: &mut Ctx, lane: usize, place: MbarrierPlace, at: u64) -> Result<(), Fault> {
        Ok(())
    }

    /// Adds to the fault of an operation on an mbarrier what has happened to it.
    fn explain_misuse(&self, ctx: &Ctx, fault: Fault, place: MbarrierPlace) -> Fault {
        fault
    }
}

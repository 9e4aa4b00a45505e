//! Observers: what the engine reports to whoever watches a launch.
//!
//! The engine and `ops/` report accesses, barriers and the like, and never learn who listens. An observer may object, which
//! ends the launch, and changes nothing else. It keeps its state where the engine has a place for it ([`Kept`](super::kept::Kept)): beside each
//! warp, each cluster and each allocation. What woken threads learn from those who woke them goes through the engine as a
//! [`Message`](super::kept::Message). Every report has a default that does nothing, so an observer names only those it needs.
//!
//! Most instructions are of no interest. `before`, `after` and `check_guard` come only for instructions that were marked when
//! the program was decoded (`Instruction::reported`), and for all of a warp while the observer requests that (`Warp::reported`).

use super::block::Block;
use super::cluster::{Cluster, Shared};
use super::exec::{ExecState, Src};
use super::fault::{Fault, Party};
use super::kept::{Keeper, MbarrierPlace};
use super::listing::Listing;
use super::map::Map;
use super::mbarrier::Mbarrier;
use super::role::Actor;
use super::space::{Place, Where};
use super::tmem::{Cells, Use};
use super::warp::Warp;
use ptx_target::tensor::Swizzle;

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

/// Facts about a phase that somebody waits for.
#[derive(Default)]
pub(super) struct Reasons {
    pub parties: Vec<Party>,
    pub help: Option<String>,
}

/// Somebody who watches a launch.
#[expect(unused_variables, reason = "a default does nothing with what it is told")]
pub(super) trait Observer: Keeper {
    // ---- the launch ----

    /// A cluster has ended.
    fn finish_cluster(&self, map: Map, cluster: &Cluster) -> Result<(), Fault> {
        Ok(())
    }

    /// The reasons for which a phase of an mbarrier is not complete, in a launch where nobody can go on.
    fn explain_phase(
        &self,
        listing: &Listing,
        shared: &Shared,
        phase: (MbarrierPlace, Mbarrier),
        blocks: &[(Block, Vec<Warp>)],
    ) -> Reasons {
        Reasons::default()
    }

    // ---- blocks that run ahead ----

    /// An observer of blocks that run ahead, which begins with what this one has seen.
    fn fork(&self) -> Box<dyn Observer>;

    // ---- instructions ----

    /// A predicate is about to decide which lanes run.
    fn check_guard(&self, exec: &ExecState, group: u32, slot: u32) -> Result<(), Fault> {
        Ok(())
    }

    /// An instruction is about to run in lanes.
    fn before(&self, exec: &mut ExecState, active: u32) -> Result<(), Fault> {
        Ok(())
    }

    /// It has run.
    fn after(&self, exec: &mut ExecState, active: u32) -> Result<(), Fault> {
        Ok(())
    }

    /// Lanes end.
    fn exit(&self, exec: &mut ExecState, group: u32) {}

    // ---- memory ----

    /// Bytes are about to be read.
    fn read(&self, exec: &ExecState, touch: &Touch) -> Result<(), Fault> {
        Ok(())
    }

    /// Bytes are about to be written.
    fn write(&self, exec: &mut ExecState, touch: &Touch) -> Result<(), Fault> {
        Ok(())
    }

    /// A whole warp is about to read neighbors of `size` bytes each. `false`: the lanes report one by one.
    fn read_row(&self, exec: &ExecState, place: Place, size: u64) -> bool {
        true
    }

    /// The same, to write.
    fn write_row(&self, exec: &mut ExecState, place: Place, size: u64) -> bool {
        true
    }

    /// A read that may find bytes that nobody has written: a bit for each, of the first 64.
    fn read_gaps(&self, exec: &ExecState, touch: &Touch) -> Result<u64, Fault> {
        Ok(0)
    }

    /// Lanes have loaded a register from such bytes; `byte` is the first of them in the read.
    fn leave_gap(&self, exec: &mut ExecState, (slot, group): (u32, u32), touch: &Touch, byte: u64) {}

    /// A lane uses tensor memory of a block (of the whole warp, if the instruction is one of `.sync.aligned`). The columns are
    /// allocated.
    fn use_tensor(&self, exec: &mut ExecState, rank: usize, lane: usize, cells: Cells, how: Use) -> Result<(), Fault> {
        Ok(())
    }

    /// Columns of a block's tensor memory are allocated.
    fn allocate_columns(&self, exec: &mut ExecState, rank: usize, column: u32, count: u32) {}

    /// A warp has columns that it has allocated together with the other block of its pair.
    fn note_pair(&self, exec: &mut ExecState, first: u32) {}

    /// A warp gives such columns back.
    fn part_pair(&self, exec: &ExecState, first: u32) -> Result<(), Fault> {
        Ok(())
    }

    /// A copy by tensor map has put up to 16 bytes at an address of shared memory.
    fn note_tile(&self, exec: &mut ExecState, at: u64, swizzle: Swizzle) {}

    /// A matrix with this swizzle is read at an address of a block's shared memory.
    fn check_tile(&self, exec: &ExecState, rank: usize, at: u64, swizzle: Swizzle) -> Result<(), Fault> {
        Ok(())
    }

    // ---- warps ----

    /// Lanes read values of others that their member masks name.
    fn check_sources(
        &self,
        exec: &ExecState,
        group: u32,
        named: &dyn Fn(usize) -> u32,
        source: &dyn Fn(usize) -> usize,
    ) -> Result<(), Fault> {
        Ok(())
    }

    /// A register of lanes gets what another one of other lanes holds.
    fn shuffle(&self, exec: &mut ExecState, registers: (u32, Src), group: u32, source: &dyn Fn(usize) -> usize) {}

    // ---- barriers ----

    /// Lanes arrive at a barrier of their block.
    fn arrive(&self, exec: &mut ExecState, barrier: usize, group: u32) {}

    /// Lanes arrive at the barrier of the cluster.
    fn arrive_at_gate(&self, exec: &mut ExecState, group: u32) {}

    // ---- mbarriers ----

    /// An mbarrier is initialized.
    fn begin_mbarrier(&self, exec: &mut ExecState, lane: usize, place: MbarrierPlace, at: u64) -> Result<(), Fault> {
        Ok(())
    }

    /// Its use ends.
    fn end_mbarrier(&self, exec: &mut ExecState, place: MbarrierPlace) {}

    /// A lane works on one.
    fn use_mbarrier(&self, exec: &ExecState, space: Where, lane: usize, at: u64) -> Result<(), Fault> {
        Ok(())
    }

    /// A lane arrives at one, or an asynchronous operation of it does.
    fn arrive_at_mbarrier(&self, exec: &mut ExecState, lane: usize, place: MbarrierPlace) {}

    /// A lane has changed one.
    fn change_mbarrier(&self, exec: &mut ExecState, lane: usize, place: MbarrierPlace, states: [Mbarrier; 2]) {}

    /// A lane has seen that the last phase is complete.
    fn see_phase(&self, exec: &mut ExecState, lane: usize, place: MbarrierPlace) {}

    /// The operations that an agent of a lane has begun so far complete in the running phase.
    fn hand_over(&self, exec: &mut ExecState, lane: usize, actor: Actor, place: MbarrierPlace) {}

    /// The running operation completes in the running phase. The report comes before those of its accesses, once for each mbarrier.
    fn complete_on(&self, exec: &mut ExecState, lane: usize, place: MbarrierPlace, at: u64) -> Result<(), Fault> {
        Ok(())
    }

    /// Adds to the fault of an operation on an mbarrier what has happened to it.
    fn explain_misuse(&self, exec: &ExecState, fault: Fault, place: MbarrierPlace) -> Fault {
        fault
    }
}

/// The observer of blocks that run ahead, in launches that have none: those that stay on one core.
pub(super) struct Nobody;

impl Keeper for Nobody {}

impl Observer for Nobody {
    fn fork(&self) -> Box<dyn Observer> {
        Box::new(Nobody)
    }
}

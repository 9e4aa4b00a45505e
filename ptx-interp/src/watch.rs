//! The watcher: it follows what every thread may rely on, and stops a run at the first access that has no right to be.
//!
//! ```text
//! observer the reports of the engine, and who takes each     past     what lasts from one launch to the next
//! notes    what it needs of each instruction, found once      event    one access: who, when, how
//! clock    what happened before what                          shadow   the last accesses of each cell
//! threads  time and knowledge of a warp                       vars     what atomics and mbarriers carry from thread to thread
//! access   reads and writes                                   order    what fences, barriers and waits change
//! phases   mbarriers                                          history  what came to one, and who has yet to come
//! blank    registers that nothing wrote                       within   to which variable an address belongs
//! follow   values from memory that nobody wrote, to where they matter
//! heard    what a warp has learned already
//! extent   the numbers of a launch's warps and blocks      ranks    launches that run beside each other, on several ranks
//! tensor   who uses tensor memory, and what orders its instructions      tiles    with which swizzle copies came
//! findings what it can object to: one file each, with the sentences
//! ```
//!
//! # For families of instructions
//!
//! - **Accesses report themselves.** `Ctx::bytes`, `Ctx::bytes_mut`, `Ctx::row` and `Ctx::row_mut` report every access, in the name of the lane that they are called with. What kind of access it is (weak or atomic, by
//!   the thread or by an asynchronous agent, through which proxy) stands in the instruction's line of `ops::role::ROLES`.
//! - **An asynchronous operation that completes on an mbarrier** calls `Ctx::completes_on` before it touches memory. Those
//!   that complete in groups need only their lines in `ROLES`: the commit and the wait have theirs.
//!   One that completes by a later instruction on an mbarrier (`tcgen05.commit`) calls `Ctx::hand_over` there.
//! - **Registers that an asynchronous instruction uses** (`wgmma`) stand in `flight`.
//! - **What a block must give back** is checked in `findings::check_end`.
//! - **Registers that nothing wrote** cost only where a function may read one (`blank`), **variables** are found when it is
//!   decoded (`within`).
//!
//! With `Options::watch` off none of this exists: no shadow is kept, and an access tests one pointer.

mod access;
mod blank;
mod clock;
mod event;
mod extent;
mod findings;
mod follow;
mod heard;
mod history;
mod notes;
mod observer;
mod order;
mod past;
mod phases;
mod ranks;
mod shadow;
mod tensor;
mod threads;
mod tiles;
mod vars;
mod within;

use super::kept::{Kept, MbarrierPlace};
use super::written::Written;
use clock::{Release, View};
use extent::{Extent, Seat};
use findings::registers::Pool;
use ranks::Together;
use shadow::Shadow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use threads::Threads;
use vars::Phases;

pub(crate) use clock::View as Known;
pub(super) use notes::Notes;
pub(super) use past::Past;
pub(super) use ranks::Ranks;

/// The watcher's state of a launch.
#[derive(Debug)]
pub(super) struct Watch {
    notes: Arc<Notes>,
    own: Extent,
    /// Accesses of warps with smaller numbers came before.
    since: u32,
    /// State shared with launches of other ranks, which run beside this one.
    shared: Arc<Mutex<Together>>,
    start: Arc<View>,
    /// Views of the threads at their end, where launches of several ranks run.
    ended: Option<ranks::Ended>,
    /// The words of global memory in which blocks arrive and wait, by address; none if all blocks are resident at once.
    meetings: Option<RefCell<HashMap<u64, Meeting>>>,
    /// The first warp of the launch before, if this one may begin before that has ended.
    before: Option<u32>,
    /// The agent of the mbarrier on which the running instruction completes.
    agent: Cell<Option<Agent>>,
}

/// The watcher's state of the blocks of a cluster.
#[derive(Debug, Default)]
struct ClusterWatch {
    /// The number in the grid, the shadow and the written bytes of each block, by rank.
    blocks: Vec<BlockWatch>,
    /// Views carried by strong accesses to shared memory.
    vars: RefCell<vars::Vars>,
    /// The mbarriers that have been initialized, by rank and address.
    phases: HashMap<MbarrierPlace, Phases>,
    /// The instruction at which the use of others ended.
    ended: HashMap<MbarrierPlace, u32>,
    /// Arrivals at the barrier of the cluster, and the release of its last phase.
    gate: Release,
    opened: Option<Arc<View>>,
}

#[derive(Debug, Default)]
struct BlockWatch {
    number: u32,
    shadow: RefCell<Shadow>,
    written: Written,
    tensor: tensor::Tensor,
    tiles: tiles::Tiles,
    /// Number of mbarriers it has had.
    agents: u32,
    /// The last accesses of threads of other blocks, by warp and lane.
    reached: RefCell<HashMap<u32, [Reach; 32]>>,
    /// Views of its threads at their end, and the waits for the cluster.
    gone: Release,
    waited: u32,
    /// The last allocation of tensor memory: the instruction and a thread.
    allocated: Option<(u32, [u32; 3])>,
    /// Views of the threads that have arrived at its barriers, by barrier.
    barriers: HashMap<usize, Release>,
    /// Its registers after `setmaxnreg`.
    pool: Pool,
}

/// A word of global memory that blocks change by an atomic access and then look at.
#[derive(Clone, Copy, Debug)]
struct Meeting {
    /// The first block that looked at it, and the instruction.
    block: u32,
    pc: u32,
    /// Set once a block has looked more than once.
    waited: bool,
}

/// An access to another block's memory; the tick is 0 where there was none.
#[derive(Clone, Copy, Debug, Default)]
struct Reach {
    tick: u32,
    /// Number of arrivals of the thread at the barrier of the cluster.
    arrived: u32,
    pc: u32,
}

/// The agent of the mbarrier on which the running instruction completes.
#[derive(Clone, Copy, Debug)]
struct Agent {
    rank: usize,
    number: u32,
    phase: u32,
}

impl Watch {
    /// The same before any access, for blocks that run ahead.
    fn fresh(&self) -> Watch {
        let (start, agent) = Default::default();
        let meetings = self.meetings.as_ref().map(|_| RefCell::default());
        Watch { notes: self.notes.clone(), shared: Together::new(), start, agent, meetings, ended: None, ..*self }
    }

    fn together(&self) -> MutexGuard<'_, Together> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The launch of a warp; none if it is over in every view.
    #[inline]
    fn launch_of(&self, warp: u32) -> Option<Extent> {
        if self.own.has_warp(warp) {
            return Some(self.own);
        }
        self.together().launches.iter().find(|launch| launch.has_warp(warp)).copied()
    }

    /// The block of a warp, and its index there.
    #[inline]
    fn place(&self, warp: u32) -> Seat {
        self.launch_of(warp).unwrap_or(self.own).place(warp)
    }

    /// The place of an mbarrier's agent in the clock of its block.
    fn agent_place(&self, agent: u32) -> usize {
        clock::KINDS * self.own.stride() + agent as usize
    }

    /// The threads of a warp that starts.
    fn threads(&self, block: [u32; 3], index: u32) -> Threads {
        let block = self.own.number(block);
        let number = self.own.first_warp(block) + index;
        Threads::new(number, (block, index), self.own.stride(), self.start.clone())
    }
}

impl Threads {
    /// The threads of a warp.
    #[inline]
    fn of(kept: &Kept) -> Option<&RefCell<Threads>> {
        kept.get()
    }

    /// The same, to change.
    #[inline]
    fn of_mut(kept: &mut Kept) -> Option<&mut Threads> {
        kept.get_mut::<RefCell<Threads>>().map(RefCell::get_mut)
    }
}

impl ClusterWatch {
    /// The blocks of a cluster.
    #[inline]
    fn of(kept: &Kept) -> Option<&ClusterWatch> {
        kept.get()
    }

    /// The same, to change.
    #[inline]
    fn of_mut(kept: &mut Kept) -> Option<&mut ClusterWatch> {
        kept.get_mut()
    }

    /// The phases of an mbarrier.
    fn phases_mut(kept: &mut Kept, place: MbarrierPlace) -> Option<&mut Phases> {
        ClusterWatch::of_mut(kept)?.phases.get_mut(&place)
    }
}

//! The watcher: it follows what every thread may rely on, and stops a run at the first access that has no right to be.
//!
//! ```text
//! role     what an instruction is to it: a table of names, like `ops/` (asynchronous? atomic? a fence? a wait?)
//! event    one access: who, when, how          clock    what happened before what
//! shadow   the last accesses of each cell      written  the bytes that hold something
//! threads  time and knowledge of a warp        vars     what atomics and mbarriers carry from thread to thread
//! access   where `ctx.bytes` and its kin report      order    what fences, barriers and waits change
//! blank    registers that nothing wrote               within   to which variable an address belongs
//! follow   values from memory that nobody wrote, to where they matter
//! heard    what a warp has learned already
//! history  what came to an mbarrier, and who has yet to come
//! tensor   who uses tensor memory, and what orders its instructions      tiles    with which swizzle copies came
//! findings what it can object to: one file each, with the sentences      names    what lies at an address, in words
//! ```
//!
//! # For families of instructions
//!
//! - **Accesses report themselves.** [`Ctx::bytes`], [`Ctx::bytes_mut`], [`Ctx::row`] and [`Ctx::row_mut`] tell the watcher
//!   about every access, in the name of the lane that they are called with. What kind of access it is (weak or atomic, by
//!   the thread or by an asynchronous agent, through which proxy) stands in the instruction's line of `role::ROLES`.
//! - **An asynchronous operation that completes on an mbarrier** calls [`Ctx::complete_on`] before it touches memory. Those
//!   that complete in groups need only their lines in `ROLES`: the commit and the wait have theirs.
//!   One that completes by a later instruction on an mbarrier (`tcgen05.commit`) calls [`Ctx::hand_over`] there.
//! - **Registers that an asynchronous instruction uses** (`wgmma`) stand in `flight`.
//! - **What a block must give back** is looked at in `Engine::finish`, with a finding of `findings`.
//! - **Registers that nothing wrote** cost only where a function may read one (`blank`), **variables** are found when it is
//!   decoded (`within`).
//!
//! With `Options::watch` off none of this exists: no shadow is kept, and each access tests one pointer.

mod access;
mod blank;
mod clock;
mod event;
pub(super) mod findings;
mod follow;
mod heard;
mod history;
mod names;
mod order;
mod role;
mod shadow;
mod tensor;
mod threads;
mod tiles;
mod vars;
mod within;
mod written;

use super::ctx::Ctx;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

pub(super) use blank::{Blank, Blanks};
pub(super) use clock::{Actor, Release, View};
pub(super) use follow::Follow;
pub(super) use names::{Map, Names};
pub(super) use role::{Act, Role};
pub(super) use shadow::Shadow;
pub(super) use tensor::{Cells, Use};
pub(super) use threads::Threads;
pub(super) use vars::Phases;
pub(super) use within::{Bases, Within};
pub(super) use written::Written;

/// The watcher's state of a launch.
#[derive(Debug)]
pub(super) struct Watch {
    /// The number of the launch's first warp: accesses of smaller ones came before.
    first: u32,
    /// Warps of a block.
    warps: u32,
    grid: [u32; 3],
    block: [u32; 3],
    cluster: [u32; 3],
    /// Views carried by strong accesses to global memory.
    vars: RefCell<vars::Vars>,
    start: Arc<View>,
    /// The words of global memory in which blocks arrive and wait, by address; none if all blocks are resident at once.
    meetings: Option<RefCell<HashMap<u64, Meeting>>>,
    /// The first warp of the launch before, if this one may begin before that has ended.
    before: Option<u32>,
}

/// The watcher's state of the blocks of a cluster.
#[derive(Debug, Default)]
pub(super) struct ClusterWatch {
    /// The number in the grid, the shadow and the written bytes of each block, by rank.
    blocks: Vec<BlockWatch>,
    /// Views carried by strong accesses to shared memory.
    vars: RefCell<vars::Vars>,
    /// The mbarriers that have been initialised, by rank and address.
    pub phases: HashMap<(usize, u64), Phases>,
    /// The instruction at which the use of others ended.
    ended: HashMap<(usize, u64), u32>,
    /// Arrivals at the barrier of the cluster, and the release of its last phase.
    pub gate: Release,
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
    pub allocated: Option<(u32, [u32; 3])>,
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
pub(super) struct Agent {
    rank: usize,
    number: u32,
    phase: u32,
}

impl Watch {
    /// A launch whose first warp has this number.
    pub(super) fn new(first: u32, grid: [u32; 3], block: [u32; 3], cluster: [u32; 3]) -> Watch {
        let warps = block.iter().product::<u32>().div_ceil(32);
        let (vars, start) = Default::default();
        let meetings = Some(RefCell::default());
        Watch { first, warps, grid, block, cluster, vars, start, meetings, before: None }
    }

    /// The same for a launch whose blocks may all wait for each other.
    pub(super) fn cooperative(self, cooperative: bool) -> Watch {
        Watch { meetings: self.meetings.filter(|_| !cooperative), ..self }
    }

    /// The same for one that may begin before the launch whose first warp has this number has ended.
    pub(super) fn after(self, before: Option<u32>) -> Watch {
        Watch { before, ..self }
    }

    /// The same for blocks that run ahead.
    pub(super) fn fork(&self) -> Watch {
        let watch = Watch::new(self.first, self.grid, self.block, self.cluster).after(self.before);
        watch.cooperative(self.meetings.is_none())
    }

    /// Returns true if no strong access to global memory has left anything for other blocks.
    pub(super) fn is_quiet(&self) -> bool {
        self.vars.borrow().is_empty()
    }

    /// Forgets the views of strong accesses.
    pub(super) fn forget(&self) {
        self.vars.borrow_mut().clear();
    }

    /// The number of the launch's first warp.
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// The number of a block in the grid.
    fn number(&self, id: [u32; 3]) -> u32 {
        id[0].wrapping_add(self.grid[0].wrapping_mul(id[1].wrapping_add(self.grid[1].wrapping_mul(id[2]))))
    }

    /// `%ctaid` of a block.
    fn id(&self, number: u32) -> [u32; 3] {
        let [x, y, _] = self.grid;
        [number % x, number / x % y, number / x / y]
    }

    /// The cluster of a block, as a number that no other cluster has.
    fn cluster_of(&self, number: u32) -> u32 {
        let id = self.id(number);
        self.number(std::array::from_fn(|d| id[d] / self.cluster[d] * self.cluster[d]))
    }

    /// The block of a warp, and its index there.
    fn place(&self, warp: u32) -> (u32, u32) {
        let warp = warp.saturating_sub(self.first);
        (warp / self.warps, warp % self.warps)
    }

    /// `%tid` of a lane.
    fn thread(&self, (_, index): (u32, u32), lane: u32) -> [u32; 3] {
        let (t, [x, y, _]) = (32 * index + lane, self.block);
        [t % x, t / x % y, t / x / y]
    }

    /// The place of an mbarrier's agent in the clock of its block.
    fn agent_place(&self, agent: u32) -> usize {
        clock::KINDS * 32 * self.warps as usize + agent as usize
    }

    /// The threads of a warp that starts.
    pub(super) fn threads(&self, block: [u32; 3], index: u32) -> Threads {
        let block = self.number(block);
        let number = self.first + block.wrapping_mul(self.warps) + index;
        Threads::new(number, (block, index), 32 * self.warps as usize, self.start.clone())
    }
}

impl ClusterWatch {
    /// Adds a block.
    pub(super) fn add(&mut self, watch: &Watch, id: [u32; 3]) {
        self.blocks.push(BlockWatch { number: watch.number(id), ..BlockWatch::default() });
    }
}

impl Ctx<'_> {
    /// Role of the running instruction for the watcher.
    pub(super) fn role(&self) -> Role {
        self.program.code.get(self.warp.at as usize).map_or(Role::PLAIN, |code| code.role)
    }
}

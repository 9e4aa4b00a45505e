//! Tensor memory: who used which cells last, and what orders its instructions (9.7.16.6).
//!
//! `tcgen05.ld` and `.st` are complete when their warp has waited for them (`tcgen05.wait`), `.mma`, `.cp` and `.shift` when
//! somebody has seen the phase of the mbarrier to which `tcgen05.commit` handed them. What is complete is ordered like any
//! other access. What is not is ordered before a later instruction of a pipeline only (`PIPES`): in the same thread by
//! itself, in another one by `tcgen05.fence::before_thread_sync`, something that synchronizes, and
//! `tcgen05.fence::after_thread_sync`.
//!
//! A cell stands for 16 lanes of a column, since shapes begin at multiples of that.

use super::clock::Clock;
use super::event::Event;
use super::extent::Seat;
use super::findings;
use super::shadow::{Access, Relation, Shadow};
use super::threads::Threads;
use super::{ClusterWatch, Watch};
use crate::exec::ExecState;
use crate::fault::Fault;
use crate::listing::Listing;
use crate::role::{Act, Actor, Scope};
use crate::tmem::{COLUMNS, Cells, GROUP, LANES, Use};
use crate::warp::lanes;
use crate::written::Written;
use std::cell::RefCell;
use std::collections::HashMap;

/// Bytes that a cell takes in the shadow.
const CELL: u64 = 4;

/// Instructions of one thread that run in the order in which they were issued.
const PIPES: &[(&str, &str)] = &[
    ("tcgen05.mma", "tcgen05.mma"),
    ("tcgen05.cp", "tcgen05.mma"),
    ("tcgen05.shift", "tcgen05.mma"),
    ("tcgen05.shift", "tcgen05.cp"),
    ("tcgen05.mma", "tcgen05.shift"),
];

/// The watcher's state of a block's tensor memory.
#[derive(Debug, Default)]
pub(super) struct Tensor {
    shadow: RefCell<Shadow>,
    written: Written,
    /// The last `tcgen05.alloc` for a pair in this block, by its first column.
    pairs: HashMap<u32, Event>,
}

impl Cells {
    /// Their places in the shadow, by adjacent parts: the first lane and the place.
    pub(super) fn parts(self) -> impl Iterator<Item = (u32, u64, u64)> {
        let count = self.count.min(COLUMNS.saturating_sub(self.column));
        let part = move |group: u32| (group * GROUP, u64::from(group * COLUMNS + self.column) * CELL);
        let groups = (0..LANES / GROUP).filter(move |group| self.groups >> group & 1 == 1);
        groups.map(part).map(move |(lane, at)| (lane, at, u64::from(count) * CELL))
    }
}

impl Tensor {
    fn len() -> u64 {
        u64::from(LANES / GROUP * COLUMNS) * CELL
    }
}

fn actor(act: Act) -> Actor {
    match act {
        Act::Load => Actor::Load,
        Act::Store => Actor::Store,
        Act::Async { writes: Actor::Tensor, .. } => Actor::Tensor,
        _ => Actor::Thread,
    }
}

/// Who uses it, and how that stands to an earlier use.
struct Who<'a> {
    watch: &'a Watch,
    listing: &'a Listing,
    threads: &'a Threads,
    lane: usize,
    event: Event,
}

impl Who<'_> {
    fn relation(&self, other: Event) -> Relation {
        let place = self.watch.place(other.warp);
        let own = other.warp == self.event.warp && other.actor() == Actor::Thread;
        let ordered = own || self.threads.knows(self.lane, other, place) || self.pipelined(other, place);
        if ordered { Relation::Fine } else { Relation::Apart }
    }

    /// Returns true if an operation that may not be complete runs before this one all the same.
    fn pipelined(&self, other: Event, place: Seat) -> bool {
        if (self.event.actor(), other.actor()) != (Actor::Tensor, Actor::Tensor) {
            return false;
        }
        let [first, second] = [other, self.event].map(|event| {
            let code = self.listing.code.get(event.pc() as usize);
            code.map_or("", |code| code.name)
        });
        let fits = |name: &str, pipe: &str| name.strip_prefix(pipe).is_some_and(|r| r.is_empty() || r.starts_with('.'));
        let pipe = PIPES.iter().any(|(a, b)| fits(first, a) && fits(second, b));
        let same = other.warp == self.event.warp && other.lanes == self.event.lanes;
        pipe && (same || self.threads.is_behind(self.lane, other, place))
    }
}

impl Watch {
    /// The running instruction uses tensor memory of a block, in the name of a lane (of the whole warp, if it is one of
    /// `.sync.aligned`). The columns are allocated.
    pub(super) fn look_at_cells(
        &self,
        exec: &mut ExecState,
        (rank, lane): (usize, usize),
        cells: Cells,
        how: Use,
    ) -> Result<(), Fault> {
        let Some(threads) = Threads::of(&exec.warp.kept) else { return Ok(()) };
        let Some(block) = ClusterWatch::of(&exec.cluster.kept).and_then(|cluster| cluster.blocks.get(rank)) else {
            return Ok(());
        };
        let (role, pc) = (exec.role(), exec.warp.at);
        if matches!(how, Use::Depend | Use::Update) {
            let missing = |(lane, at, size)| Some((lane, at, block.tensor.written.missing(at, size)?));
            if let Some((from, at, missing)) = cells.parts().find_map(missing) {
                let column = cells.column + ((missing - at) / CELL) as u32;
                return Err(findings::tensor::unwritten(how, (from, column)).lane(lane));
            }
        }
        let mut threads = threads.borrow_mut();
        let event = match actor(role.act) {
            Actor::Thread => Event::new(threads.number, u32::MAX, threads.now, (Actor::Thread, pc), role),
            Actor::Tensor => {
                Event::new(threads.number, 1 << lane, threads.group(lane, Actor::Tensor), (Actor::Tensor, pc), role)
            }
            // A warp's loads and stores are one agent's.
            own => Event::new(threads.number, 1, threads.group(0, own), (own, pc), role),
        };
        let who = Who { watch: self, listing: exec.listing, threads: &threads, lane, event };
        let relation = |other, _| who.relation(other);
        let access = Access { event, relation: &relation, since: self.own.first, early: u32::MAX };
        let writes = matches!(how, Use::Write | Use::Update | Use::Own);
        for (from, at, size) in cells.parts() {
            let mut shadow = block.tensor.shadow.borrow_mut();
            let looked = if writes { shadow.write(at, size, &access) } else { shadow.read(at, size, &access) };
            if let Err(clash) = looked {
                let column = cells.column + (clash.offset / CELL) as u32;
                return Err(findings::tensor::race(exec, self, (from, column), how, &clash).lane(lane));
            }
        }
        drop(threads);
        if writes && how != Use::Own {
            mark(exec, rank, cells);
        }
        Ok(())
    }
}

/// A `tcgen05.alloc` for a pair is complete in this block.
pub(super) fn note_pair(exec: &mut ExecState, first: u32) {
    let Some(threads) = Threads::of(&exec.warp.kept) else { return };
    let (number, now) = (threads.borrow().number, threads.borrow().now);
    let event = Event::new(number, u32::MAX, now, (Actor::Thread, exec.warp.at), exec.role());
    let rank = exec.block.rank;
    let block = ClusterWatch::of_mut(&mut exec.cluster.kept).and_then(|cluster| cluster.blocks.get_mut(rank));
    if let Some(block) = block {
        block.tensor.pairs.insert(first, event);
    }
}

impl Watch {
    /// Objects if columns of a pair are given back before the other block is known to have them: the chip ends the launch then.
    pub(super) fn check_pair(&self, exec: &ExecState, first: u32) -> Result<(), Fault> {
        let rank = exec.block.rank ^ 1;
        let pending = exec.cluster.tensor.get(rank).is_some_and(|t| t.offers.iter().any(|o| o.granted == Some(first)));
        let block = ClusterWatch::of(&exec.cluster.kept).and_then(|cluster| cluster.blocks.get(rank));
        let (Some(threads), Some(block)) = (Threads::of(&exec.warp.kept), block) else { return Ok(()) };
        let event = block.tensor.pairs.get(&first).copied();
        let threads = threads.borrow();
        // The instruction is the whole warp's: each of its lanes stands for all.
        let knows =
            |event: Event, lane| (0..32).any(|other| threads.knows(lane, event.by(1 << other), self.place(event.warp)));
        match event {
            Some(event) if !pending && lanes(exec.warp.live).any(|lane| knows(event, lane)) => Ok(()),
            event => Err(findings::tensor::peer(exec, self, event.filter(|_| !pending))),
        }
    }
}

fn mark(exec: &mut ExecState, rank: usize, cells: Cells) {
    let block = ClusterWatch::of_mut(&mut exec.cluster.kept).and_then(|cluster| cluster.blocks.get_mut(rank));
    if let Some(block) = block {
        cells.parts().for_each(|(_, at, size)| block.tensor.written.mark(at, size, Tensor::len()));
    }
}

/// Columns of a block are allocated: nobody has used them, and they hold nothing.
pub(super) fn clear(exec: &mut ExecState, rank: usize, column: u32, count: u32) {
    let block = ClusterWatch::of_mut(&mut exec.cluster.kept).and_then(|cluster| cluster.blocks.get_mut(rank));
    let Some(block) = block else { return };
    for (_, at, size) in Cells::new(0, LANES, column, count).parts() {
        block.tensor.written.clear(at, size, Tensor::len());
        block.tensor.shadow.get_mut().forget(at, size);
    }
}

impl Threads {
    /// `tcgen05.fence::before_thread_sync`: what lanes have issued runs before what others issue that learn of it, if the
    /// instructions are of a pipeline.
    pub(super) fn before_sync(&mut self, group: u32, live: u32) {
        self.issue(group, live);
        self.fence(group, live, Scope::System);
    }

    /// `tcgen05.fence::after_thread_sync`
    pub(super) fn after_sync(&mut self, group: u32, live: u32) {
        self.fence(group, live, Scope::System);
        for lane in lanes(group) {
            let issued = self.view(lane).issued.clone();
            self.behind.get_or_insert_with(|| Box::new([const { Clock::NEW }; 32]))[lane].join(&issued);
        }
    }

    /// Returns true if a lane's last such fence stands behind an operation.
    fn is_behind(&self, lane: usize, event: Event, place: Seat) -> bool {
        let Some(behind) = &self.behind else { return false };
        let first = place.of(Actor::Tensor);
        lanes(event.lanes).all(|other| behind[lane].tick(place.block, first + other) >= event.tick)
    }
}

/// The clocks of the lanes of a warp: what `tcgen05.fence::after_thread_sync` has taken.
pub(super) type Behind = Option<Box<[Clock; 32]>>;

//! The watcher's state of the 32 threads of a warp: their time, their views, their asynchronous operations.

use super::clock::{Clock, KINDS, Release, Scoped, View};
use super::event::Event;
use super::extent::Seat;
use super::follow::Gaps;
use super::heard::Heard;
use super::tensor::Behind;
use crate::kept::Kept;
use crate::role::{Actor, Scope};
use crate::warp::lanes;
use crate::written::Written;
use std::ops::Range;
use std::sync::Arc;

/// The block that stands for the launch before.
pub(super) const BEFORE: u32 = u32::MAX;

/// Actors of whole warpgroups, and of whole warps.
const MATRIX: usize = Actor::Matrix as usize;
const LOAD: usize = Actor::Load as usize;
const STORE: usize = Actor::Store as usize;

/// The threads of a warp.
#[derive(Debug)]
pub(crate) struct Threads {
    /// The warp's number among all that this machine ever ran, from 1.
    pub number: u32,
    /// The block's number in the grid, and the warp's in the block.
    pub block: u32,
    index: u32,
    /// Threads of a block, rounded up to whole warps.
    stride: usize,
    /// Time.
    pub now: u32,
    views: Views,
    /// View that acquiring and other strong reads brought last.
    acquired: Heard,
    found: Heard,
    /// When each lane last executed a proxy fence.
    fenced: [u32; 32],
    /// Asynchronous operations, if there were any.
    agents: Option<Box<[Agents; 32]>>,
    /// The bytes of local memory that hold something.
    pub local: Box<[Written; 32]>,
    /// The lanes that have written each register, of those that may be read before.
    pub held: Vec<u32>,
    /// Number of arrivals and waits of each lane at the barrier of the cluster, if any.
    gates: Option<Box<[Gates; 32]>>,
    /// Position of each lane's last `tcgen05.fence::after_thread_sync`.
    pub(super) behind: Behind,
    /// The last word of global memory that they changed by an atomic access, and how often they have looked at it since.
    pub(super) arrived: Option<(u64, u32)>,
    /// The registers without a value, if a load has left one without.
    pub(super) gaps: Option<Box<Gaps>>,
}

/// Actions of a lane at the barrier of the cluster.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gates {
    pub arrived: u32,
    pub waited: u32,
}

/// A view for all lanes, or one for each.
#[derive(Debug)]
struct Views {
    same: Arc<View>,
    each: Option<Box<[Arc<View>; 32]>>,
}

impl Views {
    fn of(&self, lane: usize) -> &Arc<View> {
        self.each.as_ref().map_or(&self.same, |each| &each[lane])
    }

    fn split(&mut self) -> &mut [Arc<View>; 32] {
        let same = &self.same;
        self.each.get_or_insert_with(|| Box::new(std::array::from_fn(|_| same.clone())))
    }

    /// Changes the views of lanes. If those are all that live and have the same, they keep having the same.
    fn change(&mut self, group: u32, live: u32, change: impl Fn(&Arc<View>) -> Arc<View>) {
        if live & !group == 0 && self.each.is_none() {
            self.same = change(&self.same);
            return;
        }
        let each = self.split();
        lanes(group).for_each(|lane| each[lane] = change(&each[lane]));
    }
}

/// The asynchronous operations of a thread: for each actor the group that is open, and up to which all are known to be
/// complete.
#[derive(Clone, Copy, Debug, Default)]
struct Agents {
    closed: [u32; KINDS],
    known: [u32; KINDS],
    /// The last group of bulk copies that read shared memory, and its instruction.
    reads: (u32, u32),
}

impl Threads {
    pub(super) fn new(number: u32, (block, index): (u32, u32), stride: usize, view: Arc<View>) -> Threads {
        Threads {
            number,
            block,
            index,
            stride,
            now: 1,
            views: Views { same: view, each: None },
            acquired: Heard::default(),
            found: Heard::default(),
            fenced: [0; 32],
            agents: None,
            local: Default::default(),
            held: Vec::new(),
            gates: None,
            behind: None,
            arrived: None,
            gaps: None,
        }
    }

    /// A lane's local memory holds something at these bytes.
    pub(super) fn mark_local(kept: &mut Kept, lane: usize, bytes: Range<u64>, len: u64) {
        if let Some(threads) = Threads::of_mut(kept) {
            threads.local[lane].mark(bytes.start, bytes.end - bytes.start, len);
        }
    }

    /// A lane's local memory has grown: what is new holds nothing.
    pub(super) fn clear_local(kept: &mut Kept, lane: usize, before: u64, after: u64) {
        if let Some(threads) = Threads::of_mut(kept) {
            threads.local[lane].clear(before, after.saturating_sub(before), after);
        }
    }

    /// The first warp of the warpgroup: `wgmma` is one operation of all four. Its number, and its lane.
    pub(super) fn leader(&self) -> (u32, u32) {
        (self.number - self.index % 4, 1)
    }

    /// Gives lanes a view; if those are all that live, all have the same again.
    pub(super) fn set_view(&mut self, group: u32, live: u32, view: &Arc<View>) {
        match live & !group {
            0 => self.views = Views { same: view.clone(), each: None },
            _ => self.views.change(group, live, |_| view.clone()),
        }
    }

    /// Lanes learn what others have released.
    pub(super) fn acquire(&mut self, group: u32, live: u32, view: &Arc<View>) {
        if !self.acquired.is_news(group, view) {
            return;
        }
        self.views.change(group, live, |own| View::joined(own, view));
    }

    /// Lanes release what they know and have done.
    pub(super) fn release(&mut self, group: u32, into: &mut Release) {
        match &self.views.each {
            None => into.join(&self.views.same),
            Some(each) => lanes(group).for_each(|lane| into.join(&each[lane])),
        }
        let first = 32 * self.index as usize;
        let ticks = into.view.seen.ticks_mut(self.block, self.stride);
        lanes(group).for_each(|lane| ticks[first + lane] = self.now);
        if lanes(group).any(|lane| self.fenced[lane] > 0) {
            let ticks = into.view.fenced.ticks_mut(self.block, self.stride);
            lanes(group).for_each(|lane| ticks[first + lane] = ticks[first + lane].max(self.fenced[lane]));
        }
        if let Some(agents) = &self.agents {
            let ticks = into.view.seen.ticks_mut(self.block, KINDS * self.stride);
            let leader = 32 * (self.index as usize & !3);
            for (lane, kind) in lanes(group).flat_map(|lane| (1..KINDS).map(move |kind| (lane, kind))) {
                let place = match kind {
                    MATRIX => leader,
                    LOAD | STORE => first,
                    _ => first + lane,
                };
                let tick = &mut ticks[kind * self.stride + place];
                *tick = (*tick).max(agents[lane].known[kind]);
            }
        }
        self.now = self.now.saturating_add(1);
    }

    /// Snapshot of a lane's view.
    pub(super) fn snapshot(&mut self, lane: usize) -> Arc<View> {
        let mut release = Release::default();
        self.release(1 << lane, &mut release);
        Arc::new(release.view)
    }

    /// All that lanes know becomes visible to the async proxy.
    pub(super) fn proxy_fence(&mut self, group: u32, live: u32) {
        let mut copies = Clock::default();
        if let Some(agents) = &self.agents {
            let first = Actor::Copy as usize * self.stride + 32 * self.index as usize;
            let ticks = copies.ticks_mut(self.block, first + 32);
            lanes(group).for_each(|lane| ticks[first + lane] = agents[lane].known[Actor::Copy as usize]);
        }
        self.views.change(group, live, |view| {
            let mut fenced = (**view).clone();
            fenced.fenced.join(&view.seen);
            fenced.fenced.join(&copies);
            Arc::new(fenced)
        });
        lanes(group).for_each(|lane| self.fenced[lane] = self.now);
        self.now = self.now.saturating_add(1);
    }

    /// Returns true if all of an event of a block happened before this lane.
    pub(super) fn knows(&self, lane: usize, event: Event, place: Seat) -> bool {
        self.knows_by(&self.views.of(lane).seen, lane, event, place)
    }

    /// Returns true if at least the reads of an event happened before this lane, so that a write may follow them.
    pub(super) fn knows_read(&self, lane: usize, event: Event, place: Seat) -> bool {
        self.knows(lane, event, place) || self.knows_by(&self.views.of(lane).reads, lane, event, place)
    }

    fn knows_by(&self, clock: &Clock, lane: usize, event: Event, place: Seat) -> bool {
        let actor = event.actor();
        let own = match actor {
            Actor::Phase => false,
            Actor::Matrix => event.warp == self.leader().0,
            Actor::Load | Actor::Store if event.warp == self.number && event.tick <= self.known(lane, actor) => {
                return true;
            }
            _ => event.warp == self.number,
        };
        if own && actor == Actor::Matrix && event.tick <= self.known(lane, actor) {
            return true;
        }
        let itself = own && (actor == Actor::Thread || event.tick <= self.known(lane, actor));
        let others = if itself { event.lanes & !(1 << lane) } else { event.lanes };
        if others == 0 && actor != Actor::Phase {
            return true;
        }
        let Some(ticks) = clock.ticks(place.block) else { return false };
        let tick = |actor: usize| ticks.get(actor).copied().unwrap_or(0);
        match actor {
            Actor::Phase => tick(KINDS * place.stride + event.lanes as usize) >= event.tick,
            _ => {
                let first = place.of(actor);
                lanes(others).all(|other| tick(first + other) >= event.tick)
            }
        }
    }

    /// Position of an actor of the first lane in the clock of the block.
    pub(super) fn place_of(&self, actor: Actor) -> usize {
        actor as usize * self.stride + 32 * self.index as usize
    }

    pub(super) fn view(&self, lane: usize) -> &View {
        self.views.of(lane)
    }

    /// Operations that lanes have issued to the tensor cores run before those issued by threads that learn of them.
    pub(super) fn issue(&mut self, group: u32, live: u32) {
        let (block, first, stride) = (self.block, self.place_of(Actor::Tensor), self.stride);
        for lane in lanes(group) {
            let closed = &mut self.agents()[lane].closed[Actor::Tensor as usize % KINDS];
            *closed += 1;
            let issued = *closed;
            self.views.change(1 << lane, live, |own| {
                let mut own = (**own).clone();
                own.issued.ticks_mut(block, KINDS * stride)[first + lane] = issued;
                Arc::new(own)
            });
        }
    }

    /// Returns true if proxy fences have made all of an event in a lane's past visible to the async proxy.
    pub(super) fn knows_fenced(&self, lane: usize, event: Event, place: Seat) -> bool {
        let clock = &self.views.of(lane).fenced;
        let first = place.of(event.actor());
        lanes(event.lanes).all(|other| {
            let own = event.warp == self.number && other == lane && event.actor() == Actor::Thread;
            clock.tick(place.block, first + other) >= event.tick || own && self.fenced[lane] >= event.tick
        })
    }

    /// The last of its groups that is complete for a lane.
    fn known(&self, lane: usize, actor: Actor) -> u32 {
        self.agents.as_ref().map_or(0, |agents| agents[lane].known[actor as usize % KINDS])
    }

    fn agents(&mut self) -> &mut [Agents; 32] {
        self.agents.get_or_insert_with(|| Box::new([Agents::default(); 32]))
    }

    /// The group in which a lane's asynchronous operations are now, from 1.
    pub(super) fn group(&mut self, lane: usize, actor: Actor) -> u32 {
        self.agents()[lane].closed[actor as usize % KINDS] + 1
    }

    /// A bulk copy of a lane reads shared memory.
    pub(super) fn reads(&mut self, lane: usize, pc: u32) {
        let group = self.group(lane, Actor::Source);
        self.agents()[lane].reads = (group, pc);
    }

    /// A bulk copy that may still read shared memory: the lane that began it, and the instruction.
    pub(super) fn still_reads(&self) -> Option<(usize, u32)> {
        let mut agents = self.agents.iter().flat_map(|agents| agents.iter().enumerate());
        agents.find(|(_, a)| a.reads.0 > a.known[Actor::Source as usize]).map(|(lane, a)| (lane, a.reads.1))
    }

    /// Returns true if a lane has learned anything of a block.
    pub(super) fn heard_of(&self, lane: usize, block: u32) -> bool {
        self.views.of(lane).seen.ticks(block).is_some()
    }

    /// A lane learns that the launch before has ended.
    pub(super) fn wait_for_launch(&mut self, group: u32, live: u32) {
        let mut view = View::default();
        view.seen.ticks_mut(BEFORE, 1)[0] = 1;
        self.acquire(group, live, &Arc::new(view));
    }

    /// Lanes arrive or wait at the barrier of the cluster.
    pub(super) fn at_gate(&mut self, group: u32, count: impl Fn(&mut Gates)) {
        let gates = self.gates.get_or_insert_with(|| Box::new([Gates::default(); 32]));
        lanes(group).for_each(|lane| count(&mut gates[lane]));
    }

    pub(super) fn gates(&self, lane: usize) -> Gates {
        self.gates.as_ref().map_or(Gates::default(), |gates| gates[lane])
    }
    /// Closes the open group of each lane.
    pub(super) fn commit(&mut self, group: u32, actor: Actor) {
        for lane in lanes(group) {
            let closed = &mut self.agents()[lane].closed;
            closed[actor as usize % KINDS] += 1;
            if actor == Actor::Bulk {
                closed[Actor::Source as usize] += 1;
            }
        }
    }

    /// Lanes wait until at most `open` groups are; without a number for everything.
    pub(super) fn wait(&mut self, group: u32, actor: Actor, open: Option<u32>) {
        let kind = actor as usize % KINDS;
        for lane in lanes(group) {
            let Agents { closed, known, .. } = &mut self.agents()[lane];
            closed[kind] += u32::from(open.is_none());
            known[kind] = known[kind].max(closed[kind].saturating_sub(open.unwrap_or(0)));
            if actor == Actor::Bulk {
                known[Actor::Source as usize] = known[Actor::Source as usize].max(known[kind]);
            }
        }
    }

    /// Everything that a lane's agent has begun completes on an mbarrier.
    pub(super) fn hand_over(&mut self, lane: usize, actor: Actor, into: &mut Release) {
        let (first, stride, kind) = (32 * self.index as usize + lane, self.stride, actor as usize % KINDS);
        let closed = &mut self.agents()[lane].closed[kind];
        *closed += 1;
        let closed = *closed;
        // It began after what its thread knew.
        into.join(self.views.of(lane));
        into.view.seen.ticks_mut(self.block, KINDS * stride)[kind * stride + first] = closed;
    }

    /// A strong read of a lane has found this, released in a scope.
    pub(super) fn find(&mut self, lane: usize, live: u32, (view, scope): (&Arc<View>, Scope)) {
        if !self.found.is_news(1 << lane, view) {
            return;
        }
        let view = Arc::new(view.plain());
        self.views.change(1 << lane, live, |own| {
            let mut own = (**own).clone();
            own.find(&view, scope);
            Arc::new(own)
        });
    }

    /// A fence of lanes: what strong reads found in its scope is known, what is known goes with later strong writes to threads of its
    /// scope.
    pub(super) fn fence(&mut self, group: u32, live: u32, scope: Scope) {
        let inner = 0..=scope as usize;
        for lane in lanes(group) {
            let found = self.views.of(lane).found[inner.clone()].to_vec();
            found.iter().flatten().for_each(|found| self.acquire(1 << lane, live, found));
        }
        for lane in lanes(group) {
            let known = Arc::new(self.snapshot(lane).plain());
            self.views.change(1 << lane, live, |own| {
                let mut own = (**own).clone();
                own.found[inner.clone()].fill(None);
                own.publish(&known, scope);
                Arc::new(own)
            });
        }
    }

    /// Views that fences have prepared for a lane's strong writes, by the scope of these.
    pub(super) fn published(&self, lane: usize) -> &Scoped {
        &self.views.of(lane).published
    }

    /// View that a fence of any scope has prepared.
    pub(super) fn prepared(&self, lane: usize) -> Option<Arc<View>> {
        self.published(lane)[Scope::Block as usize].clone()
    }
}

//! Ordering of accesses: fences, barriers, waits and the strong accesses themselves.

use super::clock::{Actor, View};
use super::event::Event;
use super::findings;
use super::findings::Touch;
use super::role::{Act, Role};
use super::threads::{Gates, Threads};
use super::vars::{Copy, Home, Phases, Vars};
use super::{Agent, ClusterWatch, Watch};
use crate::block::{Arrival, Waiter};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::space::Where;
use crate::warp::{Warp, lanes};
use std::sync::Arc;

impl Threads {
    /// View that a strong access carries between threads.
    pub(super) fn synchronise(
        &mut self,
        (watch, live): (&Watch, u32),
        vars: &mut Vars,
        role: Role,
        (key, touch): (u64, &Touch),
    ) {
        let reads = !touch.writes || role.act == Act::Update;
        if let Some(var) = vars.get_mut(&key).filter(|_| reads) {
            for view in var.acquire(self.home(watch), role.scope) {
                match role.order.acquires() {
                    true => self.acquire(touch.lanes, live, &view),
                    false => lanes(touch.lanes).for_each(|lane| self.find(lane, live, &view)),
                }
            }
        }
        if !touch.writes {
            return;
        }
        let home = self.home(watch);
        for lane in lanes(touch.lanes) {
            let view = match role.order.releases() {
                true => Some(self.snapshot(lane)),
                false => self.published(lane),
            };
            if let Some(view) = view {
                vars.entry(key).or_default().release(home, role.scope, &view);
            }
        }
    }

    fn home(&self, watch: &Watch) -> Home {
        Home { block: self.block, cluster: watch.cluster_of(self.block) }
    }

    /// Lanes that synchronise with each other: each knows what all know.
    pub(crate) fn meet(&mut self, group: u32, live: u32) {
        let mut release = super::Release::default();
        self.release(group, &mut release);
        self.set_view(group, live, &Arc::new(release.view));
    }
}

impl Warp {
    /// Lanes see what somebody released, and learn it now or with their next fence.
    pub(crate) fn hear(&mut self, group: u32, view: Option<&Arc<View>>, acquires: bool) {
        match (&mut self.threads, view) {
            (Some(threads), Some(view)) if !acquires => {
                let threads = threads.get_mut();
                lanes(group).for_each(|lane| threads.find(lane, self.live, view));
            }
            _ => self.learn(group, view),
        }
    }

    /// Lanes learn what somebody released.
    pub(crate) fn learn(&mut self, group: u32, view: Option<&Arc<View>>) {
        if let (Some(threads), Some(view)) = (&mut self.threads, view) {
            threads.get_mut().acquire(group, self.live, view);
        }
    }
}

/// Instructions that complete on an mbarrier through the async proxy.
const COPIES: &[&str] = &["cp.async.bulk", "cp.reduce.async.bulk"];

impl Ctx<'_> {
    /// Checks that the running instruction may run now.
    #[inline(never)]
    pub(crate) fn watch_before(&mut self, active: u32) -> Result<(), Fault> {
        let (role, program) = (self.role(), self.program);
        self.agent = None;
        if role.aligned {
            findings::divergence::check(self, active)?;
        }
        let Some(code) = program.code.get(self.warp.at as usize) else { return Ok(()) };
        if let Some(blank) = &code.blank {
            findings::blank::check(self, active, blank)?;
        }
        if self.warp.follows {
            self.follow(active)?;
        }
        let origin = self.warp.origin;
        match role.act {
            Act::Registers(count) => return findings::registers::change(self, count),
            Act::Async { writes: Actor::Matrix, .. } => return findings::flying::check_fence(self, code),
            Act::Gate => self.count_at_gate(active, |gates| gates.waited += 1),
            _ => {}
        }
        findings::flying::check(self)?;
        if !code.written.is_empty() {
            self.warp.flight.touch(code.touched.iter().map(|slot| origin + slot));
        }
        Ok(())
    }

    /// Checks that a guard may decide about these lanes now.
    #[inline(never)]
    pub(crate) fn watch_guard(&self, group: u32, slot: u32) -> Result<(), Fault> {
        findings::blank::check_guard(self, group, slot)?;
        if self.warp.follows { self.follow_guard(group, slot) } else { Ok(()) }
    }

    fn count_at_gate(&mut self, group: u32, count: impl Fn(&mut Gates)) {
        self.warp.threads.iter_mut().for_each(|threads| threads.get_mut().at_gate(group, &count));
    }

    /// Records the changes of the running instruction.
    #[inline(never)]
    pub(crate) fn watch_after(&mut self, active: u32) {
        let (role, live) = (self.role(), self.warp.live);
        let (program, origin, at) = (self.program, self.warp.origin, self.warp.at);
        let Some(threads) = &mut self.warp.threads else { return };
        let threads = threads.get_mut();
        match role.act {
            Act::RegisterFence => self.warp.flight.fence(),
            Act::Load => {
                let code = program.code.get(at as usize);
                let registers = code.into_iter().flat_map(|code| code.written.iter().map(|slot| origin + slot));
                self.warp.flight.load(at, registers);
            }
            Act::Loaded => {
                self.warp.flight.loaded();
                threads.wait(active, Actor::Load, None);
            }
            Act::BeforeSync => threads.before_sync(active, live),
            Act::AfterSync => threads.after_sync(active, live),
            Act::Allocate => {
                let block = self.cluster.watch.as_mut().and_then(|watch| watch.blocks.get_mut(self.block.rank));
                block.into_iter().for_each(|block| block.allocated = Some((at, self.warp.tid[0])));
            }
            Act::Launch => threads.wait_for_launch(active, live),
            Act::Fence => threads.fence(active, live),
            Act::BegunFence => {
                threads.fence(active, live);
                let number = threads.number;
                self.cluster.watch.iter_mut().for_each(|watch| watch.fence_begun(number, active));
            }
            Act::ProxyFence => threads.proxy_fence(active, live),
            Act::Commit(actor) => threads.commit(active, actor),
            Act::Wait(actor, open) => threads.wait(active, actor, open),
            _ => {}
        }
    }

    /// The running operation completes on the mbarrier at this address: its accesses are known to those who have waited
    /// for the phase. Call it before `bytes` and `bytes_mut`, for each mbarrier anew.
    pub(crate) fn complete_on(&mut self, space: Where, lane: usize, at: u64) -> Result<(), Fault> {
        let Some(watch) = self.watch else { return Ok(()) };
        let place = self.mbarrier_place(space, lane, at)?;
        let copy = Copy { pc: self.warp.at, thread: self.warp.tid[lane], block: self.block.id };
        let phases = self.cluster.watch.as_mut().and_then(|watch| watch.phases.get_mut(&place));
        let Some(phases) = phases else { return Ok(()) };
        let number = phases.count.saturating_add(1);
        phases.copies = Some((number, copy));
        self.agent = Some(Agent { rank: place.0, number: phases.agent, phase: number });
        let knows = |threads: &std::cell::RefCell<Threads>| {
            let begun = phases.begun;
            begun.is_none_or(|begun| threads.borrow().knows(lane, begun, watch.place(begun.warp)))
        };
        if self.warp.threads.as_ref().is_some_and(|threads| !knows(threads)) {
            return Err(findings::mbarrier::not_begun(self.program, phases.init, lane, at));
        }
        let sees = |threads: &std::cell::RefCell<Threads>| {
            let begun = phases.begun;
            begun.is_none_or(|begun| threads.borrow().knows_fenced(lane, begun, watch.place(begun.warp)))
        };
        let name = self.program.code.get(self.warp.at as usize).map_or("", |code| code.name);
        let copies = COPIES.iter().any(|copy| name.starts_with(copy));
        if copies && !phases.fenced && self.warp.threads.as_ref().is_some_and(|threads| !sees(threads)) {
            return Err(findings::mbarrier::not_fenced(self.program, (name, phases.init), lane, at));
        }
        Ok(())
    }

    /// Lanes arrive at a barrier of the block.
    pub(crate) fn arrive(&mut self, barrier: usize, arrival: &Arrival, waiter: Option<Waiter>) -> Result<(), Fault> {
        if let (Some(threads), Some(left)) = (&mut self.warp.threads, self.block.left(barrier)) {
            threads.get_mut().release(arrival.lanes, left);
        }
        self.block.arrive(barrier, arrival, waiter)
    }

    /// Lanes arrive at the barrier of the cluster.
    pub(crate) fn arrive_at_gate(&mut self, group: u32) {
        self.count_at_gate(group, |gates| gates.arrived += 1);
        let releases = self.role().order.releases();
        let (Some(threads), Some(watch)) = (&mut self.warp.threads, &mut self.cluster.watch) else { return };
        let threads = threads.get_mut();
        if releases {
            threads.release(group, &mut watch.gate);
        } else {
            lanes(group).filter_map(|lane| threads.published(lane)).for_each(|view| watch.gate.join(&view));
        }
    }

    /// An mbarrier is initialised.
    pub(crate) fn begin_phases(&mut self, lane: usize, place: (usize, u64), at: u64) -> Result<(), Fault> {
        let (Some(_), Some(watch)) = (self.watch, &mut self.cluster.watch) else { return Ok(()) };
        if let Some(phases) = watch.phases.get(&place) {
            return Err(findings::mbarrier::again(self.program, phases.init, lane, at));
        }
        let Some(block) = watch.blocks.get_mut(place.0) else { return Ok(()) };
        block.agents += 1;
        let (agent, init) = (block.agents - 1, self.warp.at);
        let begun = self.warp.threads.as_mut().map(|threads| {
            let threads = threads.get_mut();
            Event::new(threads.number, 1 << lane, threads.now, (Actor::Thread, init), Role::PLAIN)
        });
        watch.phases.insert(place, Phases { init, agent, begun, ..Phases::default() });
        Ok(())
    }

    /// The use of an mbarrier ends.
    pub(crate) fn end_phases(&mut self, lane: usize, space: Where, at: u64) -> Result<(), Fault> {
        let place = self.mbarrier_place(space, lane, at)?;
        if let Some(watch) = &mut self.cluster.watch {
            watch.phases.remove(&place);
            watch.ended.insert(place, self.warp.at);
        }
        match self.cluster.waiters_of(place).0 {
            0 => Ok(()),
            _ => Err(findings::mbarrier::ended(self, lane, place, at)),
        }
    }

    /// A lane arrives at an mbarrier, or an asynchronous operation of it does.
    pub(crate) fn arrive_at_phase(&mut self, lane: usize, place: (usize, u64)) {
        let role = self.role();
        let (Some(threads), Some(watch)) = (&mut self.warp.threads, &mut self.cluster.watch) else { return };
        let Some(phases) = watch.phases.get_mut(&place) else { return };
        let threads = threads.get_mut();
        match role.order.releases() {
            true => threads.release(1 << lane, &mut phases.arriving),
            false => threads.published(lane).iter().for_each(|view| phases.arriving.join(view)),
        }
    }

    /// The operations that an agent of a lane has begun so far complete in the running phase of an mbarrier.
    pub(crate) fn hand_over(&mut self, lane: usize, actor: Actor, place: (usize, u64)) {
        let (Some(threads), Some(watch)) = (&mut self.warp.threads, &mut self.cluster.watch) else { return };
        if let Some(phases) = watch.phases.get_mut(&place) {
            threads.get_mut().hand_over(lane, actor, &mut phases.arriving);
        }
    }

    /// A lane has seen that the last phase of an mbarrier is complete.
    pub(crate) fn learn_phase(&mut self, lane: usize, place: (usize, u64)) {
        let phases = self.cluster.watch.as_mut().and_then(|watch| watch.phases.get_mut(&place));
        let Some(phases) = phases else { return };
        phases.seen = phases.count;
        let done = phases.done.clone();
        self.warp.hear(1 << lane, done.as_ref(), self.role().order.acquires());
    }
}

impl ClusterWatch {
    /// A phase of an mbarrier is complete: gives what its waiters learn.
    pub(crate) fn complete_phase(&mut self, watch: &Watch, place: (usize, u64)) -> Option<Arc<View>> {
        let block = self.blocks.get(place.0)?.number;
        let phases = self.phases.get_mut(&place)?;
        phases.count = phases.count.saturating_add(1);
        phases.history.turn();
        let agent = watch.agent_place(phases.agent);
        phases.arriving.view.seen.ticks_mut(block, agent + 1)[agent] = phases.count;
        phases.done = Some(phases.arriving.shared());
        phases.done.clone()
    }

    /// A fence of lanes of a warp behind the mbarriers that they have initialised.
    fn fence_begun(&mut self, warp: u32, group: u32) {
        let own = |begun: &Event| begun.warp == warp && begun.lanes & group != 0;
        for phases in self.phases.values_mut().filter(|phases| phases.begun.as_ref().is_some_and(own)) {
            phases.fenced = true;
        }
    }

    /// The barrier of the cluster opens.
    pub(crate) fn open(&mut self) {
        self.opened = Some(self.gate.shared());
    }

    /// View of those who went through it.
    pub(crate) fn opened(&self) -> Option<&Arc<View>> {
        self.opened.as_ref()
    }
}

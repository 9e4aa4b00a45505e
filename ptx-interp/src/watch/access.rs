//! Accesses, as `ctx.bytes` and its kin report them.

use super::event::Event;
use super::extent::Extent;
use super::findings;
use super::ranks::is_over;
use super::shadow::{Access, Clash, Relation, Shadow};
use super::threads::{BEFORE, Threads};
use super::{Agent, ClusterWatch, Meeting, Reach, Watch};
use crate::exec::ExecState;
use crate::fault::Fault;
use crate::observe::Touch;
use crate::role::{Act, Actor, Order, Role, Scope};
use crate::space::{Place, Where};
use crate::warp::lanes;
use std::cell::{RefCell, RefMut};

/// The word that stands for all memory of the host's.
const OUTSIDE: u64 = u64::MAX;

/// Who accesses, and how.
struct Who<'a> {
    watch: &'a Watch,
    threads: &'a Threads,
    /// The lanes that access, all at once.
    lanes: u32,
    event: Event,
    role: Role,
    writes: bool,
}

impl Who<'_> {
    /// Relation of the access to an earlier one.
    fn relation(&self, other: Event, wrote: bool) -> Relation {
        let Some(launch) = self.watch.launch_of(other.warp) else { return Relation::Fine };
        let place = launch.place(other.warp);
        if other.is_strong() && self.event.is_strong() && self.agree(other, (&launch, place.block)) {
            return Relation::Fine;
        }
        if launch.first != self.watch.own.first {
            let over = |lane: usize| is_over(&self.threads.view(lane).seen, &launch);
            if lanes(self.lanes).all(over) {
                return Relation::Fine;
            }
        }
        // Lanes that write the same together, and do so again.
        let again = self.lanes.count_ones() > 1 && wrote && self.writes && self.event.alike(other);
        if again && self.lanes == other.lanes {
            return Relation::Fine;
        }
        if !lanes(self.lanes).all(|lane| self.threads.knows(lane, other, place)) {
            if !lanes(self.lanes).all(|lane| self.threads.knows_read(lane, other, place)) {
                return Relation::Apart;
            }
            if wrote {
                return Relation::Narrow;
            }
        }
        if wrote && other.is_object() && !matches!(self.role.act, Act::Object | Act::Begin) {
            return Relation::Object;
        }
        let generic = matches!(other.actor(), Actor::Thread | Actor::Copy);
        let fenced = || lanes(self.lanes).all(|lane| self.threads.knows_fenced(lane, other, place));
        if self.role.through_async_proxy() && !self.writes && wrote && generic && !fenced() {
            return Relation::Unfenced;
        }
        Relation::Fine
    }

    /// Returns true if the scopes of both include the other.
    fn agree(&self, other: Event, (launch, block): (&Extent, u32)) -> bool {
        let own = self.watch.place(self.event.warp).block;
        match self.event.scope().min(other.scope()) {
            Scope::Block => own == block,
            Scope::Cluster => self.watch.own.cluster_of(own) == launch.cluster_of(block),
            Scope::Gpu => self.watch.own.rank == launch.rank,
            Scope::System => true,
        }
    }

    fn look(&self, shadow: &mut Shadow, at: u64, size: u64) -> Result<(), Clash> {
        let relation = |other, wrote| self.relation(other, wrote);
        let early = self.watch.early(self.threads, self.lanes);
        let access = Access { event: self.event, relation: &relation, since: self.watch.since, early };
        if self.writes { shadow.write(at, size, &access) } else { shadow.read(at, size, &access) }
    }
}

impl Watch {
    /// The first warp of the launch before, if lanes do not know that it has ended; else the greatest number.
    fn early(&self, threads: &Threads, group: u32) -> u32 {
        match self.before {
            Some(before) if lanes(group).any(|lane| !threads.heard_of(lane, BEFORE)) => before,
            _ => u32::MAX,
        }
    }
}

fn first(group: u32) -> usize {
    group.trailing_zeros() as usize % 32
}

impl Watch {
    /// A whole warp reads neighbors, or writes them. `false`: the lanes must be looked at one by one.
    pub(super) fn look_at_row(&self, exec: &ExecState, place: Place, size: u64, writes: bool) -> bool {
        let Some(threads) = Threads::of(&exec.warp.kept) else { return true };
        let Some(note) = self.notes.at(exec.warp.at) else { return true };
        let role = exec.role();
        let whole = Touch { place, lanes: u32::MAX, address: place.at, size: 32 * size, writes };
        let leaves =
            note.within.as_ref().is_some_and(|within| within.leaves(place.space, place.at, whole.size).is_some());
        if role.act != Act::Plain || role.order != Order::Weak || leaves || !self.row_is_written(exec, threads, &whole)
        {
            return (0..32u64).all(|lane| {
                let place = Place { at: place.at + lane * size, ..place };
                self.look_at(exec, &Touch { place, lanes: 1 << lane, address: place.at, size, writes }).is_ok()
            });
        }
        let Some((mut shadow, at)) = self.shadow_of(exec, place) else { return true };
        let threads = threads.borrow();
        let early = self.early(&threads, u32::MAX);
        (0..32u64).all(|lane| {
            let lanes = 1 << lane;
            let event = Event::new(threads.number, lanes, threads.now, (Actor::Thread, exec.warp.at), role);
            let who = Who { watch: self, threads: &threads, lanes, event, role, writes };
            let relation = |other, wrote| who.relation(other, wrote);
            let access = Access { event, relation: &relation, since: self.since, early };
            let at = at + lane * size;
            if writes { shadow.write(at, size, &access).is_ok() } else { shadow.read(at, size, &access).is_ok() }
        })
    }

    fn row_is_written(&self, exec: &ExecState, threads: &RefCell<Threads>, whole: &Touch) -> bool {
        whole.writes || self.check_written(exec, threads, whole).is_ok()
    }

    /// The bytes hold something from now on.
    pub(super) fn mark(&self, exec: &mut ExecState, place: Place, group: u32, size: u64) {
        match place.space {
            Where::Global | Where::Generic => exec.global.mark(place.at, size),
            Where::Shared | Where::Cluster => {
                let len = exec.cluster.memory.get(place.rank).map_or(0, Vec::len) as u64;
                let blocks = ClusterWatch::of_mut(&mut exec.cluster.kept);
                if let Some(block) = blocks.and_then(|watch| watch.blocks.get_mut(place.rank)) {
                    block.written.mark(place.at, size, len);
                    block.tiles.forget(place.at, size);
                }
            }
            Where::Local => {
                let (lane, end) = (first(group), place.at.saturating_add(size));
                let len = exec.warp.local[lane].len() as u64;
                Threads::mark_local(&mut exec.warp.kept, lane, place.at..end, len);
            }
            Where::Const | Where::Param => {}
        }
    }

    /// A read by a lane that need not find something in all bytes: gives a bit for each where there is nothing, of the first 64.
    pub(super) fn look_for_gaps(&self, exec: &ExecState, touch: &Touch) -> Result<u64, Fault> {
        self.stays_within(exec, touch)?;
        self.in_order(exec, touch)?;
        let Some(threads) = Threads::of(&exec.warp.kept) else { return Ok(0) };
        if self.missing(exec, threads, touch).is_none() {
            return Ok(0);
        }
        let nothing = |at: u64| {
            let byte = Touch { place: touch.at(at), size: 1, ..*touch };
            self.missing(exec, threads, &byte).is_some()
        };
        Ok((0..touch.size.min(64)).fold(0, |mask, at| mask | u64::from(nothing(at)) << at))
    }

    /// Objects to an access that is not sound.
    pub(super) fn look_at(&self, exec: &ExecState, touch: &Touch) -> Result<(), Fault> {
        let Some(threads) = Threads::of(&exec.warp.kept) else { return Ok(()) };
        let role = exec.role();
        self.stays_within(exec, touch)?;
        if !touch.writes && role.act != Act::Object || role.act == Act::Update {
            self.check_written(exec, threads, touch)?;
        }
        self.in_order(exec, touch)
    }

    /// Objects if the access leaves the variable to which its address belongs.
    fn stays_within(&self, exec: &ExecState, touch: &Touch) -> Result<(), Fault> {
        let Touch { place, size, .. } = *touch;
        if let Some(within) = self.notes.at(exec.warp.at).and_then(|note| note.within.as_ref()) {
            let frame = if place.space == Where::Local { u64::from(exec.warp.frame[first(touch.lanes)]) } else { 0 };
            if let Some(extent) = within.leaves(place.space, place.at.wrapping_sub(frame), size) {
                return Err(findings::variable::leaves(exec, touch, extent, place.at.wrapping_sub(frame)));
            }
        }
        Ok(())
    }

    /// Objects if nothing orders the access and an earlier one.
    fn in_order(&self, exec: &ExecState, touch: &Touch) -> Result<(), Fault> {
        let Some(threads) = Threads::of(&exec.warp.kept) else { return Ok(()) };
        let (role, place) = (exec.role(), touch.place);
        let Some((mut shadow, at)) = self.shadow_of(exec, place) else {
            self.order_outside(exec, &mut threads.borrow_mut(), role, touch);
            return Ok(());
        };
        let mut threads = threads.borrow_mut();
        let event = self.event(exec, &mut threads, role, touch);
        if place.space == Where::Shared && place.rank != exec.block.rank && event.actor() == Actor::Thread {
            self.reach(exec, &threads, touch)?;
        }
        let who = Who { watch: self, threads: &threads, lanes: touch.lanes, event, role, writes: touch.writes };
        let looked = who.look(&mut shadow, at, touch.size);
        drop(shadow);
        looked.map_err(|clash| findings::race::found(exec, self, touch, &clash))?;
        if role.order != Order::Weak && matches!(role.act, Act::Plain | Act::Update) {
            let key = (touch.place.rank as u64) << 48 ^ touch.place.at;
            let (actor, access) = ((self, exec.warp.live), (key, touch));
            if matches!(place.space, Where::Global | Where::Generic) {
                threads.synchronize(actor, &mut self.together().vars, role, access);
                self.meet_in_grid(exec, &mut threads, role, touch)?;
            } else if let Some(cluster) = ClusterWatch::of(&exec.cluster.kept) {
                threads.synchronize(actor, &mut cluster.vars.borrow_mut(), role, access);
            }
        }
        Ok(())
    }

    /// A strong access to memory of the host's. Others may pass on through other words what a thread has released in one: whoever acquires there
    /// learns what all have released, so that nothing is called a race that is none.
    fn order_outside(&self, exec: &ExecState, threads: &mut Threads, role: Role, touch: &Touch) {
        let is_outside =
            matches!(touch.place.space, Where::Global | Where::Generic) && exec.global.is_outside(touch.place.at);
        if is_outside && role.order != Order::Weak && matches!(role.act, Act::Plain | Act::Update) {
            threads.synchronize((self, exec.warp.live), &mut self.together().vars, role, (OUTSIDE, touch));
        }
    }

    /// Objects if blocks that need not be resident at once wait for each other in a word of global memory: two of them changed
    /// it, then looked at it, and one had to look again.
    fn meet_in_grid(&self, exec: &ExecState, threads: &mut Threads, role: Role, touch: &Touch) -> Result<(), Fault> {
        let Some(meetings) = &self.meetings else { return Ok(()) };
        if role.act == Act::Update {
            threads.arrived = role.counts.then_some((touch.place.at, 0));
            return Ok(());
        }
        let Some((at, looks)) = threads.arrived.as_mut().filter(|(at, _)| !touch.writes && *at == touch.place.at)
        else {
            return Ok(());
        };
        *looks = looks.saturating_add(1);
        let mut meetings = meetings.borrow_mut();
        let own = Meeting { block: threads.block, pc: exec.warp.at, waited: false };
        let meeting = meetings.entry(*at).or_insert(own);
        meeting.waited |= *looks > 1;
        match meeting.waited && meeting.block != threads.block {
            true => Err(findings::grid::not_cooperative(exec, self, (meeting.block, meeting.pc), touch)),
            false => Ok(()),
        }
    }

    /// An access to memory of another block of the cluster: it must have begun, and must not end before.
    fn reach(&self, exec: &ExecState, threads: &Threads, touch: &Touch) -> Result<(), Fault> {
        let block = ClusterWatch::of(&exec.cluster.kept).and_then(|watch| watch.blocks.get(touch.place.rank));
        let Some(block) = block else { return Ok(()) };
        let begun = |lane: usize| threads.heard_of(lane, block.number) || threads.gates(lane).waited > 0;
        if let Some(lane) = lanes(touch.lanes).find(|lane| !begun(*lane)) {
            return Err(findings::cluster::not_begun(exec, touch, lane));
        }
        // An arrival has released what its thread did before it touches the mbarrier.
        let role = exec.role();
        let tick = threads.now - u32::from(role.act == Act::Object && role.order.releases());
        let mut reached = block.reached.borrow_mut();
        let by = reached.entry(threads.number).or_insert([Reach::default(); 32]);
        for lane in lanes(touch.lanes) {
            by[lane] = Reach { tick, arrived: threads.gates(lane).arrived, pc: exec.warp.at };
        }
        Ok(())
    }

    /// The shadow of a place, and where in the shadow it is.
    fn shadow_of<'c>(&self, exec: &'c ExecState, place: Place) -> Option<(RefMut<'c, Shadow>, u64)> {
        match place.space {
            Where::Global | Where::Generic => {
                let (kept, at) = exec.global.kept(place.at)?;
                Some((RefMut::filter_map(kept.borrow_mut(), |kept| kept.get_or_default()).ok()?, at))
            }
            Where::Shared | Where::Cluster => {
                Some((ClusterWatch::of(&exec.cluster.kept)?.blocks.get(place.rank)?.shadow.borrow_mut(), place.at))
            }
            _ => None,
        }
    }

    fn event(&self, exec: &ExecState, threads: &mut Threads, role: Role, touch: &Touch) -> Event {
        let actor = match role.act {
            Act::Async { writes, .. } if touch.writes => writes,
            Act::Async { reads, .. } => reads,
            _ => Actor::Thread,
        };
        let pc = exec.warp.at;
        let lane = touch.lanes.trailing_zeros() as usize % 32;
        match (actor, self.agent.get()) {
            (Actor::Phase, Some(Agent { rank, number, phase })) => {
                let block = ClusterWatch::of(&exec.cluster.kept)
                    .and_then(|c| c.blocks.get(rank))
                    .map_or(self.own.base, |b| b.number);
                Event::new(self.own.first_warp(block), number, phase, (actor, pc), role)
            }
            (Actor::Thread | Actor::Phase, _) => {
                let event = Event::new(threads.number, touch.lanes, threads.now, (Actor::Thread, pc), role);
                if role.act == Act::Begin { event.object() } else { event }
            }
            (Actor::Matrix, _) => {
                let (warp, lanes) = threads.leader();
                Event::new(warp, lanes, threads.group(lane, actor), (actor, pc), role)
            }
            _ => {
                if actor == Actor::Source && touch.place.space == Where::Shared {
                    threads.reads(lane, pc);
                }
                Event::new(threads.number, touch.lanes, threads.group(lane, actor), (actor, pc), role)
            }
        }
    }

    /// Checks that all of the bytes have been written.
    fn check_written(&self, exec: &ExecState, threads: &RefCell<Threads>, touch: &Touch) -> Result<(), Fault> {
        let missing = self.missing(exec, threads, touch);
        missing.map_or(Ok(()), |byte| Err(findings::unwritten::found(exec, &self.notes, touch, byte - touch.place.at)))
    }

    /// The first of the bytes that nobody has written.
    fn missing(&self, exec: &ExecState, threads: &RefCell<Threads>, touch: &Touch) -> Option<u64> {
        let Touch { place, size, .. } = *touch;
        match place.space {
            Where::Global | Where::Generic => exec.global.unwritten(place.at, size),
            Where::Shared | Where::Cluster => {
                let block = ClusterWatch::of(&exec.cluster.kept).and_then(|watch| watch.blocks.get(place.rank));
                block.and_then(|block| block.written.missing(place.at, size))
            }
            Where::Local => {
                let lane = touch.lanes.trailing_zeros() as usize % 32;
                threads.borrow().local[lane].missing(place.at, size)
            }
            Where::Const | Where::Param => None,
        }
    }
}

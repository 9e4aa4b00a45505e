//! Entry points through which `ctx.bytes` and its kin report accesses.

use super::clock::Actor;
use super::event::Event;
use super::findings::{self, Touch};
use super::role::{Act, Order, Role, Scope};
use super::shadow::{Access, Clash, Relation, Shadow};
use super::threads::{BEFORE, Threads};
use super::vars::Vars;
use super::{Agent, Meeting, Reach, Watch};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::space::{Place, Where};
use crate::warp::lanes;
use std::cell::RefCell;

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
        let place = self.watch.place(other.warp);
        if other.is_strong() && self.event.is_strong() && self.agree(other, place.0) {
            return Relation::Fine;
        }
        // Lanes that write the same together, and do so again.
        let again = self.lanes.count_ones() > 1 && wrote && self.writes && self.event.alike(other);
        if again && self.lanes == other.lanes {
            return Relation::Fine;
        }
        if !lanes(self.lanes).all(|lane| self.threads.knows(lane, other, place)) {
            return Relation::Apart;
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
    fn agree(&self, other: Event, block: u32) -> bool {
        let own = self.watch.place(self.event.warp).0;
        match self.event.scope().min(other.scope()) {
            Scope::Block => own == block,
            Scope::Cluster => self.watch.cluster_of(own) == self.watch.cluster_of(block),
            Scope::Gpu | Scope::System => true,
        }
    }

    fn look(&self, shadow: &RefCell<Shadow>, at: u64, size: u64) -> Result<(), Clash> {
        let relation = |other, wrote| self.relation(other, wrote);
        let early = self.watch.early(self.threads, self.lanes);
        let access = Access { event: self.event, relation: &relation, since: self.watch.first, early };
        let mut shadow = shadow.borrow_mut();
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

impl Ctx<'_> {
    /// A read by lanes that read the same bytes.
    #[inline(never)]
    pub(crate) fn watch_read(&self, place: Place, lanes: u32, address: u64, size: u64) -> Result<(), Fault> {
        self.touch(&Touch { place, lanes, address, size, writes: false })
    }

    /// A write, or an atomic update.
    #[inline(never)]
    pub(crate) fn watch_write(&mut self, place: Place, lanes: u32, address: u64, size: u64) -> Result<(), Fault> {
        self.touch(&Touch { place, lanes, address, size, writes: true })?;
        self.mark(place, lanes, size);
        Ok(())
    }

    /// A whole warp reads neighbours, or writes them. `false`: the lanes must be looked at one by one.
    #[inline(never)]
    pub(crate) fn watch_row(&self, place: Place, size: u64, writes: bool) -> bool {
        let (Some(watch), Some(threads)) = (self.watch, &self.warp.threads) else { return true };
        let Some(code) = self.program.code.get(self.warp.at as usize) else { return true };
        let role = code.role;
        let whole = Touch { place, lanes: u32::MAX, address: place.at, size: 32 * size, writes };
        let leaves =
            code.within.as_ref().is_some_and(|within| within.leaves(place.space, place.at, whole.size).is_some());
        if role.act != Act::Plain || role.order != Order::Weak || leaves || !self.row_is_written(threads, &whole) {
            return (0..32u64).all(|lane| {
                let place = Place { at: place.at + lane * size, ..place };
                self.touch(&Touch { place, lanes: 1 << lane, address: place.at, size, writes }).is_ok()
            });
        }
        let Some((shadow, _, at)) = self.shadow_of(watch, place) else { return true };
        let threads = threads.borrow();
        let early = watch.early(&threads, u32::MAX);
        let mut shadow = shadow.borrow_mut();
        (0..32u64).all(|lane| {
            let lanes = 1 << lane;
            let event = Event::new(threads.number, lanes, threads.now, (Actor::Thread, self.warp.at), role);
            let who = Who { watch, threads: &threads, lanes, event, role, writes };
            let relation = |other, wrote| who.relation(other, wrote);
            let access = Access { event, relation: &relation, since: watch.first, early };
            let at = at + lane * size;
            if writes { shadow.write(at, size, &access).is_ok() } else { shadow.read(at, size, &access).is_ok() }
        })
    }

    fn row_is_written(&self, threads: &RefCell<Threads>, whole: &Touch) -> bool {
        whole.writes || self.check_written(threads, whole).is_ok()
    }

    /// A lane works on an mbarrier: it must know of its beginning.
    pub(crate) fn watch_object(&self, space: Where, lane: usize, at: u64, size: u64) -> Result<(), Fault> {
        match self.role().act {
            Act::Object => self.bytes(space, lane, at, size).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// The bytes hold something from now on.
    pub(crate) fn mark(&mut self, place: Place, group: u32, size: u64) {
        match place.space {
            Where::Global | Where::Generic => self.global.mark(place.at, size),
            Where::Shared => {
                let len = self.cluster.memory.get(place.rank).map_or(0, Vec::len) as u64;
                let block = self.cluster.watch.as_mut().and_then(|watch| watch.blocks.get_mut(place.rank));
                if let Some(block) = block {
                    block.written.mark(place.at, size, len);
                    block.tiles.forget(place.at, size);
                }
            }
            Where::Local => {
                let lane = group.trailing_zeros() as usize % 32;
                self.warp.mark_local(lane, place.at, size);
            }
            Where::Const | Where::Param => {}
        }
    }

    /// A read by a lane that need not find something in all bytes: gives a bit for each where there is nothing, of the first 64.
    #[inline(never)]
    pub(crate) fn watch_gaps(&self, place: Place, lane: usize, address: u64, size: u64) -> Result<u64, Fault> {
        let touch = Touch { place, lanes: 1 << lane, address, size, writes: false };
        self.stays_within(&touch)?;
        self.in_order(&touch)?;
        let Some(threads) = &self.warp.threads else { return Ok(0) };
        if self.missing(threads, &touch).is_none() {
            return Ok(0);
        }
        let nothing = |at: u64| {
            let byte = Touch { place: touch.at(at), size: 1, ..touch };
            self.missing(threads, &byte).is_some()
        };
        Ok((0..size.min(64)).fold(0, |mask, at| mask | u64::from(nothing(at)) << at))
    }

    /// The finding about a byte of a read without a value.
    #[cold]
    pub(crate) fn gap(&self, place: Place, lane: usize, (address, size): (u64, u64), byte: u64) -> Fault {
        let touch = Touch { place, lanes: 1 << lane, address, size, writes: false };
        findings::unwritten::found(self, &touch, byte)
    }

    fn touch(&self, touch: &Touch) -> Result<(), Fault> {
        let Some(threads) = self.warp.threads.as_ref().filter(|_| self.watch.is_some()) else { return Ok(()) };
        let role = self.role();
        self.stays_within(touch)?;
        if !touch.writes && role.act != Act::Object || role.act == Act::Update {
            self.check_written(threads, touch)?;
        }
        self.in_order(touch)
    }

    /// Objects if the access leaves the variable to which its address belongs.
    fn stays_within(&self, touch: &Touch) -> Result<(), Fault> {
        let Touch { place, size, .. } = *touch;
        let code = self.program.code.get(self.warp.at as usize);
        if let Some(within) = code.and_then(|code| code.within.as_ref()) {
            let frame = if place.space == Where::Local { u64::from(self.warp.frame[first(touch.lanes)]) } else { 0 };
            if let Some(extent) = within.leaves(place.space, place.at.wrapping_sub(frame), size) {
                return Err(findings::bounds::leaves(self, touch, extent, place.at.wrapping_sub(frame)));
            }
        }
        Ok(())
    }

    /// Objects if nothing orders the access and an earlier one.
    fn in_order(&self, touch: &Touch) -> Result<(), Fault> {
        let (Some(watch), Some(threads)) = (self.watch, &self.warp.threads) else { return Ok(()) };
        let (role, place) = (self.role(), touch.place);
        let Some((shadow, vars, at)) = self.shadow_of(watch, touch.place) else { return Ok(()) };
        let mut threads = threads.borrow_mut();
        let event = self.event(watch, &mut threads, role, touch);
        if place.space == Where::Shared && place.rank != self.block.rank && event.actor() == Actor::Thread {
            self.reach(&threads, touch)?;
        }
        let who = Who { watch, threads: &threads, lanes: touch.lanes, event, role, writes: touch.writes };
        who.look(shadow, at, touch.size).map_err(|clash| findings::race::found(self, watch, touch, &clash))?;
        if role.order != Order::Weak && matches!(role.act, Act::Plain | Act::Update) {
            let key = (touch.place.rank as u64) << 48 ^ touch.place.at;
            threads.synchronise((watch, self.warp.live), &mut vars.borrow_mut(), role, (key, touch));
            if matches!(place.space, Where::Global | Where::Generic) {
                self.meet_in_grid(watch, &mut threads, role, touch)?;
            }
        }
        Ok(())
    }

    /// Objects if blocks that need not be resident at once wait for each other in a word of global memory: two of them changed
    /// it, then looked at it, and one had to look again.
    fn meet_in_grid(&self, watch: &Watch, threads: &mut Threads, role: Role, touch: &Touch) -> Result<(), Fault> {
        let Some(meetings) = &watch.meetings else { return Ok(()) };
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
        let own = Meeting { block: threads.block, pc: self.warp.at, waited: false };
        let meeting = meetings.entry(*at).or_insert(own);
        meeting.waited |= *looks > 1;
        match meeting.waited && meeting.block != threads.block {
            true => Err(findings::grid::not_cooperative(self, watch, (meeting.block, meeting.pc), touch)),
            false => Ok(()),
        }
    }

    /// An access to memory of another block of the cluster: it must have begun, and must not end before.
    fn reach(&self, threads: &Threads, touch: &Touch) -> Result<(), Fault> {
        let block = self.cluster.watch.as_ref().and_then(|watch| watch.blocks.get(touch.place.rank));
        let Some(block) = block else { return Ok(()) };
        let begun = |lane: usize| threads.heard_of(lane, block.number) || threads.gates(lane).waited > 0;
        if let Some(lane) = lanes(touch.lanes).find(|lane| !begun(*lane)) {
            return Err(findings::cluster::not_begun(self, touch, lane));
        }
        // An arrival has released what its thread did before it touches the mbarrier.
        let role = self.role();
        let tick = threads.now - u32::from(role.act == Act::Object && role.order.releases());
        let mut reached = block.reached.borrow_mut();
        let by = reached.entry(threads.number).or_default();
        for lane in lanes(touch.lanes) {
            by[lane] = Reach { tick, arrived: threads.gates(lane).arrived, pc: self.warp.at };
        }
        Ok(())
    }

    /// The shadow of a place, what strong accesses there carry, and where in the shadow it is.
    fn shadow_of<'a>(
        &'a self,
        watch: &'a Watch,
        place: Place,
    ) -> Option<(&'a RefCell<Shadow>, &'a RefCell<Vars>, u64)> {
        match place.space {
            Where::Global | Where::Generic => {
                let (shadow, at) = self.global.shadow(place.at)?;
                Some((shadow, &watch.vars, at))
            }
            Where::Shared => {
                let cluster = self.cluster.watch.as_ref()?;
                Some((&cluster.blocks.get(place.rank)?.shadow, &cluster.vars, place.at))
            }
            _ => None,
        }
    }

    fn event(&self, watch: &Watch, threads: &mut Threads, role: Role, touch: &Touch) -> Event {
        let actor = match role.act {
            Act::Async { writes, .. } if touch.writes => writes,
            Act::Async { reads, .. } => reads,
            _ => Actor::Thread,
        };
        let pc = self.warp.at;
        let lane = touch.lanes.trailing_zeros() as usize % 32;
        match (actor, self.agent) {
            (Actor::Phase, Some(Agent { rank, number, phase })) => {
                let block = self.cluster.watch.as_ref().and_then(|c| c.blocks.get(rank)).map_or(0, |b| b.number);
                Event::new(watch.first + block * watch.warps, number, phase, (actor, pc), role)
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
    fn check_written(&self, threads: &RefCell<Threads>, touch: &Touch) -> Result<(), Fault> {
        let missing = self.missing(threads, touch);
        missing.map_or(Ok(()), |byte| Err(findings::unwritten::found(self, touch, byte - touch.place.at)))
    }

    /// The first of the bytes that nobody has written.
    fn missing(&self, threads: &RefCell<Threads>, touch: &Touch) -> Option<u64> {
        let Touch { place, size, .. } = *touch;
        match place.space {
            Where::Global | Where::Generic => self.global.unwritten(place.at, size),
            Where::Shared => {
                let block = self.cluster.watch.as_ref().and_then(|watch| watch.blocks.get(place.rank));
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

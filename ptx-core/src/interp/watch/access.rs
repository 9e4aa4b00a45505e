//! Where `ctx.bytes` and its kin report what they touch.

use super::clock::Actor;
use super::event::Event;
use super::findings::{self, Touch};
use super::role::{Act, Order, Role, Scope};
use super::shadow::{Access, Clash, Relation, Shadow};
use super::threads::Threads;
use super::vars::Vars;
use super::{Agent, Watch};
use crate::interp::ctx::Ctx;
use crate::interp::fault::Fault;
use crate::interp::space::{Place, Where};
use crate::interp::warp::lanes;
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
    /// How the access stands to an earlier one.
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

    /// Whether the scopes of both include the other.
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
        let access = Access { event: self.event, relation: &relation, since: self.watch.first };
        let mut shadow = shadow.borrow_mut();
        if self.writes { shadow.write(at, size, &access) } else { shadow.read(at, size, &access) }
    }
}

impl Ctx<'_> {
    /// A read by lanes that read the same bytes.
    #[inline(never)]
    pub(in crate::interp) fn watch_read(&self, place: Place, lanes: u32, address: u64, size: u64) -> Result<(), Fault> {
        self.touch(&Touch { place, lanes, address, size, writes: false })
    }

    /// A write, or an atomic update.
    #[inline(never)]
    pub(in crate::interp) fn watch_write(
        &mut self,
        place: Place,
        lanes: u32,
        address: u64,
        size: u64,
    ) -> Result<(), Fault> {
        self.touch(&Touch { place, lanes, address, size, writes: true })?;
        self.mark(place, lanes, size);
        Ok(())
    }

    /// A whole warp reads neighbours. `false`: the lanes must be looked at one by one.
    #[inline(never)]
    pub(in crate::interp) fn watch_row(&self, place: Place, size: u64, writes: bool) -> bool {
        (0..32u64).all(|lane| {
            let place = Place { at: place.at + lane * size, ..place };
            self.touch(&Touch { place, lanes: 1 << lane, address: place.at, size, writes }).is_ok()
        })
    }

    /// A lane works on an mbarrier: it must know of its beginning.
    pub(in crate::interp) fn watch_object(&self, space: Where, lane: usize, at: u64, size: u64) -> Result<(), Fault> {
        match self.role().act {
            Act::Object => self.bytes(space, lane, at, size).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// The bytes hold something from now on.
    pub(in crate::interp) fn mark(&mut self, place: Place, group: u32, size: u64) {
        match place.space {
            Where::Global | Where::Generic => self.global.mark(place.at, size),
            Where::Shared => {
                let len = self.cluster.memory.get(place.rank).map_or(0, Vec::len) as u64;
                let block = self.cluster.watch.as_mut().and_then(|watch| watch.blocks.get_mut(place.rank));
                block.into_iter().for_each(|block| block.written.mark(place.at, size, len));
            }
            Where::Local => {
                let lane = group.trailing_zeros() as usize % 32;
                self.warp.mark_local(lane, place.at, size);
            }
            Where::Const | Where::Param => {}
        }
    }

    fn touch(&self, touch: &Touch) -> Result<(), Fault> {
        let (Some(watch), Some(threads)) = (self.watch, &self.warp.threads) else { return Ok(()) };
        let role = self.role();
        if !touch.writes && role.act != Act::Object || role.act == Act::Update {
            self.check_written(threads, touch)?;
        }
        let Some((shadow, vars, at)) = self.shadow_of(watch, touch.place) else { return Ok(()) };
        let mut threads = threads.borrow_mut();
        let event = self.event(watch, &mut threads, role, touch);
        let who = Who { watch, threads: &threads, lanes: touch.lanes, event, role, writes: touch.writes };
        who.look(shadow, at, touch.size).map_err(|clash| findings::race::found(self, watch, touch, &clash))?;
        if role.order != Order::Weak && matches!(role.act, Act::Plain | Act::Update) {
            let key = (touch.place.rank as u64) << 48 ^ touch.place.at;
            threads.synchronise((watch, self.warp.live), &mut vars.borrow_mut(), role, (key, touch));
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
            _ => Event::new(threads.number, touch.lanes, threads.group(lane, actor), (actor, pc), role),
        }
    }

    /// Whether somebody has written all of the bytes.
    fn check_written(&self, threads: &RefCell<Threads>, touch: &Touch) -> Result<(), Fault> {
        let Touch { place, size, .. } = *touch;
        let missing = match place.space {
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
        };
        missing.map_or(Ok(()), |byte| Err(findings::unwritten::found(touch, byte - place.at)))
    }
}

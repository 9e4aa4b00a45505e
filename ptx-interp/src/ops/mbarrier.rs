//! `mbarrier.*` (9.7.13.15) and the barrier of a cluster (9.7.13.3).
//!
//! `try_wait` suspends its lanes until the phase is complete; it gives false only when nobody else could go on.

use super::moves::space;
use super::{Op, op};
use crate::cluster::{PhaseWaiter, Who};
use crate::ctx::{Ctx, Flow};
use crate::exec::{Dst, ExecState, Src};
use crate::fault::{Fault, FaultKind};
use crate::kept::MbarrierPlace;
use crate::mbarrier::{BYTES, Mbarrier, miscounted};
use crate::role::Actor;
use crate::site::{Address, Decoded, Refusal, Site};
use crate::soft::mask;
use crate::space::{Where, number, resolve};
use crate::warp::lanes;
use ptx_core::diag::codes;
use ptx_core::ir::Operand;
use ptx_core::isa::Type;

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("barrier.cluster.arrive", "", cluster_arrive), op("barrier.cluster.wait", "", cluster_wait),
    op("mbarrier.init", "", init), op("mbarrier.inval", "", inval),
    op("mbarrier.expect_tx", "", |s| transactions(s, 1)), op("mbarrier.complete_tx", "", |s| transactions(s, -1)),
    op("mbarrier.arrive", "", |s| arrive(s, Arrival::COUNTED)),
    op("mbarrier.arrive.expect_tx", "", |s| arrive(s, Arrival::EXPECTING)),
    op("mbarrier.arrive.noComplete", "", |s| arrive(s, Arrival::INCOMPLETE)),
    op("mbarrier.arrive_drop", "", |s| arrive(s, Arrival { drops: true, ..Arrival::COUNTED })),
    op("mbarrier.arrive_drop.expect_tx", "", |s| arrive(s, Arrival { drops: true, ..Arrival::EXPECTING })),
    op("mbarrier.arrive_drop.noComplete", "", |s| arrive(s, Arrival { drops: true, ..Arrival::INCOMPLETE })),
    op("mbarrier.test_wait", "", |s| test(s, state_parity)), op("mbarrier.test_wait.parity", "", |s| test(s, parity)),
    op("mbarrier.try_wait", "", |s| try_wait(s, state_parity)), op("mbarrier.try_wait.parity", "", |s| try_wait(s, parity)),
    op("mbarrier.pending_count", "", pending_count), op("mbarrier.check_layout", "", check_layout),
];

impl Address {
    /// The address in one lane.
    pub(super) fn lane(self, ctx: &Ctx, lane: usize) -> u64 {
        ctx.fetch_lane(self.base, lane).wrapping_add(self.offset)
    }
}

impl Ctx<'_> {
    /// The mbarrier at an address.
    pub(super) fn mbarrier(&self, space: Where, lane: usize, at: u64) -> Result<Mbarrier, Fault> {
        let place = self.mbarrier_place(space, lane, at)?;
        if let Some(observer) = self.observer {
            observer.use_mbarrier(self, space, lane, at)?;
        }
        let word = number(self.object(space, lane, at, BYTES)?);
        Mbarrier::unpack(word).map_err(|fault| self.misused(fault, place, (lane, at)))
    }

    /// Changes an mbarrier, and begins its next phase when this one is complete. Gives what it was before.
    pub(super) fn change_mbarrier(
        &mut self,
        (space, lane, at): (Where, usize, u64),
        change: impl Fn(Mbarrier) -> Result<Mbarrier, Fault>,
    ) -> Result<Mbarrier, Fault> {
        let place = self.mbarrier_place(space, lane, at)?;
        let before = self.mbarrier(space, lane, at)?;
        let changed = change(before).map_err(|fault| self.misused(fault, place, (lane, at)))?;
        if let Some(observer) = self.observer {
            observer.change_mbarrier(self, lane, place, [before, changed]);
        }
        let (after, completed) = changed.advance();
        self.object_mut(space, lane, at, BYTES)?.copy_from_slice(&after.pack().to_le_bytes());
        if completed {
            let keeper = self.keeper();
            self.cluster.complete_phase(place, before.parity, keeper);
        }
        Ok(before)
    }

    /// Adds to the fault of an operation on an mbarrier its name and what has happened to it.
    #[cold]
    fn misused(&self, fault: Fault, place: MbarrierPlace, (lane, at): (usize, u64)) -> Fault {
        let fault = fault.at(at).lane(lane).place(self.map().shared(place.1));
        match self.observer {
            Some(observer) => observer.explain_misuse(self, fault, place),
            None => fault,
        }
    }

    /// The running operation completes on the mbarrier at this address: its accesses are known to those who have waited for the
    /// phase. Call it before `bytes` and `bytes_mut`, once for each mbarrier.
    pub(super) fn completes_on(&mut self, space: Where, lane: usize, at: u64) -> Result<(), Fault> {
        let Some(observer) = self.observer else { return Ok(()) };
        let place = self.mbarrier_place(space, lane, at)?;
        observer.complete_on(self, lane, place, at)
    }

    /// The operations that an agent of a lane has begun so far complete in the running phase of an mbarrier.
    pub(super) fn hand_over(&mut self, lane: usize, actor: Actor, place: MbarrierPlace) {
        if let Some(observer) = self.observer {
            observer.hand_over(self, lane, actor, place);
        }
    }

    /// A lane has seen that the last phase of an mbarrier is complete.
    fn see_phase(&mut self, lane: usize, place: MbarrierPlace) {
        if let Some(observer) = self.observer {
            observer.see_phase(self, lane, place);
        }
    }
}

impl ExecState<'_> {
    /// Which block's shared memory an mbarrier is in, and where.
    pub(super) fn mbarrier_place(&self, space: Where, lane: usize, at: u64) -> Result<MbarrierPlace, Fault> {
        let (found, near) = if space == Where::Generic { resolve(at) } else { (space, at) };
        if !found.is_shared() {
            let message = "an mbarrier at an address that is not in shared memory";
            return Err(Fault::new(FaultKind::BadAccess, message).code(&codes::W0411).at(at).lane(lane));
        }
        self.shared_place_in(space, lane, near & mask(32))
    }

    /// Objects to the end of an mbarrier for which threads wait.
    fn check_unawaited(&self, place: MbarrierPlace, (lane, at): (usize, u64)) -> Result<(), Fault> {
        let (waiting, first) = self.cluster.waiters_of(place);
        if waiting == 0 {
            return Ok(());
        }
        let who = first.and_then(|(rank, warp)| (rank == self.block.rank).then_some(warp));
        let which = who.map_or(String::new(), |warp| format!(", the first of them in warp {warp}"));
        let message = format!("`mbarrier.inval` of an mbarrier for which {waiting} threads wait{which}");
        Err(Fault::new(FaultKind::Sync, message)
            .code(&codes::W0412)
            .at(at)
            .lane(lane)
            .place(self.map().shared(place.1))
            .help("let all threads that wait for it meet at a barrier before one of them ends it"))
    }

    /// The running lanes.
    pub(crate) fn who(&self, lanes: u32) -> Who {
        Who { rank: self.block.rank, warp: self.warp.index, lanes }
    }

    /// Lanes stay at this instruction until somebody wakes them; the others of `group` go on.
    pub(super) fn suspend(&mut self, group: u32, stay: u32) -> Flow {
        let at = self.warp.at;
        self.warp.jump(group & !stay, at + 1);
        self.warp.jump(stay, at);
        self.warp.waiting |= stay;
        Flow::Apart
    }
}

fn cluster_arrive(_: &Site) -> Decoded {
    Ok(Box::new(|ctx, group| {
        let (who, keeper) = (ctx.who(group), ctx.keeper());
        if !ctx.cluster.gate.arrive(who) {
            let message = "a second arrival at the barrier of the cluster without a wait between them";
            return Err(Fault::new(FaultKind::Sync, message).code(&codes::W0305));
        }
        if let Some(observer) = ctx.observer {
            observer.arrive_at_gate(ctx, group);
        }
        ctx.cluster.open_gate(keeper);
        Ok(Flow::Next)
    }))
}

fn cluster_wait(_: &Site) -> Decoded {
    Ok(Box::new(|ctx, group| match ctx.exec.cluster.gate.wait(ctx.exec.who(group)) {
        None => {
            let message = "a wait at the barrier of the cluster without an arrival before it";
            Err(Fault::new(FaultKind::Sync, message).code(&codes::W0305))
        }
        Some(ready) => {
            if let Some(observer) = ctx.observer {
                let message = observer.gate_message(&ctx.cluster.kept);
                observer.learn(&mut ctx.exec.warp.kept, (ready, ctx.exec.warp.live), &message, true);
            }
            Ok(if ready == group { Flow::Next } else { ctx.suspend(group, group & !ready) })
        }
    }))
}

/// The layout of every mbarrier here; the other one, which reports what copies were worth, does not exist.
const LAYOUT: &str = "layout::v0";

/// `mbarrier.check_layout`: whether it is the one that is named.
fn check_layout(site: &Site) -> Decoded {
    let same = site.is(LAYOUT);
    site.accept(&["layout::v1"]);
    let (dst, address) = (site.dst(0)?, site.address(1, space(site))?);
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            ctx.mbarrier(address.space, lane, address.lane(ctx, lane))?;
        }
        ctx.store(dst, group, |_| same.into());
        Ok(Flow::Next)
    }))
}

fn init(site: &Site) -> Decoded {
    site.accept(&[LAYOUT]);
    let (address, count) = (site.address(0, space(site))?, site.src(1)?);
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let at = address.lane(ctx, lane);
            let place = ctx.mbarrier_place(address.space, lane, at)?;
            let count = ctx.fetch_lane(count, lane) & mask(32);
            let fresh = Mbarrier::new(count).map_err(|fault| fault.at(at).lane(lane))?;
            if let Some(observer) = ctx.observer {
                observer.begin_mbarrier(ctx, lane, place, at)?;
            }
            ctx.bytes_mut(address.space, lane, at, BYTES)?.copy_from_slice(&fresh.pack().to_le_bytes());
        }
        Ok(Flow::Next)
    }))
}

fn inval(site: &Site) -> Decoded {
    let address = site.address(0, space(site))?;
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let at = address.lane(ctx, lane);
            ctx.mbarrier(address.space, lane, at)?;
            let place = ctx.mbarrier_place(address.space, lane, at)?;
            if let Some(observer) = ctx.observer {
                observer.end_mbarrier(ctx, place);
            }
            ctx.check_unawaited(place, (lane, at))?;
            ctx.bytes_mut(address.space, lane, at, BYTES)?.fill(0);
        }
        Ok(Flow::Next)
    }))
}

/// A 32-bit count as a signed number of bytes.
fn signed(value: u64) -> i64 {
    i64::from(value as u32 as i32)
}

/// `expect_tx` (`sign` 1) and `complete_tx` (-1).
fn transactions(site: &Site, sign: i64) -> Decoded {
    let (address, bytes) = (site.address(0, space(site))?, site.src(1)?);
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let bytes = sign * signed(ctx.fetch_lane(bytes, lane));
            ctx.change_mbarrier((address.space, lane, address.lane(ctx, lane)), |m| m.expect(bytes))?;
        }
        Ok(Flow::Next)
    }))
}

/// Side effects of an arrival.
#[derive(Clone, Copy)]
struct Arrival {
    /// The operand is a number of bytes to expect; else of arrivals.
    expects: bool,
    /// Later phases no longer wait for it.
    drops: bool,
    /// It may complete the phase.
    completes: bool,
}

impl Arrival {
    const COUNTED: Arrival = Arrival { expects: false, drops: false, completes: true };
    const EXPECTING: Arrival = Arrival { expects: true, ..Arrival::COUNTED };
    const INCOMPLETE: Arrival = Arrival { completes: false, ..Arrival::COUNTED };

    fn apply(self, before: Mbarrier, operand: u64) -> Result<Mbarrier, Fault> {
        let (count, bytes) = if self.expects { (1, signed(operand)) } else { (operand & mask(32), 0) };
        let after = before.expect(bytes)?.arrive(count)?;
        if !self.completes && after.advance().1 {
            return Err(miscounted("`.noComplete` on the arrival that completes the phase".to_string()));
        }
        if self.drops { after.drop(count) } else { Ok(after) }
    }
}

fn arrive(site: &Site, arrival: Arrival) -> Decoded {
    let ty = Type::find("b64").ok_or("no type .b64")?;
    let state = match site.operand(0) {
        Operand::Sink => None,
        operand => Some(site.destination(operand, ty)?),
    };
    let address = site.address(1, space(site))?;
    let operand = if site.there(2) { site.src(2)? } else { Src::Value(1) };
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let (at, operand) = (address.lane(ctx, lane), ctx.fetch_lane(operand, lane));
            let place = ctx.mbarrier_place(address.space, lane, at)?;
            if let Some(observer) = ctx.observer {
                observer.arrive_at_mbarrier(ctx, lane, place);
            }
            let before = ctx.change_mbarrier((address.space, lane, at), |m| arrival.apply(m, operand))?;
            if let Some(state) = state {
                ctx.store_lane(state, lane, before.pack());
            }
        }
        Ok(Flow::Next)
    }))
}

/// The parity of the phase from the operand of a wait.
type Phase = fn(u64) -> Result<u64, Fault>;

/// A state that an arrival gave.
fn state_parity(state: u64) -> Result<u64, Fault> {
    Mbarrier::unpack(state).map(|m| m.parity)
}

/// A parity.
fn parity(parity: u64) -> Result<u64, Fault> {
    match parity & mask(32) {
        parity @ 0..=1 => Ok(parity),
        other => Err(Fault::new(FaultKind::Undefined, format!("a phase parity of {other}; it is 0 or 1"))),
    }
}

/// A wait while it is decoded: where the predicate goes, the mbarrier, the phase.
#[derive(Clone, Copy)]
struct Wait {
    done: Dst,
    address: Address,
    operand: Src,
    phase: Phase,
}

impl Wait {
    fn new(site: &Site, phase: Phase) -> Result<Wait, Refusal> {
        site.accept(&["phase_type::primary"]);
        if site.named("value").is_some() || matches!(site.operand(0), Operand::Pair(..)) {
            return Err("an mbarrier that reports: its layout is not that of the CPU device".into());
        }
        let address = site.address(1, space(site))?;
        Ok(Wait { done: site.dst(0)?, address, operand: site.src(2)?, phase })
    }

    /// In one lane: the mbarrier's address, the parity of the phase, and whether it is complete.
    fn look(self, ctx: &Ctx, lane: usize) -> Result<(u64, u64, bool), Fault> {
        let at = self.address.lane(ctx, lane);
        let parity = (self.phase)(ctx.fetch_lane(self.operand, lane)).map_err(|fault| fault.lane(lane))?;
        let now = ctx.mbarrier(self.address.space, lane, at)?;
        Ok((at, parity, now.parity != parity))
    }
}

fn test(site: &Site, phase: Phase) -> Decoded {
    let wait = Wait::new(site, phase)?;
    Ok(Box::new(move |ctx, group| {
        let mut all = true;
        for lane in lanes(group) {
            let (at, _, done) = wait.look(ctx, lane)?;
            if done {
                ctx.see_phase(lane, ctx.mbarrier_place(wait.address.space, lane, at)?);
            }
            ctx.store_lane(wait.done, lane, done.into());
            all &= done;
        }
        Ok(if all { Flow::Next } else { Flow::Yield })
    }))
}

fn try_wait(site: &Site, phase: Phase) -> Decoded {
    let wait = Wait::new(site, phase)?;
    Ok(Box::new(move |ctx, group| {
        let mut waiters: Vec<PhaseWaiter> = Vec::new();
        for lane in lanes(group) {
            let (at, parity, done) = wait.look(ctx, lane)?;
            let place = ctx.mbarrier_place(wait.address.space, lane, at)?;
            if done {
                ctx.see_phase(lane, place);
                ctx.store_lane(wait.done, lane, 1);
                continue;
            }
            match waiters.iter_mut().find(|w| w.place == place && w.parity == parity) {
                Some(waiter) => waiter.who.lanes |= 1 << lane,
                None => {
                    let result = ctx.warp.origin + wait.done.slot;
                    let acquires = ctx.role().acquires();
                    waiters.push(PhaseWaiter { who: ctx.who(1 << lane), result, place, parity, acquires });
                }
            }
        }
        let stay = waiters.iter().fold(0, |mask, w| mask | w.who.lanes);
        waiters.into_iter().for_each(|waiter| ctx.cluster.wait(waiter));
        Ok(if stay == 0 { Flow::Next } else { ctx.suspend(group, stay) })
    }))
}

fn pending_count(site: &Site) -> Decoded {
    site.accept(&[LAYOUT]);
    let (dst, state) = (site.dst(0)?, site.src(1)?);
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let state = Mbarrier::unpack(ctx.fetch_lane(state, lane)).map_err(|fault| fault.lane(lane))?;
            ctx.store_lane(dst, lane, state.pending());
        }
        Ok(Flow::Next)
    }))
}

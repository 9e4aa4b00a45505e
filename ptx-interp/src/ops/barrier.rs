//! Barriers, fences and pauses (9.7.13.1–4).

use super::wgmma::in_step;
use super::{Op, op};
use crate::block::{Arrival, Join, Waiter};
use crate::ctx::{Ctx, Flow};
use crate::exec::Src;
use crate::fault::{Fault, FaultKind};
use crate::site::{Decoded, Site};
use crate::warp::lanes;
use ptx_core::diag::codes;

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("bar.sync", "", |s| sync(s, true)), op("bar.arrive", "", |s| sync(s, false)), op("bar.red", "", red),
    op("bar.cta.sync", "", |s| sync(s, true)), op("bar.cta.arrive", "", |s| sync(s, false)), op("bar.cta.red", "", red),
    op("barrier.sync", "", |s| sync(s, true)), op("barrier.arrive", "", |s| sync(s, false)), op("barrier.red", "", red),
    op("barrier.cta.sync", "", |s| sync(s, true)), op("barrier.cta.arrive", "", |s| sync(s, false)),
    op("barrier.cta.red", "", red),
    op("bar.warp.sync", "", warp_sync),
    op("membar", "", nothing), op("fence", "", nothing),
    op("nanosleep", "", pause),
    op("griddepcontrol", "", nothing),
    op("pmevent", "", nothing), op("setmaxnreg", "", registers),
];

/// The barrier's number and its thread count, in one lane. Lanes that go together must agree.
fn barrier(ctx: &Ctx, group: u32, number: Src, count: Option<Src>) -> Result<(usize, Option<u32>), Fault> {
    let lane = group.trailing_zeros() as usize % 32;
    let read = |ctx: &Ctx, lane: usize| {
        (ctx.fetch_lane(number, lane) as usize & 0xffff_ffff, count.map(|c| ctx.fetch_lane(c, lane) as u32))
    };
    let first = read(ctx, lane);
    if let Some(other) = lanes(group).find(|l| read(ctx, *l) != first) {
        let message = "threads of one warp come to different barriers, or with different counts, in one instruction";
        return Err(Fault::new(FaultKind::Sync, message).code(&codes::W0302).lane(other));
    }
    if let Some(count) = first.1.filter(|c| *c == 0 || c % 32 != 0) {
        let message = format!("a barrier for {count} threads; it must be a multiple of 32, and not 0");
        return Err(Fault::new(FaultKind::Sync, message).code(&codes::W0304).lane(lane));
    }
    Ok(first)
}

fn sync(site: &Site, waits: bool) -> Decoded {
    site.accept(&["sync", "arrive", "cta"]);
    let number = if site.there(0) { site.src(0)? } else { Src::Value(0) };
    let count = if site.there(1) { Some(site.src(1)?) } else { None };
    Ok(Box::new(move |ctx, group| {
        let (number, expected) = barrier(ctx, group, number, count)?;
        let arrival = Arrival { warp: ctx.warp.index, lanes: group, expected, yes: 0 };
        if !waits {
            ctx.arrive(number, &arrival, None)?;
            return Ok(Flow::Next);
        }
        wait(ctx, group);
        ctx.arrive(number, &arrival, Some(Waiter::new(arrival.warp, group, None)))?;
        Ok(Flow::Apart)
    }))
}

/// The lanes stay here until the barrier is complete.
fn wait(ctx: &mut Ctx, group: u32) {
    let at = ctx.warp.at;
    ctx.warp.jump(group, at);
    ctx.warp.waiting |= group;
}

fn red(site: &Site) -> Decoded {
    const JOINS: [(&str, Join); 3] = [("popc", Join::Popc), ("and", Join::And), ("or", Join::Or)];
    site.accept(&["red", "cta"]);
    let join = site.one_of(&JOINS).ok_or("a reduction without an operation")?;
    let (dst, number) = (site.dst(0)?, site.src(1)?);
    let count = if site.there(2) { Some(site.src(2)?) } else { None };
    let vote = site.predicate(3)?;
    Ok(Box::new(move |ctx, group| {
        let (number, expected) = barrier(ctx, group, number, count)?;
        let yes = (ctx.fetch_mask(vote) & group).count_ones();
        let result = Some((ctx.warp.origin + dst.slot, join));
        let arrival = Arrival { warp: ctx.warp.index, lanes: group, expected, yes };
        wait(ctx, group);
        ctx.arrive(number, &arrival, Some(Waiter::new(arrival.warp, group, result)))?;
        Ok(Flow::Apart)
    }))
}

fn warp_sync(site: &Site) -> Decoded {
    site.accept(&["warp", "sync"]);
    let members = site.src(0)?;
    Ok(Box::new(move |ctx, group| {
        let masks = ctx.fetch(members);
        if group == ctx.warp.live && lanes(group).all(|l| masks[l] as u32 & group == group) {
            ctx.met(group);
            return Ok(Flow::Next);
        }
        if let Some(lane) = lanes(group).find(|l| masks[*l] >> l & 1 == 0) {
            let message = format!("lane {lane} with member mask {:#010x}, which does not name it", masks[lane]);
            return Err(Fault::new(FaultKind::Sync, message).code(&codes::W0307).lane(lane));
        }
        let at = ctx.warp.at;
        ctx.warp.jump(group, at);
        let met = ctx.warp.arrive(group, |lane| masks[lane] as u32);
        ctx.met(met);
        Ok(Flow::Apart)
    }))
}

/// Orders memory accesses, which already happen in order here.
fn nothing(site: &Site) -> Decoded {
    site.accept_all();
    Ok(Box::new(|_, _| Ok(Flow::Next)))
}

/// `setmaxnreg`: a whole warpgroup has other registers.
fn registers(site: &Site) -> Decoded {
    site.accept_all();
    Ok(Box::new(|ctx, group| {
        if group == ctx.warp.live {
            in_step(ctx)?;
        }
        Ok(Flow::Next)
    }))
}

/// `nanosleep`: others have their turn.
fn pause(site: &Site) -> Decoded {
    site.src(0)?;
    Ok(Box::new(|_, _| Ok(Flow::Yield)))
}

//! `alloca`, `stacksave` and `stackrestore` (9.7.17). The manual's stack grows down; here it grows up, which only addresses show.

use super::{Op, op};
use crate::ctx::Flow;
use crate::exec::Src;
use crate::fault::{Fault, FaultKind};
use crate::site::{Decoded, Site};
use crate::warp::lanes;

pub(super) const OPS: &[Op] = &[op("alloca", "", alloca), op("stacksave", "", save), op("stackrestore", "", restore)];

/// The least alignment that `alloca` promises.
const ALIGN: u64 = 8;

fn alloca(site: &Site) -> Decoded {
    let (dst, size) = (site.dst(0)?, site.src(1)?);
    let align = match site.there(2).then(|| site.src(2)).transpose()? {
        Some(Src::Value(align)) => align.max(ALIGN),
        _ => ALIGN,
    };
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let size = ctx.fetch_lane(size, lane);
            let at = ctx.resize_local(lane, |warp| warp.allocate(lane, size, align))?;
            ctx.store_lane(dst, lane, at);
        }
        Ok(Flow::Next)
    }))
}

fn save(site: &Site) -> Decoded {
    let dst = site.dst(0)?;
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let top = ctx.warp.top(lane);
            ctx.store_lane(dst, lane, top);
        }
        Ok(Flow::Next)
    }))
}

fn restore(site: &Site) -> Decoded {
    let src = site.src(0)?;
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let top = ctx.fetch_lane(src, lane);
            let frame = ctx.listing.frame_at(ctx.warp.at);
            if !ctx.warp.release_to(lane, top, frame) {
                let message = "`stackrestore` of something that `stacksave` did not give in this function";
                return Err(Fault::new(FaultKind::Undefined, message).at(top).lane(lane));
            }
        }
        Ok(Flow::Next)
    }))
}

//! `clusterlaunchcontrol` (9.7.13.17): requests not to start a cluster. Here every cluster starts, so that each request is
//! answered with "no", which the manual allows.

use super::moves::space;
use super::{Op, op};
use crate::ctx::Flow;
use crate::fault::{Fault, FaultKind};
use crate::site::{Decoded, Site};
use crate::space::{Where, in_block};
use crate::warp::lanes;

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("clusterlaunchcontrol.try_cancel", "", try_cancel),
    op("clusterlaunchcontrol.query_cancel.is_canceled", "", is_canceled),
    op("clusterlaunchcontrol.query_cancel", "", first_block),
];

/// Bytes of a response.
const BYTES: u64 = 16;

fn try_cancel(site: &Site) -> Decoded {
    site.accept(&["async", "mbarrier::complete_tx::bytes"]);
    let space = space(site);
    let (response, mbar) = (site.address(0, space)?, site.address(1, space)?);
    let everywhere = site.is("multicast::cluster::all");
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let (to, mbar) = (response.lane(ctx, lane), mbar.lane(ctx, lane));
            let ranks = if everywhere { 0..ctx.cluster.memory.len() as u64 } else { 0..1 };
            for rank in ranks {
                let (to, mbar, space) = if everywhere {
                    (in_block(rank, to), in_block(rank, mbar), Where::Cluster)
                } else {
                    (to, mbar, space)
                };
                ctx.bytes_mut(space, lane, to, BYTES)?.fill(0);
                ctx.change_mbarrier((space, lane, mbar), |m| m.expect(-(BYTES as i64)))?;
            }
        }
        Ok(Flow::Next)
    }))
}

fn is_canceled(site: &Site) -> Decoded {
    site.accept(&["pred"]);
    let dst = site.dst(0)?;
    Ok(Box::new(move |ctx, group| {
        ctx.store(dst, group, |_| 0);
        Ok(Flow::Next)
    }))
}

/// The first block of the cluster that was not started: there is none.
fn first_block(site: &Site) -> Decoded {
    site.accept_all();
    Ok(Box::new(move |_, group| {
        let message = "the block of a canceled cluster is asked for, but the request failed; ask `is_canceled` first";
        Err(Fault::new(FaultKind::Undefined, message).lane(group.trailing_zeros() as usize % 32))
    }))
}

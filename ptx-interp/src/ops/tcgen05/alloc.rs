//! `tcgen05.alloc`, `.dealloc` and `.relinquish_alloc_permit` (9.7.16.7.1): a warp waits while columns are missing; for a
//! pair of blocks, the first of the two warps waits for the other.

use super::{pairs, source};
use crate::cluster::Who;
use crate::ctx::{Ctx, Flow};
use crate::exec::Src;
use crate::fault::{Fault, FaultKind};
use crate::ops::matrix::meet;
use crate::site::{Decoded, Site};
use crate::space::Where;
use crate::tmem::{COLUMNS, Columns, LANES, Offer, Taddr, Tmem, UNIT};
use crate::tmem::{Cells, Use};
use ptx_core::diag::codes;

/// The value of a source that must be the same in the whole warp.
pub(super) fn uniform(ctx: &Ctx, src: Src, what: &str) -> Result<u64, Fault> {
    let values = ctx.fetch(src);
    match values.iter().position(|v| *v != values[0]) {
        None => Ok(values[0]),
        Some(lane) => {
            let message =
                format!("{what} is {:#x} in lane 0 and {:#x} in lane {lane}; it must be one", values[0], values[lane]);
            Err(Fault::new(FaultKind::Sync, message).code(&codes::W0306).lane(lane))
        }
    }
}

/// Number of columns that a warp requests. `.exclusive` takes every multiple of 32.
fn count(ctx: &Ctx, src: Src, exclusive: bool) -> Result<u32, Fault> {
    let count = uniform(ctx, src, "the number of columns")? as u32;
    let fits = (UNIT..=COLUMNS).contains(&count) && count.is_multiple_of(UNIT);
    if fits && (exclusive || count.is_power_of_two()) {
        return Ok(count);
    }
    let rule = if exclusive { "a multiple of 32" } else { "a power of two" };
    let message = format!("{count} columns of tensor memory; it must be {rule} from {UNIT} to {COLUMNS}");
    Err(Fault::new(FaultKind::Undefined, message).code(&codes::W0504))
}

pub(super) fn alloc(site: &Site) -> Decoded {
    site.accept(&["sync"]);
    let space = if site.is("shared::cta") { Where::Shared } else { Where::Generic };
    let (pairs, exclusive) = (pairs(site), site.is("exclusive"));
    let (to, columns) = (site.address(0, space)?, source(site, "ncols")?);
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        let blocks = ctx.blocks(pairs)?;
        let count = count(ctx, columns, exclusive)?;
        let at = to.lane(ctx, 0);
        let rank = ctx.block.rank;
        if ctx.tmem(rank)?.relinquished {
            let message = "`tcgen05.alloc` after `tcgen05.relinquish_alloc_permit` in this block";
            return Err(Fault::new(FaultKind::Sync, message).code(&codes::W0504));
        }
        let first = if pairs { ctx.take_both(&blocks, count)? } else { ctx.take(&blocks, count) };
        let Some(first) = first else {
            let who = Who { rank: ctx.block.rank, warp: ctx.warp.index, lanes: group };
            ctx.cluster.wait_for_columns(who);
            return Ok(ctx.suspend(group, group));
        };
        ctx.met(group);
        ctx.bytes_mut(to.space, 0, at, 4)?.copy_from_slice(&first.to_le_bytes());
        // Of a pair, one warp allocates for both: the other's tensor memory is not its to speak for.
        match ctx.observer {
            Some(observer) if pairs => observer.note_pair(ctx, first),
            _ if pairs => {}
            _ => ctx.use_tensor(ctx.block.rank, 0, Cells::new(0, LANES, first, count), Use::Own)?,
        }
        ctx.met(group);
        Ok(Flow::Next)
    }))
}

impl Ctx<'_> {
    /// Takes the first columns that are free in all these blocks.
    fn take(&mut self, blocks: &[usize], count: u32) -> Option<u32> {
        let first = Tmem::find(count, blocks.iter().filter_map(|rank| self.cluster.tensor.get(*rank)))?;
        for rank in blocks {
            self.cluster.tensor.get_mut(*rank)?.take(Columns { first, count });
            if let Some(observer) = self.observer {
                observer.allocate_columns(self, *rank, first, count);
            }
        }
        Some(first)
    }

    /// The same for a pair: the second of its warps to come allocates for both.
    fn take_both(&mut self, blocks: &[usize], count: u32) -> Result<Option<u32>, Fault> {
        let (rank, warp) = (self.block.rank, self.warp.index);
        let offers = &mut self.tmem(rank)?.offers;
        let mine = offers.iter().position(|offer| offer.warp == warp);
        if let Some(at) = mine
            && let Some(first) = offers[at].granted
        {
            offers.remove(at);
            return Ok(Some(first));
        }
        let theirs = self.tmem(rank ^ 1)?.offers.iter().position(|offer| offer.granted.is_none());
        let Some(theirs) = theirs.filter(|_| mine.is_none()) else {
            if mine.is_none() {
                self.tmem(rank)?.offers.push(Offer { warp, count, granted: None });
            }
            return Ok(None);
        };
        let other = self.tmem(rank ^ 1)?.offers[theirs].count;
        if other != count {
            let message = format!("{count} columns of tensor memory, but the other block of the pair asks for {other}");
            return Err(Fault::new(FaultKind::Sync, message).code(&codes::W0504));
        }
        let first = self.take(blocks, count);
        if first.is_some() {
            self.tmem(rank ^ 1)?.offers[theirs].granted = first;
            self.cluster.columns_changed();
        }
        Ok(first)
    }
}

/// It gives this block's columns back, also for a pair: it "may block" until the other block comes, and here does not.
pub(super) fn dealloc(site: &Site) -> Decoded {
    site.accept(&["sync"]);
    let (pairs, exclusive) = (pairs(site), site.is("exclusive"));
    let (taddr, columns) = (source(site, "taddr")?, source(site, "ncols")?);
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        ctx.blocks(pairs)?;
        let count = count(ctx, columns, exclusive)?;
        let at = Taddr::new(uniform(ctx, taddr, "the address in tensor memory")?);
        let rank = ctx.block.rank;
        if let Some(observer) = ctx.observer.filter(|_| pairs) {
            observer.part_pair(ctx, at.column)?;
        }
        ctx.tmem(rank)?.free(Columns { first: at.column, count })?;
        ctx.use_tensor(rank, 0, Cells::new(0, LANES, at.column, count), Use::Own)?;
        ctx.cluster.columns_changed();
        Ok(Flow::Next)
    }))
}

pub(super) fn relinquish(site: &Site) -> Decoded {
    site.accept(&["sync"]);
    let pairs = pairs(site);
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        ctx.blocks(pairs)?;
        let rank = ctx.block.rank;
        ctx.tmem(rank)?.relinquished = true;
        Ok(Flow::Next)
    }))
}

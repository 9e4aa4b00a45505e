//! Operations on memory that signal an mbarrier: `st.async`, `red.async`, `cp.reduce.async.bulk` (9.7.9.12, 9.7.13.7,
//! 9.7.9.25.4.2), and `multimem` (9.7.9.14), whose addresses stand for the same memory of several devices: here there
//! is one.

use super::atomic::{Kind, Update, update};
use super::memory;
use super::tensor::reduction;
use super::{Op, op};
use crate::ctx::{Ctx, Flow};
use crate::exec::Src;
use crate::fault::{Fault, FaultKind};
use crate::site::{Address, Decoded, Refusal, Site};
use crate::soft::mask;
use crate::space::{Where, number};
use crate::warp::lanes;
use ptx_core::diag::codes;
use ptx_core::isa::Type;

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("st.async", "", store), op("red.async.add", "", reduce), op("red.async.and", "", reduce), op("red.async.or", "", reduce),
    op("red.async.xor", "", reduce), op("red.async.min", "", reduce), op("red.async.max", "", reduce),
    op("red.async.inc", "", reduce), op("red.async.dec", "", reduce),
    op("cp.reduce.async.bulk", "", bulk), op("multimem.cp.reduce.async.bulk", "", bulk),
    op("multimem.ld_reduce", "", |s| { s.accept_all(); memory::ld(s) }),
    op("multimem.st", "", memory::st), op("multimem.st.async", "", store), op("multimem.red.async", "", reduce),
    op("multimem.red.add", "", |s| update(s, Kind::Add)), op("multimem.red.min", "", |s| update(s, Kind::Min)),
    op("multimem.red.max", "", |s| update(s, Kind::Max)), op("multimem.red.and", "", |s| update(s, Kind::And)),
    op("multimem.red.or", "", |s| update(s, Kind::Or)), op("multimem.red.xor", "", |s| update(s, Kind::Xor)),
];

/// The type of an element: the last among the modifiers.
fn element(site: &Site) -> Result<Type, Refusal> {
    site.types().last().copied().ok_or_else(|| format!("`{}` without a type", site.row.name))
}

/// Shared memory of the cluster where an mbarrier is told, unless another space is named; else global memory.
fn space(site: &Site) -> Where {
    let told = site.named("mbar").is_some();
    let named = site.modifiers.iter().map(|m| Where::from_modifier(Some(m))).find(|space| *space != Where::Generic);
    site.accept(&["global", "shared", "shared::cluster", "shared::cta", "async", "mbarrier::complete_tx::bytes"]);
    named.unwrap_or(if told { Where::Generic } else { Where::Global })
}

/// The mbarrier that is told.
fn mbarrier(site: &Site, space: Where) -> Result<Option<Address>, Refusal> {
    site.named("mbar").map(|at| site.address(at, space)).transpose()
}

impl Ctx<'_> {
    /// Says, before the bytes move, which mbarrier will tell of it.
    fn comes(&mut self, mbar: Option<Address>, lane: usize) -> Result<(), Fault> {
        match mbar {
            Some(mbar) => self.completes_on(mbar.space, lane, mbar.lane(self, lane)),
            None => Ok(()),
        }
    }

    /// Tells an mbarrier that bytes have come.
    fn came(&mut self, mbar: Option<Address>, lane: usize, bytes: u64) -> Result<(), Fault> {
        if let Some(mbar) = mbar {
            let at = mbar.lane(self, lane);
            self.change_mbarrier((mbar.space, lane, at), |m| m.expect(-(bytes as i64)))?;
        }
        Ok(())
    }
}

fn store(site: &Site) -> Decoded {
    let ty = element(site)?;
    site.accept(&["v2", "v4", "mmio"]);
    let space = space(site);
    let (address, mbar) = (site.address(0, space)?, mbarrier(site, space)?);
    let values = site.elements(1).iter().map(|o| site.source(o, ty)).collect::<Result<Vec<Src>, _>>()?;
    let size = ty.bytes() as usize;
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let mut bytes = Vec::with_capacity(values.len() * size);
            for src in &values {
                bytes.extend_from_slice(&ctx.fetch_lane(*src, lane).to_le_bytes()[..size.min(8)]);
            }
            let at = address.lane(ctx, lane);
            ctx.comes(mbar, lane)?;
            ctx.bytes_mut(address.space, lane, at, bytes.len() as u64)?.copy_from_slice(&bytes);
            ctx.came(mbar, lane, bytes.len() as u64)?;
        }
        Ok(Flow::Next)
    }))
}

fn reduce(site: &Site) -> Decoded {
    let ty = element(site)?;
    site.accept(&["mmio"]);
    let space = space(site);
    let (address, mbar, value) = (site.address(0, space)?, mbarrier(site, space)?, site.src(1)?);
    let kind = reduction(site).ok_or("`red.async` without an operation")?;
    let (update, size) = (Update::new(kind, ty), ty.bytes());
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let (at, value) = (address.lane(ctx, lane), ctx.fetch_lane(value, lane));
            ctx.comes(mbar, lane)?;
            let cell = ctx.bytes_mut(address.space, lane, at, size)?;
            let new = update.apply(number(cell), value & mask(ty.bits()), 0, false);
            cell.copy_from_slice(&new.to_le_bytes()[..size as usize]);
            ctx.came(mbar, lane, size)?;
        }
        Ok(Flow::Next)
    }))
}

/// `cp.reduce.async.bulk`: element by element.
fn bulk(site: &Site) -> Decoded {
    let ty = element(site)?;
    site.accept(&[
        "global",
        "shared::cta",
        "shared::cluster",
        "bulk_group",
        "mbarrier::complete_tx::bytes",
        "noftz",
        "reduce",
    ]);
    let kind = reduction(site).ok_or("a reduction without an operation")?;
    let spaces: Vec<_> =
        site.modifiers.iter().map(|m| Where::from_modifier(Some(m))).filter(|space| *space != Where::Generic).collect();
    let to = site.address(0, *spaces.first().ok_or("a bulk reduction without a space")?)?;
    let from = site.address(1, Where::Shared)?;
    let size = site.src(site.named("size").ok_or("a bulk reduction without a size")?)?;
    let mbar = mbarrier(site, spaces[0])?;
    let (update, step) = (Update::new(kind, ty), ty.bytes());
    Ok(Box::new(move |ctx, group| {
        for lane in lanes(group) {
            let (to, from, size) = (to.lane(ctx, lane), from.lane(ctx, lane), ctx.fetch_lane(size, lane) & mask(32));
            if (size | to | from) % 16 != 0 {
                let message =
                    format!("a bulk reduction of {size} bytes from {from:#x} to {to:#x}; all must be multiples of 16");
                return Err(Fault::new(FaultKind::Misaligned, message).code(&codes::W0102).at(to).lane(lane));
            }
            ctx.comes(mbar, lane)?;
            for at in (0..size).step_by(step as usize) {
                let value = number(ctx.bytes(Where::Shared, lane, from.wrapping_add(at), step)?);
                let cell = ctx.bytes_mut(spaces[0], lane, to.wrapping_add(at), step)?;
                let new = update.apply(number(cell), value, 0, false);
                cell.copy_from_slice(&new.to_le_bytes()[..step as usize]);
            }
            ctx.came(mbar, lane, size)?;
        }
        Ok(Flow::Next)
    }))
}

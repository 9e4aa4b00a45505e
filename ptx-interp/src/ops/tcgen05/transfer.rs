//! `tcgen05.ld`, `tcgen05.ld.red` and `tcgen05.st` (9.7.16.8): between registers and the quarter of tensor memory that a warp
//! can reach.

use super::At;
use super::alloc::uniform;
use crate::ctx::{Ctx, Flow};
use crate::exec::{Dst, Src};
use crate::fault::{Fault, FaultKind};
use crate::ops::float::Extreme;
use crate::ops::fragment::{sources, targets};
use crate::ops::layouts::{Cell, TRANSFERS};
use crate::ops::matrix::meet;
use crate::site::{Decoded, Refusal, Site};
use crate::soft::{F32, mask};
use crate::tmem::Taddr;
use crate::tmem::{Cells, Use};
use ptx_core::diag::codes;
use ptx_core::ir::Operand;
use ptx_core::isa::Class;
use ptx_target::sort::SortSmall;

/// A transfer while it is decoded.
#[derive(Clone, Copy)]
struct Transfer {
    at: At,
    lanes: u32,
    place: Cell,
    /// Distance of the second half of `.16x32bx2` from the first.
    split: Option<u32>,
    /// A register is the lower halves of two columns.
    packed: bool,
}

impl Transfer {
    fn new(site: &Site, packing: &str) -> Result<Transfer, Refusal> {
        site.accept(&["sync", "x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"]);
        let (lanes, place) = site.one_of(&TRANSFERS).ok_or("a transfer without a shape")?;
        let split = site.named("imm_half_split_off").map(|at| match site.operand(at) {
            Operand::Int(value) => Ok(*value as u32),
            other => Err(format!("the operand {other:?} as an offset")),
        });
        Ok(Transfer { at: At::new(site, "taddr")?, lanes, place, split: split.transpose()?, packed: site.is(packing) })
    }

    /// The columns of `registers` registers, from the base on, as spans.
    fn spans(&self, registers: u32) -> Vec<(u32, u32)> {
        let cells = (0..32).flat_map(|t| (0..registers).map(move |r| (t, r)));
        let mut columns: Vec<(u32, u32)> = cells
            .map(|(t, r)| {
                let (at, width) = self.cell(Taddr { lane: 0, column: 0 }, t, r);
                (at.column, width)
            })
            .collect();
        columns.sort_small();
        columns.dedup();
        columns.into_iter().fold(Vec::new(), |mut spans: Vec<(u32, u32)>, (column, width)| {
            match spans.last_mut() {
                Some((first, count)) if *first + *count == column => *count += width,
                _ => spans.push((column, width)),
            }
            spans
        })
    }

    /// The base address, if the warp can reach it.
    fn base(&self, ctx: &Ctx) -> Result<Taddr, Fault> {
        let bits = uniform(ctx, self.at.0.base, "the address in tensor memory")?.wrapping_add(self.at.0.offset);
        let base = Taddr::new(bits);
        let mine = ctx.warp.index % 4 * 32;
        if base.lane < mine || base.lane + self.lanes > mine + 32 || !base.lane.is_multiple_of(self.lanes) {
            let message = format!(
                "{} lanes of tensor memory from lane {} on; warp {} reaches the lanes {mine} to {}, and shapes of {} lanes begin at multiples of {}",
                self.lanes,
                base.lane,
                ctx.warp.index,
                mine + 31,
                self.lanes,
                self.lanes
            );
            return Err(Fault::new(FaultKind::BadAccess, message).code(&codes::W0503).at(bits));
        }
        Ok(base)
    }

    /// Place of a register of a thread, and its number of columns.
    fn cell(&self, base: Taddr, t: u32, r: u32) -> (Taddr, u32) {
        let (lane, column) = (self.place)(t, r);
        let width = if self.packed { 2 } else { 1 };
        let half = self.split.filter(|_| t >= 16).unwrap_or(0);
        (base.at_lane(base.lane + lane).right(half).right(column * width), width)
    }

    fn read(&self, ctx: &Ctx, base: Taddr, t: u32, r: u32) -> Result<u64, Fault> {
        let (at, width) = self.cell(base, t, r);
        let tmem = ctx.cluster.tensor.get(ctx.block.rank).ok_or_else(|| Fault::undefined("no tensor memory"))?;
        let words = tmem.row(at, width)?;
        Ok(if self.packed { (words[0] & 0xffff | words[1] << 16).into() } else { words[0].into() })
    }

    fn write(&self, ctx: &mut Ctx, base: Taddr, (t, r): (u32, u32), value: u64) -> Result<(), Fault> {
        let (at, width) = self.cell(base, t, r);
        let rank = ctx.block.rank;
        let words = ctx.tmem(rank)?.row_mut(at, width)?;
        words[0] = value as u32;
        if self.packed {
            words.copy_from_slice(&[value as u32 & 0xffff, value as u32 >> 16]);
        }
        Ok(())
    }

    /// Reports which cells the warp uses, if they are allocated.
    fn report(&self, ctx: &mut Ctx, base: Taddr, spans: &[(u32, u32)], how: Use) -> Result<(), Fault> {
        let rank = ctx.block.rank;
        for (column, count) in spans {
            let at = base.right(*column);
            ctx.tmem(rank)?.row(at, *count)?;
            ctx.use_tensor(rank, 0, Cells::new(base.lane, self.lanes, at.column, *count), how)?;
        }
        Ok(())
    }

    /// Loads every register, then stores what each thread has got: `finish` may look at it before.
    fn load(
        &self,
        ctx: &mut Ctx,
        (to, spans): (&[Dst], &[(u32, u32)]),
        finish: impl Fn(&mut Ctx, usize, &[u64]),
    ) -> Result<(), Fault> {
        let base = self.base(ctx)?;
        self.report(ctx, base, spans, Use::Read)?;
        for t in 0..32 {
            let found = (0..to.len() as u32).map(|r| self.read(ctx, base, t, r)).collect::<Result<Vec<_>, _>>();
            let found = found.map_err(|fault| fault.lane(t as usize))?;
            to.iter().zip(&found).for_each(|(dst, value)| ctx.store_lane(*dst, t as usize, *value));
            finish(ctx, t as usize, &found);
        }
        Ok(())
    }
}

pub(super) fn load(site: &Site) -> Decoded {
    let (transfer, to) = (Transfer::new(site, "pack::16b")?, targets(site, 0)?);
    let spans = transfer.spans(to.len() as u32);
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        transfer.load(ctx, (&to, &spans), |_, _, _| ())?;
        Ok(Flow::Next)
    }))
}

/// `.red`: the least or greatest of what a thread has loaded.
pub(super) fn load_reduced(site: &Site) -> Decoded {
    let (transfer, to) = (Transfer::new(site, "")?, targets(site, 0)?);
    let (result, spans) = (site.dst(1)?, transfer.spans(to.len() as u32));
    let join = reduction(site)?;
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        transfer.load(ctx, (&to, &spans), |ctx, lane, values| {
            let found = values.iter().copied().reduce(&join).unwrap_or(0);
            ctx.store_lane(result, lane, found);
        })?;
        Ok(Flow::Next)
    }))
}

fn reduction(site: &Site) -> Result<Box<dyn Fn(u64, u64) -> u64 + Send + Sync>, Refusal> {
    site.accept(&["min"]);
    let ty = site.types().into_iter().find(|ty| ty.class() != Class::Bits).ok_or("a reduction without a type")?;
    let greatest = site.is("max");
    if ty.class() == Class::Float {
        let pick = Extreme::new(site, &F32, greatest);
        return Ok(Box::new(move |a, b| pick.of(a, b)));
    }
    // Signed order is unsigned order with the sign bit turned.
    let flip = if ty.class() == Class::Signed { 1 << 31 } else { 0 };
    Ok(Box::new(move |a, b| if ((a ^ flip) > (b ^ flip)) == greatest { a } else { b }))
}

/// The upper halves of the columns that `.unpack::16b` writes become 0.
pub(super) fn store(site: &Site) -> Decoded {
    let transfer = Transfer::new(site, "unpack::16b")?;
    let values = site.named("r").ok_or("no registers")?;
    let values: Vec<Src> = sources(site, values)?;
    let spans = transfer.spans(values.len() as u32);
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        let base = transfer.base(ctx)?;
        transfer.report(ctx, base, &spans, Use::Write)?;
        for (r, src) in values.iter().enumerate() {
            for (t, value) in ctx.fetch(*src).iter().enumerate() {
                let done = transfer.write(ctx, base, (t as u32, r as u32), value & mask(32));
                done.map_err(|fault| fault.lane(t))?;
            }
        }
        Ok(Flow::Next)
    }))
}

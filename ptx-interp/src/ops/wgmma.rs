//! `wgmma` (9.7.15): products of a warpgroup from shared memory, dense and sparse.
//!
//! Each warp calculates its 16 rows when it issues, and has them at once; what is in flight is kept in `flight`. The matrices
//! in shared memory are read when the first of the four warps issues.

use super::fragment::{Accumulator, Fragment, Metadata, sources, targets};
use super::layouts::{Spread, Tile};
use super::matrix::meet;
use super::mma::{element, metadata, shape, sum};
use super::{Op, op};
use crate::ctx::{Ctx, Flow};
use crate::dot::{Element, Fused, Lines, Sum, Target};
use crate::exec::{Dst, Src};
use crate::fault::{Fault, FaultKind};
use crate::flight::{APART, Step, WARPS};
use crate::listing::party;
use crate::site::{Decoded, Refusal, Site};
use crate::soft::mask;
use crate::space::{Where, number};
use ptx_core::diag::codes;
use ptx_core::isa::Type;
use ptx_target::descriptor::{Descriptor, Major};
use std::sync::Arc;

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("wgmma.mma_async", "", product),
    op("wgmma.fence", "", fence), op("wgmma.commit_group", "", commit), op("wgmma.wait_group", "", wait),
];

/// Rows of A that a warpgroup and a warp have.
const ROWS: usize = 64;
const OWN: usize = 16;

/// Source of A.
enum Left {
    /// The warp's own rows.
    Registers(Fragment),
    /// All rows, described in a register.
    Memory(Src),
}

/// A matrix in shared memory.
#[derive(Clone, Copy)]
struct Shape {
    element: Element,
    lines: usize,
    depth: usize,
    major: Major,
}

/// A whole `wgmma.mma_async`.
struct Product {
    left: Left,
    right: Src,
    shapes: [Shape; 2],
    d: Accumulator<Dst>,
    start: Accumulator<Src>,
    accumulate: Src,
    negate: bool,
    sum: Sum,
    sparse: Option<Metadata>,
}

/// D, A and B.
fn three(site: &Site) -> Result<[Type; 3], Refusal> {
    match site.types()[..] {
        [d, a, b] => Ok([d, a, b]),
        _ => Err("`wgmma` without three types".into()),
    }
}

/// An immediate that may be absent.
fn immediate(site: &Site, name: &str) -> i64 {
    match site.named(name).map(|at| site.operand(at)) {
        Some(ptx_core::ir::Operand::Int(value)) => *value as i64,
        _ => 0,
    }
}

impl Product {
    fn new(site: &Site) -> Result<Product, Refusal> {
        site.accept(&["sync", "and", "popc"]);
        let [_, columns, depth] = shape(site)?;
        let [d, a, b] = three(site)?;
        let sparse = site.is("sp");
        let packed = if sparse { depth / 2 } else { depth };
        let major = |name: &str| if immediate(site, name) == 1 { Major::Mn } else { Major::K };
        let left = match site.named("a_desc") {
            Some(at) => Left::Memory(site.src(at)?),
            None => {
                let high = Spread::Quads { high: 2 };
                Left::Registers(Fragment::packed(sources(site, 1)?, element(site, a)?, high, OWN, packed))
            }
        };
        let narrow = a.bits() == 8 && matches!(element(site, a)?, Element::Float(_));
        let sum = match sum(d, a, d, site) {
            // The products of 8 bits are kept to 13 bits below the largest, and so is the sum.
            Sum::Fused(fused) if narrow && fused.half => Sum::Fused(Fused { align: 13, ..fused }),
            Sum::Fused(fused) if narrow => Sum::Fused(Fused { align: 13, target: Target::Single(13), ..fused }),
            other => other,
        };
        Ok(Product {
            left,
            right: site.src(site.named("b_desc").ok_or("`wgmma` without a descriptor")?)?,
            shapes: [
                Shape { element: element(site, a)?, lines: ROWS, depth: packed, major: major("imm_trans_a") },
                Shape { element: element(site, b)?, lines: columns, depth, major: major("imm_trans_b") },
            ],
            d: Accumulator { registers: targets(site, 0)?, bits: d.bits() },
            start: Accumulator { registers: sources(site, 0)?, bits: d.bits() },
            accumulate: site.predicate(site.named("scale_d").ok_or("`wgmma` without `scale_d`")?)?,
            negate: immediate(site, "imm_scale_a") * immediate(site, "imm_scale_b") < 0,
            sum,
            sparse: if sparse { Some(metadata(site, a, false, depth)?) } else { None },
        })
    }

    fn run(&self, ctx: &mut Ctx) -> Result<(), Fault> {
        let [mut a, b] = self.matrices(ctx)?;
        let first = match &self.left {
            Left::Registers(fragment) => {
                a = Arc::new(fragment.lines(ctx, |at| at));
                0
            }
            Left::Memory(_) => OWN * (ctx.warp.index % WARPS) as usize,
        };
        let accumulate = ctx.fetch_lane(self.accumulate, 0) != 0;
        let start = self.start.fetch(ctx);
        let mut d = self.d.fresh();
        let picks = self.sparse.map(|meta| meta.picks(ctx)).transpose()?;
        let (tile, mut room) = (Tile::Quads { high: 2 }, Lines::default());
        for (lane, i) in (0..32).flat_map(|lane| (0..self.d.count()).map(move |i| (lane, i))) {
            let (row, column) = tile.position(lane, i);
            let line = match picks.as_ref().and_then(|picks| picks.get(row)) {
                Some(picks) => b.picked(column, picks, &mut room),
                None => b.line(column),
            };
            let c = if accumulate { start.get(lane, i) } else { 0 };
            d.put(lane, i, self.sum.run(a.line(first + row).negated(self.negate), line, c));
        }
        self.d.store(ctx, &d);
        self.fly(ctx);
        Ok(())
    }

    /// Notes which registers are in flight.
    fn fly(&self, ctx: &mut Ctx) {
        let origin = ctx.warp.origin;
        let fragments = match &self.left {
            Left::Registers(fragment) => fragment.registers.as_slice(),
            Left::Memory(_) => &[],
        };
        let slots =
            fragments.iter().filter_map(|src| if let Src::Reg(slot) = src { Some(origin + slot) } else { None });
        let at = ctx.warp.at;
        ctx.warp.flight.issue(at, self.d.registers.iter().map(|dst| origin + dst.slot), slots);
    }

    /// A and B from shared memory: read now, or by another warp of the group.
    fn matrices(&self, ctx: &mut Ctx) -> Result<[Arc<Lines>; 2], Fault> {
        let left = if let Left::Memory(src) = self.left { ctx.fetch_lane(src, 0) } else { 0 };
        let descriptors = [left, ctx.fetch_lane(self.right, 0)];
        let (warpgroup, number) = (ctx.warp.index / WARPS, ctx.warp.flight.issued);
        match ctx.block.together.find(warpgroup, number, descriptors) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            Err(()) => {
                let message = "the warps of a warpgroup execute `wgmma` with different descriptors";
                return Err(Fault::new(FaultKind::Sync, message).code(&codes::W0306));
            }
        }
        complete(ctx, warpgroup)?;
        let a = match self.left {
            Left::Memory(_) => Arc::new(read(ctx, descriptors[0], self.shapes[0])?),
            Left::Registers(_) => Arc::default(),
        };
        let matrices = [a, Arc::new(read(ctx, descriptors[1], self.shapes[1])?)];
        ctx.block.together.keep(warpgroup, number, descriptors, matrices.clone());
        Ok(matrices)
    }
}

/// A matrix that a descriptor describes.
fn read(ctx: &Ctx, descriptor: u64, shape: Shape) -> Result<Lines, Fault> {
    let Shape { element, lines, depth, major } = shape;
    let descriptor = Descriptor::wgmma(descriptor).map_err(Fault::undefined)?;
    let bits = element.bits() as usize;
    let (along, across) = if major == Major::K { (depth, lines) } else { (lines, depth) };
    let pieces = (along * bits).div_ceil(128);
    let mut bytes = Vec::with_capacity(across * pieces * 16);
    for (line, piece) in (0..across).flat_map(|line| (0..pieces).map(move |piece| (line, piece))) {
        let at = descriptor.piece(major, line as u64, piece as u64);
        bytes.extend_from_slice(ctx.bytes(Where::Shared, 0, at, 16)?);
        if let Some(observer) = ctx.observer {
            observer.check_tile(ctx, ctx.block.rank, at, descriptor.swizzle)?;
        }
    }
    let value = |line: usize, at: usize| {
        let bit = line * pieces * 128 + at * bits;
        let word = bytes.get(bit / 8..bit / 8 + bits.div_ceil(8)).map_or(0, number);
        word >> (bit % 8) & mask(bits as u32)
    };
    Ok(Lines::new(lines, depth, element, |line, k| if major == Major::K { value(line, k) } else { value(k, line) }))
}

/// The whole warpgroup must be there when its first warp issues: `.sync.aligned` of four warps.
fn complete(ctx: &Ctx, warpgroup: u32) -> Result<(), Fault> {
    let first = (warpgroup * WARPS) as usize;
    let warps = ctx.block.live.get(first..first + WARPS as usize);
    if warps.is_some_and(|warps| warps.iter().all(|live| *live == u32::MAX)) {
        return Ok(());
    }
    let message = "`wgmma` in a warpgroup of which some threads do not exist or have exited";
    Err(Fault::new(FaultKind::Sync, message).code(&codes::W0306))
}

/// The running instruction is one that all warps of the warpgroup must execute: the same, in the same order.
pub(super) fn in_step(ctx: &mut Ctx) -> Result<(), Fault> {
    let (warp, at) = (ctx.warp.index, ctx.warp.at);
    let number = ctx.warp.flight.steps;
    ctx.warp.flight.steps += 1;
    let warps = ctx.block.live.len() as u32;
    ctx.block.together.step((warp, warps), number, at).map_err(|step| out_of_step(ctx, step))
}

#[cold]
fn out_of_step(ctx: &Ctx, step: Step) -> Fault {
    let name = |pc: u32| ctx.listing.code.get(pc as usize).map_or("an instruction", |code| code.name);
    let (here, there) = (name(ctx.warp.at), name(step.pc));
    let (warp, other) = (ctx.warp.index, ctx.warp.index / WARPS * WARPS + step.warps.trailing_zeros());
    let which = if here == there { format!("another `{there}`") } else { format!("`{there}`") };
    let message = format!("warp {warp} executes `{here}` where warp {other} of its warpgroup executed {which}");
    Fault::new(FaultKind::Sync, message)
        .code(&codes::W0306)
        .party(party(ctx.listing, step.pc, format!("warp {other} executed this one")))
        .help(APART)
}

fn product(site: &Site) -> Decoded {
    let product = Product::new(site)?;
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        in_step(ctx)?;
        product.run(ctx)?;
        Ok(Flow::Next)
    }))
}

/// Orders the registers' accesses, which are in order here.
fn fence(site: &Site) -> Decoded {
    site.accept(&["sync"]);
    Ok(Box::new(|ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        in_step(ctx)?;
        Ok(Flow::Next)
    }))
}

fn commit(site: &Site) -> Decoded {
    site.accept(&["sync"]);
    Ok(Box::new(|ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        in_step(ctx)?;
        ctx.warp.flight.commit();
        Ok(Flow::Next)
    }))
}

fn wait(site: &Site) -> Decoded {
    site.accept(&["sync"]);
    let pending = site.src(0)?;
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        let pending = ctx.fetch_lane(pending, 0);
        if ctx.block.together.lacks(ctx.warp.index / WARPS, ctx.warp.flight.due(pending)) {
            return Ok(Flow::Again);
        }
        in_step(ctx)?;
        ctx.warp.flight.wait(pending);
        Ok(Flow::Next)
    }))
}

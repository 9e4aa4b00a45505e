//! `mma`: products of a warp, dense, sparse and with block scaling (9.7.14.5, 9.7.14.6).
//!
//! What a form is made of stands in its types and its shape; how sums are rounded is in `dot`, where elements stand in
//! `fragment`.

use super::float::bits64;
use super::fragment::{Accumulator, Fragment, Metadata, sources, targets};
use super::layouts::{Spread, Tile};
use super::matrix::meet;
use super::{Op, op};
use crate::ctx::{Ctx, Flow};
use crate::dot::{Element, Fused, Lines, Sum, Target};
use crate::exec::{Dst, Src};
use crate::fault::{Fault, FaultKind};
use crate::site::{Decoded, Refusal, Site};
use crate::soft::{self, Round};
use ptx_core::isa::Type;

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("mma", "", product), op("mma.f64", "", doubles),
];

/// M, N and K of a shape's name.
pub(super) fn shape(site: &Site) -> Result<[usize; 3], Refusal> {
    let parse = |m: &str| {
        let (rows, rest) = m.strip_prefix('m')?.split_once('n')?;
        let (columns, depth) = rest.split_once('k')?;
        Some([rows.parse().ok()?, columns.parse().ok()?, depth.parse().ok()?])
    };
    let found = site.modifiers.iter().find_map(|m| Some((m, parse(m)?)));
    let (name, shape) = found.ok_or_else(|| format!("`{}` without a shape", site.row.name))?;
    site.accept(&[name]);
    Ok(shape)
}

/// The sum for these types: D, A and C.
pub(super) fn sum(d: Type, a: Type, c: Type, site: &Site) -> Sum {
    let half = |ty: Type| ty.bits() == 16;
    let fused = |target| Fused { align: 25, half: half(c), target };
    if let (Some(field), Some(Element::Float(_))) = (site.field, Element::named(a.name())) {
        return Sum::Reals { field, bits: [c.bits(), d.bits()] };
    }
    match Element::named(a.name()) {
        Some(Element::Int { bits: 1, .. }) if site.is("xor") => Sum::Differ,
        Some(Element::Int { .. }) => Sum::Int { clamp: site.is("satfinite") },
        _ if half(d) && half(c) => Sum::Fused(fused(Target::Half)),
        _ if half(d) => Sum::Narrowed(fused(Target::Single(23))),
        _ => Sum::Fused(fused(Target::Single(23))),
    }
}

/// The scales of one operand: a byte for each block of a line.
#[derive(Clone, Copy)]
struct Scales {
    word: Src,
    byte: Src,
    thread: Src,
    /// Blocks of a line.
    blocks: usize,
    format: Option<&'static soft::Format>,
    /// Lanes of a quad that hold scales: two for A's 16 rows, one for B.
    lanes: usize,
}

impl Scales {
    fn new(site: &Site, which: &str, blocks: usize, lanes: usize) -> Result<Option<Scales>, Refusal> {
        let Some(at) = site.named(&format!("scale_{which}")) else { return Ok(None) };
        let ptx_core::ir::Operand::Vector(selectors) = site.operand(at + 1) else {
            return Err("block scales without selectors".into());
        };
        let ty = Type::find("u16").ok_or("no type .u16")?;
        let [byte, thread] = selectors.as_slice() else { return Err("block scales without two selectors".into()) };
        let format = if site.is("ue4m3") { Some(&soft::UE4M3) } else { None };
        let (byte, thread) = (site.source(byte, ty)?, site.source(thread, ty)?);
        Ok(Some(Scales { word: site.src(at)?, byte, thread, blocks, format, lanes }))
    }

    /// Multiplies the blocks of every line by their scales.
    fn apply(&self, ctx: &Ctx, lines: &mut Lines, count: usize) {
        let words = ctx.fetch(self.word);
        let (byte, thread) = (ctx.fetch_lane(self.byte, 0), ctx.fetch_lane(self.thread, 0) as usize);
        let length = lines.depth() / self.blocks;
        for line in 0..count {
            let lane = line % 8 * 4 + (self.lanes * thread + line / 8) % 4;
            for block in 0..self.blocks {
                let bits = words[lane] >> (8 * (byte as usize % 4 + block) as u32) & 0xff;
                lines.scale(line, block * length..(block + 1) * length, scale(bits, self.format));
            }
        }
    }
}

/// The number that a scale is: of a format, or a power of two.
fn scale(bits: u64, format: Option<&soft::Format>) -> soft::Num {
    match format {
        Some(format) => soft::unpack(bits, format),
        None if bits == 0xff => soft::Num::Nan,
        None => soft::Num::Finite { neg: false, sig: 1, exp: bits as i32 - 127 },
    }
}

/// A whole `mma`.
pub(super) struct Product {
    a: Fragment,
    b: Fragment,
    c: Accumulator<Src>,
    d: Accumulator<Dst>,
    c_tile: Tile,
    d_tile: Tile,
    sum: Sum,
    sparse: Option<Metadata>,
    scales: [Option<Scales>; 2],
}

/// D, A, B and C.
fn four(site: &Site) -> Result<[Type; 4], Refusal> {
    match site.types()[..] {
        [d, a, b, c, ..] => Ok([d, a, b, c]),
        _ => Err(format!("`{}` without four types", site.row.name)),
    }
}

impl Product {
    fn new(site: &Site) -> Result<Product, Refusal> {
        site.accept(&["sync", "and", "popc", "block_scale"]);
        let [rows, _, depth] = shape(site)?;
        let [d, a, b, c] = four(site)?;
        let volta = rows == 8 && a.bits() == 16;
        let sparse = site.is("sp") | site.is("sp::ordered_metadata");
        let (contained, scaled) = kind(site);
        let layouts: Vec<_> = site.modifiers.iter().filter(|m| ["row", "col"].contains(m)).collect();
        let eight = a.bits() == 8 && matches!(element(site, a)?, Element::Float(_)) && !contained;
        let fragment = |at: usize, ty: Type, across: &str, lines: usize, depth: usize| {
            let element = element(site, ty)?;
            let spread = match volta {
                true => Spread::Volta { across: layouts.get(at - 1) == Some(&&across) },
                false => Spread::Quads { high: lines / 8 },
            };
            let lines = if volta { 32 } else { lines };
            let packed = Fragment::packed(sources(site, at)?, element, spread, lines, depth);
            let low = if ty.bits() == 4 { 2 } else { 0 };
            Ok::<_, Refusal>(match (contained, eight) {
                (true, _) => Fragment { container: 8, low, ..packed },
                (_, true) => packed.widened(&soft::F16),
                _ => packed,
            })
        };
        site.accept(&["row", "col"]);
        let tile =
            |ty: Type| if volta { Tile::Volta { half: ty.bits() == 16 } } else { Tile::Quads { high: rows / 8 } };
        let sum = match sum(d, a, c, site) {
            reals @ Sum::Reals { .. } => reals,
            _ if volta && d.bits() == 16 => Sum::Pairs,
            _ if volta => Sum::Chain { c: c.bits() == 16 },
            Sum::Fused(fused) if eight => Sum::Halves(fused),
            other => other,
        };
        let blocks = [("4X", 4), ("2X", 2)].iter().find(|(m, _)| site.is(&format!("scale_vec::{m}")));
        let blocks = blocks.map_or(if site.is("kind::mxf4") { 2 } else { 1 }, |(_, n)| *n);
        site.is("scale_vec::1X");
        Ok(Product {
            a: fragment(1, a, "col", rows, if sparse { depth / 2 } else { depth })?,
            b: fragment(2, b, "row", 8, depth)?,
            c: Accumulator { registers: sources(site, 3)?, bits: c.bits() },
            d: Accumulator { registers: targets(site, 0)?, bits: d.bits() },
            c_tile: tile(c),
            d_tile: tile(d),
            sum,
            sparse: if sparse { Some(metadata(site, a, contained, depth)?) } else { None },
            scales: match scaled {
                true => [Scales::new(site, "a", blocks, 2)?, Scales::new(site, "b", blocks, 1)?],
                false => [None, None],
            },
        })
    }

    /// A product without metadata and scales.
    pub(super) fn dense(
        a: Fragment,
        b: Fragment,
        c: Accumulator<Src>,
        d: Accumulator<Dst>,
        tile: Tile,
        sum: Sum,
    ) -> Product {
        Product { a, b, c, d, c_tile: tile, d_tile: tile, sum, sparse: None, scales: [None, None] }
    }

    /// Which element of the fragments comes where: as they are, or first those whose `f16` the chip makes first.
    fn order(&self, depth: usize) -> impl Fn(usize) -> usize + use<> {
        let split = matches!(self.sum, Sum::Halves(_));
        move |at| match (split, at / (depth / 2).max(1)) {
            (false, _) => at,
            (true, half) => {
                let at = at % (depth / 2);
                at / 2 * 4 + at % 2 + 2 * half
            }
        }
    }

    pub(super) fn run(&self, ctx: &mut Ctx) -> Result<(), Fault> {
        let mut a = self.a.lines(ctx, self.order(self.a.depth));
        let straight = self.sparse.is_some();
        let mut b = match straight {
            true => self.b.lines(ctx, |at| at),
            false => self.b.lines(ctx, self.order(self.b.depth)),
        };
        if let Some(scales) = self.scales[0] {
            scales.apply(ctx, &mut a, self.a.lines);
        }
        if let Some(scales) = self.scales[1] {
            scales.apply(ctx, &mut b, self.b.lines);
        }
        let c = self.c_values(ctx);
        let mut d = self.d.fresh();
        let picks = self.sparse.map(|meta| self.ordered(meta.picks(ctx)?)).transpose()?;
        let mut room = Lines::default();
        for (lane, i) in (0..32).flat_map(|lane| (0..self.d.count()).map(move |i| (lane, i))) {
            let (row, column) = self.d_tile.position(lane, i);
            let line = match picks.as_ref().and_then(|picks| picks.get(row)) {
                Some(picks) => b.picked(column, picks, &mut room),
                None => b.line(column),
            };
            d.put(lane, i, self.sum.run(a.line(row), line, c(row, column)));
        }
        self.d.store(ctx, &d);
        Ok(())
    }

    /// The picks in the order of A's elements.
    fn ordered(&self, picks: Vec<Vec<usize>>) -> Result<Vec<Vec<usize>>, Fault> {
        let order = self.order(self.a.depth);
        let sort = |row: Vec<usize>| (0..row.len()).filter_map(|at| row.get(order(at)).copied()).collect();
        Ok(picks.into_iter().map(sort).collect())
    }

    /// C by row and column.
    fn c_values(&self, ctx: &Ctx) -> impl Fn(usize, usize) -> u64 + use<> {
        let values = self.c.fetch(ctx);
        let mut table = vec![0; 32 * 32];
        for (lane, i) in (0..32).flat_map(|lane| (0..self.c.count()).map(move |i| (lane, i))) {
            let (row, column) = self.c_tile.position(lane, i);
            if let Some(to) = table.get_mut(row * 32 + column) {
                *to = values.get(lane, i);
            }
        }
        move |row, column| table.get(row * 32 + column).copied().unwrap_or(0)
    }
}

/// The element type of an operand.
pub(super) fn element(site: &Site, ty: Type) -> Result<Element, Refusal> {
    let element = Element::named(ty.name()).ok_or_else(|| format!("a matrix of .{}", ty.name()))?;
    match (site.field, element) {
        (Some(field), Element::Float(_)) if ty.bits() >= 16 => Ok(Element::Real { field, bits: ty.bits() }),
        (Some(_), Element::Float(_)) => Err(format!("a number of the field does not fit .{}", ty.name())),
        _ => Ok(element),
    }
}

/// Flags of the kind: elements in containers of 8 bits, scaled blocks.
fn kind(site: &Site) -> (bool, bool) {
    const KINDS: [(&str, (bool, bool)); 4] = [
        ("kind::f8f6f4", (true, false)),
        ("kind::mxf8f6f4", (true, true)),
        ("kind::mxf4", (false, true)),
        ("kind::mxf4nvf4", (false, true)),
    ];
    site.one_of(&KINDS).unwrap_or((false, false))
}

/// The metadata of a sparse form. Elements of 4 bits side by side come in pairs.
pub(super) fn metadata(site: &Site, a: Type, contained: bool, depth: usize) -> Result<Metadata, Refusal> {
    let (chunk, kept) = match a.bits() {
        4 if !contained => (8, 4),
        32 => (2, 1),
        _ => (4, 2),
    };
    let missing = || "a sparse `mma` without metadata".to_string();
    let named = |a: &str, b: &str| site.named(a).or(site.named(b)).ok_or_else(missing);
    let words = site.elements(named("e", "sp_meta")?);
    let word = site.source(words.first().ok_or_else(missing)?, Type::find("b32").ok_or("no type .b32")?)?;
    let selector = match site.operand(named("f", "sp_sel")?) {
        ptx_core::ir::Operand::Int(selector) => *selector,
        _ => return Err("a sparsity selector that is no number".into()),
    };
    Ok(Metadata { word, selector, chunk, kept, chunks: depth / chunk, mixed: a.bits() >= 16 })
}

fn product(site: &Site) -> Decoded {
    let product = Product::new(site)?;
    let beyond = product.sparse.is_some_and(|meta| meta.selector >= 16 / meta.chunks as u64);
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        if beyond {
            let message = "a sparsity selector that this shape does not have; the chip calls it an illegal instruction";
            return Err(Fault::new(FaultKind::Undefined, message));
        }
        product.run(ctx)?;
        Ok(Flow::Next)
    }))
}

/// `f64`: one product after another, each sum rounded.
fn doubles(site: &Site) -> Decoded {
    if site.field.is_some() {
        site.round();
        return product(site);
    }
    site.accept(&["sync", "row", "col"]);
    let [rows, _, depth] = shape(site)?;
    let double = Element::Float(&soft::F64);
    let fragment = |at: usize, lines: usize| -> Result<Fragment, Refusal> {
        Ok(Fragment::packed(sources(site, at)?, double, Spread::Quads { high: lines / 8 }, lines, depth))
    };
    let (a, b, tile) = (fragment(1, rows)?, fragment(2, 8)?, Tile::Quads { high: rows / 8 });
    let c = Accumulator { registers: sources(site, 3)?, bits: 64 };
    let d = Accumulator { registers: targets(site, 0)?, bits: 64 };
    chained(a, b, c, d, tile, site.round())
}

/// A product of `f64` fragments.
pub(super) fn chained(
    a: Fragment,
    b: Fragment,
    c: Accumulator<Src>,
    d: Accumulator<Dst>,
    tile: Tile,
    round: Round,
) -> Decoded {
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        let (rows, columns, start) = (a.doubles(ctx), b.doubles(ctx), c.fetch(ctx));
        let mut result = d.fresh();
        for (lane, i) in (0..32).flat_map(|lane| (0..d.count()).map(move |i| (lane, i))) {
            let (row, column) = tile.position(lane, i);
            if let (Some(row), Some(column)) = (rows.get(row), columns.get(column)) {
                result.put(lane, i, chain(row, column, start.get(lane, i), round));
            }
        }
        d.store(ctx, &result);
        Ok(Flow::Next)
    }))
}

/// `c + Σ a·b` in `f64`, in order.
fn chain(a: &[u64], b: &[u64], c: u64, round: Round) -> u64 {
    let value = |bits: u64| soft::unpack(bits, &soft::F64);
    a.iter().zip(b).fold(c, |total, (x, y)| {
        let exact = soft::fma(value(*x), value(*y), value(total), round);
        match exact {
            soft::Num::Nan => bits64(f64::NAN, [*x, *y, total]),
            exact => soft::pack(exact, &soft::F64, round, false),
        }
    })
}

//! `ldmatrix`, `stmatrix`, `movmatrix` and dense `mma` (9.7.14.5). Every fragment layout is one rule, see [`Fragment`].
//!
//! Products are exact; `f32` and `f16` accumulators add them in order of k, each sum rounded to nearest in `f32` (`f64`:
//! in `f64`), and round once to the type of D.

use super::{Op, op};
use crate::interp::ctx::{Ctx, Dst, Flow, Src};
use crate::interp::fault::{Fault, FaultKind};
use crate::interp::site::{Decoded, Refusal, Site};
use crate::interp::soft::{self, Format, Num, Round, mask};
use crate::interp::space::{Where, number};
use crate::isa::{Class, Type};

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("ldmatrix.m8n8", "", load), op("stmatrix.m8n8", "", store), op("movmatrix", "", transpose),
    op("mma.f16", "", floats), op("mma.bf16", "", floats), op("mma.tf32", "", floats), op("mma.f64", "", floats),
    op("mma.e4m3", "", floats), op("mma.e5m2", "", floats),
    op("mma.s8", "", integers), op("mma.u8", "", integers), op("mma.s4", "", integers), op("mma.u4", "", integers),
    op("mma.b1", "", bits),
];

/// The whole warp must be here: `.sync.aligned`. `false` while lanes are missing; they wait.
pub(super) fn meet(ctx: &mut Ctx, group: u32) -> Result<bool, Fault> {
    let live = ctx.warp.live;
    if live != u32::MAX {
        return Err(Fault::new(
            FaultKind::Sync,
            "a matrix instruction in a warp of which some lanes do not exist or have exited",
        ));
    }
    Ok(ctx.meet(group, Src::Value(live.into()))? == group)
}

/// The registers of a matrix operand.
pub(super) fn sources(site: &Site, at: usize, ty: Type) -> Result<Vec<Src>, Refusal> {
    site.elements(at).iter().map(|o| site.source(o, ty)).collect()
}

pub(super) fn targets(site: &Site, at: usize, ty: Type) -> Result<Vec<Dst>, Refusal> {
    site.elements(at).iter().map(|o| site.destination(o, ty)).collect()
}

pub(super) fn b32() -> Result<Type, Refusal> {
    Type::find("b32").ok_or_else(|| "no type .b32".into())
}

/// Where an 8×8 matrix of 16-bit elements keeps the two elements of a lane: row and column.
fn place(lane: usize, half: usize, transposed: bool) -> (usize, usize) {
    let (row, col) = (lane / 4, lane % 4 * 2 + half);
    if transposed { (col, row) } else { (row, col) }
}

/// `ldmatrix`: lane 8·m + r has the address of row r of matrix m.
fn load(site: &Site) -> Decoded {
    site.accept(&["sync", "x1", "x2", "x4", "shared", "shared::cta"]);
    let transposed = site.is("trans");
    let (targets, address) = (targets(site, 0, b32()?)?, site.address(1, space(site))?);
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        let bases = ctx.fetch(address.base).map(|base| base.wrapping_add(address.offset));
        for (matrix, dst) in targets.iter().enumerate() {
            let mut rows = [[0; 16]; 8];
            for (row, bytes) in rows.iter_mut().enumerate() {
                let lane = (8 * matrix + row) % 32;
                bytes.copy_from_slice(ctx.bytes(address.space, lane, bases[lane], 16)?);
            }
            let half = |lane: usize, half: usize| {
                let (row, col) = place(lane, half, transposed);
                number(&rows[row][2 * col..2 * col + 2])
            };
            ctx.store(*dst, group, |lane| half(lane, 0) | half(lane, 1) << 16);
        }
        Ok(Flow::Next)
    }))
}

/// Shared memory if the instruction names it, else a generic address.
fn space(site: &Site) -> Where {
    if site.is("shared") || site.is("shared::cta") { Where::Shared } else { Where::Generic }
}

fn store(site: &Site) -> Decoded {
    site.accept(&["sync", "x1", "x2", "x4", "shared", "shared::cta"]);
    let transposed = site.is("trans");
    let (address, sources) = (site.address(0, space(site))?, sources(site, 1, b32()?)?);
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        let bases = ctx.fetch(address.base).map(|base| base.wrapping_add(address.offset));
        for (matrix, src) in sources.iter().enumerate() {
            let rows = rows(&ctx.fetch(*src), transposed);
            for (row, words) in rows.iter().enumerate() {
                let lane = (8 * matrix + row) % 32;
                let bytes = ctx.bytes_mut(address.space, lane, bases[lane], 16)?;
                for (to, word) in bytes.chunks_exact_mut(2).zip(words) {
                    to.copy_from_slice(&word.to_le_bytes());
                }
            }
        }
        Ok(Flow::Next)
    }))
}

/// The 8×8 matrix that the lanes of a warp hold.
fn rows(lanes: &[u64; 32], transposed: bool) -> [[u16; 8]; 8] {
    let mut rows = [[0; 8]; 8];
    for (lane, value) in lanes.iter().enumerate() {
        for half in 0..2 {
            let (row, col) = place(lane, half, transposed);
            rows[row][col] = (value >> (16 * half)) as u16;
        }
    }
    rows
}

fn transpose(site: &Site) -> Decoded {
    site.accept(&["sync", "m8n8", "trans"]);
    let (dst, src) = (site.dst(0)?, site.src(1)?);
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        let rows = rows(&ctx.fetch(src), true);
        let half = |lane: usize, half: usize| {
            let (row, col) = place(lane, half, false);
            u64::from(rows[row][col])
        };
        ctx.store(dst, group, |lane| half(lane, 0) | half(lane, 1) << 16);
        Ok(Flow::Next)
    }))
}

/// How an operand of `mma` is spread over a warp. A register holds `per` elements along k (A, B) or along a row (C, D).
/// Register r of lane 4·g + t holds, of A, row g (+8 for odd r where there are 16 rows) and the elements from
/// k = per·t + 4·per·(r / rows) on; of B the same with the column g; of C, row g + 8·(i / 2), column 2·t + i % 2.
struct Fragment {
    registers: Vec<Src>,
    /// Bits of an element, and of a register.
    bits: u32,
    word: u32,
    /// How many registers lie in one column of fragments: 2 for an A of 16 rows, else 1.
    high: usize,
}

impl Fragment {
    fn new(site: &Site, at: usize, bits: u32, high: usize) -> Result<Fragment, Refusal> {
        let word = if bits == 64 { 64 } else { 32 };
        let ty = Type::find(if word == 64 { "b64" } else { "b32" }).ok_or("no untyped bits")?;
        Ok(Fragment { registers: sources(site, at, ty)?, bits, word, high })
    }

    fn per(&self) -> usize {
        (self.word / self.bits) as usize
    }

    /// The k of the product, as many as the registers hold.
    fn depth(&self) -> usize {
        4 * self.per() * self.registers.len() / self.high
    }

    /// The rows (of A; columns of B) as vectors along k.
    fn vectors(&self, ctx: &Ctx) -> Vec<Vec<u64>> {
        let (per, depth) = (self.per(), self.depth());
        let mut found = vec![vec![0; depth]; 8 * self.high];
        for (r, src) in self.registers.iter().enumerate() {
            for (lane, value) in ctx.fetch(*src).iter().enumerate() {
                let line = &mut found[lane / 4 + 8 * (r % self.high)];
                let first = per * (lane % 4) + 4 * per * (r / self.high);
                for (i, to) in line[first..first + per].iter_mut().enumerate() {
                    *to = value >> (i as u32 * self.bits) & mask(self.bits);
                }
            }
        }
        found
    }
}

/// An accumulator: elements in registers, one or two to each.
struct Accumulator<R> {
    registers: Vec<R>,
    bits: u32,
    packed: bool,
}

impl<R: Copy> Accumulator<R> {
    /// The register of an element of a lane, and by how much it is shifted there.
    fn at(&self, i: usize) -> Option<(R, u32)> {
        let (register, shift) = if self.packed { (i / 2, i as u32 % 2 * 16) } else { (i, 0) };
        self.registers.get(register).map(|r| (*r, shift))
    }
}

/// How a row of A, a column of B and an element of C become one of D.
type Dot = dyn Fn(&[u64], &[u64], u64) -> u64;

/// A whole `mma`: its operands.
struct Mma {
    a: Fragment,
    b: Fragment,
    c: Accumulator<Src>,
    d: Accumulator<Dst>,
}

impl Mma {
    fn new(site: &Site, bits: u32) -> Result<Mma, Refusal> {
        site.accept(&["sync", "row", "col"]);
        let shape = site
            .modifiers()
            .find(|m| m.starts_with('m') && m.ends_with(|c: char| c.is_ascii_digit()) && m.contains('k'));
        let shape = shape.ok_or("`mma` without a shape")?;
        site.accept(&[shape]);
        if shape == "m8n8k4" && bits == 16 {
            return Err("`mma.m8n8k4` on .f16 has no semantics here yet".into());
        }
        let high = if shape.starts_with("m16") { 2 } else { 1 };
        let types = site.types();
        let (d, c) = (*types.first().ok_or("no types")?, *types.last().ok_or("no types")?);
        let word = |ty: Type| Type::find(if ty.bits() == 64 { "b64" } else { "b32" }).ok_or("no untyped bits");
        let mma = Mma {
            a: Fragment::new(site, 1, bits, high)?,
            b: Fragment::new(site, 2, bits, 1)?,
            c: Accumulator { registers: sources(site, 3, word(c)?)?, bits: c.bits(), packed: c.bits() == 16 },
            d: Accumulator { registers: targets(site, 0, word(d)?)?, bits: d.bits(), packed: d.bits() == 16 },
        };
        if mma.a.depth() != mma.b.depth() {
            Err(format!("`mma.{shape}` with fragments of different depths"))
        } else {
            Ok(mma)
        }
    }

    /// Runs it with `dot`: a row of A, a column of B and an element of C give one of D.
    fn run(self, dot: impl Fn(&[u64], &[u64], u64) -> u64 + Send + Sync + 'static) -> Decoded {
        Ok(Box::new(move |ctx, group| {
            if !meet(ctx, group)? {
                return Ok(Flow::Apart);
            }
            let (a, b) = (self.a.vectors(ctx), self.b.vectors(ctx));
            for lane in 0..32 {
                let values: Vec<u64> = (0..2 * self.a.high).map(|i| self.element(ctx, lane, i, &a, &b, &dot)).collect();
                self.put(ctx, lane, &values);
            }
            Ok(Flow::Next)
        }))
    }

    fn element(&self, ctx: &Ctx, lane: usize, i: usize, a: &[Vec<u64>], b: &[Vec<u64>], dot: &Dot) -> u64 {
        let (row, col) = (lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2);
        let c = self.c.at(i).map_or(0, |(src, shift)| ctx.fetch_lane(src, lane) >> shift & mask(self.c.bits));
        match (a.get(row), b.get(col)) {
            (Some(a), Some(b)) => dot(a, b, c),
            _ => 0,
        }
    }

    fn put(&self, ctx: &mut Ctx, lane: usize, values: &[u64]) {
        let step = if self.d.packed { 2 } else { 1 };
        for (i, parts) in values.chunks(step).enumerate() {
            let word = parts.iter().rev().fold(0, |word, v| word << 16 | v & mask(self.d.bits));
            let word = if step == 1 { parts.first().copied().unwrap_or(0) } else { word };
            if let Some((dst, _)) = self.d.at(i * step) {
                ctx.store_lane(dst, lane, word);
            }
        }
    }
}

/// D, A, B and C.
fn four(site: &Site) -> Result<[Type; 4], Refusal> {
    site.types().try_into().map_err(|_| "`mma` without four types".into())
}

fn float(ty: Type) -> Result<&'static Format, Refusal> {
    soft::format(ty.name()).ok_or_else(|| format!("`mma` on .{}", ty.name()))
}

fn floats(site: &Site) -> Decoded {
    let [d, a, b, c] = four(site)?;
    let [d, x, y, c] = [float(d)?, float(a)?, float(b)?, float(c)?];
    let sum = if d.bits == 64 { &soft::F64 } else { &soft::F32 };
    let round = site.round();
    // A `tf32` fills a whole register.
    let bits = if x.padding > 0 { 32 } else { x.bits };
    let mma = Mma::new(site, bits)?;
    mma.run(move |row, col, start| {
        let products = row.iter().zip(col).map(|(a, b)| soft::mul(soft::unpack(*a, x), soft::unpack(*b, y)));
        let add =
            |total: Num, product| soft::unpack(soft::pack(soft::add(total, product, round), sum, round, false), sum);
        soft::pack(products.fold(soft::unpack(start, c), add), d, Round::Nearest, false)
    })
}

fn integers(site: &Site) -> Decoded {
    let [_, a, b, _] = four(site)?;
    let value = |ty: Type| {
        let (unused, signed) = (64 - ty.bits(), ty.class() == Class::Signed || ty.name().starts_with('s'));
        move |v: u64| if signed { (v << unused) as i64 >> unused } else { v as i64 }
    };
    let (x, y, clamp) = (value(a), value(b), site.is("satfinite"));
    Mma::new(site, a.bits())?.run(move |row, col, start| {
        let total: i64 = row.iter().zip(col).map(|(a, b)| x(*a) * y(*b)).sum();
        let total = total + i64::from(start as u32 as i32);
        let total = if clamp { total.clamp(i32::MIN.into(), i32::MAX.into()) } else { total };
        total as u64 & mask(32)
    })
}

fn bits(site: &Site) -> Decoded {
    let differ = site.is("xor");
    site.accept(&["and", "popc"]);
    Mma::new(site, 1)?.run(move |row, col, start| {
        let count = row.iter().zip(col).filter(|(a, b)| if differ { a != b } else { **a & **b == 1 }).count();
        (start as u32).wrapping_add(count as u32).into()
    })
}

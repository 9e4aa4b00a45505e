//! `wmma` (9.7.14.4): matrices between memory and fragments, and their products.
//!
//! How a fragment is spread over the lanes is the machine's own business: here element by element, see [`Spread::Plain`].

use super::fragment::{Accumulator, Fragment, sources, targets};
use super::layouts::{Spread, Tile};
use super::matrix::meet;
use super::mma::{self, Product, element, shape};
use super::moves::space;
use super::{Op, op};
use crate::ctx::{Ctx, Flow};
use crate::dot::{Element, Sum};
use crate::exec::{Dst, Src};
use crate::fault::{Fault, FaultKind};
use crate::site::{Address, Decoded, Refusal, Site};
use crate::soft::mask;
use crate::space::number;
use crate::warp::Lanes;
use ptx_core::isa::Type;

#[rustfmt::skip]
pub(super) const OPS: &[Op] = &[
    op("wmma.load.a", "", |s| load(s, Part::A)), op("wmma.load.b", "", |s| load(s, Part::B)),
    op("wmma.load.c", "", |s| load(s, Part::C)), op("wmma.store.d", "", store), op("wmma.mma", "", product),
];

/// Which matrix.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    A,
    B,
    C,
}

/// A matrix in memory, and its elements in order: the coordinates of element e.
struct Matrix {
    address: Address,
    /// Elements between neighbors of the outer dimension.
    stride: Option<Src>,
    /// Default value.
    packed: u64,
    rows: bool,
    bits: u64,
    /// Elements of a line in a fragment, whose first index is the column.
    depth: usize,
    turned: bool,
    count: usize,
    registers: usize,
}

impl Matrix {
    fn new(site: &Site, part: Part, at: usize, ty: Type) -> Result<Matrix, Refusal> {
        site.accept(&["sync"]);
        let [m, n, k] = shape(site)?;
        // Rows and columns of the matrix; a fragment has lines of A along the rows, of B along the columns.
        let (height, width) = match part {
            Part::A => (m, k),
            Part::B => (k, n),
            Part::C => (m, n),
        };
        let rows = site.is("row");
        site.is("col");
        let turned = part == Part::B;
        Ok(Matrix {
            address: site.address(at, space(site))?,
            stride: site.named("stride").map(|at| site.src(at)).transpose()?,
            packed: if rows { width } else { height } as u64,
            rows,
            bits: element(site, ty)?.bits().into(),
            depth: if turned { height } else { width },
            turned,
            count: height * width,
            registers: site.elements(if at == 0 { 1 } else { 0 }).len(),
        })
    }

    /// Elements of a register.
    fn per(&self) -> usize {
        (32 / self.bits).max(1) as usize
    }

    /// For each element: its register, lane and shift there; and its bit in memory.
    fn each(&self, stride: u64) -> impl Iterator<Item = ((usize, usize, u32), u64)> {
        (0..self.count).map(move |e| {
            let (line, at) = (e / self.depth, e % self.depth);
            let (row, column) = if self.turned { (at, line) } else { (line, at) };
            let (outer, inner) = if self.rows { (row, column) } else { (column, row) };
            let slot = e / 32;
            let place = (slot / self.per(), e % 32, (slot % self.per()) as u32 * self.bits as u32);
            (place, (outer as u64).wrapping_mul(stride).wrapping_add(inner as u64).wrapping_mul(self.bits))
        })
    }

    /// Its first byte and its stride, which all lanes must agree on.
    fn start(&self, ctx: &Ctx) -> Result<(u64, u64), Fault> {
        let same = |values: Lanes, what: &str| match values.iter().position(|v| *v != values[0]) {
            None => Ok(values[0]),
            Some(lane) => {
                let message = format!("`wmma` with different {what} in the lanes of a warp");
                Err(Fault::new(FaultKind::Undefined, message).lane(lane))
            }
        };
        let address = same(ctx.fetch(self.address.base), "addresses")?.wrapping_add(self.address.offset);
        let stride = self.stride.map(|src| same(ctx.fetch(src), "strides")).transpose()?;
        Ok((address, stride.map_or(self.packed, |s| s & mask(32))))
    }

    /// The registers of a fragment, filled from memory.
    fn load(&self, ctx: &Ctx) -> Result<Vec<Lanes>, Fault> {
        let (address, stride) = self.start(ctx)?;
        let mut words = vec![[0; 32]; self.registers];
        for ((register, lane, shift), bit) in self.each(stride) {
            let bytes = ctx.bytes(self.address.space, lane, address.wrapping_add(bit / 8), self.bits.div_ceil(8))?;
            let value = number(bytes) >> (bit % 8) & mask(self.bits as u32);
            if let Some(word) = words.get_mut(register) {
                word[lane] |= value << shift;
            }
        }
        Ok(words)
    }

    /// The registers of a fragment, written to memory; elements are whole bytes.
    fn store(&self, ctx: &mut Ctx, words: &[Lanes]) -> Result<(), Fault> {
        let (address, stride) = self.start(ctx)?;
        for ((register, lane, shift), bit) in self.each(stride) {
            let value = words.get(register).map_or(0, |word| word[lane] >> shift).to_le_bytes();
            let size = self.bits / 8;
            let bytes = ctx.bytes_mut(self.address.space, lane, address.wrapping_add(bit / 8), size)?;
            bytes.copy_from_slice(&value[..size as usize]);
        }
        Ok(())
    }
}

/// The type of the elements in memory.
fn stored(site: &Site) -> Result<Type, Refusal> {
    site.types().last().copied().ok_or_else(|| "`wmma` without a type".into())
}

fn load(site: &Site, part: Part) -> Decoded {
    let (matrix, targets) = (Matrix::new(site, part, 1, stored(site)?)?, targets(site, 0)?);
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        let words = matrix.load(ctx)?;
        for (dst, word) in targets.iter().zip(&words) {
            ctx.store(*dst, group, |lane| word[lane]);
        }
        Ok(Flow::Next)
    }))
}

fn store(site: &Site) -> Decoded {
    let (matrix, sources) = (Matrix::new(site, Part::C, 0, stored(site)?)?, sources(site, 1)?);
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        let words: Vec<Lanes> = sources.iter().map(|src| ctx.fetch(*src)).collect();
        matrix.store(ctx, &words)?;
        Ok(Flow::Next)
    }))
}

/// D, A and C; of `f16` products the type of A is not written.
fn types(site: &Site) -> Result<[Type; 3], Refusal> {
    match site.types()[..] {
        [d, c] => Ok([d, Type::find("f16").ok_or("no type .f16")?, c]),
        [d, a, _, c] => Ok([d, a, c]),
        _ => Err("`wmma.mma` without its types".into()),
    }
}

fn product(site: &Site) -> Decoded {
    site.accept(&["sync", "and", "popc", "row", "col"]);
    let [m, n, k] = shape(site)?;
    let [d, a, c] = types(site)?;
    let element: Element = element(site, a)?;
    let fragment = |at: usize, lines: usize| -> Result<Fragment, Refusal> {
        Ok(Fragment::packed(sources(site, at)?, element, Spread::Plain { depth: k }, lines, k))
    };
    let (a_fragment, b_fragment, tile) = (fragment(1, m)?, fragment(2, n)?, Tile::Plain { columns: n });
    let start = Accumulator::<Src> { registers: sources(site, 3)?, bits: c.bits() };
    let result = Accumulator::<Dst> { registers: targets(site, 0)?, bits: d.bits() };
    if d.bits() == 64 && site.field.is_none() {
        return mma::chained(a_fragment, b_fragment, start, result, tile, site.round());
    }
    let sum = match mma::sum(d, a, c, site) {
        Sum::Fused(fused) if element.bits() == 32 => Sum::Twice(fused),
        other => other,
    };
    let product = Product::dense(a_fragment, b_fragment, start, result, tile, sum);
    Ok(Box::new(move |ctx, group| {
        if !meet(ctx, group)? {
            return Ok(Flow::Apart);
        }
        product.run(ctx)?;
        Ok(Flow::Next)
    }))
}

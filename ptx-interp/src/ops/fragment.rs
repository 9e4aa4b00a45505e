//! Distribution of the matrices of warp instructions over lanes and registers (9.7.14.4–6): fragments as [`Lines`],
//! accumulators, and the metadata of sparse matrices. What the instructions calculate is in `mma` and `wmma`.

use super::layouts::Spread;
use crate::ctx::Ctx;
use crate::dot::{Element, Lines};
use crate::exec::{Dst, Src};
use crate::fault::{Fault, FaultKind};
use crate::site::{Refusal, Site};
use crate::soft::{self, Format, Round, mask};
use crate::warp::Lanes;
use ptx_core::isa::Type;

/// The registers of a matrix operand, as bits.
pub(super) fn sources(site: &Site, at: usize) -> Result<Vec<Src>, Refusal> {
    site.elements(at).iter().map(|o| site.source(o, untyped(site, at)?)).collect()
}

/// The same of one that is written.
pub(super) fn targets(site: &Site, at: usize) -> Result<Vec<Dst>, Refusal> {
    site.elements(at).iter().map(|o| site.destination(o, untyped(site, at)?)).collect()
}

/// Untyped bits as wide as an operand's type.
fn untyped(site: &Site, at: usize) -> Result<Type, Refusal> {
    let name = if site.ty(at).is_ok_and(|ty| ty.bits() == 64) { "b64" } else { "b32" };
    Type::find(name).ok_or_else(|| "no untyped bits".into())
}

/// A or B of a warp's product.
#[derive(Clone)]
pub(super) struct Fragment {
    pub registers: Vec<Src>,
    pub element: Element,
    /// Its format before the conversion.
    pub narrow: Option<&'static Format>,
    /// Bits from one element to the next, and the first bit of an element in its place.
    pub container: u32,
    pub low: u32,
    pub spread: Spread,
    pub lines: usize,
    pub depth: usize,
}

impl Fragment {
    /// The fragment of elements that stand side by side in registers of 32 bits.
    pub(super) fn packed(
        registers: Vec<Src>,
        element: Element,
        spread: Spread,
        lines: usize,
        depth: usize,
    ) -> Fragment {
        Fragment { registers, element, narrow: None, container: element.bits(), low: 0, spread, lines, depth }
    }

    /// Bits of a register.
    fn word(&self) -> u32 {
        self.container.max(32)
    }

    /// The same elements, as the chip converts them first.
    pub(super) fn widened(self, format: &'static Format) -> Fragment {
        match self.element {
            Element::Float(narrow) => Fragment { element: Element::Float(format), narrow: Some(narrow), ..self },
            Element::Int { .. } | Element::Real { .. } => self,
        }
    }

    /// The bits of each element, by line and k.
    fn bits<R>(&self, ctx: &Ctx, make: impl FnOnce(&dyn Fn(usize, usize) -> u64) -> R) -> R {
        let values: Vec<Lanes> = self.registers.iter().map(|r| ctx.fetch(*r)).collect();
        let per = (self.word() / self.container) as usize;
        make(&|line, k| {
            let (register, lane, part) = self.spread.place(line, k, per);
            let word = values.get(register).map_or(0, |lanes| lanes[lane]);
            word >> (part as u32 * self.container + self.low) & mask(self.container - self.low)
        })
    }

    /// The lines; `order` maps elements to places.
    pub(super) fn lines(&self, ctx: &Ctx, order: impl Fn(usize) -> usize) -> Lines {
        let widen = |bits: u64| match (self.narrow, self.element) {
            (Some(narrow), Element::Float(wide)) => soft::pack(soft::unpack(bits, narrow), wide, Round::Nearest, false),
            _ => bits,
        };
        self.bits(ctx, |bits| Lines::new(self.lines, self.depth, self.element, |line, at| widen(bits(line, order(at)))))
    }

    /// The lines as they are, for `f64`.
    pub(super) fn doubles(&self, ctx: &Ctx) -> Vec<Vec<u64>> {
        self.bits(ctx, |bits| (0..self.lines).map(|l| (0..self.depth).map(|k| bits(l, k)).collect()).collect())
    }
}

/// C or D: its registers, with one element or two in each.
#[derive(Clone, Debug)]
pub(super) struct Accumulator<R> {
    pub registers: Vec<R>,
    pub bits: u32,
}

impl<R> Accumulator<R> {
    /// Number of elements of a lane.
    pub(super) fn count(&self) -> usize {
        self.registers.len() * self.per()
    }

    fn per(&self) -> usize {
        if self.bits == 16 { 2 } else { 1 }
    }
}

impl Accumulator<Src> {
    /// The values of all lanes, register by register.
    pub(super) fn fetch(&self, ctx: &Ctx) -> Values {
        Values { words: self.registers.iter().map(|r| ctx.fetch(*r)).collect(), per: self.per(), bits: self.bits }
    }
}

impl Accumulator<Dst> {
    /// Zeros, to be filled.
    pub(super) fn fresh(&self) -> Values {
        Values { words: vec![[0; 32]; self.registers.len()], per: self.per(), bits: self.bits }
    }

    /// Writes the values of all lanes.
    pub(super) fn store(&self, ctx: &mut Ctx, values: &Values) {
        for (dst, word) in self.registers.iter().zip(&values.words) {
            ctx.store(*dst, u32::MAX, |lane| word[lane]);
        }
    }
}

/// Content of the registers of an accumulator.
pub(super) struct Values {
    words: Vec<Lanes>,
    per: usize,
    bits: u32,
}

impl Values {
    /// Element i of a lane.
    pub(super) fn get(&self, lane: usize, i: usize) -> u64 {
        let word = self.words.get(i / self.per).map_or(0, |word| word[lane]);
        word >> (i % self.per * 16) & mask(self.bits)
    }

    /// Sets one that is zero.
    pub(super) fn put(&mut self, lane: usize, i: usize, value: u64) {
        if let Some(word) = self.words.get_mut(i / self.per) {
            word[lane] |= (value & mask(self.bits)) << (i % self.per * 16);
        }
    }
}

/// The metadata of a sparse A: which elements of a row are there.
#[derive(Clone, Copy)]
pub(super) struct Metadata {
    pub word: Src,
    pub selector: u64,
    /// Elements of B that four bits choose from, and how many they choose.
    pub chunk: usize,
    pub kept: usize,
    /// Chunks of a row.
    pub chunks: usize,
    /// True if a lane holds four chunks of two rows; else eight of one.
    pub mixed: bool,
}

impl Metadata {
    /// Of 16 rows, the elements of B for the elements of A.
    ///
    /// Four bits a chunk. Of elements of 16 bits and more a lane of the quad holds four chunks of a row and, in its upper half,
    /// of the row eight further; of smaller ones eight chunks of a row, the next lane those of the row eight further.
    pub(super) fn picks(&self, ctx: &Ctx) -> Result<Vec<Vec<usize>>, Fault> {
        let words = ctx.fetch(self.word);
        (0..16).map(|row| self.row(&words, row)).collect()
    }

    fn row(&self, words: &Lanes, row: usize) -> Result<Vec<usize>, Fault> {
        let (quad, upper) = (row % 8 * 4, row / 8);
        let mut picks = Vec::with_capacity(self.chunks * self.kept);
        for chunk in 0..self.chunks {
            let first = self.selector as usize * self.chunks / 4;
            let (lane, shift) = match self.mixed {
                true => (first + chunk / 4, 16 * upper + 4 * (chunk % 4)),
                false => (first + upper + 2 * (chunk / 8), 4 * (chunk % 8)),
            };
            let lane = quad + lane % 4;
            let bits = words[lane] >> shift & 15;
            let [first, second] = [bits as usize & 3, bits as usize >> 2];
            let meaning = self.kept > 1 && first < second || self.kept == 1 && (bits == 4 || bits == 14);
            if !meaning {
                let message = format!(
                    "sparse metadata {bits:#06b} for a chunk of {} elements; the manual gives it no meaning",
                    self.chunk
                );
                return Err(Fault::new(FaultKind::Undefined, message).lane(lane));
            }
            picks.extend(self.chosen(chunk, first, second));
        }
        Ok(picks)
    }

    /// The elements of a chunk that two indices choose: each stands for a quarter of the chunk; of a chunk of two, for half
    /// an element.
    fn chosen(&self, chunk: usize, first: usize, second: usize) -> impl Iterator<Item = usize> {
        let start = chunk * self.chunk;
        let (unit, indices) = match self.chunk {
            2 => (1, vec![first / 2]),
            size => (size / 4, vec![first, second]),
        };
        indices.into_iter().flat_map(move |index| (0..unit).map(move |i| start + index * unit + i))
    }
}

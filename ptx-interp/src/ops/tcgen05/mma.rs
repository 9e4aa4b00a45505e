//! `tcgen05.mma`, `.sp`, `.ws` (9.7.16.10.9): one thread multiplies two matrices, and adds to tensor memory.
//!
//! A collector changes nothing here: every instruction reads its factors from memory, as it may.

use super::idesc::{Form, Idesc, KINDS, Result as Type};
use super::numbers::{Arithmetic, Integers, Scaled, Singles};
use super::operand::{Shared, in_tensor, metadata_columns, positions};
use super::scale::{Resolved, Scales};
use super::zeros::Zeros;
use super::{At, pairs, source};
use crate::ctx::{Ctx, Flow};
use crate::exec::Src;
use crate::fault::{Fault, FaultKind};
use crate::ops::fragment::sources;
use crate::site::{Decoded, Refusal, Site};
use crate::tmem::{Cells, Use};
use crate::tmem::{LANES, Taddr, Tmem};
use crate::warp::lanes;
use ptx_core::diag::codes;
use ptx_core::ir::Operand;
use ptx_core::isa::{Arch, Suffix};

/// Place of A.
#[derive(Clone, Copy)]
enum Left {
    Shared(Src),
    Tensor(At),
}

/// An instruction, decoded.
struct Mma {
    form: Form,
    d: At,
    a: Left,
    b: Src,
    idesc: Src,
    enable: Src,
    metadata: Option<At>,
    scales: Option<Scales>,
    zeros: Option<Src>,
    disabled: Vec<Src>,
    /// D counts 2^-this times.
    shrink: i32,
    ashift: bool,
}

pub(super) fn mma(site: &Site) -> Decoded {
    let mma = Mma::new(site)?;
    Ok(Box::new(move |ctx, group| {
        lanes(group).try_for_each(|lane| {
            ctx.issuer = lane;
            mma.run(ctx, lane).map_err(|fault| fault.lane(lane))
        })?;
        Ok(Flow::Next)
    }))
}

impl Mma {
    fn new(site: &Site) -> Result<Mma, Refusal> {
        let collector: Vec<_> = site.modifiers.iter().copied().filter(|m| m.starts_with("collector::")).collect();
        site.accept(&collector);
        let kind = KINDS.iter().find(|kind| site.is(kind.name));
        let kind = kind.ok_or("this kind of `tcgen05.mma` has no semantics here yet")?;
        let wide = site.module.arch == Arch { number: 103, suffix: Suffix::Arch };
        let form = Form { kind, sparse: site.is("sp"), stationary: site.is("ws"), pairs: pairs(site), wide };
        let optional = |name| site.named(name).map(|at| site.src(at)).transpose();
        Ok(Mma {
            form,
            d: At::new(site, "d")?,
            a: match site.named("a") {
                Some(_) => Left::Tensor(At::new(site, "a")?),
                None => Left::Shared(source(site, "a_desc")?),
            },
            b: source(site, "b_desc")?,
            idesc: source(site, "idesc")?,
            enable: site.predicate(site.named("enable_input_d").ok_or("no predicate")?)?,
            metadata: if form.sparse { Some(At::new(site, "sp_meta")?) } else { None },
            scales: if kind.scaled() { Some(Scales::new(site, kind.bits)?) } else { None },
            zeros: optional("zero_column_mask")?,
            disabled: match site.named("disable_output_lane") {
                Some(at) => sources(site, at)?,
                None => Vec::new(),
            },
            shrink: match site.named("scale_input_d").map(|at| site.operand(at)) {
                Some(Operand::Int(by)) => *by as i32 & 15,
                _ => 0,
            },
            ashift: site.is("ashift"),
        })
    }

    /// Runs the request of one thread.
    fn run(&self, ctx: &mut Ctx, lane: usize) -> Result<(), Fault> {
        let idesc = Idesc::new(ctx.fetch_lane(self.idesc, lane) as u32, &self.form)?;
        let blocks = ctx.blocks(self.form.pairs)?;
        let d = self.d.lane(ctx, lane);
        let path = Path::new(&self.form, &idesc, blocks.len(), d)?;
        if self.ashift && path.rows != LANES {
            return Err(Fault::undefined(format!("`.ashift` with M = {}; it must be 128 or 256", idesc.m)));
        }
        let scales = self.scales.map(|scales| scales.resolve(ctx, lane, &idesc)).transpose()?;
        let product = Product { mma: self, idesc, blocks, d, path, scales, thread: lane };
        match (idesc.result, &product.scales) {
            (Type::S32, _) => product.run(ctx, &Integers { saturate: idesc.saturate }),
            (_, Some(_)) => product.run(ctx, &Scaled),
            _ => product.run(ctx, &Singles { half: idesc.result == Type::F16, shrink: 0.5f32.powi(self.shrink) }),
        }
    }

    /// Returns true if a lane of block number `block` is left as it is.
    fn leaves(&self, ctx: &Ctx, thread: usize, block: usize, lane: u32) -> bool {
        let word = self.disabled.get(4 * block + lane as usize / 32);
        word.is_some_and(|src| ctx.fetch_lane(*src, thread) >> (lane % 32) & 1 == 1)
    }
}

/// Which lanes a product works in (9.7.16.10.5): `rows` of them for its rows, again and again for more columns, or half of
/// each quarter (layouts C and F).
#[derive(Clone, Copy, Debug)]
struct Path {
    rows: u32,
    columns: u32,
    /// Only 16 lanes of each 32: those from here on.
    half: Option<u32>,
}

impl Path {
    fn new(form: &Form, idesc: &Idesc, blocks: usize, d: Taddr) -> Result<Path, Fault> {
        let rows = (idesc.m / blocks) as u32;
        let halves = rows == 64 && !form.stationary && (blocks == 1 || form.sparse);
        if d.lane != 0 && !(halves && d.lane == 16) {
            let rule = if halves { "0 or 16" } else { "0" };
            let message = format!("D in tensor memory from lane {} on; with M = {} it must be {rule}", d.lane, idesc.m);
            return Err(Fault::new(FaultKind::Misaligned, message).code(&codes::W0102));
        }
        let parts = if halves { 1 } else { LANES / rows };
        Ok(Path { rows, columns: idesc.n as u32 / parts, half: halves.then_some(d.lane) })
    }

    /// Each lane with its row of the block and its first column.
    fn lanes(self) -> impl Iterator<Item = (u32, u32, u32)> {
        (0..LANES).filter_map(move |lane| match self.half {
            None => Some((lane, lane % self.rows, lane / self.rows * self.columns)),
            Some(first) if lane % 32 / 16 * 16 == first => Some((lane, lane % 16 + lane / 32 * 16, 0)),
            Some(_) => None,
        })
    }
}

/// A product in all blocks.
struct Product<'m> {
    mma: &'m Mma,
    idesc: Idesc,
    blocks: Vec<usize>,
    d: Taddr,
    path: Path,
    scales: Option<Resolved>,
    thread: usize,
}

impl Product<'_> {
    // What is generic is compiled three times: it reads no memory itself.
    fn run<N: Arithmetic>(&self, ctx: &mut Ctx, numbers: &N) -> Result<(), Fault> {
        let left = self.left(ctx)?;
        let (b, read) = (self.right(ctx)?, numbers.factors(&self.idesc.b));
        let right: Vec<N::Factor> = b.into_iter().map(|code| code.map_or_else(N::Factor::default, &read)).collect();
        let enabled = ctx.fetch_lane(self.mma.enable, self.thread) != 0;
        let read = numbers.factors(&self.idesc.a);
        for (number, rank) in self.blocks.iter().copied().enumerate() {
            self.report(ctx, (number, rank), enabled)?;
            let scale = |scales: Vec<f64>| right.iter().zip(scales).map(|(b, by)| numbers.scale(*b, by)).collect();
            let scaled: Vec<Vec<N::Factor>> = self.right_scales(ctx, rank)?.into_iter().map(scale).collect();
            for (lane, row, first) in self.path.lanes() {
                if self.mma.leaves(ctx, self.thread, number, lane) {
                    continue;
                }
                let (places, codes) = self.row(ctx, (rank, left.as_ref()), lane, row)?;
                let mut factors: Vec<_> = places.into_iter().zip(codes.into_iter().map(&read)).collect();
                if let Some((scales, found)) = self.left_scales(ctx, rank, (row, lane))? {
                    factors.iter_mut().for_each(|(k, a)| *a = numbers.scale(*a, found[scales.which(*k)]));
                }
                let right = scaled.get(lane as usize / 32).unwrap_or(&right);
                let words = ctx.tmem(rank)?.row_mut(self.d.at_lane(lane), self.path.columns)?;
                self.accumulate(numbers, words, enabled, &factors, (right, first as usize));
            }
        }
        Ok(())
    }

    /// Reports which tensor memory of a block it uses, if that is allocated.
    fn report(&self, ctx: &mut Ctx, (number, rank): (usize, usize), enabled: bool) -> Result<(), Fault> {
        if ctx.observer.is_none() {
            return Ok(());
        }
        let lanes = || self.path.lanes().map(|(lane, ..)| lane);
        let bits = self.mma.form.kind.bits;
        let mut uses: Vec<(Cells, Use)> = Vec::new();
        if let Left::Tensor(at) = self.mma.a {
            let columns = self.stored() as u32 * bits / 32;
            uses.push((Cells::from_lanes(lanes(), at.lane(ctx, self.thread).column, columns), Use::Depend));
        }
        if let Some(at) = self.mma.metadata {
            let (at, (from, columns)) = (at.lane(ctx, self.thread), metadata_columns(bits, self.idesc.selector));
            uses.push((Cells::from_lanes(lanes(), at.right(from).column, columns), Use::Depend));
        }
        if let Some(scales) = &self.scales {
            let sides =
                [(scales.a, self.idesc.a.scale, self.path.rows), (scales.b, self.idesc.b.scale, self.path.columns)];
            let cells = |(at, id, all): (Taddr, u32, u32)| Cells::new(0, LANES, at.column, scales.columns(id, all));
            uses.extend(sides.map(|side| (cells(side), Use::Depend)));
        }
        let kept: Vec<u32> = lanes().filter(|lane| !self.mma.leaves(ctx, self.thread, number, *lane)).collect();
        let how = if enabled { Use::Update } else { Use::Write };
        uses.push((Cells::from_lanes(kept.into_iter(), self.d.column, self.path.columns), how));
        for (cells, how) in uses {
            tensor(ctx, rank)?.row(Taddr { lane: 0, column: cells.column }, cells.count)?;
            ctx.use_tensor(rank, self.thread, cells, how)?;
        }
        Ok(())
    }

    /// Elements of a row of A in memory.
    fn stored(&self) -> usize {
        if self.mma.form.sparse { self.idesc.k / 2 } else { self.idesc.k }
    }

    fn accumulate<N: Arithmetic>(
        &self,
        numbers: &N,
        words: &mut [u32],
        enabled: bool,
        factors: &[(usize, N::Factor)],
        (right, first): (&[N::Factor], usize),
    ) {
        let mut sums: Vec<N::Sum> = vec![N::Sum::default(); words.len()];
        if enabled {
            sums.iter_mut().zip(&*words).for_each(|(sum, word)| *sum = numbers.read(*word));
        }
        for (k, a) in factors {
            let column = &right[k * self.idesc.n + first..][..words.len()];
            sums.iter_mut().zip(column).for_each(|(sum, b)| *sum = numbers.add(*sum, *a, *b));
        }
        words.iter_mut().zip(sums).for_each(|(word, sum)| *word = numbers.write(sum));
    }

    /// A in shared memory.
    fn left(&self, ctx: &Ctx) -> Result<Option<Shared>, Fault> {
        let Left::Shared(src) = self.mma.a else { return Ok(None) };
        Shared::new(ctx.fetch_lane(src, self.thread), self.idesc.a, &self.mma.form, self.stored()).map(Some)
    }

    /// B: k after k, each of N columns; of a column that is masked nothing.
    fn right(&self, ctx: &Ctx) -> Result<Vec<Option<u32>>, Fault> {
        let Idesc { n, m, k, b, .. } = self.idesc;
        let shared = Shared::new(ctx.fetch_lane(self.mma.b, self.thread), b, &self.mma.form, k)?;
        let zeros = match self.mma.zeros {
            Some(src) => Zeros::new(ctx.fetch_lane(src, self.thread), m, n)?,
            None => Zeros::default(),
        };
        let part = n / self.blocks.len();
        let mut all = vec![None; n * k];
        for (number, rank) in self.blocks.iter().enumerate() {
            let codes = shared.lines(ctx, *rank, (zeros.shift, part), k)?;
            for (line, codes) in codes.chunks(k).enumerate() {
                let column = number * part + line;
                if !zeros.hides(column) {
                    codes.iter().enumerate().for_each(|(at, code)| all[at * n + column] = Some(*code));
                }
            }
        }
        Ok(all)
    }

    /// The scale factors of B's elements, as each quarter of the lanes sees them; nothing without.
    fn right_scales(&self, ctx: &Ctx, rank: usize) -> Result<Vec<Vec<f64>>, Fault> {
        let Some(scales) = &self.scales else { return Ok(Vec::new()) };
        let (Idesc { n, k, b, .. }, tmem) = (self.idesc, tensor(ctx, rank)?);
        let mut quarters = vec![vec![0.0; n * k]; 4];
        for (quarter, all) in quarters.iter_mut().enumerate() {
            for column in 0..n {
                let index = (column as u32 % self.path.columns, self.path.columns);
                let found = scales.of(tmem, scales.b, b.scale, index, quarter as u32)?;
                (0..k).for_each(|at| all[at * n + column] = found[scales.which(at)]);
            }
        }
        Ok(quarters)
    }

    /// The elements of a row of A: where they belong, and their codes.
    fn row(
        &self,
        ctx: &Ctx,
        (rank, left): (usize, Option<&Shared>),
        lane: u32,
        row: u32,
    ) -> Result<(Vec<usize>, Vec<u32>), Fault> {
        let (a, stored, tmem) = (self.idesc.a, self.stored(), tensor(ctx, rank)?);
        let codes = match (self.mma.a, left) {
            (Left::Tensor(at), _) => {
                let at = self.aligned(at.lane(ctx, self.thread), "A")?;
                let lane = if self.mma.ashift { (lane + 1).min(LANES - 1) } else { lane };
                in_tensor(tmem, at.at_lane(lane), a.ty, self.mma.form.kind.bits, stored)?
            }
            (_, Some(shared)) => shared.lines(ctx, rank, (row as usize, 1), stored)?,
            (_, None) => Vec::new(),
        };
        let places = match self.mma.metadata {
            None => (0..stored).collect(),
            Some(at) => {
                let at = self.aligned(at.lane(ctx, self.thread), "the sparsity metadata")?;
                positions(tmem, at, lane, (self.mma.form.kind.bits, self.idesc.selector, self.idesc.k))?
            }
        };
        Ok((places, codes))
    }

    /// The scale factors of a row of A in a lane.
    fn left_scales(
        &self,
        ctx: &Ctx,
        rank: usize,
        (row, lane): (u32, u32),
    ) -> Result<Option<(&Resolved, Vec<f64>)>, Fault> {
        let Some(scales) = &self.scales else { return Ok(None) };
        let index = (row, self.path.rows);
        let found = scales.of(tensor(ctx, rank)?, scales.a, self.idesc.a.scale, index, lane / 32)?;
        Ok(Some((scales, found)))
    }

    /// A and the metadata begin in D's lane.
    fn aligned(&self, at: Taddr, what: &str) -> Result<Taddr, Fault> {
        if at.lane == self.d.lane {
            return Ok(at);
        }
        let message = format!("{what} in tensor memory from lane {} on, D from lane {}", at.lane, self.d.lane);
        Err(Fault::new(FaultKind::Misaligned, message).code(&codes::W0102))
    }
}

fn tensor<'c>(ctx: &'c Ctx, rank: usize) -> Result<&'c Tmem, Fault> {
    ctx.cluster.tensor.get(rank).ok_or_else(|| Fault::undefined("a block without tensor memory"))
}

//! Shapes and options of a decode call, checked, in the form that the kernel takes.

use super::KvCache;
use crate::attention::Attention;
use crate::attention::problem::{Rows, refuse};
use ptx_launch::expansion::Int;
use ptx_launch::{KernelParam, Result, TensorRef};

/// Strides, extents and options: a parameter of the kernel, by value. Strides count bytes.
#[derive(Clone, Copy, Debug, Default, KernelParam)]
#[repr(C)]
pub struct DecodeProblem {
    /// Strides of batch, token and head.
    pub(super) q: [u64; 3],
    /// Strides of page, place in a page, and head; of batch, token and head without pages.
    pub(super) k: [u64; 3],
    pub(super) v: [u64; 3],
    /// Strides of batch, token and head.
    pub(super) out: [u64; 3],
    pub(super) lse: [u64; 3],
    /// Elements from the first to the last one of Q, K, V, the output and the logarithms.
    pub(super) reach: [u64; 5],
    /// Bytes of scratch memory.
    pub(super) scratch: u64,
    /// Sequences, queries of each, heads of the cache, and heads of Q that share one.
    pub(super) batch: u32,
    pub(super) tokens: u32,
    pub(super) heads_k: u32,
    pub(super) group: u32,
    /// Elements of a row of Q and K, and of V.
    pub(super) dim: u32,
    pub(super) dim_v: u32,
    /// Most keys of a sequence.
    pub(super) capacity: u32,
    /// Tokens of a page, pages of the cache, and pages of a sequence in the table.
    pub(super) page_size: u32,
    pub(super) pages: u32,
    pub(super) table_pages: u32,
    /// Blocks of the launch, and tiles of 16 rows of the queries that share a head.
    pub(super) blocks: u32,
    pub(super) row_tiles: u32,
    /// 1 if there is a table, or are logarithms.
    pub(super) paged: u32,
    pub(super) logged: u32,
    /// Keys that a query sees to either side of its own.
    pub(super) left: i32,
    pub(super) right: i32,
    /// Factor of the scores before the soft cap, the cap or 0, and log2(e) times the factor that is left for the softmax.
    pub(super) scale: f32,
    pub(super) soft_cap: f32,
    pub(super) exponent: f32,
    /// 1 if there are factors of the heads of the cache.
    pub(super) scaled: u32,
}

/// A window that hides nothing.
const UNLIMITED: u32 = 1 << 30;

/// The most queries of a sequence.
const MOST_QUERIES: usize = 16;

/// Blocks of a multiprocessor, and at least so many multiprocessors are counted.
const BLOCKS: u32 = 2;
const LEAST_MULTIPROCESSORS: u32 = 3;

/// Checks lengths, pages and factors for tensors of a shape: batch, tokens, heads of the cache, elements.
pub(super) fn check_tables(
    [batch, _, heads, _]: [usize; 4],
    lengths: &TensorRef<'_, i32, 1>,
    table: Option<&TensorRef<'_, i32, 2>>,
    scales: Option<&[TensorRef<'_, f32, 1>; 2]>,
) -> Result<()> {
    if lengths.shape() != [batch] || !lengths.is_contiguous() {
        let found = format!("{batch} sequences, lengths of shape {:?}", lengths.shape());
        return Err(refuse(found, "contiguous lengths of all sequences"));
    }
    if let Some(table) = table
        && (table.shape()[0] != batch || !table.is_contiguous())
    {
        let found = format!("{batch} sequences, a table of shape {:?}", table.shape());
        return Err(refuse(found, "a contiguous table with a row of each sequence"));
    }
    if let Some([k, v]) = scales
        && (k.shape() != [heads] || v.shape() != [heads] || !k.is_contiguous() || !v.is_contiguous())
    {
        let found = format!("factors of shapes {:?} and {:?}", k.shape(), v.shape());
        return Err(refuse(found, format!("contiguous factors of {heads} heads of the cache")));
    }
    Ok(())
}

impl DecodeProblem {
    /// Checks shapes and options.
    pub(super) fn new<T, K>(
        options: &Attention<'_, T>,
        q: &Rows,
        cache: &KvCache<'_, K>,
        out: &Rows,
    ) -> Result<DecodeProblem> {
        let (k, v) = (
            Rows::of("the cache of K", &cache.k, options.layout),
            Rows::of("the cache of V", &cache.v, options.layout),
        );
        let ([batch, tokens, heads, dim], [pages, page_size, heads_k, dim_v]) = (q.shape, v.shape);
        k.check_shape([pages, page_size, heads_k, dim])?;
        out.check_shape([batch, tokens, heads, dim_v])?;
        for rows in [q, &k, &v, out] {
            rows.check_rows()?;
        }
        let table = cache.table.map(|table| table.shape());
        check_tables([batch, tokens, heads_k, 0], &cache.lengths, cache.table.as_ref(), cache.scales.as_ref())?;
        if !table.map_or(pages == batch, |_| pages > 0 && page_size > 0) {
            let found = format!("{batch} sequences, a table {table:?}, caches {:?}", k.shape);
            return Err(refuse(found, "a row of each sequence in the table, or in the cache"));
        }
        if heads_k == 0 || heads % heads_k != 0 || tokens > MOST_QUERIES || tokens == 0 || batch > 65535 {
            let found = format!("{tokens} queries of {heads} heads, {heads_k} heads of the cache, {batch} sequences");
            return Err(refuse(found, "1 to 16 queries, and heads of Q that are a multiple of those of the cache"));
        }
        if options.bias.is_some() || options.lengths.is_some() || options.top_left {
            return Err(refuse(
                "a bias, cumulative lengths or top_left with a cache".into(),
                "a window, a scale and a soft cap",
            ));
        }
        let capacity = table.map_or(page_size, |[_, count]| count.saturating_mul(page_size)).min((1 << 29) - 1);
        let mut problem = DecodeProblem {
            q: q.bytes(),
            k: k.bytes(),
            v: v.bytes(),
            out: out.bytes(),
            reach: [q.reach(), k.reach(), v.reach(), out.reach(), 0],
            batch: batch as u32,
            tokens: tokens as u32,
            heads_k: heads_k as u32,
            group: (heads / heads_k) as u32,
            dim: dim as u32,
            dim_v: dim_v as u32,
            capacity: capacity as u32,
            page_size: page_size as u32,
            pages: pages as u32,
            table_pages: table.map_or(0, |[_, count]| count as u32),
            blocks: 1,
            row_tiles: (tokens * heads / heads_k).div_ceil(16) as u32,
            paged: u32::from(table.is_some()),
            scaled: u32::from(cache.scales.is_some()),
            left: options.left.unwrap_or(UNLIMITED).min(UNLIMITED) as i32,
            right: options.right.unwrap_or(UNLIMITED).min(UNLIMITED) as i32,
            ..DecodeProblem::default()
        };
        (problem.scale, problem.soft_cap, problem.exponent) = options.factors(dim)?;
        Ok(problem)
    }

    /// Divides the work among the multiprocessors: groups of blocks, one for each head and tile of rows, share rounds of `block` keys of
    /// all sequences. A block leaves at most two parts of `part` bytes.
    pub(super) fn divide(&mut self, multiprocessors: u32, flags: usize, block: u32, part: u32) -> Result<()> {
        let heads = self.heads_k * self.row_tiles;
        let rounds = u64::from(self.batch) * u64::from(self.capacity.div_ceil(block).max(1));
        if rounds > i32::MAX as u64 || heads as usize > flags {
            let found = format!("{} sequences of {} heads and {} keys", self.batch, self.heads_k, self.capacity);
            return Err(refuse(found, format!("fewer than 2^31 rounds of {block} keys, and at most {flags} heads")));
        }
        let most = BLOCKS * multiprocessors.max(LEAST_MULTIPROCESSORS);
        self.blocks = u64::from((most / heads).max(1)).min(rounds) as u32 * heads;
        self.scratch = 2 * u64::from(self.blocks) * u64::from(part);
        Ok(())
    }

    /// Adds logarithms of shape (batch, heads, queries).
    pub(super) fn set_lse(&mut self, shape: [usize; 3], strides: [usize; 3]) -> Result<()> {
        let expected = [self.batch, self.heads_k * self.group, self.tokens].map(|extent| extent as usize);
        if shape != expected {
            return Err(refuse(
                format!("the logarithms of the sums have the shape {shape:?}"),
                format!("{expected:?}"),
            ));
        }
        let [batch, head, token] = strides.map(|stride| 4 * stride as u64);
        self.lse = [batch, token, head];
        let steps = shape.iter().zip(strides).map(|(extent, stride)| (extent - 1) as u64 * stride as u64);
        self.reach[4] = 1 + steps.sum::<u64>();
        self.logged = 1;
        Ok(())
    }

    /// Most elements of a row.
    pub(super) fn widest(&self) -> u32 {
        self.dim.max(self.dim_v)
    }

    /// Number of blocks.
    pub(super) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Returns true if Q, K, V, the output and the logarithms have so many elements that they hold all offsets.
    pub(super) fn covers(&self, lengths: [Int; 5]) -> bool {
        lengths.iter().zip(self.reach).all(|(len, reach)| *len >= reach)
    }

    /// The same for the lengths, the table, the factors, the scratch memory and the flags.
    pub(super) fn covers_tables(&self, [lengths, table, k_scales, v_scales, scratch, flags]: [Int; 6]) -> bool {
        let entries = u64::from(self.batch) * u64::from(self.table_pages);
        let factors = if self.scaled == 1 { self.heads_k } else { 0 };
        let scaled = k_scales >= factors && v_scales >= factors;
        scaled && lengths >= self.batch && table >= entries && scratch >= self.scratch && flags >= self.blocks
    }
}

//! Shapes and options of a decode call, checked, in the form that the kernel takes.

use crate::attention::Attention;
use crate::attention::places::Places;
use crate::attention::problem::{MOST_HEADS, Rows, apart, kv_group, refuse};
use ptx_launch::{KernelParam, Result, ptx_contract};

/// Strides, extents and options: a parameter of the kernel, by value. Strides count bytes.
#[derive(Clone, Copy, Debug, Default, KernelParam)]
#[repr(C)]
pub struct DecodeProblem {
    /// Strides of batch, token and head. That of a single one is 0.
    pub(super) q: [u64; 3],
    /// Strides of page, place in a page, and head; of batch, token and head without pages. That of a single one is as large as all
    /// that lies inside.
    pub(super) k: [u64; 3],
    pub(super) v: [u64; 3],
    /// Strides of batch, token and head. That of a single one is as large as all that lies inside.
    pub(super) out: [u64; 3],
    pub(super) lse: [u64; 3],
    /// Bytes of scratch memory.
    pub(super) scratch: u64,
    /// Sequences, queries of each, heads of Q, heads of the cache, and heads of Q that share one.
    pub(super) batch: u32,
    pub(super) tokens: u32,
    pub(super) heads: u32,
    pub(super) heads_k: u32,
    pub(super) kv_group: u32,
    /// Elements of a row of Q and K, and of V.
    pub(super) dim: u32,
    pub(super) dim_v: u32,
    /// Most keys of a sequence, and the last one, or 0.
    pub(super) capacity: u32,
    pub(super) last: u32,
    /// Tokens of a page, at least one, pages of the cache, and pages of a sequence in the table.
    pub(super) page_size: u32,
    pub(super) pages: u32,
    pub(super) table_pages: u32,
    /// Blocks of the launch: those of each split, for heads of the cache and tiles of rows of the queries that share one, and splits of the keys.
    pub(super) blocks: u32,
    pub(super) split_blocks: u32,
    pub(super) splits: u32,
    pub(super) row_tiles: u32,
    /// 1 if there are logarithms.
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
    /// Tokens of a box of the tensor maps: a power of two up to 16.
    pub(super) box_tokens: u32,
}

/// A window that hides nothing.
const UNLIMITED: u32 = 1 << 30;

/// The most tokens of a box.
const MOST_BOX_TOKENS: u32 = 16;

/// The fewest tokens of a box that is copied faster than by `cp.async`, times the bytes of an element.
const LEAST_BOX: u32 = 4;

/// The most queries of a sequence.
const MOST_QUERIES: usize = 16;

/// At least so many multiprocessors are counted.
const LEAST_MULTIPROCESSORS: u32 = 3;

/// The grain of a kernel: packed rows and keys that a block takes at once, bytes of a part that it leaves, blocks of a multiprocessor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grain {
    pub rows: u32,
    pub keys: u32,
    pub part: u32,
    pub blocks: u32,
}

impl Default for Grain {
    fn default() -> Self {
        Grain { rows: 16, keys: 1, part: 0, blocks: 1 }
    }
}

impl DecodeProblem {
    /// Checks shapes, of Q, K, V and the output, and options; `most` are elements of a row of Q and K, and of V.
    pub(super) fn new<T>(
        options: &Attention<'_, T>,
        [q, k, v, out]: [&Rows; 4],
        places: &Places<'_>,
        most: [usize; 2],
    ) -> Result<DecodeProblem> {
        options.refuse_descale()?;
        let ([batch, tokens, heads, dim], [pages, page_size, heads_k, dim_v]) = (q.shape, v.shape);
        k.check_shape([pages, page_size, heads_k, dim])?;
        out.check_shape([batch, tokens, heads, dim_v])?;
        for (rows, most) in [(q, most[0]), (k, most[0]), (v, most[1]), (out, most[1])] {
            rows.check_rows(most)?;
        }
        let capacity = places.check(batch, k.shape)?;
        let kv_group = kv_group(heads, heads_k)?;
        if tokens > MOST_QUERIES || tokens == 0 || batch > MOST_HEADS {
            let found = format!("{tokens} queries of {batch} sequences");
            return Err(refuse(found, "1 to 16 queries of each of at most 65535 sequences"));
        }
        if options.bias.is_some() || options.lengths.is_some() || options.top_left {
            return Err(refuse(
                "a bias, cumulative lengths or top_left with a cache".into(),
                "a window, a scale and a soft cap",
            ));
        }
        let mut problem = DecodeProblem {
            q: q.steps(),
            k: k.steps_apart(),
            v: v.steps_apart(),
            out: out.steps_apart(),
            batch: batch as u32,
            tokens: tokens as u32,
            heads: heads as u32,
            heads_k: heads_k as u32,
            kv_group,
            dim: dim as u32,
            dim_v: dim_v as u32,
            capacity,
            last: capacity.saturating_sub(1),
            // Nobody reads a page without places.
            page_size: (page_size as u32).max(1),
            pages: pages as u32,
            table_pages: places.table_pages(),
            blocks: 1,
            split_blocks: 1,
            splits: 1,
            row_tiles: 1,
            scaled: u32::from(places.scales.is_some()),
            box_tokens: if places.table.is_some() {
                1 << page_size.trailing_zeros().min(MOST_BOX_TOKENS.ilog2())
            } else {
                MOST_BOX_TOKENS
            },
            left: options.left.unwrap_or(UNLIMITED).min(UNLIMITED) as i32,
            right: options.right.unwrap_or(UNLIMITED).min(UNLIMITED) as i32,
            ..DecodeProblem::default()
        };
        (problem.scale, problem.soft_cap, problem.exponent) = options.factors(dim)?;
        Ok(problem)
    }

    /// Divides the work among the multiprocessors: splits of the keys, a block of each for each head and tile of rows, share rounds of keys of all
    /// sequences. A block leaves at most two parts.
    pub(super) fn divide(&mut self, multiprocessors: u32, flags: usize, grain: Grain) -> Result<()> {
        let Grain { rows, keys, part, blocks } = grain;
        self.row_tiles = (self.tokens * self.kv_group).div_ceil(rows);
        let heads = self.heads_k * self.row_tiles;
        self.split_blocks = heads;
        let rounds = u64::from(self.batch) * u64::from(self.capacity.div_ceil(keys).max(1));
        let most = blocks * multiprocessors.max(LEAST_MULTIPROCESSORS);
        let splits = u64::from((most / heads).max(1)).min(rounds.max(1)) as u32;
        if rounds > i32::MAX as u64 || splits as usize * heads as usize > flags {
            let found = format!("{} sequences of {} heads and {} keys", self.batch, self.heads_k, self.capacity);
            return Err(refuse(found, format!("fewer than 2^31 rounds of {keys} keys, and at most {flags} heads")));
        }
        (self.splits, self.blocks) = (splits, splits * heads);
        self.scratch = 2 * u64::from(self.blocks) * u64::from(part);
        Ok(())
    }

    /// Adds logarithms of shape (batch, heads, queries).
    pub(super) fn set_lse(&mut self, shape: [usize; 3], strides: [usize; 3]) -> Result<()> {
        let expected = [self.batch, self.heads_k * self.kv_group, self.tokens].map(|extent| extent as usize);
        if shape != expected {
            return Err(refuse(
                format!("the logarithms of the sums have the shape {shape:?}"),
                format!("{expected:?}"),
            ));
        }
        let ([batch, heads, tokens], [batch_step, head_step, token_step]) =
            (shape, strides.map(|stride| 4 * stride as u64));
        self.lse = apart([batch, tokens, heads], [batch_step, token_step, head_step], 4);
        self.logged = 1;
        Ok(())
    }

    /// Returns true if rows of K and V have `dim` elements of `size` bytes, and boxes have enough tokens for TMA.
    pub(super) fn has_boxes(&self, dim: u32, size: u32) -> bool {
        self.dim == dim && self.dim_v == dim && self.box_tokens * size >= LEAST_BOX
    }

    /// Returns true if there is no sequence.
    pub(super) fn is_empty(&self) -> bool {
        self.batch == 0
    }

    /// Most elements of a row.
    pub(super) fn widest(&self) -> u32 {
        self.dim.max(self.dim_v)
    }
}

#[ptx_contract]
impl DecodeProblem {
    /// Number of blocks.
    pub(super) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Returns true if the extents are those that the constructor admits, with blocks of whole splits. The kernel counts in 32 bits.
    pub(super) fn is_counted(&self, size: u64) -> bool {
        self.batch > 0
            && self.batch <= 65535
            && self.tokens > 0
            && self.tokens <= 16
            && self.heads_k > 0
            && self.kv_group > 0
            && self.heads <= 65535
            && self.heads == self.heads_k * self.kv_group
            && self.capacity < 1 << 29
            && self.last < 1 << 29
            && self.capacity <= self.last + 1
            && self.page_size < 1 << 29
            && [self.dim, self.dim_v].iter().all(|dim| *dim > 0 && *dim <= 576 && *dim % 8 == 0)
            && [self.dim, self.dim_v].iter().all(|dim| (u64::from(*dim) * size).is_multiple_of(16))
    }

    /// Returns true if each split has a block for each head of the cache and each tile of rows.
    pub(super) fn is_divided(&self) -> bool {
        self.row_tiles > 0
            && self.row_tiles <= 65535
            && self.splits > 0
            && self.blocks < 1 << 30
            && self.split_blocks == self.heads_k * self.row_tiles
            && self.blocks == self.splits * self.split_blocks
    }

    /// Returns true if all heads of Q share one of the cache.
    pub(super) fn has_one_head(&self) -> bool {
        self.heads_k == 1 && self.heads == self.kv_group
    }

    /// Returns true if so many bytes hold the rows of Q, and of the output.
    pub(super) fn holds_queries(&self, [q, out]: [u64; 2]) -> bool {
        let extents = [self.batch, self.tokens, self.heads];
        self.q.iter().all(|stride| *stride % 16 == 0)
            && self.out.iter().all(|stride| *stride % 16 == 0)
            && q >= Self::last(self.q, extents) + 2 * u64::from(self.dim)
            && out >= Self::last(self.out, extents) + 2 * u64::from(self.dim_v)
    }

    /// Returns true if so many bytes hold the logarithms, if there are any.
    pub(super) fn holds_logarithms(&self, bytes: u64) -> bool {
        self.lse.iter().all(|stride| *stride % 4 == 0)
            && (self.logged == 0 || bytes >= Self::last(self.lse, [self.batch, self.tokens, self.heads]) + 4)
    }

    /// Returns true if so many bytes hold the rows of K, and of V, whose elements have `size` bytes.
    pub(super) fn holds_keys(&self, [k, v]: [u64; 2], size: u64) -> bool {
        let extents = [self.pages, self.page_size, self.heads_k];
        self.k.iter().all(|stride| *stride % 16 == 0)
            && self.v.iter().all(|stride| *stride % 16 == 0)
            && (self.capacity == 0 || k >= Self::last(self.k, extents) + size * u64::from(self.dim))
            && (self.capacity == 0 || v >= Self::last(self.v, extents) + size * u64::from(self.dim_v))
    }

    /// Returns true if the sequences have places for their keys, and there are so many lengths and entries of the table.
    pub(super) fn has_places(&self, lengths: u64, table: u64) -> bool {
        let entries = u64::from(self.batch) * u64::from(self.table_pages);
        let capacity = u64::from(self.table_pages) * u64::from(self.page_size);
        self.pages > 0
            && self.page_size > 0
            && lengths >= u64::from(self.batch)
            && entries < 1 << 31
            && table >= entries
            && (self.table_pages == 0 || table > 0)
            && if self.table_pages == 0 { self.last < self.page_size } else { u64::from(self.last) < capacity }
    }

    /// Returns true if there are so many factors of the heads of K, and of V.
    pub(super) fn has_factors(&self, [k, v]: [u64; 2]) -> bool {
        self.scaled == 0 || k >= u64::from(self.heads_k) && v >= u64::from(self.heads_k)
    }

    /// Returns true if so many bytes hold two parts of `part` bytes of each block, and so many flags `steps` ones.
    pub(super) fn holds_parts(&self, [scratch, flags]: [u64; 2], part: u64, steps: u64) -> bool {
        scratch >= 2 * part * u64::from(self.blocks) && flags >= steps * u64::from(self.blocks)
    }

    /// The offset of the last row.
    fn last([batch, token, head]: [u64; 3], [sequences, tokens, heads]: [u32; 3]) -> u64 {
        (u64::from(sequences) - 1) * batch + (u64::from(tokens) - 1) * token + (u64::from(heads) - 1) * head
    }
}

//! Appending to a cache: new rows of K and V go to the places of the last tokens, as they are or rounded to 8 bits.
#![allow(unsafe_code, reason = "the author of a kernel vouches for its memory")]

use crate::attention::places::Places;
use crate::attention::problem::{MOST_ELEMENTS, Rows, refuse};
use ptx_launch::prelude::*;
use ptx_launch::{KernelParam, Result, ptx_contract};

/// Strides and extents: a parameter of the kernel, by value. Strides count bytes, and are zero where an extent is one.
#[derive(Clone, Copy, Debug, Default, KernelParam)]
#[repr(C)]
pub struct AppendProblem {
    /// Strides of batch, token and head of the new rows of K and V.
    rows: [[u64; 3]; 2],
    /// Strides of page, place in a page, and head of the caches of K and V; of batch, token and head without pages. That of a single one is as large as all
    /// that lies inside.
    caches: [[u64; 3]; 2],
    /// Sequences, new tokens of each, heads, elements of a row of K and of V.
    batch: u32,
    tokens: u32,
    heads: u32,
    dims: [u32; 2],
    /// Tokens of a page, pages of the cache, pages of a sequence in the table, or 0 without one; most keys of a sequence.
    page_size: u32,
    pages: u32,
    table_pages: u32,
    capacity: u32,
    /// 1 if there are factors.
    scaled: u32,
}

impl AppendProblem {
    /// Checks shapes: `rows` are those of K and V, `caches` likewise.
    pub(super) fn new(rows: [&Rows; 2], caches: [&Rows; 2], places: &Places<'_>) -> Result<AppendProblem> {
        let ([batch, tokens, heads, _], [pages, page_size, ..]) = (rows[0].shape, caches[0].shape);
        for (new, cache) in rows.iter().zip(caches) {
            let dim = new.shape[3];
            new.check_shape([batch, tokens, heads, dim])?;
            cache.check_shape([pages, page_size, heads, dim])?;
            new.check_rows(MOST_ELEMENTS)?;
            cache.check_rows(MOST_ELEMENTS)?;
        }
        let capacity = places.check(batch, caches[0].shape)?;
        if batch.saturating_mul(tokens).saturating_mul(heads) >= 1 << 26 {
            return Err(refuse(
                format!("{batch} sequences of {tokens} tokens of {heads} heads"),
                "fewer than 2^26 new rows",
            ));
        }
        let [[.., dim], [.., dim_v]] = rows.map(|rows| rows.shape);
        Ok(AppendProblem {
            rows: rows.map(steps),
            caches: caches.map(Rows::steps_apart),
            batch: batch as u32,
            tokens: tokens as u32,
            heads: heads as u32,
            dims: [dim as u32, dim_v as u32],
            page_size: page_size as u32,
            pages: pages as u32,
            table_pages: places.table_pages(),
            capacity,
            scaled: u32::from(places.scales.is_some()),
        })
    }

    /// Returns true if there is no row, or no place for one.
    pub(super) fn is_empty(&self) -> bool {
        [self.batch, self.tokens, self.heads, self.capacity].contains(&0)
    }
}

/// Strides of batch, token and head in bytes. That of a single row has no meaning, and may be any number.
fn steps(rows: &Rows) -> [u64; 3] {
    let strides = rows.bytes();
    std::array::from_fn(|at| if rows.shape[at] > 1 { strides[at] } else { 0 })
}

#[ptx_contract]
impl AppendProblem {
    /// Extents of the grid: blocks of 128 threads, one for each 8 elements of K, and of V.
    fn grid(&self) -> (u32, u32) {
        let [dim, dim_v] = self.dims;
        ((self.batch * self.tokens * self.heads * (dim.max(dim_v) / 8)).div_ceil(128), 2)
    }

    /// Returns true if there are rows, which are counted in 32 bits, and each has whole units.
    fn is_counted(&self) -> bool {
        [self.batch, self.tokens, self.heads].iter().all(|extent| *extent > 0)
            && u64::from(self.batch) * u64::from(self.tokens) * u64::from(self.heads) < 1 << 26
            && self.dims.iter().all(|dim| *dim > 0 && *dim <= 256 && *dim % 8 == 0)
    }

    /// Returns true if so many bytes of the new rows of K and V hold all offsets, which are those of vectors.
    fn covers_rows(&self, bytes: [u64; 2]) -> bool {
        let extents = [self.batch, self.tokens, self.heads];
        self.rows.iter().all(|strides| strides.iter().all(|stride| *stride % 16 == 0))
            && (0..2).all(|of| bytes[of] >= Self::last(self.rows[of], extents) + 2 * u64::from(self.dims[of]))
    }

    /// The same for the caches, whose elements have `size` bytes.
    fn covers_caches(&self, bytes: [u64; 2], size: u64) -> bool {
        let extents = [self.pages, self.page_size, self.heads];
        self.caches.iter().all(|strides| strides.iter().all(|stride| *stride % 16 == 0))
            && (0..2).all(|of| bytes[of] >= Self::last(self.caches[of], extents) + size * u64::from(self.dims[of]))
    }

    /// Returns true if the rows of both caches are apart: pages, places in a page and heads lie in each other in some order.
    fn parts_caches(&self, size: u64) -> bool {
        (0..2).all(|of| self.parts_rows(self.caches[of], size * u64::from(self.dims[of])))
    }

    /// The same for the cache of K or V, with rows of `row` bytes.
    fn parts_rows(&self, [page, place, head]: [u64; 3], row: u64) -> bool {
        let (pages, places, heads) = (self.pages, self.page_size, self.heads);
        Self::nests(row, [head, place, page], [heads, places])
            || Self::nests(row, [place, head, page], [places, heads])
            || Self::nests(row, [head, page, place], [heads, pages])
            || Self::nests(row, [page, head, place], [pages, heads])
            || Self::nests(row, [place, page, head], [places, pages])
            || Self::nests(row, [page, place, head], [pages, places])
    }

    /// Returns true if so many rows lie in each `middle`, and so many of these in each `outer`.
    fn nests(row: u64, [inner, middle, outer]: [u64; 3], [rows, groups]: [u32; 2]) -> bool {
        inner >= row && middle >= inner * u64::from(rows) && outer >= middle * u64::from(groups)
    }

    /// The offset of the last row.
    fn last([batch, token, head]: [u64; 3], [sequences, tokens, heads]: [u32; 3]) -> u64 {
        u64::from(sequences - 1) * batch + u64::from(tokens - 1) * token + u64::from(heads - 1) * head
    }

    /// Returns true if a sequence has the places of its pages, or those of its row of the cache.
    fn has_places(&self) -> bool {
        self.pages > 0
            && self.page_size > 0
            && if self.table_pages == 0 {
                self.batch <= self.pages && self.capacity <= self.page_size
            } else {
                u64::from(self.capacity) <= u64::from(self.table_pages) * u64::from(self.page_size)
            }
    }

    /// Returns true if there are so many lengths, entries of the table, and factors.
    fn covers_tables(&self, [lengths, table, k_scales, v_scales]: [u64; 4]) -> bool {
        let entries = u64::from(self.batch) * u64::from(self.table_pages);
        lengths >= u64::from(self.batch)
            && entries < 1 << 31
            && table >= entries
            && (self.table_pages == 0 || table > 0)
            && (self.scaled == 0 || k_scales >= u64::from(self.heads))
            && (self.scaled == 0 || v_scales >= u64::from(self.heads))
    }
}

/// The kernel and its parts.
#[ptx_module(
    arch("sm_80", "sm_90"),
    params(AppendProblem),
    modules(crate::attention::device::{attention, kv_cache})
)]
pub(crate) mod kernels {
    use super::AppendProblem;

    /// Bytes of an element of the cache.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Config {
        pub size: u32,
    }

    /// The new rows, and the cache.
    struct Tensors<T, K> {
        #[align(16)]
        k: &[T],
        #[align(16)]
        v: &[T],
        /// The keys of each sequence, the new ones included, and the pages that hold them.
        lengths: &[i32],
        table: &[i32],
        /// The factors of the heads of the cache.
        k_scales: &[f32],
        v_scales: &[f32],
        #[align(16)]
        k_cache: &mut [K],
        #[align(16)]
        v_cache: &mut [K],
    }

    /// Writes the new rows of K (blocks of y = 0) and V. `lengths` are the keys of each sequence, the new ones included; a token that
    /// the cache has no place for is left out.
    #[ptx_kernel(
        block = 128,
        grid = p.grid(),
        pdl,
        instances = [
            same = ([bf16, f16], [bf16, f16], Config { size: 2 }),
            bytes = ([bf16, f16], u8, Config { size: 1 })
        ],
        unsafe(
            requires(
                p.is_counted(),
                p.covers_rows([2 * tensors.k.len(), 2 * tensors.v.len()]),
                p.covers_caches([C.size * tensors.k_cache.len(), C.size * tensors.v_cache.len()], C.size),
                p.parts_caches(C.size),
                p.has_places(),
                p.covers_tables([tensors.lengths.len(), tensors.table.len(), tensors.k_scales.len(), tensors.v_scales.len()])
            ),
            distinct(tensors.table < p.pages)
        )
    )]
    pub fn append<T, K, const C: Config>(tensors: Tensors<T, K>, p: AppendProblem) {
        grid::overlap();
        let of_k: pred = ctaid.y == 0;
        let (dim, unit): (u32, u32) = (of_k.select(p.dims[0], p.dims[1]), ctaid.x * 128 + tid.x);
        let each: u32 = dim / 8;
        let row: u32 = unit / each;
        let (column, token_row): (u32, u32) = (unit - row * each, row / p.heads);
        let (head, sequence): (u32, u32) = (row - token_row * p.heads, token_row / p.tokens);
        if sequence >= p.batch {
            return;
        }
        let token: u32 = token_row - sequence * p.tokens;
        let (len_at, len): (Global<i32>, i32);
        len_at = tensors.lengths.at(sequence);
        ptx! { ld.global.nc.s32 len, [len_at]; }
        let place: u32 = unsigned(len) - p.tokens + token;
        if place >= p.capacity {
            return;
        }
        let tables: u64 = tensors.table;
        let pages = kv_cache::Pages::of_sequence(tables, p.table_pages, sequence, p.page_size, p.pages);
        let (page, slot): (u32, u32) = pages.locate(place);
        let (k_from, v_from): (u64, u64) = (tensors.k, tensors.v);
        let (k_to, v_to): (u64, u64) = (tensors.k_cache, tensors.v_cache);
        let (k_factors, v_factors): (u64, u64) = (tensors.k_scales, tensors.v_scales);
        let rows: [u64; 3] = [
            of_k.select(p.rows[0][0], p.rows[1][0]),
            of_k.select(p.rows[0][1], p.rows[1][1]),
            of_k.select(p.rows[0][2], p.rows[1][2]),
        ];
        let caches: [u64; 3] = [
            of_k.select(p.caches[0][0], p.caches[1][0]),
            of_k.select(p.caches[0][1], p.caches[1][1]),
            of_k.select(p.caches[0][2], p.caches[1][2]),
        ];
        let from: u64 =
            of_k.select(k_from, v_from) + attention::offset(rows, sequence, token, head) + wide(column) * 16;
        let to: u64 =
            of_k.select(k_to, v_to) + attention::offset(caches, page, slot, head) + wide(column) * (8 * C.size);
        let packed: [b32; 4];
        ptx! { ld.global.nc.v4.b32 {packed[..]}, [from]; }
        if C.size == 2 {
            ptx! { st.global.v4.b32 [to], {packed[..]}; }
        } else {
            let (mut by, factor, scaled): (f32, u64, pred);
            by = 1.0;
            scaled = p.scaled != 0;
            factor = of_k.select(k_factors, v_factors) + wide(head) * 4;
            ptx! { @scaled ld.global.nc.f32 by, [factor]; }
            let values: [f32; 8] = vector::unpack::<T, 8>(packed);
            let pairs: [b16; 4];
            for i in 0..4 {
                let (low, high): f32;
                ptx! {
                    div.rn.f32 low, values[2 * i], by;
                    div.rn.f32 high, values[2 * i + 1], by;
                }
                pairs[i] = float8::narrow(low, high);
            }
            ptx! { st.global.v4.b16 [to], {pairs[..]}; }
        }
    }
}

//! The kernels before and after the backward kernel on Hopper: `prepare` computes delta and clears sums of dQ, `finish` rounds them.

use super::shared;
use crate::attention::problem::{Gradients, Problem};
use ptx_launch::prelude::*;

/// The kernels and their parts.
#[ptx_module(
    arch = "sm_90",
    params(Problem, Gradients),
    parts(shared::scratch),
    modules(
        crate::attention::device::{attention, flash},
        super::flash_grad::flash_grad,
        super::flash_grad_loads::flash_grad_loads
    )
)]
pub(crate) mod kernels {
    use super::{Gradients, Problem};

    /// Elements of a row, and queries of a tile of the sums.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Config {
        /// Elements of a row.
        pub head: u32,
        /// Queries of a tile.
        pub queries: u32,
    }

    impl Config {
        /// Threads that read a row, 16 bytes each.
        const fn lanes(&self) -> u32 {
            self.head / 8
        }

        /// Patches of 64 × 64 sums in a tile.
        const fn patches(&self) -> u32 {
            self.queries / 64 * (self.head / 64)
        }
    }

    /// A row of O or of dO as 16 bytes of this thread.
    fn load_row<T>(from: u64, strides: [u64; 3], row: u32, column: u32, inside: pred) -> [f32; 8] {
        let at: u64 = from + attention::offset(strides, ctaid.z, row, ctaid.y) + wide(column) * 2;
        vector::unpack::<T, 8>(vector::load::<T, 8>(at, inside, 0))
    }

    /// The results of the forward pass, the gradient of its output, and the scratch memory of the backward kernel.
    struct Tensors<T> {
        #[align(16)]
        out: &[T],
        lse: &[f32],
        #[align(16)]
        out_grad: &[T],
        #[align(16)]
        scratch: &mut [u8],
    }

    /// For the queries of a tile: -delta; -log Σ exp S / scale, minus infinity for a query that sees no key or is behind the last one, so
    /// that its exponentials are zero; and for the first `cleared` heads of all sequences, sums of dQ that are zero. With a soft cap, that is in the
    /// place of the scale.
    #[ptx_kernel(
        block = 128,
        grid = p.grid(C.queries),
        pdl,
        instances = [
            d64 = ([bf16, f16], Config { head: 64, queries: 128 }),
            d128 = ([bf16, f16], Config { head: 128, queries: 64 }),
            d256 = ([bf16, f16], Config { head: 256, queries: 64 })
        ],
        unsafe(
            requires(
                p.is_counted(),
                p.holds_queries(2 * tensors.out.len(), p.out, p.dim_v, 2),
                p.holds_queries(2 * tensors.out_grad.len(), g.out, p.dim_v, 2),
                p.logged == 1,
                p.holds_logarithms(4 * tensors.lse.len()),
                g.holds_sums(p, tensors.scratch.len(), [C.queries, C.head]),
                p.separates(starts_q.len(), starts_q.len())
            ),
            offsets(starts_q)
        )
    )]
    pub fn prepare<T, const C: Config>(tensors: Tensors<T>, p: Problem, g: Gradients, starts_q: &[i32], cleared: u32) {
        const ROWS: u32 = 128 / C.lanes();
        grid::overlap();
        let (out_from, grad_from, lse_from, memory): (u64, u64, u64, u64) =
            (tensors.out, tensors.out_grad, tensors.lse, tensors.scratch);
        let sequence = attention::Sequence::locate(starts_q, p.variable, ctaid.z, p.tokens_q, p.queries);
        let first: u32 = ctaid.x * C.queries;
        let parts: flash_grad::Scratch = scratch_of::<1>(memory, &p);
        if (ctaid.x | tid.x) == 0 {
            let counters: u64 = parts.counters::<{ C.queries }, { C.head }>();
            if (ctaid.y | ctaid.z) == 0 {
                for i in 0..4 {
                    ptx! { st.global.u32 [counters + 4 * i], 0; }
                }
            }
            if ctaid.y < g.heads_k {
                let ended: u64 = counters + wide(ctaid.z * g.heads_k + ctaid.y) * 4;
                ptx! { st.global.u32 [ended + ENDED], 0; }
            }
        }
        if first >= sequence.len {
            return;
        }
        let part = parts.part::<{ C.queries }, { C.head }>(ctaid.z, sequence.start, ctaid.y);
        let (row, column): (u32, u32) = (first + tid.x / C.lanes(), tid.x % C.lanes() * 8);
        let unit: f32 = (p.soft_cap > 0.0).select(p.soft_cap, g.slope);
        for i in 0..C.queries / ROWS {
            let own: u32 = row + i * ROWS;
            let inside: pred = own < sequence.len;
            let has_elements: pred = inside & (column < p.dim_v);
            let x: [f32; 8] = load_row::<T>(out_from, p.out, sequence.start + own, column, has_elements);
            let y: [f32; 8] = load_row::<T>(grad_from, g.out, sequence.start + own, column, has_elements);
            let mut delta: f32 = 0.0;
            for e in 0..8 {
                delta = x[e].fma(y[e], delta);
            }
            for step in [16, 8, 4, 2, 1] {
                if step < C.lanes() {
                    let other: f32;
                    ptx! { shfl.sync.bfly.b32 other, delta, step, 31, 0xffffffff; }
                    delta += other;
                }
            }
            let writes: pred = column == 0;
            let reads: pred = writes & inside;
            let from: u64 = lse_from + attention::offset(p.lse, ctaid.z, sequence.start + own, ctaid.y);
            let mut log: f32 = 1.0 / 0.0;
            ptx! { @reads ld.global.nc.f32 log, [from]; }
            log = -(log < -3.0e38).select(1.0 / 0.0, log) / unit;
            delta = -delta;
            let (log_to, delta_to): (u64, u64) = (part.logs + wide(own) * 4, part.deltas + wide(own) * 4);
            ptx! {
                @writes st.global.f32 [log_to], log;
                @writes st.global.f32 [delta_to], delta;
            }
        }
        if ctaid.z * p.heads + ctaid.y < cleared {
            let sums: u64 = part.sums + wide(first) * (4 * C.head) + wide(tid.x) * 16;
            for i in 0..C.queries * C.head / 512 {
                ptx! { st.global.v4.f32 [sums + 2048 * i], {0.0, 0.0, 0.0, 0.0}; }
            }
        }
        if tid.x < 2 {
            let turn: u64 = part.turns + wide(ctaid.x) * 8 + wide(tid.x) * 4;
            ptx! { st.global.u32 [turn], 0; }
        }
    }

    /// dQ from its sums, of all heads of all sequences behind the first `rounded`: patches of 64 × 64 as the backward kernel's threads have them.
    #[ptx_kernel(
        block = 128,
        grid = p.queries.div_ceil(64) * (C.head / 64) * (p.heads * p.batch - rounded),
        pdl,
        instances = [
            d64 = ([bf16, f16], Config { head: 64, queries: 128 }),
            d128 = ([bf16, f16], Config { head: 128, queries: 64 }),
            d256 = ([bf16, f16], Config { head: 256, queries: 64 })
        ],
        unsafe(
            requires(
                p.is_counted(),
                p.holds_queries(2 * q_grad.len(), g.q, p.dim, 2),
                p.parts_queries(g.q, p.dim, 2),
                g.holds_sums(p, scratch.len(), [C.queries, C.head]),
                p.separates(starts_q.len(), starts_q.len()),
                rounded <= p.heads * p.batch
            ),
            offsets(starts_q)
        )
    )]
    pub fn finish<T, const C: Config>(
        #[align(16)] q_grad: &mut [T],
        #[align(16)] scratch: &[u8],
        p: Problem,
        g: Gradients,
        starts_q: &[i32],
        rounded: u32,
    ) {
        #[shared(align = 1024)]
        let tile: [u8; 8192];
        let (to, memory, tile_at): (u64, u64, u32) = (q_grad, scratch, tile);
        let patches: u32 = (p.queries + 63) / 64 * (C.head / 64);
        let (patch, slot): (u32, u32) = (ctaid.x % patches, rounded + ctaid.x / patches);
        let (row, column): (u32, u32) = (patch / (C.head / 64) * 64, patch % (C.head / 64) * 64);
        let (number, head): (u32, u32) = (slot / p.heads, slot % p.heads);
        grid::overlap();
        let sequence = attention::Sequence::locate(starts_q, p.variable, number, p.tokens_q, p.queries);
        if (row >= sequence.len) | (column >= p.dim) {
            return;
        }
        let part = scratch_of::<1>(memory, &p).part::<{ C.queries }, { C.head }>(number, sequence.start, head);
        let from: u64 = part.sums + wide(patch) * 16384 + (tid.x / 32 * 4096 + laneid * 16) as u64;
        let sums: [f32; 32];
        for i in 0..8 {
            ptx! { ld.global.v4.f32 {sums[4 * i..4 * i + 4]}, [from + 512 * i]; }
        }
        for i in 0..32 {
            sums[i] *= g.slope;
        }
        let mut rows = attention::Rows::of_head(to, g.q, number, head, &sequence, p.dim - column);
        rows.first += wide(column) * 2;
        let warp_row: u32 = tid.x / 32 * 16;
        rows.write_sums::<T, 64, 0>(&sums, tile_at + warp_row * 128, row + warp_row);
    }
}

//! Softmax and its gradient for `sm_90` and later, for rows of whole 16 bytes: a row is read once, stays in registers, and is written once. A row up to a
//! vocabulary's length lies in the registers of a cluster of blocks.
//!
//! Every thread takes its own largest element as the base of its exponentials, so that one exchange of pairs (base, sum) is enough: each warp
//! sends its pair to every block of the cluster, in distributed shared memory. The exponentials are computed twice: registers are short, and
//! with them rows in flight.
#![allow(unreachable_pub, reason = "a struct that the host shares says `pub`")]

use ptx_launch::prelude::*;

/// The kernels.
#[ptx_module(arch = "sm_90")]
pub(super) mod tuned {
    /// The instance: elements per access, threads, accesses per thread, blocks per row, and blocks that fit an SM at least.
    #[derive(Clone, Copy)]
    pub struct Config {
        /// Elements per access of 16 bytes.
        pub each: u32,
        /// Threads of a block.
        pub threads: u32,
        /// Accesses per thread.
        pub vectors: u32,
        /// Blocks of a cluster.
        pub cluster: u32,
        /// Blocks per SM.
        pub blocks: u32,
    }

    impl Config {
        /// The most columns of a row.
        pub const fn most(&self) -> u32 {
            self.each * self.threads * self.vectors * self.cluster
        }
    }

    /// The base of exponentials without elements: -∞ minus it is still -∞.
    const LEAST: f32 = f32::MIN;

    /// log2(e).
    fn log2_e() -> f32 {
        1.4426950408889634
    }

    /// -∞ in every element of a register.
    fn nothing<T>() -> u32 {
        if type_name::<T>() == "f32" {
            0xff800000
        } else if type_name::<T>() == "f16" {
            0xfc00fc00
        } else {
            0xff80ff80
        }
    }

    /// The least finite number in every element of a register.
    fn least<T>() -> u32 {
        if type_name::<T>() == "f32" {
            0xff7fffff
        } else if type_name::<T>() == "f16" {
            0xfbfffbff
        } else {
            0xff7fff7f
        }
    }

    /// 2 to the power x · factor: `mul` and `ex2.approx.ftz`.
    fn power(x: f32, factor: f32) -> f32 {
        let mut y: f32 = x * factor;
        ptx! { ex2.approx.ftz.f32 y, y; }
        y
    }

    /// The largest of a thread's elements, in pairs as long as they are packed.
    fn find_largest<T, const C: Config>(row: [[b32; vector::words::<T, { C.each }>()]; C.vectors]) -> f32 {
        const WORDS: u32 = vector::words::<T, { C.each }>();
        const KIND: &str = if type_name::<T>() == "f32" {
            "f32"
        } else if type_name::<T>() == "f16" {
            "f16x2"
        } else {
            "bf16x2"
        };
        let mut most: [b32; WORDS] = [least::<T>(); WORDS];
        for i in 0..C.vectors {
            for j in 0..WORDS {
                ptx! { max.{KIND} most[j], most[j], row[i][j]; }
            }
        }
        let mut v: [f32; C.each] = vector::unpack::<T, { C.each }>(most);
        for j in 1..C.each {
            v[0] = v[0].max(v[j]);
        }
        v[0]
    }

    /// This thread's base and its sum of exponentials, in four chains, so that no addition waits for the one before.
    fn sum_powers<T, const C: Config>(
        row: [[b32; vector::words::<T, { C.each }>()]; C.vectors],
        factor: f32,
    ) -> (f32, f32) {
        let base: f32 = find_largest::<T, C>(row);
        let mut sum: [f32; 4] = [0.0; 4];
        for i in 0..C.vectors {
            let v: [f32; C.each] = vector::unpack::<T, { C.each }>(row[i]);
            for j in 0..C.each {
                sum[j % 4] += power(v[j] - base, factor);
            }
        }
        (base, (sum[0] + sum[1]) + (sum[2] + sum[3]))
    }

    /// One pair of the pairs of every `LANES` neighbors: the largest base, and the sums rescaled to it.
    fn merge_pairs<const LANES: u32>(base: f32, sum: f32, factor: f32) -> (f32, f32) {
        let (mut most, mut total, mut other): (f32, f32, f32) = (base, 0.0, 0.0);
        for step in [1, 2, 4, 8, 16] {
            if step < LANES {
                ptx! {
                    shfl.sync.bfly.b32 other, most, step, 31, 0xffffffff;
                    max.f32 most, most, other;
                }
            }
        }
        total = sum * power(base - most, factor);
        for step in [1, 2, 4, 8, 16] {
            if step < LANES {
                ptx! {
                    shfl.sync.bfly.b32 other, total, step, 31, 0xffffffff;
                    add.f32 total, total, other;
                }
            }
        }
        (most, total)
    }

    /// The row's base and sum, of those of all its threads.
    fn reduce_row<const C: Config>(base: f32, sum: f32, factor: f32) -> (f32, f32) {
        const WARPS: u32 = C.threads / 32;
        const PAIRS: u32 = C.cluster * WARPS;
        const LANES: u32 = PAIRS.min(32);
        #[shared(align = 16)]
        let pairs: [[f32; 2]; PAIRS];
        let (warp_base, warp_sum): (f32, f32) = merge_pairs::<32>(base, sum, factor);
        let own: u32 = pairs + (cluster_ctarank * WARPS + tid.x / 32) * 8;
        if C.cluster == 1 {
            if laneid == 0 {
                ptx! { st.shared.v2.f32 [own], {warp_base, warp_sum}; }
            }
            block::sync();
        } else {
            // The first half of this barrier stands before the row is read, so that every block of the cluster has started.
            cluster::wait();
            if laneid < C.cluster {
                let remote: u32 = cluster::map(own, laneid);
                ptx! { st.shared::cluster.v2.f32 [remote], {warp_base, warp_sum}; }
            }
            cluster::sync();
        }
        let from: u32 = pairs + laneid % LANES * 8;
        let (row_base, row_sum): (f32, f32);
        ptx! { ld.shared.v2.f32 {row_base, row_sum}, [from]; }
        for at in 1..PAIRS / LANES {
            let (b, s, most): (f32, f32, f32);
            ptx! {
                ld.shared.v2.f32 {b, s}, [from + at * 8 * LANES];
                max.f32 most, row_base, b;
            }
            row_sum = row_sum * power(row_base - most, factor) + s * power(b - most, factor);
            row_base = most;
        }
        merge_pairs::<LANES>(row_base, row_sum, factor)
    }

    /// The distance of two rows of each matrix, in elements.
    struct Strides {
        x_stride: u64,
        out_stride: u64,
    }

    /// out = exp(scale · x) / sum of exp(scale · x), row by row.
    #[ptx_kernel(
        block = C.threads,
        grid = rows * C.cluster,
        cluster = C.cluster,
        min_blocks = C.blocks,
        pdl,
        instances = [
            short_4 = (f32, Config { each: 4, threads: 256, vectors: 2, cluster: 1, blocks: 1 }),
            short_8 = ([bf16, f16], Config { each: 8, threads: 256, vectors: 1, cluster: 1, blocks: 1 }),
            medium_4 = (f32, Config { each: 4, threads: 512, vectors: 4, cluster: 1, blocks: 3 }),
            medium_8 = ([bf16, f16], Config { each: 8, threads: 256, vectors: 4, cluster: 1, blocks: 5 }),
            long_4 = (f32, Config { each: 4, threads: 512, vectors: 16, cluster: 4, blocks: 1 }),
            long_8 = ([bf16, f16], Config { each: 8, threads: 512, vectors: 16, cluster: 2, blocks: 1 })
        ],
        unsafe(requires(
            rows >= 1,
            columns % C.each == 0,
            columns <= C.most(),
            strides.x_stride % C.each == 0,
            x.len() >= (rows - 1) * strides.x_stride + columns,
            strides.out_stride % C.each == 0,
            strides.out_stride >= columns,
            out.len() >= (rows - 1) * strides.out_stride + columns
        ))
    )]
    pub fn softmax_rows<T, const C: Config>(
        #[align(C.each * size_of::<T>())] x: &[T],
        #[align(C.each * size_of::<T>())] out: &mut [T],
        strides: Strides,
        scale: f32,
        rows: u32,
        columns: u32,
    ) {
        const EACH: u32 = C.each;
        const STEP: u32 = EACH * C.threads;

        if C.cluster > 1 {
            cluster::arrive_relaxed();
        }
        // `%clusterid` is a division.
        let (mut part, mut number): (u32, u32) = (0, ctaid.x);
        if C.cluster > 1 {
            part = cluster_ctarank;
            number = clusterid.x;
        }
        let first: u32 = (part * (C.threads * C.vectors) + tid.x) * EACH;
        let source = x.at(number as u64 * strides.x_stride + first as u64);
        let target = out.at(number as u64 * strides.out_stride + first as u64);
        let inside: [pred; C.vectors];
        let row: [[b32; vector::words::<T, EACH>()]; C.vectors];
        let keep: u64 = cache::evict_last();
        // Clusters that start while others work would be in their way.
        if C.cluster == 1 {
            grid::fetch_ahead::<{ C.blocks }>(source, columns * size_of::<T>());
            grid::launch_dependents();
        }
        grid::wait();
        for i in 0..C.vectors {
            inside[i] = first + i * STEP < columns;
            row[i] = vector::load_first::<T, EACH>(source.at(i * STEP), inside[i], nothing::<T>(), keep);
        }
        if C.cluster > 1 {
            grid::launch_dependents();
        }

        let factor: f32 = scale * log2_e();
        let (base, sum): (f32, f32) = sum_powers::<T, C>(row, factor);
        let (top, mut total): (f32, f32) = reduce_row::<C>(base, sum, factor);
        // The exponentials again, with the row's own base: only the packed row stayed in registers.
        ptx! {
            lg2.approx.ftz.f32 total, total;
            neg.f32 total, total;
        }
        for i in 0..C.vectors {
            let mut v: [f32; EACH] = vector::unpack_again::<T, EACH, 0>(row[i]);
            for j in 0..EACH {
                let rest: f32 = (v[j] - top).fma(factor, total);
                ptx! { ex2.approx.ftz.f32 v[j], rest; }
            }
            vector::store_kept::<T, EACH>(target.at(i * STEP), vector::pack::<T, EACH>(v), inside[i]);
        }
    }

    /// The operands of the gradient, and the result.
    struct GradTensors<T, const C: Config> {
        #[align(C.each * size_of::<T>())]
        y: &[T],
        #[align(C.each * size_of::<T>())]
        dy: &[T],
        #[align(C.each * size_of::<T>())]
        dx: &mut [T],
    }

    /// The distance of two rows of each matrix, in elements.
    struct GradStrides {
        y_stride: u64,
        dy_stride: u64,
        dx_stride: u64,
    }

    /// dx = scale · y · (dy - sum(y · dy)), row by row.
    #[ptx_kernel(
        block = C.threads,
        grid = rows,
        min_blocks = C.blocks,
        pdl,
        instances = [
            short_4 = (f32, Config { each: 4, threads: 256, vectors: 2, cluster: 1, blocks: 4 }),
            short_8 = ([bf16, f16], Config { each: 8, threads: 256, vectors: 1, cluster: 1, blocks: 6 }),
            medium_4 = (f32, Config { each: 4, threads: 512, vectors: 4, cluster: 1, blocks: 2 }),
            medium_8 = ([bf16, f16], Config { each: 8, threads: 512, vectors: 2, cluster: 1, blocks: 3 }),
            long_4 = (f32, Config { each: 4, threads: 1024, vectors: 4, cluster: 1, blocks: 1 }),
            long_8 = ([bf16, f16], Config { each: 8, threads: 1024, vectors: 4, cluster: 1, blocks: 1 })
        ],
        unsafe(requires(
            rows >= 1,
            columns % C.each == 0,
            columns <= C.most(),
            strides.y_stride % C.each == 0,
            tensors.y.len() >= (rows - 1) * strides.y_stride + columns,
            strides.dy_stride % C.each == 0,
            tensors.dy.len() >= (rows - 1) * strides.dy_stride + columns,
            strides.dx_stride % C.each == 0,
            strides.dx_stride >= columns,
            tensors.dx.len() >= (rows - 1) * strides.dx_stride + columns
        ))
    )]
    pub fn softmax_rows_backward<T, const C: Config>(
        tensors: GradTensors<T, C>,
        strides: GradStrides,
        scale: f32,
        rows: u32,
        columns: u32,
    ) {
        const EACH: u32 = C.each;
        const STEP: u32 = EACH * C.threads;
        let (number, first): (u64, u32) = (ctaid.x as u64, tid.x * EACH);
        let source = tensors.y.at(number * strides.y_stride + first as u64);
        let slopes = tensors.dy.at(number * strides.dy_stride + first as u64);
        let target = tensors.dx.at(number * strides.dx_stride + first as u64);
        let inside: [pred; C.vectors];
        let (row, gradient): (
            [[b32; vector::words::<T, EACH>()]; C.vectors],
            [[b32; vector::words::<T, EACH>()]; C.vectors],
        );
        let keep: u64 = cache::evict_last();
        grid::launch_dependents();
        grid::wait();
        for i in 0..C.vectors {
            inside[i] = first + i * STEP < columns;
            row[i] = vector::load_first::<T, EACH>(source.at(i * STEP), inside[i], 0, keep);
            gradient[i] = vector::load_first::<T, EACH>(slopes.at(i * STEP), inside[i], 0, keep);
        }
        let mut sum: [f32; 2] = [0.0; 2];
        for i in 0..C.vectors {
            let v: [f32; EACH] = vector::unpack::<T, EACH>(row[i]);
            let g: [f32; EACH] = vector::unpack::<T, EACH>(gradient[i]);
            for j in 0..EACH {
                sum[j % 2] = v[j].fma(g[j], sum[j % 2]);
            }
        }
        let total: f32 = block::reduce_sum_once::<{ C.threads / 32 }>(sum[0] + sum[1]);
        for i in 0..C.vectors {
            let mut v: [f32; EACH] = vector::unpack_again::<T, EACH, 0>(row[i]);
            let g: [f32; EACH] = vector::unpack_again::<T, EACH, 0>(gradient[i]);
            for j in 0..EACH {
                v[j] = v[j] * scale * (g[j] - total);
            }
            vector::store::<T, EACH>(target.at(i * STEP), vector::pack::<T, EACH>(v), inside[i]);
        }
    }
}

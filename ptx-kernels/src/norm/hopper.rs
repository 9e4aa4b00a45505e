//! RMSNorm and LayerNorm for `sm_90` and later: a block per row of whole 16 bytes, all loads of a row in flight at once, and several rows per SM. The next
//! launch starts while the last rows are written (`griddepcontrol`).
#![allow(unreachable_pub, reason = "a struct that the host shares says `pub`")]

use ptx_launch::prelude::*;

/// The kernels.
#[ptx_module(arch = "sm_90")]
pub(super) mod kernels {
    /// The instance: elements per access, threads, accesses per thread, and blocks that fit an SM at least.
    #[derive(Clone, Copy)]
    pub struct Config {
        /// Elements per access of 16 bytes.
        pub each: u32,
        /// Threads of a block.
        pub threads: u32,
        /// Accesses per thread.
        pub vectors: u32,
        /// Blocks per SM.
        pub blocks: u32,
    }

    impl Config {
        /// The most columns of a row.
        pub const fn most(&self) -> u32 {
            self.each * self.threads * self.vectors
        }
    }

    /// The operands and the result of RMSNorm.
    struct RmsTensors<T, const C: Config> {
        #[align(C.each * size_of::<T>())]
        x: &[T],
        #[align(C.each * size_of::<T>())]
        weight: &[T],
        #[align(C.each * size_of::<T>())]
        out: &mut [T],
    }

    /// The distance of two rows of each matrix, in elements.
    struct Strides {
        x_stride: u64,
        out_stride: u64,
    }

    /// out = x · weight / sqrt(mean(x²) + epsilon), row by row. A row is read again, from the first-level cache, to be scaled: that takes few
    /// registers, so that more rows are in flight.
    #[ptx_kernel(
        block = C.threads,
        grid = rows,
        min_blocks = C.blocks,
        pdl,
        instances = [
            short_4 = (f32, Config { each: 4, threads: 256, vectors: 2, blocks: 1 }),
            short_8 = ([bf16, f16], Config { each: 8, threads: 256, vectors: 1, blocks: 1 }),
            medium_4 = (f32, Config { each: 4, threads: 1024, vectors: 2, blocks: 2 }),
            medium_8 = ([bf16, f16], Config { each: 8, threads: 512, vectors: 2, blocks: 4 }),
            long_4 = (f32, Config { each: 4, threads: 1024, vectors: 8, blocks: 1 }),
            long_8 = ([bf16, f16], Config { each: 8, threads: 1024, vectors: 4, blocks: 1 })
        ],
        unsafe(requires(
            rows >= 1,
            columns % C.each == 0,
            columns <= C.most(),
            strides.x_stride % C.each == 0,
            tensors.x.len() >= (rows - 1) * strides.x_stride + columns,
            tensors.weight.len() >= columns,
            strides.out_stride % C.each == 0,
            strides.out_stride >= columns,
            tensors.out.len() >= (rows - 1) * strides.out_stride + columns
        ))
    )]
    pub fn rms_norm<T, const C: Config>(
        tensors: RmsTensors<T, C>,
        strides: Strides,
        epsilon: f32,
        rows: u32,
        columns: u32,
    ) {
        const EACH: u32 = C.each;
        const WORDS: u32 = vector::words::<T, EACH>();
        const STEP: u32 = EACH * C.threads;
        const BYTES: u32 = size_of::<T>();
        /// Registers suffice for the weights while the row is in flight.
        const EARLY: bool = BYTES == 4 && C.vectors <= 2;
        /// Rows are fetched before their turn; in `f32` that costs more than it brings.
        const AHEAD: bool = BYTES == 2;

        let (row_number, first): (u64, u32) = (ctaid.x as u64, tid.x * EACH);
        let source = tensors.x.at(row_number * strides.x_stride + first as u64);
        let target = tensors.out.at(row_number * strides.out_stride + first as u64);
        let scale = tensors.weight.at(first);
        let inside: [pred; C.vectors];
        let row: [[b32; WORDS]; C.vectors];
        let weights: [[b32; WORDS]; C.vectors];
        let (keep, leave): (u64, u64) = (cache::evict_last(), cache::evict_first());
        if AHEAD {
            grid::fetch_ahead::<{ C.blocks }>(source, columns * BYTES);
        }
        grid::wait();
        for i in 0..C.vectors {
            inside[i] = first + i * STEP < columns;
            row[i] = vector::load_first::<T, EACH>(source.at(i * STEP), inside[i], 0, keep);
        }
        // The division, and the weights, while the row is in flight.
        let share: f32 = 1.0 / columns as f32;
        if EARLY {
            for i in 0..C.vectors {
                weights[i] = vector::load_shared::<T, EACH>(scale.at(i * STEP), inside[i]);
            }
        }
        grid::launch_dependents();

        let mut squares: f32 = 0.0;
        for i in 0..C.vectors {
            for v in vector::unpack::<T, EACH>(row[i]) {
                squares = v.fma(v, squares);
            }
        }
        let mut inverse: f32 = block::reduce_sum_once::<{ C.threads / 32 }>(squares) * share + epsilon;
        ptx! { rsqrt.approx.f32 inverse, inverse; }

        for i in 0..C.vectors {
            row[i] = vector::load_again::<T, EACH>(source.at(i * STEP), inside[i], 0, leave);
            let mut v: [f32; EACH] = vector::unpack::<T, EACH>(row[i]);
            if !EARLY {
                weights[i] = vector::load_shared::<T, EACH>(scale.at(i * STEP), inside[i]);
            }
            let w: [f32; EACH] = vector::unpack::<T, EACH>(weights[i]);
            for j in 0..EACH {
                v[j] = v[j] * inverse * w[j];
            }
            vector::store_kept::<T, EACH>(target.at(i * STEP), vector::pack::<T, EACH>(v), inside[i]);
        }
    }

    /// The operands and the result of LayerNorm.
    struct LayerTensors<T, const C: Config> {
        #[align(C.each * size_of::<T>())]
        x: &[T],
        #[align(C.each * size_of::<T>())]
        weight: &[T],
        #[align(C.each * size_of::<T>())]
        bias: &[T],
        #[align(C.each * size_of::<T>())]
        out: &mut [T],
    }

    /// out = (x - mean(x)) / sqrt(variance(x) + epsilon) · weight + bias, row by row. A row stays in registers; the variance is the mean square of
    /// the centered values, so that nothing cancels.
    #[ptx_kernel(
        block = C.threads,
        grid = rows,
        min_blocks = C.blocks,
        pdl,
        instances = [
            short_4 = (f32, Config { each: 4, threads: 256, vectors: 2, blocks: 1 }),
            short_8 = ([bf16, f16], Config { each: 8, threads: 256, vectors: 1, blocks: 1 }),
            medium_4 = (f32, Config { each: 4, threads: 512, vectors: 4, blocks: 2 }),
            medium_8 = ([bf16, f16], Config { each: 8, threads: 256, vectors: 4, blocks: 6 }),
            long_4 = (f32, Config { each: 4, threads: 1024, vectors: 8, blocks: 1 }),
            long_8 = ([bf16, f16], Config { each: 8, threads: 1024, vectors: 4, blocks: 1 })
        ],
        unsafe(requires(
            rows >= 1,
            columns % C.each == 0,
            columns <= C.most(),
            strides.x_stride % C.each == 0,
            tensors.x.len() >= (rows - 1) * strides.x_stride + columns,
            tensors.weight.len() >= columns,
            tensors.bias.len() >= columns,
            strides.out_stride % C.each == 0,
            strides.out_stride >= columns,
            tensors.out.len() >= (rows - 1) * strides.out_stride + columns
        ))
    )]
    pub fn layer_norm<T, const C: Config>(
        tensors: LayerTensors<T, C>,
        strides: Strides,
        epsilon: f32,
        rows: u32,
        columns: u32,
    ) {
        const EACH: u32 = C.each;
        const WORDS: u32 = vector::words::<T, EACH>();
        const STEP: u32 = EACH * C.threads;
        /// Registers suffice for weights and biases while the row is in flight: a packed row leaves none free.
        const EARLY: bool = size_of::<T>() == 4 && C.vectors <= 4;

        let (row_number, first): (u64, u32) = (ctaid.x as u64, tid.x * EACH);
        grid::fetch_ahead::<{ C.blocks }>(tensors.x.at(row_number * strides.x_stride), columns * size_of::<T>());
        let source = tensors.x.at(row_number * strides.x_stride + first as u64);
        let target = tensors.out.at(row_number * strides.out_stride + first as u64);
        let (scale, shift) = (tensors.weight.at(first), tensors.bias.at(first));
        let inside: [pred; C.vectors];
        let row: [[b32; WORDS]; C.vectors];
        let keep: u64 = cache::evict_last();
        grid::launch_dependents();
        grid::wait();
        for i in 0..C.vectors {
            inside[i] = first + i * STEP < columns;
            row[i] = vector::load_first::<T, EACH>(source.at(i * STEP), inside[i], 0, keep);
        }
        let (weights, shifts): ([[b32; WORDS]; C.vectors], [[b32; WORDS]; C.vectors]);
        if EARLY {
            for i in 0..C.vectors {
                weights[i] = vector::load_shared::<T, EACH>(scale.at(i * STEP), inside[i]);
                shifts[i] = vector::load_shared::<T, EACH>(shift.at(i * STEP), inside[i]);
            }
        }

        let share: f32 = 1.0 / columns as f32;
        let mut sum: f32 = 0.0;
        for i in 0..C.vectors {
            for v in vector::unpack::<T, EACH>(row[i]) {
                sum += v;
            }
        }
        let mean: f32 = block::reduce_sum_once::<{ C.threads / 32 }>(sum) * share;

        let mut squares: f32 = 0.0;
        for i in 0..C.vectors {
            for v in vector::unpack_again::<T, EACH, 0>(row[i]) {
                let rest: f32 = v - mean;
                ptx! { @inside[i] fma.rn.f32 squares, rest, rest, squares; }
            }
        }
        let mut inverse: f32 = block::reduce_sum_once::<{ C.threads / 32 }>(squares) * share + epsilon;
        ptx! { rsqrt.approx.f32 inverse, inverse; }

        for i in 0..C.vectors {
            let mut v: [f32; EACH] = vector::unpack_again::<T, EACH, 1>(row[i]);
            if !EARLY {
                weights[i] = vector::load_shared::<T, EACH>(scale.at(i * STEP), inside[i]);
                shifts[i] = vector::load_shared::<T, EACH>(shift.at(i * STEP), inside[i]);
            }
            let w: [f32; EACH] = vector::unpack::<T, EACH>(weights[i]);
            let b: [f32; EACH] = vector::unpack::<T, EACH>(shifts[i]);
            for j in 0..EACH {
                v[j] = ((v[j] - mean) * inverse).fma(w[j], b[j]);
            }
            vector::store_kept::<T, EACH>(target.at(i * STEP), vector::pack::<T, EACH>(v), inside[i]);
        }
    }
}

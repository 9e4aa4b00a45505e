//! RMSNorm and LayerNorm for every chip and every row: a block per row, which reads the row once for each sum, and again to
//! scale it. All reads behind the first come from the first-level cache while rows fit there.
#![allow(unreachable_pub, reason = "a struct that the host shares says `pub`")]

use ptx_launch::prelude::*;

/// The kernel. `EACH` elements are an access: 16 bytes, or one element where rows are not aligned.
#[ptx_module(arch("sm_75", "sm_90"))]
pub(super) mod kernels {
    const THREADS: u32 = 256;
    const WARPS: u32 = THREADS / 32;

    /// The instance: LayerNorm or RMSNorm, and elements per access.
    #[derive(Clone, Copy)]
    pub struct Config {
        /// 1 for LayerNorm, which subtracts the mean.
        pub center: u32,
        /// Elements per access.
        pub each: u32,
    }

    /// The sum of `x` and `residual`, rounded, which takes the place of `residual`.
    fn add_residual<T, const EACH: u32>(x: [f32; EACH], residual: GlobalMut<T>) -> [f32; EACH] {
        let mut sum: [f32; EACH] = vector::read::<T, EACH>(residual);
        for i in 0..EACH {
            sum[i] += x[i];
        }
        vector::write::<T, EACH>(residual, sum);
        vector::unpack::<T, EACH>(vector::pack::<T, EACH>(sum))
    }

    /// `out` is the norm of `x`, or of `residual`, to which `x` is added first. Residual, weights and biases may be missing.
    struct Tensors<T, const C: Config> {
        #[align(C.each * size_of::<T>())]
        x: &[T],
        #[align(C.each * size_of::<T>())]
        residual: &mut [T],
        #[align(C.each * size_of::<T>())]
        weight: &[T],
        #[align(C.each * size_of::<T>())]
        bias: &[T],
        #[align(C.each * size_of::<T>())]
        out: &mut [T],
    }

    /// The distance of two rows of each matrix, in elements.
    struct Strides {
        x_stride: u64,
        residual_stride: u64,
        out_stride: u64,
    }

    /// out = (x + residual - mean) / sqrt(mean square + epsilon) · weight + bias, row by row; the sum x + residual takes the place of
    /// `residual`. The address zero stands for no residual, weights of one, and biases of zero.
    #[ptx_kernel(
        block = THREADS,
        grid = rows,
        pdl,
        instances = [
            rms_4 = (f32, Config { center: 0, each: 4 }),
            rms_8 = ([bf16, f16], Config { center: 0, each: 8 }),
            rms_1 = ([f32, bf16, f16], Config { center: 0, each: 1 }),
            layer_4 = (f32, Config { center: 1, each: 4 }),
            layer_8 = ([bf16, f16], Config { center: 1, each: 8 }),
            layer_1 = ([f32, bf16, f16], Config { center: 1, each: 1 })
        ],
        unsafe(requires(
            rows >= 1,
            columns % C.each == 0,
            columns < 1 << 31,
            strides.x_stride % C.each == 0,
            tensors.x.len() >= (rows - 1) * strides.x_stride + columns,
            strides.residual_stride % C.each == 0,
            tensors.residual.len() == 0 || strides.residual_stride >= columns,
            tensors.residual.len() == 0 || tensors.residual.len() >= (rows - 1) * strides.residual_stride + columns,
            tensors.weight.len() == 0 || tensors.weight.len() >= columns,
            tensors.bias.len() == 0 || tensors.bias.len() >= columns,
            strides.out_stride % C.each == 0,
            strides.out_stride >= columns,
            tensors.out.len() >= (rows - 1) * strides.out_stride + columns
        ))
    )]
    pub fn normalize<T, const C: Config>(
        tensors: Tensors<T, C>,
        strides: Strides,
        epsilon: f32,
        rows: u32,
        columns: u32,
    ) {
        const EACH: u32 = C.each;
        const STEP: u32 = EACH * THREADS;

        let (row, first): (u64, u32) = (ctaid.x as u64, tid.x * EACH);
        let (from, sums) = (tensors.x.at(row * strides.x_stride), tensors.residual.at(row * strides.residual_stride));
        let to = tensors.out.at(row * strides.out_stride);
        let (residual_at, weight_at, bias_at): (u64, u64, u64) = (tensors.residual, tensors.weight, tensors.bias);
        let (adds, scales, shifts): (pred, pred, pred) = (residual_at != 0, weight_at != 0, bias_at != 0);
        grid::overlap();

        let (mut sum, mut squares): (f32, f32) = (0.0, 0.0);
        let mut column: u32 = first;
        while column < columns {
            let mut v: [f32; EACH] = vector::read::<T, EACH>(from.at(column));
            if adds {
                v = add_residual::<T, EACH>(v, sums.at(column));
            }
            for i in 0..EACH {
                sum += v[i];
                squares = v[i].fma(v[i], squares);
            }
            column += STEP;
        }
        let (plain, added): (u64, u64) = (from, sums);
        let source = Global::<T>::from_addr(adds.select(added, plain));
        let share: f32 = 1.0 / columns as f32;
        let mut mean: f32 = 0.0;
        if C.center == 1 {
            mean = block::reduce_sum::<WARPS, f32>(sum) * share;
            squares = 0.0;
            column = first;
            while column < columns {
                for v in vector::read::<T, EACH>(source.at(column)) {
                    let rest: f32 = v - mean;
                    squares = rest.fma(rest, squares);
                }
                column += STEP;
            }
        }
        let mut inverse: f32 = block::reduce_sum::<WARPS, f32>(squares).fma(share, epsilon);
        ptx! { rsqrt.approx.f32 inverse, inverse; }

        column = first;
        while column < columns {
            let mut v: [f32; EACH] = vector::read::<T, EACH>(source.at(column));
            let w: [f32; EACH] = vector::unpack::<T, EACH>(vector::load::<T, EACH>(
                tensors.weight.at(column),
                scales,
                vector::ones::<T>(),
            ));
            let b: [f32; EACH] = vector::unpack::<T, EACH>(vector::load::<T, EACH>(tensors.bias.at(column), shifts, 0));
            for i in 0..EACH {
                v[i] = ((v[i] - mean) * inverse).fma(w[i], b[i]);
            }
            vector::write::<T, EACH>(to.at(column), v);
            column += STEP;
        }
    }
}

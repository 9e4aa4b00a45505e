//! Softmax and its gradient for every chip and every row: a block per row, which reads it twice, the second time from the first-level
//! cache while the row fits there.

use ptx_launch::prelude::*;

/// The kernels. `EACH` elements are an access: 16 bytes, or one element where rows are not aligned.
#[ptx_module(arch("sm_75", "sm_90"))]
pub(super) mod kernels {
    const THREADS: u32 = 256;
    const WARPS: u32 = THREADS / 32;

    /// The base of exponentials without elements: -∞ minus it is still -∞.
    const LEAST: f32 = f32::MIN;

    /// The distance of two rows of each matrix, in elements.
    struct Strides {
        x_stride: u64,
        out_stride: u64,
    }

    /// out = exp(scale · x) / sum of exp(scale · x), row by row. Each thread keeps the largest element so far as the base of its sum
    /// (Milakov and Gimelshein, 2018).
    #[ptx_kernel(
        block = THREADS,
        grid = rows,
        pdl,
        instances = [by_4 = (f32, 4), by_8 = ([bf16, f16], 8), by_1 = ([f32, bf16, f16], 1)],
        unsafe(requires(
            rows >= 1,
            columns % EACH == 0,
            columns < 1 << 31,
            strides.x_stride % EACH == 0,
            x.len() >= (rows - 1) * strides.x_stride + columns,
            strides.out_stride % EACH == 0,
            strides.out_stride >= columns,
            out.len() >= (rows - 1) * strides.out_stride + columns
        ))
    )]
    pub fn softmax<T, const EACH: u32>(
        #[align(EACH * size_of::<T>())] x: &[T],
        #[align(EACH * size_of::<T>())] out: &mut [T],
        strides: Strides,
        scale: f32,
        rows: u32,
        columns: u32,
    ) {
        const STEP: u32 = EACH * THREADS;
        let (row, first): (u64, u32) = (ctaid.x as u64, tid.x * EACH);
        let (from, to) = (x.at(row * strides.x_stride), out.at(row * strides.out_stride));
        grid::overlap();

        let (mut base, mut sum): (f32, f32) = (LEAST, 0.0);
        let mut column: u32 = first;
        while column < columns {
            let v: [f32; EACH] = vector::read::<T, EACH>(from.at(column));
            let mut most: f32 = base;
            for i in 0..EACH {
                most = most.max(v[i]);
            }
            sum *= math::exp_approx((base - most) * scale);
            base = most;
            for i in 0..EACH {
                sum += math::exp_approx((v[i] - base) * scale);
            }
            column += STEP;
        }
        let top: f32 = block::reduce_max::<WARPS, f32>(base);
        let mut share: f32 = block::reduce_sum::<WARPS, f32>(sum * math::exp_approx((base - top) * scale));
        ptx! { rcp.approx.f32 share, share; }

        column = first;
        while column < columns {
            let mut v: [f32; EACH] = vector::read::<T, EACH>(from.at(column));
            for i in 0..EACH {
                v[i] = math::exp_approx((v[i] - top) * scale) * share;
            }
            vector::write::<T, EACH>(to.at(column), v);
            column += STEP;
        }
    }

    /// The operands of the gradient, and the result.
    struct GradTensors<T, const EACH: u32> {
        #[align(EACH * size_of::<T>())]
        y: &[T],
        #[align(EACH * size_of::<T>())]
        dy: &[T],
        #[align(EACH * size_of::<T>())]
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
        block = THREADS,
        grid = rows,
        pdl,
        instances = [by_4 = (f32, 4), by_8 = ([bf16, f16], 8), by_1 = ([f32, bf16, f16], 1)],
        unsafe(requires(
            rows >= 1,
            columns % EACH == 0,
            columns < 1 << 31,
            strides.y_stride % EACH == 0,
            tensors.y.len() >= (rows - 1) * strides.y_stride + columns,
            strides.dy_stride % EACH == 0,
            tensors.dy.len() >= (rows - 1) * strides.dy_stride + columns,
            strides.dx_stride % EACH == 0,
            strides.dx_stride >= columns,
            tensors.dx.len() >= (rows - 1) * strides.dx_stride + columns
        ))
    )]
    pub fn softmax_backward<T, const EACH: u32>(
        tensors: GradTensors<T, EACH>,
        strides: GradStrides,
        scale: f32,
        rows: u32,
        columns: u32,
    ) {
        const STEP: u32 = EACH * THREADS;
        let (row, first): (u64, u32) = (ctaid.x as u64, tid.x * EACH);
        let (from, slopes, to) = (
            tensors.y.at(row * strides.y_stride),
            tensors.dy.at(row * strides.dy_stride),
            tensors.dx.at(row * strides.dx_stride),
        );
        grid::overlap();

        let mut sum: f32 = 0.0;
        let mut column: u32 = first;
        while column < columns {
            let v: [f32; EACH] = vector::read::<T, EACH>(from.at(column));
            let g: [f32; EACH] = vector::read::<T, EACH>(slopes.at(column));
            for i in 0..EACH {
                sum = v[i].fma(g[i], sum);
            }
            column += STEP;
        }
        sum = block::reduce_sum::<WARPS, f32>(sum);

        column = first;
        while column < columns {
            let mut v: [f32; EACH] = vector::read::<T, EACH>(from.at(column));
            let g: [f32; EACH] = vector::read::<T, EACH>(slopes.at(column));
            for i in 0..EACH {
                v[i] = v[i] * scale * (g[i] - sum);
            }
            vector::write::<T, EACH>(to.at(column), v);
            column += STEP;
        }
    }
}

//! Products of matrices: the layout of their operands, and how far a result is from the product in `f64`.

use super::{Value, relative};
use ptx_launch::Result;
use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_90")]
mod kernels {
    /// The sum over the warp, in two halves of 32 bits.
    fn warp_sum(x: f64) -> f64 {
        let mut sum: f64 = x;
        for step in [16, 8, 4, 2, 1] {
            let (low, high): (b32, b32);
            let other: f64;
            ptx! {
                mov.b64 {low, high}, sum;
                shfl.sync.bfly.b32 low, low, step, 31, 0xffffffff;
                shfl.sync.bfly.b32 high, high, step, 31, 0xffffffff;
                mov.b64 other, {low, high};
            }
            sum += other;
        }
        sum
    }

    /// Adds the squares of the differences, and of the reference, to two sums.
    fn add_squares(sums: u64, x: f64, reference: f64) {
        let difference: f64 = x - reference;
        let (square, own): (f64, f64) = (difference * difference, reference * reference);
        ptx! {
            red.global.add.f64 [sums], square;
            red.global.add.f64 [sums + 8], own;
        }
    }

    /// An element in global memory.
    fn element<T>(at: u64) -> f64 {
        let value: f64;
        if size_of::<T>() == 2 {
            let (bits, wide_value): (T, f32);
            ptx! {
                ld.global.b16 bits, [at];
                cvt.f32.{T} wide_value, bits;
            }
            value = wide_value as f64;
        } else if size_of::<T>() == 1 {
            let whole: i32;
            ptx! { ld.global.s8 whole, [at]; }
            value = whole as f64;
        } else {
            let bits: T;
            ptx! { ld.global.b32 bits, [at]; }
            value = bits as f64;
        }
        value
    }

    /// Rows `first + i · step` of A · B in `f64`, a warp an element, and how far C is from it. A is at
    /// `a_row · m + a_k · k`, B at `b_col · n + b_k · k`.
    #[ptx_kernel(
        block = 256,
        grid = (rows * n).div_ceil(8),
        instances = [(bf16, bf16), (f16, f16), (bf16, f32), (f32, f32), (i8, i32)],
        unsafe(requires(sums.len() >= 2))
    )]
    pub fn product<T, O>(
        a: &[T],
        b: &[T],
        c: &[O],
        sums: &mut [f64],
        rows: u32,
        first: u32,
        step: u32,
        n: u32,
        k: u32,
        a_row: u32,
        a_k: u32,
        b_col: u32,
        b_k: u32,
    ) {
        let warp: u32 = ctaid.x * 8 + (tid.x >> 5);
        if warp < rows * n {
            let (row, column): (u32, u32) = (first + warp / n * step, warp % n);
            let mut sum: f64 = 0.0;
            let mut at: u32 = laneid;
            let (from_a, from_b): (u64, u64) =
                (a + wide(row) * a_row * size_of::<T>(), b + wide(column) * b_col * size_of::<T>());
            while at < k {
                let (pa, pb): (u64, u64) =
                    (from_a + wide(at) * a_k * size_of::<T>(), from_b + wide(at) * b_k * size_of::<T>());
                let (p, q): (f64, f64) = (element::<T>(pa), element::<T>(pb));
                ptx! { fma.rn.f64 sum, p, q, sum; }
                at += 32;
            }
            sum = warp_sum(sum);
            if laneid == 0 {
                const BYTES: u32 = size_of::<O>();
                let at: u64 = c + (wide(row) * n + column as u64) * BYTES as u64;
                add_squares(sums, element::<O>(at), sum);
            }
        }
    }

    /// An element of 8 bits in global memory.
    fn element_e4m3(at: u64) -> f32 {
        let bits: b16;
        let pair: b32;
        let (first, second): (f16, f16);
        let value: f32;
        ptx! {
            ld.global.u8 bits, [at];
            cvt.rn.f16x2.e4m3x2 pair, bits;
            mov.b32 {first, second}, pair;
            cvt.f32.f16 value, first;
        }
        value
    }

    /// As `product`, for 8-bit operands that are both K-major.
    #[ptx_kernel(block = 256, grid = (rows * n).div_ceil(8), unsafe(requires(sums.len() >= 2)))]
    pub fn product_e4m3(
        a: &[u8],
        b: &[u8],
        c: &[bf16],
        sums: &mut [f64],
        rows: u32,
        first: u32,
        step: u32,
        n: u32,
        k: u32,
    ) {
        let warp: u32 = ctaid.x * 8 + (tid.x >> 5);
        if warp < rows * n {
            let (row, column): (u32, u32) = (first + warp / n * step, warp % n);
            let mut sum: f64 = 0.0;
            let mut at: u32 = laneid;
            let (from_a, from_b): (u64, u64) = (a + wide(row) * k, b + wide(column) * k);
            while at < k {
                let (p, q): (f32, f32) = (element_e4m3(from_a + at as u64), element_e4m3(from_b + at as u64));
                let exact: f32; // 8 bits of mantissa
                ptx! { mul.rn.f32 exact, p, q; }
                sum += exact as f64;
                at += 32;
            }
            sum = warp_sum(sum);
            if laneid == 0 {
                let at: u64 = c + (wide(row) * n + column as u64) * 2;
                add_squares(sums, element::<bf16>(at), sum);
            }
        }
    }
}

/// Layout of the operands of a GEMM: strides along a row and along K, in elements.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// M, N, K.
    pub shape: [usize; 3],
    /// Of A: from row to row, from k to k.
    pub a: [usize; 2],
    /// Of B: from column to column, from k to k.
    pub b: [usize; 2],
}

impl Product {
    /// A is M × K or K × M, B is N × K or K × N.
    pub fn new([m, n, k]: [usize; 3], a_k_major: bool, b_k_major: bool) -> Product {
        let lies = |k_major: bool, lines: usize| if k_major { [k, 1] } else { [1, lines] };
        Product { shape: [m, n, k], a: lies(a_k_major, m), b: lies(b_k_major, n) }
    }
}

/// A type of operands whose products can be checked.
pub trait Factor: ptx_launch::Element {
    /// The type of the product.
    type Result: Value;

    /// Fills a buffer from the normal distribution.
    fn draw(stream: &Stream, buffer: &mut Buffer<Self>, seed: u32) -> Result<()>;

    /// Relative error of some rows of C against A · B in `f64`: all rows if there are few, else 64, evenly spaced.
    fn product_error(
        stream: &Stream,
        product: &Product,
        operands: (&Buffer<Self>, &Buffer<Self>, &Buffer<Self::Result>),
    ) -> Result<f64>;
}

/// The rows that are compared: their number, the first one, and the step to the next one.
fn sample([m, n, k]: [u32; 3]) -> (u32, u32, u32) {
    let rows = if u64::from(m) * u64::from(n) * u64::from(k) < 1 << 32 { m } else { m.min(64) };
    let step = m / rows;
    (rows, m - 1 - (rows - 1) * step, step)
}

/// The kernel for operands and result of these types.
macro_rules! product_error {
    ($t:ty, $o:ty, $stream:ident, $product:ident, $a:expr, $b:expr, $c:expr) => {{
        let shape @ [_, n, k] = $product.shape.map(|extent| extent as u32);
        let ([a_row, a_k], [b_col, b_k]) = ($product.a.map(|d| d as u32), $product.b.map(|d| d as u32));
        let (rows, first, step) = sample(shape);
        let mut sums = $stream.device().zeros(2)?;
        kernels::product::<$t, $o>($stream, $a, $b, $c, &mut sums, rows, first, step, n, k, a_row, a_k, b_col, b_k)?;
        relative(&sums)
    }};
}

macro_rules! factors {
    ($($ty:ident => $result:ident, $fill:path;)*) => {
        $(impl Factor for $ty {
            type Result = $result;

            fn draw(stream: &Stream, buffer: &mut Buffer<Self>, seed: u32) -> Result<()> {
                let n = buffer.len() as u32;
                $fill(stream, buffer, n, seed)
            }

            fn product_error(
                stream: &Stream,
                product: &Product,
                (a, b, c): (&Buffer<Self>, &Buffer<Self>, &Buffer<$result>),
            ) -> Result<f64> {
                product_error!($ty, $result, stream, product, a, b, c)
            }
        })*
    };
}
factors! {
    bf16 => bf16, super::kernels::normal16::<bf16>;
    f16 => f16, super::kernels::normal16::<f16>;
    f32 => f32, super::kernels::normal32::<f32>;
    i8 => i32, super::kernels::normal32::<i8>;
}

/// A type of results of products of bf16.
pub trait Sum: Value {
    /// As [`Factor::product_error`], for parts of buffers.
    fn part_error(
        stream: &Stream,
        product: &Product,
        operands: (View<'_, bf16>, View<'_, bf16>, View<'_, Self>),
    ) -> Result<f64>;
}

macro_rules! sums {
    ($($ty:ident)*) => {
        $(impl Sum for $ty {
            fn part_error(
                stream: &Stream,
                product: &Product,
                (a, b, c): (View<'_, bf16>, View<'_, bf16>, View<'_, $ty>),
            ) -> Result<f64> {
                product_error!(bf16, $ty, stream, product, &a, &b, &c)
            }
        })*
    };
}
sums! { bf16 f32 }

impl Factor for e4m3 {
    type Result = bf16;

    fn draw(stream: &Stream, buffer: &mut Buffer<Self>, seed: u32) -> Result<()> {
        // Pairs: the last element of an odd number stays as it is.
        let n = buffer.len() as u32 & !1;
        super::kernels::normal_e4m3(stream, buffer, n, seed)
    }

    fn product_error(
        stream: &Stream,
        product: &Product,
        (a, b, c): (&Buffer<Self>, &Buffer<Self>, &Buffer<bf16>),
    ) -> Result<f64> {
        let shape @ [_, n, k] = product.shape.map(|extent| extent as u32);
        let (rows, first, step) = sample(shape);
        let mut sums = stream.device().zeros(2)?;
        kernels::product_e4m3(stream, a, b, c, &mut sums, rows, first, step, n, k)?;
        relative(&sums)
    }
}

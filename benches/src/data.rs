//! Inputs, poison and references: small kernels, simple on purpose, so that they can be trusted.
//!
//! Inputs are drawn from a normal distribution, made on the device from a seed; what is multiplied decides how much
//! power the multiplication takes, so that zeros or small integers would flatter everybody.

use ptx_launch::Result;
use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_90")]
mod kernels {
    const MULTIPLIERS: [u32; 2] = [0x85eb_ca6b, 0xc2b2_ae35];

    fn hash(x: u32) -> u32 {
        let mut h: u32 = x;
        for multiplier in MULTIPLIERS {
            h = (h ^ (h >> 16)) * multiplier;
        }
        h ^ (h >> 15)
    }

    /// In (0, 1].
    fn uniform(x: u32) -> f32 {
        let bits: u32 = hash(x) >> 8;
        let value: f32;
        ptx! {
            cvt.rn.f32.u32 value, bits;
            fma.rn.f32 value, value, 0f33800000, 0f33000000;
        }
        value
    }

    /// One value of the normal distribution for each index: √(−2 ln u) · cos 2πv.
    fn normal_at(i: u32, seed: u32) -> f32 {
        let (mut u, mut v): (f32, f32) = (uniform(2 * i ^ seed), uniform((2 * i + 1) ^ seed));
        let value: f32;
        ptx! {
            lg2.approx.f32  u, u;
            mul.rn.f32      u, u, 0fBFB17218;       // -2 ln 2
            sqrt.approx.f32 u, u;
            mul.rn.f32      v, v, 0f40C90FDB;       // 2 pi
            cos.approx.f32  v, v;
            mul.rn.f32      value, u, v;
        }
        value
    }

    #[ptx_kernel(block = 256, grid = n.div_ceil(256).clamp(1, 2048), instances = [bf16, f16], unsafe(requires(x.len() >= n)))]
    pub fn normal16<T>(x: &mut [T], n: u32, seed: u32) {
        let mut i: u32 = ctaid.x * 256 + tid.x;
        while i < n {
            let (value, at): (f32, u64) = (normal_at(i, seed), x + wide(i) * 2);
            let rounded: T;
            ptx! {
                cvt.rn.{T}.f32 rounded, value;
                st.global.b16 [at], rounded;
            }
            i += 2048 * 256;
        }
    }

    /// Floats, or integers of which most are below 100.
    #[ptx_kernel(
        block = 256,
        grid = n.div_ceil(256).clamp(1, 2048),
        instances = [f32, i32, i8],
        unsafe(requires(x.len() >= n))
    )]
    pub fn normal32<T>(x: &mut [T], n: u32, seed: u32) {
        let mut i: u32 = ctaid.x * 256 + tid.x;
        while i < n {
            let (value, at): (f32, u64) = (normal_at(i, seed), x + wide(i) * size_of::<T>());
            if type_name::<T>() == "f32" {
                ptx! { st.global.f32 [at], value; }
            } else {
                let (large, whole): (f32, i32);
                large = value * 32.0;
                ptx! { cvt.rni.s32.f32 whole, large; }
                if size_of::<T>() == 1 {
                    ptx! { st.global.s8 [at], whole; }
                } else {
                    ptx! { st.global.s32 [at], whole; }
                }
            }
            i += 2048 * 256;
        }
    }

    /// 8-bit floats of 4 exponent and 3 mantissa bits, two at a time.
    #[ptx_kernel(block = 256, grid = n.div_ceil(2 * 256).clamp(1, 2048), unsafe(requires(n % 2 == 0, x.len() >= n)))]
    pub fn normal_e4m3(x: &mut [u8], n: u32, seed: u32) {
        let mut i: u32 = (ctaid.x * 256 + tid.x) * 2;
        while i < n {
            let (low, high): (f32, f32) = (normal_at(i, seed), normal_at(i + 1, seed));
            let at: u64 = x + i as u64;
            let pair: b16;
            ptx! {
                cvt.rn.satfinite.e4m3x2.f32 pair, high, low;
                st.global.b16 [at], pair;
            }
            i += 2048 * 256 * 2;
        }
    }

    /// As `product`, for 8-bit operands that are both K-major.
    #[ptx_kernel(block = 256, grid = (rows * n).div_ceil(8), unsafe(requires(sums.len() >= 2, k % 2 == 0)))]
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
            let mut at: u32 = laneid * 2;
            let (from_a, from_b): (u64, u64) = (a + wide(row) * k, b + wide(column) * k);
            while at < k {
                let (pa, pb): (u64, u64) = (from_a + at as u64, from_b + at as u64);
                let (x, y): (b16, b16);
                let (p, q): (b32, b32);
                let (a0, a1, b0, b1): (f16, f16, f16, f16);
                let (u, v, w, z): (f32, f32, f32, f32);
                ptx! {
                    ld.global.b16 x, [pa];
                    ld.global.b16 y, [pb];
                    cvt.rn.f16x2.e4m3x2 p, x;
                    cvt.rn.f16x2.e4m3x2 q, y;
                    mov.b32 {a0, a1}, p;
                    mov.b32 {b0, b1}, q;
                    cvt.f32.f16 u, a0;
                    cvt.f32.f16 v, b0;
                    cvt.f32.f16 w, a1;
                    cvt.f32.f16 z, b1;
                    mul.rn.f32 u, u, v;                 // 8 bits of mantissa: exact
                    mul.rn.f32 w, w, z;
                }
                sum += u as f64;
                sum += w as f64;
                at += 64;
            }
            sum = warp_sum(sum);
            if laneid == 0 {
                let at: u64 = c + (wide(row) * n + column as u64) * 2;
                let value: bf16;
                let is: f32;
                ptx! {
                    ld.global.b16 value, [at];
                    cvt.f32.bf16 is, value;
                }
                add_squares(sums, is as f64, sum);
            }
        }
    }

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

    /// 16 bytes a thread at a time.
    #[ptx_kernel(block = 512, grid = n.div_ceil(4 * 512), instances = [u32, f32], unsafe(requires(n % 4 == 0, from.len() >= n, to.len() >= n)))]
    pub fn copy<T>(from: &[T], to: &mut [T], n: u32) {
        let i: u32 = (ctaid.x * 512 + tid.x) * 4;
        if i < n {
            let (source, target): (u64, u64) = (from + wide(i) * 4, to + wide(i) * 4);
            let words: [u32; 4];
            ptx! {
                ld.global.v4.u32 {words[..]}, [source];
                st.global.v4.u32 [target], {words[..]};
            }
        }
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

    /// Compares with a reference of the same type.
    #[ptx_kernel(block = 256, grid = n.div_ceil(256).clamp(1, 2048), instances = [bf16, f16], unsafe(requires(x.len() >= n, y.len() >= n, sums.len() >= 2)))]
    pub fn compare16<T>(x: &[T], y: &[T], sums: &mut [f64], n: u32) {
        let mut i: u32 = ctaid.x * 256 + tid.x;
        let (mut difference, mut own): (f32, f32) = (0.0, 0.0);
        while i < n {
            let (at, other): (u64, u64) = (x + wide(i) * 2, y + wide(i) * 2);
            let (a, b): (T, T);
            let (p, q): (f32, f32);
            ptx! {
                ld.global.b16 a, [at];
                ld.global.b16 b, [other];
                cvt.f32.{T} p, a;
                cvt.f32.{T} q, b;
                sub.rn.f32 p, p, q;
                fma.rn.f32 difference, p, p, difference;
                fma.rn.f32 own, q, q, own;
            }
            i += 2048 * 256;
        }
        let (d, o): (f64, f64) = (difference as f64, own as f64);
        ptx! {
            red.global.add.f64 [sums], d;
            red.global.add.f64 [sums + 8], o;
        }
    }

    /// Compares 32-bit values with a reference.
    #[ptx_kernel(
        block = 256,
        grid = n.div_ceil(256).clamp(1, 2048),
        instances = [f32, i32],
        unsafe(requires(x.len() >= n, y.len() >= n, sums.len() >= 2))
    )]
    pub fn compare32<T>(x: &[T], y: &[T], sums: &mut [f64], n: u32) {
        let mut i: u32 = ctaid.x * 256 + tid.x;
        let (mut difference, mut own): (f64, f64) = (0.0, 0.0);
        while i < n {
            let (at, other): (u64, u64) = (x + wide(i) * 4, y + wide(i) * 4);
            let (p, q): (T, T);
            ptx! {
                ld.global.b32 p, [at];
                ld.global.b32 q, [other];
            }
            let (mut a, b): (f64, f64) = (p as f64, q as f64);
            a -= b;
            ptx! {
                fma.rn.f64 difference, a, a, difference;
                fma.rn.f64 own, b, b, own;
            }
            i += 2048 * 256;
        }
        ptx! {
            red.global.add.f64 [sums], difference;
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
}

pub use kernels::copy;

/// A type that can be drawn, and compared.
pub trait Value: ptx_launch::Element {
    /// Not a number.
    const POISON: Self;

    /// Fills a buffer from the normal distribution.
    fn fill(stream: &Stream, buffer: &mut Buffer<Self>, seed: u32) -> Result<()>;

    /// Adds Σ(x − y)² and Σy² to `sums`.
    fn compare(stream: &Stream, x: &Buffer<Self>, y: &Buffer<Self>, sums: &mut Buffer<f64>) -> Result<()>;
}

macro_rules! values {
    ($($ty:ty: $fill:path, $compare:path;)*) => {
        $(impl Value for $ty {
            const POISON: $ty = <$ty>::NAN;

            fn fill(stream: &Stream, buffer: &mut Buffer<Self>, seed: u32) -> Result<()> {
                let n = buffer.len() as u32;
                $fill(stream, buffer, n, seed)
            }

            fn compare(stream: &Stream, x: &Buffer<Self>, y: &Buffer<Self>, sums: &mut Buffer<f64>) -> Result<()> {
                $compare(stream, x, y, sums, x.len() as u32)
            }
        })*
    };
}
values! {
    bf16: kernels::normal16::<bf16>, kernels::compare16::<bf16>;
    f16: kernels::normal16::<f16>, kernels::compare16::<f16>;
    f32: kernels::normal32::<f32>, kernels::compare32::<f32>;
}

impl Value for i32 {
    const POISON: i32 = i32::MIN;

    fn fill(stream: &Stream, buffer: &mut Buffer<Self>, seed: u32) -> Result<()> {
        let n = buffer.len() as u32;
        kernels::normal32::<i32>(stream, buffer, n, seed)
    }

    fn compare(stream: &Stream, x: &Buffer<Self>, y: &Buffer<Self>, sums: &mut Buffer<f64>) -> Result<()> {
        kernels::compare32::<i32>(stream, x, y, sums, x.len() as u32)
    }
}

/// A buffer of normally distributed values. Who compares with the CPU downloads it.
pub fn normal<T: Value>(device: &Device, stream: &Stream, len: usize, seed: u32) -> Result<Buffer<T>> {
    let mut buffer = device.zeros(len)?;
    T::fill(stream, &mut buffer, seed)?;
    Ok(buffer)
}

/// Overwrites a buffer with what is not a number.
pub fn poison<T: Value>(stream: &Stream, buffer: &mut Buffer<T>) -> Result<()> {
    stream.fill(buffer, T::POISON)
}

/// ‖x − reference‖ / ‖reference‖ of whole buffers; not a number if `x` has any such value.
pub fn error<T: Value>(stream: &Stream, x: &Buffer<T>, reference: &Buffer<T>) -> Result<f64> {
    let mut sums = stream.device().zeros(2)?;
    T::compare(stream, x, reference, &mut sums)?;
    relative(&sums)
}

fn relative(sums: &Buffer<f64>) -> Result<f64> {
    let sums = sums.download()?;
    Ok((sums[0] / sums[1].max(f64::MIN_POSITIVE)).sqrt())
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

/// Which rows are compared: how many, the first, and from one to the next.
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
    bf16 => bf16, kernels::normal16::<bf16>;
    f16 => f16, kernels::normal16::<f16>;
    f32 => f32, kernels::normal32::<f32>;
    i8 => i32, kernels::normal32::<i8>;
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
        kernels::normal_e4m3(stream, buffer, n, seed)
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

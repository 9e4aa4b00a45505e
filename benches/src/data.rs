//! Inputs, poison and references: small kernels, simple on purpose, so that they can be trusted.
//!
//! Inputs are drawn from a normal distribution, made on the device from a seed; what is multiplied decides how much
//! power the multiplication takes, so that zeros or small integers would flatter everybody.

mod product;

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
}

pub use kernels::copy;
pub use product::{Factor, Product, Sum};

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

/// The larger one of two errors; not a number if one of them is not.
pub fn worse(one: f64, other: f64) -> f64 {
    if one.is_nan() || one > other { one } else { other }
}

fn relative(sums: &Buffer<f64>) -> Result<f64> {
    let sums = sums.download()?;
    Ok((sums[0] / sums[1].max(f64::MIN_POSITIVE)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::worse;

    #[test]
    fn an_error_that_is_no_number_is_the_worst() {
        assert_eq!(worse(1.0, 2.0), 2.0);
        assert_eq!(worse(2.0, 1.0), 2.0);
        assert!(worse(f64::NAN, 1.0).is_nan() && worse(1.0, f64::NAN).is_nan());
    }
}

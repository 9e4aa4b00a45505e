//! Random numbers, layouts and values.

use half::{bf16, f16};
use ptx_kernels::float8::{E4m3, E5m2};
use ptx_launch::KernelParam;

/// A generator of random numbers: xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((self.next() >> 33) as usize) % end
    }

    /// True once in `n` times.
    pub(crate) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Between -1 and 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// An element, and its value.
pub(crate) trait Number: KernelParam + Send + Sync {
    /// Half of the distance from 1 to the next value, the smallest difference of values, and the largest value.
    const ROUNDING: f64;
    const SMALLEST: f64;
    const LARGEST: f64;
    /// The element next to a value.
    fn nearest(value: f64) -> Self;
    fn value(self) -> f64;
    /// Bits that are no result.
    fn poison() -> Self;
    fn is_poison(self) -> bool;
}

macro_rules! numbers {
    ($($ty:ty: $rounding:expr, $smallest:expr, $largest:expr, $nearest:expr, $value:expr, $poison:expr, $bits:expr;)*) => { $(
        impl Number for $ty {
            const ROUNDING: f64 = $rounding;
            const SMALLEST: f64 = $smallest;
            const LARGEST: f64 = $largest;
            fn nearest(value: f64) -> Self {
                $nearest(value)
            }
            fn value(self) -> f64 {
                $value(self)
            }
            fn poison() -> Self {
                $poison
            }
            fn is_poison(self) -> bool {
                $bits(self) == $bits($poison)
            }
        }
    )* };
}
const fn power(exponent: i64) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

// The poisons are NaNs with a mantissa that no computation gives.
numbers! {
    f32: power(-24), power(-149), f32::MAX as f64, |v| v as f32, f64::from, f32::from_bits(0xffc1_2345), f32::to_bits;
    f16: power(-11), power(-24), 65504.0, f16::from_f64, f16::to_f64, f16::from_bits(0xfe35), f16::to_bits;
    bf16: power(-8), power(-133), f32::MAX as f64, bf16::from_f64, bf16::to_f64, bf16::from_bits(0xffd5), bf16::to_bits;
    E4m3: power(-4), power(-9), 448.0, |v| E4m3::from_f32(v as f32), |v: E4m3| f64::from(v.to_f32()), E4m3(0xff), |v: E4m3| v.0;
    E5m2: power(-3), power(-16), 57344.0, |v| E5m2::from_f32(v as f32), |v: E5m2| f64::from(v.to_f32()), E5m2(0xfd), |v: E5m2| v.0;
    i8: 0.0, 1.0, 127.0, |v: f64| (v * 127.0) as i8, f64::from, -128, |v: i8| v;
    i32: 0.0, 1.0, 2147483647.0, |v: f64| v as i32, f64::from, 0x7eca_cafe, |v: i32| v;
}

/// Places of a tensor (batch, rows, columns) in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) shape: [usize; 3],
    pub(crate) strides: [usize; 3],
    pub(crate) offset: usize,
    /// Elements of memory, around and behind the tensor too.
    pub(crate) len: usize,
}

impl Layout {
    /// Any layout; elements share memory only if it is not `written`.
    pub(crate) fn random(random: &mut Random, shape: [usize; 3], written: bool) -> Layout {
        let mut strides = [0; 3];
        let (inner, outer) = if random.once_in(2) { (2, 1) } else { (1, 2) };
        strides[inner] = random.of(&[1, 1, 1, 1, 1, 2, 3]);
        strides[outer] = shape[inner].max(1) * strides[inner] + random.of(&[0, 0, 0, 1, 2, 5, 8]);
        if random.once_in(2) {
            strides[outer] = strides[outer].next_multiple_of(random.of(&[2, 4, 16]));
        }
        strides[0] = shape[outer].max(1) * strides[outer] + random.of(&[0, 0, 1, 16]);
        if random.once_in(2) {
            strides[0] = strides[0].next_multiple_of(16);
        }
        if !written && random.once_in(4) {
            strides[0] = 0;
        }
        let reach: usize = (0..3).map(|at| shape[at].saturating_sub(1) * strides[at]).sum();
        let offset = random.of(&[0, 0, 0, 1, 2, 16]);
        Layout { shape, strides, offset, len: offset + reach + 1 + random.of(&[0, 1, 7]) }
    }

    pub(crate) fn at(&self, place: [usize; 3]) -> usize {
        self.offset + (0..3).map(|at| place[at] * self.strides[at]).sum::<usize>()
    }

    /// The last `R` of its dimensions.
    pub(crate) fn dims<const R: usize>(&self) -> ([usize; R], [usize; R]) {
        (std::array::from_fn(|at| self.shape[3 - R + at]), std::array::from_fn(|at| self.strides[3 - R + at]))
    }
}

/// Values between -1 and 1, of which a few are special. Of subnormal `f32`, `tf32` has fewer bits than the bound allows.
pub(crate) fn values<T: Number>(random: &mut Random, len: usize, special: bool) -> Vec<T> {
    let mut values: Vec<T> = (0..len).map(|_| T::nearest(random.unit())).collect();
    if special && len > 0 && T::ROUNDING > 0.0 {
        for _ in 0..len.div_ceil(40) {
            let value = random.of(&[
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                0.0,
                T::LARGEST.min(6e4),
                T::SMALLEST.max(power(-100)),
            ]);
            values[random.below(len)] = T::nearest(value);
        }
    }
    values
}

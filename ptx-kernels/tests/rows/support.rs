//! Random problems, matrices with guarded surroundings, and comparison with exact values.

use half::{bf16, f16};
use ptx_launch::prelude::*;
use ptx_launch::{Element, Result, TensorMut, TensorRef};
use std::ops::Range;

/// The device that `PTX_DEVICE` names; else the CPU device with its watcher.
pub fn device() -> Device {
    match std::env::var("PTX_DEVICE") {
        Ok(name) => Device::named(&name).unwrap(),
        Err(_) => Device::cpu().watch(true),
    }
}

/// Seeds of the random problems.
fn seeds() -> Range<u64> {
    let number = |name: &str, default| std::env::var(name).map_or(default, |number| number.parse().unwrap());
    let first = number("PTX_ROWS_SEED", 0);
    first..first + number("PTX_ROWS_PROBLEMS", 6)
}

/// An element type of the operations.
pub trait Number: Element + Default + PartialEq {
    const NAME: &'static str;
    /// Half the distance between 1 and the next number.
    const UNIT: f64;
    /// The largest finite number.
    const MOST: f64;
    /// Content of memory that an operation must not change.
    const GUARD: Self;
    fn rounded(x: f64) -> Self;
    fn exact(self) -> f64;
}

macro_rules! numbers {
    ($($ty:ty, $unit:expr, $most:expr, $guard:expr, $rounded:expr, $exact:expr;)*) => { $(
        impl Number for $ty {
            const NAME: &'static str = stringify!($ty);
            const UNIT: f64 = $unit;
            const MOST: f64 = $most;
            const GUARD: $ty = $guard;
            fn rounded(x: f64) -> $ty {
                ($rounded)(x)
            }
            fn exact(self) -> f64 {
                ($exact)(self)
            }
        }
    )* };
}
numbers! {
    f32, 5.96e-8, f32::MAX as f64, -77.25, |x| x as f32, f64::from;
    f16, 4.89e-4, 65504.0, f16::from_bits(0xd4d4), f16::from_f64, f16::to_f64;
    bf16, 3.91e-3, 3.3895e38, bf16::from_bits(0xc29b), bf16::from_f64, bf16::to_f64;
}

/// Random numbers by a linear congruential generator.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 32)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Between -1 and 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// Roughly normal, with a standard deviation of about 1.
    pub fn normal(&mut self) -> f64 {
        (0..4).map(|_| self.unit()).sum::<f64>() * 0.87
    }

    /// Rows and columns: empty, single, prime and aligned ones, and some wider than a block.
    pub fn shape(&mut self) -> [usize; 2] {
        let rows = self.one_of(&[0, 1, 1, 2, 3, 3, 5, 7]);
        let columns = match self.below(4) {
            0 => self.one_of(&[0, 1, 2, 7, 8, 31, 33, 127]),
            1 => 8 * (1 + self.below(40)),
            2 => 1 + self.below(600),
            _ => self.one_of(&[1024, 1031, 2048, 2056, 4096, 8192]),
        };
        [rows, columns]
    }
}

/// A matrix in memory that is larger: before it, behind it and between its rows lies what nothing may write.
pub struct Guarded<T> {
    pub buffer: Buffer<T>,
    pub shape: [usize; 2],
    start: usize,
    stride: usize,
}

impl<T: Number> Guarded<T> {
    /// A matrix of these values, at a random place, with a random stride.
    pub fn new(device: &Device, random: &mut Random, shape: [usize; 2], values: &[f64]) -> Guarded<T> {
        let [rows, columns] = shape;
        let start = random.one_of(&[0, 8, 8, 16, 1, 3]);
        let gap = random.one_of(&[0, 0, 0, 8, 16, 1, 5]);
        let stride = columns + gap;
        let mut data = vec![T::GUARD; start + rows * stride + 9];
        for row in 0..rows {
            for column in 0..columns {
                data[start + row * stride + column] = T::rounded(values[row * columns + column]);
            }
        }
        Guarded { buffer: device.upload(&data).unwrap(), shape, start, stride }
    }

    /// A matrix of guards, to be written.
    pub fn empty(device: &Device, random: &mut Random, shape: [usize; 2]) -> Guarded<T> {
        Guarded::new(device, random, shape, &vec![T::GUARD.exact(); shape[0] * shape[1]])
    }

    pub fn read(&self) -> TensorRef<'_, T, 2> {
        TensorRef::strided(self.buffer.slice(self.start..).unwrap(), self.shape, [self.stride, 1]).unwrap()
    }

    pub fn write(&mut self) -> TensorMut<'_, T, 2> {
        let memory = self.buffer.slice_mut(self.start..).unwrap();
        TensorMut::strided(memory, self.shape, [self.stride, 1]).unwrap()
    }

    /// A matrix of one row as a vector.
    pub fn line(&mut self) -> TensorMut<'_, T, 1> {
        let memory = self.buffer.slice_mut(self.start..).unwrap();
        TensorMut::strided(memory, [self.shape[1]], [1]).unwrap()
    }

    /// The values; every element around them still is a guard.
    pub fn values(&self) -> Vec<f64> {
        let data = self.buffer.download().unwrap();
        let [rows, columns] = self.shape;
        let inside = |at: usize| {
            let at = at.checked_sub(self.start)?;
            (at / self.stride.max(1) < rows && at % self.stride.max(1) < columns).then_some(())
        };
        for (at, value) in data.iter().enumerate() {
            assert!(inside(at).is_some() || *value == T::GUARD, "element {at} outside of {:?} was written", self.shape);
        }
        let row = |row: usize| data[self.start + row * self.stride..][..columns].iter().map(|value| value.exact());
        (0..rows).flat_map(row).collect()
    }
}

/// Values as the type holds them.
pub fn rounded<T: Number>(count: usize, mut value: impl FnMut(usize) -> f64) -> Vec<f64> {
    (0..count).map(|at| T::rounded(value(at)).exact()).collect()
}

/// Compares with exact values: an error of `relative` of the exact value and `absolute` before rounding to `T`. Where the exact
/// value is NaN or infinite, the found one is the same.
#[track_caller]
pub fn compare<T: Number>(what: &str, found: &[f64], exact: &[f64], relative: f64, absolute: f64) {
    assert_eq!(found.len(), exact.len(), "{what}");
    for (at, (found, exact)) in found.iter().zip(exact).enumerate() {
        let rounded = T::rounded(*exact).exact();
        let allowed = exact.abs() * (relative + T::UNIT)
            + absolute
            + T::rounded(1e-30).exact().max(6e-8 * f64::from(T::UNIT == 4.89e-4));
        let good = match (found.is_nan(), rounded.is_finite()) {
            (true, _) => exact.is_nan(),
            (false, true) => (found - exact).abs() <= allowed || exact.abs() > 0.999 * T::MOST && found.is_infinite(),
            (false, false) => !exact.is_nan() && (found == &rounded || exact.abs() < 1.001 * T::MOST),
        };
        assert!(good, "{what} {}: element {at} is {found:e} and not {exact:e}", T::NAME);
    }
}

/// The same call for each element type.
#[macro_export]
macro_rules! for_each_type {
    ($function:ident($($arg:expr),*)) => {{
        $function::<f32>($($arg),*);
        $function::<half::f16>($($arg),*);
        $function::<half::bf16>($($arg),*);
    }};
}

/// The derivative of a function by central differences.
pub fn difference(f: impl Fn(f64) -> f64, x: f64) -> f64 {
    let h = 1e-5 * x.abs().max(1.0);
    (f(x + h) - f(x - h)) / (2.0 * h)
}

/// Runs `check` on so many random problems.
pub fn each_problem(mut check: impl FnMut(&Device, &mut Random) -> Result<()>) {
    let device = device();
    for seed in seeds() {
        println!("PTX_ROWS_SEED={seed}");
        let found = check(&device, &mut Random::new(seed));
        assert!(found.is_ok(), "problem {seed}: {found:?}");
    }
}

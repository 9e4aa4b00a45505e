//! The numbers of `tcgen05.mma`: what the codes of each kind mean, and how products are added.
//!
//! An element of D is the accumulator plus its products one after the other in order of k, each sum rounded to nearest in
//! `f32`. Products of these types are exact in `f32`, as far as its range goes; block-scaled ones are exact in `f64`, and
//! added there. The manual leaves order and rounding open, and there was no chip to compare with. Integers are exact, and
//! wrap or saturate once.

use super::idesc::Factor;
use crate::soft::{self, Round};
use std::sync::OnceLock;

/// Reading, addition and writing of numbers of a kind.
pub(super) trait Arithmetic {
    /// An element of A or B.
    type Factor: Copy + Default;
    /// An element of D while products are added.
    type Sum: Copy + Default;
    /// Meaning of the codes of a matrix.
    fn factors(&self, factor: &Factor) -> Box<dyn Fn(u32) -> Self::Factor>;
    /// A factor times its scale factor.
    fn scale(&self, factor: Self::Factor, scale: f64) -> Self::Factor;
    /// Value of a word of tensor memory.
    fn read(&self, word: u32) -> Self::Sum;
    /// A sum and a product.
    fn add(&self, sum: Self::Sum, a: Self::Factor, b: Self::Factor) -> Self::Sum;
    /// A sum as a word.
    fn write(&self, sum: Self::Sum) -> u32;
}

/// The number that a code is, as `f32`, which holds every number of these types.
fn single(ty: &'static str) -> fn(&'static [f32], u32) -> f32 {
    match ty {
        // The low 13 bits do not count.
        "tf32" => |_, code| f32::from_bits(code & !0x1fff),
        _ => |table, code| table.get(code as usize).copied().unwrap_or(f32::NAN),
    }
}

/// The numbers of a type of at most 16 bits, by their codes.
fn table(ty: &'static str) -> &'static [f32] {
    const NAMES: [&str; 7] = ["f16", "bf16", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1"];
    static TABLES: [OnceLock<Vec<f32>>; 7] = [const { OnceLock::new() }; 7];
    let found = NAMES.iter().position(|name| *name == ty).zip(soft::format(ty));
    let Some((at, format)) = found else { return &[] };
    let number =
        |code| f32::from_bits(soft::pack(soft::unpack(code, format), &soft::F32, Round::Nearest, false) as u32);
    TABLES[at].get_or_init(|| (0..1 << format.bits).map(number).collect())
}

fn numbers(factor: &Factor) -> impl Fn(u32) -> f32 + use<> {
    let (table, number, sign) = (table(factor.ty), single(factor.ty), if factor.negate { -1.0 } else { 1.0 });
    move |code| sign * number(table, code)
}

/// `f16`, `bf16`, `tf32`, and 8 bits and fewer, without scale factors.
pub(super) struct Singles {
    /// D is `f16`.
    pub half: bool,
    /// Factor of the accumulator.
    pub shrink: f32,
}

impl Arithmetic for Singles {
    type Factor = f32;
    type Sum = f32;

    fn factors(&self, factor: &Factor) -> Box<dyn Fn(u32) -> f32> {
        Box::new(numbers(factor))
    }

    fn scale(&self, factor: f32, _: f64) -> f32 {
        factor
    }

    fn read(&self, word: u32) -> f32 {
        let value = if self.half { table("f16")[word as usize & 0xffff] } else { f32::from_bits(word) };
        self.shrink * value
    }

    fn add(&self, sum: f32, a: f32, b: f32) -> f32 {
        sum + a * b
    }

    fn write(&self, sum: f32) -> u32 {
        match (sum.is_nan(), self.half) {
            (true, false) => 0x7fff_ffff,
            (false, false) => sum.to_bits(),
            (_, true) => {
                let sum = soft::unpack(sum.to_bits().into(), &soft::F32);
                soft::pack(sum, &soft::F16, Round::Nearest, false) as u32
            }
        }
    }
}

/// With scale factors: a factor times its scale needs the range of `f64`.
pub(super) struct Scaled;

impl Arithmetic for Scaled {
    type Factor = f64;
    type Sum = f32;

    fn factors(&self, factor: &Factor) -> Box<dyn Fn(u32) -> f64> {
        let number = numbers(factor);
        Box::new(move |code| number(code).into())
    }

    fn scale(&self, factor: f64, scale: f64) -> f64 {
        factor * scale
    }

    fn read(&self, word: u32) -> f32 {
        f32::from_bits(word)
    }

    fn add(&self, sum: f32, a: f64, b: f64) -> f32 {
        (f64::from(sum) + a * b) as f32
    }

    fn write(&self, sum: f32) -> u32 {
        if sum.is_nan() { 0x7fff_ffff } else { sum.to_bits() }
    }
}

/// 8-bit integers.
pub(super) struct Integers {
    pub saturate: bool,
}

impl Arithmetic for Integers {
    type Factor = i32;
    type Sum = i64;

    fn factors(&self, factor: &Factor) -> Box<dyn Fn(u32) -> i32> {
        if factor.ty == "s8" { Box::new(|code| i32::from(code as u8 as i8)) } else { Box::new(|code| code as i32) }
    }

    fn scale(&self, factor: i32, _: f64) -> i32 {
        factor
    }

    fn read(&self, word: u32) -> i64 {
        i64::from(word as i32)
    }

    fn add(&self, sum: i64, a: i32, b: i32) -> i64 {
        sum + i64::from(a * b)
    }

    fn write(&self, sum: i64) -> u32 {
        let sum = if self.saturate { sum.clamp(i32::MIN.into(), i32::MAX.into()) } else { sum };
        sum as u32
    }
}

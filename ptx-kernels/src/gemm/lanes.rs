//! Four numbers at once, for the cost model: the compiler makes vector instructions of operations on all of them.

use std::ops::{Add, Div, Mul};

/// The numbers of a vector.
pub(super) const LANES: usize = 4;

/// Four numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(16))]
pub(super) struct Lanes(pub(super) [f32; LANES]);

/// Less than the least distance of a quotient here from the integer below it, if it is none: extents of tiles and counts of SMs are less
/// than half of its reciprocal.
const EDGE: f32 = 1.0 / 2048.0;

/// The least integer that is not less than a quotient, of quotients below 2¹¹; above, the rounding of quotients makes it one more or less.
#[inline(always)]
pub(super) fn ceil(quotient: f32) -> f32 {
    const LARGE: f32 = (1u32 << 23) as f32 * 1.5;
    quotient + (0.5 - EDGE) + LARGE - LARGE
}

/// The integer that is not above a positive quotient, with the same exceptions.
#[inline(always)]
fn floor(quotient: f32) -> f32 {
    ceil(quotient + (2.0 * EDGE - 1.0))
}

/// The larger one of two numbers, and the smaller one: one instruction each, which those of `f32` are not.
#[inline(always)]
pub(super) fn larger(one: f32, other: f32) -> f32 {
    if one > other { one } else { other }
}

#[inline(always)]
pub(super) fn smaller(one: f32, other: f32) -> f32 {
    if one < other { one } else { other }
}

impl Lanes {
    /// A number in every lane.
    #[inline(always)]
    pub(super) const fn all(number: f32) -> Lanes {
        Lanes([number; LANES])
    }

    #[inline(always)]
    fn each(mut self, function: impl Fn(f32) -> f32) -> Lanes {
        // `map` of an array stays a call for each element.
        for number in &mut self.0 {
            *number = function(*number);
        }
        self
    }

    #[inline(always)]
    fn both(mut self, other: Lanes, function: impl Fn(f32, f32) -> f32) -> Lanes {
        for (number, other) in self.0.iter_mut().zip(other.0) {
            *number = function(*number, other);
        }
        self
    }

    #[inline(always)]
    pub(super) fn ceil(self) -> Lanes {
        self.each(ceil)
    }

    #[inline(always)]
    pub(super) fn floor(self) -> Lanes {
        self.each(floor)
    }

    #[inline(always)]
    pub(super) fn sqrt(self) -> Lanes {
        self.each(f32::sqrt)
    }

    #[inline(always)]
    pub(super) fn larger(self, other: Lanes) -> Lanes {
        self.both(other, larger)
    }

    #[inline(always)]
    pub(super) fn smaller(self, other: Lanes) -> Lanes {
        self.both(other, smaller)
    }

    /// Infinity where a number is larger than the other one, zero elsewhere.
    #[inline(always)]
    pub(super) fn excess(self, most: Lanes) -> Lanes {
        self.both(most, |number, most| if number > most { f32::INFINITY } else { 0.0 })
    }

    /// The numbers where `count` is more than one, zero elsewhere.
    #[inline(always)]
    pub(super) fn if_several(self, count: Lanes) -> Lanes {
        self.both(count, |number, count| if count > 1.0 { number } else { 0.0 })
    }
}

/// The least of the numbers of some vectors. A minimum for each lane: no comparison waits for the one before.
#[inline(always)]
pub(super) fn least_of(vectors: &[Lanes]) -> f32 {
    let mut minima = Lanes::all(f32::INFINITY);
    for vector in vectors {
        minima = vector.smaller(minima);
    }
    let [a, b, c, d] = minima.0;
    smaller(smaller(a, b), smaller(c, d))
}

/// The vector and the lane of the first number that is this one.
#[inline(always)]
pub(super) fn place_of(vectors: &[Lanes], number: f32) -> (usize, usize) {
    let is_here = |at: &usize| vectors[at / LANES].0[at % LANES] == number;
    let at = (0..vectors.len() * LANES).find(is_here).unwrap_or(0);
    (at / LANES, at % LANES)
}

macro_rules! operators {
    ($($operation:ident $name:ident $symbol:tt;)*) => { $(
        impl $operation for Lanes {
            type Output = Lanes;
            #[inline(always)]
            fn $name(self, other: Lanes) -> Lanes {
                self.both(other, |one, other| one $symbol other)
            }
        }

        impl $operation<f32> for Lanes {
            type Output = Lanes;
            #[inline(always)]
            fn $name(self, other: f32) -> Lanes {
                self.each(|one| one $symbol other)
            }
        }
    )* };
}
operators! {
    Add add +;
    Mul mul *;
    Div div /;
}

//! Real numbers on the host.

use crate::param::KernelParam;
use ptx_interp::field::{Field, Function, Number};
use std::iter::Sum;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A real number of [`Reals`](crate::Reals), which stands for any: sums, products and quotients of it are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Real {
    field: Field,
    number: Number,
}

impl Real {
    pub(super) fn new(field: Field, number: Number) -> Real {
        Real { field, number }
    }

    pub(super) fn number(self) -> Number {
        self.number
    }

    fn apply(self, function: Function) -> Real {
        Real { number: self.field.apply(function, self.number), ..self }
    }

    /// Its square root, as `sqrt` and `rsqrt` of a kernel have it.
    #[must_use]
    pub fn sqrt(self) -> Real {
        self.apply(Function::Sqrt)
    }

    /// Two to its power: `ex2`.
    #[must_use]
    pub fn exp2(self) -> Real {
        self.apply(Function::Exp2)
    }

    /// Its logarithm to base 2: `lg2`.
    #[must_use]
    pub fn log2(self) -> Real {
        self.apply(Function::Log2)
    }

    /// Its sine.
    #[must_use]
    pub fn sin(self) -> Real {
        self.apply(Function::Sin)
    }

    /// Its cosine.
    #[must_use]
    pub fn cos(self) -> Real {
        self.apply(Function::Cos)
    }

    /// Its hyperbolic tangent.
    #[must_use]
    pub fn tanh(self) -> Real {
        self.apply(Function::Tanh)
    }
}

macro_rules! operators {
    ($($Trait:ident $name:ident),*) => { $(
        impl $Trait for Real {
            type Output = Real;

            fn $name(self, other: Real) -> Real {
                Real { number: self.field.$name(self.number, other.number), ..self }
            }
        }
    )* };
}
operators! { Add add, Sub sub, Mul mul, Div div }

impl Neg for Real {
    type Output = Real;

    fn neg(self) -> Real {
        Real { number: self.field.sub(self.field.integer(0), self.number), ..self }
    }
}

/// The sum of at least one number.
impl Sum for Real {
    #[allow(clippy::expect_used, reason = "the sum of no numbers has no field")]
    fn sum<I: Iterator<Item = Real>>(numbers: I) -> Real {
        numbers.reduce(Add::add).expect("a sum of at least one number")
    }
}

/// A float type of kernels: `f32`, `f64`, and with the feature `half` `f16` and `bf16`.
pub trait RealElement: KernelParam {
    #[doc(hidden)]
    const BITS: u32;
    #[doc(hidden)]
    fn from_code(code: u64) -> Self;
    #[doc(hidden)]
    fn code(self) -> u64;
}

macro_rules! elements {
    ($($ty:ty, $bits:ty);*) => { $(
        impl RealElement for $ty {
            const BITS: u32 = <$bits>::BITS;

            fn from_code(code: u64) -> $ty {
                <$ty>::from_bits(code as $bits)
            }

            fn code(self) -> u64 {
                self.to_bits().into()
            }
        }
    )* };
}
elements! { f32, u32; f64, u64 }
#[cfg(feature = "half")]
elements! { half::f16, u16; half::bf16, u16 }

//! Integers of host expressions: `safe(x.len() >= n * m)`, `grid = n.div_ceil(256)`.
//!
//! In these expressions every integer of the kernel's signature is an [`Int`], whatever its Rust type, so that `usize`
//! lengths compare with `u32` counts, and nothing wraps: what does not fit saturates. Nothing here knows of kernels.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Div, Mul, Neg, Rem, Shl, Shr, Sub};

/// A whole number in a host expression. Arithmetic saturates at the bounds of `i128`; a division by zero gives zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Int(pub(crate) i128);

/// The Rust integers that may stand in a host expression.
#[diagnostic::on_unimplemented(message = "`{Self}` is not an integer", label = "expected an integer of any size")]
pub trait ToInt: Copy {
    /// The same value.
    fn to_int(self) -> Int;
}

/// `value` as an [`Int`].
#[inline]
pub fn int(value: impl ToInt) -> Int {
    value.to_int()
}

macro_rules! integers {
    ($($ty:ty)*) => { $(
        impl ToInt for $ty {
            #[inline]
            fn to_int(self) -> Int {
                Int(self as i128)
            }
        }
        impl PartialEq<Int> for $ty {
            #[inline]
            fn eq(&self, other: &Int) -> bool {
                self.to_int() == *other
            }
        }
        impl PartialOrd<Int> for $ty {
            #[inline]
            fn partial_cmp(&self, other: &Int) -> Option<Ordering> {
                self.to_int().partial_cmp(other)
            }
        }
        impl PartialEq<$ty> for Int {
            #[inline]
            fn eq(&self, other: &$ty) -> bool {
                *self == other.to_int()
            }
        }
        impl PartialOrd<$ty> for Int {
            #[inline]
            fn partial_cmp(&self, other: &$ty) -> Option<Ordering> {
                self.partial_cmp(&other.to_int())
            }
        }
    )* };
}
integers! { u8 u16 u32 u64 usize i8 i16 i32 i64 isize }

impl ToInt for Int {
    #[inline]
    fn to_int(self) -> Int {
        self
    }
}

macro_rules! operators {
    ($($op:ident $method:ident $($left:ty)*;)*) => { $(
        impl<T: ToInt> $op<T> for Int {
            type Output = Int;
            #[inline]
            fn $method(self, other: T) -> Int {
                Int::$method(self, other.to_int())
            }
        }
        operators! { @left $op $method u8 u16 u32 u64 usize i8 i16 i32 i64 isize }
    )* };
    (@left $op:ident $method:ident $($left:ty)*) => { $(
        impl $op<Int> for $left {
            type Output = Int;
            #[inline]
            fn $method(self, other: Int) -> Int {
                Int::$method(self.to_int(), other)
            }
        }
    )* };
}
operators! { Add add; Sub sub; Mul mul; Div div; Rem rem; Shl shl; Shr shr; }

impl Neg for Int {
    type Output = Int;
    #[inline]
    fn neg(self) -> Int {
        Int(self.0.saturating_neg())
    }
}

/// The arithmetic behind the operators, and the methods of integers that host expressions use.
#[allow(clippy::should_implement_trait, reason = "the operator traits are implemented, through these")]
impl Int {
    #[inline]
    fn add(self, other: Int) -> Int {
        Int(self.0.saturating_add(other.0))
    }

    #[inline]
    fn sub(self, other: Int) -> Int {
        Int(self.0.saturating_sub(other.0))
    }

    #[inline]
    fn mul(self, other: Int) -> Int {
        Int(self.0.saturating_mul(other.0))
    }

    /// The quotient; in 64 bits where both fit, which is ten times faster.
    #[inline]
    fn div(self, other: Int) -> Int {
        match (u64::try_from(self.0), u64::try_from(other.0)) {
            (Ok(a), Ok(b)) => Int(a.checked_div(b).unwrap_or(0).into()),
            _ => Int(self.0.checked_div(other.0).unwrap_or(0)),
        }
    }

    #[inline]
    fn rem(self, other: Int) -> Int {
        match (u64::try_from(self.0), u64::try_from(other.0)) {
            (Ok(a), Ok(b)) => Int(a.checked_rem(b).unwrap_or(0).into()),
            _ => Int(self.0.checked_rem(other.0).unwrap_or(0)),
        }
    }

    #[inline]
    fn shl(self, other: Int) -> Int {
        match u32::try_from(other.0) {
            Ok(n) if n < 127 => self.mul(Int(1 << n)),
            _ => Int(if self.0 == 0 { 0 } else { i128::MAX }),
        }
    }

    #[inline]
    fn shr(self, other: Int) -> Int {
        Int(self.0 >> u32::try_from(other.0).unwrap_or(127).min(127))
    }

    /// The quotient, rounded up.
    #[inline]
    pub fn div_ceil(self, by: impl ToInt) -> Int {
        let by = by.to_int();
        let quotient = self.div(by);
        let exact = quotient.mul(by) == self || (self.0 < 0) != (by.0 < 0);
        if exact { quotient } else { quotient.add(Int(1)) }
    }

    /// The smaller one.
    #[inline]
    pub fn min(self, other: impl ToInt) -> Int {
        Int(self.0.min(other.to_int().0))
    }

    /// The larger one.
    #[inline]
    pub fn max(self, other: impl ToInt) -> Int {
        Int(self.0.max(other.to_int().0))
    }

    /// Whether `by` divides it.
    #[inline]
    pub fn is_multiple_of(self, by: impl ToInt) -> bool {
        let by = by.to_int();
        if by.0 == 0 { self.0 == 0 } else { self.rem(by).0 == 0 }
    }

    /// The next multiple of `of` that is not less.
    #[inline]
    pub fn next_multiple_of(self, of: impl ToInt) -> Int {
        let of = of.to_int();
        self.div_ceil(of).mul(of)
    }

    /// Whether it is 1, 2, 4, 8 …
    #[inline]
    pub fn is_power_of_two(self) -> bool {
        self.0 > 0 && self.0.count_ones() == 1
    }

    /// `self` multiplied by itself, `exponent` factors.
    pub fn pow(self, exponent: impl ToInt) -> Int {
        Int(self.0.saturating_pow(u32::try_from(exponent.to_int().0).unwrap_or(0)))
    }
}

impl fmt::Display for Int {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixed_types_compare_and_compute() {
        let (n, len) = (int(1000_u32), int(1 << 20_usize));
        assert!(len >= n * 4 && n < 4000_u64 && 7 < n);
        assert_eq!(n.div_ceil(256), 4);
        assert_eq!(int(1024).div_ceil(256), 4);
        assert_eq!(2 * n + 1, 2001);
        assert_eq!(n / 0, 0);
        assert_eq!(int(0).div_ceil(256), 0);
    }

    #[test]
    fn nothing_wraps() {
        let huge = int(u64::MAX);
        assert_eq!(huge * huge, Int(i128::MAX));
        assert!(int(10_usize) < huge * 4);
        assert_eq!(int(3_u32) - 5_u32, -2);
        assert_eq!(int(1) << 200, Int(i128::MAX));
    }
}

//! Integers of host expressions: `requires(x.len() >= n * m)`, `grid = n.div_ceil(256)`.
//!
//! In these expressions every integer of the kernel's signature is an [`Int`], whatever its Rust type, so that `usize`
//! lengths compare with `u32` counts, and nothing wraps: a launch whose expression has no value returns an error. Nothing here
//! depends on kernels.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Neg;

/// A whole number in a host expression.
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

/// The arithmetic of host expressions. A result that does not exist (a division by zero) or does not fit is `None`, and the launch
/// returns an error; so [`Int`] has no operators of its own.
pub trait Arithmetic<R> {
    /// The type of the result.
    type Output;
    /// `self + other`
    fn add(self, other: R) -> Option<Self::Output>;
    /// `self - other`
    fn sub(self, other: R) -> Option<Self::Output>;
    /// `self * other`
    fn mul(self, other: R) -> Option<Self::Output>;
    /// `self / other`
    fn div(self, other: R) -> Option<Self::Output>;
    /// `self % other`
    fn rem(self, other: R) -> Option<Self::Output>;
}

/// The same for what only integers have.
pub trait IntegerArithmetic<R> {
    /// The type of the result.
    type Output;
    /// `self << other`
    fn shl(self, other: R) -> Option<Self::Output>;
    /// `self >> other`
    fn shr(self, other: R) -> Option<Self::Output>;
    /// The quotient, rounded up.
    fn div_ceil(self, other: R) -> Option<Self::Output>;
    /// The smallest multiple of `other` that is not less.
    fn next_multiple_of(self, other: R) -> Option<Self::Output>;
    /// `other` factors `self`.
    fn pow(self, other: R) -> Option<Self::Output>;
}

impl<T: ToInt> Arithmetic<T> for Int {
    type Output = Int;
    #[inline]
    fn add(self, other: T) -> Option<Int> {
        self.0.checked_add(other.to_int().0).map(Int)
    }
    #[inline]
    fn sub(self, other: T) -> Option<Int> {
        self.0.checked_sub(other.to_int().0).map(Int)
    }
    #[inline]
    fn mul(self, other: T) -> Option<Int> {
        self.0.checked_mul(other.to_int().0).map(Int)
    }
    #[inline]
    fn div(self, other: T) -> Option<Int> {
        // In 64 bits where both fit, which is ten times faster.
        let by = other.to_int().0;
        match (u64::try_from(self.0), u64::try_from(by)) {
            (Ok(a), Ok(b)) => a.checked_div(b).map(|quotient| Int(quotient.into())),
            _ => self.0.checked_div(by).map(Int),
        }
    }
    #[inline]
    fn rem(self, other: T) -> Option<Int> {
        let by = other.to_int().0;
        match (u64::try_from(self.0), u64::try_from(by)) {
            (Ok(a), Ok(b)) => a.checked_rem(b).map(|rest| Int(rest.into())),
            _ => self.0.checked_rem(by).map(Int),
        }
    }
}

impl<T: ToInt> IntegerArithmetic<T> for Int {
    type Output = Int;
    #[inline]
    fn shl(self, other: T) -> Option<Int> {
        match u32::try_from(other.to_int().0) {
            Ok(bits) if bits < 127 => self.0.checked_mul(1 << bits).map(Int),
            Ok(_) if self.0 == 0 => Some(self),
            _ => None,
        }
    }
    #[inline]
    fn shr(self, other: T) -> Option<Int> {
        u32::try_from(other.to_int().0).ok().map(|bits| Int(self.0 >> bits.min(127)))
    }
    #[inline]
    fn div_ceil(self, other: T) -> Option<Int> {
        let by = other.to_int();
        let (quotient, rest) = (self.div(by)?, self.rem(by)?);
        let up = rest.0 != 0 && (self.0 < 0) == (by.0 < 0);
        quotient.add(Int(up.into()))
    }
    #[inline]
    fn next_multiple_of(self, other: T) -> Option<Int> {
        let of = other.to_int();
        IntegerArithmetic::div_ceil(self, of)?.mul(of)
    }
    fn pow(self, other: T) -> Option<Int> {
        self.0.checked_pow(u32::try_from(other.to_int().0).ok()?).map(Int)
    }
}

/// Plain integers: with an [`Int`] they are one, and among themselves they stay what they are.
macro_rules! plain_integers {
    ($($ty:ident)*) => { $(
        impl Arithmetic<Int> for $ty {
            type Output = Int;
            plain_integers! { @with_int Arithmetic add sub mul div rem }
        }
        impl IntegerArithmetic<Int> for $ty {
            type Output = Int;
            plain_integers! { @with_int IntegerArithmetic shl shr div_ceil next_multiple_of pow }
        }
        impl Arithmetic<$ty> for $ty {
            type Output = $ty;
            plain_integers! { @alone $ty Arithmetic add sub mul div rem }
        }
        impl IntegerArithmetic<$ty> for $ty {
            type Output = $ty;
            plain_integers! { @alone $ty IntegerArithmetic shl shr div_ceil next_multiple_of pow }
        }
    )* };
    (@with_int $of:ident $($method:ident)*) => { $(
        #[inline]
        fn $method(self, other: Int) -> Option<Int> {
            $of::$method(self.to_int(), other)
        }
    )* };
    (@alone $ty:ident $of:ident $($method:ident)*) => { $(
        #[inline]
        fn $method(self, other: $ty) -> Option<$ty> {
            $ty::try_from($of::$method(self.to_int(), other)?.0).ok()
        }
    )* };
}
plain_integers! { u8 u16 u32 u64 usize i8 i16 i32 i64 isize }

macro_rules! floats {
    ($($ty:ident)*) => { $(
        impl Arithmetic<$ty> for $ty {
            type Output = $ty;
            floats! { @each $ty add + sub - mul * div / rem % }
        }
    )* };
    (@each $ty:ident $($method:ident $op:tt)*) => { $(
        #[inline]
        fn $method(self, other: $ty) -> Option<$ty> {
            Some(self $op other)
        }
    )* };
}
floats! { f32 f64 }

impl Neg for Int {
    type Output = Int;
    #[inline]
    fn neg(self) -> Int {
        Int(self.0.saturating_neg())
    }
}

/// The methods of integers that always have a result.
impl Int {
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

    /// Returns true if `by` divides it.
    #[inline]
    pub fn is_multiple_of(self, by: impl ToInt) -> bool {
        self.rem(by).map_or(self.0 == 0, |rest| rest.0 == 0)
    }

    /// Returns true if it is 1, 2, 4, 8 …
    #[inline]
    pub fn is_power_of_two(self) -> bool {
        self.0 > 0 && self.0.count_ones() == 1
    }
}

impl fmt::Display for Int {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn mixed_types_compare_and_compute() {
        let (n, len) = (int(1000_u32), int(1 << 20_usize));
        assert!(len >= n.mul(4).unwrap() && n < 4000_u64 && 7 < n);
        assert_eq!(IntegerArithmetic::div_ceil(n, 256), Some(Int(4)));
        assert_eq!(IntegerArithmetic::div_ceil(int(1024), 256), Some(Int(4)));
        assert_eq!(IntegerArithmetic::div_ceil(int(0), 256), Some(Int(0)));
        assert_eq!([7, -7].map(|n| IntegerArithmetic::div_ceil(int(n), 2).unwrap().0), [4, -3]);
        assert_eq!(2_u32.mul(n).and_then(|n| n.add(1)), Some(Int(2001)));
        assert_eq!((7_usize.mul(3), 7_usize.sub(8), 0.5_f32.div(2.0)), (Some(21), None, Some(0.25)));
    }

    #[test]
    fn what_does_not_exist_has_no_value() {
        let (n, zero) = (int(1000_u32), int(0_u32));
        assert_eq!([n.div(zero), n.rem(zero), n.div(0), zero.rem(0)], [None; 4]);
        assert_eq!([IntegerArithmetic::div_ceil(n, 0), IntegerArithmetic::next_multiple_of(n, zero)], [None; 2]);
        assert!(zero.is_multiple_of(0) && !n.is_multiple_of(0));
        assert_eq!([n.shl(-1), n.shr(-1), n.shl(200), n.pow(-1), n.pow(1_u64 << 40)], [None; 5]);
    }

    #[test]
    fn nothing_wraps() {
        let huge = int(u64::MAX);
        assert_eq!([huge.mul(huge), Int(i128::MAX).add(1), Int(i128::MIN).sub(1)], [None; 3]);
        assert!(int(10_usize) < huge.mul(4).unwrap());
        assert_eq!(int(3_u32).sub(5_u32), Some(Int(-2)));
        assert_eq!(int(0).shl(200), Some(Int(0)));
    }
}

//! 8-bit floats as elements of buffers, and their values on the host.

use ptx_launch::KernelParam;
use std::fmt;

/// A float of 4 exponent and 3 mantissa bits (`e4m3` of PTX, `float8_e4m3fn` of PyTorch): to ±448, without infinities.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, KernelParam)]
#[repr(transparent)]
pub struct E4m3(
    /// Its bits.
    pub u8,
);

/// A float of 5 exponent and 2 mantissa bits (`e5m2` of PTX, `float8_e5m2` of PyTorch): to ±57344, with infinities.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, KernelParam)]
#[repr(transparent)]
pub struct E5m2(
    /// Its bits.
    pub u8,
);

/// The layout of a format.
struct Format {
    mantissa: i32,
    bias: i32,
    /// Bits of the largest finite value, and of a NaN.
    largest: u8,
    nan: u8,
    has_infinity: bool,
}

const E4M3: Format = Format { mantissa: 3, bias: 7, largest: 0x7e, nan: 0x7f, has_infinity: false };
const E5M2: Format = Format { mantissa: 2, bias: 15, largest: 0x7b, nan: 0x7f, has_infinity: true };

impl Format {
    /// The value of the bits.
    fn value(&self, bits: u8) -> f32 {
        let size = i32::from(bits & 0x7f);
        let (exponent, fraction) = (size >> self.mantissa, size & ((1 << self.mantissa) - 1));
        let special = bits & 0x7f > self.largest;
        let value = match exponent {
            _ if special && self.has_infinity && fraction == 0 => f32::INFINITY,
            _ if special => f32::NAN,
            0 => fraction as f32 * (1.0 - self.bias as f32 - self.mantissa as f32).exp2(),
            _ => (1.0 + fraction as f32 / (1 << self.mantissa) as f32) * ((exponent - self.bias) as f32).exp2(),
        };
        if bits & 0x80 == 0 { value } else { -value }
    }

    /// The nearest value, ties to even; what is too large becomes the largest finite value, as `cvt.rn.satfinite` has it.
    fn round(&self, value: f32) -> u8 {
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        if value.is_nan() {
            return sign | self.nan;
        }
        // Neighbors in value are neighbors in bits, so that the nearest one is found by halving.
        let size = value.abs();
        let below = (0..7).rev().fold(0u8, |low, bit| {
            let next = low | 1 << bit;
            if next <= self.largest && self.value(next) <= size { next } else { low }
        });
        let nearest = if below == self.largest {
            below
        } else {
            let (low, high) = (size - self.value(below), self.value(below + 1) - size);
            if high < low || high == low && below & 1 == 1 { below + 1 } else { below }
        };
        sign | nearest
    }
}

macro_rules! floats {
    ($($name:ident $format:ident)*) => { $(
        impl $name {
            /// The nearest value, ties to even. What is too large becomes the largest finite value.
            #[must_use]
            pub fn from_f32(value: f32) -> Self {
                $name($format.round(value))
            }

            /// Its value.
            #[must_use]
            pub fn to_f32(self) -> f32 {
                $format.value(self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }
    )* };
}
floats! { E4m3 E4M3 E5m2 E5M2 }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back() {
        for bits in 0..=u8::MAX {
            let (small, wide) = (E4m3(bits), E5m2(bits));
            assert!(small.to_f32().is_nan() || E4m3::from_f32(small.to_f32()) == small, "{bits:02x}");
            assert!(!wide.to_f32().is_finite() || E5m2::from_f32(wide.to_f32()) == wide, "{bits:02x}");
        }
    }

    #[test]
    fn values_are_those_of_the_formats() {
        assert_eq!([0x7e, 0x38, 0x01].map(|bits| E4m3(bits).to_f32()), [448.0, 1.0, 1.0 / 512.0]);
        assert_eq!([0x7b, 0x3c, 0x7c].map(|bits| E5m2(bits).to_f32()), [57344.0, 1.0, f32::INFINITY]);
        assert_eq!(E4m3::from_f32(1e9), E4m3(0x7e));
        assert_eq!(E4m3::from_f32(-17.0).to_f32(), -16.0);
        assert_eq!(E4m3::from_f32(19.0).to_f32(), 20.0);
    }
}

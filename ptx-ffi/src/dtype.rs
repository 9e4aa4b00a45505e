//! Types of elements, by the names and codes of DLPack and XLA.

use half::{bf16, f16};
use ptx_launch::KernelParam;
use std::fmt;

/// Type of the elements of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DType {
    /// Integers with a sign.
    I8,
    /// As `I8`.
    I16,
    /// As `I8`.
    I32,
    /// As `I8`.
    I64,
    /// Integers without a sign.
    U8,
    /// As `U8`.
    U16,
    /// As `U8`.
    U32,
    /// As `U8`.
    U64,
    /// Half precision.
    F16,
    /// The upper half of a single-precision number.
    BF16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

/// A type, its name in Python, its bytes, the code and bits of DLPack, the code of XLA.
type Row = (DType, &'static str, usize, (u8, u8), i32);

/// One line a type, in the order of [`DType`].
const TABLE: [Row; 12] = [
    (DType::I8, "int8", 1, (0, 8), 2),
    (DType::I16, "int16", 2, (0, 16), 3),
    (DType::I32, "int32", 4, (0, 32), 4),
    (DType::I64, "int64", 8, (0, 64), 5),
    (DType::U8, "uint8", 1, (1, 8), 6),
    (DType::U16, "uint16", 2, (1, 16), 7),
    (DType::U32, "uint32", 4, (1, 32), 8),
    (DType::U64, "uint64", 8, (1, 64), 9),
    (DType::F16, "float16", 2, (2, 16), 10),
    (DType::BF16, "bfloat16", 2, (4, 16), 16),
    (DType::F32, "float32", 4, (2, 32), 11),
    (DType::F64, "float64", 8, (2, 64), 12),
];

/// The types by code and bytes of DLPack: `[code][log2(bytes)]`.
const BY_DLPACK: [[Option<DType>; 4]; 5] = {
    let (mut types, mut at) = ([[None; 4]; 5], 0);
    while at < TABLE.len() {
        let (dtype, _, bytes, (code, _), _) = TABLE[at];
        types[code as usize][bytes.ilog2() as usize] = Some(dtype);
        at += 1;
    }
    types
};

impl DType {
    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Its name in NumPy, PyTorch and JAX: `float32`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Bytes of an element.
    #[inline]
    pub fn bytes(self) -> usize {
        self.row().2
    }

    /// The type with this code and these bits in DLPack.
    #[inline]
    pub(crate) fn from_dlpack(code: u8, bits: u8) -> Option<DType> {
        let size = bits.checked_ilog2()?.checked_sub(3)?;
        let dtype = (*BY_DLPACK.get(code as usize)?.get(size as usize)?)?;
        bits.is_power_of_two().then_some(dtype)
    }

    /// Its code and bits in DLPack.
    pub(crate) fn to_dlpack(self) -> (u8, u8) {
        self.row().3
    }

    /// The bits of a floating-point number in this type, and the number that they stand for; nothing for an integer type.
    pub(crate) fn rounded(self, value: f64) -> Option<(u64, f64)> {
        match self {
            DType::F16 => Some(f16::from_f32(to_odd(value))).map(|value| (value.to_bits().into(), value.into())),
            DType::BF16 => Some(bf16::from_f32(to_odd(value))).map(|value| (value.to_bits().into(), value.into())),
            DType::F32 => Some(value as f32).map(|value| (value.to_bits().into(), value.into())),
            DType::F64 => Some((value.to_bits(), value)),
            _ => None,
        }
    }

    /// Returns true for a finite number that becomes infinite in this type.
    #[inline]
    pub(crate) fn overflows(self, value: f64) -> bool {
        value.is_finite() && self.rounded(value).is_some_and(|(_, rounded)| rounded.is_infinite())
    }

    /// The type with this code in XLA.
    pub(crate) fn from_xla(code: i32) -> Option<DType> {
        TABLE.iter().find(|row| row.4 == code).map(|row| row.0)
    }
}

/// The number in single precision, rounded to an odd mantissa: rounding it again to fewer bits is then as rounding once.
fn to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    if back == value || value.is_nan() {
        return nearest;
    }
    let toward_zero = nearest.to_bits() - u32::from(back.abs() > value.abs());
    f32::from_bits(toward_zero | 1)
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that elements of tensors have.
#[diagnostic::on_unimplemented(
    message = "tensors of `{Self}` cannot come from Python",
    label = "expected f16, bf16, f32, f64, or an integer of 8 to 64 bits"
)]
pub trait Dtype: KernelParam {
    /// Its name outside of Rust.
    const DTYPE: DType;
}

macro_rules! dtypes {
    ($($ty:ty: $dtype:ident;)*) => { $(
        impl Dtype for $ty {
            const DTYPE: DType = DType::$dtype;
        }
    )* };
}
dtypes! { i8: I8; i16: I16; i32: I32; i64: I64; u8: U8; u16: U16; u32: U32; u64: U64; f16: F16; bf16: BF16; f32: F32; f64: F64; }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn finite_numbers_that_become_infinite_overflow() {
        let largest = [(DType::F16, 65519.996), (DType::BF16, 3.3961775e38), (DType::F32, 3.4028235e38)];
        let beyond = [(DType::F16, 65520.0), (DType::BF16, 3.3961776e38), (DType::F32, 3.4028236e38)];
        for ((dtype, within), (_, beyond)) in largest.into_iter().zip(beyond) {
            assert!(!dtype.overflows(within) && !dtype.overflows(-within), "{dtype} {within}");
            assert!(dtype.overflows(beyond) && dtype.overflows(-beyond), "{dtype} {beyond}");
            assert!([f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-300].iter().all(|value| !dtype.overflows(*value)));
        }
        assert!(!DType::F64.overflows(f64::MAX));
    }

    #[test]
    fn numbers_are_rounded_once() {
        let half = |value: f64| DType::F16.rounded(value).unwrap().1;
        let (tie, above) = (1.0 + 2f64.powi(-11), 1.0 + 2f64.powi(-11) + 2f64.powi(-40));
        assert_eq!((half(tie), half(above), half(-above)), (1.0, 1.0 + 2f64.powi(-10), -1.0 - 2f64.powi(-10)));
        let least = 2f64.powi(-24);
        assert_eq!(
            (half(least / 2.0), half(least / 2.0 + 2f64.powi(-60)), half(least * 1.5)),
            (0.0, least, 2.0 * least)
        );
        assert_eq!((half(1e-300), half(f64::INFINITY)), (0.0, f64::INFINITY));
        let bfloat = |value: f64| DType::BF16.rounded(value).unwrap().1;
        let above = 1.0 + 2f64.powi(-8) + 2f64.powi(-50);
        assert_eq!((bfloat(1.0 + 2f64.powi(-8)), bfloat(above)), (1.0, 1.0 + 2f64.powi(-7)));
        assert_eq!(bfloat(1e-45), 0.0);
    }

    #[test]
    fn bytes_are_those_of_the_rust_types() {
        fn check<T: Dtype>() {
            assert_eq!(T::DTYPE.bytes(), size_of::<T>(), "{}", T::DTYPE);
        }
        check::<i8>();
        check::<u64>();
        check::<bf16>();
        check::<f64>();
        for (at, row) in TABLE.iter().enumerate() {
            let (dtype, _, bytes, (code, bits), _) = *row;
            assert_eq!((dtype as usize, bits as usize), (at, 8 * bytes), "{dtype}");
            assert_eq!(DType::from_dlpack(code, bits), Some(dtype));
        }
        let none = [(0, 4), (0, 0), (0, 24), (0, 128), (2, 8), (4, 32), (5, 64), (10, 8)];
        assert!(none.iter().all(|(code, bits)| DType::from_dlpack(*code, *bits).is_none()));
    }
}

//! The element types of tensor maps.

use crate::buffer::Element;
use half::{bf16, f16};

/// Element type of a tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// 8-bit integer, or any 8-bit float.
    U8,
    /// 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 64-bit integer.
    U64,
    /// Signed 64-bit integer.
    I64,
    /// `half::f16`
    F16,
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// `half::bf16`
    Bf16,
    /// `f32`; reductions take subnormals as zero, copies leave them.
    F32Ftz,
    /// `f32`, rounded to 10 bits of fraction, ties to even; every NaN becomes the same one.
    Tf32,
    /// The same; reductions take subnormals as zero, copies leave them.
    Tf32Ftz,
    /// 16 4-bit elements in 8 bytes (driver 12.8).
    U4Align8,
    /// 16 4-bit elements in 8 bytes, 16 bytes apart in shared memory (driver 12.8).
    U4Align16,
    /// 16 6-bit elements in 12 bytes, 16 bytes apart in shared memory (driver 12.8).
    U6Align16,
}

/// Bits of an element, and whether it is a floating-point number, in the order of `CUtensorMapDataType`.
const FACTS: [(usize, bool); 16] = [
    (8, false),
    (16, false),
    (32, false),
    (32, false),
    (64, false),
    (64, false),
    (16, true),
    (32, true),
    (64, true),
    (16, true),
    (32, true),
    (32, true),
    (32, true),
    (4, false),
    (4, false),
    (6, false),
];

impl ElementType {
    /// `CUtensorMapDataType`
    pub(super) fn code(self) -> u32 {
        self as u32
    }

    fn facts(self) -> (usize, bool) {
        FACTS.get(self as usize).copied().unwrap_or((8, false))
    }

    /// Bits in global memory.
    pub fn bits(self) -> usize {
        self.facts().0
    }

    /// Returns true if it is a floating-point number.
    pub fn is_float(self) -> bool {
        self.facts().1
    }

    /// Returns true if it is smaller than a byte.
    pub(super) fn is_packed(self) -> bool {
        self.bits() < 8
    }

    /// Returns true if it is packed with a gap in shared memory, which has stricter alignments.
    pub(super) fn has_gaps(self) -> bool {
        matches!(self, ElementType::U4Align16 | ElementType::U6Align16)
    }
}

/// The Rust types that a tensor may have.
#[diagnostic::on_unimplemented(
    message = "a tensor map cannot have elements of type `{Self}`",
    note = "8 to 64-bit integers, `f16`, `bf16`, `f32` and `f64` are possible; others through `.element(…)`"
)]
pub trait TensorElement: Element {
    /// As the map knows it.
    const TYPE: ElementType;
}

macro_rules! elements {
    ($($ty:ty => $name:ident;)*) => { $(
        impl TensorElement for $ty {
            const TYPE: ElementType = ElementType::$name;
        }
    )* };
}
elements! {
    u8 => U8; i8 => U8; u16 => U16; i16 => U16; u32 => U32; i32 => I32; u64 => U64; i64 => I64;
    f16 => F16; bf16 => Bf16; f32 => F32; f64 => F64;
}

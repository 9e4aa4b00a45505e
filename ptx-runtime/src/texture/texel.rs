//! Texels.
#![allow(unsafe_code, reason = "`Texel` promises a layout")]

use crate::buffer::Element;

/// Type of a texel's channel, with its `CUarray_format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TexelFormat {
    /// Unsigned integer of 8 bits.
    U8 = 0x01,
    /// Unsigned integer of 16 bits.
    U16 = 0x02,
    /// Unsigned integer of 32 bits.
    U32 = 0x03,
    /// Signed integer of 8 bits.
    I8 = 0x08,
    /// Signed integer of 16 bits.
    I16 = 0x09,
    /// Signed integer of 32 bits.
    I32 = 0x0a,
    /// `half::f16`
    F16 = 0x10,
    /// `f32`
    F32 = 0x20,
}

impl TexelFormat {
    /// Bytes of a channel.
    pub(super) fn bytes(self) -> usize {
        match self {
            TexelFormat::U8 | TexelFormat::I8 => 1,
            TexelFormat::U16 | TexelFormat::I16 | TexelFormat::F16 => 2,
            TexelFormat::U32 | TexelFormat::I32 | TexelFormat::F32 => 4,
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, TexelFormat::F16 | TexelFormat::F32)
    }
}

/// An element of a buffer that can be a texel: a number, or two or four of them.
///
/// # Safety
/// The type is [`CHANNELS`](Texel::CHANNELS) values of [`FORMAT`](Texel::FORMAT), one behind the other: copies of arrays count
/// bytes by these two.
pub unsafe trait Texel: Element {
    /// Type of a channel.
    const FORMAT: TexelFormat;
    /// 1, 2 or 4.
    const CHANNELS: u32;
}

macro_rules! texels {
    ($($ty:ty: $format:ident),*) => { $(
        // SAFETY: one value.
        unsafe impl Texel for $ty {
            const FORMAT: TexelFormat = TexelFormat::$format;
            const CHANNELS: u32 = 1;
        }
        // SAFETY: two values.
        unsafe impl Texel for [$ty; 2] {
            const FORMAT: TexelFormat = TexelFormat::$format;
            const CHANNELS: u32 = 2;
        }
        // SAFETY: four values.
        unsafe impl Texel for [$ty; 4] {
            const FORMAT: TexelFormat = TexelFormat::$format;
            const CHANNELS: u32 = 4;
        }
    )* };
}
texels!(u8: U8, u16: U16, u32: U32, i8: I8, i16: I16, i32: I32, f32: F32);
#[cfg(feature = "half")]
texels!(half::f16: F16);

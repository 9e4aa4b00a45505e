//! The Rust types of tensor maps.

use crate::buffer::Element;
use ptx_target::tensor::ElementType;

/// The Rust types that a tensor may have.
#[diagnostic::on_unimplemented(
    message = "a tensor map cannot have elements of type `{Self}`",
    note = "8 to 64-bit integers, `f16`, `bf16`, `f32` and `f64` are possible; others through `.element(…)`"
)]
pub trait TensorElement: Element {
    /// Its code in the map.
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
    f32 => F32; f64 => F64;
}
#[cfg(feature = "half")]
elements! { half::f16 => F16; half::bf16 => Bf16; }

//! Element types of operands and results, and which result a pair of operands has.

use super::params;
use crate::float8::{E4m3, E5m2};
use half::{bf16, f16};
use ptx_launch::KernelParam;

/// An element of A and B: `f32`, `f16`, `bf16`, [`E4m3`], [`E5m2`] or `i8`.
#[diagnostic::on_unimplemented(
    message = "a matrix product has no operands of `{Self}`",
    label = "expected f32, f16, bf16, E4m3, E5m2 or i8"
)]
pub trait Operand: KernelParam + sealed::Operand {}

/// An element of C, if A and B have elements of `T`: the table in [`gemm`](super) lists them.
#[diagnostic::on_unimplemented(
    message = "a matrix product of `{T}` has no result of `{Self}`",
    label = "expected C to be f32, f16 or bf16, or of the operands' own type",
    note = "of f32: f32; of f16: f16, f32; of bf16: bf16, f32; of E4m3 and E5m2: f16, bf16, f32; of i8: i32, f16, bf16, f32"
)]
pub trait Output<T>: Element {}

/// An element of C.
pub trait Element: KernelParam + sealed::Element {}

pub(crate) mod sealed {
    /// No other crate implements operands.
    pub trait Operand {
        /// The code that kernels have for it.
        const KIND: u32;
    }

    /// No other crate implements results.
    pub trait Element {
        /// The code that kernels have for it.
        const KIND: u32;
    }
}

macro_rules! operands {
    ($($ty:ty: $kind:ident => $($output:ty)*;)*) => { $(
        impl sealed::Operand for $ty {
            const KIND: u32 = params::$kind;
        }
        impl Operand for $ty {}
        $(impl Output<$ty> for $output {})*
    )* };
}
operands! {
    f32: F32 => f32;
    f16: F16 => f16 f32;
    bf16: BF16 => bf16 f32;
    E4m3: E4M3 => f16 bf16 f32;
    E5m2: E5M2 => f16 bf16 f32;
    i8: I8 => i32 f16 bf16 f32;
}

macro_rules! elements {
    ($($ty:ty: $kind:ident)*) => { $(
        impl sealed::Element for $ty {
            const KIND: u32 = params::$kind;
        }
        impl Element for $ty {}
    )* };
}
elements! { f32: F32 f16: F16 bf16: BF16 i32: I32 }

//! Types of products: as they are drawn and checked, as the library multiplies them, and as rivals call them.

use crate::data::Factor;
use crate::rivals::Number;
use half::{bf16, f16};
use ptx_kernels::float8;
use ptx_kernels::gemm::{Gemm, Operand, Output};
use ptx_launch::{Error, Result, Stream, TensorMut, TensorRef};

/// The types of a product.
pub trait Kind {
    /// The name that algorithms have for it.
    const NAME: &str;
    const NUMBER: Number;
    const TF32: bool = false;
    /// Operands as they are drawn, and as they are multiplied.
    type Stored: Factor<Result = Self::Output>;
    type Operand: Operand + ptx_launch::Element;
    type Output: Output<Self::Operand> + ptx_launch::Element;

    /// C = A · B by the library: by this algorithm with so many parts of K, or by the one that it chooses.
    fn multiply(
        stream: &Stream,
        (a, b): (TensorRef<'_, Self::Stored, 2>, TensorRef<'_, Self::Stored, 2>),
        c: TensorMut<'_, Self::Output, 2>,
        way: Option<(&str, u32)>,
    ) -> Result<()> {
        let gemm = Gemm::<Self::Output, 2>::new();
        let gemm = match way {
            Some((name, splits)) => gemm.algorithm(name, splits),
            None => gemm,
        };
        Self::multiply_by(gemm, stream, (a, b), c)
    }

    /// C = A · B with these options.
    fn multiply_by(
        gemm: Gemm<'_, Self::Output, 2>,
        stream: &Stream,
        (a, b): (TensorRef<'_, Self::Stored, 2>, TensorRef<'_, Self::Stored, 2>),
        c: TensorMut<'_, Self::Output, 2>,
    ) -> Result<()> {
        let (Some(a), Some(b)) = (a.cast::<Self::Operand>(), b.cast::<Self::Operand>()) else {
            return Err(Error::other("operands have another size"));
        };
        gemm.tf32(Self::TF32).run(stream, a, b, c)
    }
}

macro_rules! kinds {
    ($($kind:ident = $name:literal: $stored:ty as $operand:ty => $output:ty, $tf32:literal;)*) => { $(
        pub struct $kind;

        impl Kind for $kind {
            const NAME: &str = $name;
            const NUMBER: Number = Number::$kind;
            const TF32: bool = $tf32;
            type Stored = $stored;
            type Operand = $operand;
            type Output = $output;
        }
    )* };
}
kinds! {
    Bf16 = "bf16": bf16 as bf16 => bf16, false;
    F16 = "f16": f16 as f16 => f16, false;
    Tf32 = "tf32": f32 as f32 => f32, true;
    E4m3 = "e4m3": u8 as float8::E4m3 => bf16, false;
    I8 = "i8": i8 as i8 => i32, false;
}

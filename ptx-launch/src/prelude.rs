//! The items that most programs need: `use ptx_launch::prelude::*;`.

#[doc(no_inline)]
pub use crate::macros::*;
#[doc(no_inline)]
pub use crate::packed::{bf16x2, e4m3, f16x2};
#[doc(no_inline)]
pub use crate::{
    AsStream, Buffer, Config, Device, Kernel, KernelParam, ReadSlice, Stream, TensorMap, Timer, View, ViewMut,
    WriteSlice,
};
#[doc(no_inline)]
pub use half::{bf16, f16};

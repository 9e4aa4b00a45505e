//! The items that most programs need: `use ptx_launch::prelude::*;`.

#[doc(no_inline)]
pub use crate::macros::*;
#[doc(no_inline)]
pub use crate::packed::e4m3;
#[cfg(feature = "half")]
#[doc(no_inline)]
pub use crate::packed::{bf16x2, f16x2};
#[doc(no_inline)]
pub use crate::{
    AsStream, Buffer, Config, Device, Devices, Kernel, KernelParam, RankThread, ReadSlice, Stream, Symmetric,
    SymmetricBuffer, TensorMap, Timer, View, ViewMut, WriteSlice,
};
#[cfg(feature = "half")]
#[doc(no_inline)]
pub use half::{bf16, f16};

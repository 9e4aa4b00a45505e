//! Launch runtime.

mod buffer;
mod cache;
mod config;
mod device;
mod driver;
mod error;
#[doc(hidden)]
pub mod expansion;
mod graph;
mod int;
mod kernel;
mod launch;
mod load;
mod param;
pub mod prelude;
mod stream;
mod tensor_map;
mod timing;

pub use buffer::{Buffer, Element, View, ViewMut};
pub use config::{Config, Dim, IntoDim, Spread};
pub use device::Device;
pub use error::{Error, ErrorKind, Result};
pub use graph::Graph;
pub use int::{Int, ToInt};
pub use kernel::{Kernel, LineMap, Module, Variant};
pub use load::{Figures, Occupancy};
pub use param::{Arg, Bound, KernelParam, Param, ReadSlice, WriteSlice};
pub use ptx_core::interp::Options as CpuOptions;
pub use ptx_macros::*;
pub use stream::{AsStream, Stream, StreamRef};
pub use tensor_map::{ElementType, Fill, Interleave, Promotion, Swizzle, TensorElement, TensorMap, TensorMapBuilder};
pub use timing::{Timer, Timing};

//! The launch runtime of `ptx-launch`, without its macros: devices, buffers, streams, loading and launching.
//!
//! Programs depend on `ptx-launch`, which has every item of this crate, the macros, and the guide. A crate of its own builds in parallel
//! with the macros, and tools that launch PTX build without them.

#![deny(unsafe_code)]

mod buffer;
mod cache;
mod config;
mod context;
mod contracted;
mod copy;
mod device;
mod devices;
#[doc(hidden)]
pub mod disk;
mod driver;
mod error;
#[doc(hidden)]
pub mod expansion;
mod graph;
mod int;
mod kernel;
mod launch;
mod load;
#[cfg(feature = "nccl")]
mod nccl;
pub mod packed;
mod param;
#[cfg_attr(not(all(target_os = "linux", feature = "processes")), path = "process_group/elsewhere.rs")]
mod process_group;
mod properties;
#[cfg(feature = "cpu")]
mod reals;
#[cfg(feature = "check")]
mod runtime;
mod statics;
mod stream;
mod symmetric;
mod tensor;
mod tensor_map;
mod testing;
mod texture;
mod tile;
mod timing;
mod tuning;

#[cfg(feature = "check")]
pub use buffer::AnyMemory;
pub use buffer::{Bound, ReadSlice, WriteSlice};
pub use buffer::{Buffer, Element, Pinned, View, ViewMut};
pub use config::{Config, Dim, IntoDim, Sizes, Spread};
pub use context::keep_current_context;
pub use device::Device;
#[cfg(feature = "cpu")]
pub use device::profile::{LaunchProfile, ProfiledLine};
pub use devices::{Devices, RankThread};
pub use error::{Error, ErrorKind, Result};
pub use graph::Graph;
pub use int::{Int, ToInt};
pub use kernel::{Cubin, Kernel, LineMap, Module, Variant};
pub use load::{CacheMode, Figures, JitOptions, Loaded, Occupancy, Optimization, Source, warm};
#[cfg(feature = "nccl")]
pub use nccl::{Communicator, CommunicatorId, Group, NcclElement, Reduction};
pub use param::{Arg, KernelParam, Param};
pub use process_group::{ProcessGroup, Rendezvous};
pub use properties::{Properties, StreamId};
#[cfg(feature = "cpu")]
pub use ptx_interp::{Options as CpuOptions, chip, profile::Counts as ProfileCounts};
pub use ptx_target::Contract;
#[cfg(feature = "cpu")]
pub use reals::{Real, RealElement, Reals, Unproved, prove_equal};
#[cfg(feature = "check")]
pub use runtime::{CompiledText, RuntimeKernel, RuntimeLaunch, RuntimeModule};
pub use statics::Static;
pub use stream::{AsStream, Stream, StreamRef};
pub use symmetric::{Symmetric, SymmetricBuffer, SymmetricParts};
pub use tensor::{IntoTensor, IntoTensorMut, TensorMut, TensorRef};
pub use tensor_map::{ElementType, Fill, Interleave, Promotion, Swizzle, TensorElement, TensorMap, TensorMapBuilder};
pub use texture::{AddressMode, Extent, FilterMode, Surface, Texel, TexelArray, TexelFormat, Texture, TextureBuilder};
pub use tile::{ReadTile, Tile, WriteTile};
pub use timing::{Timer, Timing};
pub use tuning::{Outcome, Record, Records, Trial, Tuner, Tuning};

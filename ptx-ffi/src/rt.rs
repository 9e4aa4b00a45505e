//! Names that the expansion of `#[export]` uses. Not for anybody else.

pub use crate::call::{Call, FromArg, PARAMS, next};
pub use crate::describe::{Node, register};
pub use crate::door::{Made, Raise};
pub use crate::dtype::{DType, Dtype};
pub use crate::function::{Default, Dim, Element, Function, Instance, Kind, Parallel, Param, TensorKind, Work};
pub use crate::params::{Args, Part, Setting, count, flatten, set};
pub use crate::tvm::{Any, DlTensor, call as call_tvm};
pub use crate::xla::call as call_xla;
pub use ptx_launch::{Result, Tile, View, ViewMut};

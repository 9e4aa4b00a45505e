//! Functions and kernels for Python, from Rust alone: one attribute makes of a function what PyTorch, JAX, NumPy and CuPy call.
//!
//! ```
//! # fn main() {}
//! use ptx_ffi::prelude::*;
//!
//! #[ptx_kernel(arch = "sm_80", block = 256, grid = n.div_ceil(256), unsafe(requires(x.len() >= n, out.len() >= n)))]
//! fn scale_kernel(factor: f32, x: &[f32], out: &mut [f32], n: u32) {
//!     let i: u32 = ctaid.x * ntid.x + tid.x;
//!     if i < n {
//!         let value: f32;
//!         let (from, to): (u64, u64) = (x + wide(i) * 4, out + wide(i) * 4);
//!         ptx! { ld.global.f32 value, [from]; mul.rn.f32 value, value, factor; st.global.f32 [to], value; }
//!     }
//! }
//!
//! /// Multiplies every element of `x` by `factor`.
//! #[ptx_ffi::export(shapes(x = [n], out = [n]), defaults(factor = 2.0))]
//! fn scale(stream: &Stream, x: TensorRef<'_, f32, 1>, mut out: TensorMut<'_, f32, 1>, factor: f32) -> Result<()> {
//!     if !x.is_contiguous() || !out.is_contiguous() {
//!         return Err(Error::new(ErrorKind::Condition, "x and out must be contiguous"));
//!     }
//!     scale_kernel(stream, factor, &x, &mut out, x.shape()[0] as u32)
//! }
//! ```
//!
//! In a crate with `crate-type = ["cdylib"]` that makes a library, and in Python:
//!
//! ```text
//! lib = ptx_kernels.load("target/release/libmine.so")
//! lib.scale(x, factor=3.0)             # x of PyTorch, JAX, NumPy, CuPy: the result is of the same
//! lib.scale(x, 3.0, out=y)             # or into memory that is there
//! ```
//!
//! # The function
//!
//! The first parameter is the stream. [`TensorRef`](ptx_launch::TensorRef) parameters are inputs, [`TensorMut`](ptx_launch::TensorMut)
//! parameters outputs, others scalars: integers, `f32`, `f64`, `bool` and `&str`. `Option<…>` of these takes `None`. An error becomes an
//! exception: `ValueError` for one of [`ErrorKind::Condition`](ptx_launch::ErrorKind::Condition) and its kind, `MemoryError`,
//! `NotImplementedError`, else `RuntimeError`. A panic becomes a `RuntimeError`.
//!
//! Before the function runs, every argument is compared with its parameter: kind, type of the elements, dimensions, device, alignment to an
//! element. A negative stride is refused, and so is an output that shares memory with another tensor. The exception names the argument.
//!
//! # Structs of arguments
//!
//! Arguments that belong together may be a struct. Its fields are parameters in its place, and options name them as any other; a struct may
//! have another one as a field.
//!
//! ```
//! # fn main() {}
//! use ptx_ffi::prelude::*;
//!
//! #[derive(ptx_ffi::Args)]
//! struct Operands<'a, T> {
//!     a: TensorRef<'a, T, 2>,
//!     b: TensorRef<'a, T, 2>,
//! }
//!
//! /// Returns an error that has the extents.
//! #[ptx_ffi::export(types = [f32, f64], shapes(a = [m, k], b = [k, n]), defaults(scale = 1.0))]
//! fn show_extents<T>(_stream: &Stream, operands: Operands<'_, T>, scale: f64) -> Result<()> {
//!     let ([m, k], [_, n]) = (operands.a.shape(), operands.b.shape());
//!     Err(Error::new(ErrorKind::Condition, format!("{m} x {n} x {k}, times {scale}")))
//! }
//! ```
//!
//! # Options
//!
//! | option | example | meaning |
//! |---|---|---|
//! | `shapes` | `shapes(x = [.., n], w = [n], out = [.., n])` | extents by name: equal names are equal extents. `..` stands for any number of dimensions, which the function sees as one. Python makes outputs of this shape where none are passed; callers pass those without, and JAX, whose arrays are immutable, returns them as new arrays |
//! | `types` | `types = [f32, bf16]`, `types = [(f32, f32), (bf16, f32)]` | the types for which a generic function is exported, one for each type parameter |
//! | `defaults` | `defaults(eps = 1e-6)` | values of scalars that a call leaves out |
//! | `align` | `align(x = 16)` | the alignment of a tensor's address, in bytes |
//! | `parallel` | `parallel(b, h / g)` | extents along which the work may be split over devices: every slice is computed on its own, and an output without the extent is a sum over it. `h / g`: heads, in groups that stay whole. `..` always is one |
//! | `backward` | `backward = scale_backward` | the exported function that computes the gradients |
//! | `label` | `label = "matmul"` | the name in messages, for a function that a Python function of this name calls; without it, the function's own |
//! | `crate` | `crate = engine::ptx_ffi` | where this crate is, if it is not a dependency of that name |
//!
//! # Gradients
//!
//! The parameters of a `backward` function are matched by their names: inputs and scalars of the forward function, its outputs, `grad_OUT` for
//! the gradient of the output `OUT`, and `grad_X`, an output, for the gradient of the input `X`. Inputs without a gradient have none. An
//! `Option<TensorMut>` of the forward function that the backward function reads is computed where gradients are asked for, and is `None`
//! elsewhere.
//!
//! # Kernels
//!
//! Above a `#[ptx_kernel]` whose memory is tiles, and whose launch is safe, the attribute exports the launch. Extents are the tiles' own.
//!
//! ```
//! # fn main() {}
//! use ptx_ffi::prelude::*;
//!
//! /// Adds one to every element.
//! #[ptx_ffi::export]
//! #[ptx_kernel(arch = "sm_80", block = 128, grid = N.div_ceil(128), unsafe(requires(N > 0)))]
//! fn add_one(x: Tile<f32, (N,)>, out: TileMut<f32, (N,)>) {
//!     let i: u32 = ctaid.x * ntid.x + tid.x;
//!     if i < N {
//!         let value: f32;
//!         let (from, to): (u64, u64) = (x + wide(i) * 4, out + wide(i) * 4);
//!         ptx! { ld.global.f32 value, [from]; add.rn.f32 value, value, 1.0; st.global.f32 [to], value; }
//!     }
//! }
//! ```
//!
//! # Symbols
//!
//! `NAME` becomes `__tvm_ffi_NAME` for TVM-FFI 0.1, `__xla_ffi_NAME_cuda` and `__xla_ffi_NAME_cpu` for XLA's FFI (API 0.1, compatible with
//! command buffers), and an entry of the JSON that `__ptx_ffi_functions()` returns. A library has one function of each name.
//! Native callers that have read the arguments find a function by `__ptx_ffi_function`, the shapes of its outputs by `__ptx_ffi_infer`, and call it by
//! `__ptx_ffi_invoke`.
//!
//! Tensors on a GPU are used where they lie, on the stream of the framework. Tensors in host memory run on the CPU device: they are copied to
//! its memory, and what changed is copied back. `PTX_WATCH=1` turns its watcher on. With `PTX_DEVICE=cpu` tensors of a GPU do the same, on the
//! watched CPU device.

#![deny(unsafe_code)]

mod call;
#[allow(unreachable_pub, reason = "a symbol of the library")]
mod describe;
#[allow(unreachable_pub, reason = "symbols of the library")]
mod door;
mod dtype;
mod error;
#[allow(unreachable_pub, reason = "a symbol of the library")]
mod fork;
mod function;
mod host;
#[cfg(feature = "jit")]
#[allow(unreachable_pub, reason = "symbols of the library")]
mod jit;
mod params;
#[doc(hidden)]
pub mod rt;
mod stream;
mod symbol;
mod tvm;
mod value;
#[allow(unreachable_pub, reason = "a symbol of the library")]
mod watch;
mod xla;

pub use dtype::{DType, Dtype};
pub use ptx_ffi_macros::{Args, export};

/// The names that exported functions and their kernels use: those of `ptx-launch`, and tensors.
pub mod prelude {
    pub use ptx_launch::prelude::*;
    pub use ptx_launch::{Error, ErrorKind, Result, TensorMut, TensorRef, Tile};
}

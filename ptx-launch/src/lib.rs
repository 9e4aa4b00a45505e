//! Kernels written in Rust's shape and PTX's instructions, launched through typed functions, on CUDA devices and on the
//! CPU.
//!
//! ```
//! use ptx_launch::prelude::*;
//!
//! #[ptx_kernel(arch = "sm_80", block = 256, grid = n.div_ceil(256), unsafe(requires(x.len() >= n, y.len() >= n)))]
//! pub fn saxpy(alpha: f32, x: &[f32], y: &mut [f32], n: u32) {
//!     let i: u32 = ctaid.x * ntid.x + tid.x;
//!     if i < n {
//!         let (px, py): (u64, u64) = (x + wide(i) * 4, y + wide(i) * 4);
//!         let (vx, vy): (f32, f32);
//!         ptx! {
//!             ld.global.f32   vx, [px];
//!             ld.global.f32   vy, [py];
//!             fma.rn.f32      vy, alpha, vx, vy;
//!             st.global.f32   [py], vy;
//!         }
//!     }
//! }
//!
//! fn main() -> ptx_launch::Result<()> {
//!     let device = Device::best()?;
//!     let x = device.upload(&vec![1.0f32; 1000])?;
//!     let mut y = device.upload(&vec![2.0f32; 1000])?;
//!     saxpy(&device.stream(), 3.0, &x, &mut y, 1000)?;
//!     assert_eq!(y.download()?[0], 5.0);
//!     Ok(())
//! }
//! ```
//!
//! The macros check the kernel when the program is built, and leave two things: a module `saxpy` with the PTX as a
//! constant, and a function `saxpy` that launches it. This crate is what that function stands on, and all that an
//! application needs besides. [`language`] describes what a kernel may hold.
//!
//! # A launch
//!
//! The first argument is the place: a [`Stream`], a [`Device`] (its default stream), or cudarc's `CudaStream`. The others
//! are the kernel's own: `&[T]` takes a reference to a [`Buffer`], a [`View`], or cudarc's `CudaSlice` or `CudaView`,
//! `&mut [T]` a mutable one; numbers and `#[derive(KernelParam)]` structs go by value, a [`TensorMap`], a [`Texture`] and a [`Surface`] by reference.
//! What the kernel's attribute does not say of grid and block stands in a [`Config`] behind the stream. The
//! function checks the conditions of `requires(…)` first. It is an `unsafe fn`, and its documentation lists what the caller vouches for,
//! unless the kernel's author vouches that the conditions are enough: `unsafe(requires(…))`. That `unsafe` counts as the author's: under
//! `#![forbid(unsafe_code)]` it is an error. A kernel that is [`proved`](language#the-contract) is a safe `fn` without any `unsafe`.
//!
//! A variable that is a `&mut Buffer` already is passed on as `&mut *y`: a generic parameter does not reborrow.
//!
//! A launch on a CUDA device is two calls of the driver, one of which reads whether the right context is current, and no
//! allocation. Arguments stay on the caller's stack, checks are comparisons with limits that were read when the kernel
//! was loaded, and the kernel's handle is found without a lock. A [`Buffer`] remembers the streams that may still use it, and a
//! launch waits for those that it conflicts with, never for its own. With the default stream alone no events are recorded.
//! cudarc's own events are recorded when a buffer is lent to it, so that launches mix with its other libraries.
//!
//! # Loading
//!
//! A kernel is loaded into a context by its first launch there, or by [`Kernel::load`]. Of several targets in `arch` the
//! loader takes the best one that the device runs and the driver reads; where there is none, the error names the device, what the program has, and
//! the toolkit and driver that would do. The program holds PTX compressed, and [`Module::texts`] gives it. When the driver's assembler refuses it, the
//! error has its log, with the lines of Rust that its lines of PTX come from.
//! With `PTX_CACHE=folder` the assembled kernels are kept there for the program's next start; those with `setmaxnreg` are not, because the
//! driver's linker, which makes what is kept, ignores it. `cubin`, below, is for them.
//!
//! `cubin` in the kernel's attribute embeds machine code when the program is built: ptxas (the one that `PTXAS` names, else
//! the first in `PATH`) assembles each target, and must be there. The loader takes it on a GPU of that target, and the PTX
//! elsewhere. `PTX_EMBED=always` does so for every kernel of a build, `PTX_EMBED=never` for none.
//!
//! PTX that is known only while the program runs is a [`RuntimeModule`]: checked when it is loaded, and launched with arguments that
//! are compared with its parameters.
//!
//! [`Kernel::load_with`] takes [`JitOptions`] for the driver's assembler, [`Kernel::loaded`] returns where the machine code
//! came from and what ptxas said, [`Kernel::figures`] and [`Kernel::occupancy`] what the kernel takes of the device:
//! registers, spills, shared memory, blocks at a time.
//!
//! # Memory
//!
//! [`Device::upload`] and [`Buffer::download`] copy from and to the host, and wait for it. On a [`Stream`], in its order
//! and beside the host, run [`copy`](Stream::copy) (also from one GPU to another), [`fill`](Stream::fill), and, with
//! [`Pinned`] host memory, [`upload`](Stream::upload) and [`download`](Stream::download). [`View`] and [`ViewMut`] are
//! parts. [`Stream::capture`] records launches, copies and fills as a [`Graph`].
//!
//! # With cudarc and candle
//!
//! Launches take the user's own context, stream, slices and views; [`Device::from_cuda`], [`Buffer::from_cuda`],
//! [`Buffer::into_cuda`], [`Buffer::as_cuda`] and [`Buffer::as_cuda_mut`] go to and fro:
//!
//! ```no_run
//! # use ptx_launch::prelude::*;
//! # #[ptx_kernel(arch = "sm_80", block = 256, grid = n.div_ceil(256), unsafe(requires(x.len() >= n)))]
//! # pub fn twice(x: &mut [f32], n: u32) {
//! #     let i: u32 = ctaid.x * ntid.x + tid.x;
//! #     if i < n {
//! #         let at: u64 = x + wide(i) * 4;
//! #         let v: f32;
//! #         ptx! { ld.global.f32 v, [at]; add.rn.f32 v, v, v; st.global.f32 [at], v; }
//! #     }
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = cudarc::driver::CudaContext::new(0)?;
//! let stream = context.new_stream()?;
//! let mut x = stream.clone_htod(&[1.0f32; 1024])?;
//! twice(&stream, &mut x, 1024)?;                         // all of a slice
//! twice(&stream, &mut x.slice_mut(512..), 512)?;         // a part of it
//! println!("{:?}", stream.clone_dtoh(&x)?);              // ordered by cudarc's own events
//! # Ok(())
//! # }
//! ```
//!
//! candle-core 0.11 stands on the same cudarc: the inside of a `CustomOp1`, as it launches on candle's stream and slices.
//!
//! ```ignore
//! fn cuda_fwd(&self, storage: &CudaStorage, layout: &Layout) -> candle_core::Result<(CudaStorage, Shape)> {
//!     let (device, shape) = (storage.device(), layout.shape().clone());
//!     let (x, n) = (storage.as_cuda_slice::<f32>()?, shape.elem_count());
//!     let mut y = device.alloc_zeros::<f32>(n)?;
//!     saxpy(&device.cuda_stream(), 2.0, x, &mut y, n as u32).map_err(candle_core::Error::wrap)?;
//!     Ok((CudaStorage::wrap_cuda_slice(y, device.clone()), shape))
//! }
//! ```
//!
//! Or candle loads the PTX itself, which is a string: `device.get_or_load_custom_func("saxpy", "my_kernels", saxpy::PTX)`.
//!
//! # Devices
//!
//! [`Device::best`] is a CUDA GPU if this machine has one, else the CPU device; `PTX_DEVICE=cpu|cuda|cuda:N` chooses.
//! The CPU device interprets the PTX, thread by thread, and stops at the first access outside of a buffer with the line
//! of Rust that did it. Its launches return when they have ended; those on a GPU return at once, and
//! [`Buffer::download`] and [`Stream::synchronize`] wait.
//!
//! # Features
//!
//! `cpu`, on by default, brings the CPU device and its interpreter. A library that launches kernels depends on this crate with
//! `default-features = false` and forwards the feature (`cpu = ["ptx-launch/cpu"]`), so that the program decides. Without it
//! `Device::cpu` and its options do not exist, [`Device::best`] is an error where no GPU is, `#[ptx_test]` needs a GPU, and no
//! interpreter is built.
//!
//! `check`, a part of `cpu`, brings the checker of PTX, and with it [`RuntimeModule`]: PTX that is known only while the program runs. Kernels of the
//! macros are checked when they are built.
//!
//! `proved`, off by default, brings the prover into the macros: [`proved`](language#the-contract) in a kernel's attribute. Without it no prover is built.
//!
//! `half`, off by default, brings `f16` and `bf16` of the crate `half` as parameters and elements, and into the prelude. Kernels
//! compute with these types without it.
//!
//! # Errors
//!
//! Nothing panics. An [`Error`] names what was requested, what is possible and what to do; [`Error::kind`] is for programs.
//! After a kernel has failed on a GPU, its context is lost, and every later call fails.

#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod expansion;
#[doc = include_str!("../docs/language.md")]
pub mod language {}
pub mod layouts;
mod macros;
pub mod prelude;

pub use macros::*;
#[doc(inline)]
pub use ptx_runtime::*;

// The example of the package's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

//! The kernel language of `ptx-launch` while a program runs: the same text, the same errors and the same PTX, from a string or a file.
//!
//! ```
//! use ptx_jit::{JitModule, Source};
//! use ptx_runtime::Device;
//!
//! let source = Source::text(
//!     "scale.rs",
//!     r#"
//!     #[ptx_kernel(arch = "sm_80", block = BLOCK, grid = n.div_ceil(BLOCK), requires(x.len() >= n))]
//!     fn scale<const BLOCK: u32>(factor: f32, x: &mut [f32], n: u32) {
//!         let i: u32 = ctaid.x * ntid.x + tid.x;
//!         if i < n {
//!             let at = x.at(i);
//!             let mut value: f32;
//!             ptx! { ld.global.f32 value, [at]; }
//!             value *= factor;
//!             ptx! { st.global.f32 [at], value; }
//!         }
//!     }
//!     "#,
//! );
//! let device = Device::cpu();
//! let module = JitModule::load(&device, &source.with("BLOCK", 128))?;
//! let mut x = device.upload(&[1.0f32, 2.0, 3.0])?;
//! module.kernel("scale")?.launch().value(2.0f32)?.write(&mut x)?.value(3u32)?.run(&device)?;
//! assert_eq!(x.download()?, [2.0, 4.0, 6.0]);
//!
//! let wrong = module.kernel("scale")?.launch().value(2.0f32)?.write(&mut x)?.value(4u32)?.run(&device);
//! assert!(wrong.unwrap_err().to_string().contains("x.len() >= n"));
//! # Ok::<(), ptx_runtime::Error>(())
//! ```
//!
//! [`Program`] is the compiled text alone: PTX, kernels and their parameters. A [`JitModule`] is loaded for a device. Generic arguments are chosen with
//! [`Source::with`], so any instance exists, and not only those of a list.
//!
//! # Host expressions
//!
//! `block`, `grid`, `cluster`, `shared` and `requires` have the grammar and the meaning that they have in a macro: integers have no type, and a result that
//! overflows or divides by zero is an error of the launch. A `const fn` of the text may be called: with constants, or, where its body is `let`s and an
//! expression without branches, with arguments of the launch. Other functions of Rust have no compiler here: such a kernel compiles, and its launch is
//! an error that names the expression. The functions of a `#[ptx_contract] impl` of the text are evaluated, and so may be called with any arguments.
//!
//! # Cache
//!
//! What was compiled is kept on disk, so that the next process of the same program reads it in less than a millisecond: in the folder that `PTX_CACHE`
//! names, else in `ptx` of the user's folder for caches. `PTX_CACHE=off` turns that off. A folder keeps at most 1 GiB and 4096 entries; an entry that is
//! damaged, or that another user may have written, is compiled again. Only on Linux a program finds out that its own compiler was rebuilt, so other systems
//! keep nothing.
//!
//! # Safety
//!
//! On the CPU device every access is checked, so [`run`](JitLaunch::run) takes any kernel. On a GPU it takes a kernel with `unsafe(requires(…))`
//! of a source for which its caller vouches ([`Source::trusted`]); every other launch is [`submit`](JitLaunch::submit), an `unsafe fn`.

mod ahead;
mod cache;
mod explain;
mod host;
mod kernel;
mod launch;
mod maps;
mod module;
mod program;
mod reload;
mod render;
mod scalar;
#[cfg(feature = "transpile")]
mod transpile;
mod tuning;

pub use explain::explain;
pub use kernel::JitKernel;
pub use launch::{JitLaunch, Passed, configure};
pub use module::JitModule;
pub use program::{CompileError, Program, Source};
pub use ptx_expand::program as describe;
pub use reload::Live;
pub use scalar::{Number, Scalar};
#[cfg(feature = "transpile")]
pub use transpile::{Transpiled, transpile};
pub use tuning::Candidate;

//! Matrix products: C = epilogue(A · B), for every shape, layout and alignment.
//!
//! [`gemm`] multiplies; [`Gemm`] adds options. A is M × K, B is K × N, C is M × N; with tensors of three dimensions the first one
//! is the batch. Extents may be zero: with K = 0 the sums are zeros, and without elements of C nothing is launched. Strides are any, so
//! that a transposed operand ([`TensorRef::transposed`](ptx_launch::TensorRef::transposed)) costs nothing, and offsets have 64 bits. An extent is less than 2³¹.
//!
//! ```
//! use ptx_kernels::gemm::{Activation, Gemm, gemm};
//! use ptx_launch::prelude::*;
//! # fn main() -> ptx_launch::Result<()> {
//! let device = Device::cpu();
//! let (m, n, k) = (2, 3, 4);
//! let (a, b) = (device.upload(&[1.0f32; 8])?, device.upload(&[0.5f32; 12])?);
//! let mut c = device.zeros::<f32>(m * n)?;
//! gemm(&device, a.tile([m, k])?, b.tile([k, n])?, c.tile_mut([m, n])?)?;
//! assert_eq!(c.download()?, [2.0; 6]);
//!
//! let bias = device.upload(&[1.0f32, -9.0, 0.0])?;
//! Gemm::new().bias_columns(bias.tile([n])?).activation(Activation::Relu).run(
//!     &device,
//!     a.tile([m, k])?,
//!     b.tile([k, n])?,
//!     c.tile_mut([m, n])?,
//! )?;
//! assert_eq!(c.download()?, [3.0, 0.0, 2.0, 3.0, 0.0, 2.0]);
//! # Ok(())
//! # }
//! ```
//!
//! # Types
//!
//! | A and B | products and sums | C, biases and residual |
//! |---|---|---|
//! | `f32` | `f32`, one rounding for each `fma`; [`Gemm::tf32`] cuts operands to 11 significant bits | `f32` |
//! | `f16` | exact products, `f32` sums | `f16`, `f32` |
//! | `bf16` | exact products, `f32` sums | `bf16`, `f32` |
//! | [`E4m3`](crate::float8::E4m3), [`E5m2`](crate::float8::E5m2) | exact products, `f32` sums | `f16`, `bf16`, `f32` |
//! | `i8` | exact, in `i32`, modulo 2³² | `i32` (without options), `f16`, `bf16`, `f32` |
//!
//! # Error
//!
//! Let S be the sum of the magnitudes of the K products of an element, u = 2⁻²⁴, and K' = K + 32. The sums are off by at most
//! K' · u · S on the ordinary units. Tensor cores add with one bit less and truncate: 4 · K' · u · S. With `tf32` each operand is off by
//! 2⁻¹⁰ of itself (subnormal ones lose more): 2⁻⁹ · S more. Tensor cores of `sm_89` and `sm_90` add products of 8-bit floats with 13 bits behind the point of the
//! largest addend: at most 2⁻¹³ · S more for each of K, and seldom a hundredth of that. The epilogue computes in `f32`, each step with a relative error of 2⁻²³; Φ, the sigmoid and tanh of the
//! activations have an absolute error below 2⁻²¹. C is rounded to nearest even. NaN and infinities propagate as IEEE 754 has it, through
//! activations as PyTorch has it. With `beta` = 0 (the default) C is not read. `e4m3` has no infinities.
//!
//! # Algorithms
//!
//! [`algorithms`] names the compiled kernels: `m{M}n{N}k{K}_{cluster}_{majors}_{family}`, by the tile of C that a block makes, the extent of a stage along K,
//! the blocks of a cluster along M and N, and the dimensions of neighbors in memory of A and B (`x` for any). A cost model picks one of them and a
//! division of K among blocks by shape, layout and device, without allocation:
//!
//! - `simt`, for every device from `sm_75` on and every layout: tiles in shared memory, sums in registers, on the ordinary units (Goto and
//!   van de Geijn, "Anatomy of high-performance matrix multiplication", 2008, with registers, shared memory and the second-level cache
//!   as its levels). For up to eight rows there are kernels without tiles: with `rows` each element of B goes from memory to registers once, whatever
//!   its alignment, and with `runs` 16 bytes at a time where both operands lie along K in aligned runs.
//! - `mma`, from `sm_80` on (8-bit floats from `sm_89` on), for operands whose rows or columns lie in runs of 16 or 4 aligned bytes: a ring
//!   of slices that `cp.async` fills, `ldmatrix`, `mma.sync` (PTX manual, "Warp-level matrix instructions"). Tiles of 128 x 128,
//!   64 x 64, and for up to 16 rows, as in decoding, 16 x 64. 8-bit operands lie along K.
//! - Other operands of tensor cores are copied first, both in one launch: to a workspace, in rows of multiples of 16 bytes. The copy takes as
//!   long as reading and writing the operand once, so that products with few multiplications for each element lose most: 4095 x 4095 x 4095
//!   reaches 0.74 of the aligned rate, 1023 x 1025 x 8189 less than half of it.
//! - On `sm_90`, TMA, `wgmma` and persistent clusters, in four families:
//!   - `generic` has every option, batches, and operands of 16 bits in any major, of others along K. Tiles of 128 x 256 to 64 x 32; for few rows of C,
//!     as in decoding, 16 to 192 rows by 128 or 64 columns, because operands change places. Blocks that share K add their sums up in a fixed
//!     order (the last one of a tile does).
//!   - `static` stores with TMA, for products of `f16` and `bf16` without options, A along K, results of the same type in rows of multiples of 16
//!     bytes, any strides, batches. Tiles of 16 x 64 to 176 x 256, many of widths that are no powers of two, in clusters of up to four blocks. A tile
//!     begins and ends in half of the time that it takes with `generic`: 128 x 11392 x 88 takes 7.6 us instead of 9.0.
//!   - `claimed` and `streamk` store with TMA, too, for large products without options and batches: `bf16` to `bf16`, `f16` to `f16`, `e4m3` to
//!     `bf16`. The order of their sums depends on the placement of blocks, so [`Gemm::deterministic`] leaves them out.
//! - `tcgen05`, on `sm_100`: tensor memory, for products of `f16` and `bf16` without options and batches, both operands along K. No chip has measured it.
//! - Where tiles of `simt` and `mma` are few, blocks share K (split-K). The sums of the parts go through a workspace, and another
//!   kernel adds them up in a fixed order and finishes them.
//!
//! The schedulers over time:
//!
#![doc = include_str!("../docs/figures/gemm_schedulers.svg")]
//!
//! The order of tiles, which [`Gemm::raster`] sets:
//!
#![doc = include_str!("../docs/figures/gemm_order.svg")]
//!
//! The model's times are fitted to random shapes on an H100 (16 bits) and an H200 ([`tuning`]); a thread keeps its last choices, and its last tensor maps.
//!
//! On an H200 at M = N = K = 4096, [`gemm`] reaches, in TFLOP/s: 700 to 810 in `bf16` and 677 in `f16` (the power limit of the card decides), 1336 in `e4m3`,
//! 356 to 368 in `tf32` with operands along K, and 324 to 356 with others, which are copied first. The kernels of `mma` and `simt` reach 217 in `bf16`, 423
//! in `i8`, 115 in `tf32` and 39 in `f32`. In turns with the best of cuBLASLt's algorithms the 34 sizes of `docs/benchmarks` take 1 / 1.037 of its time in
//! `bf16`. Other chips have not been measured.
//!
//! `f32` is multiplied on the ordinary units unless [`Gemm::tf32`] is set. [`Gemm::choose`] returns the choice, and [`Gemm::algorithm`] makes it.
//! Portable kernels are deterministic: the same operands, layouts and device give the same bits. On the CPU device the same kernels are
//! interpreted.
//!
//! # Workspace, graphs, streams, threads
//!
//! A call allocates nothing, unless the [workspace](crate::workspace) of its stream has to grow. Calls may be captured in graphs, if
//! the workspace is large enough before, and come from several threads and go to several streams.

mod access;
mod builder;
mod codes;
mod cost;
mod costs;
mod element;
mod epilogue;
mod instance;
mod launch;
mod maps;
mod mma;
mod pack;
mod params;
mod plan;
mod problem;
mod reduce;
mod search;
mod simt;
mod sm100;
pub(crate) mod sm90;
pub mod tuning;
mod views;

pub use builder::{Activation, Choice, Gemm};
pub use element::{Element, Operand, Output};
pub use instance::algorithms;
#[cfg(feature = "comm")]
pub(crate) use sm90::ClusterIds;

use ptx_launch::{AsStream, IntoTensor, IntoTensorMut, Module, Result};

/// Every module of kernels of this operation, for tools.
pub fn modules() -> impl Iterator<Item = (&'static str, &'static Module)> {
    let modules: [(&str, &'static Module); 8] = [
        ("gemm_reduce", &reduce::kernels::MODULE),
        ("gemm_pack", &pack::kernels::MODULE),
        ("gemm_simt", &simt::kernels::MODULE),
        ("gemm_mma", &mma::kernels::MODULE),
        ("gemm_mma_float8", &mma::float8::kernels::MODULE),
        ("gemm_sm90", &sm90::kernels::MODULE),
        ("gemm_sm90_probe", &sm90::probe::MODULE),
        ("gemm_sm100", &sm100::kernels::MODULE),
    ];
    modules.into_iter()
}

#[doc(hidden)]
pub mod sm90_probe {
    pub const PTX: &str = super::sm90::probe::PTX;
}
#[doc(hidden)]
pub mod sm100_tcgen05 {
    pub const PTX: &str = super::sm100::kernels::PTX;
}

/// C = A · B. A is `[m, k]`, B is `[k, n]`, C is `[m, n]`, or each with a batch in front; any strides.
///
/// The [module](self) has types, error bound, algorithms and rates; [`Gemm`] has options. `ptx-benches` measures it: `bench --filter "gemm bf16"`.
///
/// # Errors
/// [`ErrorKind::Condition`](ptx_launch::ErrorKind::Condition) if the shapes do not fit,
/// [`ErrorKind::WrongDevice`](ptx_launch::ErrorKind::WrongDevice), those of a launch, and
/// [`ErrorKind::OutOfMemory`](ptx_launch::ErrorKind::OutOfMemory) if the stream's workspace has to grow and cannot.
pub fn gemm<'t, T, O, const R: usize>(
    stream: impl AsStream,
    a: impl IntoTensor<'t, T, R>,
    b: impl IntoTensor<'t, T, R>,
    c: impl IntoTensorMut<'t, O, R>,
) -> Result<()>
where
    T: Operand,
    O: Output<T>,
{
    Gemm::new().run(stream, a, b, c)
}

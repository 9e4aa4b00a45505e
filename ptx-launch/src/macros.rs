//! The macros, with examples that need this crate.

pub use ptx_macros::{ptx_contract, ptx_file, ptx_kernel, ptx_module, ptx_part};

/// The instructions of a kernel, or a whole module of PTX.
///
/// ```
/// use ptx_launch::prelude::*;
///
/// ptx! {
///     #[ptx_kernel(block = 32, grid = 1, unsafe(requires(out.len() >= 32)))]
///     pub fn lanes(out: &mut [u32]);
///
///     .version 7.0
///     .target sm_80
///     .address_size 64
///     .visible .entry lanes(.param .u64 out)
///     {
///         .reg .u32 %i;
///         .reg .u64 %at, %offset;
///         ld.param.u64        %at, [out];
///         mov.u32             %i, %tid.x;
///         mul.wide.u32        %offset, %i, 4;
///         add.u64             %at, %at, %offset;
///         st.global.u32       [%at], %i;
///         ret;
///     }
/// }
///
/// fn main() -> ptx_launch::Result<()> {
///     let device = Device::cpu();
///     let mut out = device.zeros::<u32>(32)?;
///     lanes(&device, &mut out)?;
///     assert_eq!(out.download()?[31], 31);
///     Ok(())
/// }
/// ```
pub use ptx_macros::ptx;

/// A test of kernels, under several interleavings of their threads.
///
/// ```
/// use ptx_launch::prelude::*;
///
/// #[ptx_kernel(arch = "sm_80", block = 64, grid = 1, unsafe(requires(x.len() >= 64, out.len() >= 1)))]
/// pub fn sum(x: &[u32], out: &mut [u32]) {
///     let at: u64 = x + wide(tid.x) * 4;
///     let v: u32;
///     ptx! { ld.global.u32 v, [at]; }
///     let total: u32 = block::reduce_sum::<2, u32>(v);
///     if tid.x == 0 {
///         ptx! { st.global.u32 [out], total; }
///     }
/// }
///
/// #[ptx_test(seeds = 8)]
/// fn sums_are_right(device: &Device) -> ptx_launch::Result<()> {
///     let mut out = device.zeros::<u32>(1)?;
///     sum(device, &device.upload(&[3; 64])?, &mut out)?;
///     assert_eq!(out.download()?, [192]);
///     Ok(())
/// }
/// ```
pub use ptx_macros::ptx_test;

/// Lets a struct be passed to kernels by value. The attribute of a kernel, or of a module of kernels, names it: `params(Affine)`. A macro sees no
/// struct of another crate, so such a struct is named with its fields: `params(Affine { scale: f32, offset: f32 })`.
///
/// ```
/// use ptx_launch::prelude::*;
///
/// #[derive(Clone, Copy, KernelParam)]
/// #[repr(C)]
/// pub struct Affine {
///     pub scale: f32,
///     pub offset: f32,
/// }
///
/// #[ptx_kernel(arch = "sm_80", block = 32, grid = 1, params(Affine), unsafe(requires(x.len() >= 32)))]
/// pub fn apply(x: &mut [f32], map: Affine) {
///     let at: u64 = x + wide(tid.x) * 4;
///     let v: f32;
///     ptx! {
///         ld.global.f32   v, [at];
///         fma.rn.f32      v, v, map.scale, map.offset;
///         st.global.f32   [at], v;
///     }
/// }
///
/// fn main() -> ptx_launch::Result<()> {
///     let device = Device::cpu();
///     let mut x = device.upload(&[2.0f32; 32])?;
///     apply(&device, &mut x, Affine { scale: 3.0, offset: 1.0 })?;
///     assert_eq!(x.download()?[0], 7.0);
///     Ok(())
/// }
/// ```
pub use ptx_macros::KernelParam;

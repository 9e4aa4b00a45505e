//! A launch on a CUDA device.
#![allow(unsafe_code, reason = "calls of the driver")]

use super::attributes::{self, Attributes};
use super::fit::Shape;
use crate::config::Config;
use crate::context::bound;
use crate::driver::{Code, Driver};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::load::CudaKernel;
use crate::param::Arg;
use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUstream;
use std::ffi::c_void;

/// Clusters of up to this many blocks run on every device that has clusters.
const PORTABLE_CLUSTER: u32 = 8;

/// # Safety
/// As [`super::launch`].
#[inline]
pub(super) unsafe fn launch(kernel: &Kernel, stream: &CudaStream, config: &Config, args: &[Arg<'_>]) -> Result<()> {
    let context = stream.context();
    bound(context)?;
    let loaded = kernel.in_context(context)?;
    let (driver, shape) = (loaded.driver, loaded.fit(config, kernel)?);
    if shape.is_empty() {
        return Ok(());
    }
    loaded.grant_shared(driver, shape.shared.into())?;
    let config = Config { pdl: loaded.overlaps(config.pdl), ..*config };
    // SAFETY: passed on; the context is current.
    match unsafe { submit(driver, loaded, stream.cu_stream(), &shape, &config, args)? } {
        0 => Ok(()),
        code => Err(refused(driver, code, kernel, &shape)),
    }
}

/// Calls `ask` with the `CUlaunchConfig` of a launch.
pub(crate) fn cluster_config<R>(config: &Config, shape: &Shape, ask: impl FnOnce(*const c_void) -> R) -> R {
    let attributes = Attributes::new(config, shape);
    let launch_config = attributes.launch_config(shape, std::ptr::null_mut());
    ask((&raw const launch_config).cast())
}

/// # Safety
/// As [`super::launch`], and the kernel's context is current.
#[inline]
unsafe fn submit(
    driver: &Driver,
    kernel: &CudaKernel,
    stream: CUstream,
    shape: &Shape,
    config: &Config,
    args: &[Arg<'_>],
) -> Result<Code> {
    // An `Arg` is a pointer to an argument, so that its slice is the array that the driver takes. It only reads it.
    let args: *mut *mut c_void = args.as_ptr().cast_mut().cast();
    if attributes::needed(config) {
        // SAFETY: passed on.
        return unsafe { submit_extended(driver, kernel, stream, shape, config, args) };
    }
    let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
    let function = kernel.function.0;
    // SAFETY: the function is loaded in the current context, to which the stream belongs; the caller vouches for the
    // arguments, which the driver copies before it returns.
    Ok(unsafe {
        (driver.cuLaunchKernel)(function, gx, gy, gz, bx, by, bz, shape.shared, stream, args, std::ptr::null_mut())
    })
}

/// # Safety
/// As [`submit`].
unsafe fn submit_extended(
    driver: &Driver,
    kernel: &CudaKernel,
    stream: CUstream,
    shape: &Shape,
    config: &Config,
    args: *mut *mut c_void,
) -> Result<Code> {
    let launch = driver.cuLaunchKernelEx()?;
    if shape.cluster.is_some_and(|cluster| cluster.iter().product::<u32>() > PORTABLE_CLUSTER) {
        kernel.allow_wide_clusters(driver)?;
    }
    let attributes = Attributes::new(config, shape);
    let launch_config = attributes.launch_config(shape, stream);
    // SAFETY: as in `submit`; the configuration and its attributes live past the call.
    Ok(unsafe { launch((&raw const launch_config).cast(), kernel.function.0, args, std::ptr::null_mut()) })
}

#[cold]
fn refused(driver: &Driver, code: Code, kernel: &Kernel, shape: &Shape) -> Error {
    let Shape { grid, block, cluster, shared } = shape;
    let cluster = cluster.map_or_else(String::new, |cluster| format!(", clusters {cluster:?}"));
    let asked = format!("`{}` is launched (grid {grid:?}, block {block:?}{cluster}, {shared} bytes)", kernel.entry);
    driver.error(code, &asked)
}

//! One launch: arguments on the caller's stack, checks by comparison, one call of the driver. The two kinds of device
//! stand in `cuda` and `cpu`.
#![allow(unsafe_code, reason = "a launch trusts its caller about the arguments")]

mod attributes;
#[cfg(feature = "cpu")]
mod counted;
#[cfg(feature = "cpu")]
mod cpu;
mod cuda;
mod fit;
#[cfg(feature = "cpu")]
mod program;

#[cfg(feature = "cpu")]
pub(crate) use counted::{Launched, launched_by};
pub(crate) use cuda::cluster_config;
pub(crate) use fit::{Bounds, Shape};
#[cfg(feature = "cpu")]
pub(crate) use program::CpuProgram;

use crate::config::Config;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::param::Arg;
use crate::stream::{StreamKind, StreamRef};

/// Submits `kernel` with these arguments. Allocates nothing; loads the kernel if this context has not seen it.
///
/// # Errors
/// Those of loading, [`ErrorKind::Limits`](crate::ErrorKind::Limits) for a configuration that the device does not take,
/// and errors of the driver. On the CPU device also what the kernel did wrong.
///
/// # Safety
/// `args` has one argument for each of the kernel's parameters, in order, of its size; what the kernel does with them is
/// sound: the memory is large enough, and nobody else uses what it writes.
#[inline]
pub unsafe fn launch(kernel: &Kernel, stream: StreamRef<'_>, config: &Config, args: &[Arg<'_>]) -> Result<()> {
    match stream.kind {
        // SAFETY: passed on.
        StreamKind::Cuda(stream) => unsafe { cuda::launch(kernel, stream, config, args) },
        // SAFETY: passed on.
        #[cfg(feature = "cpu")]
        StreamKind::Cpu(device) => unsafe { cpu::launch(kernel, device, config, args) },
        #[cfg(not(feature = "cpu"))]
        StreamKind::Cpu(device) => device.never(),
    }
}

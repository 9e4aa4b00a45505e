//! Kernels that are loaded before their first launch, in parallel threads: the driver assembles one text on one thread.

use super::{CudaModule, JitOptions, choose};
use crate::context::bound;
use crate::device::cuda::Limits;
use crate::device::{Device, Inner};
use crate::driver::Driver;
use crate::error::Result;
use crate::kernel::{Kernel, Module};
use cudarc::driver::CudaContext;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};

impl Module {
    /// Loads every kernel of the module, in parallel threads, so that no launch on the device assembles one: for all instances of a generic
    /// kernel, and for the caches on disk (`PTX_CACHE`, and the driver's own) of later processes. On the CPU device there is nothing to do.
    ///
    /// # Errors
    /// Those of [`Kernel::load`]; the other kernels are loaded all the same.
    pub fn warm(&'static self, device: &Device) -> Result<()> {
        let Inner::Cuda(cuda) = &device.0 else { return Ok(()) };
        let context = cuda.context();
        bound(context)?;
        let limits = Limits::read(context)?;
        let driver = Driver::get()?;
        let variant = choose::best(self, limits.arch, driver.version(), &limits.name)?;
        let entries = self.entry_names(self.text(variant)?);
        if entries.len() < 2 || choose::cubin(variant, limits.arch).is_some() {
            return self.in_context(context, &JitOptions::new(), entries.first().copied()).map(drop);
        }
        in_parallel(&entries, |entry| {
            bound(context)?;
            self.load_beside(context, entry)
        })
    }

    /// Loads an entry without keeping other threads from loading theirs.
    fn load_beside(&self, context: &Arc<CudaContext>, entry: &'static str) -> Result<()> {
        let is =
            |module: &CudaModule| module.home.is(context) && (module.entry.is_none() || module.entry == Some(entry));
        if self.loaded.find(is).is_none() {
            let made = CudaModule::load(self, context, &JitOptions::new(), Some(entry))?;
            self.loaded.find_or_make(is, || Ok(made))?;
        }
        Ok(())
    }
}

/// Loads kernels in parallel threads, so that no launch on the device assembles one: those of a service before its first request. Machine code of the
/// driver is kept on disk, too: see `PTX_CACHE`. On the CPU device there is nothing to do.
///
/// ```
/// # use ptx_launch::prelude::*;
/// # #[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires(x.len() >= 32)))]
/// # fn fill(x: &mut [u32]) { let (at, value): (u64, u32) = (x + wide(tid.x) * 4, tid.x); ptx! { st.global.u32 [at], value; } }
/// ptx_launch::warm(&Device::best()?, &[&fill::KERNEL])?;
/// # Ok::<(), ptx_launch::Error>(())
/// ```
///
/// # Errors
/// Those of [`Kernel::load`], of the first kernel that has one; the others are loaded all the same.
pub fn warm(device: &Device, kernels: &[&'static Kernel]) -> Result<()> {
    let Inner::Cuda(cuda) = &device.0 else { return Ok(()) };
    in_parallel(kernels, |kernel| {
        bound(cuda.context())?;
        kernel.module.load_beside(cuda.context(), kernel.entry)?;
        kernel.load(device)
    })
}

/// Calls `work` with each item, on as many threads as the machine runs at once. The first error in their order.
fn in_parallel<T: Copy + Sync>(items: &[T], work: impl Fn(T) -> Result<()> + Sync) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    let (next, errors) = (Mutex::new(items.iter().enumerate()), Mutex::new(Vec::new()));
    let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((at, item)) = take() {
                    if let Err(error) = work(*item) {
                        errors.lock().unwrap_or_else(PoisonError::into_inner).push((at, error));
                    }
                }
            });
        }
    });
    let errors = errors.into_inner().unwrap_or_else(PoisonError::into_inner);
    errors.into_iter().min_by_key(|(at, _)| *at).map_or(Ok(()), |(_, error)| Err(error))
}

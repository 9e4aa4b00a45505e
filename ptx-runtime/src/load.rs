//! Loading: which variant of a module a device takes, the module's handle, the kernel's handle and figures. Once per
//! context; a second launch finds what the first one loaded without a lock.
#![allow(unsafe_code, reason = "handles of the driver")]

mod choose;
mod contract;
mod disk;
mod figures;
mod image;
mod jit;
mod log;
mod occupancy;
mod options;
mod report;
#[cfg(feature = "check")]
mod unload;
mod warm;

pub use figures::Figures;
pub(crate) use log::explain;
pub use occupancy::Occupancy;
pub use options::{CacheMode, JitOptions, Optimization};
pub use report::{Loaded, Source};
pub use warm::warm;

use crate::config::Config;
use crate::device::cuda::Limits;
use crate::driver::{Driver, Handle};
use crate::error::Result;
use crate::kernel::{Kernel, Module, Variant};
use crate::launch::{Bounds, Shape};
use cudarc::driver::CudaContext;
use cudarc::driver::sys::{CUfunction, CUmodule};
use std::ffi::CString;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// A module, or one of its entries, in a context.
#[derive(Debug)]
pub(crate) struct CudaModule {
    home: Home,
    /// The entry that was assembled alone, if it was.
    entry: Option<&'static str>,
    handle: Handle<CUmodule>,
    limits: Arc<Limits>,
    variant: &'static Variant,
    options: JitOptions,
    source: Source,
    /// What was taken, and why.
    reason: String,
    /// The assembler's log, with lines of Rust.
    log: String,
}

/// An entry of a module in a context, with all that a launch must know.
#[derive(Debug)]
pub(crate) struct CudaKernel {
    home: Home,
    pub(crate) driver: &'static Driver,
    pub(crate) function: Handle<CUfunction>,
    limits: Arc<Limits>,
    bounds: Bounds,
    figures: Figures,
    /// See [`Kernel::waits_in`].
    waits: Option<bool>,
    /// Dynamic shared memory that the kernel is opted in to so far, in bytes.
    granted: AtomicI64,
    /// Nonzero if clusters of more than 8 blocks are allowed already.
    wide_clusters: AtomicI64,
}

/// The context that something was loaded in. The weak reference keeps the address from being used again, so that equal
/// addresses mean the same context, alive or not.
#[derive(Debug)]
pub(crate) struct Home(Weak<CudaContext>);

impl Home {
    pub(crate) fn of(context: &Arc<CudaContext>) -> Home {
        Home(Arc::downgrade(context))
    }

    #[inline]
    pub(crate) fn is(&self, context: &Arc<CudaContext>) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(context))
    }
}

/// Launch limits from the device and from the kernel's registers and memory.
fn bounds(limits: &Limits, figures: &Figures) -> Bounds {
    Bounds {
        grid: limits.grid,
        block: limits.block,
        threads: limits.threads,
        kernel_threads: figures.max_threads.into(),
        shared: limits.shared,
        kernel_shared: figures.shared.into(),
        cluster: if limits.arch.number >= 90 { 16 } else { 1 },
    }
}

impl Kernel {
    /// The entry in this context, loaded if it is not yet. `context` is current.
    #[inline]
    pub(crate) fn in_context(&self, context: &Arc<CudaContext>) -> Result<&CudaKernel> {
        match self.on_cuda.find(|kernel| kernel.home.is(context)) {
            Some(kernel) => Ok(kernel),
            None => self.on_cuda.find_or_make(|kernel| kernel.home.is(context), || CudaKernel::load(self, context)),
        }
    }
}

impl Module {
    /// The address and the bytes of a variable in this context, which is current; the module is loaded if it is not yet.
    pub(crate) fn variable(&self, context: &Arc<CudaContext>, name: &str) -> Result<(u64, usize)> {
        let (driver, module) = (Driver::get()?, self.in_context(context, &JitOptions::new(), None)?);
        let asked = format!("the variable `{name}` is looked up in module `{}`", self.name);
        let (mut address, mut bytes, name) = (0, 0, CString::new(name).unwrap_or_default());
        // SAFETY: the module is loaded in the current context; the name ends in a zero.
        let code =
            unsafe { (driver.cuModuleGetGlobal_v2)(&raw mut address, &raw mut bytes, module.handle.0, name.as_ptr()) };
        driver.check(code, &asked).map(|()| (address, bytes))
    }

    /// The module in this context, or an entry of it; if it is not loaded yet, it is with these options.
    fn in_context(
        &self,
        context: &Arc<CudaContext>,
        options: &JitOptions,
        entry: Option<&'static str>,
    ) -> Result<&CudaModule> {
        let is = |module: &CudaModule| module.home.is(context) && (module.entry.is_none() || module.entry == entry);
        match self.loaded.find(is) {
            Some(module) => Ok(module),
            None => self.loaded.find_or_make(is, || CudaModule::load(self, context, options, entry)),
        }
    }
}

impl CudaModule {
    fn load(
        module: &Module,
        context: &Arc<CudaContext>,
        options: &JitOptions,
        entry: Option<&'static str>,
    ) -> Result<CudaModule> {
        let driver = Driver::get()?;
        let limits = Arc::new(Limits::read(context)?);
        let variant = choose::best(module, limits.arch, driver.version(), &limits.name)?;
        let jit = jit::Jit { driver, module, variant, limits: &limits, options };
        let loaded = driver.beside_captures(|| jit.load(entry))?;
        let (home, handle, entry) = (Home::of(context), Handle(loaded.handle), loaded.entry);
        let log = explain(&loaded.log, (module, variant), "");
        let log = log.trim_start_matches('\n').to_owned();
        let (source, reason) = (loaded.source, loaded.reason);
        Ok(CudaModule { home, entry, handle, limits, variant, options: *options, source, reason, log })
    }
}

impl CudaKernel {
    /// Returns true if a launch may begin before the one in front of it has ended: on a device that has programmatic dependent launches, if
    /// the code there waits for it. For a kernel that waits in no variant, `wanted` counts.
    #[inline]
    pub(crate) fn overlaps(&self, wanted: bool) -> bool {
        self.limits.arch.number >= 90 && self.waits.unwrap_or(wanted)
    }

    fn load(kernel: &Kernel, context: &Arc<CudaContext>) -> Result<CudaKernel> {
        let driver = Driver::get()?;
        let module = kernel.module.in_context(context, &JitOptions::new(), Some(kernel.entry))?;
        let asked = format!("the entry `{}` is looked up in module `{}`", kernel.entry, kernel.module.name);
        let name = CString::new(kernel.entry).unwrap_or_default();
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded in the current context; the name ends in a zero.
        let code = unsafe { (driver.cuModuleGetFunction)(&raw mut function, module.handle.0, name.as_ptr()) };
        driver.check(code, &asked)?;
        let figures = Figures::read(driver, function, kernel.entry, &module.log)?;
        Ok(CudaKernel {
            home: Home::of(context),
            driver,
            function: Handle(function),
            limits: module.limits.clone(),
            bounds: bounds(&module.limits, &figures),
            waits: kernel.waits_in(module.variant),
            figures,
            granted: AtomicI64::new(48 * 1024),
            wide_clusters: AtomicI64::new(0),
        })
    }

    /// The configuration as the driver takes it.
    #[inline]
    pub(crate) fn fit(&self, config: &Config, kernel: &Kernel) -> Result<Shape> {
        self.bounds.fit(config, kernel.entry, &*self.limits)
    }

    /// Lets the kernel use `bytes` of dynamic shared memory; above 48 KiB the driver requires a call, once.
    #[inline]
    pub(crate) fn grant_shared(&self, driver: &Driver, bytes: i64) -> Result<()> {
        let total = bytes + i64::from(self.figures.shared);
        if total <= self.granted.load(Relaxed) { Ok(()) } else { self.opt_in_shared(driver, bytes) }
    }

    #[cold]
    fn opt_in_shared(&self, driver: &Driver, bytes: i64) -> Result<()> {
        let most = self.limits.shared - i64::from(self.figures.shared);
        self.set(driver, figures::MAX_DYNAMIC_SHARED, most.max(bytes), "more than 48 KiB of shared memory is allowed")?;
        self.granted.store(self.limits.shared, Relaxed);
        Ok(())
    }

    /// Lets the kernel run in clusters of more than the 8 blocks that every device takes.
    #[cold]
    pub(crate) fn allow_wide_clusters(&self, driver: &Driver) -> Result<()> {
        if self.wide_clusters.load(Relaxed) == 0 {
            self.set(driver, figures::NON_PORTABLE_CLUSTER, 1, "clusters of more than 8 blocks are allowed")?;
            self.wide_clusters.store(1, Relaxed);
        }
        Ok(())
    }

    fn set(&self, driver: &Driver, attribute: i32, value: i64, asked: &str) -> Result<()> {
        let value = i32::try_from(value).unwrap_or(i32::MAX);
        // SAFETY: the function is loaded in the current context.
        driver.check(unsafe { (driver.cuFuncSetAttribute)(self.function.0, attribute, value) }, asked)
    }
}

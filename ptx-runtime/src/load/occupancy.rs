//! Loading ahead, and what a kernel takes of a device: figures and occupancy.
#![allow(unsafe_code, reason = "calls of the driver")]

use super::options::JitOptions;
use super::{CudaKernel, CudaModule, Figures};
use crate::config::Config;
use crate::context::bound;
use crate::device::{Device, Inner};
use crate::driver::Driver;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::Kernel;
use crate::launch::{Shape, cluster_config};

/// Occupancy of a device by a kernel with a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupancy {
    /// Blocks that a multiprocessor runs at the same time.
    pub blocks: u32,
    /// Threads that a multiprocessor runs at the same time.
    pub threads: u32,
    /// Multiprocessors of the device.
    pub multiprocessors: u32,
    /// Clusters that the whole device runs at the same time, if the configuration has clusters.
    pub clusters: Option<u32>,
}

impl Kernel {
    /// Loads it, so that the first launch does not. It is assembled without the other kernels of its module, unless these share variables
    /// with it. On the CPU device there is nothing to do.
    ///
    /// # Errors
    /// [`ErrorKind::NoVariant`], [`ErrorKind::DriverTooOld`], or [`ErrorKind::Load`] with the assembler's message.
    pub fn load(&self, device: &Device) -> Result<()> {
        match &device.0 {
            Inner::Cuda(_) => self.on(device).map(drop),
            Inner::Cpu(_) => Ok(()),
        }
    }

    /// As [`load`](Kernel::load), with options of the driver's assembler: before the first launch, as a kernel is loaded once for a
    /// context. On the CPU device there is nothing to do.
    ///
    /// To compare options in one process, load into several contexts:
    /// `Device::from_cuda(&CudaContext::new(0)?)` is a new one each time.
    ///
    /// # Errors
    /// Those of [`Kernel::load`], and [`ErrorKind::BadOption`] if it was loaded with other options before.
    pub fn load_with(&self, device: &Device, options: &JitOptions) -> Result<()> {
        let Inner::Cuda(cuda) = &device.0 else { return Ok(()) };
        bound(cuda.context())?;
        let module = self.module.in_context(cuda.context(), options, Some(self.entry))?;
        if module.options == *options { self.on(device).map(drop) } else { Err(other_options(self, module, options)) }
    }

    /// Its resources: registers, shared memory, local memory.
    ///
    /// # Errors
    /// Those of [`Kernel::load`]; [`ErrorKind::Unsupported`] on the CPU device, which has no registers.
    pub fn figures(&self, device: &Device) -> Result<Figures> {
        Ok(self.on(device)?.figures)
    }

    /// Number of blocks of this configuration that run at the same time.
    ///
    /// # Errors
    /// Those of [`Kernel::figures`], and [`ErrorKind::Limits`] for a configuration that the device does not take.
    pub fn occupancy(&self, device: &Device, config: &Config) -> Result<Occupancy> {
        let loaded = self.on(device)?;
        let (driver, shape) = (loaded.driver, loaded.fit(config, self)?);
        loaded.grant_shared(driver, shape.shared.into())?;
        let threads = shape.block.iter().product::<u32>();
        let mut blocks = 0;
        let size = threads.try_into().unwrap_or(i32::MAX);
        // SAFETY: writes one integer; the function is loaded in the current context.
        let code = unsafe {
            (driver.cuOccupancyMaxActiveBlocksPerMultiprocessor)(
                &raw mut blocks,
                loaded.function.0,
                size,
                shape.shared as usize,
            )
        };
        driver.check(code, "the occupancy of a kernel is asked for")?;
        let blocks = u32::try_from(blocks).unwrap_or(0);
        let clusters = shape.cluster.map(|_| clusters(driver, loaded, config, &shape)).transpose()?;
        Ok(Occupancy { blocks, threads: blocks * threads, multiprocessors: loaded.limits.multiprocessors, clusters })
    }

    fn on(&self, device: &Device) -> Result<&CudaKernel> {
        let Inner::Cuda(device) = &device.0 else { return Err(no_registers(self)) };
        bound(device.context())?;
        self.in_context(device.context())
    }

    /// Its module, or its part of it, loaded.
    pub(super) fn module_on(&self, device: &Device) -> Result<&CudaModule> {
        let Inner::Cuda(device) = &device.0 else { return Err(no_registers(self)) };
        bound(device.context())?;
        self.module.in_context(device.context(), &JitOptions::new(), Some(self.entry))
    }
}

#[cold]
fn other_options(kernel: &Kernel, module: &CudaModule, options: &JitOptions) -> Error {
    Error::new(ErrorKind::BadOption, format!("`{}` is loaded with {options}", kernel.entry))
        .possible(format!("it is loaded in this context already, with {}", module.options))
        .help(
            "load it before its first launch, and before kernels that share variables with it, or into another context",
        )
}

fn clusters(driver: &Driver, kernel: &CudaKernel, config: &Config, shape: &Shape) -> Result<u32> {
    let ask = driver.cuOccupancyMaxActiveClusters()?;
    let mut count = 0;
    let code = cluster_config(config, shape, |launch| {
        // SAFETY: writes one integer; the configuration lives past the call.
        unsafe { ask(&raw mut count, kernel.function.0, launch) }
    });
    driver.check(code, "the number of clusters is asked for")?;
    Ok(u32::try_from(count).unwrap_or(0))
}

#[cold]
fn no_registers(kernel: &Kernel) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the figures of `{}` on the CPU device are asked for", kernel.entry))
        .possible("a CUDA device assembles the kernel and reports registers, memory and occupancy")
}

//! The history of a loaded kernel: its variant, its source, and the assembler's log.

use crate::device::Device;
use crate::error::Result;
use crate::kernel::Kernel;

/// The origin of a loaded kernel: see [`Kernel::loaded`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loaded {
    /// The target of the variant that was taken: `sm_90a`.
    pub arch: &'static str,
    /// Source of the machine code.
    pub source: Source,
    /// What was taken, and why: `machine code for sm_90a`, or `PTX for sm_80, because the program has machine code for sm_90a alone`.
    pub reason: String,
    /// ptxas' log of the module: registers, spills, warnings, with the lines of Rust for those that name a line of
    /// the PTX. Empty where the driver had the machine code in a cache of its own.
    pub log: String,
}

/// Source of machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Embedded when the program was built: `cubin` in the kernel's attribute, or `PTX_EMBED`.
    Embedded,
    /// From the cache on disk, `PTX_CACHE`.
    Cached,
    /// The driver assembled the PTX, or took it from its own cache.
    Assembled,
}

impl Kernel {
    /// The origin of its code on this device; loads it if necessary.
    ///
    /// # Errors
    /// Those of [`Kernel::load`]; [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) on the CPU device, which
    /// assembles nothing.
    pub fn loaded(&self, device: &Device) -> Result<Loaded> {
        let module = self.module_on(device)?;
        let (reason, log) = (module.reason.clone(), module.log.clone());
        Ok(Loaded { arch: module.variant.arch, source: module.source, reason, log })
    }

    /// What the device runs, and why: machine code that the program has for the chip, else that for an earlier chip of its generation, else
    /// what the driver makes of the PTX. Loads the kernel if necessary.
    ///
    /// # Errors
    /// As [`Kernel::loaded`].
    pub fn loaded_from(&self, device: &Device) -> Result<String> {
        let module = self.module_on(device)?;
        let cached = if module.source == Source::Cached { ", from PTX_CACHE" } else { "" };
        Ok(format!("{}{cached}", module.reason))
    }
}

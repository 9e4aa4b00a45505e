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
    /// ptxas' log of the module: registers, spills, warnings, with the lines of Rust for those that name a line of
    /// the PTX. Empty where the driver had the machine code in a cache of its own.
    pub log: String,
}

/// Source of machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Embedded when the program was built: `cubin` in the kernel's attribute, or `PTX_EMBED=always`.
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
        Ok(Loaded { arch: module.variant.arch, source: module.source, log: module.log.clone() })
    }
}

//! The CPU device of a build without the feature `cpu`: types without values, so that no code runs for it.

use crate::error::{Error, ErrorKind, Result};
use std::fmt;

/// No value has this type.
#[derive(Clone, Copy)]
enum Never {}

impl Never {
    fn never(self) -> ! {
        match self {}
    }
}

/// A CPU device; none exists.
#[derive(Clone)]
pub(crate) struct CpuDevice(Never);

impl fmt::Debug for CpuDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl CpuDevice {
    /// The code after a device that does not exist.
    pub(crate) fn never(&self) -> ! {
        self.0.never()
    }

    pub(crate) fn name(&self) -> &'static str {
        self.0.never()
    }

    pub(crate) fn addr(&self) -> usize {
        self.0.never()
    }

    pub(crate) fn is(&self, _: &CpuDevice) -> bool {
        self.0.never()
    }

    pub(crate) fn reaches(&self, _: &CpuDevice) -> bool {
        self.0.never()
    }

    pub(crate) fn finish(&self) -> Result<()> {
        self.0.never()
    }

    pub(crate) fn read(&self, _: u64, _: &mut [u8]) -> Result<()> {
        self.0.never()
    }

    pub(crate) fn write(&self, _: u64, _: &[u8]) -> Result<()> {
        self.0.never()
    }

    pub(crate) fn copy(&self, _: u64, _: u64, _: usize) -> Result<()> {
        self.0.never()
    }

    pub(crate) fn allocate(&self, _: usize) -> Result<CpuMemory> {
        self.0.never()
    }
}

/// An allocation of a CPU device; none exists.
pub(crate) struct CpuMemory(Never);

impl CpuMemory {
    pub(crate) fn device(&self) -> &CpuDevice {
        self.0.never()
    }

    pub(crate) fn used_address(&self) -> u64 {
        self.0.never()
    }

    pub(crate) fn read(&self, _: usize, _: &mut [u8]) -> Result<()> {
        self.0.never()
    }

    pub(crate) fn write(&self, _: usize, _: &[u8]) -> Result<()> {
        self.0.never()
    }

    pub(crate) fn clear(&self) -> Result<()> {
        self.0.never()
    }
}

/// The error when a program requests it.
#[cold]
pub(super) fn absent() -> Error {
    Error::new(ErrorKind::Unsupported, "the CPU device is not part of this program")
        .possible("`cuda`, or `cuda:N` with the ordinal of a GPU")
        .help("build with the feature `cpu` of ptx-launch, which is on by default")
}

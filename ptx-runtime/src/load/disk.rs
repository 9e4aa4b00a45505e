//! Cubins on disk, so that a program's next start does not assemble its kernels again. Off unless `PTX_CACHE` names a folder.

use super::options::JitOptions;
use crate::device::cuda::Limits;
use crate::disk::{self, Entry};
use crate::driver::Driver;

/// The place of one cubin.
pub(super) struct Cache(Entry);

/// A cubin and its log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) cubin: Vec<u8>,
    /// The assembler's messages.
    pub(super) log: String,
}

impl Cache {
    /// The place of the cubin of a text for a device, a driver and options, if there is a cache.
    pub(super) fn of(driver: &Driver, limits: &Limits, ptx: &str, options: &JitOptions) -> Option<Cache> {
        let folder = disk::folder()?;
        let (major, minor) = driver.version();
        let key = format!("ptx-launch cubin 3\ndriver {major}.{minor}\n{}\n{options}\n{ptx}\0", limits.arch);
        Some(Cache(Entry::at(&folder, "cubin", key.into_bytes())))
    }

    /// The cubin, if it is there.
    pub(super) fn read(&self) -> Option<Kept> {
        self.0.read().and_then(|bytes| Kept::parse(&bytes))
    }

    /// Keeps it.
    pub(super) fn write(&self, kept: &Kept) {
        self.0.write(&kept.to_bytes());
    }
}

impl Kept {
    /// The log, a zero, the cubin.
    fn to_bytes(&self) -> Vec<u8> {
        [self.log.as_bytes(), &[0], &self.cubin].concat()
    }

    fn parse(bytes: &[u8]) -> Option<Kept> {
        let end = bytes.iter().position(|byte| *byte == 0)?;
        let (log, cubin) = (bytes.get(..end)?, bytes.get(end + 1..)?);
        let kept = Kept { cubin: cubin.to_vec(), log: String::from_utf8_lossy(log).into_owned() };
        (!cubin.is_empty()).then_some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cubin_has_its_log() {
        let kept = Kept { cubin: b"cubin\0\0".to_vec(), log: "no spills".to_owned() };
        assert_eq!(Kept::parse(&kept.to_bytes()), Some(kept));
        assert_eq!((Kept::parse(b"log\0"), Kept::parse(b"log")), (None, None));
    }
}

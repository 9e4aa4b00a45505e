//! Cubins on disk, so that a program's next start does not assemble its kernels again. Off unless `PTX_CACHE` names a
//! folder. A file holds its whole key, so that it is never taken for another one; what cannot be read or written is as
//! if it were not there.

use crate::device::cuda::Limits;
use crate::driver::Driver;
use crate::kernel::Variant;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// The environment variable with the folder.
const FOLDER: &str = "PTX_CACHE";

/// The place of one cubin.
pub(super) struct Cache {
    file: PathBuf,
    /// Everything that the cubin depends on.
    key: Vec<u8>,
}

impl Cache {
    /// Where the cubin of a text for a device and a driver is, if there is a cache.
    pub(super) fn of(driver: &Driver, limits: &Limits, variant: &Variant) -> Option<Cache> {
        let folder = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty())?;
        let (major, minor) = driver.version();
        let key = format!("ptx-launch cubin 1\ndriver {major}.{minor}\n{}\n{}\0", limits.arch, variant.ptx);
        Some(Cache::at(Path::new(&folder), key.into_bytes()))
    }

    fn at(folder: &Path, key: Vec<u8>) -> Cache {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        Cache { file: folder.join(format!("{:016x}.cubin", hasher.finish())), key }
    }

    /// The cubin, if it is there.
    pub(super) fn read(&self) -> Option<Vec<u8>> {
        let bytes = std::fs::read(&self.file).ok()?;
        bytes.strip_prefix(self.key.as_slice()).filter(|cubin| !cubin.is_empty()).map(<[u8]>::to_vec)
    }

    /// Keeps it: under another name first, so that nobody reads half of it.
    pub(super) fn write(&self, cubin: &[u8]) {
        let unfinished = self.file.with_extension(format!("{}.tmp", std::process::id()));
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let written = std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&unfinished, [self.key.as_slice(), cubin].concat()))
            .and_then(|()| std::fs::rename(&unfinished, &self.file));
        if written.is_err() {
            // Nothing is kept, and the next start assembles again.
            let _ = std::fs::remove_file(&unfinished);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("ptx-launch-cache-{}", std::process::id()));
        let (one, two) = (Cache::at(&folder, b"one\0".to_vec()), Cache::at(&folder, b"two\0".to_vec()));
        assert_eq!(one.read(), None);
        one.write(b"cubin");
        assert_eq!((one.read(), two.read()), (Some(b"cubin".to_vec()), None));
        let clash = Cache { file: one.file.clone(), key: b"two\0".to_vec() };
        assert_eq!(clash.read(), None);
        std::fs::write(&one.file, b"on").unwrap();
        assert_eq!(one.read(), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

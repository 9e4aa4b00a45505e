//! Cubins on disk, so that a program's next start does not assemble its kernels again. Off unless `PTX_CACHE` names a
//! folder. A file holds its whole key, so that it is never taken for another one; what cannot be read or written is as
//! if it were not there.

use super::options::JitOptions;
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

/// What is kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) cubin: Vec<u8>,
    /// What the assembler said.
    pub(super) log: String,
}

impl Cache {
    /// Where the cubin of a text for a device, a driver and options is, if there is a cache.
    pub(super) fn of(driver: &Driver, limits: &Limits, variant: &Variant, options: &JitOptions) -> Option<Cache> {
        let folder = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty())?;
        let (major, minor) = driver.version();
        let key = format!("ptx-launch cubin 2\ndriver {major}.{minor}\n{}\n{options}\n{}\0", limits.arch, variant.ptx);
        Some(Cache::at(Path::new(&folder), key.into_bytes()))
    }

    fn at(folder: &Path, key: Vec<u8>) -> Cache {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        Cache { file: folder.join(format!("{:016x}.cubin", hasher.finish())), key }
    }

    /// What is kept, if it is there: behind the key the log, a zero, the cubin.
    pub(super) fn read(&self) -> Option<Kept> {
        let bytes = std::fs::read(&self.file).ok()?;
        let kept = bytes.strip_prefix(self.key.as_slice())?;
        let end = kept.iter().position(|byte| *byte == 0)?;
        let (log, cubin) = (kept.get(..end)?, kept.get(end + 1..)?);
        let kept = Kept { cubin: cubin.to_vec(), log: String::from_utf8_lossy(log).into_owned() };
        (!cubin.is_empty()).then_some(kept)
    }

    /// Keeps it: under another name first, so that nobody reads half of it.
    pub(super) fn write(&self, kept: &Kept) {
        let unfinished = self.file.with_extension(format!("{}.tmp", std::process::id()));
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let written = std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&unfinished, [&self.key, kept.log.as_bytes(), &[0], &kept.cubin].concat()))
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
        let kept = || Kept { cubin: b"cubin".to_vec(), log: "no spills".to_owned() };
        one.write(&kept());
        assert_eq!((one.read(), two.read()), (Some(kept()), None));
        let clash = Cache { file: one.file.clone(), key: b"two\0".to_vec() };
        assert_eq!(clash.read(), None);
        std::fs::write(&one.file, b"on").unwrap();
        assert_eq!(one.read(), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

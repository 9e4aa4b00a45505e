//! Cubins on disk, so that a program's next start does not assemble its kernels again. Off unless `PTX_CACHE` names a
//! folder. An entry holds its whole key, so that it is never taken for another one, and a checksum of everything in it. An
//! entry that cannot be read, is damaged, or may come from somebody else is assembled again and replaced.

use super::options::JitOptions;
use crate::device::cuda::Limits;
use crate::driver::Driver;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::io::{Read, Result, Write};
use std::path::{Path, PathBuf};

/// The environment variable with the folder.
const FOLDER: &str = "PTX_CACHE";

/// Bytes of the checksum at the end of an entry.
const CHECKSUM: usize = size_of::<u64>();

/// The place of one cubin.
pub(super) struct Cache {
    file: PathBuf,
    /// Everything that the cubin depends on.
    key: Vec<u8>,
    user: User,
}

/// A user of the machine, whose entries alone are loaded. Systems without user numbers have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct User(u32);

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
        let folder = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty())?;
        let (major, minor) = driver.version();
        let key = format!("ptx-launch cubin 3\ndriver {major}.{minor}\n{}\n{options}\n{ptx}\0", limits.arch);
        Some(Cache::at(Path::new(&folder), key.into_bytes()))
    }

    fn at(folder: &Path, key: Vec<u8>) -> Cache {
        let file = folder.join(format!("{:016x}.cubin", checksum(&key)));
        Cache { file, key, user: User::current() }
    }

    /// The entry, if it is there, whole, and this user's.
    pub(super) fn read(&self) -> Option<Kept> {
        self.parse(&self.read_file().ok()?)
    }

    /// The bytes of a regular file that this user alone may write; never those behind a link.
    fn read_file(&self) -> Result<Vec<u8>> {
        let named = std::fs::symlink_metadata(&self.file)?;
        // Before it is opened: to open a pipe can take for ever.
        self.user.trusts(&named)?;
        let mut file = File::open(&self.file)?;
        let opened = file.metadata()?;
        self.user.trusts(&opened)?;
        if !is_same_file(&named, &opened) {
            return Err(refused("was replaced meanwhile"));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// An entry is the key, the log, a zero, the cubin, and the checksum of all before it.
    fn parse(&self, bytes: &[u8]) -> Option<Kept> {
        let (bytes, sum) = bytes.split_last_chunk::<CHECKSUM>()?;
        if checksum(bytes) != u64::from_le_bytes(*sum) {
            return None;
        }
        let kept = bytes.strip_prefix(self.key.as_slice())?;
        let end = kept.iter().position(|byte| *byte == 0)?;
        let (log, cubin) = (kept.get(..end)?, kept.get(end + 1..)?);
        let kept = Kept { cubin: cubin.to_vec(), log: String::from_utf8_lossy(log).into_owned() };
        (!cubin.is_empty()).then_some(kept)
    }

    /// Writes the entry under another name first, so that nobody reads half of it.
    pub(super) fn write(&self, kept: &Kept) {
        let mut bytes = [&self.key, kept.log.as_bytes(), &[0], &kept.cubin].concat();
        bytes.extend(checksum(&bytes).to_le_bytes());
        let unfinished = self.file.with_extension(format!("{:016x}.tmp", RandomState::new().hash_one(&self.file)));
        // On an error nothing is kept, and the next start assembles again.
        let Ok(mut file) = self.create_file(&unfinished) else { return };
        if file.write_all(&bytes).and_then(|()| std::fs::rename(&unfinished, &self.file)).is_err() {
            let _ = std::fs::remove_file(&unfinished);
        }
    }

    /// A new file that this user alone may read; an error if anything has the name, a link too.
    fn create_file(&self, name: &Path) -> Result<File> {
        let (mut folder, mut file) = (DirBuilder::new(), OpenOptions::new());
        #[cfg(unix)]
        {
            std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
            std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
        }
        folder.recursive(true).create(self.file.parent().unwrap_or(Path::new(".")))?;
        file.write(true).create_new(true).open(name)
    }
}

/// Finds damage, not malice: that is what the owner is looked at for.
fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn refused(why: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::PermissionDenied, why)
}

#[cfg(unix)]
fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn is_same_file(_: &Metadata, _: &Metadata) -> bool {
    true
}

impl User {
    /// The user of this process.
    fn current() -> User {
        #[cfg(unix)]
        {
            unsafe extern "C" {
                // SAFETY: POSIX: takes nothing and always succeeds. By hand, because `libc` would be built for this alone.
                safe fn geteuid() -> u32;
            }
            User(geteuid())
        }
        #[cfg(not(unix))]
        User(0)
    }

    /// An error unless it is a regular file of this user that nobody else may write.
    fn trusts(self, file: &Metadata) -> Result<()> {
        if !file.is_file() {
            return Err(refused("is no regular file"));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            if file.uid() != self.0 {
                return Err(refused("belongs to another user"));
            }
            if file.mode() & 0o022 != 0 {
                return Err(refused("can be written by other users"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use ptx_expand::temp_dir::TempDir;

    fn folder() -> TempDir {
        TempDir::new("ptx-launch-cache").unwrap()
    }

    fn kept() -> Kept {
        Kept { cubin: b"cubin".to_vec(), log: "no spills".to_owned() }
    }

    /// An entry that is there.
    fn written(folder: &TempDir) -> Cache {
        let cache = Cache::at(folder.path(), b"one\0".to_vec());
        cache.write(&kept());
        assert_eq!(cache.read(), Some(kept()));
        cache
    }

    #[test]
    fn an_entry_is_read_by_its_whole_key() {
        let folder = folder();
        let (one, two) = (Cache::at(folder.path(), b"one\0".to_vec()), Cache::at(folder.path(), b"two\0".to_vec()));
        assert_eq!(one.read(), None);
        one.write(&kept());
        assert_eq!((one.read(), two.read()), (Some(kept()), None));
        let clash = Cache { file: one.file.clone(), key: b"two\0".to_vec(), user: one.user };
        assert_eq!(clash.read(), None);
    }

    #[test]
    fn a_damaged_entry_is_ignored_and_replaced() {
        let folder = folder();
        let cache = written(&folder);
        let whole = std::fs::read(&cache.file).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&cache.file, &damaged).unwrap();
            assert_eq!(cache.read(), None, "byte {at}");
            std::fs::write(&cache.file, &whole[..at]).unwrap();
            assert_eq!(cache.read(), None, "{at} bytes");
        }
        cache.write(&kept());
        assert_eq!(cache.read(), Some(kept()));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no other file is left");
    }

    /// A file or a link that somebody put under the name is neither written nor followed.
    #[test]
    fn an_entry_is_written_to_a_new_file_only() {
        let folder = folder();
        let cache = written(&folder);
        let name = folder.path().join("there");
        std::fs::write(&name, "theirs").unwrap();
        assert!(cache.create_file(&name).is_err());
        assert_eq!(std::fs::read(&name).unwrap(), b"theirs");
    }

    #[test]
    #[cfg(unix)]
    fn an_entry_of_another_user_is_refused() {
        let folder = folder();
        let ours = written(&folder);
        let theirs = Cache { user: User(ours.user.0 ^ 1), file: ours.file.clone(), key: ours.key.clone() };
        assert_eq!(theirs.read(), None);
    }

    #[test]
    #[cfg(unix)]
    fn an_entry_that_others_may_write_is_refused_and_replaced() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder();
        let cache = written(&folder);
        for (mode, expected) in [(0o620, None), (0o602, None), (0o644, Some(kept()))] {
            std::fs::set_permissions(&cache.file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(cache.read(), expected, "{mode:o}");
        }
        cache.write(&kept());
        assert_eq!(cache.file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    #[cfg(unix)]
    fn a_link_or_a_pipe_is_refused_and_replaced() {
        let folder = folder();
        let cache = written(&folder);
        let elsewhere = folder.path().join("elsewhere");
        std::fs::rename(&cache.file, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &cache.file).unwrap();
        assert_eq!(cache.read(), None);
        cache.write(&Kept { cubin: b"other".to_vec(), log: String::new() });
        assert!(cache.file.symlink_metadata().unwrap().is_file(), "the link is replaced, not followed");
        assert!(std::fs::read(&elsewhere).unwrap().windows(5).any(|w| w == b"cubin"), "nothing is written behind it");
        std::fs::remove_file(&cache.file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&cache.file).status().unwrap().success());
        assert_eq!(cache.read(), None);
    }
}

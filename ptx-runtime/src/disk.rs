//! Files that keep what took time to make: machine code, and kernels that were compiled from text. An entry holds its whole key, so that it is never
//! taken for another one, and a checksum of everything in it. An entry that cannot be read, is damaged, or may come from somebody else is made again and
//! replaced. `PTX_CACHE` names the folder, or is `off`.
#![allow(unsafe_code, reason = "the number of the user, without a dependency for it")]

use std::ffi::OsString;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::io::{Read, Result, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The environment variable with the folder.
const FOLDER: &str = "PTX_CACHE";
/// Its value that turns every cache off.
const OFF: &str = "off";

/// Bytes of the checksum at the end of an entry.
const CHECKSUM: usize = size_of::<u64>();

/// Bytes and files that a folder keeps at most; those that were written first are removed.
const MOST_BYTES: u64 = 1 << 30;
const MOST_FILES: usize = 4096;
/// One in so many writes looks for more than that.
const LOOKS: u64 = 32;

/// The place of one entry.
#[derive(Debug)]
pub struct Entry {
    file: PathBuf,
    /// Everything that the contents depend on.
    key: Vec<u8>,
    user: User,
}

/// A user of the machine, whose entries alone are loaded. Systems without user numbers have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct User(u32);

/// The folder that `PTX_CACHE` names: machine code is kept nowhere else, as the driver has a cache of its own.
pub fn folder() -> Option<PathBuf> {
    chosen(std::env::var_os(FOLDER))?
}

/// The folder of kernels that were compiled from text: that of `PTX_CACHE`, else one of the user.
pub fn folder_for_texts() -> Option<PathBuf> {
    chosen(std::env::var_os(FOLDER)).unwrap_or_else(|| own_folder(|name| std::env::var_os(name)))
}

/// The folder that a value of the variable stands for, or none of them; `None` if there is no value.
#[allow(clippy::option_option, reason = "not set is not the same as off")]
fn chosen(value: Option<OsString>) -> Option<Option<PathBuf>> {
    let value = value?;
    Some((!value.is_empty() && value != OFF).then(|| value.into()))
}

/// The user's folder for caches, as the XDG specification has it.
fn own_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let of = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    of("XDG_CACHE_HOME").or_else(|| of("HOME").map(|home| home.join(".cache"))).map(|caches| caches.join("ptx"))
}

impl Entry {
    /// The entry of a key in a folder. `kind` is the extension of its file.
    pub fn at(folder: &Path, kind: &str, key: Vec<u8>) -> Entry {
        let file = folder.join(format!("{:016x}.{kind}", checksum(&key)));
        Entry { file, key, user: User::current() }
    }

    /// Its contents, if it is there, whole, and this user's.
    pub fn read(&self) -> Option<Vec<u8>> {
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

    /// An entry is the key, the contents, and the checksum of all before it.
    fn parse(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (bytes, sum) = bytes.split_last_chunk::<CHECKSUM>()?;
        if checksum(bytes) != u64::from_le_bytes(*sum) {
            return None;
        }
        bytes.strip_prefix(self.key.as_slice()).map(<[u8]>::to_vec)
    }

    /// Writes the entry under another name first, so that nobody reads half of it.
    pub fn write(&self, contents: &[u8]) {
        let mut bytes = [&self.key, contents].concat();
        let sum = checksum(&bytes);
        bytes.extend(sum.to_le_bytes());
        let unfinished = self.file.with_extension(format!("{:016x}.tmp", RandomState::new().hash_one(&self.file)));
        // On an error nothing is kept, and the next start makes it again.
        let Ok(mut file) = self.create_file(&unfinished) else { return };
        if file.write_all(&bytes).and_then(|()| std::fs::rename(&unfinished, &self.file)).is_err() {
            let _ = std::fs::remove_file(&unfinished);
        }
        if sum.is_multiple_of(LOOKS) {
            self.make_room(MOST_BYTES, MOST_FILES);
        }
    }

    /// Removes the oldest entries of this kind, where the folder has more than it may keep.
    fn make_room(&self, most_bytes: u64, most_files: usize) {
        let Some(Ok(all)) = self.file.parent().map(std::fs::read_dir) else { return };
        let described = all.flatten().filter(|entry| entry.path().extension() == self.file.extension());
        let described = described.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
        let mut files: Vec<(SystemTime, u64, PathBuf)> = described
            .map(|(path, file)| (file.modified().unwrap_or(SystemTime::UNIX_EPOCH), file.len(), path))
            .collect();
        files.sort_unstable_by(|a, b| b.cmp(a));
        let mut bytes = 0u64;
        for (at, (_, len, path)) in files.iter().enumerate() {
            bytes = bytes.saturating_add(*len);
            if bytes > most_bytes || at >= most_files {
                // Another process may have removed it.
                let _ = std::fs::remove_file(path);
            }
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

    fn at(folder: &TempDir, key: &[u8]) -> Entry {
        Entry::at(folder.path(), "cubin", key.to_vec())
    }

    /// An entry that is there.
    fn written(folder: &TempDir) -> Entry {
        let entry = at(folder, b"one\0");
        entry.write(b"cubin");
        assert_eq!(entry.read().unwrap(), b"cubin");
        entry
    }

    #[test]
    fn an_entry_is_read_by_its_whole_key() {
        let folder = folder();
        let (one, two) = (at(&folder, b"one\0"), at(&folder, b"two\0"));
        assert_eq!(one.read(), None);
        one.write(b"cubin");
        assert_eq!((one.read(), two.read()), (Some(b"cubin".to_vec()), None));
        let clash = Entry { file: one.file.clone(), key: b"two\0".to_vec(), user: one.user };
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
        cache.write(b"cubin");
        assert_eq!(cache.read(), Some(b"cubin".to_vec()));
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
        let theirs = Entry { user: User(ours.user.0 ^ 1), file: ours.file.clone(), key: ours.key.clone() };
        assert_eq!(theirs.read(), None);
    }

    #[test]
    #[cfg(unix)]
    fn an_entry_that_others_may_write_is_refused_and_replaced() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder();
        let cache = written(&folder);
        for (mode, expected) in [(0o620, None), (0o602, None), (0o644, Some(b"cubin".to_vec()))] {
            std::fs::set_permissions(&cache.file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(cache.read(), expected, "{mode:o}");
        }
        cache.write(b"cubin");
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
        cache.write(b"other");
        assert!(cache.file.symlink_metadata().unwrap().is_file(), "the link is replaced, not followed");
        assert!(std::fs::read(&elsewhere).unwrap().windows(5).any(|w| w == b"cubin"), "nothing is written behind it");
        std::fs::remove_file(&cache.file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&cache.file).status().unwrap().success());
        assert_eq!(cache.read(), None);
    }

    #[test]
    fn the_oldest_entries_make_room() {
        let folder = folder();
        let entries: Vec<Entry> = (0..6u8).map(|key| at(&folder, &[key])).collect();
        for (age, entry) in entries.iter().enumerate() {
            entry.write(&[0; 100]);
            let time = SystemTime::now() - std::time::Duration::from_secs(age as u64 * 60);
            File::options().write(true).open(&entry.file).unwrap().set_modified(time).unwrap();
        }
        let there = || entries.iter().filter(|entry| entry.file.exists()).count();
        entries[0].make_room(1 << 20, 4);
        assert_eq!(there(), 4);
        entries[0].make_room(3 * 109, 4);
        assert!(there() == 3 && entries[0].file.exists() && !entries[3].file.exists());
    }

    #[test]
    fn one_variable_names_the_folder_or_turns_it_off() {
        let of = |text: &str| chosen(Some(text.into()));
        assert_eq!((chosen(None), of(""), of("off")), (None, Some(None), Some(None)));
        assert_eq!(of("/tmp/x"), Some(Some("/tmp/x".into())));
        let home = |name: &str| (name == "HOME").then(|| "/home/me".into());
        assert_eq!(own_folder(home), Some("/home/me/.cache/ptx".into()));
        assert_eq!(own_folder(|_| Some("caches".into())), None);
    }
}

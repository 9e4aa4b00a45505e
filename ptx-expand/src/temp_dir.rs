//! A folder for temporary files that nobody else can read, predict or have prepared. By hand, because the macros use it:
//! `tempfile` would add five crates to the cold build of every user, and leaves the mode to the umask.

use std::fs::DirBuilder;
use std::hash::{BuildHasher, RandomState};
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// A fresh folder with a random name and mode 0700. Dropping it removes it with all it holds.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Creates a folder in the system's folder for temporary files. Its name begins with `prefix`.
    ///
    /// # Errors
    /// Those of the system; a folder that exists already is never taken.
    pub fn new(prefix: &str) -> Result<TempDir> {
        TempDir::create_in(&std::env::temp_dir(), prefix, || RandomState::new().hash_one(std::process::id()))
    }

    fn create_in(parent: &Path, prefix: &str, random: impl Fn() -> u64) -> Result<TempDir> {
        const TRIES: usize = 16;
        for _ in 0..TRIES {
            let path = parent.join(format!("{prefix}-{:016x}", random()));
            match create_private(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => return created.map(|()| TempDir(path)),
            }
        }
        Err(Error::new(ErrorKind::AlreadyExists, format!("no free name in {}", parent.display())))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // A folder that cannot be removed stays in the system's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Creates one folder for this user only. Fails if anything has that name, a dangling link too.
fn create_private(path: &Path) -> Result<()> {
    #[cfg_attr(not(unix), allow(unused_mut, reason = "permissions are those of the folder"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::cell::Cell;

    #[test]
    fn folders_are_fresh_private_and_removed() {
        let (one, two) = (TempDir::new("ptx-test").unwrap(), TempDir::new("ptx-test").unwrap());
        assert_ne!(one.path(), two.path());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(one.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
        std::fs::write(one.path().join("file"), "text").unwrap();
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists());
    }

    #[test]
    #[cfg(unix)]
    fn a_prepared_name_is_not_taken() {
        let parent = TempDir::new("ptx-test").unwrap();
        let name = |n: u64| parent.path().join(format!("ptx-{n:016x}"));
        std::fs::create_dir(name(0)).unwrap();
        std::os::unix::fs::symlink("/nonexistent/elsewhere", name(1)).unwrap();
        let next = Cell::new(0);
        let made = TempDir::create_in(parent.path(), "ptx", || next.replace(next.get() + 1)).unwrap();
        assert_eq!(made.path(), name(2));
        let taken = TempDir::create_in(parent.path(), "ptx", || 0).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
    }
}

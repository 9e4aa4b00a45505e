//! Output files. A file is written beside its final place and renamed, so that a full disk or a crash leaves either the old
//! contents or the new ones, never half of them.

use crate::files::Found;
use crate::output::Failure;
use std::fs::{File, Metadata, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Replaces the contents of a file; it keeps its permissions. A symbolic link stays one: the file that it leads to is
/// replaced. Devices and pipes are written as they are.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    replace_with(path, |out| Ok(out.write_all(bytes)?))
}

/// The same for a file of a folder, where no link is followed: not even one that somebody has put there since the folder was read. The
/// new file takes the place of whatever stands there by then, and never that of what a link leads to.
pub(crate) fn replace_found(found: &Found, bytes: &[u8]) -> Result<(), Failure> {
    if found.named {
        return replace(&found.path, bytes);
    }
    let old = std::fs::symlink_metadata(&found.path).ok();
    if !old.as_ref().is_some_and(Metadata::is_file) {
        return Err(Failure::usage(format!(
            "{}: no longer the file that was read; left as it is",
            found.path.display()
        )));
    }
    put((&found.path, &found.path), old, |out| Ok(out.write_all(bytes)?))
}

/// The same as [`replace`], written piece by piece.
pub(crate) fn replace_with(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let target = follow(path).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
    let old = std::fs::metadata(&target).ok();
    put((path, &target), old, write)
}

/// Replaces `target`, where `old` stands; errors name `path`.
fn put(
    (path, target): (&Path, &Path),
    old: Option<Metadata>,
    write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let named = |e: io::Error| Failure::usage(format!("{}: {e}", path.display()));
    let write = |file: File| -> Result<(), Failure> {
        let mut out = BufWriter::new(file);
        write(&mut out).map_err(|failure| match failure {
            Failure::Output(error) => named(error),
            other => other,
        })?;
        out.flush().map_err(named)
    };
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return write(OpenOptions::new().write(true).open(target).map_err(named)?);
    }
    // A file that nobody may write stays as it is, even where its folder could be changed.
    if old.as_ref().is_some_and(|old| old.permissions().readonly()) {
        return Err(named(io::ErrorKind::PermissionDenied.into()));
    }
    let (temporary, file) = beside(target, old.as_ref()).map_err(named)?;
    let done = write(file).and_then(|()| {
        old.as_ref().map_or(Ok(()), |old| keep_owner_and_permissions(&temporary, old)).map_err(named)?;
        std::fs::rename(&temporary, target).map_err(named)
    });
    if done.is_err() {
        // The first failure is the one to tell.
        let _ = std::fs::remove_file(&temporary);
    }
    done
}

/// Returns true if two paths lead to one file, also through links.
pub(crate) fn is_same_file(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    if let (Ok(a), Ok(b)) = (std::fs::metadata(a), std::fs::metadata(b)) {
        use std::os::unix::fs::MetadataExt;
        return (a.dev(), a.ino()) == (b.dev(), b.ino());
    }
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// As many links in a row as Linux follows.
const MOST_LINKS: usize = 40;

/// The path behind symbolic links, whether something is there or not.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match std::fs::read_link(&path) {
            Ok(to) => path = path.parent().unwrap_or(Path::new("")).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// A new file in the folder of `target`. The contents of a private file are never readable by others.
fn beside(target: &Path, old: Option<&Metadata>) -> io::Result<(PathBuf, File)> {
    let name = target.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if old.is_some() {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    #[cfg(not(unix))]
    let _ = old;
    const TRIES: u32 = 16;
    let mut tries = 0;
    loop {
        let number = RandomState::new().hash_one(std::process::id());
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{number:016x}.tmp"));
        let path = target.with_file_name(hidden);
        match options.open(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => tries += 1,
            opened => return opened.map(|file| (path, file)),
        }
    }
}

fn keep_owner_and_permissions(new: &Path, old: &Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, chown};
        let now = std::fs::metadata(new)?;
        if (now.uid(), now.gid()) != (old.uid(), old.gid()) {
            // Only root may give a file away; for everybody else it becomes theirs.
            let _ = chown(new, Some(old.uid()), Some(old.gid()));
        }
    }
    std::fs::set_permissions(new, old.permissions())
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use ptx_expand::temp_dir::TempDir;

    #[test]
    fn a_link_that_came_after_the_folder_was_read_is_not_followed() {
        let folder = TempDir::new("ptx-write").unwrap();
        let (inside, outside) = (folder.path().join("a.ptx"), folder.path().join("outside"));
        std::fs::write(&outside, "old").unwrap();
        std::os::unix::fs::symlink(&outside, &inside).unwrap();
        let found = |named| Found { path: inside.clone(), named };
        assert!(
            matches!(replace_found(&found(false), b"new"), Err(Failure::Usage(text)) if text.contains("no longer"))
        );
        assert_eq!(std::fs::read(&outside).unwrap(), b"old");
        // A link that the command line names is meant.
        assert!(replace_found(&found(true), b"new").is_ok());
        assert_eq!(std::fs::read(&outside).unwrap(), b"new");
        std::fs::remove_file(&inside).unwrap();
        std::fs::write(&inside, "old").unwrap();
        assert!(replace_found(&found(false), b"newer").is_ok());
        assert_eq!(std::fs::read(&inside).unwrap(), b"newer");
    }
}

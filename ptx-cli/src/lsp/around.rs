//! The crate around a Rust file, on disk: its kernels may take structs and parts of other files.

use ptx_expand::program::Crate;
use ptx_lsp::around::Around;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// More text is not read, while somebody types.
const MOST_BYTES: usize = 16 << 20;

/// Reads the crate of a document each time that it is checked; `None` if it is no file below `src` of a crate.
pub(super) fn of(uri: &str) -> Option<Around> {
    let file = path(uri)?;
    let root = file.ancestors().find(|folder| folder.join("Cargo.toml").is_file())?.join("src");
    let place = module(file.strip_prefix(&root).ok()?)?;
    Some(Around(Arc::new(move || read(&root, &file, &place))))
}

fn read(root: &Path, own: &Path, place: &[String]) -> Crate {
    let mut paths = Vec::new();
    walk(root, &mut paths);
    let mut left = MOST_BYTES;
    let files = paths.iter().filter(|path| *path != own).filter_map(|path| {
        let text = std::fs::read_to_string(path).ok()?;
        left = left.checked_sub(text.len())?;
        Some((module(path.strip_prefix(root).ok()?)?, text))
    });
    Crate { place: place.to_vec(), files: files.collect() }
}

/// The Rust files of a folder and of those in it; not through links.
fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&entry.path(), found),
            Ok(kind) if kind.is_file() && entry.path().extension().is_some_and(|ending| ending == "rs") => {
                found.push(entry.path());
            }
            _ => {}
        }
    }
}

/// The module of a file, by its path from `src`: that of `gemm/sm90.rs` is `gemm::sm90`.
fn module(path: &Path) -> Option<Vec<String>> {
    let mut names: Vec<String> = path.iter().map(|name| name.to_str().map(str::to_owned)).collect::<Option<_>>()?;
    let file = names.pop()?;
    match file.strip_suffix(".rs")? {
        "mod" => {}
        "lib" | "main" if names.is_empty() => {}
        name => names.push(name.to_owned()),
    }
    Some(names)
}

/// The path of a document: `file:///home/me/a%20b.rs`, `file:///C%3A/a.rs`.
fn path(uri: &str) -> Option<PathBuf> {
    let text = uri.strip_prefix("file://")?;
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let digits = behind.get(..2).filter(|_| *first == b'%').and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    let drive = text.strip_prefix('/').filter(|path| path.as_bytes().get(1) == Some(&b':'));
    Some(PathBuf::from(drive.unwrap_or(&text)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::{module, path};
    use std::path::Path;

    #[test]
    fn files_are_modules() {
        let of = |text: &str| module(Path::new(text)).unwrap().join("::");
        assert_eq!(
            (of("lib.rs"), of("gemm.rs"), of("gemm/sm90.rs")),
            (String::new(), "gemm".into(), "gemm::sm90".into())
        );
        assert_eq!((of("gemm/mod.rs"), of("gemm/lib.rs")), ("gemm".into(), "gemm::lib".into()));
        assert_eq!(module(Path::new("notes.md")), None);
    }

    #[test]
    fn documents_are_files() {
        assert_eq!(path("file:///a%20b/c.rs").unwrap(), Path::new("/a b/c.rs"));
        assert_eq!(path("file:///C%3A/c.rs").unwrap(), Path::new("C:/c.rs"));
        assert_eq!(path("untitled:Untitled-1"), None);
    }
}

//! Compiled programs on disk, so that the next process does not compile the same text again. Entries are those of `ptx_runtime::disk`: they hold their
//! whole key and a checksum. `PTX_CACHE` names the folder, or is `off`; without it, the folder is the user's own for caches.
//!
//! A key has the text, the choices of whoever compiles it, and the file that the compiler itself is a part of. So a rebuilt program, whose compiler may
//! differ, finds nothing of its predecessor.

mod codec;

pub(crate) use codec::Code;

use ptx_expand::program::Program;
use ptx_runtime::disk::Entry;
use std::sync::LazyLock;

/// The entry of what is made from these choices, if there is a cache.
pub(crate) fn entry(made: &str, choices: &[&str]) -> Option<Entry> {
    let folder = ptx_runtime::disk::folder_for_texts()?;
    let build = BUILD.as_deref()?;
    let mut key = Vec::new();
    let texts: Vec<String> = ["ptx-jit 1", build, made].iter().chain(choices).map(|text| (*text).to_owned()).collect();
    texts.encode(&mut key);
    Some(Entry::at(&folder, "kernels", key))
}

/// The value in an entry.
pub(crate) fn read<T: Code>(entry: &Entry) -> Option<T> {
    let bytes = entry.read()?;
    let mut rest = bytes.as_slice();
    T::decode(&mut rest).filter(|_| rest.is_empty())
}

/// Keeps a value.
pub(crate) fn write<T: Code>(entry: &Entry, value: &T) {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    entry.write(&bytes);
}

/// Keeps a program without warnings: those have texts of the checker.
pub(crate) fn write_program(entry: &Entry, program: &Program) {
    if program.warnings.is_empty() {
        write(entry, program);
    }
}

/// The file of the program or library that this code is a part of: its size and the time of its last change.
static BUILD: LazyLock<Option<String>> = LazyLock::new(build);

#[cfg(target_os = "linux")]
fn build() -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let own = build as *const () as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (low, high) = range.split_once('-')?;
        let range = usize::from_str_radix(low, 16).ok()?..usize::from_str_radix(high, 16).ok()?;
        // The path follows five fields, and may contain blanks.
        range.contains(&own).then(|| rest.find('/').map(|at| &rest[at..]))?
    })?;
    let file = std::fs::metadata(path).ok()?;
    Some(format!("{} {} {}.{} {}", env!("CARGO_PKG_VERSION"), file.len(), file.mtime(), file.mtime_nsec(), file.ino()))
}

/// Other systems do not say which file a function is in.
#[cfg(not(target_os = "linux"))]
fn build() -> Option<String> {
    None
}

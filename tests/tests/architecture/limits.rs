//! The limits of device code: what a reader can hold in mind.

use crate::source;
use ptx_tests::device_code::DeviceCode;
use std::path::Path;

/// The most lines of a device function, from its signature to its last brace.
pub(crate) const LINES: usize = 120;

/// The most parameters of a helper, its receiver included. Those of a kernel are the arguments of its launch.
pub(crate) const PARAMETERS: usize = 6;

/// The helper library, which is device code without a module around it.
const LIBRARY: &str = "ptx-language/src/prelude";

/// The folders with device code.
const FOLDERS: [&str; 5] = ["ptx-kernels/src", "examples", "benches/src", "docs/book/listings", LIBRARY];

/// The device code of every file, with its path.
pub(crate) fn files() -> Vec<(String, DeviceCode)> {
    let paths = FOLDERS.iter().flat_map(|folder| source::paths_below(&source::root().join(folder)));
    paths.map(|path| read(&path)).collect()
}

fn read(path: &Path) -> (String, DeviceCode) {
    let name = path.strip_prefix(source::root()).unwrap_or(path).display().to_string();
    let text = std::fs::read_to_string(path).unwrap();
    let code = DeviceCode::read(&text, name.starts_with(LIBRARY)).unwrap_or_else(|error| panic!("{name}: {error}"));
    (name, code)
}

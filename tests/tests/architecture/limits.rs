//! The limits of functions: what a reader can hold in mind.

use crate::source;
use ptx_tests::device_code::DeviceCode;
use ptx_tests::signatures::signatures;
use std::path::Path;

/// The most lines of a device function, from its signature to its last brace.
pub(crate) const LINES: usize = 120;

/// The most parameters of a function, its receiver included.
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

/// The folders whose functions all keep [`PARAMETERS`], those of the host and kernels, too.
const NARROW: [&str; 2] = ["ptx-kernels/src", "python/src"];

/// The functions with more parameters, and the number of all.
pub(crate) fn wide_functions() -> (Vec<String>, usize) {
    let (mut wide, mut count) = (Vec::new(), 0);
    for path in NARROW.iter().flat_map(|folder| source::paths_below(&source::root().join(folder))) {
        let name = path.strip_prefix(source::root()).unwrap_or(&path).display().to_string();
        let text = std::fs::read_to_string(&path).unwrap();
        let all = signatures(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        count += all.len();
        let beyond = all.iter().filter(|one| one.parameters > PARAMETERS);
        wide.extend(beyond.map(|one| {
            format!("{name}:{}: `{}` has {} parameters, of at most {PARAMETERS}", one.at, one.name, one.parameters)
        }));
    }
    (wide, count)
}

fn read(path: &Path) -> (String, DeviceCode) {
    let name = path.strip_prefix(source::root()).unwrap_or(path).display().to_string();
    let text = std::fs::read_to_string(path).unwrap();
    let code = DeviceCode::read(&text, name.starts_with(LIBRARY)).unwrap_or_else(|error| panic!("{name}: {error}"));
    (name, code)
}

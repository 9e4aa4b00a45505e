//! Profiles of launches on the CPU device, by line of Rust.

use ptx_interp::profile::Counts;

/// Counters of one launch. `docs/profile.md` of the repository defines them.
///
/// *Needs the feature `cpu`, which is on by default.*
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LaunchProfile {
    /// The kernel's name in the PTX.
    pub kernel: String,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// The sum over all lines.
    pub totals: Counts,
    /// The lines that ran, by file and number.
    pub lines: Vec<ProfiledLine>,
}

/// Counters of one line.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProfiledLine {
    /// The Rust file, as rustc names it; empty for a line of PTX that comes from none.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// Its counters.
    pub counts: Counts,
}

impl ProfiledLine {
    pub(crate) fn new(file: &str, line: u32) -> ProfiledLine {
        ProfiledLine { file: file.to_owned(), line, counts: Counts::default() }
    }
}

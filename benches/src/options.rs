//! The options of a measurement.

use std::path::PathBuf;
use std::time::Duration;

/// Options of a measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only sizes that contain one of these; all without any.
    pub sizes: Vec<String>,
    /// The algorithms and variants that play beside the library's choice: those whose name contains one of these.
    pub sweep: Vec<String>,
    /// Turns of each contestant.
    pub turns: u32,
    /// Length of a turn.
    pub turn: Duration,
    /// Time nothing.
    pub check_only: bool,
    /// Only what a target names.
    pub promised: bool,
    /// Small sizes, timed on whatever device there is: the program is tried, not the kernels.
    pub rehearse: bool,
    /// No rivals.
    pub alone: bool,
    /// The file that keeps the times of all algorithms for random products.
    pub records: Option<PathBuf>,
    /// Launches in a row of random products.
    pub row: u32,
    /// Seed of the random inputs.
    pub seed: u32,
}

//! The profiler: an observer that counts what a kernel requires of the hardware, for each instruction.
//!
//! ```text
//! counts    the counters, each named once with its definition
//! banks     wavefronts of shared memory          sectors   32-byte sectors of global memory
//! caches    a model of L1 and L2                  sample    some blocks of a grid, and the error
//! facts     per instruction: how its accesses count, its floating-point operations, found once
//! open      the accesses of the instruction that runs, counted when it is over
//! observer  the reports of the engine
//! ```
//!
//! `docs/profile.md` defines every counter and names its source. The counters are those of Nsight Compute, on instructions of PTX in
//! place of machine code.

mod banks;
mod caches;
mod counts;
mod facts;
mod observer;
mod open;
mod sample;
mod sectors;

pub use counts::Counts;
pub(super) use observer::Profiler;
pub(super) use sample::choose_clusters;

use super::chip::Chip;
use ptx_core::span::Span;

/// The profile of one launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The sum over all instructions.
    pub totals: Counts,
    /// The instructions that ran, in the order of the program.
    pub instructions: Vec<Line>,
    /// The sample from which the counters are estimated, if not every block ran.
    pub sample: Option<Sample>,
}

/// Options of a profile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The chip whose caches are modeled; else the usual one of the target.
    pub chip: Option<&'static Chip>,
    /// Run about so many blocks, spread evenly over the grid, and estimate the counters from them. What the others would have written is missing
    /// afterwards, and a kernel whose blocks wait for each other does not end.
    pub blocks: Option<u64>,
}

/// A sample of a grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Blocks that ran.
    pub ran: u64,
    /// Blocks of the grid.
    pub blocks: u64,
    /// The standard error of each total, relative to it. Totals of zero have none.
    pub errors: Vec<(&'static str, f64)>,
}

/// The counters of one instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The instruction in the PTX.
    pub span: Span,
    /// The function that contains it.
    pub function: String,
    /// The name of its form: `ld`, `mul.lo`.
    pub name: &'static str,
    /// The family of instructions: `memory`, `integer`, `mma`.
    pub family: &'static str,
    /// The shape and types of a tensor-core instruction: `m16n8k16.row.col.f32.f16.f16.f32`.
    pub shape: String,
    /// Its counters.
    pub counts: Counts,
}

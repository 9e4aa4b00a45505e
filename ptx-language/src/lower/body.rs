//! One entry or function while it is written.

use super::code::Code;
use super::registers::Registers;
use super::{Pieces, arguments, call, flow, params};
use crate::names::Names;
use ptx_core::span::Span;

/// The body of an entry or a function.
#[derive(Default)]
pub(super) struct Body {
    pub(super) code: Code,
    pub(super) registers: Registers,
    /// Variables in memory, declared first.
    pub(super) variables: Pieces,
    /// The threads of a block, in an entry whose attribute gives constants.
    pub(super) threads: Option<u64>,
    /// `cooperative`: all blocks run at the same time.
    pub(super) cooperative: bool,
    /// Bytes of the dynamic shared memory whose type has a size, and where it is declared.
    pub(super) dynamic: Option<(u64, Span)>,
    /// Names of variables and parameters that are taken.
    pub(super) symbols: Names,
    /// Loops around the current statement.
    pub(super) loops: Vec<flow::Loop>,
    /// The invariants of the loop that follows, as text.
    pub(super) invariants: Vec<(String, Span)>,
    /// Functions around the current statement: the entry, then the helpers that are being expanded.
    pub(super) frames: Vec<call::Frame>,
    pub(super) params: Vec<params::Param>,
    pub(super) arguments: Vec<arguments::Arguments>,
    /// `raw`: no prologue loads the parameters.
    pub(super) raw: bool,
    /// `lineinfo`: instructions get `.loc`.
    pub(super) lineinfo: bool,
    /// The number of turns of `for` that are written.
    pub(super) turns: u32,
    /// The number of helper calls that are written.
    pub(super) calls: u32,
}

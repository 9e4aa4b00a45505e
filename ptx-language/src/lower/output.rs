//! The module as far as it is written: variables, functions, entries, and the notes for later phases.

use super::Pieces;
use crate::names::Names;
use crate::spoken::Spoken;
use crate::uses::{Addressed, Fixed};
use crate::value::Value;
use crate::{Entry, HelperCall, MemoryLayout, StaticVariable};
use ptx_core::hash::{Map, Set};
use ptx_core::span::Span;
use std::rc::Rc;

/// A finished part has its text here; the body that is being written is `Lowerer::f`.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// Symbols of the module.
    pub(super) symbols: Rc<Names>,
    /// Variables of the module.
    pub(super) globals: Pieces,
    /// The names that `ptx!` items declare.
    pub(super) declared: Set<String>,
    /// Finished functions.
    pub(super) functions: Pieces,
    pub(super) entries: Vec<Entry>,
    /// The structs that kernels take, by address: the host asserts their layout.
    pub(super) taken: Set<usize>,
    /// `#[noinline]` helpers that are written, by address and arguments.
    pub(super) called: Map<(usize, String), String>,
    /// Variables of the module that are written, by the address of their declaration and their text.
    pub(super) statics: Map<(usize, String), Value>,
    /// The `static`s that are written, for the host.
    pub(super) listed: Vec<StaticVariable>,
    /// The variables in shared memory.
    pub(super) memory: Vec<MemoryLayout>,
    /// Files of `.file`, in order.
    pub(super) files: Vec<String>,
    /// Tokens from `unchecked { }`.
    pub(super) unchecked: Vec<Span>,
    /// Names in `ptx!` whose declaration was refused.
    pub(super) refused: Vec<Span>,
    /// Names in `ptx!` that no instruction may write.
    pub(super) fixed: Map<Span, Fixed>,
    /// Addresses in the brackets of `ptx!`.
    pub(super) addressed: Map<Span, Addressed>,
    /// The registers' names in the source.
    pub(super) spoken: Spoken,
    /// The helpers that are written, by their spans.
    pub(super) helpers: Set<Span>,
    /// Their calls, if they are listed.
    pub(super) calls: Vec<HelperCall>,
}

//! Trace of chosen threads: each instruction with the values of its registers.

use super::debug::Hook;
use ptx_core::span::Span;
use std::fmt;

/// An instruction that a chosen thread has executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced<'a> {
    /// `%ctaid`.
    pub block: [u32; 3],
    /// `%tid`.
    pub thread: [u32; 3],
    /// The instruction.
    pub span: Span,
    /// The registers that it reads, with the bits that they held before it.
    pub reads: Vec<(&'a str, u64)>,
    /// The registers that it writes, with the bits that they hold behind it.
    pub writes: Vec<(&'a str, u64)>,
}

/// Which threads to follow, and who is told.
pub struct Tracer {
    pub(super) threads: Vec<([u32; 3], [u32; 3])>,
    pub(super) tell: Box<dyn FnMut(&Traced) + Send>,
    pub(super) hook: Option<Hook>,
}

impl Tracer {
    /// Follows threads, each a block (`%ctaid`) and a thread of it (`%tid`).
    pub fn new(threads: Vec<([u32; 3], [u32; 3])>, tell: impl FnMut(&Traced) + Send + 'static) -> Tracer {
        Tracer { threads, tell: Box::new(tell), hook: None }
    }

    /// Calls a debugger before every instruction of every warp.
    pub fn debug(hook: Hook) -> Tracer {
        Tracer { threads: Vec::new(), tell: Box::new(|_| {}), hook: Some(hook) }
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("threads", &self.threads).finish_non_exhaustive()
    }
}

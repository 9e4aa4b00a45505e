//! What can go wrong while a program runs, and how it is told.

use crate::span::Span;
use std::error::Error;
use std::fmt;

/// What kind of mistake stopped the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The launch asks for what no device or this program has: entry, dimensions, parameters, shared memory.
    Launch,
    /// Memory that cannot be had: an allocation, the local stack, a shared window.
    OutOfMemory,
    /// An address outside every allocation of its space.
    OutOfBounds,
    /// An address that is no multiple of the access.
    Misaligned,
    /// A write to constant memory, a load from a space that the address is not in, a bad function pointer.
    BadAccess,
    /// `trap`.
    Trap,
    /// `brkpt`.
    Breakpoint,
    /// No thread of the block can go on.
    Deadlock,
    /// A warp-synchronous instruction or barrier used against its rules.
    Sync,
    /// The step limit is reached.
    StepLimit,
    /// An instruction that the manual leaves undefined for these operands.
    Undefined,
}

/// A run that stopped: what was asked, what is allowed, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind of mistake it is.
    pub kind: FaultKind,
    /// One sentence, lower case, no full stop.
    pub message: String,
    /// The instruction, if the fault is one's.
    pub span: Option<Span>,
    /// The function that holds the instruction.
    pub function: Option<String>,
    /// `%tid` of the first guilty thread.
    pub thread: Option<[u32; 3]>,
    /// `%ctaid` of its block.
    pub block: Option<[u32; 3]>,
    /// The guilty address, as the instruction saw it.
    pub address: Option<u64>,
    /// The lane of the warp, until the scheduler knows the thread.
    pub(super) lane: Option<u8>,
}

impl Fault {
    /// A fault that no instruction caused yet: the scheduler adds where it happened.
    pub(super) fn new(kind: FaultKind, message: impl Into<String>) -> Fault {
        let message = message.into();
        Fault { kind, message, span: None, function: None, thread: None, block: None, address: None, lane: None }
    }

    /// Adds the guilty address.
    pub(super) fn at(mut self, address: u64) -> Fault {
        self.address = Some(address);
        self
    }

    /// Adds the guilty lane of the running warp.
    pub(super) fn lane(mut self, lane: usize) -> Fault {
        self.lane = Some(lane as u8);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(address) = self.address {
            write!(f, " (address {address:#x})")?;
        }
        if let Some(function) = &self.function {
            write!(f, ", in `{function}`")?;
        }
        if let Some([x, y, z]) = self.thread {
            write!(f, ", thread ({x}, {y}, {z})")?;
        }
        if let Some([x, y, z]) = self.block {
            write!(f, " of block ({x}, {y}, {z})")?;
        }
        Ok(())
    }
}

impl Error for Fault {}

//! Faults of a running program, and their messages.

use ptx_core::diag::Code;
use ptx_core::span::Span;
use std::error::Error;
use std::fmt;

/// Kind of the fault that stopped the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// The launch requires what no device or this program has: entry, dimensions, parameters, shared memory.
    Launch,
    /// Memory that cannot be had: an allocation, the local stack, a shared window.
    OutOfMemory,
    /// An address outside every allocation of its space.
    OutOfBounds,
    /// An address that is no multiple of the access.
    Misaligned,
    /// A write to constant memory, a load from a space that the address is not in, a bad function pointer.
    BadAccess,
    /// A read of bytes that nobody has written.
    Unwritten,
    /// Two accesses that nothing orders, one of them a write.
    Race,
    /// An asynchronous operation used against its protocol: registers in flight, a missing proxy fence.
    Async,
    /// `trap`.
    Trap,
    /// `brkpt`.
    Breakpoint,
    /// No thread of the block can go on.
    Deadlock,
    /// A warp-synchronous instruction or barrier used against its rules.
    Sync,
    /// A block that takes more of the chip than it was given, or does not give it back: registers, tensor memory.
    Resources,
    /// The step limit is reached.
    StepLimit,
    /// An instruction that the manual leaves undefined for these operands.
    Undefined,
    /// An annotation that does not hold.
    Annotation,
    /// An instruction over the real numbers that depends on more than their sums and products.
    Undecided,
}

/// A run that stopped: what was asked, what is allowed, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Kind of the fault.
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
    /// The lane of the warp, until the scheduler fills in the thread.
    pub(super) lane: Option<u8>,
    more: Option<Box<More>>,
}

/// Details that only some faults have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct More {
    code: Option<&'static Code>,
    place: Option<String>,
    parties: Vec<Party>,
    help: Vec<String>,
    seed: u64,
    rank: Option<u32>,
}

/// Somebody else who has to do with a fault: the other access of a race, a warp that waits, where a loop begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// The action: `thread (3, 0, 0) of block (0, 0, 0) wrote it here`.
    pub text: String,
    /// The instruction.
    pub span: Span,
    /// `%tid`, if it is one thread.
    pub thread: Option<[u32; 3]>,
    /// `%ctaid`.
    pub block: Option<[u32; 3]>,
}

/// `(3, 0, 0)`
pub(super) fn triple([x, y, z]: [u32; 3]) -> String {
    format!("({x}, {y}, {z})")
}

impl Fault {
    /// A fault that no instruction caused yet: the scheduler adds where it happened.
    pub(super) fn new(kind: FaultKind, message: impl Into<String>) -> Fault {
        let message = message.into();
        let (span, function, thread, block, address, lane, more) = Default::default();
        Fault { kind, message, span, function, thread, block, address, lane, more }
    }

    /// A use that the manual leaves undefined.
    pub(super) fn undefined(message: impl Into<String>) -> Fault {
        Fault::new(FaultKind::Undefined, message)
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

    /// Adds the finding's code.
    #[cold]
    pub(super) fn code(mut self, code: &'static Code) -> Fault {
        self.more().code = Some(code);
        self
    }

    /// Adds what lies at the guilty address.
    #[cold]
    pub(super) fn place(mut self, place: Option<String>) -> Fault {
        self.more().place = place;
        self
    }

    /// Adds somebody else.
    pub(super) fn party(mut self, party: Option<Party>) -> Fault {
        self.more().parties.extend(party);
        self
    }

    /// Adds what to do.
    pub(super) fn help(mut self, help: impl Into<String>) -> Fault {
        self.more().help.push(help.into());
        self
    }

    /// Adds the rank.
    #[cold]
    pub(super) fn of_rank(mut self, rank: u32) -> Fault {
        self.more().rank = Some(rank);
        self
    }

    /// Adds the fault of another rank, which waits as this one does.
    #[cold]
    pub(super) fn also(mut self, other: &Fault) -> Fault {
        let rank = other.rank().unwrap_or(0);
        self.message.push_str(&format!("; on rank {rank}: {}", other.message));
        let of_rank = |party: &Party| Party { text: format!("on rank {rank}: {}", party.text), ..party.clone() };
        self.more().parties.extend(other.parties().iter().map(of_rank));
        self
    }

    /// Adds the seed with which the run can be repeated.
    #[cold]
    pub(super) fn seed(mut self, seed: u64) -> Fault {
        self.more().seed = seed;
        self
    }

    fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    /// The finding's code, for `ptx explain`.
    pub fn finding(&self) -> Option<&'static Code> {
        self.more.as_ref().and_then(|more| more.code)
    }

    /// Description of the guilty address: ``byte 4 of `tile` ``.
    pub fn named(&self) -> Option<&str> {
        self.more.as_ref().and_then(|more| more.place.as_deref())
    }

    /// Who did it and where: the thread, its block, and what lies at the address.
    pub fn culprit(&self) -> String {
        let triple = |[x, y, z]: [u32; 3]| format!("({x}, {y}, {z})");
        let thread = self.thread.map(|thread| format!("thread {}", triple(thread)));
        let block = self.block.map(|block| format!("block {}", triple(block)));
        let rank = self.rank().map(|rank| format!("rank {rank}"));
        let who = [thread, block, rank].into_iter().flatten().collect::<Vec<_>>().join(" of ");
        let address = self.address.map(|address| format!("address {address:#x}"));
        let name = self.named().map(str::to_owned);
        let place = [address, name].into_iter().flatten().collect::<Vec<_>>().join(", ");
        [who, place].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// The others who have to do with it.
    pub fn parties(&self) -> &[Party] {
        self.more.as_ref().map_or(&[], |more| &more.parties)
    }

    /// Suggested fixes, one sentence each.
    pub fn advice(&self) -> &[String] {
        self.more.as_ref().map_or(&[], |more| &more.help)
    }

    /// The guilty rank, where launches of several run beside each other.
    pub fn rank(&self) -> Option<u32> {
        self.more.as_ref().and_then(|more| more.rank)
    }

    /// The seed that repeats the run; 0 is what runs have without one.
    pub fn repeat_with(&self) -> u64 {
        self.more.as_ref().map_or(0, |more| more.seed)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(address) = self.address {
            match self.named() {
                Some(name) => write!(f, " (address {address:#x}, {name})")?,
                None => write!(f, " (address {address:#x})")?,
            }
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
        if let Some(rank) = self.rank() {
            write!(f, " of rank {rank}")?;
        }
        match self.repeat_with() {
            0 => Ok(()),
            seed => write!(f, " (seed {seed})"),
        }
    }
}

impl Error for Fault {}

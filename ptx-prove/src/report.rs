//! The result of a proof, as data.

use crate::pipeline::Pipeline;
use ptx_core::ir::annotation::Annotation;
use ptx_core::span::Span;

/// A property of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// Accesses stay in their buffers and variables.
    Bounds,
    /// Addresses are multiples of the access's size.
    Alignment,
    /// No two threads access the same bytes, at least one of them writing, without order.
    Races,
    /// Barriers are reached by all threads of the block, or by none.
    Barriers,
    /// Shared memory that is read was written before.
    Initialization,
}

impl Property {
    /// All properties.
    pub const ALL: [Property; 5] =
        [Property::Bounds, Property::Alignment, Property::Races, Property::Barriers, Property::Initialization];

    /// Returns true if it depends on the order of threads.
    pub(crate) fn is_of_order(self) -> bool {
        !matches!(self, Property::Bounds | Property::Alignment)
    }

    /// The name in messages and options.
    pub fn name(self) -> &'static str {
        match self {
            Property::Bounds => "bounds",
            Property::Alignment => "alignment",
            Property::Races => "races",
            Property::Barriers => "barriers",
            Property::Initialization => "initialization",
        }
    }
}

/// A verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds in every launch of the contract.
    Proved,
    /// A launch of the contract violates it.
    Refuted(Box<Counterexample>),
    /// Not decided, and the fact that is missing.
    Unknown(String),
}

/// A thread of a counterexample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// `%tid`
    pub thread: [u32; 3],
    /// `%ctaid`
    pub block: [u32; 3],
}

/// A launch in which a property does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// Threads that violate it: one, or the two of a race.
    pub places: Vec<Place>,
    /// The grid.
    pub grid: [u32; 3],
    /// The values of the parameters that are numbers, by parameter.
    pub params: Vec<Option<i128>>,
    /// The lengths of buffers in bytes, by argument.
    pub lens: Vec<Option<u64>>,
    /// The free numbers, by number.
    pub numbers: Vec<i128>,
    /// The first byte of the access, from the start of its buffer or variable.
    pub offset: i128,
    /// False if it is in a later turn of a loop, and the turns before are not examined: a run has to confirm it.
    pub is_certain: bool,
    /// The finding of a run, where a run and no proof found it.
    pub seen: Option<String>,
    /// The value of each byte of the buffers before the launch, where that matters.
    pub filled: Option<u8>,
}

/// The verdict on one instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The property.
    pub property: Property,
    /// The instruction.
    pub span: Span,
    /// The other instruction of a race.
    pub other: Option<Span>,
    /// The buffer or variable.
    pub memory: String,
    /// The argument whose buffer it is.
    pub argument: Option<usize>,
    /// `reads`, `writes`, `updates`
    pub verb: &'static str,
    /// The bytes of the access.
    pub size: u64,
    /// The verdict.
    pub verdict: Verdict,
}

/// All verdicts on an entry.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In the order of the text; a property that holds everywhere has a finding for each instruction that it is about.
    pub findings: Vec<Finding>,
    /// Launches of the contract that are worth a run, if something is open and the contract has `samples`.
    pub samples: Vec<Counterexample>,
    /// Assumptions of the entry, which the proofs take for granted.
    pub assumptions: Vec<Annotation>,
    /// True if threads communicate by atomics and fences, so that a race in a run may be one that the kernel's author means.
    pub communicates: bool,
    /// The exploration of the pipeline, if the entry has one.
    pub pipeline: Option<Pipeline>,
}

impl Report {
    /// Returns true if some verdict is a refutation.
    pub fn is_refuted(&self) -> bool {
        self.findings.iter().any(|finding| matches!(finding.verdict, Verdict::Refuted(_)))
    }

    /// Returns true if every verdict is a proof.
    pub fn is_proved(&self) -> bool {
        self.findings.iter().all(|finding| finding.verdict == Verdict::Proved)
    }
}

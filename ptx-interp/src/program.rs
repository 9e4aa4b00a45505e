//! A module, decoded: its instructions as steps, and the listing of what they are. `decode` makes it.

use super::ctx::Step;
use super::field::Field;
use super::listing::Listing;
use ptx_core::isa::Arch;
use ptx_core::span::Span;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A module, decoded for the machine. Its variables in global memory belong to the machine that launches it: every
/// machine has its own, initialized at the first launch.
pub struct Program {
    pub(super) id: u64,
    pub(super) instructions: Vec<Instruction>,
    pub(super) listing: Listing,
    /// True if its blocks can see in which order they run, by other means than memory: they stay on one core.
    pub(super) alone: bool,
    /// The field in which it runs, if it has real numbers in the place of floats.
    pub(super) field: Option<Field>,
    /// The observer's notes on each instruction.
    pub(super) notes: Option<Arc<dyn Any + Send + Sync>>,
}

/// The part of an instruction that runs.
pub(super) struct Instruction {
    pub step: Step,
    /// The predicate's slot and whether it is negated.
    pub guard: Option<(u32, bool)>,
    /// True if the observer is told before and after it runs, see [`super::observe`].
    pub reported: bool,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.listing.functions.iter().map(|e| e.name.as_str()).collect();
        f.debug_struct("Program").field("arch", &self.listing.arch).field("functions", &names).finish_non_exhaustive()
    }
}

impl Program {
    /// The target it was written for.
    pub fn arch(&self) -> Arch {
        self.listing.arch
    }

    /// The names of the entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.listing.functions.iter().filter(|f| f.entry && f.defined).map(|f| f.name.as_str())
    }

    /// The span of each instruction, by its number.
    pub fn spans(&self) -> impl Iterator<Item = Span> {
        self.listing.code.iter().map(|code| code.span)
    }

    /// Number of bytes of parameters of an entry.
    pub fn param_bytes(&self, entry: &str) -> Option<u64> {
        self.listing.functions.iter().find(|f| f.entry && f.name == entry).map(|f| f.params)
    }

    /// Number of bytes of static shared memory of an entry.
    pub fn shared_bytes(&self, entry: &str) -> Option<u64> {
        self.listing.functions.iter().find(|f| f.entry && f.name == entry).map(|f| f.shared)
    }
}

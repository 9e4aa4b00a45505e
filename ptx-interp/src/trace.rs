//! Trace of chosen threads: each instruction with the values of its registers.

use super::ctx::{Ctx, Src};
use super::warp::{Lanes, lanes};
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
    threads: Vec<([u32; 3], [u32; 3])>,
    tell: Box<dyn FnMut(&Traced) + Send>,
}

impl Tracer {
    /// Follows threads, each a block (`%ctaid`) and a thread of it (`%tid`).
    pub fn new(threads: Vec<([u32; 3], [u32; 3])>, tell: impl FnMut(&Traced) + Send + 'static) -> Tracer {
        Tracer { threads, tell: Box::new(tell) }
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// Value of a register in each lane, before an instruction runs.
pub(super) type Before = Vec<(u32, Lanes)>;

impl Ctx<'_> {
    /// The registers that the next instruction reads, if somebody traces one of these lanes.
    #[cold]
    pub(super) fn before(&self, active: u32) -> Before {
        let (Some(tracer), Some(code)) = (&self.tracer, self.program.code.get(self.warp.at as usize)) else {
            return Before::new();
        };
        if !lanes(active).any(|lane| tracer.threads.contains(&(self.block.id, self.warp.tid[lane]))) {
            return Before::new();
        }
        code.reads.iter().map(|slot| (*slot, self.fetch(Src::Reg(*slot)))).collect()
    }

    /// Tells what the chosen ones of these lanes have executed, with what they read.
    #[cold]
    pub(super) fn trace(&mut self, active: u32, before: &Before) {
        let (at, origin) = (self.warp.at, self.warp.origin);
        let (Some(tracer), Some(code)) = (&mut self.tracer, self.program.code.get(at as usize)) else { return };
        for lane in lanes(active) {
            let (block, thread) = (self.block.id, self.warp.tid[lane]);
            if !tracer.threads.contains(&(block, thread)) {
                continue;
            }
            let name = |slot: u32| self.program.register_name(code.function, slot);
            let value = |slot: u32| self.warp.regs.get((origin + slot) as usize).map_or(0, |register| register[lane]);
            let reads = before.iter().map(|(slot, held)| (name(*slot), held[lane])).collect();
            let writes = code.writes.iter().map(|slot| (name(*slot), value(*slot))).collect();
            (tracer.tell)(&Traced { block, thread, span: code.span, reads, writes });
        }
    }
}

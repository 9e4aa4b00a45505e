//! What chosen threads execute, told to whoever asks: each instruction with the values of its registers.

use super::ctx::Ctx;
use super::warp::lanes;
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
    /// The registers that it names, with the bits that they hold behind it.
    pub registers: Vec<(&'a str, u64)>,
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

impl Ctx<'_> {
    /// Tells what the chosen ones of these lanes have executed.
    #[cold]
    pub(super) fn trace(&mut self, active: u32) {
        let (at, origin) = (self.warp.at, self.warp.origin);
        let (Some(tracer), Some(code)) = (&mut self.tracer, self.program.code.get(at as usize)) else { return };
        for lane in lanes(active) {
            let (block, thread) = (self.block.id, self.warp.tid[lane]);
            if !tracer.threads.contains(&(block, thread)) {
                continue;
            }
            let value = |slot: u32| self.warp.regs.get((origin + slot) as usize).map_or(0, |register| register[lane]);
            let name = |slot: u32| self.program.register_name(code.function, slot);
            let registers = code.touched.iter().map(|slot| (name(*slot), value(*slot))).collect();
            (tracer.tell)(&Traced { block, thread, span: code.span, registers });
        }
    }
}

//! Traces: what chosen threads execute is told as it happens.

use crate::ctx::Ctx;
use crate::debug::Stop;
use crate::exec::Src;
use crate::fault::{Fault, FaultKind};
use crate::trace::Traced;
use crate::warp::{Lanes, lanes};

/// Value of a register in each lane, before an instruction runs.
pub(super) type Before = Vec<(u32, Lanes)>;

impl Ctx<'_> {
    /// Lets a debugger look, which may end the launch.
    #[cold]
    pub(super) fn pause(&mut self, group: u32) -> Result<(), Fault> {
        let stop = Stop { exec: &self.exec, others: self.others, group };
        let hook = self.tracer.as_deref_mut().and_then(|tracer| tracer.hook.as_mut());
        match hook.is_none_or(|hook| hook(&stop)) {
            true => Ok(()),
            false => Err(Fault::new(FaultKind::Launch, "the debugger has ended the launch")),
        }
    }

    /// The registers that the next instruction reads, if somebody traces one of these lanes.
    #[cold]
    pub(super) fn before(&self, active: u32) -> Before {
        let (Some(tracer), Some(code)) = (&self.tracer, self.listing.code.get(self.warp.at as usize)) else {
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
        let (exec, Some(tracer)) = (&self.exec, &mut self.tracer) else { return };
        let Some(code) = exec.listing.code.get(at as usize) else { return };
        for lane in lanes(active) {
            let (block, thread) = (exec.block.id, exec.warp.tid[lane]);
            if !tracer.threads.contains(&(block, thread)) {
                continue;
            }
            let name = |slot: u32| exec.listing.register_name(code.function, slot);
            let value = |slot: u32| exec.warp.regs.get((origin + slot) as usize).map_or(0, |register| register[lane]);
            let reads = before.iter().map(|(slot, held)| (name(*slot), held[lane])).collect();
            let writes = code.writes.iter().map(|slot| (name(*slot), value(*slot))).collect();
            (tracer.tell)(&Traced { block, thread, span: code.span, reads, writes });
        }
    }
}

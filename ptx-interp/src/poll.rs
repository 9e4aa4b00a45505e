//! Loops that look at memory until another thread changes it: lanes that see once more what they saw let others go first.
//!
//! A loop of `ld.acquire`, `ld.volatile` or `atom.cas` cannot end before somebody else has run, so all turns of it but the
//! first are for nothing. This decides only who goes first; whether somebody waits for ever is found by `spin`. At atomics other blocks go first, see
//! `contend`.

use super::ctx::{Flow, Step};
use super::exec::ExecState;
use super::warp::{Warp, lanes};

/// A step that gives these registers what memory holds, and lets other warps go first if that is what it held.
pub(super) fn looking(step: Step, registers: Box<[u32]>) -> Step {
    if registers.is_empty() {
        return step;
    }
    Box::new(move |ctx, group| match step(ctx, group)? {
        Flow::Next if ctx.sees_the_same(group, &registers) => Ok(Flow::Yield),
        flow => Ok(flow),
    })
}

/// An atomic of which the result is read, in front of which other blocks go first; `is_global` is true if the running instruction is one on
/// global memory.
pub(super) fn contended(step: Step, is_global: impl Fn(&ExecState, u32) -> bool + Send + Sync + 'static) -> Step {
    Box::new(move |ctx, group| match ctx.cluster.contention.open && is_global(ctx, group) && ctx.lets_others_first() {
        true => Ok(Flow::Again),
        false => step(ctx, group),
    })
}

impl ExecState<'_> {
    /// Returns true the first time that a warp comes to an atomic, and false when it is back from the turns of others.
    fn lets_others_first(&mut self) -> bool {
        self.warp.gave_way = !self.warp.gave_way;
        self.cluster.contention.yields |= self.warp.gave_way;
        self.warp.gave_way
    }

    /// Returns true if lanes see in registers what they saw there when they last looked, by the same instruction.
    fn sees_the_same(&mut self, group: u32, registers: &[u32]) -> bool {
        let Warp { looks, regs, origin, at, .. } = &mut *self.warp;
        let mut same = true;
        for lane in lanes(group) {
            let values = registers.iter().map(|slot| regs.get((*origin + slot) as usize).map_or(0, |r| r[lane]));
            let seen = values.fold(0, |all: u64, value| all.rotate_left(23).wrapping_mul(0x9e37_79b9) ^ value);
            same &= looks.pc[lane] == *at && looks.seen[lane] == seen;
            (looks.pc[lane], looks.seen[lane]) = (*at, seen);
        }
        same
    }
}

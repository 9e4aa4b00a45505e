//! Loops that look at memory until another thread changes it: lanes that see once more what they saw let others go first.
//!
//! A loop of `ld.acquire`, `ld.volatile` or `atom.cas` cannot end before somebody else has run, so all turns of it but the
//! first are for nothing. This says only who goes first; whether somebody waits for ever is found by `spin`.

use super::ctx::{Ctx, Flow, Step};
use super::warp::{Lanes, Warp, lanes};

/// A turn of at most so many instructions that ends with a look was for nothing.
const LOOK: u64 = 64;
/// Number of such turns of a warp, while its lanes disagree, before it counts as one that waits: each lane has
/// looked.
const ROUNDS: u32 = 64;

/// Values that the lanes of a warp saw when they last looked at memory that others may change.
#[derive(Debug)]
pub(super) struct Looks {
    /// The instruction that looked.
    pc: [u32; 32],
    /// A digest of what it read.
    seen: Lanes,
    /// Turns for nothing, in a row.
    idle: u32,
}

impl Looks {
    pub(super) const NONE: Looks = Looks { pc: [u32::MAX; 32], seen: [0; 32], idle: 0 };
}

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

impl Ctx<'_> {
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

impl Warp {
    /// A turn of `ran` instructions ends because a group can do nothing before others had a turn. Says whether that is true of
    /// the whole warp.
    pub(super) fn let_others(&mut self, group: u32, ran: u64) -> bool {
        let alone = self.ready() & !group == 0;
        if !alone {
            self.end_turn();
        }
        self.looks.idle = if ran <= LOOK { self.looks.idle + 1 } else { 0 };
        self.looks.idle >= if alone { 1 } else { ROUNDS }
    }

    /// A turn ends in which the warp has worked.
    pub(super) fn has_worked(&mut self) {
        self.looks.idle = 0;
    }
}

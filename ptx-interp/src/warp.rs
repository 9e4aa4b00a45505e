//! A warp: registers, program counters, local memory and call stacks of 32 lanes, and which of them run next.

use super::fault::{Fault, FaultKind};
use super::flight::Flight;
use super::kept::Kept;
use super::layout::Slot;
use super::looks::Looks;
use super::space::LOCAL_START;
use std::sync::Arc;

/// One value for each lane.
pub(super) type Lanes = [u64; 32];

/// Maximum local memory of one thread, as on the chips.
const LOCAL_LIMIT: u64 = 512 << 10;

/// Number of steps of a group of lanes, while others of its warp could run too.
pub(super) const TURN: u64 = 256;

/// State that a lane returns to when a function returns.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// The call instruction.
    pub call: u32,
    /// The caller's first register.
    pub base: u32,
    /// The caller's first byte of local memory.
    pub frame: u32,
    /// Destinations of the results in the caller.
    pub results: Arc<[Slot]>,
}

/// 32 lanes.
#[derive(Debug)]
pub(super) struct Warp {
    /// Its number in the block.
    pub index: u32,
    /// `%tid` of each lane.
    pub tid: [[u32; 3]; 32],
    /// All registers of all frames; a lane's frame starts at `base`.
    pub regs: Vec<Lanes>,
    /// The next instruction of each lane.
    pub pc: [u32; 32],
    /// The first register of each lane's frame.
    pub base: [u32; 32],
    /// The first byte of each lane's frame in its local memory.
    pub frame: [u32; 32],
    /// Callers.
    pub calls: [Vec<Frame>; 32],
    /// Local memory, as much as the frames need.
    pub local: [Vec<u8>; 32],
    /// `wgmma` that is not waited for.
    pub flight: Flight,
    /// `CC.CF`.
    pub carry: u32,
    /// Lanes that exist and have not exited.
    pub live: u32,
    /// Lanes that wait at a barrier of the block.
    pub waiting: u32,
    /// Lanes that wait until others reach the same instruction.
    pub meeting: u32,
    /// Lanes that wait in `bar.warp.sync`, and for whom.
    pub syncing: u32,
    /// The member mask of each lane in `syncing`.
    pub members: [u32; 32],
    /// The instruction that runs now.
    pub at: u32,
    /// The first register of the frame that runs now.
    pub origin: u32,
    /// Steps taken while lanes disagreed: decides whose turn it is.
    pub turn: u64,
    /// Values that its lanes last saw of shared state.
    pub looks: Looks,
    /// True if the warp stands in front of an atomic, and other blocks go first.
    pub gave_way: bool,
    /// An observer's state of the lanes.
    pub kept: Kept,
    /// True if the observer is told of every instruction, see [`super::observe`].
    pub reported: bool,
}

/// The numbers of the set bits.
pub(super) fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    })
}

impl Warp {
    /// A warp of the first `count` lanes at the entry's first instruction.
    pub(super) fn new(index: u32, tid: [[u32; 3]; 32], count: u32, entry: u32, registers: u32) -> Warp {
        Warp {
            index,
            tid,
            regs: vec![[0; 32]; registers as usize],
            pc: [entry; 32],
            base: [0; 32],
            frame: [0; 32],
            calls: [const { Vec::new() }; 32],
            local: [const { Vec::new() }; 32],
            flight: Flight::default(),
            carry: 0,
            live: if count >= 32 { u32::MAX } else { (1 << count) - 1 },
            waiting: 0,
            meeting: 0,
            syncing: 0,
            members: [0; 32],
            at: entry,
            origin: 0,
            turn: 0,
            looks: Looks::NONE,
            gave_way: false,
            kept: Kept::default(),
            reported: false,
        }
    }

    /// Lanes that can take a step.
    pub(super) fn ready(&self) -> u32 {
        self.live & !self.waiting & !self.meeting & !self.syncing
    }

    /// Chooses the lanes that run next: the deepest call first, then the lowest program counter, so that paths meet
    /// again; every other [`TURN`] one of the others, so that nobody spins for ever on what another lane holds.
    pub(super) fn choose(&mut self) -> Option<u32> {
        let ready = self.ready();
        let lowest = lanes(ready).min_by_key(|&lane| (u32::MAX - self.base[lane], self.pc[lane]))?;
        (self.at, self.origin) = (self.pc[lowest], self.base[lowest]);
        let others = ready & !self.together(ready);
        if self.others_turn() && others != 0 {
            let first = (self.turn / TURN / 2 % 32) as u32;
            let leader = ((others.rotate_right(first).trailing_zeros() + first) % 32) as usize;
            (self.at, self.origin) = (self.pc[leader], self.base[leader]);
        }
        let group = self.together(ready | self.meeting);
        self.meeting &= !group;
        Some(group)
    }

    /// Returns true if lanes that are not the lowest have the turn.
    pub(super) fn others_turn(&self) -> bool {
        self.turn / TURN % 2 == 1
    }

    /// Gives the turn to lanes that are elsewhere.
    pub(super) fn end_turn(&mut self) {
        self.turn = (self.turn / TURN + 1) * TURN;
    }

    /// Those of `among` that are at the current instruction.
    fn together(&self, among: u32) -> u32 {
        lanes(among)
            .filter(|&lane| self.pc[lane] == self.at && self.base[lane] == self.origin)
            .fold(0, |mask, lane| mask | 1 << lane)
    }

    /// Sets where lanes go on.
    pub(super) fn jump(&mut self, group: u32, pc: u32) {
        for lane in lanes(group) {
            self.pc[lane] = pc;
        }
    }

    /// Lanes that end. Whoever waits to meet them need not any longer. Gives the lanes that have met now.
    pub(super) fn exit(&mut self, group: u32) -> u32 {
        self.live &= !group;
        self.meeting = 0;
        self.release()
    }

    /// Lanes that reach a `bar.warp.sync`: everyone goes on whose members are all there. Gives those.
    pub(super) fn arrive(&mut self, group: u32, members: impl Fn(usize) -> u32) -> u32 {
        for lane in lanes(group) {
            self.members[lane] = members(lane);
        }
        self.syncing |= group;
        self.release()
    }

    fn release(&mut self) -> u32 {
        let there = self.syncing | !self.live;
        let done =
            lanes(self.syncing).filter(|&lane| self.members[lane] & !there == 0).fold(0, |m, lane| m | 1 << lane);
        for lane in lanes(done) {
            self.pc[lane] += 1;
        }
        self.syncing &= !done;
        done
    }

    /// Begins a lane's frame of `size` bytes of local memory.
    pub(super) fn reserve(&mut self, lane: usize, frame: u32, size: u64) -> Result<(), Fault> {
        self.extend(lane, u64::from(frame).saturating_add(size))?;
        self.frame[lane] = frame;
        Ok(())
    }

    /// Makes room above a lane's frame, and gives its address.
    pub(super) fn allocate(&mut self, lane: usize, size: u64, align: u64) -> Result<u64, Fault> {
        let at = (self.local[lane].len() as u64).next_multiple_of(align);
        // Frames of functions that are called begin above: at multiples of 16.
        self.extend(lane, at.saturating_add(size.checked_next_multiple_of(16).unwrap_or(u64::MAX)))?;
        Ok(LOCAL_START + at)
    }

    /// The address of the first byte above a lane's stack.
    pub(super) fn top(&self, lane: usize) -> u64 {
        LOCAL_START + self.local[lane].len() as u64
    }

    /// Gives back what lies above an address; `false` if that is not above the frame of `size` bytes.
    pub(super) fn release_to(&mut self, lane: usize, top: u64, size: u64) -> bool {
        let bottom = LOCAL_START + u64::from(self.frame[lane]) + size;
        let inside = (bottom..=self.top(lane)).contains(&top);
        if inside {
            self.local[lane].truncate((top - LOCAL_START) as usize);
        }
        inside
    }

    /// Makes a lane's local memory end there.
    fn extend(&mut self, lane: usize, end: u64) -> Result<(), Fault> {
        if end > LOCAL_LIMIT {
            let message =
                format!("{end} bytes of local memory for one thread; {LOCAL_LIMIT} are allowed (endless recursion?)");
            return Err(Fault::new(FaultKind::OutOfMemory, message).lane(lane));
        }
        self.local[lane].resize(end as usize, 0);
        Ok(())
    }

    /// The address of a byte of a lane's frame.
    pub(super) fn local_address(&self, lane: usize, offset: u64) -> u64 {
        LOCAL_START + u64::from(self.frame[lane]) + offset
    }
}

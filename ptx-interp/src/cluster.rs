//! State shared by the blocks of a cluster: shared memory, the cluster's barrier, and the waits for mbarriers.

use super::block::Block;
use super::contend::Contention;
use super::kept::{Keeper, Kept, MbarrierPlace, Message};
use super::mbarrier::Mbarrier;
use super::space::number;
use super::tmem::Tmem;
use super::warp::{Warp, lanes};

/// Number of consecutive time-outs of all waits for mbarriers, with no phase complete, before it is a deadlock.
const TIMEOUTS: u32 = 256;

/// The blocks of a cluster while they are resident.
pub(super) struct Cluster {
    pub shared: Shared,
    pub blocks: Vec<(Block, Vec<Warp>)>,
}

/// State shared by the threads of a cluster beside global memory.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The shared memory of each block, by rank.
    pub memory: Vec<Vec<u8>>,
    /// The tensor memory of each block, by rank.
    pub tensor: Vec<Tmem>,
    /// `barrier.cluster`.
    pub gate: Gate,
    /// Whether other clusters go first at atomics.
    pub contention: Contention,
    /// An observer's state of the blocks.
    pub kept: Kept,
    waiters: Vec<PhaseWaiter>,
    /// Warps that wait for tensor memory.
    allocating: Vec<Who>,
    wakes: Vec<Wake>,
    timeouts: u32,
}

/// Lanes of a block of the cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who {
    pub rank: usize,
    pub warp: u32,
    pub lanes: u32,
}

/// Lanes that wait until a phase of an mbarrier is complete.
#[derive(Debug)]
pub(super) struct PhaseWaiter {
    pub who: Who,
    /// The register (absolute) of the predicate.
    pub result: u32,
    /// The mbarrier's block and its address there.
    pub place: (usize, u64),
    /// The parity of the phase.
    pub parity: u64,
    /// True if what its completion carries is known at once, or after a fence.
    pub acquires: bool,
}

/// Lanes that go on, and the predicate that they get.
#[derive(Debug)]
struct Wake {
    who: Who,
    result: Option<(u32, bool)>,
    /// They try the same instruction again.
    again: bool,
    /// State that others leave for them, and its timing.
    message: Message,
    acquires: bool,
}

/// The barrier of all threads of a cluster (9.7.13.3).
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Lanes that have not exited, by block and warp.
    live: Vec<Vec<u32>>,
    /// Lanes that have arrived in this phase.
    arrived: Vec<Vec<u32>>,
    /// Lanes that have arrived and not yet waited.
    open: Vec<Vec<u32>>,
    waiters: Vec<Who>,
}

impl Gate {
    /// Adds a block with these live lanes.
    pub(super) fn add(&mut self, live: Vec<u32>) {
        self.arrived.push(vec![0; live.len()]);
        self.open.push(vec![0; live.len()]);
        self.live.push(live);
    }

    /// Lanes arrive. `false`: some have arrived before and not waited since.
    pub(super) fn arrive(&mut self, who: Who) -> bool {
        let again = at(&mut self.open, who).is_none_or(|open| *open & who.lanes != 0);
        for masks in [&mut self.open, &mut self.arrived] {
            at(masks, who).into_iter().for_each(|mask| *mask |= who.lanes);
        }
        !again
    }

    /// Lanes begin to wait; gives those that need not. `None`: some have not arrived.
    pub(super) fn wait(&mut self, who: Who) -> Option<u32> {
        let open = at(&mut self.open, who).filter(|open| **open & who.lanes == who.lanes)?;
        *open &= !who.lanes;
        let early = who.lanes & at(&mut self.arrived, who).map_or(0, |mask| *mask);
        if early != 0 {
            self.waiters.push(Who { lanes: early, ..who });
        }
        Some(who.lanes & !early)
    }

    /// If all threads have arrived, the next phase begins and these go on.
    fn complete(&mut self) -> Option<Vec<Who>> {
        let pairs = self.live.iter().flatten().zip(self.arrived.iter().flatten());
        if !pairs.clone().all(|(live, arrived)| live & !arrived == 0) {
            return None;
        }
        self.arrived.iter_mut().flatten().for_each(|mask| *mask = 0);
        Some(std::mem::take(&mut self.waiters))
    }
}

fn at(masks: &mut [Vec<u32>], who: Who) -> Option<&mut u32> {
    masks.get_mut(who.rank)?.get_mut(who.warp as usize)
}

impl Shared {
    /// Lanes end: the cluster's barrier no longer waits for them.
    pub(super) fn exit(&mut self, who: Who, observer: Option<&dyn Keeper>) {
        at(&mut self.gate.live, who).into_iter().for_each(|live| *live &= !who.lanes);
        self.open_gate(observer);
    }

    /// Lets the threads at the cluster's barrier go on, if all are there.
    pub(super) fn open_gate(&mut self, observer: Option<&dyn Keeper>) {
        let Some(woken) = self.gate.complete() else { return };
        let message = observer.and_then(|observer| observer.open_gate(&mut self.kept));
        self.wakes.extend(woken.into_iter().map(|who| Wake {
            who,
            result: None,
            again: false,
            message: message.clone(),
            acquires: true,
        }));
    }

    /// Lanes wait for a phase.
    pub(super) fn wait(&mut self, waiter: PhaseWaiter) {
        self.waiters.push(waiter);
    }

    /// The phase of this parity of an mbarrier is complete: those who waited for it go on.
    pub(super) fn complete_phase(&mut self, place: MbarrierPlace, parity: u64, observer: Option<&dyn Keeper>) {
        self.timeouts = 0;
        let awaited = self.waiters.iter().any(|w| w.place == place && w.parity == parity);
        let message = observer.and_then(|observer| observer.complete_phase(&mut self.kept, place, awaited));
        let done = self.waiters.extract_if(.., |w| w.place == place && w.parity == parity);
        let wake = |w: PhaseWaiter| Wake {
            who: w.who,
            result: Some((w.result, true)),
            again: false,
            message: message.clone(),
            acquires: w.acquires,
        };
        self.wakes.extend(done.map(wake));
    }

    /// A warp waits until columns of tensor memory are free, or until the other block of its pair comes.
    pub(super) fn wait_for_columns(&mut self, who: Who) {
        self.allocating.push(who);
    }

    /// Tensor memory has changed hands: all who wait for some try again.
    pub(super) fn columns_changed(&mut self) {
        self.timeouts = 0;
        self.wakes.extend(self.allocating.drain(..).map(|who| Wake {
            who,
            result: None,
            again: true,
            message: None,
            acquires: true,
        }));
    }

    /// Lets woken lanes of a block go on.
    pub(super) fn wake(&mut self, rank: usize, warps: &mut [Warp], observer: Option<&dyn Keeper>) {
        if self.wakes.is_empty() {
            return;
        }
        for Wake { who, result, again, message, acquires } in self.wakes.extract_if(.., |wake| wake.who.rank == rank) {
            let Some(warp) = warps.get_mut(who.warp as usize) else { continue };
            warp.waiting &= !who.lanes;
            if let Some(observer) = observer {
                observer.learn(&mut warp.kept, (who.lanes, warp.live), &message, acquires);
            }
            for lane in lanes(who.lanes) {
                warp.pc[lane] += u32::from(!again);
                let register = result.and_then(|(r, value)| Some((warp.regs.get_mut(r as usize)?, value)));
                if let Some((register, value)) = register {
                    register[lane] = value.into();
                }
            }
        }
    }

    /// When nobody runs: whether somebody can go on, because he is woken or because his wait for an mbarrier times out.
    pub(super) fn revive(&mut self) -> bool {
        if self.wakes.is_empty() && self.timeouts < TIMEOUTS && !self.waiters.is_empty() {
            self.timeouts += 1;
            self.wakes.extend(self.waiters.drain(..).map(|w| Wake {
                who: w.who,
                result: Some((w.result, false)),
                again: false,
                message: None,
                acquires: true,
            }));
        }
        !self.wakes.is_empty()
    }

    /// The wait of a block's lane, for a message.
    pub(super) fn waits_for(
        &self,
        name: impl Fn(u64) -> Option<String>,
        (rank, warp, lane): (usize, u32, usize),
    ) -> Option<String> {
        let is = |who: &Who| who.rank == rank && who.warp == warp && who.lanes >> lane & 1 == 1;
        if let Some(PhaseWaiter { place: (rank, at), parity, .. }) = self.waiters.iter().find(|w| is(&w.who)) {
            let missing = self.mbarrier((*rank, *at)).map_or("it was overwritten".to_string(), Mbarrier::missing);
            let name = name(*at).map_or(String::new(), |name| format!(" ({name})"));
            return Some(format!("for the phase of parity {parity} of the mbarrier at {at:#x}{name}: {missing}"));
        }
        if let Some(tensor) = self.tensor.get(rank).filter(|_| self.allocating.iter().any(is)) {
            return Some(tensor.waiting(warp));
        }
        let gate = self.gate.waiters.iter().any(is);
        gate.then(|| {
            let pairs = self.gate.live.iter().flatten().zip(self.gate.arrived.iter().flatten());
            let missing: u32 = pairs.map(|(live, arrived)| (live & !arrived).count_ones()).sum();
            format!("at the barrier of the cluster, where {missing} threads are missing")
        })
    }

    /// The lanes of a warp, named by its block's rank and its number, that wait for a phase of an mbarrier.
    pub(super) fn waiting_lanes(&self, place: MbarrierPlace, (rank, warp): (usize, u32)) -> u32 {
        let own = self.waiters.iter().filter(|w| w.place == place && (w.who.rank, w.who.warp) == (rank, warp));
        own.fold(0, |lanes, waiter| lanes | waiter.who.lanes)
    }

    /// Number of threads that wait for an mbarrier, and the block and warp of the first.
    pub(super) fn waiters_of(&self, place: (usize, u64)) -> (u32, Option<(usize, u32)>) {
        let mut all = self.waiters.iter().filter(|w| w.place == place).map(|w| w.who);
        let count = all.clone().map(|who| who.lanes.count_ones()).sum();
        (count, all.next().map(|who| (who.rank, who.warp)))
    }

    /// The mbarriers for which somebody waits, each once.
    pub(super) fn awaited(&self) -> impl Iterator<Item = (usize, u64)> {
        let first = |at: usize| self.waiters[..at].iter().all(|w| w.place != self.waiters[at].place);
        (0..self.waiters.len()).filter(move |at| first(*at)).map(|at| self.waiters[at].place)
    }

    /// Content of an mbarrier, if it is one.
    pub(super) fn mbarrier(&self, (rank, at): (usize, u64)) -> Option<Mbarrier> {
        let word = usize::try_from(at).ok().and_then(|at| self.memory.get(rank)?.get(at..at.checked_add(8)?))?;
        Mbarrier::unpack(number(word)).ok()
    }
}

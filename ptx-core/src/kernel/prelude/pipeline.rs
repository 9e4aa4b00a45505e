//! A ring of shared-memory stages between producers, which fill them with asynchronous copies, and consumers, which read them.
//!
//! Each stage has two `mbarrier`s: `full` completes a phase when the bytes have arrived, `empty` when all consumers have
//! released the stage. Producers and consumers each have a `Pipeline` of their own, which starts at stage 0 and phase 0. For
//! `sm_90` and later.

/// The barriers of a ring of `STAGES` stages.
struct Barriers<const STAGES: u32> {
    full: [mbarrier::Barrier; STAGES],
    empty: [mbarrier::Barrier; STAGES],
}

impl<const STAGES: u32> Shared<Barriers<STAGES>> {
    /// Initializes the barriers, in one thread: `mbarrier.init` for each, and `fence.mbarrier_init`. A stage is full when
    /// `PRODUCERS` have arrived and their bytes too, and empty when `CONSUMERS` have arrived. Other threads of the block, and of
    /// its cluster where they arrive or copy, may use them after a barrier.
    fn init<const PRODUCERS: u32, const CONSUMERS: u32>(self) {
        for stage in 0..STAGES {
            self.full.at(stage).init(PRODUCERS);
            self.empty.at(stage).init(CONSUMERS);
        }
        mbarrier::fence_init();
    }
}

/// A position in the ring: the current stage, and the parity of the current round.
struct Pipeline<const STAGES: u32> {
    barriers: Shared<Barriers<STAGES>>,
    stage: u32,
    phase: u32,
}

impl<const STAGES: u32> Pipeline<STAGES> {
    /// The first stage of the first round: two `mov`.
    fn new(barriers: Shared<Barriers<STAGES>>) -> Pipeline<STAGES> {
        Pipeline { barriers, stage: 0, phase: 0 }
    }

    /// The barrier that signals a full stage: `shl`, `add`.
    fn full(&self) -> Shared<mbarrier::Barrier> {
        self.barriers.full.at(self.stage)
    }

    /// The barrier that signals an empty stage: `shl`, `add`, `add`.
    fn empty(&self) -> Shared<mbarrier::Barrier> {
        self.barriers.empty.at(self.stage)
    }

    /// A consumer waits until the stage is full: `shl`, `add`, and `mbarrier.try_wait.parity` in a loop.
    fn wait_full(&self) {
        self.barriers.full.at(self.stage).wait(self.phase);
    }

    /// A producer waits until the stage is empty, as every stage is in the first round: `xor`, `shl`, `add`, and
    /// `mbarrier.try_wait.parity` in a loop.
    fn wait_empty(&self) {
        self.barriers.empty.at(self.stage).wait(self.phase ^ 1);
    }

    /// A consumer releases `stage` to the producers of all `BLOCKS` blocks of the cluster. All threads of a warp group call it;
    /// `thread` is the index in the warp group, and thread i arrives at block i. `setp`, and under it `mapa` and
    /// `mbarrier.arrive`. The arrival has no cluster-scope release, which would be a fence each time: the reads of the stage
    /// have completed.
    fn release<const BLOCKS: u32>(&self, stage: u32, thread: u32) {
        let empty = self.barriers.empty.at(stage);
        if BLOCKS == 1 {
            if thread == 0 {
                empty.arrive();
            }
        } else if thread < BLOCKS {
            let remote: SharedCluster<mbarrier::Barrier>;
            let own: u32 = empty;
            ptx! {
                mapa.shared::cluster.u32 remote, own, thread;
                mbarrier.arrive.shared::cluster.b64 _, [remote];
            }
        }
    }

    /// Moves on to the next stage, and flips the phase at the end of a round: `add`, `setp`, and under it `mov` and `xor`.
    fn advance(&mut self) {
        self.stage += 1;
        if self.stage == STAGES {
            self.stage = 0;
            self.phase = self.phase ^ 1;
        }
    }

    /// A producer waits until the consumers have released all stages, before its block exits: `wait_empty` and `advance` for
    /// each stage. After that no block of the cluster arrives here anymore.
    fn drain(&mut self) {
        for _ in 0..STAGES {
            self.wait_empty();
            self.advance();
        }
    }
}

/// How many bytes the barriers of a ring take.
fn bytes(stages: u32) -> u32 {
    16 * stages
}

/// Makes the barriers, by one thread: `mbarrier.init` for each, and `fence.mbarrier_init`. A stage is full when
/// `PRODUCERS` have arrived and their bytes have come, and empty when `CONSUMERS` have arrived. Threads of the block, and
/// of its cluster where they arrive or copy, may use them after a barrier.
fn init<const STAGES: u32, const PRODUCERS: u32, const CONSUMERS: u32>(bars: u32) {
    for stage in 0..STAGES {
        ptx! {
            mbarrier.init.shared::cta.b64 [bars + 8 * stage], PRODUCERS;
            mbarrier.init.shared::cta.b64 [bars + 8 * (STAGES + stage)], CONSUMERS;
        }
    }
    ptx! { fence.mbarrier_init.release.cluster; }
}

/// The barrier that tells consumers of a full stage: `shl`, `add`.
fn full(bars: u32, stage: u32) -> u32 {
    bars + (stage << 3)
}

/// The barrier that tells producers of an empty stage: `shl`, `add`, `add`.
fn empty<const STAGES: u32>(bars: u32, stage: u32) -> u32 {
    bars + (stage << 3) + 8 * STAGES
}

/// A consumer waits until its stage is full: `mbarrier.try_wait.parity` in a loop.
fn wait_full(bars: u32, stage: u32, phase: u32) {
    mbarrier::wait(full(bars, stage), phase);
}

/// A producer waits until its stage is empty, which every stage is in the first round: as above, for the other parity.
fn wait_empty<const STAGES: u32>(bars: u32, stage: u32, phase: u32) {
    mbarrier::wait(empty::<STAGES>(bars, stage), phase ^ 1);
}

/// A consumer gives a stage back to the producers of all `BLOCKS` blocks of its cluster. All threads of a warp group may
/// call it, `thread` is their number in it: as many as there are blocks arrive, each at one of them. `setp`, and under it
/// `mapa` and `mbarrier.arrive`. The arrival releases nothing to the cluster, which would be a fence each time: what a
/// consumer read, it read before it arrived.
fn release<const STAGES: u32, const BLOCKS: u32>(bars: u32, stage: u32, thread: u32) {
    let bar: u32 = empty::<STAGES>(bars, stage);
    if BLOCKS == 1 {
        if thread == 0 {
            mbarrier::arrive(bar);
        }
    } else if thread < BLOCKS {
        let remote: u32;
        ptx! {
            mapa.shared::cluster.u32 remote, bar, thread;
            mbarrier.arrive.shared::cluster.b64 _, [remote];
        }
    }
}

/// The next stage, and behind the last one the first with the other parity: `add`, `setp`, and under it `mov` and `xor`.
fn advance<const STAGES: u32>(stage: &mut u32, phase: &mut u32) {
    *stage += 1;
    if *stage == STAGES {
        *stage = 0;
        *phase = *phase ^ 1;
    }
}

/// A producer waits, before its block ends, until consumers have given back whatever they still have: `wait_empty` and
/// `advance` for each stage. Then no block of the cluster arrives here any more, and none has to wait for the others.
fn drain<const STAGES: u32>(bars: u32, stage: &mut u32, phase: &mut u32) {
    for _ in 0..STAGES {
        wait_empty::<STAGES>(bars, *stage, *phase);
        advance::<STAGES>(stage, phase);
    }
}

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

//! A ring of stages between producers, who fill shared memory by asynchronous copies, and consumers, who read it.
//!
//! Each stage has two `mbarrier`s: `full` ends a phase when the bytes have come, `empty` when all consumers are done.
//! They lie side by side from `bars`: first every `full`, then every `empty`, 16 · `STAGES` bytes. Both sides walk the
//! ring with a `stage` and a `phase` of their own, which start as zeros. For `sm_90` and later.

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

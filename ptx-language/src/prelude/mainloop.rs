//! The main loop of a warp-specialized GEMM on Hopper: a producer warp loads stages with TMA, warp groups multiply them with
//! `wgmma`. The caller decides which tile comes next. For `sm_90a` alone.
//!
//! A stage holds 128 bytes along K of the tile's rows of A, then of B. The blocks of a cluster have neighboring tiles: blocks of
//! one row of the cluster need the same A, blocks of one column the same B. Each loads its share for all of them
//! (`.multicast::cluster`).

/// Operands whose rows lie along K: A is M × K, B is N × K.
const K_MAJOR: u32 = 0;
/// Operands whose rows lie along M or N: A is K × M, B is K × N.
const MN_MAJOR: u32 = 1;

/// The tile of a block, the stages of the ring, the cluster, and the layout of the operands.
struct Policy {
    block_m: u32,
    block_n: u32,
    stages: u32,
    cluster_m: u32,
    cluster_n: u32,
    major_a: u32,
    major_b: u32,
    /// 1 if B has a third dimension, a matrix for each group; 2 if A has one, too, as in a batch.
    groups: u32,
}

impl Policy {
    /// Blocks of a cluster.
    const fn cluster(&self) -> u32 {
        self.cluster_m * self.cluster_n
    }

    /// Warp groups that multiply: each has 64 rows of the tile, or 128 where it has 256.
    const fn consumers(&self) -> u32 {
        if self.block_m == 192 { 3 } else { (self.block_m / 64).min(2) }
    }

    /// Accumulators of a thread.
    const fn accumulators(&self) -> u32 {
        self.block_m * self.block_n / self.consumers() / 128
    }
}

/// A stage in shared memory.
#[align(1024)]
struct Stage<const P: Policy> {
    a: [[u8; 128]; P.block_m],
    b: [[u8; 128]; P.block_n],
}

/// A part of K, in elements. With `backward` = 1 it is loaded from its end to its beginning.
struct KRange {
    begin: u32,
    end: u32,
    backward: u32,
}

/// One operand as a producer loads it: `ROWS` rows of M or N per tile, which `BLOCKS` blocks of the cluster need. Each loads a
/// share of them, for all.
struct Operand<const MAJOR: u32, const ROWS: u32, const BLOCKS: u32, const GROUPS: u32> {
    map: TensorMap,
    /// The bytes of a stage in front of this block's share.
    share: u32,
    /// The blocks that receive it.
    mask: u16,
    /// With `GROUPS` = 1, the matrix: the coordinate of the third dimension.
    group: u32,
}

impl<const MAJOR: u32, const ROWS: u32, const BLOCKS: u32, const GROUPS: u32> Operand<MAJOR, ROWS, BLOCKS, GROUPS> {
    /// The operand with this tensor map; this block has share `index`. `mul.lo`.
    fn new(map: TensorMap, index: u32, mask: u16) -> Operand<MAJOR, ROWS, BLOCKS, GROUPS> {
        Operand { map, share: index * (ROWS / BLOCKS * 128), mask, group: 0 }
    }

    /// Loads this block's share of a stage: from `row` on, 128 bytes along K from `k` on, to the operand's rows of a stage at `to`.
    /// One `cp.async.bulk.tensor` of a K-major operand, one for each 64 rows of an MN-major one.
    fn load(&self, to: u32, row: u32, k: u32, full: u32) {
        const SHARE: u32 = ROWS / BLOCKS;
        const BOX: u32 = if MAJOR == K_MAJOR { SHARE } else { 64 };
        for copy in 0..SHARE / BOX {
            const AT: u32 = copy * BOX * 128;
            if GROUPS == 1 {
                self.load_of_group(to + AT, row + BOX * copy, k, full);
            } else if MAJOR == K_MAJOR {
                tma::load_2d_shared::<BLOCKS>(to + AT, self.map, k, row + BOX * copy, full, self.mask);
            } else {
                tma::load_2d_shared::<BLOCKS>(to + AT, self.map, row + BOX * copy, k, full, self.mask);
            }
        }
    }

    /// A box of the group's matrix: `cp.async.bulk.tensor.3d`.
    fn load_of_group(&self, to: u32, row: u32, k: u32, full: u32) {
        if MAJOR == K_MAJOR {
            tma::load_3d_shared::<BLOCKS>(to, self.map, [k, row, self.group], full, self.mask);
        } else {
            tma::load_3d_shared::<BLOCKS>(to, self.map, [row, k, self.group], full, self.mask);
        }
    }
}

/// The producer's side of the main loop.
struct Producer<const P: Policy> {
    a: Operand<{ P.major_a }, { P.block_m }, { P.cluster_n }, { P.groups / 2 }>,
    b: Operand<{ P.major_b }, { P.block_n }, { P.cluster_m }, { P.groups.min(1) }>,
    stages: Shared<[Stage<P>; P.stages]>,
    pipeline: pipeline::Pipeline<{ P.stages }>,
    /// True in the thread that issues copies.
    elected: pred,
}

impl<const P: Policy> Producer<P> {
    /// The producer of the block at (`rank_m`, `rank_n`) of its cluster, at the start of the ring. By a whole warp: `elect.sync`,
    /// two `shl` and `cvt`, and `mul.lo`.
    fn new(
        a: TensorMap,
        b: TensorMap,
        stages: Shared<[Stage<P>; P.stages]>,
        barriers: Shared<pipeline::Barriers<{ P.stages }>>,
        rank_m: u32,
        rank_n: u32,
    ) -> Producer<P> {
        const ROW: u32 = ((1 << P.cluster()) - 1) / ((1 << P.cluster_m) - 1);
        const COLUMN: u32 = (1 << P.cluster_m) - 1;
        Producer {
            elected: warp::elect(),
            a: Operand::new(a, rank_n, (ROW << rank_m) as u16),
            b: Operand::new(b, rank_m, (COLUMN << (rank_n * P.cluster_m)) as u16),
            stages,
            pipeline: pipeline::Pipeline::new(barriers),
        }
    }

    /// Loads the stages of a tile, with this block's shares from row `m` of A and row `n` of B on. All threads of the warp wait,
    /// the elected one issues. In a loop: `mbarrier.try_wait`, `mbarrier.arrive.expect_tx`, and `cp.async.bulk.tensor` for A and
    /// B.
    fn load_tile<T>(&mut self, m: u32, n: u32, k: &KRange) {
        const STEP: u32 = 128 / size_of::<T>();
        let mut left: u32 = (k.end - k.begin + (STEP - 1)) / STEP;
        let mut at_k: u32 = k.begin + k.backward * (left - 1) * STEP;
        let next: u32 = STEP - k.backward * (2 * STEP);
        while left > 0 {
            self.pipeline.wait_empty();
            if self.elected {
                let (full, stage) = (self.pipeline.full(), self.stages.at(self.pipeline.stage));
                full.arrive_expect(size_of::<Stage<P>>());
                self.a.load(stage.a + self.a.share, m, at_k, full);
                self.b.load(stage.b + self.b.share, n, at_k, full);
            }
            self.pipeline.advance();
            at_k += next;
            left -= 1;
        }
    }
}

/// The side of a warp group that multiplies.
struct Consumer<const P: Policy> {
    /// The descriptors of its rows of A, and of B, in the first stage.
    a: u64,
    b: u64,
    pipeline: pipeline::Pipeline<{ P.stages }>,
    /// The thread in the warp group.
    thread: u32,
    /// The warp group in the block, from 1 on; also its named barrier.
    warp_group: u32,
}

impl<const P: Policy> Consumer<P> {
    /// Warp group `warp_group` of the block, from 1 on, at the start of the ring. `and`, `mul.lo`, and `shr` and `or` of two
    /// descriptors.
    fn new(
        stages: Shared<[Stage<P>; P.stages]>,
        barriers: Shared<pipeline::Barriers<{ P.stages }>>,
        warp_group: u32,
    ) -> Consumer<P> {
        const ROWS: u32 = P.block_m / P.consumers();
        let first = stages.at(0);
        Consumer {
            thread: tid.x & 127,
            warp_group,
            a: wgmma::descriptor_of::<{ P.major_a }>(first.a + (warp_group - 1) * (128 * ROWS)),
            b: wgmma::descriptor_of::<{ P.major_b }>(first.b),
            pipeline: pipeline::Pipeline::new(barriers),
        }
    }

    /// `acc` (`f32`; of `i8` operands `i32`) becomes the sum of the products of a part of K, in the order of `load_tile`. In a loop: `mbarrier.try_wait`,
    /// `wgmma.fence`, the products of a stage, `wgmma.commit_group`; while these run, `wgmma.wait_group 1` and an arrival release
    /// the stage before.
    ///
    /// With `STAGGER` above 0, at most the number of stages, two consumers take turns at the end: the first one multiplies
    /// that many stages before the second one does, and runs its epilogue meanwhile (named barrier 3, `bar.arrive` and
    /// `bar.sync`). Not if the ring holds the whole tile: the first consumer could reach the barrier twice.
    fn multiply_tile<T, const STAGGER: u32, A>(&mut self, acc: &mut [A; P.accumulators()], k: &KRange) {
        const STEP: u32 = 128 / size_of::<T>();
        let mut accumulate: pred = false;
        // From `since` on there are stages that are not released yet.
        let (mut last, mut since, mut at_k, mut turn): (u32, u32, u32, u32) = (0, k.begin, k.begin, k.end);
        if STAGGER > 0 {
            let steps: u32 = (k.end - k.begin + (STEP - 1)) / STEP;
            if steps > P.stages {
                turn = k.begin + (steps - STAGGER) * STEP;
            }
        }
        while at_k < k.end {
            if STAGGER > 0 {
                if self.warp_group == 2 {
                    if at_k == turn {
                        wgmma::wait::<0>();
                        self.release(last);
                        since = at_k;
                        barrier::sync::<256>(3);
                    }
                }
            }
            let offset: u64 = wide(self.pipeline.stage) * (size_of::<Stage<P>>() / 16);
            let (a, b): (u64, u64) = (self.a + offset, self.b + offset);
            self.pipeline.wait_full();
            wgmma::fence();
            multiply_stage::<T, P>(acc, a, b, &mut accumulate);
            wgmma::commit();
            if at_k > since {
                wgmma::wait::<1>();
                self.release(last);
            }
            last = self.pipeline.stage;
            self.pipeline.advance();
            at_k += STEP;
        }
        if STAGGER > 0 {
            if self.warp_group == 1 {
                if turn < k.end {
                    barrier::arrive::<256>(3);
                }
            }
        }
        wgmma::wait::<0>();
        self.release(last);
    }

    /// Releases a stage to the producers of the cluster: `Pipeline::release`.
    fn release(&self, stage: u32) {
        self.pipeline.release::<{ P.cluster() }>(stage, self.thread);
    }
}

/// Multiplies the rows of a warp group by a stage: four steps of 32 bytes along K, one `wgmma.mma_async` for each 64 rows and at
/// most 256 columns. Operands of `f32` count as `tf32`. Without `accumulate` the old values of `acc` do not count; it becomes true.
fn multiply_stage<T, const P: Policy, A>(acc: &mut [A; P.accumulators()], a: u64, b: u64, accumulate: &mut pred) {
    const PARTS: u32 = P.block_n.div_ceil(256);
    const N: u32 = P.block_n / PARTS;
    for step in 0..4 {
        // The next 32 bytes along K; of an MN-major operand, the next 16 rows of 128 bytes.
        const STEP_A: u64 = step * if P.major_a == K_MAJOR { 2 } else { 128 };
        const STEP_B: u64 = step * if P.major_b == K_MAJOR { 2 } else { 128 };
        for part in 0..P.accumulators() * 2 / N {
            // 64 rows of A are 8 KiB; a descriptor counts 16 bytes.
            const ROWS: u64 = (part / PARTS * 512) as u64;
            const COLUMNS: u64 = (part % PARTS * N * 8) as u64;
            let (da, db): (u64, u64) = (a + (STEP_A + ROWS), b + (STEP_B + COLUMNS));
            if type_name::<T>() == "i8" {
                wgmma::multiply8_integer::<N, { part * N / 2 }>(acc, da, db, *accumulate);
            } else if size_of::<T>() == 4 {
                wgmma::multiply_tf32::<N, { part * N / 2 }>(acc, da, db, *accumulate);
            } else if size_of::<T>() == 1 {
                wgmma::multiply8::<T, T, N, { part * N / 2 }>(acc, da, db, *accumulate);
            } else {
                wgmma::multiply16::<T, N, { part * N / 2 }, { P.major_a }, { P.major_b }>(acc, da, db, *accumulate);
            }
        }
        if step == 0 {
            *accumulate = true;
        }
    }
}

//! Power of a GEMM: its `wgmma`s alone, on operands in shared memory, and with one more activity each. At the limit
//! of its power, a chip is slower by what the thing takes. Nobody reads the sums, nothing is promised, and there are
//! no rivals.

use crate::bench::{Bench, Case, Work};
use crate::data::Value;
use ptx_launch::Result;
use ptx_launch::prelude::*;
use std::cell::RefCell;

const KERNEL: &str = "power bf16";
/// Blocks, and elements along K, of 128 × 256 products a step; a chip has 132 multiprocessors, and two of them a cluster.
const SIZES: &[(u32, usize)] = &[(132, 65536)];
/// For a rehearsal.
const SMALL: &[(u32, usize)] = &[(2, 256)];
/// Lines of A and of B: bands of eight clusters, and as many columns as that takes.
const LINES: usize = 4096;

#[ptx_module(arch = "sm_90a")]
mod kernels {
    /// Activities of a block beside its `wgmma`s.
    const BARRIERS: u32 = 1;
    const FETCH_A: u32 = 2;
    const FETCH_B: u32 = 4;
    const APART: u32 = 8;

    /// The products of a tile for `depth` elements along K, as the claimed scheduler of `ptx_kernels::gemm` makes them, in every block. The three
    /// stages of the ring are filled once. What is more in `MORE`: the barriers of the ring, A's part of every stage, B's
    /// part, and a tile of its own for every cluster, in bands of eight; without that, all have the first.
    #[ptx_kernel(
        block = 384,
        cluster = CLUSTER_M * CLUSTER_N,
        grid = blocks,
        max_regs = 168,
        instances = [
            (bf16, 128, 256, 2, 1, 0), (bf16, 128, 256, 2, 1, 1), (bf16, 128, 256, 2, 1, 3), (bf16, 128, 256, 2, 1, 5),
            (bf16, 128, 256, 2, 1, 7), (bf16, 128, 256, 2, 1, 15), (bf16, 128, 256, 1, 1, 7), (bf16, 256, 192, 1, 2, 0),
            (bf16, 256, 192, 1, 2, 7), (bf16, 256, 192, 1, 2, 15)
        ],
        unsafe(requires(blocks % (CLUSTER_M * CLUSTER_N) == 0, blocks > 0, sums.len() >= blocks * 256))
    )]
    pub fn products<
        T,
        const BLOCK_M: u32,
        const BLOCK_N: u32,
        const CLUSTER_M: u32,
        const CLUSTER_N: u32,
        const MORE: u32,
    >(
        #[tma(box = [BLOCK_M / CLUSTER_N, 64], swizzle = 128, promotion = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [BLOCK_N / CLUSTER_M, 64], swizzle = 128, promotion = 128)] b: Tile<T, (N, K)>,
        sums: &mut [f32],
        blocks: u32,
        depth: u32,
    ) {
        const P: mainloop::Policy = policy(BLOCK_M, BLOCK_N, CLUSTER_M, CLUSTER_N);
        #[shared(dynamic)]
        let smem: SharedMemory<P>;
        if tid.x == 0 {
            smem.barriers.init::<1, { 2 * P.cluster() }>();
        }
        warp::sync();
        cluster::sync();
        let (rank, warp_group): (u32, u32) = (cluster::rank(), cluster::warp_group());
        let (rank_m, rank_n): (u32, u32) = (rank % CLUSTER_M, rank / CLUSTER_M);
        if warp_group == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x < 32 {
                let mut producer =
                    mainloop::Producer::<P>::new(a_map, b_map, smem.stages, smem.barriers, rank_m, rank_n);
                let (mut row, mut column): (u32, u32) = (0, 0);
                if MORE & APART != 0 {
                    row = ctaid.x / P.cluster() % 8;
                    column = ctaid.x / P.cluster() / 8;
                }
                let m: u32 = (row * CLUSTER_M + rank_m) * BLOCK_M + rank_n * (BLOCK_M / CLUSTER_N);
                let n: u32 = (column * CLUSTER_N + rank_n) * BLOCK_N + rank_m * (BLOCK_N / CLUSTER_M);
                let mut filled: u32 = 192;
                if MORE & BARRIERS != 0 {
                    filled = filled.min(depth);
                }
                let range = mainloop::KRange { begin: 0, end: filled, backward: 0 };
                producer.load_tile::<T>(m, n, &range);
                if MORE & BARRIERS != 0 {
                    load_parts::<MORE, P>(&mut producer, m, n, filled, depth);
                }
            }
        } else {
            wgmma::more_registers::<232>();
            let mut consumer = mainloop::Consumer::<P>::new(smem.stages, smem.barriers, warp_group);
            let mut acc: [f32; P.accumulators()] = [0.0; P.accumulators()];
            if MORE & BARRIERS != 0 {
                let range = mainloop::KRange { begin: 0, end: depth, backward: 0 };
                consumer.multiply_tile::<T, 0>(&mut acc, &range);
            } else {
                multiply_filled::<T, P>(&mut consumer, &mut acc, depth);
            }
            let mut sum: f32 = 0.0;
            for i in 0..P.accumulators() {
                sum += acc[i];
            }
            let to = sums.at(ctaid.x * 256 + (warp_group - 1) * 128 + consumer.thread);
            ptx! { st.global.f32 [to], sum; }
        }
        // No block leaves while another one may still arrive at its barriers.
        warp::sync();
        cluster::sync();
    }

    struct SharedMemory<const P: mainloop::Policy> {
        stages: [mainloop::Stage<P>; P.stages],
        barriers: pipeline::Barriers<{ P.stages }>,
    }

    fn policy(block_m: u32, block_n: u32, cluster_m: u32, cluster_n: u32) -> mainloop::Policy {
        mainloop::Policy { block_m, block_n, stages: 3, cluster_m, cluster_n, major_a: 0, major_b: 0, groups: 0 }
    }

    /// Goes round the ring from `k` to `end`, and loads the operands that `MORE` has.
    fn load_parts<const MORE: u32, const P: mainloop::Policy>(
        producer: &mut mainloop::Producer<P>,
        m: u32,
        n: u32,
        mut k: u32,
        end: u32,
    ) {
        const BYTES_A: u32 = if MORE & FETCH_A == 0 { 0 } else { P.block_m * 128 };
        const BYTES_B: u32 = if MORE & FETCH_B == 0 { 0 } else { P.block_n * 128 };
        while k < end {
            producer.pipeline.wait_empty();
            if producer.elected {
                let (full, stage) = (producer.pipeline.full(), producer.stages.at(producer.pipeline.stage));
                full.arrive_expect({ BYTES_A + BYTES_B });
                if BYTES_A > 0 {
                    producer.a.load(stage.a + producer.a.share, m, k, full);
                }
                if BYTES_B > 0 {
                    producer.b.load(stage.b + producer.b.share, n, k, full);
                }
            }
            producer.pipeline.advance();
            k += 64;
        }
    }

    /// Multiplies the three stages that are filled, again and again.
    fn multiply_filled<T, const P: mainloop::Policy>(
        consumer: &mut mainloop::Consumer<P>,
        acc: &mut [f32; P.accumulators()],
        depth: u32,
    ) {
        for _ in 0..3 {
            consumer.pipeline.wait_full();
            consumer.pipeline.advance();
        }
        let (mut accumulate, mut k): (pred, u32) = (false, 0);
        while k < depth {
            let offset: u64 = wide(consumer.pipeline.stage) * (size_of::<mainloop::Stage<P>>() / 16);
            let (a, b): (u64, u64) = (consumer.a + offset, consumer.b + offset);
            wgmma::fence();
            mainloop::multiply_stage::<T, P>(acc, a, b, &mut accumulate);
            wgmma::commit();
            wgmma::wait::<1>();
            consumer.pipeline.advance();
            k += 64;
        }
        wgmma::wait::<0>();
    }
}

pub fn bf16(bench: &mut Bench) -> Result<()> {
    for (blocks, depth) in bench.sizes(SIZES, SMALL).iter().copied() {
        if bench.wants(KERNEL, &depth.to_string()) {
            one(bench, blocks, depth)?;
        }
    }
    Ok(())
}

fn one(bench: &mut Bench, blocks: u32, depth: usize) -> Result<()> {
    let (device, stream, seeds) = (bench.device.clone(), bench.stream.clone(), [bench.seed(), bench.seed()]);
    let (mut a, mut b) = (device.zeros::<bf16>(LINES * depth)?, device.zeros::<bf16>(LINES * depth)?);
    bf16::fill(&stream, &mut a, seeds[0])?;
    bf16::fill(&stream, &mut b, seeds[1])?;
    let sums = RefCell::new(device.zeros::<f32>(blocks as usize * 256)?);
    let mut case = Case {
        kernel: KERNEL,
        size: depth.to_string(),
        work: Work::Flops(2.0 * 128.0 * 256.0 * f64::from(blocks) * depth as f64),
        poison: Box::new(|_| Ok(())),
        check: Box::new(|_| Ok(0.0)),
        limit: 0.0,
        contestants: Vec::new(),
        absent: Vec::new(),
    };
    /// The same products in tiles of any size: where a tile is larger, K is shorter.
    macro_rules! way {
        ($name:literal $rows:literal $columns:literal $cm:literal $cn:literal $more:literal) => {
            let steps = depth * 128 * 256 / ($rows * $columns) / 64;
            case.ours($name, |stream| {
                let (a, b) = (a.tile([LINES, depth])?, b.tile([LINES, depth])?);
                let sums = &mut *sums.borrow_mut();
                kernels::products::<bf16, $rows, $columns, $cm, $cn, $more>(
                    stream,
                    a,
                    b,
                    sums,
                    blocks,
                    steps as u32 * 64,
                )
            });
        };
    }
    way!("128x256 2x1" 128 256 2 1 0);
    way!("128x256 2x1 barriers" 128 256 2 1 1);
    way!("128x256 2x1 barriers, A" 128 256 2 1 3);
    way!("128x256 2x1 barriers, B" 128 256 2 1 5);
    way!("128x256 2x1 barriers, A, B" 128 256 2 1 7);
    way!("128x256 2x1 barriers, A, B, apart" 128 256 2 1 15);
    way!("128x256 1x1 barriers, A, B" 128 256 1 1 7);
    way!("256x192 1x2" 256 192 1 2 0);
    way!("256x192 1x2 barriers, A, B" 256 192 1 2 7);
    way!("256x192 1x2 barriers, A, B, apart" 256 192 1 2 15);
    bench.contest(case)
}

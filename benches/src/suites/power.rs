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

const fn shared_bytes(rows: u32, columns: u32) -> u32 {
    3 * (rows + columns) * 128 + 48
}

#[ptx_module(arch = "sm_90a")]
mod kernels {
    /// Activities of a block beside its `wgmma`s.
    const BARRIERS: u32 = 1;
    const FETCH_A: u32 = 2;
    const FETCH_B: u32 = 4;
    const APART: u32 = 8;

    /// The products of a tile for `depth` elements along K, as `examples/hopper/gemm.rs` makes them, in every block. The three
    /// stages of the ring are filled once. What is more in `MORE`: the barriers of the ring, A's part of every stage, B's
    /// part, and a tile of its own for every cluster, in bands of eight; without that, all have the first.
    #[ptx_kernel(
        block = 384,
        cluster = CM * CN,
        grid = blocks,
        shared = super::shared_bytes(ROWS, COLUMNS),
        max_regs = 168,
        instances = [
            (bf16, 128, 256, 2, 1, 0), (bf16, 128, 256, 2, 1, 1), (bf16, 128, 256, 2, 1, 3), (bf16, 128, 256, 2, 1, 5),
            (bf16, 128, 256, 2, 1, 7), (bf16, 128, 256, 2, 1, 15), (bf16, 128, 256, 1, 1, 7), (bf16, 256, 192, 1, 2, 0),
            (bf16, 256, 192, 1, 2, 7), (bf16, 256, 192, 1, 2, 15)
        ],
        unsafe(requires(blocks % (CM * CN) == 0, blocks > 0, sums.len() >= blocks * 256))
    )]
    pub fn products<T, const ROWS: u32, const COLUMNS: u32, const CM: u32, const CN: u32, const MORE: u32>(
        #[tma(box = [ROWS / CN, 64], swizzle = 128, promotion = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [COLUMNS / CM, 64], swizzle = 128, promotion = 128)] b: Tile<T, (N, K)>,
        sums: &mut [f32],
        blocks: u32,
        depth: u32,
    ) {
        #[shared(dynamic, align = 1024)]
        let smem: [u8];
        const STAGE: u32 = product::stage_bytes(ROWS, COLUMNS);
        const RING: u32 = 3 * STAGE;
        const BLOCKS: u32 = CM * CN;
        const SHARE_A: u32 = ROWS / CN;
        const SHARE_B: u32 = COLUMNS / CM;
        const SUMS: u32 = ROWS / 128 * COLUMNS / 2;
        let (stages, bars): (u32, u32) = (smem, smem + RING);
        product::begin::<3, { 2 * BLOCKS }>(a_map, b_map, a_map, bars);
        cluster::wait();
        let rank: u32 = cluster::rank();
        let (down, right): (u32, u32) = (rank % CM, rank / CM);
        let (mut stage, mut phase, mut k): (u32, u32, u32) = (0, 0, 0);
        let role: u32 = cluster::warp_group();
        if role == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x < 32 {
                let chosen: pred = warp::elect();
                let masks: [u16; 2] = product::neighbours::<CM, CN>(down, right);
                let (mut row, mut column): (u32, u32) = (0, 0);
                if MORE & APART != 0 {
                    row = ctaid.x / BLOCKS % 8;
                    column = ctaid.x / BLOCKS / 8;
                }
                let (lines, places): ([u32; 2], [u32; 2]);
                lines[0] = (row * CM + down) * ROWS + right * SHARE_A;
                lines[1] = (column * CN + right) * COLUMNS + down * SHARE_B;
                places[0] = right * (SHARE_A * 128);
                places[1] = down * (SHARE_B * 128);
                let mut filled: u32 = 192;
                if MORE & BARRIERS != 0 {
                    ptx! { min.u32 filled, filled, depth; }
                }
                product::fill::<T, 0, 0, ROWS, COLUMNS, 3, CM, CN>(
                    a_map, b_map, lines, places, masks, 0, stages, bars, &mut stage, &mut phase, 0, filled, 0, chosen,
                );
                if MORE & BARRIERS != 0 {
                    const OF_A: u32 = if MORE & FETCH_A == 0 { 0 } else { ROWS * 128 };
                    const OF_B: u32 = if MORE & FETCH_B == 0 { 0 } else { COLUMNS * 128 };
                    k = filled;
                    while k < depth {
                        pipeline::wait_empty::<3>(bars, stage, phase);
                        if chosen {
                            let (full, to): (u32, u32) = (pipeline::full(bars, stage), stages + stage * STAGE);
                            let (to_a, to_b): (u32, u32) = (to + places[0], to + places[1] + ROWS * 128);
                            mbarrier::arrive_expect(full, { OF_A + OF_B });
                            if OF_A > 0 {
                                product::fetch::<0, SHARE_A, CN>(to_a, a_map, lines[0], k, 0, full, masks[0]);
                            }
                            if OF_B > 0 {
                                product::fetch::<0, SHARE_B, CM>(to_b, b_map, lines[1], k, 0, full, masks[1]);
                            }
                        }
                        pipeline::advance::<3>(&mut stage, &mut phase);
                        k += 64;
                    }
                }
            }
        } else {
            wgmma::more_registers::<232>();
            let (consumer, thread): (u32, u32) = (role - 1, tid.x & 127);
            let from_a: u64 = product::descriptor::<0>(stages + consumer * (ROWS / 128 * product::PANEL));
            let from_b: u64 = product::descriptor::<0>(stages + ROWS * 128);
            let mut acc: [f32; SUMS] = [0.0; SUMS];
            if MORE & BARRIERS != 0 {
                product::sum::<T, 0, 0, COLUMNS, 3, BLOCKS, STAGE, 0>(
                    &mut acc, from_a, from_b, bars, &mut stage, &mut phase, 0, depth, thread, role,
                );
            } else {
                for at in 0..3 {
                    pipeline::wait_full(bars, at, phase);
                }
                let mut accumulate: pred = false;
                while k < depth {
                    let at: u64 = wide(stage) * (STAGE / 16);
                    let (da, db): (u64, u64) = (from_a + at, from_b + at);
                    wgmma::fence();
                    product::multiply::<T, 0, 0, COLUMNS>(&mut acc, da, db, &mut accumulate);
                    wgmma::commit();
                    wgmma::wait::<1>();
                    pipeline::advance::<3>(&mut stage, &mut phase);
                    k += 64;
                }
                wgmma::wait::<0>();
            }
            let mut sum: f32 = 0.0;
            for i in 0..SUMS {
                sum += acc[i];
            }
            let to: u64 = sums + wide(ctaid.x * 256 + consumer * 128 + thread) * 4;
            ptx! { st.global.f32 [to], sum; }
        }
        // No block leaves while another one may still arrive at its barriers.
        warp::sync();
        cluster::sync();
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

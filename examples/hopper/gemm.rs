//! C = A · B on Hopper's tensor cores: operands of 16 or 8 bits, `f32` sums, any M, and any N and K whose rows are whole
//! 16 bytes, which TMA wants. Either operand may lie K-major or MN-major.
//!
//! Persistent blocks of two or three warp groups. One warp of the first is the *producer*: it asks TMA for 128 bytes of A's
//! and B's rows at a time, into a ring of stages. The others are *consumers*: each multiplies 64 or 128 rows of the block's
//! tile by all of its columns with `wgmma`, straight from shared memory, and keeps the sums in registers. `setmaxnreg` moves
//! the registers from the one to the others.
//!
//! `CM` × `CN` blocks make a cluster: their tiles lie side by side, so that those in a row need the same part of A and those
//! in a column the same part of B. Each fetches its share of both for all who need it (`.multicast::cluster`). A stage is
//! empty when the consumers of the whole cluster are done with it.
//!
//! A finished tile goes out in panels of 64 columns: converted, through `stmatrix` into swizzled shared memory, and by TMA
//! to global memory. At a tile's end the two consumers take turns: the first has the tensor cores to itself for the last
//! stages, and writes while the second multiplies them. `pdl` lets the next kernel of the stream set up its barriers while
//! this one ends.
//!
//! `stream` shares the tiles of the last round among all clusters (stream-K): a cluster may have a part of K of a tile, and
//! then leaves its sums in global memory to the one that has the last part. `split` shares every tile, for products of few
//! tiles and much K: clusters have a part of K each, and sum a part of the columns each.
//!
//! What the chip's power allows decides the speed of large products, so everything here saves energy. Tiles of 256 × 192
//! bring the fewest bytes into shared memory for what is multiplied; multicast and the order of tiles save those from the
//! second-level cache and from memory. Every other tile of a cluster goes from the end of K to its beginning: what the tile
//! before had last is still in the cache. So the order of a tile's sums depends on where it lies.
//!
//! Clusters of a GPC take tiles side by side: what they ask the second-level cache for together comes from there once. So a
//! cluster claims a number among those of its GPC (`scheduler::claim`) before it takes tiles.

#[path = "gemm/variants.rs"]
pub(crate) mod variants;

use ptx_examples::Report;
use ptx_examples::gpcs::{CLAIMS, WORDS};
use ptx_examples::product::{Product, flops};
use ptx_launch::Result;
use ptx_launch::prelude::*;
use std::cell::RefCell;
use std::time::Duration;
use variants::{Major, Operand, Order, pick};

/// Warp groups that multiply a tile of so many rows: each has 64 of them, or, where there are more than 128, half.
pub(crate) const fn consumers(rows: u32) -> u32 {
    if rows > 128 { 2 } else { rows / 64 }
}

/// Bytes of shared memory: the stages, `panels` panels of 64 rows of each consumer, the barriers, and the cluster's number.
pub(crate) const fn shared_bytes(rows: u32, columns: u32, stages: u32, panels: u32) -> u32 {
    stages * (rows + columns) * 128 + panels * consumers(rows) * 64 * 128 + 16 * stages + 16
}

/// The kernels and what they are made of.
#[ptx_module(arch = "sm_90a")]
pub mod kernels {
    /// The whole kernel, whichever way the operands lie (`A_MN`, `B_MN`: 1 for MN-major); of a tile's `ROWS`, each consumer
    /// has `TALL` times 64. With `STREAM` = 1 the last tiles are shared (`scheduler::stream_k`): sums of a part of a tile wait at
    /// `partial`, one slot for each warp group, and `flags` say that they are there.
    fn kernel<
        T,
        O2,
        const A_MN: u32,
        const B_MN: u32,
        const ROWS: u32,
        const COLUMNS: u32,
        const STAGES: u32,
        const CM: u32,
        const CN: u32,
        const PANELS: u32,
        const STREAM: u32,
    >(
        a: TensorMap,
        b: TensorMap,
        c: TensorMap,
        m: u32,
        n: u32,
        depth: u32,
        band: u32,
        run: u32,
        gpcs: u64,
        claims: u64,
        partial: u64,
        flags: u64,
    ) {
        #[shared(dynamic, align = 1024)]
        let smem: [u8];
        const CONSUMERS: u32 = (ROWS / 64).min(2);
        const TALL: u32 = ROWS / 64 / CONSUMERS;
        const SUMS: u32 = TALL * COLUMNS / 2;
        const STAGE: u32 = product::stage_bytes(ROWS, COLUMNS);
        const RING: u32 = STAGES * STAGE;
        const BLOCKS: u32 = CM * CN;
        // What a stage holds along K, and each block's share of A and B.
        const DEEP: u32 = 128 / size_of::<T>();
        const SHARE_A: u32 = ROWS / CN;
        const SHARE_B: u32 = COLUMNS / CM;
        // The last stages of a tile, in which two consumers take turns.
        const TURNS: u32 = 3 * (CONSUMERS - 1);
        let stages: u32 = smem;
        let bars: u32 = stages + RING + CONSUMERS * PANELS * product::PANEL;
        begin::<STAGES, { CONSUMERS * BLOCKS }, BLOCKS>(a, b, c, bars, gpcs, claims);
        let (rank, worker, workers): (u32, u32, u32) = (cluster::rank(), ctaid.x / BLOCKS, nctaid.x / BLOCKS);

        // Clusters take tiles of CM · ROWS rows and CN · COLUMNS columns; this block's part is at (down, right) of them.
        let (down, right): (u32, u32) = (rank % CM, rank / CM);
        let rows: u32 = (m + (ROWS * CM - 1)) / (ROWS * CM);
        let columns: u32 = (n + (COLUMNS * CN - 1)) / (COLUMNS * CN);
        let tiles: u32 = rows * columns;
        // Whole tiles end at `whole`; of the rest, this cluster has the steps from `begin` to `left`. Those go by the order of the
        // launch: clusters wait for others, and must not for such as have no room yet.
        let (mut whole, mut steps, mut begin, mut left): (u32, u32, u32, u32) = (tiles, 0, 0, 0);
        if STREAM == 1 {
            steps = (depth + (DEEP - 1)) / DEEP;
            let (alone, mine, end): (u32, u32, u32) = scheduler::stream_k(worker, workers, tiles, steps);
            whole = alone * workers;
            begin = mine;
            left = end;
        }
        let (mut stage, mut phase): (u32, u32) = (0, 0);

        let role: u32 = cluster::warp_group();
        if role == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x < 32 {
                let chosen: pred = warp::elect();
                let masks: [u16; 2] = product::neighbours::<CM, CN>(down, right);
                let (lines, places): ([u32; 2], [u32; 2]);
                places[0] = right * (SHARE_A * 128);
                places[1] = down * (SHARE_B * 128);
                let mut back: u32 = 0;
                // Whole tiles go by the number that is claimed.
                let mut tile: u32 = number::<STAGES>(bars);
                // Three divisions, which are better made before the wait.
                first_lines::<ROWS, COLUMNS, CM, CN>(&mut lines, tile, rows, columns, band, run, down, right);
                grid::wait();
                // Whole tiles have loops of their own, here and below: with shared ones among them, the compiler keeps the
                // ring's place in registers of each lane, and copies every descriptor to those of the warp.
                while tile < whole {
                    product::fill::<T, A_MN, B_MN, ROWS, COLUMNS, STAGES, CM, CN>(
                        a, b, lines, places, masks, 0, stages, bars, &mut stage, &mut phase, 0, depth, back, chosen,
                    );
                    tile += workers;
                    back = 1 - back;
                    first_lines::<ROWS, COLUMNS, CM, CN>(&mut lines, tile, rows, columns, band, run, down, right);
                }
                if STREAM == 1 {
                    while begin < left {
                        let (now, from, to): (u32, u32, u32) = part::<DEEP>(begin, &mut left, steps, whole);
                        first_lines::<ROWS, COLUMNS, CM, CN>(&mut lines, now, rows, columns, band, run, down, right);
                        product::fill::<T, A_MN, B_MN, ROWS, COLUMNS, STAGES, CM, CN>(
                            a, b, lines, places, masks, 0, stages, bars, &mut stage, &mut phase, from, to, back, chosen,
                        );
                    }
                }
                pipeline::drain::<STAGES>(bars, &mut stage, &mut phase);
            }
        } else {
            wgmma::more_registers::<232>();
            let consumer: u32 = role - 1;
            let thread: u32 = tid.x & 127;
            let panels: u32 = stages + RING + consumer * (PANELS * product::PANEL);
            let from_a: u64 = product::descriptor::<A_MN>(stages + consumer * (TALL * product::PANEL));
            let from_b: u64 = product::descriptor::<B_MN>(stages + ROWS * 128);
            let mut acc: [f32; SUMS] = [0.0; SUMS];
            // This consumer's rows of a cluster's tile, and its columns.
            let below: u32 = down * ROWS + consumer * (64 * TALL);
            let aside: u32 = right * COLUMNS;
            let mut tile: u32 = number::<STAGES>(bars);
            while tile < whole {
                product::sum::<T, A_MN, B_MN, COLUMNS, STAGES, BLOCKS, STAGE, TURNS>(
                    &mut acc, from_a, from_b, bars, &mut stage, &mut phase, 0, depth, thread, role,
                );
                let (row, column): (u32, u32) = scheduler::blocked(tile, rows, columns, band, run);
                let (x, y): (u32, u32) = (column * (CN * COLUMNS) + aside, row * (CM * ROWS) + below);
                write::<O2, COLUMNS, PANELS>(acc, c, x, y, panels, thread, role);
                tile += workers;
            }
            if STREAM == 1 {
                const SLOT: u32 = SUMS * 512;
                while begin < left {
                    let (now, from, to): (u32, u32, u32) = part::<DEEP>(begin, &mut left, steps, whole);
                    product::sum::<T, A_MN, B_MN, COLUMNS, STAGES, BLOCKS, STAGE, TURNS>(
                        &mut acc, from_a, from_b, bars, &mut stage, &mut phase, from, to, thread, role,
                    );
                    if to < depth {
                        let mine: u32 = ctaid.x * CONSUMERS + consumer;
                        product::leave(&acc, partial + wide(mine) * SLOT, flags + wide(mine) * 4, thread, role);
                        continue;
                    }
                    // Who has the last part of a tile sums up: those before this cluster have the parts before.
                    let (mut other, mut first): (u32, u32) = (worker, from);
                    while first > 0 {
                        other -= 1;
                        let (_, from, to): (u32, u32, u32) = scheduler::stream_k(other, workers, tiles, steps);
                        if from < to {
                            let its: u32 = (other * BLOCKS + rank) * CONSUMERS + consumer;
                            product::collect(&mut acc, partial + wide(its) * SLOT, flags + wide(its) * 4, thread, role);
                        }
                        let start: u32 = (now - whole) * steps;
                        first = 0;
                        if from > start {
                            first = from - start;
                        }
                    }
                    let (row, column): (u32, u32) = scheduler::blocked(now, rows, columns, band, run);
                    let (x, y): (u32, u32) = (column * (CN * COLUMNS) + aside, row * (CM * ROWS) + below);
                    write::<O2, COLUMNS, PANELS>(acc, c, x, y, panels, thread, role);
                }
            }
            if thread == 0 {
                tma::wait_read::<0>();
            }
        }
    }

    /// Makes the ring ready; meanwhile one thread claims a number for the cluster, which the blocks are sent (`number`). It may
    /// then be the next kernel's turn.
    fn begin<const STAGES: u32, const ARRIVALS: u32, const BLOCKS: u32>(
        a: TensorMap,
        b: TensorMap,
        c: TensorMap,
        bars: u32,
        gpcs: u64,
        claims: u64,
    ) {
        let (first, sent, workers): (pred, u32, u32) = (cluster::rank() == 0, bars + 16 * STAGES, nctaid.x / BLOCKS);
        if tid.x == 0 {
            mbarrier::init(sent, 1);
        }
        product::begin::<STAGES, ARRIVALS>(a, b, c, bars);
        let mut mine: u32 = 0;
        if tid.x == 32 {
            if first {
                mine = scheduler::claim(gpcs, claims, workers);
            }
        }
        warp::sync();
        cluster::wait();
        if tid.x == 32 {
            mbarrier::arrive_expect(sent, 4);
            if first {
                for block in 0..BLOCKS {
                    cluster::send(sent + 8, mine, sent, block);
                }
                scheduler::claimed(claims, workers);
            }
            grid::launch_dependents();
        }
    }

    /// The number that was claimed for the cluster, which comes behind a barrier that lies behind the ring's.
    fn number<const STAGES: u32>(bars: u32) -> u32 {
        let (sent, mut number): (u32, u32) = (bars + 16 * STAGES, 0);
        mbarrier::wait(sent, 0);
        ptx! { ld.shared.u32 number, [sent + 8]; }
        // The shuffle lets the compiler know that it is one for the warp.
        warp::broadcast(number, 0)
    }

    /// The first of A's and B's `lines` that the block at (`down`, `right`) of its cluster fetches for a tile.
    fn first_lines<const ROWS: u32, const COLUMNS: u32, const CM: u32, const CN: u32>(
        lines: &mut [u32; 2],
        tile: u32,
        rows: u32,
        columns: u32,
        band: u32,
        run: u32,
        down: u32,
        right: u32,
    ) {
        let (row, column): (u32, u32) = scheduler::blocked(tile, rows, columns, band, run);
        lines[0] = (row * CM + down) * ROWS + right * (ROWS / CN);
        lines[1] = (column * CN + right) * COLUMNS + down * (COLUMNS / CM);
    }

    /// Writes a consumer's sums to the rows of C from `y` on and the columns from `x` on, 64 × 64 at a time.
    fn write<O2, const COLUMNS: u32, const PANELS: u32, const LEN: u32>(
        acc: [f32; LEN],
        c: TensorMap,
        x: u32,
        y: u32,
        panels: u32,
        thread: u32,
        role: u32,
    ) {
        let out: u32 = epilogue::row(panels, thread);
        let place: u32 = epilogue::place(thread);
        for panel in 0..LEN / 32 {
            const AT: u32 = panel % PANELS * product::PANEL;
            const ASIDE: u32 = panel % (COLUMNS / 64) * 64;
            const DOWN: u32 = panel / (COLUMNS / 64) * 64;
            product::panel::<O2, { 32 * panel }, PANELS>(&acc, out, place, thread, role);
            if thread == 0 {
                tma::store_2d(c, x + ASIDE, y + DOWN, panels + AT);
                tma::commit();
            }
        }
    }

    /// The same for few tiles and much K: `SPLIT` clusters share K of a tile of 64 · `SPLIT` columns. In the end each has the
    /// sums of 64 columns (`product::meet`).
    fn split_kernel<T, O2, const STAGES: u32, const CM: u32, const SPLIT: u32>(
        a: TensorMap,
        b: TensorMap,
        c: TensorMap,
        m: u32,
        n: u32,
        depth: u32,
        partial: u64,
        flags: u64,
    ) {
        #[shared(dynamic, align = 1024)]
        let smem: [u8];
        const ROWS: u32 = 128;
        const CONSUMERS: u32 = ROWS / 64;
        const COLUMNS: u32 = 64 * SPLIT;
        const STAGE: u32 = product::stage_bytes(ROWS, COLUMNS);
        const RING: u32 = STAGES * STAGE;
        const DEEP: u32 = 128 / size_of::<T>();
        const SHARE: u32 = COLUMNS / CM;
        let stages: u32 = smem;
        let bars: u32 = stages + RING + CONSUMERS * product::PANEL;
        product::begin::<STAGES, { CONSUMERS * CM }>(a, b, c, bars);
        cluster::wait();
        grid::launch_dependents();

        let down: u32 = cluster::rank();
        let (worker, workers): (u32, u32) = (ctaid.x / CM, nctaid.x / CM);
        let (part, mut tile): (u32, u32) = (worker % SPLIT, worker / SPLIT);
        let rows: u32 = (m + (ROWS * CM - 1)) / (ROWS * CM);
        let columns: u32 = (n + (COLUMNS - 1)) / COLUMNS;
        let steps: u32 = (depth + (DEEP - 1)) / DEEP;
        let from: u32 = part * steps / SPLIT * DEEP;
        let to: u32 = (part + 1) * steps / SPLIT * DEEP;
        let (mut stage, mut phase): (u32, u32) = (0, 0);
        let role: u32 = cluster::warp_group();
        if role == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x < 32 {
                let chosen: pred = warp::elect();
                let masks: [u16; 2] = product::neighbours::<CM, 1>(down, 0);
                let (lines, places): ([u32; 2], [u32; 2]);
                places[0] = 0;
                places[1] = down * (SHARE * 128);
                grid::wait();
                while tile < rows * columns {
                    lines[0] = (tile / columns * CM + down) * ROWS;
                    lines[1] = tile % columns * COLUMNS + down * SHARE;
                    product::fill::<T, 0, 0, ROWS, COLUMNS, STAGES, CM, 1>(
                        a, b, lines, places, masks, 0, stages, bars, &mut stage, &mut phase, from, to, 0, chosen,
                    );
                    tile += workers / SPLIT;
                }
                pipeline::drain::<STAGES>(bars, &mut stage, &mut phase);
            }
        } else {
            wgmma::more_registers::<232>();
            let (consumer, thread): (u32, u32) = (role - 1, tid.x & 127);
            let panel: u32 = stages + RING + consumer * product::PANEL;
            let out: u32 = epilogue::row(panel, thread);
            let place: u32 = epilogue::place(thread);
            let from_a: u64 = product::descriptor::<0>(stages + consumer * product::PANEL);
            let from_b: u64 = product::descriptor::<0>(stages + ROWS * 128);
            // Where this warp group meets those of the same rows.
            let number: u64 = wide((tile * CM + down) * CONSUMERS + consumer) * (SPLIT * SPLIT);
            let mut acc: [f32; COLUMNS / 2] = [0.0; COLUMNS / 2];
            while tile < rows * columns {
                if from < to {
                    product::sum::<T, 0, 0, COLUMNS, STAGES, CM, STAGE, 0>(
                        &mut acc, from_a, from_b, bars, &mut stage, &mut phase, from, to, thread, role,
                    );
                } else {
                    for i in 0..COLUMNS / 2 {
                        acc[i] = 0.0;
                    }
                }
                product::meet::<SPLIT>(&mut acc, partial + number * 16384, flags + number * 4, part, thread, role);
                for mine in 0..SPLIT {
                    if part == mine {
                        product::panel::<O2, { 32 * mine }, 1>(&acc, out, place, thread, role);
                    }
                }
                if thread == 0 {
                    let (x, y): (u32, u32) = (tile % columns * COLUMNS, (tile / columns * CM + down) * ROWS);
                    tma::store_2d(c, x + 64 * part, y + consumer * 64, panel);
                    tma::commit();
                }
                tile += workers / SPLIT;
            }
            if thread == 0 {
                tma::wait_read::<0>();
            }
        }
    }

    /// The next part of a tile that is shared: its tile, and from where to where along K, for `DEEP` elements a step.
    fn part<const DEEP: u32>(begin: u32, left: &mut u32, steps: u32, whole: u32) -> (u32, u32, u32) {
        let (tile, first, last): (u32, u32, u32) = scheduler::stream_k_part(begin, &mut left, steps);
        (whole + tile, first * DEEP, last * DEEP)
    }

    /// C (M × N) = A (M × K) · Bᵀ (N × K): both K-major. `blocks` are started; a band of tiles is `band`
    /// clusters high.
    #[ptx_kernel(
        block = 128 * (super::consumers(ROWS) + 1),
        cluster = CM * CN,
        grid = blocks,
        shared = super::shared_bytes(ROWS, COLUMNS, STAGES, PANELS),
        max_regs = 168,
        pdl,
        instances = [
            (bf16, bf16, bf16x2, 128, 256, 3, 2, 1, 4), (bf16, bf16, bf16x2, 128, 320, 3, 2, 1, 3),
            (bf16, bf16, bf16x2, 128, 128, 6, 2, 1, 2), (bf16, bf16, bf16x2, 64, 128, 7, 1, 2, 2),
            (f16, f16, f16x2, 128, 256, 3, 2, 1, 4), (f16, f16, f16x2, 128, 320, 3, 2, 1, 3),
            (e4m3, bf16, bf16x2, 128, 256, 3, 2, 1, 4), (e4m3, bf16, bf16x2, 128, 320, 3, 2, 1, 3)
        ],
        unsafe(requires(
            blocks % (CM * CN) == 0,
            blocks > 0,
            band > 0,
            run > 0,
            gpcs.len() >= super::WORDS,
            claims.len() >= super::CLAIMS
        ))
    )]
    pub fn gemm<
        T,
        O,
        O2,
        const ROWS: u32,
        const COLUMNS: u32,
        const STAGES: u32,
        const CM: u32,
        const CN: u32,
        const PANELS: u32,
    >(
        #[tma(box = [ROWS / CN, 128 / size_of::<T>()], swizzle = 128, promotion = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [COLUMNS / CM, 128 / size_of::<T>()], swizzle = 128, promotion = 128)] b: Tile<T, (N, K)>,
        #[tma(box = [64, 64], swizzle = 128)] c: TileMut<O, (M, N)>,
        gpcs: &[u32],
        claims: &mut [u32],
        blocks: u32,
        band: u32,
        run: u32,
    ) {
        kernel::<T, O2, 0, 0, ROWS, COLUMNS, STAGES, CM, CN, PANELS, 0>(
            a_map, b_map, c_map, M, N, K, band, run, gpcs, claims, 0, 0,
        );
    }

    /// The same by stream-K: the last tiles are shared by all blocks. `partial` has room for the sums of every block; `flags`,
    /// one for each warp group, are zero, and are so again at the end.
    #[ptx_kernel(
        block = 128 * (super::consumers(ROWS) + 1),
        cluster = CM * CN,
        grid = blocks,
        shared = super::shared_bytes(ROWS, COLUMNS, STAGES, PANELS),
        max_regs = 168,
        pdl,
        instances = [
            (bf16, bf16, bf16x2, 256, 192, 3, 1, 2, 3), (f16, f16, f16x2, 256, 192, 3, 1, 2, 3),
            (e4m3, bf16, bf16x2, 256, 192, 3, 1, 2, 3)
        ],
        unsafe(requires(
            blocks % (CM * CN) == 0,
            blocks > 0,
            band > 0,
            run > 0,
            gpcs.len() >= super::WORDS,
            claims.len() >= super::CLAIMS,
            partial.len() >= blocks * (ROWS * COLUMNS),
            flags.len() >= 2 * blocks
        ))
    )]
    pub fn stream<
        T,
        O,
        O2,
        const ROWS: u32,
        const COLUMNS: u32,
        const STAGES: u32,
        const CM: u32,
        const CN: u32,
        const PANELS: u32,
    >(
        #[tma(box = [ROWS / CN, 128 / size_of::<T>()], swizzle = 128, promotion = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [COLUMNS / CM, 128 / size_of::<T>()], swizzle = 128, promotion = 128)] b: Tile<T, (N, K)>,
        #[tma(box = [64, 64], swizzle = 128)] c: TileMut<O, (M, N)>,
        partial: &mut [f32],
        flags: &mut [u32],
        gpcs: &[u32],
        claims: &mut [u32],
        blocks: u32,
        band: u32,
        run: u32,
    ) {
        kernel::<T, O2, 0, 0, ROWS, COLUMNS, STAGES, CM, CN, PANELS, 1>(
            a_map, b_map, c_map, M, N, K, band, run, gpcs, claims, partial, flags,
        );
    }

    /// The same for few tiles and much K: `SPLIT` clusters of `CM` blocks work on a tile of 128 · `CM` rows and 64 · `SPLIT`
    /// columns, each on a part of K. `partial` and `flags` are those of `stream`, for 64 columns from each part to each.
    #[ptx_kernel(
        block = 384,
        cluster = CM,
        grid = blocks,
        shared = super::shared_bytes(128, 64 * SPLIT, STAGES, 1),
        max_regs = 168,
        pdl,
        instances = [(bf16, bf16, bf16x2, 3, 2, 4)],
        unsafe(requires(
            blocks % (CM * SPLIT) == 0,
            blocks > 0,
            partial.len() >= blocks * (2 * SPLIT * 4096),
            flags.len() >= 2 * SPLIT * blocks
        ))
    )]
    pub fn split<T, O, O2, const STAGES: u32, const CM: u32, const SPLIT: u32>(
        #[tma(box = [128, 128 / size_of::<T>()], swizzle = 128, promotion = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [64 * SPLIT / CM, 128 / size_of::<T>()], swizzle = 128, promotion = 128)] b: Tile<T, (N, K)>,
        #[tma(box = [64, 64], swizzle = 128)] c: TileMut<O, (M, N)>,
        partial: &mut [f32],
        flags: &mut [u32],
        blocks: u32,
    ) {
        split_kernel::<T, O2, STAGES, CM, SPLIT>(a_map, b_map, c_map, M, N, K, partial, flags);
    }

    /// C (M × N) = A (M × K) · B (K × N): B is MN-major.
    #[ptx_kernel(
        block = 384, cluster = 2, grid = blocks, shared = super::shared_bytes(128, 256, 3, 4), max_regs = 168, pdl,
        instances = [(bf16, bf16x2), (f16, f16x2)],
        unsafe(requires(blocks % 2 == 0, blocks > 0, band > 0, run > 0, gpcs.len() >= super::WORDS, claims.len() >= super::CLAIMS))
    )]
    pub fn gemm_kn<T, T2>(
        #[tma(box = [128, 64], swizzle = 128, promotion = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [64, 64], swizzle = 128, promotion = 128)] b: Tile<T, (K, N)>,
        #[tma(box = [64, 64], swizzle = 128)] c: TileMut<T, (M, N)>,
        gpcs: &[u32],
        claims: &mut [u32],
        blocks: u32,
        band: u32,
        run: u32,
    ) {
        kernel::<T, T2, 0, 1, 128, 256, 3, 2, 1, 4, 0>(a_map, b_map, c_map, M, N, K, band, run, gpcs, claims, 0, 0);
    }

    /// C (M × N) = Aᵀ (K × M) · B (K × N): both MN-major.
    #[ptx_kernel(
        block = 384, cluster = 2, grid = blocks, shared = super::shared_bytes(128, 256, 3, 4), max_regs = 168, pdl,
        instances = [(bf16, bf16x2), (f16, f16x2)],
        unsafe(requires(blocks % 2 == 0, blocks > 0, band > 0, run > 0, gpcs.len() >= super::WORDS, claims.len() >= super::CLAIMS))
    )]
    pub fn gemm_mkn<T, T2>(
        #[tma(box = [64, 64], swizzle = 128, promotion = 128)] a: Tile<T, (K, M)>,
        #[tma(box = [64, 64], swizzle = 128, promotion = 128)] b: Tile<T, (K, N)>,
        #[tma(box = [64, 64], swizzle = 128)] c: TileMut<T, (M, N)>,
        gpcs: &[u32],
        claims: &mut [u32],
        blocks: u32,
        band: u32,
        run: u32,
    ) {
        kernel::<T, T2, 1, 1, 128, 256, 3, 2, 1, 4, 0>(a_map, b_map, c_map, M, N, K, band, run, gpcs, claims, 0, 0);
    }

    /// C (M × N) = Aᵀ (K × M) · Bᵀ (N × K): A is MN-major.
    #[ptx_kernel(
        block = 384, cluster = 2, grid = blocks, shared = super::shared_bytes(128, 256, 3, 4), max_regs = 168, pdl,
        instances = [(bf16, bf16x2), (f16, f16x2)],
        unsafe(requires(blocks % 2 == 0, blocks > 0, band > 0, run > 0, gpcs.len() >= super::WORDS, claims.len() >= super::CLAIMS))
    )]
    pub fn gemm_mk<T, T2>(
        #[tma(box = [64, 64], swizzle = 128, promotion = 128)] a: Tile<T, (K, M)>,
        #[tma(box = [128, 64], swizzle = 128, promotion = 128)] b: Tile<T, (N, K)>,
        #[tma(box = [64, 64], swizzle = 128)] c: TileMut<T, (M, N)>,
        gpcs: &[u32],
        claims: &mut [u32],
        blocks: u32,
        band: u32,
        run: u32,
    ) {
        kernel::<T, T2, 1, 0, 128, 256, 3, 2, 1, 4, 0>(a_map, b_map, c_map, M, N, K, band, run, gpcs, claims, 0, 0);
    }
}

/// A product by every instance for `bf16`, and by those that share tiles one of more tiles than workers, against the sums
/// in `f64`; on the CPU device where there is no such GPU.
pub(crate) fn run(device: &Device) -> Result<Report> {
    let device = &ptx_examples::chip_or_cpu(device, (9, 0));
    let shapes =
        if device.is_cuda() { [[1000, 1048, 1032], [5000, 5128, 1032]] } else { [[136, 264, 520], [520, 776, 200]] };
    let (order, mut error, mut time) = (Order { band: 3, run: 2 }, 0.0, Duration::MAX);
    for variant in bf16::VARIANTS {
        for shape in &shapes[..if variant.shares() { 2 } else { 1 }] {
            let workers = variant.workers(device)?;
            let scratch = RefCell::new(variant.scratch(device, workers)?);
            let (off, took) = operands(*shape, variant.major).check(device, |stream, a, b, c| {
                variant.launch(stream, (a, b, c), *shape, workers, order, &mut scratch.borrow_mut())
            })?;
            (error, time) = (f64::max(error, off), time.min(took));
        }
    }
    // As large products are: the figure is that of the instance that this shape takes.
    let mut shape = shapes[0];
    let picked = pick::<bf16>(device, if device.is_cuda() { LARGE } else { shape })?;
    if let Some((variant, order)) = picked.filter(|_| device.is_cuda()) {
        shape = LARGE;
        let workers = variant.workers(device)?;
        let scratch = RefCell::new(variant.scratch(device, workers)?);
        let (off, took) = operands(shape, variant.major).check(device, |stream, a, b, c| {
            variant.launch(stream, (a, b, c), shape, workers, order, &mut scratch.borrow_mut())
        })?;
        (error, time) = (f64::max(error, off), took);
    }
    let ([m, n, k], picked) = (shape, picked.map_or("none", |(variant, _)| variant.name));
    Ok(Report {
        name: "hopper_gemm",
        device: device.name().to_owned(),
        size: format!("{m} × {n} × {k}, {picked}"),
        error,
        limit: 1.0,
        time,
        figure: flops(shape, time),
    })
}

/// The product whose time is reported on a GPU.
const LARGE: [usize; 3] = [8192; 3];

/// Fresh operands that lie as an instance wants them.
fn operands(shape: [usize; 3], major: Major) -> Product<bf16> {
    let mut product = Product::new(shape, 31);
    if !major.a_k {
        product = product.a_by_columns();
    }
    if !major.b_k {
        product = product.by_columns();
    }
    product
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}

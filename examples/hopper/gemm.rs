//! C = A · B on Hopper's tensor cores: operands of 16 or 8 bits, `f32` sums, any M, and any N and K whose rows are whole
//! 16 bytes, which TMA wants. Either operand may lie K-major or MN-major.
//!
//! Persistent blocks of three warp groups. One warp of the first is the *producer*: it asks TMA for 128 bytes of A's and
//! B's rows at a time, into a ring of stages. The others are *consumers*: each multiplies 64 rows of the block's tile by
//! all of its columns with `wgmma`, straight from shared memory, and keeps the sums in registers. `setmaxnreg` moves the
//! registers from the one to the others.
//!
//! `CM` × `CN` blocks make a cluster: their tiles lie side by side, so that those in a row need the same part of A and those
//! in a column the same part of B. Each fetches its share of both for all who need it (`.multicast::cluster`). A stage is
//! empty when the consumers of the whole cluster are done with it.
//!
//! A finished tile goes out in panels of 64 columns: converted, through `stmatrix` into swizzled shared memory, and by TMA
//! to global memory, while the next tile is multiplied already. `pdl` lets the next kernel of the stream set up its
//! barriers while this one ends.
//!
//! `stream` shares the tiles of the last rounds among all clusters (stream-K): a cluster may have a part of K of a tile, and
//! then leaves its sums in global memory to the one that has the last part.
//!
//! What the chip's power allows decides the speed of large products, so everything here saves energy: large tiles and
//! multicast save shared memory and L2 traffic, the order of tiles and the L2's policies save DRAM traffic.

use ptx_examples::Report;
use ptx_examples::product::{Product, resident};
use ptx_launch::prelude::*;
use ptx_launch::{Result, TensorElement};
use std::cell::RefCell;
use std::time::Duration;

/// Bytes of shared memory: the stages, `panels` panels of each of `consumers`, and the barriers.
pub(crate) const fn shared_bytes(consumers: u32, columns: u32, stages: u32, panels: u32) -> u32 {
    stages * (64 * consumers + columns) * 128 + consumers * panels * 64 * 128 + 16 * stages
}

/// The kernels and what they are made of.
#[ptx_module(arch = "sm_90a")]
pub mod kernels {
    /// The whole kernel, whichever way the operands lie (`A_MN`, `B_MN`: 1 for MN-major). With `STREAM` = 1 the last tiles
    /// are shared (`scheduler::stream_k`): sums of a part of a tile wait at `partial`, one slot for each warp group, and
    /// `flags` say that they are there.
    fn kernel<
        T,
        O2,
        const A_MN: u32,
        const B_MN: u32,
        const CONSUMERS: u32,
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
        group: u32,
        keep: u32,
        partial: u64,
        flags: u64,
    ) {
        #[shared(dynamic, align = 1024)]
        let smem: [u8];
        const ROWS: u32 = 64 * CONSUMERS;
        const STAGE: u32 = product::stage_bytes(ROWS, COLUMNS);
        const RING: u32 = STAGES * STAGE;
        const BLOCKS: u32 = CM * CN;
        // What a stage holds along K, and each block's share of A and B.
        const DEEP: u32 = 128 / size_of::<T>();
        const SHARE_A: u32 = ROWS / CN;
        const SHARE_B: u32 = COLUMNS / CM;
        let stages: u32 = smem;
        let bars: u32 = stages + RING + CONSUMERS * PANELS * product::PANEL;
        if tid.x == 0 {
            tma::prefetch(a);
            tma::prefetch(b);
            tma::prefetch(c);
            pipeline::init::<STAGES, 1, { CONSUMERS * BLOCKS }>(bars);
        }
        cluster::sync();
        // The kernel before this one may still run; what it wrote is read by the producer alone.
        grid::launch_dependents();

        // Clusters take tiles of CM · ROWS rows and CN · COLUMNS columns; this block's part is at (down, right) of them.
        let rank: u32 = cluster::rank();
        let (down, right): (u32, u32) = (rank % CM, rank / CM);
        let rows: u32 = (m + (ROWS * CM - 1)) / (ROWS * CM);
        let columns: u32 = (n + (COLUMNS * CN - 1)) / (COLUMNS * CN);
        let tiles: u32 = rows * columns;
        let workers: u32 = nctaid.x / BLOCKS;
        let (worker, tile): (u32, u32) = (ctaid.x / BLOCKS, ctaid.x / BLOCKS);
        // Whole tiles end at `whole`; of the rest, this cluster has the steps from `begin` to `left`.
        let (whole, steps, begin, left): (u32, u32, u32, u32) = (tiles, 0, 0, 0);
        if STREAM == 1 {
            steps = (depth + (DEEP - 1)) / DEEP;
            let (alone, mine, end): (u32, u32, u32) = scheduler::stream_k(worker, workers, tiles, steps);
            whole = alone * workers;
            begin = mine;
            left = end;
        }
        let (stage, phase): (u32, u32) = (0, 0);

        let role: u32 = cluster::warp_group();
        if role == 0 {
            wgmma::fewer_registers::<{ if CONSUMERS == 2 { 40 } else { 32 } }>();
            if tid.x < 32 {
                let chosen: pred = warp::elect();
                // Rows of a band come back for every column, columns only with the next band.
                let policies: [u64; 2] = [cache::normal(); 2];
                if keep != 0 {
                    policies[0] = cache::evict_last();
                }
                if keep == 2 {
                    policies[1] = cache::evict_first();
                }
                let masks: [u16; 2] = product::neighbours::<CM, CN>(down, right);
                let (lines, places): ([u32; 2], [u32; 2]);
                places[0] = right * (SHARE_A * 128);
                places[1] = down * (SHARE_B * 128);
                grid::wait();
                loop {
                    let (now, from, to): (u32, u32, u32) = (tile, 0, depth);
                    if tile >= whole {
                        if STREAM == 0 {
                            break;
                        } else {
                            if begin >= left {
                                break;
                            }
                            part::<DEEP>(begin, left, steps, whole, now, from, to);
                        }
                    }
                    let (row, column): (u32, u32) = scheduler::grouped(now, rows, columns, group);
                    lines[0] = (row * CM + down) * ROWS + right * SHARE_A;
                    lines[1] = (column * CN + right) * COLUMNS + down * SHARE_B;
                    product::fill::<T, A_MN, B_MN, ROWS, COLUMNS, STAGES, CM, CN>(
                        a, b, lines, places, masks, policies, 0, stages, bars, stage, phase, from, to, chosen,
                    );
                    tile += workers;
                }
            }
        } else {
            wgmma::more_registers::<{ if CONSUMERS == 2 { 232 } else { 160 } }>();
            let consumer: u32 = role - 1;
            let thread: u32 = tid.x & 127;
            let panels: u32 = stages + RING + consumer * (PANELS * product::PANEL);
            let out: u32 = epilogue::row(panels, thread);
            let place: u32 = epilogue::place(thread);
            let from_a: u64 = product::descriptor::<A_MN>(stages + consumer * product::PANEL);
            let from_b: u64 = product::descriptor::<B_MN>(stages + ROWS * 128);
            let result: u64 = cache::normal();
            if keep != 0 {
                result = cache::evict_first();
            }
            let acc: [f32; COLUMNS / 2] = [0.0; COLUMNS / 2];
            loop {
                let (now, from, to): (u32, u32, u32) = (tile, 0, depth);
                if tile >= whole {
                    if STREAM == 0 {
                        break;
                    } else {
                        if begin >= left {
                            break;
                        }
                        part::<DEEP>(begin, left, steps, whole, now, from, to);
                    }
                }
                product::sum::<T, A_MN, B_MN, COLUMNS, STAGES, BLOCKS, STAGE>(
                    acc, from_a, from_b, bars, stage, phase, from, to, thread,
                );
                tile += workers;
                if STREAM == 1 {
                    const SLOT: u32 = COLUMNS / 2 * 512;
                    if to < depth {
                        let mine: u32 = ctaid.x * CONSUMERS + consumer;
                        product::leave(acc, partial + wide(mine) * SLOT, flags + wide(mine) * 4, thread, role);
                        continue;
                    }
                    // Who has the last part of a tile sums up: those before this cluster have the parts before.
                    let (other, first): (u32, u32) = (worker, from);
                    while first > 0 {
                        other -= 1;
                        let (_, from, to): (u32, u32, u32) = scheduler::stream_k(other, workers, tiles, steps);
                        if from < to {
                            let its: u32 = (other * BLOCKS + rank) * CONSUMERS + consumer;
                            product::collect(acc, partial + wide(its) * SLOT, flags + wide(its) * 4, thread, role);
                        }
                        let start: u32 = (now - whole) * steps;
                        first = 0;
                        if from > start {
                            first = from - start;
                        }
                    }
                }
                let (row, column): (u32, u32) = scheduler::grouped(now, rows, columns, group);
                let y: u32 = (row * CM + down) * ROWS + consumer * 64;
                let x: u32 = (column * CN + right) * COLUMNS;
                for panel in 0..COLUMNS / 64 {
                    const AT: u32 = panel % PANELS * product::PANEL;
                    product::panel::<O2, { 32 * panel }, PANELS>(acc, out, place, thread, role);
                    if thread == 0 {
                        tma::store_2d_policy(c, x + 64 * panel, y, panels + AT, result);
                        tma::commit();
                    }
                }
            }
            if thread == 0 {
                tma::wait_read::<0>();
            }
        }
        // No block leaves while another one may still arrive at its barriers.
        warp::sync();
        cluster::sync();
    }

    /// The next part of a tile that is shared, and how far along K it goes, for `DEEP` elements a step.
    fn part<const DEEP: u32>(begin: u32, left: u32, steps: u32, whole: u32, now: u32, from: u32, to: u32) {
        let (tile, first, last): (u32, u32, u32) = scheduler::stream_k_part(begin, left, steps);
        now = whole + tile;
        from = first * DEEP;
        to = last * DEEP;
    }

    /// C (M × N) = A (M × K) · Bᵀ (N × K): both K-major. `blocks` are started; bands are `group` clusters high; `keep` is
    /// what the second-level cache is told: 0 nothing, 1 to hold on to A and to let C go, 2 to let B go too.
    #[ptx_kernel(
        block = 128 * (1 + CONSUMERS),
        cluster = CM * CN,
        grid = blocks,
        shared = super::shared_bytes(CONSUMERS, COLUMNS, STAGES, PANELS),
        max_regs = if CONSUMERS == 2 { 168 } else { 128 },
        pdl,
        instances = [
            (bf16, bf16, bf16x2, 2, 256, 3, 2, 1, 4), (bf16, bf16, bf16x2, 2, 128, 6, 2, 1, 2),
            (bf16, bf16, bf16x2, 2, 320, 3, 2, 1, 3), (bf16, bf16, bf16x2, 2, 384, 3, 2, 1, 2),
            (bf16, bf16, bf16x2, 2, 256, 3, 1, 2, 4), (bf16, bf16, bf16x2, 2, 192, 5, 2, 1, 1),
            (bf16, bf16, bf16x2, 3, 192, 4, 2, 1, 1), (bf16, bf16, bf16x2, 3, 192, 4, 1, 2, 1),
            (f16, f16, f16x2, 2, 256, 3, 2, 1, 4), (f16, f16, f16x2, 2, 320, 3, 2, 1, 3),
            (f16, f16, f16x2, 2, 384, 3, 2, 1, 2), (e4m3, bf16, bf16x2, 2, 256, 3, 2, 1, 4),
            (e4m3, bf16, bf16x2, 2, 320, 3, 2, 1, 3), (e4m3, bf16, bf16x2, 2, 384, 3, 2, 1, 2)
        ],
        safe(blocks % (CM * CN) == 0, blocks > 0, group > 0)
    )]
    pub fn gemm<
        T,
        O,
        O2,
        const CONSUMERS: u32,
        const COLUMNS: u32,
        const STAGES: u32,
        const CM: u32,
        const CN: u32,
        const PANELS: u32,
    >(
        #[tma(box = [64 * CONSUMERS / CN, 128 / size_of::<T>()], swizzle = 128, promotion = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [COLUMNS / CM, 128 / size_of::<T>()], swizzle = 128, promotion = 128)] b: Tile<T, (N, K)>,
        #[tma(box = [64, 64], swizzle = 128)] c: TileMut<O, (M, N)>,
        blocks: u32,
        group: u32,
        keep: u32,
    ) {
        kernel::<T, O2, 0, 0, CONSUMERS, COLUMNS, STAGES, CM, CN, PANELS, 0>(
            a_map, b_map, c_map, M, N, K, group, keep, 0, 0,
        );
    }

    /// The same by stream-K: the last tiles are shared by all blocks. `partial` has room for the sums of every block, 128
    /// for each accumulator of a consumer; `flags` are zero, and are so again at the end.
    #[ptx_kernel(
        block = 384,
        cluster = CM,
        grid = blocks,
        shared = super::shared_bytes(2, COLUMNS, STAGES, PANELS),
        max_regs = 168,
        pdl,
        instances = [
            (bf16, bf16, bf16x2, 256, 3, 2, 4), (bf16, bf16, bf16x2, 320, 3, 2, 3), (bf16, bf16, bf16x2, 384, 3, 2, 2)
        ],
        safe(
            blocks % CM == 0,
            blocks > 0,
            group > 0,
            partial.len() >= blocks * (COLUMNS * 128),
            flags.len() >= 2 * blocks
        )
    )]
    pub fn stream<T, O, O2, const COLUMNS: u32, const STAGES: u32, const CM: u32, const PANELS: u32>(
        #[tma(box = [128, 128 / size_of::<T>()], swizzle = 128, promotion = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [COLUMNS / CM, 128 / size_of::<T>()], swizzle = 128, promotion = 128)] b: Tile<T, (N, K)>,
        #[tma(box = [64, 64], swizzle = 128)] c: TileMut<O, (M, N)>,
        partial: &mut [f32],
        flags: &mut [u32],
        blocks: u32,
        group: u32,
        keep: u32,
    ) {
        kernel::<T, O2, 0, 0, 2, COLUMNS, STAGES, CM, 1, PANELS, 1>(
            a_map, b_map, c_map, M, N, K, group, keep, partial, flags,
        );
    }

    /// C (M × N) = A (M × K) · B (K × N): B is MN-major.
    #[ptx_kernel(
        block = 384, cluster = 2, grid = blocks, shared = super::shared_bytes(2, 256, 3, 4), max_regs = 168, pdl,
        instances = [(bf16, bf16x2), (f16, f16x2)],
        safe(blocks % 2 == 0, group > 0)
    )]
    pub fn gemm_kn<T, T2>(
        #[tma(box = [128, 64], swizzle = 128, promotion = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [64, 64], swizzle = 128, promotion = 128)] b: Tile<T, (K, N)>,
        #[tma(box = [64, 64], swizzle = 128)] c: TileMut<T, (M, N)>,
        blocks: u32,
        group: u32,
        keep: u32,
    ) {
        kernel::<T, T2, 0, 1, 2, 256, 3, 2, 1, 4, 0>(a_map, b_map, c_map, M, N, K, group, keep, 0, 0);
    }

    /// C (M × N) = Aᵀ (K × M) · B (K × N): both MN-major.
    #[ptx_kernel(
        block = 384, cluster = 2, grid = blocks, shared = super::shared_bytes(2, 256, 3, 4), max_regs = 168, pdl,
        instances = [(bf16, bf16x2), (f16, f16x2)],
        safe(blocks % 2 == 0, group > 0)
    )]
    pub fn gemm_mkn<T, T2>(
        #[tma(box = [64, 64], swizzle = 128, promotion = 128)] a: Tile<T, (K, M)>,
        #[tma(box = [64, 64], swizzle = 128, promotion = 128)] b: Tile<T, (K, N)>,
        #[tma(box = [64, 64], swizzle = 128)] c: TileMut<T, (M, N)>,
        blocks: u32,
        group: u32,
        keep: u32,
    ) {
        kernel::<T, T2, 1, 1, 2, 256, 3, 2, 1, 4, 0>(a_map, b_map, c_map, M, N, K, group, keep, 0, 0);
    }

    /// C (M × N) = Aᵀ (K × M) · Bᵀ (N × K): A is MN-major.
    #[ptx_kernel(
        block = 384, cluster = 2, grid = blocks, shared = super::shared_bytes(2, 256, 3, 4), max_regs = 168, pdl,
        instances = [(bf16, bf16x2), (f16, f16x2)],
        safe(blocks % 2 == 0, group > 0)
    )]
    pub fn gemm_mk<T, T2>(
        #[tma(box = [64, 64], swizzle = 128, promotion = 128)] a: Tile<T, (K, M)>,
        #[tma(box = [128, 64], swizzle = 128, promotion = 128)] b: Tile<T, (N, K)>,
        #[tma(box = [64, 64], swizzle = 128)] c: TileMut<T, (M, N)>,
        blocks: u32,
        group: u32,
        keep: u32,
    ) {
        kernel::<T, T2, 1, 0, 2, 256, 3, 2, 1, 4, 0>(a_map, b_map, c_map, M, N, K, group, keep, 0, 0);
    }
}

pub(crate) use kernels::{gemm, gemm_kn, gemm_mk, gemm_mkn};

/// Which way the operands lie: whether A is M × K and B is N × K; otherwise they are K × M and K × N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Major {
    /// A is K-major.
    pub(crate) a_k: bool,
    /// B is K-major.
    pub(crate) b_k: bool,
}

/// Both K-major.
pub(crate) const K_MAJOR: Major = Major { a_k: true, b_k: true };

/// In which order the tiles are worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// Height of a band, in clusters' tiles.
    pub(crate) group: u32,
    /// What the second-level cache is told: 0 nothing, 1 to hold on to A and to let C go, 2 to let B go too.
    pub(crate) keep: u32,
}

/// What blocks leave to each other by stream-K: sums of parts of tiles, and flags, which are zero between launches.
pub(crate) struct Scratch {
    sums: Buffer<f32>,
    flags: Buffer<u32>,
}

/// Launches an instance: A, B, C, the shape M, N, K, the blocks, the order.
type Launch<T, O> =
    fn(&Stream, &Buffer<T>, &Buffer<T>, &mut Buffer<O>, [usize; 3], u32, Order, &mut Scratch) -> Result<()>;

/// An instance of the kernel, for the host.
pub(crate) struct Variant<T, O> {
    /// `128x256 2x1`: the block's tile, and the cluster.
    pub(crate) name: &'static str,
    /// Which way its operands lie.
    pub(crate) major: Major,
    /// Rows and columns of a cluster's tile.
    pub(crate) tile: [u32; 2],
    /// Blocks of a cluster.
    pub(crate) blocks: u32,
    /// Warp groups of a block that multiply.
    consumers: u32,
    /// Whether the last tiles are shared.
    stream: bool,
    kernel: &'static Kernel,
    shared: u32,
    launch: Launch<T, O>,
}

impl<T, O> Clone for Variant<T, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, O> Copy for Variant<T, O> {}

/// An instance of `gemm`.
macro_rules! k_major {
    ($t:ident $o:ident $o2:ident $name:literal
     $consumers:literal $columns:literal $stages:literal $cm:literal $cn:literal $panels:literal) => {
        Variant {
                    name: $name,
                    major: K_MAJOR,
                    tile: [64 * $consumers * $cm, $columns * $cn],
                    blocks: $cm * $cn,
                    consumers: $consumers,
                    stream: false,
                    shared: shared_bytes($consumers, $columns, $stages, $panels),
                    kernel: <kernels::gemm::Instance<$t, $o, $o2, $consumers, $columns, $stages, $cm, $cn, $panels> as
                        kernels::gemm::Exists>::KERNEL,
                    launch: |stream, a, b, c, [m, n, k], blocks, Order { group, keep }, _| {
                        let (a, b, c) = (a.tile([m, k])?, b.tile([n, k])?, c.tile_mut([m, n])?);
                        gemm::<$t, $o, $o2, $consumers, $columns, $stages, $cm, $cn, $panels>(
                            stream, a, b, c, blocks, group, keep,
                        )
                    },
                }
    };
}

/// An instance of `stream`.
macro_rules! stream_k {
    ($t:ident $o:ident $o2:ident $name:literal $columns:literal $stages:literal $cm:literal $panels:literal) => {
        Variant {
                                    name: $name,
                                    major: K_MAJOR,
                                    tile: [128 * $cm, $columns],
                                    blocks: $cm,
                                    consumers: 2,
                                    stream: true,
                                    shared: shared_bytes(2, $columns, $stages, $panels),
                                    kernel: <kernels::stream::Instance<$t, $o, $o2, $columns, $stages, $cm, $panels> as
                                        kernels::stream::Exists>::KERNEL,
                                    launch: |stream, a, b, c, [m, n, k], blocks, Order { group, keep }, scratch| {
                                        let (a, b, c) = (a.tile([m, k])?, b.tile([n, k])?, c.tile_mut([m, n])?);
                                        let Scratch { sums, flags } = scratch;
                                        kernels::stream::<$t, $o, $o2, $columns, $stages, $cm, $panels>(
                                            stream, a, b, c, sums, flags, blocks, group, keep,
                                        )
                                    },
                                }
    };
}

/// An instance of one of the others.
macro_rules! other_major {
    ($t:ident $t2:ident $kernel:ident $a_k:literal $b_k:literal) => {
        Variant {
            name: stringify!($kernel),
            major: Major { a_k: $a_k, b_k: $b_k },
            tile: [256, 256],
            blocks: 2,
            consumers: 2,
            stream: false,
            shared: shared_bytes(2, 256, 3, 4),
            kernel: <kernels::$kernel::Instance<$t, $t2> as kernels::$kernel::Exists>::KERNEL,
            launch: |stream, a, b, c, [m, n, k], blocks, Order { group, keep }, _| {
                let a = a.tile(if $a_k { [m, k] } else { [k, m] })?;
                let b = b.tile(if $b_k { [n, k] } else { [k, n] })?;
                $kernel::<$t, $t2>(stream, a, b, c.tile_mut([m, n])?, blocks, group, keep)
            },
        }
    };
}

/// A variant and the order of its tiles.
pub(crate) type Way<T> = (Variant<T, <T as Operand>::Result>, Order);

/// A type that the kernel has instances for.
pub(crate) trait Operand: TensorElement {
    /// The type of C.
    type Result: TensorElement;
    /// The instances that `pick` knows.
    const VARIANTS: &'static [Variant<Self, Self::Result>];
    /// Instances that no measurement has shown to be better: only a sweep takes them.
    const TRIALS: &'static [Variant<Self, Self::Result>] = &[];
}

impl Operand for bf16 {
    type Result = bf16;
    const VARIANTS: &'static [Variant<bf16, bf16>] = &[
        k_major!(bf16 bf16 bf16x2 "128x256 2x1" 2 256 3 2 1 4),
        k_major!(bf16 bf16 bf16x2 "128x320 2x1" 2 320 3 2 1 3),
        k_major!(bf16 bf16 bf16x2 "128x384 2x1" 2 384 3 2 1 2),
        k_major!(bf16 bf16 bf16x2 "128x128 2x1" 2 128 6 2 1 2),
        other_major!(bf16 bf16x2 gemm_kn true false),
        other_major!(bf16 bf16x2 gemm_mk false true),
        other_major!(bf16 bf16x2 gemm_mkn false false),
    ];
    const TRIALS: &'static [Variant<bf16, bf16>] = &[
        k_major!(bf16 bf16 bf16x2 "128x256 1x2" 2 256 3 1 2 4),
        k_major!(bf16 bf16 bf16x2 "128x192 2x1" 2 192 5 2 1 1),
        k_major!(bf16 bf16 bf16x2 "192x192 2x1" 3 192 4 2 1 1),
        k_major!(bf16 bf16 bf16x2 "192x192 1x2" 3 192 4 1 2 1),
        stream_k!(bf16 bf16 bf16x2 "128x256 2x1 stream-K" 256 3 2 4),
        stream_k!(bf16 bf16 bf16x2 "128x320 2x1 stream-K" 320 3 2 3),
        stream_k!(bf16 bf16 bf16x2 "128x384 2x1 stream-K" 384 3 2 2),
    ];
}

impl Operand for f16 {
    type Result = f16;
    const VARIANTS: &'static [Variant<f16, f16>] = &[
        k_major!(f16 f16 f16x2 "128x256 2x1" 2 256 3 2 1 4),
        k_major!(f16 f16 f16x2 "128x320 2x1" 2 320 3 2 1 3),
        k_major!(f16 f16 f16x2 "128x384 2x1" 2 384 3 2 1 2),
        other_major!(f16 f16x2 gemm_kn true false),
        other_major!(f16 f16x2 gemm_mk false true),
        other_major!(f16 f16x2 gemm_mkn false false),
    ];
}

impl Operand for e4m3 {
    type Result = bf16;
    const VARIANTS: &'static [Variant<e4m3, bf16>] = &[
        k_major!(e4m3 bf16 bf16x2 "128x256 2x1" 2 256 3 2 1 4),
        k_major!(e4m3 bf16 bf16x2 "128x320 2x1" 2 320 3 2 1 3),
        k_major!(e4m3 bf16 bf16x2 "128x384 2x1" 2 384 3 2 1 2),
    ];
}

/// Columns of a tile, and the time of a tile for each of them, as measured on an H200 at the limit of its power: wider
/// tiles fetch less, and so take less energy, but the last wave of a product leaves more of the chip idle.
const COSTS: [(u32, f64); 4] = [(128, 1.05), (256, 1.0), (320, 0.985), (384, 0.975)];

/// The variant for a product on this device, and the order of its tiles.
///
/// The cheapest: waves of tiles, times the columns of a tile, times what a column costs in a tile of that width.
///
/// # Errors
/// Those of loading a kernel.
pub(crate) fn pick<T: Operand>(device: &Device, shape: [usize; 3]) -> Result<Option<Way<T>>> {
    let mut best = None;
    for variant in T::VARIANTS.iter().filter(|variant| variant.major == K_MAJOR) {
        let cost = variant.cost(variant.workers(device)?, shape);
        if best.is_none_or(|(least, _)| cost < least) {
            best = Some((cost, *variant));
        }
    }
    Ok(best.map(|(_, variant)| (variant, Order { group: 8, keep: 2 })))
}

impl<T, O> Variant<T, O> {
    /// Tiles of clusters.
    fn tiles(&self, [m, n, _]: [usize; 3]) -> u32 {
        (m as u32).div_ceil(self.tile[0]) * (n as u32).div_ceil(self.tile[1])
    }

    /// How long a product takes, in columns of a tile.
    fn cost(&self, workers: u32, shape: [usize; 3]) -> f64 {
        let waves = self.tiles(shape).div_ceil((workers / self.blocks).max(1));
        let (_, column) = COSTS.iter().find(|(columns, _)| *columns == self.tile[1]).unwrap_or(&COSTS[1]);
        f64::from(waves) * f64::from(self.tile[1]) * column
    }

    /// How many blocks the device runs at the same time; the interpreter is given eight.
    pub(crate) fn workers(&self, device: &Device) -> Result<u32> {
        resident(device, self.kernel, 128 * (1 + self.consumers), self.blocks, self.shared)
    }

    /// What a launch with `workers` blocks leaves its sums in: nothing but for stream-K.
    pub(crate) fn scratch(&self, device: &Device, workers: u32) -> Result<Scratch> {
        let groups = if self.stream { (workers * self.consumers) as usize } else { 0 };
        // 64 rows of the block's columns for each of its warp groups.
        Ok(Scratch { sums: device.zeros(groups * 64 * self.tile[1] as usize)?, flags: device.zeros(groups)? })
    }

    /// C = A · B with `workers` blocks, fewer if there are fewer tiles and each has one of its own.
    pub(crate) fn launch(
        &self,
        stream: &Stream,
        (a, b, c): (&Buffer<T>, &Buffer<T>, &mut Buffer<O>),
        shape: [usize; 3],
        workers: u32,
        order: Order,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let blocks = if self.stream { workers } else { workers.min(self.tiles(shape) * self.blocks) };
        (self.launch)(stream, a, b, c, shape, blocks, order, scratch)
    }
}

/// A product by every instance for `bf16`, and by those that share tiles one of more tiles than workers, against the sums
/// in `f64`; on the CPU device where there is no such GPU.
pub(crate) fn run(device: &Device) -> Result<Report> {
    let device = &ptx_examples::chip_or_cpu(device, (9, 0));
    let shapes =
        if device.is_cuda() { [[1000, 1048, 1032], [5000, 5128, 1032]] } else { [[136, 264, 72], [520, 776, 136]] };
    let (order, mut error, mut time) = (Order { group: 3, keep: 2 }, 0.0, Duration::MAX);
    for variant in bf16::VARIANTS.iter().chain(bf16::TRIALS) {
        for shape in &shapes[..if variant.stream { 2 } else { 1 }] {
            let workers = variant.workers(device)?;
            let scratch = RefCell::new(variant.scratch(device, workers)?);
            let (off, took) = operands(*shape, variant.major).check(device, |stream, a, b, c| {
                variant.launch(stream, (a, b, c), *shape, workers, order, &mut scratch.borrow_mut())
            })?;
            (error, time) = (f64::max(error, off), time.min(took));
        }
    }
    let ([m, n, k], picked) = (shapes[0], pick::<bf16>(device, shapes[0])?.map_or("none", |(variant, _)| variant.name));
    Ok(Report {
        name: "hopper_gemm",
        device: device.name().to_owned(),
        size: format!("{m} × {n} × {k}, {picked}"),
        error,
        limit: 1.0,
        time,
        figure: format!("{:.3} TFLOP/s", 2e-12 * (m * n * k) as f64 / time.as_secs_f64().max(1e-12)),
    })
}

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

//! Matrix products on Blackwell, `sm_100a`: TMA, tensor memory and `tcgen05`. 16-bit operands, both K-major, sums in `f32`, results of the
//! operands' type. Not tuned: the CPU device runs the kernels, and no chip has measured them.
//!
//! A block has six warps. A thread of the first is the producer: it loads 64 columns of A and of B at a time with TMA, into a ring of
//! stages. A thread of the second issues `tcgen05.mma`, which reads shared memory and adds to tensor memory; `tcgen05.commit` releases
//! the stages. Four warps are the epilogue: each reads 32 lanes of the sums with `tcgen05.ld`, converts them, and stores them with TMA.
//! Tensor memory holds the sums of two tiles, so that one tile is multiplied while the one before is stored.
//!
//! In a cluster of two blocks (`.cta_group::2`) each has its 128 rows of A, half of B's columns and its rows of the sums, and the tensor cores
//! of both read both halves of B. Each producer loads to its own shared memory, and the bytes count at the barrier of the first block,
//! whose thread multiplies for both. `tcgen05.commit` then arrives at the barriers of both blocks.
#![allow(unsafe_code, reason = "kernels take maps of memory that `Gemm::run` has checked and bound")]

use super::instance::{Axes, Family, Instance, Submit, rows};
use super::params::{BF16, F16, Raster};
use kernels::tcgen05;
use ptx_launch::prelude::{bf16, f16, ptx_module};
use std::fmt::Debug;

/// The kernel.
#[ptx_module(arch = "sm_100a", params(Raster))]
#[allow(unreachable_pub, reason = "the module is not public")]
pub(crate) mod kernels {
    use super::Raster;

    /// The axes of a kernel.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Config {
        /// Columns of a tile; it has 128 rows in each block.
        pub block_n: u32,
        /// Blocks of a cluster, along M: 1 or 2.
        pub cluster_m: u32,
        /// Stages of the ring.
        pub stages: u32,
        /// Tiles along M of a band.
        pub band: u32,
    }

    impl Config {
        /// A kernel for tiles of `block_n` columns.
        pub const fn new(block_n: u32, cluster_m: u32, stages: u32) -> Config {
            Config { block_n, cluster_m, stages, band: 8 }
        }
    }

    /// Rows of a tile in one block: the lanes of its tensor memory.
    pub const BLOCK_M: u32 = 128;

    /// A stage: 128 bytes along K of this block's rows of A, and of its share of B's columns.
    #[align(1024)]
    struct Stage<const C: Config> {
        a: [[u8; 128]; BLOCK_M],
        b: [[u8; 128]; C.block_n / C.cluster_m],
    }

    /// 32 rows of 64 columns of C, on their way to global memory.
    #[align(1024)]
    struct Subtile {
        rows: [[u8; 128]; 32],
    }

    struct SharedMemory<const C: Config> {
        stages: [Stage<C>; C.stages],
        stores: [Subtile; 4],
        loads: pipeline::Barriers<{ C.stages }>,
        sums: pipeline::Barriers<2>,
        tensor_memory: u32,
    }

    /// The tiles of all clusters.
    struct Work {
        tiles_m: u32,
        tiles_n: u32,
        band: u32,
        k: u32,
        /// The block in its cluster.
        rank: u32,
    }

    /// Tiles are taken in bands of `raster.band` along M.
    #[ptx_kernel(
        block = 192,
        grid = clusters * C.cluster_m,
        cluster = C.cluster_m,
        instances = [
            m128n128k64_1x1_kk = ([bf16, f16], Config::new(128, 1, 4)),
            m128n256k64_1x1_kk = ([bf16, f16], Config::new(256, 1, 4)),
            m128n128k64_2x1_kk = ([bf16, f16], Config::new(128, 2, 6)),
            m128n256k64_2x1_kk = ([bf16, f16], Config::new(256, 2, 4))
        ],
        requires(
            raster.is_counted(),
            raster.m.div_ceil(128 * C.cluster_m) * raster.n.div_ceil(C.block_n) <= 1 << 31,
            raster.band * raster.n.div_ceil(C.block_n) <= 1 << 31
        )
    )]
    pub fn tcgen05<T, const C: Config>(a: TensorMap, b: TensorMap, c: TensorMap, raster: Raster, clusters: u32) {
        #[shared(dynamic)]
        let smem: SharedMemory<C>;
        let warp: u32 = tid.x >> 5;
        if warp == 0 {
            tcgen05::alloc::<{ C.cluster_m }, { 2 * C.block_n }>(smem.tensor_memory);
            tcgen05::relinquish::<{ C.cluster_m }>();
        }
        if tid.x == 32 {
            tma::prefetch(a);
            tma::prefetch(b);
            tma::prefetch(c);
            smem.loads.init::<1, 1>();
            // The epilogue warps of all blocks release sums.
            smem.sums.init::<1, { 4 * C.cluster_m }>();
        }
        tcgen05::fence_before();
        block::sync();
        sync_cluster::<C>();
        tcgen05::fence_after();
        let sums: u32 = tcgen05::address(smem.tensor_memory);
        const TILE_M: u32 = BLOCK_M * C.cluster_m;
        let (tiles_m, tiles_n): (u32, u32) =
            ((raster.m + (TILE_M - 1)) / TILE_M, (raster.n + (C.block_n - 1)) / C.block_n);
        let work = Work { tiles_m, tiles_n, band: raster.band, k: raster.k, rank: rank::<C>() };
        if warp == 0 {
            if warp::elect() {
                load_tiles::<C>(a, b, smem, &work);
            }
            warp::sync();
        } else if warp == 1 {
            if work.rank == 0 {
                if warp::elect() {
                    multiply_tiles::<T, C>(smem, sums, &work);
                }
            }
            warp::sync();
        } else {
            store_tiles::<T, C>(c, smem, sums, &work);
        }
        // No block exits while the other one may still arrive here or read here.
        tcgen05::fence_before();
        block::sync();
        sync_cluster::<C>();
        if warp == 0 {
            tcgen05::fence_after();
            tcgen05::dealloc::<{ C.cluster_m }, { 2 * C.block_n }>(sums);
        }
    }

    /// Waits for the other block of the cluster, if there is one.
    fn sync_cluster<const C: Config>() {
        if C.cluster_m == 2 {
            cluster::sync();
        }
    }

    /// The number of this block in its cluster.
    fn rank<const C: Config>() -> u32 {
        let mut rank: u32 = 0;
        if C.cluster_m == 2 {
            rank = cluster::rank();
        }
        rank
    }

    /// The producer.
    fn load_tiles<const C: Config>(a: TensorMap, b: TensorMap, smem: Shared<SharedMemory<C>>, work: &Work) {
        let mut ring = pipeline::Pipeline::new(smem.loads);
        let mut tile: u32 = ctaid.x / C.cluster_m;
        while tile < work.tiles_m * work.tiles_n {
            let (row, column): (u32, u32) = scheduler::grouped(tile, work.tiles_m, work.tiles_n, work.band);
            let mut k: u32 = 0;
            while k < work.k {
                ring.wait_empty();
                load_stage::<C>(a, b, smem, &ring, [k, first_row::<C>(row, work), column * C.block_n], work);
                ring.advance();
                k += 64;
            }
            tile += nctaid.x / C.cluster_m;
        }
        ring.drain();
    }

    /// Loads this block's share of a stage, from `at` on: K, the row of A and the column of B.
    fn load_stage<const C: Config>(
        a: TensorMap,
        b: TensorMap,
        smem: Shared<SharedMemory<C>>,
        ring: &pipeline::Pipeline<{ C.stages }>,
        at: [u32; 3],
        work: &Work,
    ) {
        let (full, stage) = (ring.full(), smem.stages.at(ring.stage));
        if C.cluster_m == 2 {
            // The first block expects the bytes of both.
            if work.rank == 0 {
                full.arrive_expect(2 * size_of::<Stage<C>>());
            }
            let leader: u32 = cluster::map(full, 0);
            tma::load_2d_pair(stage.a, a, at[0], at[1], leader);
            tma::load_2d_pair(stage.b, b, at[0], at[2] + work.rank * (C.block_n / 2), leader);
        } else {
            full.arrive_expect(size_of::<Stage<C>>());
            tma::load_2d(stage.a, a, at[0], at[1], full);
            tma::load_2d(stage.b, b, at[0], at[2], full);
        }
    }

    /// The row and the column of a tile, as `scheduler::grouped` has them.
    fn tile_at(index: u32, work: &Work) -> (u32, u32) {
        let size: u32 = work.band * work.tiles_n;
        let band: u32 = index / size;
        // The band begins inside of the matrix.
        invariant!(band * work.band < work.tiles_m);
        let (first, inside): (u32, u32) = (band * work.band, index - band * size);
        let mut height: u32 = work.tiles_m - first;
        ptx! { min.u32 height, height, work.band; }
        invariant!(
            height >= 1
                && height <= work.band
                && first + height <= work.tiles_m
                && (height == work.band || first + height == work.tiles_m)
        );
        let column: u32 = inside / height;
        assume!(column < work.tiles_n);
        let row: u32 = first + inside - column * height;
        invariant!(first <= row && row < first + height);
        (row, column)
    }

    /// The first row of this block's part of a tile.
    fn first_row<const C: Config>(row: u32, work: &Work) -> u32 {
        (C.cluster_m * row + work.rank) * BLOCK_M
    }

    /// The thread that issues products.
    fn multiply_tiles<T, const C: Config>(smem: Shared<SharedMemory<C>>, sums: u32, work: &Work) {
        const STAGE: u32 = size_of::<Stage<C>>();
        /// The number of the operands' type in an instruction descriptor.
        const OPERAND: u32 = if type_name::<T>() == "bf16" { 1 } else { 0 };
        const IDESC: u32 = tcgen05::idesc(OPERAND, OPERAND, tcgen05::SUM_F32, C.cluster_m * BLOCK_M, C.block_n);
        let mut ring = pipeline::Pipeline::new(smem.loads);
        let mut half = pipeline::Pipeline::new(smem.sums);
        let first = smem.stages.at(0);
        let (a, b): (u64, u64) = (tcgen05::descriptor_k128(first.a), tcgen05::descriptor_k128(first.b));
        let mut tile: u32 = ctaid.x / C.cluster_m;
        while tile < work.tiles_m * work.tiles_n {
            half.wait_empty();
            tcgen05::fence_after();
            let to: u32 = sums + half.stage * C.block_n;
            tcgen05::multiply::<{ C.cluster_m }, "kind::f16", 64, STAGE>(to, a, b, IDESC, work.k, &mut ring);
            tcgen05::commit_all::<{ C.cluster_m }>(half.full());
            half.advance();
            tile += nctaid.x / C.cluster_m;
        }
    }

    /// A warp of the epilogue. Its number decides which lanes of tensor memory it reaches.
    fn store_tiles<T, const C: Config>(c: TensorMap, smem: Shared<SharedMemory<C>>, sums: u32, work: &Work) {
        let mut half = pipeline::Pipeline::new(smem.sums);
        let (quarter, lane): (u32, u32) = ((tid.x >> 5) & 3, tid.x & 31);
        let buffer = smem.stores.at(quarter);
        let mut tile: u32 = ctaid.x / C.cluster_m;
        while tile < work.tiles_m * work.tiles_n {
            let (row, column): (u32, u32) = tile_at(tile, work);
            half.wait_full();
            tcgen05::fence_after();
            let from: u32 = tcgen05::quarter(sums + half.stage * C.block_n);
            for subtile in 0..C.block_n / 64 {
                let values: [f32; 64] = tcgen05::load::<f32, 64>(from + 64 * subtile);
                if subtile == C.block_n / 64 - 1 {
                    // All sums are read: the tile after the next one may be multiplied here.
                    tcgen05::fence_before();
                    warp::sync();
                    if lane == 0 {
                        if C.cluster_m == 2 {
                            mbarrier::arrive_remote(half.empty(), 0);
                        } else {
                            half.empty().arrive();
                        }
                    }
                }
                // The buffer is free when the store before has read it.
                if lane == 0 {
                    tma::wait_read::<0>();
                }
                warp::sync();
                tcgen05::store_row(buffer, lane, tcgen05::pack::<T, 64>(values));
                tma::fence();
                warp::sync();
                if lane == 0 {
                    tma::store_2d(
                        c,
                        column * C.block_n + 64 * subtile,
                        first_row::<C>(row, work) + quarter * 32,
                        buffer,
                    );
                    tma::commit();
                }
            }
            half.advance();
            tile += nctaid.x / C.cluster_m;
        }
        if lane == 0 {
            tma::wait::<0>();
        }
        warp::sync();
    }
}

/// Rows of C that a warp stores at a time.
const STORED: u32 = 32;

/// The rows of all kernels.
pub(super) fn instances() -> impl Iterator<Item = Instance> {
    rows!(
        tcgen05: [bf16] BF16, [f16] F16;
        row {
            |row, call, _|
            let (a, b, c) = (call.operand_map(row, 0)?, call.operand_map(row, 1)?, call.result_map(row, STORED)?);
            let [tiles_m, tiles_n] = row.cluster_tiles(call.product.m, call.product.n);
            let clusters = (tiles_m * tiles_n).min(call.capacity()?);
        }
        (call.stream, &a, &b, &c, call.raster(), clusters)
    )
}

fn row(ident: &dyn Debug, kind: u32, config: &kernels::Config, submit: Submit) -> Instance {
    let (tile, cluster) = ([kernels::BLOCK_M, config.block_n], [config.cluster_m, 1]);
    let axes = Axes { tile, depth: 64, cluster, raster: [config.band, 1], majors: [Some(true); 2] };
    Instance::new(ident, (Family::Tcgen05, 100), (kind, Some(kind)), axes, submit)
}

//! Matrix products on Hopper's tensor cores, `sm_90a`: TMA, `wgmma` and thread block clusters.
//!
//! Persistent clusters take tiles of C. In each block a producer warp loads 128 bytes along K of the tile's rows and columns into a ring of
//! stages. The blocks of a cluster load the operands that they share once (multicast). One to three warp groups multiply (`mainloop`), and
//! `setmaxnreg` moves registers from the producer to them. A [`Config`](kernels::Config) has the axes of a kernel:
//!
//! - the tile of a block, the cluster, the stages of the ring, and the layouts of the operands;
//! - `swap_ab`: the kernel computes Cᵀ = Bᵀ · Aᵀ, so that a tile has any multiple of 8 or 16 rows of C, as decoding needs it;
//! - the scheduler: `STATIC` tiles by the number of the cluster, `SPLIT_K` parts of K of such tiles, `CLAIMED` tiles by its number in its GPC, `STREAM_K`
//!   with shared tiles in the last round;
//! - the epilogue: `TMA` stores the sums in rows of the result's type, `GENERIC` has every option of [`Gemm`](super::Gemm).
//!
//! The schedulers differ in their parameters, so that each has an entry. The instances are rows of the entries' tables.
#![allow(unsafe_code, reason = "kernels take maps of memory that `Gemm::run` has checked and bound")]

mod claimed;
pub(crate) mod config;
mod generic;
mod gpcs;
mod instances;
mod scratch;
mod static_tiles;
mod store;
mod stream_k;

use super::params::{Epilogue, Matrix, Output, Problem, Raster, Source, TileGrid, Vector};
use crate::float8::E5m2 as e5m2;
use ptx_launch::prelude::ptx_module;

pub(crate) use gpcs::kernels as probe;
pub(crate) use instances::instances;
#[cfg(feature = "comm")]
pub(crate) use scratch::ClusterIds;
pub(crate) use scratch::{Scratch, is_ready};

/// The kernels.
#[ptx_module(
    arch = "sm_90a",
    params(TileGrid, Raster, Source, Matrix, Vector, Epilogue, Output, Problem),
    parts(
        config::config,
        claimed::claimed,
        stream_k::stream_k,
        static_tiles::static_tiles,
        store::store,
        generic::generic,
        super::codes::codes,
        super::epilogue::epilogue,
        super::epilogue::warps::warps
    )
)]
#[allow(unreachable_pub, reason = "the module is not public")]
pub(crate) mod kernels {
    use super::{Epilogue, Matrix, Output, Problem, Raster, TileGrid, Vector, e5m2};

    /// The order of tiles, and the position of this block in its cluster.
    struct Work {
        tiles: scheduler::Raster,
        num_clusters: u32,
        rank_m: u32,
        rank_n: u32,
        warp_group: u32,
    }

    /// The shared memory of blocks that claim their number.
    struct ClaimedMemory<const C: Config> {
        stages: [mainloop::Stage<{ policy(C, 0) }>; C.stages],
        stores: [[epilogue::Subtile; C.buffers]; C.consumers()],
        barriers: pipeline::Barriers<{ C.stages }>,
        cluster_id: scheduler::ClusterId,
    }

    /// Clusters claim their numbers, because SMs of one GPC share their L2 requests.
    #[ptx_kernel(
        block = C.threads(),
        cluster = C.blocks(),
        max_regs = 168,
        pdl,
        instances = [
            m128n256k64_2x1_kk = ([f16, bf16], [f16, bf16], Config::claimed([128, 256], [2, 1], KK, 3, 4, [4, 8])),
            m128n256k128_2x1_kk = (e4m3, bf16, Config::claimed([128, 256], [2, 1], KK, 3, 4, [4, 8])),
            m128n256k64_1x2_kk = ([f16, bf16], [f16, bf16], Config::claimed([128, 256], [1, 2], KK, 3, 4, [8, 1])),
            m128n256k64_1x2_kn = ([f16, bf16], [f16, bf16], Config::claimed([128, 256], [1, 2], KN, 3, 4, [8, 1])),
            m128n320k64_2x1_kk = ([f16, bf16], [f16, bf16], Config::claimed([128, 320], [2, 1], KK, 3, 3, [4, 4])),
            m128n320k128_2x1_kk = (e4m3, bf16, Config::claimed([128, 320], [2, 1], KK, 3, 3, [4, 4])),
            m128n128k64_2x1_kk = ([f16, bf16], [f16, bf16], Config::claimed([128, 128], [2, 1], KK, 6, 2, [4, 8])),
            m64n128k64_1x2_kk = ([f16, bf16], [f16, bf16], Config::claimed([64, 128], [1, 2], KK, 7, 2, [16, 1])),
            m128n256k64_2x1_kn = ([f16, bf16], [f16, bf16], Config::claimed([128, 256], [2, 1], KN, 3, 4, [4, 8])),
            m128n256k64_2x1_mk = ([f16, bf16], [f16, bf16], Config::claimed([128, 256], [2, 1], MK, 3, 4, [4, 8])),
            m128n256k64_2x1_mn = ([f16, bf16], [f16, bf16], Config::claimed([128, 256], [2, 1], MN, 3, 4, [4, 8]))
        ],
        requires(gpcs.len() >= 17 + 256, counters.len() >= 17)
    )]
    pub fn claimed<T, O, const C: Config>(
        a: TensorMap,
        b: TensorMap,
        c: TensorMap,
        gpcs: &[u32],
        #[align(16)] counters: &mut [u32],
        raster: Raster,
    ) {
        #[shared(dynamic)]
        let smem: ClaimedMemory<C>;
        const TILE_M: u32 = C.block_m() * C.cluster_m();
        const TILE_N: u32 = C.block_n() * C.cluster_n();
        let (rank, num_clusters): (u32, u32) = (cluster::rank(), nctaid.x / C.blocks());
        if tid.x == 0 {
            tma::prefetch(a);
            tma::prefetch(b);
            tma::prefetch(c);
            smem.cluster_id.init();
            smem.barriers.init::<1, { C.consumers() * C.blocks() }>();
        }
        smem.cluster_id.claim::<{ C.blocks() }>(gpcs, counters, num_clusters);
        let tiles = scheduler::Raster::covering::<TILE_M, TILE_N>(raster.m, raster.n, raster.band, raster.run);
        let (rank_m, rank_n): (u32, u32) = (rank % C.cluster_m(), rank / C.cluster_m());
        let warp_group: u32 = cluster::warp_group();
        let work = Work { tiles, num_clusters, rank_m, rank_n, warp_group };
        if warp_group == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x < 32 {
                load_claimed::<T, C>(a, b, smem, &work, raster.k);
            }
        } else {
            wgmma::more_registers::<232>();
            multiply_claimed::<T, O, C>(c, smem, &work, raster.k);
        }
    }

    /// Partial sums of tiles that clusters share and their flags, the clusters of each GPC, and the counters from which clusters claim their numbers.
    struct StreamKScratch {
        #[align(16)]
        partials: &mut [f32],
        flags: &mut [u32],
        gpcs: &[u32],
        #[align(16)]
        counters: &mut [u32],
    }

    /// As `claimed`, but all clusters share the tiles of the last round. `partials` has room for a tile of each block; `flags`, two per
    /// block, are zero, and are zero again at the end.
    #[ptx_kernel(
        block = C.threads(),
        grid = scratch.flags.len() / (2 * C.blocks()) * C.blocks(),
        cluster = C.blocks(),
        max_regs = 168,
        pdl,
        instances = [
            m256n192k64_1x2_kk = ([f16, bf16], [f16, bf16], Config::stream_k([256, 192], [1, 2], KK, 3, 3, [9, 1])),
            m256n192k128_1x2_kk = (e4m3, bf16, Config::stream_k([256, 192], [1, 2], KK, 3, 3, [9, 1])),
            m256n192k64_1x2_kn = ([f16, bf16], [f16, bf16], Config::stream_k([256, 192], [1, 2], KN, 3, 3, [9, 1]))
        ],
        requires(
            raster.is_counted(),
            scratch.gpcs.len() >= 17 + 256,
            scratch.counters.len() >= 17,
            scratch.partials.len() >= scratch.flags.len() / 2 * (C.tile[0] * C.tile[1])
        )
    )]
    pub fn stream_k<T, O, const C: Config>(
        a: TensorMap,
        b: TensorMap,
        c: TensorMap,
        scratch: StreamKScratch,
        raster: Raster,
    ) {
        #[shared(dynamic)]
        let smem: ClaimedMemory<C>;
        const P: mainloop::Policy = policy(C, 0);
        const TILE_M: u32 = C.block_m() * C.cluster_m();
        const TILE_N: u32 = C.block_n() * C.cluster_n();
        let (rank, num_clusters): (u32, u32) = (cluster::rank(), nctaid.x / C.blocks());
        if tid.x == 0 {
            tma::prefetch(a);
            tma::prefetch(b);
            tma::prefetch(c);
            smem.cluster_id.init();
            smem.barriers.init::<1, { 2 * C.blocks() }>();
        }
        smem.cluster_id.claim::<{ C.blocks() }>(scratch.gpcs, scratch.counters, num_clusters);
        let tiles = scheduler::Raster::covering::<TILE_M, TILE_N>(raster.m, raster.n, raster.band, raster.run);
        let steps: u32 = (raster.k + (128 / size_of::<T>() - 1)) / (128 / size_of::<T>());
        // Shared tiles go by the index of the launch, not by the claimed number: clusters wait for others, which must have started.
        let mut shared = scheduler::StreamK::new(ctaid.x / C.blocks(), num_clusters, tiles.count(), steps);
        let warp_group: u32 = cluster::warp_group();
        let (rank_m, rank_n): (u32, u32) = (rank % C.cluster_m(), rank / C.cluster_m());
        let work = Work { tiles, num_clusters, rank_m, rank_n, warp_group };
        if warp_group == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x < 32 {
                load_stream_k::<T, C>(a, b, smem, &work, &mut shared, raster.k);
            }
        } else {
            wgmma::more_registers::<232>();
            let partials = Partials::<{ P.accumulators() }> {
                sums: scratch.partials.cast::<PartialSums<{ P.accumulators() }>>(),
                flags: scratch.flags,
                slots: 2 * C.blocks(),
                slot: rank * 2 + (warp_group - 1),
                thread: tid.x & 127,
                barrier: warp_group,
            };
            multiply_stream_k::<T, O, C>(c, smem, &work, &mut shared, &partials, raster.k);
        }
    }

    /// Tiles by the number of the cluster, of all batches. For products of a few rounds of tiles: a tile begins and ends in half of the time
    /// that it takes with the generic epilogue.
    #[ptx_kernel(
        block = C.threads(),
        grid = grid.clusters * C.blocks(),
        cluster = C.blocks(),
        max_regs = C.registers(),
        pdl,
        instances = [
            m64n64k64_1x2_kk = ([f16, bf16], Config::tma([64, 64], [1, 2], KK, 12, 1)),
            m128n192k64_2x1_kk = ([f16, bf16], Config::tma([128, 192], [2, 1], KK, 4, 2)),
            m192n192k64_1x2_kk = ([f16, bf16], Config::tma([192, 192], [1, 2], KK, 4, 1)),
            m16n64k64_1x1_kk = ([f16, bf16], Config::tma([16, 64], [1, 1], KK, 12, 1).swapped()),
            m32n64k64_1x1_kk = ([f16, bf16], Config::tma([32, 64], [1, 1], KK, 12, 1).swapped()),
            m64n64k64_1x1_kk = ([f16, bf16], Config::tma([64, 64], [1, 1], KK, 12, 1).swapped()),
            m112n64k64_1x1_kk = ([f16, bf16], Config::tma([112, 64], [1, 1], KK, 9, 2).swapped()),
            m64n128k64_1x1_kk = ([f16, bf16], Config::tma([64, 128], [1, 1], KK, 8, 1).swapped()),
            m96n128k64_2x1_kk = ([f16, bf16], Config::tma([96, 128], [2, 1], KK, 7, 1).swapped()),
            m128n128k64_2x1_kk = ([f16, bf16], Config::tma([128, 128], [2, 1], KK, 6, 2).swapped()),
            m96n192k64_2x1_kk = ([f16, bf16], Config::tma([96, 192], [2, 1], KK, 5, 1).swapped()),
            m160n128k64_2x1_kk = ([f16, bf16], Config::tma([160, 128], [2, 1], KK, 5, 2).swapped()),
            m224n128k64_1x2_kk = ([f16, bf16], Config::tma([224, 128], [1, 2], KK, 4, 2).swapped()),
            m160n192k64_2x1_kk = ([f16, bf16], Config::tma([160, 192], [2, 1], KK, 4, 1).swapped()),
            m176n256k64_2x1_kk = ([f16, bf16], Config::tma([176, 256], [2, 1], KK, 3, 2).swapped()),
            m64n64k64_1x1_kn = ([f16, bf16], Config::tma([64, 64], [1, 1], KN, 12, 1)),
            m64n128k64_1x1_kn = ([f16, bf16], Config::tma([64, 128], [1, 1], KN, 8, 2)),
            m128n256k64_2x1_kn = ([f16, bf16], Config::tma([128, 256], [2, 1], KN, 4, 2)),
            m192n192k64_1x1_kn = ([f16, bf16], Config::tma([192, 192], [1, 1], KN, 4, 1)),
            m16n64k64_1x1_kn = ([f16, bf16], Config::tma([16, 64], [1, 1], KN, 12, 1).swapped()),
            m32n64k64_1x1_kn = ([f16, bf16], Config::tma([32, 64], [1, 1], KN, 12, 1).swapped()),
            m64n64k64_1x4_kn = ([f16, bf16], Config::tma([64, 64], [1, 4], KN, 12, 1).swapped()),
            m128n64k64_1x4_kn = ([f16, bf16], Config::tma([128, 64], [1, 4], KN, 8, 2).swapped()),
            m96n128k64_2x1_kn = ([f16, bf16], Config::tma([96, 128], [2, 1], KN, 7, 1).swapped()),
            m128n128k64_1x2_kn = ([f16, bf16], Config::tma([128, 128], [1, 2], KN, 6, 2).swapped()),
            m128n128k64_2x1_kn = ([f16, bf16], Config::tma([128, 128], [2, 1], KN, 6, 2).swapped()),
            m144n128k64_2x1_kn = ([f16, bf16], Config::tma([144, 128], [2, 1], KN, 5, 2).swapped()),
            m192n128k64_1x2_kn = ([f16, bf16], Config::tma([192, 128], [1, 2], KN, 4, 2).swapped()),
            m240n128k64_1x2_kn = ([f16, bf16], Config::tma([240, 128], [1, 2], KN, 4, 2).swapped()),
            m160n256k64_2x1_kn = ([f16, bf16], Config::tma([160, 256], [2, 1], KN, 3, 2).swapped())
        ],
        requires(
            grid.rows >= 1,
            grid.columns >= 1,
            grid.rows * (C.block_m() * C.cluster_m()) <= 1 << 31,
            grid.columns * (C.block_n() * C.cluster_n()) <= 1 << 31,
            grid.tiles <= 1 << 31,
            grid.k <= 1 << 31
        )
    )]
    pub fn static_tiles<T, const C: Config>(a: TensorMap, b: TensorMap, c: TensorMap, grid: TileGrid) {
        #[shared(dynamic)]
        let smem: StaticMemory<C>;
        if tid.x == 0 {
            tma::prefetch(a);
            tma::prefetch(b);
            tma::prefetch(c);
            smem.barriers.init::<1, { C.consumers() * C.blocks() }>();
        }
        let warp_group: u32 = cluster::warp_group();
        if C.blocks() > 1 {
            cluster::arrive_relaxed();
            cluster::wait();
        } else {
            block::sync();
        }
        grid::launch_dependents();
        if warp_group == 0 {
            if C.moves_registers() {
                wgmma::fewer_registers::<40>();
            }
            if tid.x < 32 {
                load_static::<T, C>(a, b, smem, &grid);
            }
        } else {
            if C.moves_registers() {
                wgmma::more_registers::<{ C.more_registers() }>();
            }
            multiply_static::<T, C>(c, smem, warp_group, &grid);
        }
    }

    /// Every option, any type, strides and batches; parts of K at run time.
    #[ptx_kernel(
        block = C.threads(),
        cluster = C.blocks(),
        max_regs = 168,
        pdl,
        instances = [
            m128n256k64_2x1_kk = ([f16, bf16], f32, Config::generic([128, 256], [2, 1], KK, 3)),
            m128n256k64_2x1_kn = ([f16, bf16], f32, Config::generic([128, 256], [2, 1], KN, 3)),
            m128n256k64_2x1_mk = ([f16, bf16], f32, Config::generic([128, 256], [2, 1], MK, 3)),
            m128n256k64_2x1_mn = ([f16, bf16], f32, Config::generic([128, 256], [2, 1], MN, 3)),
            m128n128k64_2x1_kk = ([f16, bf16], f32, Config::generic([128, 128], [2, 1], KK, 5)),
            m128n128k64_2x1_kn = ([f16, bf16], f32, Config::generic([128, 128], [2, 1], KN, 5)),
            m128n128k64_2x1_mk = ([f16, bf16], f32, Config::generic([128, 128], [2, 1], MK, 5)),
            m128n128k64_2x1_mn = ([f16, bf16], f32, Config::generic([128, 128], [2, 1], MN, 5)),
            m128n192k64_2x1_kk = ([f16, bf16], f32, Config::generic([128, 192], [2, 1], KK, 4)),
            m128n192k64_1x1_kn = ([f16, bf16], f32, Config::generic([128, 192], [1, 1], KN, 4)),
            m128n160k64_2x1_kk = ([f16, bf16], f32, Config::generic([128, 160], [2, 1], KK, 5)),
            m128n96k64_2x1_kk = ([f16, bf16], f32, Config::generic([128, 96], [2, 1], KK, 7)),
            m128n64k64_2x1_kk = ([f16, bf16], f32, Config::generic([128, 64], [2, 1], KK, 7)),
            m128n64k64_1x1_kn = ([f16, bf16], f32, Config::generic([128, 64], [1, 1], KN, 7)),
            m64n96k64_2x1_kk = ([f16, bf16], f32, Config::generic([64, 96], [2, 1], KK, 10)),
            m64n64k64_1x1_kk = ([f16, bf16], f32, Config::generic([64, 64], [1, 1], KK, 12)),
            m64n64k64_1x1_kn = ([f16, bf16], f32, Config::generic([64, 64], [1, 1], KN, 12)),
            m64n64k64_2x1_kk = ([f16, bf16], f32, Config::generic([64, 64], [2, 1], KK, 12)),
            m64n32k64_2x1_kk = ([f16, bf16], f32, Config::generic([64, 32], [2, 1], KK, 16)),
            m192n128k64_1x2_kk = ([f16, bf16], f32, Config::generic([192, 128], [1, 2], KK, 4).swapped()),
            m192n128k64_1x2_kn = ([f16, bf16], f32, Config::generic([192, 128], [1, 2], KN, 4).swapped()),
            m160n128k64_1x2_kn = ([f16, bf16], f32, Config::generic([160, 128], [1, 2], KN, 5).swapped()),
            m128n128k64_1x2_kk = ([f16, bf16], f32, Config::generic([128, 128], [1, 2], KK, 5).swapped()),
            m96n128k64_1x2_kk = ([f16, bf16], f32, Config::generic([96, 128], [1, 2], KK, 6).swapped()),
            m96n128k64_1x2_kn = ([f16, bf16], f32, Config::generic([96, 128], [1, 2], KN, 6).swapped()),
            m64n128k64_1x1_kk = ([f16, bf16], f32, Config::generic([64, 128], [1, 1], KK, 7).swapped()),
            m64n128k64_1x2_kn = ([f16, bf16], f32, Config::generic([64, 128], [1, 2], KN, 7).swapped()),
            m32n128k64_1x1_kk = ([f16, bf16], f32, Config::generic([32, 128], [1, 1], KK, 9).swapped()),
            m32n128k64_1x1_kn = ([f16, bf16], f32, Config::generic([32, 128], [1, 1], KN, 9).swapped()),
            m32n64k64_1x2_kn = ([f16, bf16], f32, Config::generic([32, 64], [1, 2], KN, 16).swapped()),
            m16n128k64_1x1_kk = ([f16, bf16], f32, Config::generic([16, 128], [1, 1], KK, 10).swapped()),
            m16n128k64_1x1_kn = ([f16, bf16], f32, Config::generic([16, 128], [1, 1], KN, 10).swapped()),
            m128n256k32_2x1_kk = (f32, f32, Config::generic([128, 256], [2, 1], KK, 3)),
            m128n128k32_2x1_kk = (f32, f32, Config::generic([128, 128], [2, 1], KK, 5)),
            m128n192k32_2x1_kk = (f32, f32, Config::generic([128, 192], [2, 1], KK, 4)),
            m128n64k32_1x1_kk = (f32, f32, Config::generic([128, 64], [1, 1], KK, 7)),
            m64n64k32_1x1_kk = (f32, f32, Config::generic([64, 64], [1, 1], KK, 12)),
            m192n128k32_1x2_kk = (f32, f32, Config::generic([192, 128], [1, 2], KK, 4).swapped()),
            m128n128k32_1x2_kk = (f32, f32, Config::generic([128, 128], [1, 2], KK, 5).swapped()),
            m64n128k32_1x1_kk = (f32, f32, Config::generic([64, 128], [1, 1], KK, 7).swapped()),
            m16n128k32_1x1_kk = (f32, f32, Config::generic([16, 128], [1, 1], KK, 10).swapped()),
            m128n256k128_2x1_kk = ([i8, e4m3, e5m2], [i32, f32, f32], Config::generic([128, 256], [2, 1], KK, 3)),
            m128n128k128_2x1_kk = ([i8, e4m3, e5m2], [i32, f32, f32], Config::generic([128, 128], [2, 1], KK, 5)),
            m128n192k128_2x1_kk = ([i8, e4m3, e5m2], [i32, f32, f32], Config::generic([128, 192], [2, 1], KK, 4)),
            m128n64k128_1x1_kk = ([i8, e4m3, e5m2], [i32, f32, f32], Config::generic([128, 64], [1, 1], KK, 7)),
            m64n64k128_1x1_kk = ([i8, e4m3, e5m2], [i32, f32, f32], Config::generic([64, 64], [1, 1], KK, 12)),
            m192n128k128_1x2_kk = ([i8, e4m3, e5m2], [i32, f32, f32], Config::generic([192, 128], [1, 2], KK, 4).swapped()),
            m128n128k128_1x2_kk = ([i8, e4m3, e5m2], [i32, f32, f32], Config::generic([128, 128], [1, 2], KK, 5).swapped()),
            m64n128k128_1x1_kk = ([i8, e4m3, e5m2], [i32, f32, f32], Config::generic([64, 128], [1, 1], KK, 7).swapped()),
            m16n128k128_1x1_kk = ([i8, e4m3, e5m2], [i32, f32, f32], Config::generic([16, 128], [1, 1], KK, 10).swapped())
        ]
    )]
    pub fn generic<T, S, const C: Config>(a: TensorMap, b: TensorMap, out: Output, p: Problem) {
        #[shared(dynamic)]
        let smem: GenericMemory<C>;
        // Each block of a cluster loads whole boxes of an MN-major operand.
        assert!(C.major_b() == 0 || C.block_n() / C.cluster_m() % 64 == 0);
        if tid.x == 0 {
            tma::prefetch(a);
            tma::prefetch(b);
            smem.barriers.init::<1, { C.consumers() * C.cluster_m() }>();
        }
        warp::sync();
        cluster::arrive_relaxed();
        cluster::wait();
        grid::launch_dependents();
        let warp_group: u32 = cluster::warp_group();
        if warp_group == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x < 32 {
                load_units::<T, C>(a, b, smem, &p);
            }
        } else {
            wgmma::more_registers::<232>();
            grid::wait();
            multiply_units::<T, S, C>(smem, warp_group, &out, &p);
        }
    }
}

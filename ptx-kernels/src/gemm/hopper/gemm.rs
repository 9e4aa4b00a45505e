//! C = A · B on Hopper: persistent clusters, a producer warp, one or two consumer warp groups. Operands of 16 or 8 bits, `f32` sums, any
//! M, N and K whose rows are multiples of 16 bytes.
//!
//! The producer warp loads 128 bytes of A's and B's rows at a time into a ring of stages, with TMA. The blocks of a cluster have
//! neighboring tiles, and load the parts that they share once (multicast). Each consumer multiplies 64 or 128 rows of its block's tile
//! with `wgmma`, and keeps the sums in registers; `setmaxnreg` moves registers from the producer to the consumers. A finished tile leaves
//! in subtiles of 64 columns: `stmatrix` to swizzled shared memory, then TMA. At the end of a tile two consumers take turns, so that one
//! multiplies while the other one stores.
//!
//! The power of the chip limits large products, so everything here saves energy. Multicast and the order of tiles save reads of the L2
//! cache and of memory. Every other tile goes backward along K, because the L2 cache still holds the last stages of the tile before; so the
//! order of a tile's sums depends on its place. A cluster claims its number among those of its GPC (`scheduler::claim`), because SMs of one
//! GPC share their L2 requests.

use ptx_launch::prelude::*;

/// The kernel.
#[ptx_module(arch = "sm_90a")]
pub mod kernels {
    /// The tile of a block, the ring, the cluster, and the layouts of the operands.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Config {
        /// Rows of a block's tile.
        pub block_m: u32,
        /// Columns of a block's tile.
        pub block_n: u32,
        /// Stages of the ring.
        pub stages: u32,
        /// Blocks of a cluster along M.
        pub cluster_m: u32,
        /// Blocks of a cluster along N.
        pub cluster_n: u32,
        /// Subtiles of C in flight, per consumer.
        pub store_buffers: u32,
        /// 0 if A is M × K, 1 if it is K × M.
        pub major_a: u32,
        /// 0 if B is N × K, 1 if it is K × N.
        pub major_b: u32,
    }

    impl Config {
        /// Warp groups that multiply.
        pub const fn consumers(&self) -> u32 {
            if self.block_m > 64 { 2 } else { 1 }
        }

        /// Blocks of a cluster.
        pub const fn cluster(&self) -> u32 {
            self.cluster_m * self.cluster_n
        }

        const fn box_a(&self) -> u32 {
            if self.major_a == 0 { self.block_m / self.cluster_n } else { 64 }
        }

        const fn box_b(&self) -> u32 {
            if self.major_b == 0 { self.block_n / self.cluster_m } else { 64 }
        }
    }

    struct SharedMemory<const C: Config> {
        stages: [mainloop::Stage<{ policy(C) }>; C.stages],
        stores: [[epilogue::Subtile; C.store_buffers]; C.consumers()],
        barriers: pipeline::Barriers<{ C.stages }>,
        cluster_id: scheduler::ClusterId,
    }

    /// The tiles of all clusters, and the place of this block in its own.
    struct Work {
        tiles: scheduler::Raster,
        num_clusters: u32,
        rank_m: u32,
        rank_n: u32,
    }

    /// C (M × N) = A · B by `num_blocks` blocks. Clusters take tiles in bands of `band` along M, and in runs of `run` along N.
    #[ptx_kernel(
        block = 128 * (C.consumers() + 1),
        cluster = C.cluster(),
        grid = num_blocks,
        max_regs = 168,
        pdl,
        instances = [
            m128n256 = (bf16, bf16, M128N256),
            m128n256 = (f16, f16, M128N256),
            m128n256 = (e4m3, bf16, M128N256),
            m128n256_side = (bf16, bf16, M128N256_SIDE),
            m128n256_side = (f16, f16, M128N256_SIDE),
            m128n256_nn_side = (bf16, bf16, M128N256_NN_SIDE),
            m128n256_nn_side = (f16, f16, M128N256_NN_SIDE),
            m128n320 = (bf16, bf16, M128N320),
            m128n320 = (f16, f16, M128N320),
            m128n320 = (e4m3, bf16, M128N320),
            m128n128 = (bf16, bf16, M128N128),
            m128n128 = (f16, f16, M128N128),
            m64n128 = (bf16, bf16, M64N128),
            m64n128 = (f16, f16, M64N128),
            m128n256_nn = (bf16, bf16, M128N256_NN),
            m128n256_nn = (f16, f16, M128N256_NN),
            m128n256_tt = (bf16, bf16, M128N256_TT),
            m128n256_tt = (f16, f16, M128N256_TT),
            m128n256_tn = (bf16, bf16, M128N256_TN),
            m128n256_tn = (f16, f16, M128N256_TN)
        ],
        unsafe(requires(
            if C.major_a == 0 { A0 == M && A1 == k } else { A0 == k && A1 == M },
            if C.major_b == 0 { B0 == N && B1 == k } else { B0 == k && B1 == N },
            num_blocks > 0 && num_blocks % C.cluster() == 0,
            band > 0 && run > 0,
            gpcs.len() >= crate::gemm::hopper::GPC_WORDS && claims.len() >= crate::gemm::hopper::CLAIM_WORDS
        ))
    )]
    pub fn gemm<T, O, const C: Config>(
        #[tma(box = [C.box_a(), 128 / size_of::<T>()], swizzle = 128, promotion = 128)] a: Tile<T, (A0, A1)>,
        #[tma(box = [C.box_b(), 128 / size_of::<T>()], swizzle = 128, promotion = 128)] b: Tile<T, (B0, B1)>,
        #[tma(box = [64, 64], swizzle = 128)] c: TileMut<O, (M, N)>,
        gpcs: &[u32],
        claims: &mut [u32],
        k: u32,
        num_blocks: u32,
        band: u32,
        run: u32,
    ) {
        #[shared(dynamic)]
        let smem: SharedMemory<C>;
        const TILE_M: u32 = C.block_m * C.cluster_m;
        const TILE_N: u32 = C.block_n * C.cluster_n;
        let (rank, num_clusters): (u32, u32) = (cluster::rank(), nctaid.x / C.cluster());
        if tid.x == 0 {
            tma::prefetch(a_map);
            tma::prefetch(b_map);
            tma::prefetch(c_map);
            smem.cluster_id.init();
            smem.barriers.init::<1, { C.consumers() * C.cluster() }>();
        }
        smem.cluster_id.claim::<{ C.cluster() }>(gpcs, claims, num_clusters);
        let tiles = scheduler::Raster::covering::<TILE_M, TILE_N>(M, N, band, run);
        let work = Work { tiles, num_clusters, rank_m: rank % C.cluster_m, rank_n: rank / C.cluster_m };
        let warp_group: u32 = cluster::warp_group();
        if warp_group == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x < 32 {
                load_tiles::<T, C>(a_map, b_map, smem, &work, k);
            }
        } else {
            wgmma::more_registers::<232>();
            multiply_tiles::<T, O, C>(c_map, smem, &work, warp_group, k);
        }
    }

    /// The producer warp.
    fn load_tiles<T, const C: Config>(a: TensorMap, b: TensorMap, smem: Shared<SharedMemory<C>>, work: &Work, k: u32) {
        const P: mainloop::Policy = policy(C);
        let (m, n): (u32, u32) = (work.rank_m, work.rank_n);
        let mut producer = mainloop::Producer::<P>::new(a, b, smem.stages, smem.barriers, m, n);
        let mut range = mainloop::KRange { begin: 0, end: k, backward: 0 };
        let mut tile: u32 = smem.cluster_id.wait();
        let (mut m, mut n): (u32, u32) = first_rows::<C>(work, tile);
        grid::wait();
        while tile < work.tiles.count() {
            producer.load_tile::<T>(m, n, &range);
            tile += work.num_clusters;
            range.backward = 1 - range.backward;
            (m, n) = first_rows::<C>(work, tile);
        }
        producer.pipeline.drain();
    }

    /// The first rows of A and of B that this block loads for a tile.
    fn first_rows<const C: Config>(work: &Work, tile: u32) -> (u32, u32) {
        let (row, column): (u32, u32) = work.tiles.tile(tile);
        let m: u32 = (row * C.cluster_m + work.rank_m) * C.block_m + work.rank_n * (C.block_m / C.cluster_n);
        let n: u32 = (column * C.cluster_n + work.rank_n) * C.block_n + work.rank_m * (C.block_n / C.cluster_m);
        (m, n)
    }

    /// A warp group of consumers.
    fn multiply_tiles<T, O, const C: Config>(
        c: TensorMap,
        smem: Shared<SharedMemory<C>>,
        work: &Work,
        warp_group: u32,
        k: u32,
    ) {
        const P: mainloop::Policy = policy(C);
        const STAGGER: u32 = 3 * (C.consumers() - 1);
        let mut consumer = mainloop::Consumer::<P>::new(smem.stages, smem.barriers, warp_group);
        let store = epilogue::TileStore::new(smem.stores.at(warp_group - 1), consumer.thread, warp_group);
        let mut acc: [f32; P.accumulators()] = [0.0; P.accumulators()];
        let range = mainloop::KRange { begin: 0, end: k, backward: 0 };
        let offset_m: u32 = work.rank_m * C.block_m + (warp_group - 1) * (C.block_m / C.consumers());
        let offset_n: u32 = work.rank_n * C.block_n;
        let mut tile: u32 = smem.cluster_id.wait();
        while tile < work.tiles.count() {
            consumer.multiply_tile::<T, STAGGER>(&mut acc, &range);
            let (row, column): (u32, u32) = work.tiles.tile(tile);
            let m: u32 = row * (C.block_m * C.cluster_m) + offset_m;
            let n: u32 = column * (C.block_n * C.cluster_n) + offset_n;
            store.store_tile::<O, { C.block_n }>(&acc, c, m, n);
            tile += work.num_clusters;
        }
        store.finish();
    }

    fn policy(c: Config) -> mainloop::Policy {
        mainloop::Policy {
            block_m: c.block_m,
            block_n: c.block_n,
            stages: c.stages,
            cluster_m: c.cluster_m,
            cluster_n: c.cluster_n,
            major_a: c.major_a,
            major_b: c.major_b,
            groups: 0,
        }
    }

    const M128N256: Config = Config {
        block_m: 128,
        block_n: 256,
        stages: 3,
        cluster_m: 2,
        cluster_n: 1,
        store_buffers: 4,
        major_a: 0,
        major_b: 0,
    };
    /// Two tiles side by side.
    const M128N256_SIDE: Config = Config { cluster_m: 1, cluster_n: 2, ..M128N256 };
    const M128N256_NN_SIDE: Config = Config { major_b: 1, ..M128N256_SIDE };
    const M128N320: Config = Config { block_n: 320, store_buffers: 3, ..M128N256 };
    const M128N128: Config = Config { block_n: 128, stages: 6, store_buffers: 2, ..M128N256 };
    const M64N128: Config =
        Config { block_m: 64, block_n: 128, stages: 7, cluster_m: 1, cluster_n: 2, store_buffers: 2, ..M128N256 };
    const M128N256_NN: Config = Config { major_b: 1, ..M128N256 };
    const M128N256_TT: Config = Config { major_a: 1, ..M128N256 };
    const M128N256_TN: Config = Config { major_a: 1, major_b: 1, ..M128N256 };
}

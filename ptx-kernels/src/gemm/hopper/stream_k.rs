//! C = A · B on Hopper by stream-K: as `gemm`, but all clusters share the tiles of the last round. A cluster may have a part of K of a
//! tile; it stores its sums in global memory, for the cluster that has the last part of the tile.
//!
//! Stream-K: M. Osama et al., *Stream-K: Work-Centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU*, 2023. Here
//! only the last round is shared, and the last whole round too if the rest is less than a quarter of a round (`scheduler::StreamK`).

use ptx_launch::prelude::*;

/// The kernel.
#[ptx_module(arch = "sm_90a")]
pub mod kernels {
    /// The tile of a block, the ring, and the cluster.
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
        /// 0 if B is N × K, 1 if it is K × N.
        pub major_b: u32,
    }

    impl Config {
        /// Blocks of a cluster.
        pub const fn cluster(&self) -> u32 {
            self.cluster_m * self.cluster_n
        }

        const fn box_b(&self) -> u32 {
            if self.major_b == 0 { self.block_n / self.cluster_m } else { 64 }
        }
    }

    struct SharedMemory<const C: Config> {
        stages: [mainloop::Stage<{ policy(C) }>; C.stages],
        stores: [[epilogue::Subtile; C.store_buffers]; 2],
        barriers: pipeline::Barriers<{ C.stages }>,
        cluster_id: scheduler::ClusterId,
    }

    /// The tiles of all clusters, and the place of this block in its own.
    struct Work {
        tiles: scheduler::Raster,
        num_clusters: u32,
        rank_m: u32,
        rank_n: u32,
        warp_group: u32,
    }

    /// The sums of a part of K: those of each thread of a warp group, four at a time.
    struct PartialSums<const N: u32> {
        quads: [[[f32; 4]; 128]; N / 4],
    }

    /// The partial sums of all clusters' warp groups, `slots` for each cluster, and a flag for each: 1 if they are stored.
    struct Partials<const N: u32> {
        sums: GlobalMut<PartialSums<N>>,
        flags: GlobalMut<u32>,
        slots: u32,
        /// The slot of this warp group among those of its cluster.
        slot: u32,
        thread: u32,
        barrier: u32,
    }

    /// C (M × N) = A (M × K) · B by `num_blocks` blocks. Clusters take tiles in bands of `band` along M, and in runs of `run`
    /// along N. `partials` has room for a tile of each block; `flags`, two per block, are zero, and are zero again at the end.
    #[ptx_kernel(
        block = 384,
        cluster = C.cluster(),
        grid = num_blocks,
        max_regs = 168,
        pdl,
        instances = [
            m256n192 = (bf16, bf16, M256N192),
            m256n192 = (f16, f16, M256N192),
            m256n192 = (e4m3, bf16, M256N192),
            m256n192_nn = (bf16, bf16, M256N192_NN),
            m256n192_nn = (f16, f16, M256N192_NN)
        ],
        unsafe(requires(
            if C.major_b == 0 { B0 == N && B1 == K } else { B0 == K && B1 == N },
            num_blocks > 0 && num_blocks % C.cluster() == 0,
            band > 0 && run > 0,
            gpcs.len() >= crate::gemm::hopper::GPC_WORDS && claims.len() >= crate::gemm::hopper::CLAIM_WORDS,
            partials.len() >= num_blocks * C.block_m * C.block_n,
            flags.len() >= 2 * num_blocks
        ))
    )]
    pub fn stream_k<T, O, const C: Config>(
        #[tma(box = [C.block_m / C.cluster_n, 128 / size_of::<T>()], swizzle = 128, promotion = 128)] a: Tile<
            T,
            (M, K),
        >,
        #[tma(box = [C.box_b(), 128 / size_of::<T>()], swizzle = 128, promotion = 128)] b: Tile<T, (B0, B1)>,
        #[tma(box = [64, 64], swizzle = 128)] c: TileMut<O, (M, N)>,
        partials: &mut [f32],
        flags: &mut [u32],
        gpcs: &[u32],
        claims: &mut [u32],
        num_blocks: u32,
        band: u32,
        run: u32,
    ) {
        #[shared(dynamic)]
        let smem: SharedMemory<C>;
        const P: mainloop::Policy = policy(C);
        const TILE_M: u32 = C.block_m * C.cluster_m;
        const TILE_N: u32 = C.block_n * C.cluster_n;
        let (rank, num_clusters): (u32, u32) = (cluster::rank(), nctaid.x / C.cluster());
        if tid.x == 0 {
            tma::prefetch(a_map);
            tma::prefetch(b_map);
            tma::prefetch(c_map);
            smem.cluster_id.init();
            smem.barriers.init::<1, { 2 * C.cluster() }>();
        }
        smem.cluster_id.claim::<{ C.cluster() }>(gpcs, claims, num_clusters);
        let tiles = scheduler::Raster::covering::<TILE_M, TILE_N>(M, N, band, run);
        let steps: u32 = (K + (128 / size_of::<T>() - 1)) / (128 / size_of::<T>());
        // Shared tiles go by the index of the launch, not by the claimed number: clusters wait for others, which must have started.
        let mut shared = scheduler::StreamK::new(ctaid.x / C.cluster(), num_clusters, tiles.count(), steps);
        let warp_group: u32 = cluster::warp_group();
        let (rank_m, rank_n): (u32, u32) = (rank % C.cluster_m, rank / C.cluster_m);
        let work = Work { tiles, num_clusters, rank_m, rank_n, warp_group };
        if warp_group == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x < 32 {
                load_tiles::<T, C>(a_map, b_map, smem, &work, &mut shared, K);
            }
        } else {
            wgmma::more_registers::<232>();
            let partials = Partials::<{ P.accumulators() }> {
                sums: partials.cast::<PartialSums<{ P.accumulators() }>>(),
                flags,
                slots: 2 * C.cluster(),
                slot: rank * 2 + (warp_group - 1),
                thread: tid.x & 127,
                barrier: warp_group,
            };
            multiply_tiles::<T, O, C>(c_map, smem, &work, &mut shared, &partials, K);
        }
    }

    /// The producer warp. Whole tiles have a loop of their own, here and below: with shared tiles in it, ptxas keeps the ring's position in
    /// registers of each lane, and copies every descriptor to uniform registers.
    fn load_tiles<T, const C: Config>(
        a: TensorMap,
        b: TensorMap,
        smem: Shared<SharedMemory<C>>,
        work: &Work,
        shared: &mut scheduler::StreamK,
        k: u32,
    ) {
        let (rank_m, rank_n): (u32, u32) = (work.rank_m, work.rank_n);
        let mut producer = mainloop::Producer::<{ policy(C) }>::new(a, b, smem.stages, smem.barriers, rank_m, rank_n);
        let mut range = mainloop::KRange { begin: 0, end: k, backward: 0 };
        let mut tile: u32 = smem.cluster_id.wait();
        let (mut m, mut n): (u32, u32) = first_rows::<C>(work, tile);
        grid::wait();
        while tile < shared.full_tiles {
            producer.load_tile::<T>(m, n, &range);
            tile += work.num_clusters;
            range.backward = 1 - range.backward;
            (m, n) = first_rows::<C>(work, tile);
        }
        while shared.begin < shared.end {
            tile = shared.next_unit::<{ 128 / size_of::<T>() }>(&mut range);
            (m, n) = first_rows::<C>(work, tile);
            producer.load_tile::<T>(m, n, &range);
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
        shared: &mut scheduler::StreamK,
        partials: &Partials<{ policy(C).accumulators() }>,
        k: u32,
    ) {
        const P: mainloop::Policy = policy(C);
        let mut consumer = mainloop::Consumer::<P>::new(smem.stages, smem.barriers, work.warp_group);
        let store = epilogue::TileStore::new(smem.stores.at(work.warp_group - 1), consumer.thread, work.warp_group);
        let mut acc: [f32; P.accumulators()] = [0.0; P.accumulators()];
        let mut range = mainloop::KRange { begin: 0, end: k, backward: 0 };
        let mut tile: u32 = smem.cluster_id.wait();
        while tile < shared.full_tiles {
            consumer.multiply_tile::<T, 3>(&mut acc, &range);
            let (m, n): (u32, u32) = output_at::<C>(work, tile);
            store.store_tile::<O, { C.block_n }>(&acc, c, m, n);
            tile += work.num_clusters;
        }
        while shared.begin < shared.end {
            tile = shared.next_unit::<{ 128 / size_of::<T>() }>(&mut range);
            consumer.multiply_tile::<T, 3>(&mut acc, &range);
            if range.end < k {
                partials.store(&acc, shared.cluster);
                continue;
            }
            reduce_partials(&mut acc, partials, shared, tile, &range);
            let (m, n): (u32, u32) = output_at::<C>(work, tile);
            store.store_tile::<O, { C.block_n }>(&acc, c, m, n);
        }
        store.finish();
    }

    /// The first row and column of a tile's part of a warp group.
    fn output_at<const C: Config>(work: &Work, tile: u32) -> (u32, u32) {
        let (row, column): (u32, u32) = work.tiles.tile(tile);
        let m: u32 = (row * C.cluster_m + work.rank_m) * C.block_m + (work.warp_group - 1) * (C.block_m / 2);
        let n: u32 = (column * C.cluster_n + work.rank_n) * C.block_n;
        (m, n)
    }

    /// Adds the sums of the clusters that have the parts of `tile` before `range`: those before this one.
    fn reduce_partials<const N: u32>(
        acc: &mut [f32; N],
        partials: &Partials<N>,
        shared: &scheduler::StreamK,
        tile: u32,
        range: &mainloop::KRange,
    ) {
        let (mut cluster, mut missing): (u32, u32) = (shared.cluster, range.begin);
        while missing > 0 {
            cluster -= 1;
            let part: scheduler::StreamK = shared.of_cluster(cluster);
            if part.begin < part.end {
                partials.add_to(acc, cluster);
            }
            let first: u32 = (tile - shared.full_tiles) * shared.steps;
            missing = 0;
            if part.begin > first {
                missing = part.begin - first;
            }
        }
    }

    impl<const N: u32> Partials<N> {
        /// Stores the sums of a warp group, and sets the flag: `N` / 4 `st.global.v4`, `bar.sync`, and one `st.release.gpu`.
        fn store(&self, acc: &[f32; N], cluster: u32) {
            let slot: u32 = cluster * self.slots + self.slot;
            let (to, flag) = (self.sums.at(slot).quads.at(0).at(self.thread), self.flags.at(slot));
            for quad in 0..N / 4 {
                ptx! { st.global.v4.f32 [to + 2048 * quad], {acc[4 * quad..4 * quad + 4]}; }
            }
            barrier::sync::<128>(self.barrier);
            if self.thread == 0 {
                ptx! { st.release.gpu.global.u32 [flag], 1; }
            }
        }

        /// Waits for the sums of another cluster, and adds them: one thread spins on `ld.acquire.gpu`, and clears the flag for the next
        /// launch; `bar.sync`, and `N` / 4 `ld.global.v4` with four additions.
        fn add_to(&self, acc: &mut [f32; N], cluster: u32) {
            let slot: u32 = cluster * self.slots + self.slot;
            let (from, flag) = (self.sums.at(slot).quads.at(0).at(self.thread), self.flags.at(slot));
            if self.thread == 0 {
                let mut stored: u32 = 0;
                while stored == 0 {
                    ptx! { ld.acquire.gpu.global.u32 stored, [flag]; }
                }
                ptx! { st.relaxed.gpu.global.u32 [flag], 0; }
            }
            barrier::sync::<128>(self.barrier);
            for quad in 0..N / 4 {
                let other: [f32; 4];
                ptx! { ld.global.v4.f32 {other[..]}, [from + 2048 * quad]; }
                for i in 0..4 {
                    acc[4 * quad + i] += other[i];
                }
            }
        }
    }

    fn policy(c: Config) -> mainloop::Policy {
        mainloop::Policy {
            block_m: c.block_m,
            block_n: c.block_n,
            stages: c.stages,
            cluster_m: c.cluster_m,
            cluster_n: c.cluster_n,
            major_a: 0,
            major_b: c.major_b,
            groups: 0,
        }
    }

    const M256N192: Config =
        Config { block_m: 256, block_n: 192, stages: 3, cluster_m: 1, cluster_n: 2, store_buffers: 3, major_b: 0 };
    const M256N192_NN: Config = Config { major_b: 1, ..M256N192 };
}

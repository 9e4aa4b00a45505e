//! The stream-K scheduler: all clusters share the tiles of the last round. A cluster may have a part of K of a tile; it stores its sums in
//! global memory, for the cluster that has the last part of the tile.
//!
//! Stream-K: M. Osama et al., *Stream-K: Work-Centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU*, 2023. Here
//! only the last round is shared, and the last whole round too if the rest is less than a quarter of a round (`scheduler::StreamK`).

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod stream_k {
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

    /// The producer warp. Whole tiles have a loop of their own, here and below: with shared tiles in it, ptxas keeps the ring's position in
    /// registers of each lane, and copies every descriptor to uniform registers.
    fn load_stream_k<T, const C: Config>(
        a: TensorMap,
        b: TensorMap,
        smem: Shared<ClaimedMemory<C>>,
        work: &Work,
        shared: &mut scheduler::StreamK,
        k: u32,
    ) {
        let (rank_m, rank_n): (u32, u32) = (work.rank_m, work.rank_n);
        let mut producer =
            mainloop::Producer::<{ policy(C, 0) }>::new(a, b, smem.stages, smem.barriers, rank_m, rank_n);
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

    /// A warp group of consumers.
    fn multiply_stream_k<T, O, const C: Config>(
        c: TensorMap,
        smem: Shared<ClaimedMemory<C>>,
        work: &Work,
        shared: &mut scheduler::StreamK,
        partials: &Partials<{ policy(C, 0).accumulators() }>,
        k: u32,
    ) {
        const P: mainloop::Policy = policy(C, 0);
        let mut consumer = mainloop::Consumer::<P>::new(smem.stages, smem.barriers, work.warp_group);
        let store = epilogue::TileStore::new(smem.stores.at(work.warp_group - 1), consumer.thread, work.warp_group);
        let mut acc: [f32; P.accumulators()] = [0.0; P.accumulators()];
        let mut range = mainloop::KRange { begin: 0, end: k, backward: 0 };
        let mut tile: u32 = smem.cluster_id.wait();
        while tile < shared.full_tiles {
            consumer.multiply_tile::<T, 3>(&mut acc, &range);
            let (m, n): (u32, u32) = output_at::<C>(work, tile);
            store.store_tile::<O, { C.block_n() }>(&acc, c, m, n);
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
            store.store_tile::<O, { C.block_n() }>(&acc, c, m, n);
        }
        store.finish();
    }

    /// The first row and column of a tile's part of a warp group.
    fn output_at<const C: Config>(work: &Work, tile: u32) -> (u32, u32) {
        let (row, column): (u32, u32) = work.tiles.tile(tile);
        let m: u32 = (row * C.cluster_m() + work.rank_m) * C.block_m() + (work.warp_group - 1) * (C.rows());
        let n: u32 = (column * C.cluster_n() + work.rank_n) * C.block_n();
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
        invariant!(cluster <= shared.cluster);
        while missing > 0 {
            // Clusters share the steps in order, the first one from the first step on: what is missing is that of clusters before this one.
            assume!(cluster > 0);
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
            // Two slots for each block.
            invariant!(slot < 2 * nctaid.x);
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
}

//! The claimed scheduler, and what stream-K has in common with it. Every other tile of a cluster goes backward along K, because the L2 cache still
//! holds the last stages of the tile before; so the order of a tile's sums depends on its number. The power of the chip limits large
//! products, and multicast, the order of tiles and this save reads of the L2 cache and of memory.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod claimed {
    /// The producer warp.
    fn load_claimed<T, const C: Config>(
        a: TensorMap,
        b: TensorMap,
        smem: Shared<ClaimedMemory<C>>,
        work: &Work,
        k: u32,
    ) {
        const P: mainloop::Policy = policy(C, 0);
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
        let m: u32 = (row * C.cluster_m() + work.rank_m) * C.block_m() + work.rank_n * (C.block_m() / C.cluster_n());
        let n: u32 = (column * C.cluster_n() + work.rank_n) * C.block_n() + work.rank_m * (C.block_n() / C.cluster_m());
        (m, n)
    }

    /// A warp group of consumers.
    fn multiply_claimed<T, O, const C: Config>(c: TensorMap, smem: Shared<ClaimedMemory<C>>, work: &Work, k: u32) {
        const P: mainloop::Policy = policy(C, 0);
        let warp_group: u32 = work.warp_group;
        let mut consumer = mainloop::Consumer::<P>::new(smem.stages, smem.barriers, warp_group);
        let store = epilogue::TileStore::new(smem.stores.at(warp_group - 1), consumer.thread, warp_group);
        let mut acc: [f32; P.accumulators()] = [0.0; P.accumulators()];
        let range = mainloop::KRange { begin: 0, end: k, backward: 0 };
        let offset_m: u32 = work.rank_m * C.block_m() + (warp_group - 1) * C.rows();
        let offset_n: u32 = work.rank_n * C.block_n();
        let mut tile: u32 = smem.cluster_id.wait();
        while tile < work.tiles.count() {
            consumer.multiply_tile::<T, { C.stagger() }>(&mut acc, &range);
            let (row, column): (u32, u32) = work.tiles.tile(tile);
            let m: u32 = row * (C.block_m() * C.cluster_m()) + offset_m;
            let n: u32 = column * (C.block_n() * C.cluster_n()) + offset_n;
            store.store_tile::<O, { C.block_n() }>(&acc, c, m, n);
            tile += work.num_clusters;
        }
        store.finish();
    }
}

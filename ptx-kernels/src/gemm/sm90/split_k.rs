//! The split-K scheduler of the TMA epilogue: clusters share a tile, each with a part of K. In the end each of them sums 64 columns of the tile,
//! from all parts.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod split_k {
    /// The shared memory of a block.
    struct SplitMemory<const C: Config> {
        stages: [mainloop::Stage<{ policy(C, 0) }>; C.stages],
        stores: [[epilogue::Subtile; C.buffers]; 2],
        barriers: pipeline::Barriers<{ C.stages }>,
    }

    /// The tile of a cluster, and the tiles from one to its next.
    struct SplitWork {
        tile: u32,
        step: u32,
        tiles: u32,
        tiles_n: u32,
        rank: u32,
    }

    /// The sums of 64 columns of a warp group: those of each thread, four at a time.
    struct SplitSums {
        quads: [[[f32; 4]; 128]; 8],
    }

    /// The exchange between the warp groups that have the same rows and columns of a tile: sums and a flag from each part of K to each.
    struct Exchange {
        sums: GlobalMut<SplitSums>,
        flags: GlobalMut<u32>,
        /// This cluster's part of K.
        split: u32,
        thread: u32,
        barrier: u32,
    }

    /// The producer warp.
    fn load_split_k<T, const C: Config>(
        a: TensorMap,
        b: TensorMap,
        smem: Shared<SplitMemory<C>>,
        work: &mut SplitWork,
        k: &mainloop::KRange,
    ) {
        let mut producer = mainloop::Producer::<{ policy(C, 0) }>::new(a, b, smem.stages, smem.barriers, work.rank, 0);
        grid::wait();
        while work.tile < work.tiles {
            let m: u32 = (work.tile / work.tiles_n * C.cluster_m() + work.rank) * 128;
            let n: u32 = work.tile % work.tiles_n * C.block_n() + work.rank * (C.block_n() / C.cluster_m());
            producer.load_tile::<T>(m, n, k);
            work.tile += work.step;
        }
        producer.pipeline.drain();
    }

    /// A warp group of consumers.
    fn multiply_split_k<T, O, const C: Config>(
        c: TensorMap,
        smem: Shared<SplitMemory<C>>,
        work: &mut SplitWork,
        exchange: &Exchange,
        k: &mainloop::KRange,
    ) {
        const P: mainloop::Policy = policy(C, 0);
        let (thread, warp_group): (u32, u32) = (exchange.thread, exchange.barrier);
        let mut consumer = mainloop::Consumer::<P>::new(smem.stages, smem.barriers, warp_group);
        let store = epilogue::TileStore::new(smem.stores.at(warp_group - 1), thread, warp_group);
        let mut acc: [f32; P.accumulators()] = [0.0; P.accumulators()];
        while work.tile < work.tiles {
            if k.begin < k.end {
                consumer.multiply_tile::<T, 0>(&mut acc, k);
            } else {
                // Without a stage from the producer, the consumers wait for the end of the launch before.
                grid::wait();
                for i in 0..P.accumulators() {
                    acc[i] = 0.0;
                }
            }
            exchange.reduce::<{ C.splits }>(&mut acc);
            for split in 0..C.splits {
                if exchange.split == split {
                    store.write_subtile::<O, split>(&acc);
                }
            }
            if thread == 0 {
                let m: u32 = (work.tile / work.tiles_n * C.cluster_m() + work.rank) * 128 + (warp_group - 1) * 64;
                let n: u32 = work.tile % work.tiles_n * C.block_n() + 64 * exchange.split;
                tma::store_2d(c, n, m, store.buffers);
                tma::commit();
            }
            work.tile += work.step;
        }
        store.finish();
    }

    impl Exchange {
        /// Reduces the sums of all parts of K to accumulators 32 · `split` and the next 31. Sums go to the others' slots, and theirs come
        /// from slots: for each other part 8 `st.global.v4`, one `st.release.gpu`, a loop of `ld.acquire.gpu`, and 8 `ld.global.v4`
        /// with four additions; four times `bar.sync`.
        fn reduce<const SPLITS: u32, const N: u32>(&self, acc: &mut [f32; N]) {
            // One thread for each other part handles the flag to it and the flag from it.
            let mut other: pred = self.thread < SPLITS;
            if self.thread == self.split {
                other = false;
            }
            let to = self.flags.at(self.split * SPLITS + self.thread);
            let from = self.flags.at(self.thread * SPLITS + self.split);
            if other {
                wait_flag::<0>(to);
            }
            barrier::sync::<128>(self.barrier);
            for there in 0..SPLITS {
                if self.split != there {
                    self.send::<there>(acc, self.split * SPLITS + there);
                }
            }
            barrier::sync::<128>(self.barrier);
            if other {
                ptx! { st.release.gpu.global.u32 [to], 1; }
                wait_flag::<1>(from);
            }
            barrier::sync::<128>(self.barrier);
            for here in 0..SPLITS {
                if self.split == here {
                    for there in 0..SPLITS {
                        if there != here {
                            self.receive::<here>(acc, there * SPLITS + here);
                        }
                    }
                }
            }
            barrier::sync::<128>(self.barrier);
            if other {
                ptx! { st.release.gpu.global.u32 [from], 0; }
            }
        }

        /// Stores the 64 columns of part `THERE` to a slot.
        fn send<const THERE: u32, const N: u32>(&self, acc: &[f32; N], slot: u32) {
            let to = self.sums.at(slot).quads.at(0).at(self.thread);
            for quad in 0..8 {
                const AT: u32 = 32 * THERE + 4 * quad;
                ptx! { st.global.v4.f32 [to + 2048 * quad], {acc[AT..AT + 4]}; }
            }
        }

        /// Adds a slot to the 64 columns of part `HERE`.
        fn receive<const HERE: u32, const N: u32>(&self, acc: &mut [f32; N], slot: u32) {
            let from = self.sums.at(slot).quads.at(0).at(self.thread);
            for quad in 0..8 {
                let sums: [f32; 4];
                ptx! { ld.global.v4.f32 {sums[..]}, [from + 2048 * quad]; }
                for i in 0..4 {
                    acc[32 * HERE + 4 * quad + i] += sums[i];
                }
            }
        }
    }

    /// Waits until a flag has this value: `ld.acquire.gpu` in a loop.
    fn wait_flag<const VALUE: u32>(flag: GlobalMut<u32>) {
        loop {
            let value: u32;
            ptx! { ld.acquire.gpu.global.u32 value, [flag]; }
            if value == VALUE {
                break;
            }
        }
    }
}

//! C = A · B on Hopper by split-K, for few tiles and much K: `splits` clusters share a tile of 64 · `splits` columns, each with a part of
//! K. In the end each of them sums 64 columns of the tile, from all parts.

use ptx_launch::prelude::*;

/// The kernel.
#[ptx_module(arch = "sm_90a")]
pub mod kernels {
    /// The ring, the cluster, and the parts of K. A block's tile has 128 rows and 64 · `splits` columns.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Config {
        /// Stages of the ring.
        pub stages: u32,
        /// Blocks of a cluster, along M.
        pub cluster_m: u32,
        /// Clusters that share a tile.
        pub splits: u32,
    }

    impl Config {
        /// Columns of a block's tile.
        pub const fn block_n(&self) -> u32 {
            64 * self.splits
        }
    }

    struct SharedMemory<const C: Config> {
        stages: [mainloop::Stage<{ policy(C) }>; C.stages],
        stores: [[epilogue::Subtile; 1]; 2],
        barriers: pipeline::Barriers<{ C.stages }>,
    }

    /// The tile of a cluster, and the tiles from one to its next.
    struct Work {
        tile: u32,
        step: u32,
        tiles: u32,
        tiles_n: u32,
        rank: u32,
    }

    /// The sums of 64 columns of a warp group: those of each thread, four at a time.
    struct PartialSums {
        quads: [[[f32; 4]; 128]; 8],
    }

    /// The exchange between the warp groups that have the same rows and columns of a tile: sums and a flag from each part of K to each.
    struct Exchange {
        sums: GlobalMut<PartialSums>,
        flags: GlobalMut<u32>,
        /// This cluster's part of K.
        split: u32,
        thread: u32,
        barrier: u32,
    }

    /// C (M × N) = A (M × K) · Bᵀ (N × K) by `num_blocks` blocks. `partials` has room for a tile of each block; `flags`, two per block and
    /// part of K, are zero, and are zero again at the end.
    #[ptx_kernel(
        block = 384,
        cluster = C.cluster_m,
        grid = num_blocks,
        max_regs = 168,
        pdl,
        instances = [split4 = (bf16, bf16, SPLIT4), split4 = (f16, f16, SPLIT4), split4 = (e4m3, bf16, SPLIT4)],
        unsafe(requires(
            num_blocks > 0 && num_blocks % (C.cluster_m * C.splits) == 0,
            partials.len() >= num_blocks * (128 * C.block_n()),
            flags.len() >= 2 * C.splits * num_blocks
        ))
    )]
    pub fn split_k<T, O, const C: Config>(
        #[tma(box = [128, 128 / size_of::<T>()], swizzle = 128, promotion = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [C.block_n() / C.cluster_m, 128 / size_of::<T>()], swizzle = 128, promotion = 128)] b: Tile<
            T,
            (N, K),
        >,
        #[tma(box = [64, 64], swizzle = 128)] c: TileMut<O, (M, N)>,
        partials: &mut [f32],
        flags: &mut [u32],
        num_blocks: u32,
    ) {
        #[shared(dynamic)]
        let smem: SharedMemory<C>;
        const STEP: u32 = 128 / size_of::<T>();
        if tid.x == 0 {
            tma::prefetch(a_map);
            tma::prefetch(b_map);
            tma::prefetch(c_map);
            smem.barriers.init::<1, { 2 * C.cluster_m }>();
        }
        warp::sync();
        cluster::arrive_relaxed();
        cluster::wait();
        grid::launch_dependents();
        let (rank, cluster, num_clusters): (u32, u32, u32) =
            (cluster::rank(), ctaid.x / C.cluster_m, nctaid.x / C.cluster_m);
        let split: u32 = cluster % C.splits;
        let tiles_m: u32 = (M + (128 * C.cluster_m - 1)) / (128 * C.cluster_m);
        let tiles_n: u32 = (N + (C.block_n() - 1)) / C.block_n();
        let (tile, step): (u32, u32) = (cluster / C.splits, num_clusters / C.splits);
        let mut work = Work { tile, step, tiles: tiles_m * tiles_n, tiles_n, rank };
        let steps: u32 = (K + (STEP - 1)) / STEP;
        let (begin, end): (u32, u32) = (split * steps / C.splits * STEP, (split + 1) * steps / C.splits * STEP);
        let k = mainloop::KRange { begin, end, backward: 0 };
        let warp_group: u32 = cluster::warp_group();
        if warp_group == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x < 32 {
                load_tiles::<T, C>(a_map, b_map, smem, &mut work, &k);
            }
        } else {
            wgmma::more_registers::<232>();
            // All parts of a tile find each other by the first tile of the cluster, its rank and the warp group.
            let group: u32 = ((tile * C.cluster_m + rank) * 2 + (warp_group - 1)) * (C.splits * C.splits);
            let exchange = Exchange {
                sums: partials.cast::<PartialSums>().at(group),
                flags: flags.at(group),
                split,
                thread: tid.x & 127,
                barrier: warp_group,
            };
            multiply_tiles::<T, O, C>(c_map, smem, &mut work, &exchange, &k);
        }
    }

    /// The producer warp.
    fn load_tiles<T, const C: Config>(
        a: TensorMap,
        b: TensorMap,
        smem: Shared<SharedMemory<C>>,
        work: &mut Work,
        k: &mainloop::KRange,
    ) {
        let mut producer = mainloop::Producer::<{ policy(C) }>::new(a, b, smem.stages, smem.barriers, work.rank, 0);
        grid::wait();
        while work.tile < work.tiles {
            let m: u32 = (work.tile / work.tiles_n * C.cluster_m + work.rank) * 128;
            let n: u32 = work.tile % work.tiles_n * C.block_n() + work.rank * (C.block_n() / C.cluster_m);
            producer.load_tile::<T>(m, n, k);
            work.tile += work.step;
        }
        producer.pipeline.drain();
    }

    /// A warp group of consumers.
    fn multiply_tiles<T, O, const C: Config>(
        c: TensorMap,
        smem: Shared<SharedMemory<C>>,
        work: &mut Work,
        exchange: &Exchange,
        k: &mainloop::KRange,
    ) {
        const P: mainloop::Policy = policy(C);
        let (thread, warp_group): (u32, u32) = (exchange.thread, exchange.barrier);
        let mut consumer = mainloop::Consumer::<P>::new(smem.stages, smem.barriers, warp_group);
        let store = epilogue::TileStore::new(smem.stores.at(warp_group - 1), thread, warp_group);
        let mut acc: [f32; P.accumulators()] = [0.0; P.accumulators()];
        while work.tile < work.tiles {
            if k.begin < k.end {
                consumer.multiply_tile::<T, 0>(&mut acc, k);
            } else {
                // Without a stage from the producer, nothing says that the launch before has ended.
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
                let m: u32 = (work.tile / work.tiles_n * C.cluster_m + work.rank) * 128 + (warp_group - 1) * 64;
                let n: u32 = work.tile % work.tiles_n * C.block_n() + 64 * exchange.split;
                tma::store_2d(c, n, m, store.buffers);
                tma::commit();
            }
            work.tile += work.step;
        }
        store.finish();
    }

    impl Exchange {
        /// Leaves in accumulators 32 · `split` and the next 31 the sums of all parts of K. Sums go to the others' slots, and theirs come
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

    fn policy(c: Config) -> mainloop::Policy {
        mainloop::Policy {
            block_m: 128,
            block_n: 64 * c.splits,
            stages: c.stages,
            cluster_m: c.cluster_m,
            cluster_n: 1,
            major_a: 0,
            major_b: 0,
            groups: 0,
        }
    }

    const SPLIT4: Config = Config { stages: 3, cluster_m: 2, splits: 4 };
}

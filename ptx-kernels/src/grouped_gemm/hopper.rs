//! Grouped GEMM on Hopper. Roles, ring and products are those of `gemm::sm90`; each role finds the group of its next tile from `offsets`,
//! which a kernel before this one may have written. No host reads the heights.
//!
//! One tensor map serves all rows of A. A tile at a group's end reads rows of the next group, which change nothing in its own rows; but it
//! must not write them: a subtile that reaches over the end leaves row by row, all others by TMA. The experts' matrices lie in a third
//! dimension, so that elements behind the last K of one are zeros, and not the first K of the next.

use ptx_launch::prelude::*;

/// The kernel.
#[ptx_module(arch = "sm_90a", parts(crate::gemm::sm90::config::config))]
#[allow(dead_code, reason = "modules share one set of axes")]
pub mod kernels {
    impl Config {
        /// Rows of B in a box.
        const fn box_b(&self) -> u32 {
            if self.major_b() == 0 { self.block_n() } else { 64 }
        }
    }

    const BLOCK_M: u32 = 128;

    struct SharedMemory<const C: Config> {
        stages: [mainloop::Stage<{ policy(C, 1) }>; C.stages],
        stores: [[epilogue::Subtile; C.buffers]; 2],
        barriers: pipeline::Barriers<{ C.stages }>,
    }

    /// The tiles of all groups, and the place of this block.
    struct Work {
        groups: scheduler::Groups,
        band: u32,
        rank: u32,
        warp_group: u32,
    }

    /// C in global memory, for the rows that TMA must not write.
    struct Output<O> {
        map: TensorMap,
        at: GlobalMut<O>,
        n: u32,
        pitch: u64,
    }

    /// C (M × N): row r is row r of A (M × K) times the matrix of its group in B. Group g has rows `offsets[g]` to `offsets[g + 1]`; rows of
    /// no group are not written. By `num_blocks` blocks; tiles of a group go in bands of `band` tiles along M.
    #[ptx_kernel(
        block = 384,
        cluster = C.cluster_n(),
        grid = num_blocks,
        max_regs = 168,
        pdl,
        instances = [
            n256_cluster2 = (bf16, bf16, Config::tma([128, 256], [1, 2], KK, 3, 4)),
            n256 = (bf16, bf16, Config::tma([128, 256], [1, 1], KK, 3, 4)),
            n128_cluster2 = (bf16, bf16, Config::tma([128, 128], [1, 2], KK, 6, 2)),
            n128 = (bf16, bf16, Config::tma([128, 128], [1, 1], KK, 6, 2)),
            n256_cluster2_nn = (bf16, bf16, Config::tma([128, 256], [1, 2], KN, 3, 4)),
            n128_nn = (bf16, bf16, Config::tma([128, 128], [1, 1], KN, 6, 2)),
            n64_nn = (bf16, bf16, Config::tma([128, 64], [1, 1], KN, 8, 1)),
            n64_nn_f32 = (bf16, f32, Config::tma([128, 64], [1, 1], KN, 8, 0)),
            n128_nn_f32 = (bf16, f32, Config::tma([128, 128], [1, 1], KN, 6, 0))
        ],
        unsafe(requires(
            if C.major_b() == 0 { B0 == N && B1 == K } else { B0 == K && B1 == N },
            num_blocks > 0 && num_blocks % C.cluster_n() == 0,
            band > 0,
            N > 0 && N % 8 == 0 && N < 1 << 31,
            offsets.len() > G
        ))
    )]
    pub fn grouped_gemm<T, O, const C: Config>(
        #[tma(box = [BLOCK_M / C.cluster_n(), 64], swizzle = 128, promotion = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [1, C.box_b(), 64], swizzle = 128, promotion = 128)] b: Tile<T, (G, B0, B1)>,
        #[tma(box = [64, 128 / size_of::<O>()], swizzle = 128)]
        #[align(16)]
        c: TileMut<O, (M, N)>,
        offsets: &[u32],
        num_blocks: u32,
        band: u32,
    ) {
        #[shared(dynamic)]
        let smem: SharedMemory<C>;
        const TILE_N: u32 = C.block_n() * C.cluster_n();
        if tid.x == 0 {
            tma::prefetch(a_map);
            tma::prefetch(b_map);
            tma::prefetch(c_map);
            smem.barriers.init::<1, { 2 * C.cluster_n() }>();
        }
        warp::sync();
        cluster::arrive_relaxed();
        cluster::wait();
        grid::launch_dependents();
        let groups = scheduler::Groups { offsets, count: G, rows: M, tiles_n: (N + (TILE_N - 1)) / TILE_N };
        let work = Work { groups, band, rank: cluster::rank(), warp_group: cluster::warp_group() };
        // The kernel before this one may write the offsets.
        grid::wait();
        if work.warp_group == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x < 32 {
                load_tiles::<T, C>(a_map, b_map, smem, &work, K);
            }
        } else {
            wgmma::more_registers::<232>();
            let output = Output { map: c_map, at: c, n: N, pitch: wide(N) * size_of::<O>() };
            multiply_tiles::<T, O, C>(smem, &work, &output, K);
        }
        // No block exits while another one may still arrive at its barriers.
        warp::sync();
        cluster::sync();
    }

    /// The first row and the first column of a tile of the cursor's group, in tiles: rows of A, tiles of this block along N.
    fn tile_at<const C: Config>(work: &Work, cursor: &scheduler::GroupCursor, tile: u32) -> (u32, u32) {
        let tiles_m: u32 = (cursor.end_row - cursor.first_row + (BLOCK_M - 1)) / BLOCK_M;
        let index: u32 = tile - cursor.first_tile;
        let (row, column): (u32, u32) = scheduler::grouped(index, tiles_m, work.groups.tiles_n, work.band);
        (cursor.first_row + row * BLOCK_M, (column * C.cluster_n() + work.rank) * C.block_n())
    }

    /// The producer warp.
    fn load_tiles<T, const C: Config>(a: TensorMap, b: TensorMap, smem: Shared<SharedMemory<C>>, work: &Work, k: u32) {
        let mut producer = mainloop::Producer::<{ policy(C, 1) }>::new(a, b, smem.stages, smem.barriers, 0, work.rank);
        let mut cursor = scheduler::GroupCursor::new();
        let mut tile: u32 = ctaid.x / C.cluster_n();
        let range = mainloop::KRange { begin: 0, end: k, backward: 0 };
        invariant!(cursor.end_row <= work.groups.rows);
        loop {
            cursor.seek::<BLOCK_M>(&work.groups, tile);
            if cursor.group >= work.groups.count {
                break;
            }
            let (m, n): (u32, u32) = tile_at::<C>(work, &cursor, tile);
            producer.b.group = cursor.group;
            producer.load_tile::<T>(m + work.rank * (BLOCK_M / C.cluster_n()), n, &range);
            tile += nctaid.x / C.cluster_n();
        }
    }

    /// A warp group of consumers.
    fn multiply_tiles<T, O, const C: Config>(smem: Shared<SharedMemory<C>>, work: &Work, output: &Output<O>, k: u32) {
        const P: mainloop::Policy = policy(C, 1);
        let mut consumer = mainloop::Consumer::<P>::new(smem.stages, smem.barriers, work.warp_group);
        let store = epilogue::TileStore::new(smem.stores.at(work.warp_group - 1), consumer.thread, work.warp_group);
        let mut acc: [f32; P.accumulators()] = [0.0; P.accumulators()];
        let mut cursor = scheduler::GroupCursor::new();
        let mut tile: u32 = ctaid.x / C.cluster_n();
        let range = mainloop::KRange { begin: 0, end: k, backward: 0 };
        invariant!(cursor.end_row <= work.groups.rows);
        loop {
            cursor.seek::<BLOCK_M>(&work.groups, tile);
            if cursor.group >= work.groups.count {
                break;
            }
            consumer.multiply_tile::<T, 0>(&mut acc, &range);
            let (first, n): (u32, u32) = tile_at::<C>(work, &cursor, tile);
            let m: u32 = first + (work.warp_group - 1) * 64;
            // The rows and columns that this warp group may write.
            let (mut rows, mut columns): (u32, u32) = (0, 0);
            if m < cursor.end_row {
                rows = cursor.end_row - m;
            }
            if n < output.n {
                columns = output.n - n;
            }
            cut!(
                (rows == 0 || m + rows <= work.groups.rows) && (columns == 0 || n + columns <= output.n) && n % 64 == 0
            );
            let corner: u64 = output.at + (m as u64 * output.pitch + wide(n) * size_of::<O>());
            if size_of::<O>() == 4 {
                epilogue::store_pairs(&acc, consumer.thread, corner, output.pitch, rows, columns);
            } else {
                for subtile in 0..C.block_n() / 64 {
                    store.write_subtile::<O, subtile>(&acc);
                    let from = store.buffers.at(subtile % C.buffers);
                    if rows < 64 {
                        let mut left: u32 = 0;
                        if columns > 64 * subtile {
                            left = columns - 64 * subtile;
                        }
                        invariant!(left == 0 || n + 64 * subtile + left <= output.n);
                        let to: u64 = corner + (128 * subtile) as u64;
                        epilogue::store_rows(from, store.thread, to, output.pitch, rows, left);
                    } else if store.thread == 0 {
                        tma::store_2d(output.map, n + 64 * subtile, m, from);
                    }
                    // A group of stores for each subtile, as `write_subtile` counts them: an empty one where threads stored.
                    if store.thread == 0 {
                        tma::commit();
                    }
                }
            }
            tile += nctaid.x / C.cluster_n();
        }
        store.finish();
    }
}

//! C = A · B on Blackwell, two blocks for each tile (`.cta_group::2`): each has half of A's rows, half of B's columns and half of the sums,
//! and the tensor cores of both read both halves of B. A stage is half as large for the same tile.
//!
//! The blocks are a cluster. Each producer loads to its own shared memory, and the bytes count at the barrier of the first block, whose
//! thread multiplies for both. `tcgen05.commit` then arrives at the barriers of both blocks. The roles of the warps are those of `gemm`.

use ptx_launch::prelude::*;

/// The kernel.
#[ptx_module(arch = "sm_100a")]
pub mod kernels {
    /// The tile, the ring, and the type of the operands.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Config {
        /// Columns of a tile; it has 256 rows, 128 in each block.
        pub block_n: u32,
        /// Stages of the ring.
        pub stages: u32,
        /// The number of the operands' type in an instruction descriptor: 0 for `f16`, 1 for `bf16`.
        pub operand: u32,
    }

    /// Rows of a tile in one block: the lanes of its tensor memory.
    const BLOCK_M: u32 = 128;

    /// A stage: 128 bytes along K of a half of A's rows, and of B's.
    #[align(1024)]
    struct Stage<const C: Config> {
        a: [[u8; 128]; BLOCK_M],
        b: [[u8; 128]; C.block_n / 2],
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

    /// The tiles of all blocks.
    struct Work {
        tiles_m: u32,
        tiles_n: u32,
        band: u32,
        k: u32,
        /// The block in its cluster.
        rank: u32,
    }

    /// C (M × N) = A (M × K) · Bᵀ (N × K) by `num_blocks` blocks. Tiles are taken in bands of `band` along M.
    #[ptx_kernel(
        block = 192,
        cluster = 2,
        grid = num_blocks,
        instances = [
            n256 = (bf16, Config { block_n: 256, stages: 4, operand: 1 }),
            n128_f16 = (f16, Config { block_n: 128, stages: 6, operand: 0 })
        ],
        unsafe(requires(K % 8 == 0, N % 8 == 0, num_blocks > 0, num_blocks % 2 == 0, band > 0))
    )]
    pub fn gemm_pair<T, const C: Config>(
        #[tma(box = [128, 64], swizzle = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [C.block_n / 2, 64], swizzle = 128)] b: Tile<T, (N, K)>,
        #[tma(box = [32, 64], swizzle = 128)] c: TileMut<T, (M, N)>,
        num_blocks: u32,
        band: u32,
    ) {
        #[shared(dynamic)]
        let smem: SharedMemory<C>;
        let warp: u32 = tid.x >> 5;
        if warp == 0 {
            tcgen05::alloc::<2, { 2 * C.block_n }>(smem.tensor_memory);
            tcgen05::relinquish::<2>();
        }
        if tid.x == 32 {
            tma::prefetch(a_map);
            tma::prefetch(b_map);
            tma::prefetch(c_map);
            // The epilogue warps of both blocks release sums.
            smem.loads.init::<1, 1>();
            smem.sums.init::<1, 8>();
        }
        tcgen05::fence_before();
        block::sync();
        cluster::sync();
        tcgen05::fence_after();
        let sums: u32 = tcgen05::address(smem.tensor_memory);
        let (tiles_m, tiles_n): (u32, u32) =
            ((M + (2 * BLOCK_M - 1)) / (2 * BLOCK_M), (N + (C.block_n - 1)) / C.block_n);
        let work = Work { tiles_m, tiles_n, band, k: K, rank: cluster::rank() };
        if warp == 0 {
            if warp::elect() {
                load_tiles::<C>(a_map, b_map, smem, &work);
            }
            warp::sync();
        } else if warp == 1 {
            if work.rank == 0 {
                if warp::elect() {
                    multiply_tiles::<C>(smem, sums, &work);
                }
            }
            warp::sync();
        } else {
            store_tiles::<T, C>(c_map, smem, sums, &work);
        }
        // No block exits while the other one may still arrive here or read here.
        tcgen05::fence_before();
        block::sync();
        cluster::sync();
        if warp == 0 {
            tcgen05::fence_after();
            tcgen05::dealloc::<2, { 2 * C.block_n }>(sums);
        }
    }

    /// The producer.
    fn load_tiles<const C: Config>(a: TensorMap, b: TensorMap, smem: Shared<SharedMemory<C>>, work: &Work) {
        let mut ring = pipeline::Pipeline::new(smem.loads);
        let mut tile: u32 = ctaid.x >> 1;
        while tile < work.tiles_m * work.tiles_n {
            let (row, column): (u32, u32) = scheduler::grouped(tile, work.tiles_m, work.tiles_n, work.band);
            let mut k: u32 = 0;
            while k < work.k {
                ring.wait_empty();
                let (full, stage) = (ring.full(), smem.stages.at(ring.stage));
                // The first block expects the bytes of both.
                if work.rank == 0 {
                    full.arrive_expect(2 * size_of::<Stage<C>>());
                }
                let leader: u32 = cluster::map(full, 0);
                tma::load_2d_pair(stage.a, a, k, (2 * row + work.rank) * BLOCK_M, leader);
                tma::load_2d_pair(stage.b, b, k, column * C.block_n + work.rank * (C.block_n / 2), leader);
                ring.advance();
                k += 64;
            }
            tile += nctaid.x >> 1;
        }
    }

    /// The thread that issues products.
    fn multiply_tiles<const C: Config>(smem: Shared<SharedMemory<C>>, sums: u32, work: &Work) {
        const STAGE: u32 = size_of::<Stage<C>>();
        const IDESC: u32 = tcgen05::idesc(C.operand, C.operand, tcgen05::SUM_F32, 2 * BLOCK_M, C.block_n);
        let mut ring = pipeline::Pipeline::new(smem.loads);
        let mut half = pipeline::Pipeline::new(smem.sums);
        let first = smem.stages.at(0);
        let (a, b): (u64, u64) = (tcgen05::descriptor_k128(first.a), tcgen05::descriptor_k128(first.b));
        let mut tile: u32 = ctaid.x >> 1;
        while tile < work.tiles_m * work.tiles_n {
            half.wait_empty();
            tcgen05::fence_after();
            let to: u32 = sums + half.stage * C.block_n;
            tcgen05::multiply::<2, "kind::f16", 64, STAGE>(to, a, b, IDESC, work.k, &mut ring);
            tcgen05::commit_all::<2>(half.full());
            half.advance();
            tile += nctaid.x >> 1;
        }
    }

    /// A warp of the epilogue. Its number decides which lanes of tensor memory it reaches.
    fn store_tiles<T, const C: Config>(c: TensorMap, smem: Shared<SharedMemory<C>>, sums: u32, work: &Work) {
        let mut half = pipeline::Pipeline::new(smem.sums);
        let (quarter, lane): (u32, u32) = ((tid.x >> 5) & 3, tid.x & 31);
        let buffer = smem.stores.at(quarter);
        let mut tile: u32 = ctaid.x >> 1;
        while tile < work.tiles_m * work.tiles_n {
            let (row, column): (u32, u32) = scheduler::grouped(tile, work.tiles_m, work.tiles_n, work.band);
            half.wait_full();
            tcgen05::fence_after();
            let from: u32 = tcgen05::quarter(sums + half.stage * C.block_n);
            for part in 0..C.block_n / 64 {
                let values: [f32; 64] = tcgen05::load::<f32, 64>(from + 64 * part);
                if part == C.block_n / 64 - 1 {
                    // All sums are read: the tile after the next one may be multiplied here.
                    tcgen05::fence_before();
                    warp::sync();
                    if lane == 0 {
                        mbarrier::arrive_remote(half.empty(), 0);
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
                        column * C.block_n + 64 * part,
                        (2 * row + work.rank) * BLOCK_M + quarter * 32,
                        buffer,
                    );
                    tma::commit();
                }
            }
            half.advance();
            tile += nctaid.x >> 1;
        }
        if lane == 0 {
            tma::wait::<0>();
        }
        warp::sync();
    }
}

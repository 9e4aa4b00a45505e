//! Grouped GEMM on Blackwell. The roles of the warps are those of `gemm::sm100`; each role walks through the groups as its tiles go by.
//! A tile may read rows of the next group, but stores only its own: 16 bytes per thread, row by row, without TMA.

use ptx_launch::prelude::*;

/// The kernel.
#[ptx_module(arch = "sm_100a")]
pub mod kernels {
    /// The tile, the ring, and the type of the operands.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Config {
        /// Columns of a tile; it has 128 rows.
        pub block_n: u32,
        /// Stages of the ring.
        pub stages: u32,
        /// The number of the operands' type in an instruction descriptor: 0 for `f16`, 1 for `bf16`.
        pub operand: u32,
    }

    /// Rows of a tile: the lanes of tensor memory.
    const BLOCK_M: u32 = 128;

    /// A stage: 128 bytes along K of A's rows, and of B's.
    #[align(1024)]
    struct Stage<const C: Config> {
        a: [[u8; 128]; BLOCK_M],
        b: [[u8; 128]; C.block_n],
    }

    struct SharedMemory<const C: Config> {
        stages: [Stage<C>; C.stages],
        loads: pipeline::Barriers<{ C.stages }>,
        sums: pipeline::Barriers<2>,
        tensor_memory: u32,
    }

    /// The groups, and the extents that all have.
    struct Work {
        offsets: Global<u32>,
        groups: u32,
        tiles_n: u32,
        m: u32,
        n: u32,
        k: u32,
    }

    /// The group of a tile: the tiles and the rows before it, and its rows.
    struct Group {
        index: u32,
        first_tile: u32,
        before: u32,
        first_row: u32,
        end_row: u32,
    }

    /// C (M × N): row r is row r of A (M × K) times the matrix of its group in B (G × N × K), transposed. Group g has rows `offsets[g]` to
    /// `offsets[g + 1]`. By `num_blocks` blocks.
    #[ptx_kernel(
        block = 192,
        grid = num_blocks,
        instances = [
            n128 = (bf16, Config { block_n: 128, stages: 4, operand: 1 }),
            n256_f16 = (f16, Config { block_n: 256, stages: 4, operand: 0 })
        ],
        unsafe(requires(K % 8 == 0, N > 0 && N % 8 == 0 && N < 1 << 31, num_blocks > 0, offsets.len() > G))
    )]
    pub fn grouped_gemm<T, const C: Config>(
        #[tma(box = [128, 64], swizzle = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [1, C.block_n, 64], swizzle = 128)] b: Tile<T, (G, N, K)>,
        #[align(16)] c: TileMut<T, (M, N)>,
        offsets: &[u32],
        num_blocks: u32,
    ) {
        #[shared(dynamic)]
        let smem: SharedMemory<C>;
        let warp: u32 = tid.x >> 5;
        if warp == 0 {
            tcgen05::alloc::<1, { 2 * C.block_n }>(smem.tensor_memory);
            tcgen05::relinquish::<1>();
        }
        if tid.x == 32 {
            tma::prefetch(a_map);
            tma::prefetch(b_map);
            smem.loads.init::<1, 1>();
            smem.sums.init::<1, 4>();
        }
        tcgen05::fence_before();
        block::sync();
        tcgen05::fence_after();
        let sums: u32 = tcgen05::address(smem.tensor_memory);
        let tiles_n: u32 = (N + (C.block_n - 1)) / C.block_n;
        let work = Work { offsets, groups: G, tiles_n, m: M, n: N, k: K };
        if warp == 0 {
            if warp::elect() {
                load_tiles::<C>(a_map, b_map, smem, &work);
            }
            warp::sync();
        } else if warp == 1 {
            if warp::elect() {
                multiply_tiles::<C>(smem, sums, &work);
            }
            warp::sync();
        } else {
            store_tiles::<T, C>(c, smem, sums, &work);
        }
        tcgen05::fence_before();
        block::sync();
        if warp == 0 {
            tcgen05::fence_after();
            tcgen05::dealloc::<1, { 2 * C.block_n }>(sums);
        }
    }

    impl Group {
        /// In front of the first group.
        fn new() -> Group {
            Group { index: 0, first_tile: 0, before: 0, first_row: 0, end_row: 0 }
        }

        /// Moves on to the group with tile `tile`, or behind the last one: a loop of `ld.global.nc` and additions.
        fn seek(&mut self, work: &Work, tile: u32) {
            loop {
                if self.index >= work.groups {
                    break;
                }
                let at = work.offsets.at(self.index);
                ptx! {
                    ld.global.nc.u32 self.first_row, [at];
                    ld.global.nc.u32 self.end_row, [at + 4];
                    // Groups never share a row, whatever the offsets are.
                    max.u32 self.first_row, self.first_row, self.before;
                    max.u32 self.end_row, self.end_row, self.first_row;
                    min.u32 self.end_row, self.end_row, work.m;
                    min.u32 self.first_row, self.first_row, self.end_row;
                }
                let rows: u32 = self.end_row - self.first_row;
                let next: u32 = self.first_tile + (rows + (BLOCK_M - 1)) / BLOCK_M * work.tiles_n;
                if tile < next {
                    break;
                }
                self.first_tile = next;
                self.before = self.end_row;
                self.index += 1;
            }
        }
    }

    /// The producer.
    fn load_tiles<const C: Config>(a: TensorMap, b: TensorMap, smem: Shared<SharedMemory<C>>, work: &Work) {
        let mut ring = pipeline::Pipeline::new(smem.loads);
        let mut group = Group::new();
        let mut tile: u32 = ctaid.x;
        loop {
            group.seek(work, tile);
            if group.index >= work.groups {
                break;
            }
            let (row, column): (u32, u32) = scheduler::linear(tile - group.first_tile, work.tiles_n);
            let mut k: u32 = 0;
            while k < work.k {
                ring.wait_empty();
                let (full, stage) = (ring.full(), smem.stages.at(ring.stage));
                full.arrive_expect(size_of::<Stage<C>>());
                tma::load_2d(stage.a, a, k, group.first_row + row * BLOCK_M, full);
                tma::load_3d(stage.b, b, [k, column * C.block_n, group.index], full);
                ring.advance();
                k += 64;
            }
            tile += nctaid.x;
        }
        ring.drain();
    }

    /// The thread that issues products.
    fn multiply_tiles<const C: Config>(smem: Shared<SharedMemory<C>>, sums: u32, work: &Work) {
        const STAGE: u32 = size_of::<Stage<C>>();
        const IDESC: u32 = tcgen05::idesc(C.operand, C.operand, tcgen05::SUM_F32, BLOCK_M, C.block_n);
        let mut ring = pipeline::Pipeline::new(smem.loads);
        let mut half = pipeline::Pipeline::new(smem.sums);
        let first = smem.stages.at(0);
        let (a, b): (u64, u64) = (tcgen05::descriptor_k128(first.a), tcgen05::descriptor_k128(first.b));
        let mut group = Group::new();
        let mut tile: u32 = ctaid.x;
        loop {
            group.seek(work, tile);
            if group.index >= work.groups {
                break;
            }
            half.wait_empty();
            tcgen05::fence_after();
            let to: u32 = sums + half.stage * C.block_n;
            tcgen05::multiply::<1, "kind::f16", 64, STAGE>(to, a, b, IDESC, work.k, &mut ring);
            tcgen05::commit_all::<1>(half.full());
            half.advance();
            tile += nctaid.x;
        }
    }

    /// A warp of the epilogue. Its number decides which lanes of tensor memory it reaches.
    fn store_tiles<T, const C: Config>(c: GlobalMut<T>, smem: Shared<SharedMemory<C>>, sums: u32, work: &Work) {
        let mut half = pipeline::Pipeline::new(smem.sums);
        let thread: u32 = ((tid.x >> 5) & 3) * 32 + (tid.x & 31);
        let mut group = Group::new();
        let mut tile: u32 = ctaid.x;
        loop {
            group.seek(work, tile);
            if group.index >= work.groups {
                break;
            }
            let (row, column): (u32, u32) = scheduler::linear(tile - group.first_tile, work.tiles_n);
            let (m, n): (u32, u32) = (group.first_row + row * BLOCK_M + thread, column * C.block_n);
            // Rows of the next group, and rows behind the end of C, stay as they are.
            let mine: pred = m < group.end_row;
            let to: u64 = c + (wide(m) * work.n + n as u64) * size_of::<T>();
            half.wait_full();
            tcgen05::fence_after();
            let from: u32 = tcgen05::quarter(sums + half.stage * C.block_n);
            for part in 0..C.block_n / 64 {
                let values: [f32; 64] = tcgen05::load::<f32, 64>(from + 64 * part);
                let pairs: [b32; 32] = tcgen05::pack::<T, 64>(values);
                for chunk in 0..8 {
                    let inside: pred = mine & (n + (64 * part + 8 * chunk) < work.n);
                    ptx! {
                        @inside st.global.v4.b32 [to + 128 * part + 16 * chunk], {pairs[4 * chunk..4 * chunk + 4]};
                    }
                }
            }
            // All sums are read: the tile after the next one may be multiplied here.
            tcgen05::fence_before();
            warp::sync();
            if tid.x & 31 == 0 {
                half.empty().arrive();
            }
            half.advance();
            tile += nctaid.x;
        }
        warp::sync();
    }
}

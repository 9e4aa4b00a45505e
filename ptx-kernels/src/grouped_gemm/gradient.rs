//! The gradient of the groups' matrices on Hopper: for each group a product whose sums run over its rows. Roles, ring and stores are those of
//! [`hopper`](super::hopper); both operands have rows that are neighbors along M or N of the product, so that the ring holds 64 rows at a time.
//!
//! The last rows of a group share a stage with the first ones of the next. They become zeros in shared memory before they are multiplied, in
//! both operands, since a zero times an infinity is none.

use ptx_launch::prelude::*;

/// The kernel.
#[ptx_module(arch = "sm_90a", parts(crate::gemm::sm90::config::config))]
#[allow(dead_code, reason = "modules share one set of axes")]
pub mod kernels {
    const BLOCK_M: u32 = 128;

    /// Rows of a group in a stage.
    const DEPTH: u32 = 64;

    struct SharedMemory<const C: Config> {
        stages: [mainloop::Stage<{ policy(C, 0) }>; C.stages],
        stores: [[epilogue::Subtile; C.buffers]; 2],
        barriers: pipeline::Barriers<{ C.stages }>,
    }

    /// The tiles of all groups.
    struct Work {
        offsets: Global<u32>,
        groups: u32,
        /// Rows of both operands.
        rows: u32,
        /// Rows and columns of a group's result.
        k: u32,
        n: u32,
        tiles_k: u32,
        tiles_n: u32,
        band: u32,
    }

    /// A tile: its group, its first row in the group's result, its first column, and the rows that are summed up.
    struct Place {
        group: u32,
        row: u32,
        column: u32,
        range: mainloop::KRange,
    }

    /// The result in global memory, for the rows that TMA must not write.
    struct Result<O> {
        map: TensorMap,
        at: GlobalMut<O>,
    }

    /// The blocks, and the tiles of a band along K.
    struct Schedule {
        num_blocks: u32,
        band: u32,
    }

    /// dB (G × K × N, as one matrix of G · K rows): the matrix of group g is that of its rows of A (M × K), transposed, times its rows of dC
    /// (M × N). Group g has rows `offsets[g]` to `offsets[g + 1]`; without rows its matrix is zero. By `num_blocks` blocks; tiles of a group
    /// go in bands of `band` tiles along K.
    #[ptx_kernel(
        block = 384,
        grid = schedule.num_blocks,
        max_regs = 168,
        pdl,
        instances = [
            n256 = (bf16, Config::tma([128, 256], [1, 1], MN, 3, 4)),
            n128 = (bf16, Config::tma([128, 128], [1, 1], MN, 6, 2))
        ],
        unsafe(requires(
            schedule.num_blocks > 0,
            schedule.band > 0 && schedule.band <= 64,
            groups > 0,
            R == groups * K && R < 1 << 32,
            K > 0 && K % 8 == 0 && K < 1 << 31,
            N > 0 && N % 8 == 0 && N < 1 << 31,
            // Tiles are counted in 32 bits.
            groups * K.div_ceil(BLOCK_M) < 1 << 31,
            K.div_ceil(BLOCK_M) * N.div_ceil(C.block_n()) < 1 << 31,
            groups * K.div_ceil(BLOCK_M) * N.div_ceil(C.block_n()) < 1 << 31,
            offsets.len() > groups
        ))
    )]
    pub fn grouped_gradient<T, const C: Config>(
        #[tma(box = [DEPTH, 64], swizzle = 128, promotion = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [DEPTH, 64], swizzle = 128, promotion = 128)] dc: Tile<T, (M, N)>,
        #[tma(box = [64, 64], swizzle = 128)]
        #[align(16)]
        db: TileMut<T, (R, N)>,
        offsets: &[u32],
        groups: u32,
        schedule: Schedule,
    ) {
        #[shared(dynamic)]
        let smem: SharedMemory<C>;
        if tid.x == 0 {
            tma::prefetch(a_map);
            tma::prefetch(dc_map);
            tma::prefetch(db_map);
            smem.barriers.init::<1, 2>();
        }
        block::sync();
        grid::launch_dependents();
        let (tiles_k, tiles_n): (u32, u32) = ((K + (BLOCK_M - 1)) / BLOCK_M, (N + (C.block_n() - 1)) / C.block_n());
        let work = Work { offsets, groups, rows: M, k: K, n: N, tiles_k, tiles_n, band: schedule.band };
        // The kernel before this one may write the offsets.
        grid::wait();
        let warp_group: u32 = cluster::warp_group();
        if warp_group == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x < 32 {
                load_tiles::<T, C>(a_map, dc_map, smem, &work);
            }
        } else {
            wgmma::more_registers::<232>();
            multiply_tiles::<T, C>(smem, &work, &Result { map: db_map, at: db }, warp_group);
        }
    }

    /// Tile `tile` of all groups, one group behind the other.
    fn place<const C: Config>(work: &Work, tile: u32) -> Place {
        let (group, index): (u32, u32) = scheduler::linear(tile, work.tiles_k * work.tiles_n);
        let (row, column): (u32, u32) = scheduler::grouped(index, work.tiles_k, work.tiles_n, work.band);
        // The bands are those of a group's tiles, so that a number of one of them leads to no other row and column.
        assume!(row < work.tiles_k && column < work.tiles_n);
        cut!(group < work.groups && row < work.tiles_k && column < work.tiles_n);
        let at = work.offsets.at(group);
        let (mut begin, mut end): (u32, u32);
        ptx! {
            ld.global.nc.u32 begin, [at];
            ld.global.nc.u32 end, [at + 4];
            min.u32 end, end, work.rows;
            max.u32 end, end, begin;
        }
        Place {
            group,
            row: row * BLOCK_M,
            column: column * C.block_n(),
            range: mainloop::KRange { begin, end, backward: 0 },
        }
    }

    /// The producer warp.
    fn load_tiles<T, const C: Config>(a: TensorMap, dc: TensorMap, smem: Shared<SharedMemory<C>>, work: &Work) {
        let mut producer = mainloop::Producer::<{ policy(C, 0) }>::new(a, dc, smem.stages, smem.barriers, 0, 0);
        let mut tile: u32 = ctaid.x;
        while tile < work.groups * work.tiles_k * work.tiles_n {
            let of = place::<C>(work, tile);
            producer.load_tile::<T>(of.row, of.column, &of.range);
            tile += nctaid.x;
        }
    }

    /// A warp group of consumers.
    fn multiply_tiles<T, const C: Config>(
        smem: Shared<SharedMemory<C>>,
        work: &Work,
        result: &Result<T>,
        warp_group: u32,
    ) {
        const P: mainloop::Policy = policy(C, 0);
        let mut consumer = mainloop::Consumer::<P>::new(smem.stages, smem.barriers, warp_group);
        let store = epilogue::TileStore::new(smem.stores.at(warp_group - 1), consumer.thread, warp_group);
        let mut acc: [f32; P.accumulators()] = [0.0; P.accumulators()];
        let mut tile: u32 = ctaid.x;
        while tile < work.groups * work.tiles_k * work.tiles_n {
            let mut of = place::<C>(work, tile);
            sum_rows::<T, C>(&mut acc, &mut consumer, smem, &of.range);
            of.row += (warp_group - 1) * 64;
            store_rows::<T, C>(&acc, &store, work, result, &of);
            tile += nctaid.x;
        }
        store.finish();
    }

    /// `acc` becomes the sum of the products of a group's rows.
    fn sum_rows<T, const C: Config>(
        acc: &mut [f32; policy(C, 0).accumulators()],
        consumer: &mut mainloop::Consumer<{ policy(C, 0) }>,
        smem: Shared<SharedMemory<C>>,
        rows: &mainloop::KRange,
    ) {
        const P: mainloop::Policy = policy(C, 0);
        for i in 0..P.accumulators() {
            acc[i] = 0.0;
        }
        let mut accumulate: pred = true;
        let (mut at, mut last): (u32, u32) = (rows.begin, 0);
        while at < rows.end {
            let stage: u32 = consumer.pipeline.stage;
            let offset: u64 = wide(stage) * (size_of::<mainloop::Stage<P>>() / 16);
            let (a, b): (u64, u64) = (consumer.a + offset, consumer.b + offset);
            consumer.pipeline.wait_full();
            if at + DEPTH > rows.end {
                clear_rows::<C>(smem.stages.at(stage), rows.end - at);
            }
            wgmma::fence();
            mainloop::multiply_stage::<T, P>(acc, a, b, &mut accumulate);
            wgmma::commit();
            if at > rows.begin {
                wgmma::wait::<1>();
                consumer.release(last);
            }
            last = stage;
            consumer.pipeline.advance();
            at += DEPTH;
        }
        wgmma::wait::<0>();
        if rows.begin < rows.end {
            consumer.release(last);
        }
    }

    /// Sets the rows of a stage from `first` on to zero, for all 64 columns side by side. By both consumers: twice `st.shared.v4` for each
    /// 8 KiB, `fence.proxy.async`, `bar.sync` of named barrier 3.
    fn clear_rows<const C: Config>(stage: u32, first: u32) {
        const CHUNKS: u32 = (BLOCK_M + C.block_n()) / 64;
        let thread: u32 = tid.x - 128;
        let row: u32 = thread >> 3;
        let to: u32 = stage + row * 128 + (thread & 7) * 16;
        let (upper, lower): (pred, pred) = (row >= first, row + 32 >= first);
        for chunk in 0..CHUNKS {
            const AT: u32 = chunk * (DEPTH * 128);
            ptx! {
                @upper st.shared.v4.b32 [to + AT], {0, 0, 0, 0};
                @lower st.shared.v4.b32 [to + (AT + 4096)], {0, 0, 0, 0};
            }
        }
        tma::fence();
        barrier::sync::<256>(3);
    }

    /// Stores a warp group's 64 rows of a group's matrix from `of.row` on: by TMA, or row by row where the next group's matrix begins.
    fn store_rows<T, const C: Config>(
        acc: &[f32; policy(C, 0).accumulators()],
        store: &epilogue::TileStore<{ C.buffers }>,
        work: &Work,
        result: &Result<T>,
        of: &Place,
    ) {
        let (column, m): (u32, u32) = (of.column, of.group * work.k + of.row);
        let mut rows: u32 = 0;
        if of.row < work.k {
            rows = work.k - of.row;
        }
        cut!((rows == 0 || m + rows <= work.groups * work.k) && column % 64 == 0 && column < work.n + C.block_n());
        let pitch: u64 = wide(work.n) * size_of::<T>();
        let corner: u64 = result.at + (m as u64 * pitch + wide(column) * size_of::<T>());
        for subtile in 0..C.block_n() / 64 {
            store.write_subtile::<T, subtile>(acc);
            let from = store.buffers.at(subtile % C.buffers);
            if rows < 64 {
                let mut left: u32 = 0;
                if work.n > column + 64 * subtile {
                    left = work.n - (column + 64 * subtile);
                }
                invariant!(left == 0 || column + 64 * subtile + left <= work.n);
                epilogue::store_rows(from, store.thread, corner + (128 * subtile) as u64, pitch, rows, left);
            } else if store.thread == 0 {
                tma::store_2d(result.map, column + 64 * subtile, m, from);
            }
            // A group of stores for each subtile, as `write_subtile` counts them: an empty one where threads stored.
            if store.thread == 0 {
                tma::commit();
            }
        }
    }
}

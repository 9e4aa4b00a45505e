//! The static scheduler with the TMA epilogue: tiles by the number of the cluster, of all batches.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod static_tiles {
    impl Config {
        /// Registers of each thread at the start: all that an SM has.
        pub const fn registers(&self) -> u32 {
            if self.consumers() == 1 {
                240
            } else if self.consumers() == 2 {
                168
            } else {
                128
            }
        }

        /// Registers of a thread that multiplies, with those of the producer.
        pub const fn more_registers(&self) -> u32 {
            if self.consumers() == 2 { 232 } else { 152 }
        }

        /// True if the registers at the start are too few for the sums.
        pub const fn moves_registers(&self) -> bool {
            self.block_m() * self.block_n() / self.consumers() / 128 + 56 > self.registers()
        }

        /// Columns of a subtile, which has 64 rows: 64, or if they are rows of C the most up to 104 that divide a tile's.
        pub const fn subtile(&self) -> u32 {
            let parts: u32 = self.block_n().div_ceil(104);
            if self.swap_ab == 0 {
                64
            } else if self.block_n() % (8 * parts) == 0 {
                self.block_n() / parts
            } else {
                self.block_n() / (parts + 1)
            }
        }

        /// Bytes of a subtile: rows of 64 columns of C.
        pub const fn bytes(&self) -> u32 {
            if self.swap_ab == 1 { self.subtile() * 128 } else { 8192 }
        }

        /// Subtiles side by side.
        pub const fn across(&self) -> u32 {
            self.block_n() / self.subtile()
        }

        /// Subtiles of a warp group.
        pub const fn subtiles(&self) -> u32 {
            self.rows() / 64 * self.across()
        }
    }

    /// The shared memory of a block.
    struct StaticMemory<const C: Config> {
        stages: [mainloop::Stage<{ policy(C, 2) }>; C.stages],
        stores: [[Subtile<{ C.bytes() }>; C.buffers]; C.consumers()],
        barriers: pipeline::Barriers<{ C.stages }>,
    }

    /// A tile: its first row and column, and its batch.
    struct TileAt {
        row: u32,
        column: u32,
        batch: u32,
    }

    /// Loads the stages of all tiles of this block.
    fn load_static<T, const C: Config>(a: TensorMap, b: TensorMap, smem: Shared<StaticMemory<C>>, grid: &TileGrid) {
        let (rank_m, rank_n): (u32, u32) = ranks::<C>();
        let mut producer =
            mainloop::Producer::<{ policy(C, 2) }>::new(a, b, smem.stages, smem.barriers, rank_m, rank_n);
        let range = mainloop::KRange { begin: 0, end: grid.k, backward: 0 };
        let (mut index, step): (u32, u32) = (ctaid.x / C.blocks(), nctaid.x / C.blocks());
        grid::wait();
        while index < grid.tiles {
            let at: TileAt = tile_at::<C>(index, grid);
            producer.a.group = at.batch * grid.a_batches;
            producer.b.group = at.batch * grid.b_batches;
            // This block's shares of what its cluster loads.
            let row: u32 = at.row + rank_n * (C.block_m() / C.cluster_n());
            let column: u32 = at.column + rank_m * (C.block_n() / C.cluster_m());
            producer.load_tile::<T>(row, column, &range);
            index += step;
        }
        producer.pipeline.drain();
    }

    /// The place of this block in its cluster.
    fn ranks<const C: Config>() -> (u32, u32) {
        let rank: u32 = cluster::rank();
        (rank % C.cluster_m(), rank / C.cluster_m())
    }

    /// This block's tile of its cluster's tile `index`. Tiles along the rows are neighbors.
    fn tile_at<const C: Config>(index: u32, grid: &TileGrid) -> TileAt {
        let (rank_m, rank_n): (u32, u32) = ranks::<C>();
        let (mut line, twice): (u32, u32) = (0, index * 2);
        ptx! { mul.hi.u32 line, twice, grid.per_row; }
        if grid.per_row == 0 {
            line = index / grid.rows;
        }
        cut!(line >= 0);
        // `per_row` is exact where it is not zero.
        assume!(line * grid.rows <= index && index < line * grid.rows + grid.rows);
        let row: u32 = index - line * grid.rows;
        let (mut column, mut batch): (u32, u32) = (line, 0);
        if line >= grid.columns {
            batch = line / grid.columns;
            column = line - batch * grid.columns;
        }
        cut!(column < grid.columns && column + batch * grid.columns == line);
        TileAt {
            row: (row * C.cluster_m() + rank_m) * C.block_m(),
            column: (column * C.cluster_n() + rank_n) * C.block_n(),
            batch,
        }
    }

    /// A warp group of consumers.
    fn multiply_static<T, const C: Config>(
        c: TensorMap,
        smem: Shared<StaticMemory<C>>,
        warp_group: u32,
        grid: &TileGrid,
    ) {
        const P: mainloop::Policy = policy(C, 2);
        let mut consumer = mainloop::Consumer::<P>::new(smem.stages, smem.barriers, warp_group);
        let mut acc: [f32; P.accumulators()] = [0.0; P.accumulators()];
        let range = mainloop::KRange { begin: 0, end: grid.k, backward: 0 };
        let store = Store::<C>::new(smem.stores.at(warp_group - 1), consumer.thread, warp_group);
        let (mut index, step): (u32, u32) = (ctaid.x / C.blocks(), nctaid.x / C.blocks());
        while index < grid.tiles {
            consumer.multiply_tile::<T, { C.stagger() }>(&mut acc, &range);
            let mut at: TileAt = tile_at::<C>(index, grid);
            at.row += (warp_group - 1) * C.rows();
            store.store_tile::<T>(&acc, c, &at);
            index += step;
        }
        store.finish();
    }
}

//! The producer warp, and the order of tiles.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod loads {
    /// A tile: its first row and column, and its batch.
    struct At {
        row: u32,
        column: u32,
        batch: u32,
    }

    /// Loads the stages of all tiles of this block.
    fn load_tiles<T, const C: Config>(a: TensorMap, b: TensorMap, smem: Shared<SharedMemory<C>>, grid: &Grid) {
        let (rank_m, rank_n): (u32, u32) = ranks::<C>();
        let mut producer = mainloop::Producer::<{ policy(C) }>::new(a, b, smem.stages, smem.barriers, rank_m, rank_n);
        let range = mainloop::KRange { begin: 0, end: grid.k, backward: 0 };
        let (mut index, step): (u32, u32) = (ctaid.x / C.cluster(), nctaid.x / C.cluster());
        grid::wait();
        while index < grid.tiles {
            let at: At = tile_at::<C>(index, grid);
            producer.a.group = at.batch * grid.a_batches;
            producer.b.group = at.batch * grid.b_batches;
            // This block's shares of what its cluster loads.
            let row: u32 = at.row + rank_n * (C.block_m / C.cluster_n);
            let column: u32 = at.column + rank_m * (C.block_n / C.cluster_m);
            producer.load_tile::<T>(row, column, &range);
            index += step;
        }
        producer.pipeline.drain();
    }

    /// The place of this block in its cluster.
    fn ranks<const C: Config>() -> (u32, u32) {
        let rank: u32 = cluster::rank();
        (rank % C.cluster_m, rank / C.cluster_m)
    }

    /// This block's tile of its cluster's tile `index`. Tiles along the rows are neighbors.
    fn tile_at<const C: Config>(index: u32, grid: &Grid) -> At {
        let (rank_m, rank_n): (u32, u32) = ranks::<C>();
        let (mut line, twice): (u32, u32) = (0, index * 2);
        ptx! { mul.hi.u32 line, twice, grid.per_row; }
        if grid.per_row == 0 {
            line = index / grid.rows;
        }
        let row: u32 = index - line * grid.rows;
        let (mut column, mut batch): (u32, u32) = (line, 0);
        if line >= grid.columns {
            batch = line / grid.columns;
            column = line - batch * grid.columns;
        }
        At { row: (row * C.cluster_m + rank_m) * C.block_m, column: (column * C.cluster_n + rank_n) * C.block_n, batch }
    }
}

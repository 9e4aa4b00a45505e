//! The producer of backward kernels of attention: one warp copies tiles of K, V, Q and dO by TMA.
//!
//! `flash_grad` has the keys, the walk and the scratch memory that it reads. For `sm_90` and later.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod flash_grad_loads {
    /// The rows of a sequence in the tensor of a map: (elements, heads, tokens, batch).
    struct Rows {
        map: TensorMap,
        start: u32,
        len: u32,
        batch: u32,
    }

    impl Rows {
        /// Begins to copy `COUNT` rows of a head from number `row` on, in `PARTS` parts of 128 swizzled bytes; a barrier expects these and `MORE`
        /// bytes: `mbarrier.arrive.expect_tx` and `cp.async.bulk.tensor.4d` for each part.
        fn copy<const COUNT: u32, const PARTS: u32, const MORE: u32>(&self, to: u32, bar: u32, head: u32, row: u32) {
            mbarrier::arrive_expect(bar, PARTS * COUNT * 128 + MORE);
            for i in 0..PARTS {
                tma::load_4d(to + i * (COUNT * 128), self.map, [64 * i, head, self.start + row, self.batch], bar);
            }
        }
    }

    /// The maps of Q, K, V and dO.
    struct Maps {
        q: TensorMap,
        k: TensorMap,
        v: TensorMap,
        grad: TensorMap,
    }

    /// Tiles of queries in shared memory: rings of tiles of Q and of dO, with the logarithms and deltas of their queries.
    struct Tiles<const Q_STAGES: u32, const STAGES: u32> {
        q: u32,
        grad: u32,
        logs: u32,
        deltas: u32,
        partial: Shared<mbarrier::Barrier>,
        q_bars: Shared<pipeline::Barriers<Q_STAGES>>,
        grad_bars: Shared<pipeline::Barriers<STAGES>>,
    }

    /// The producer of a block: one thread, or with `PACKED` = 1 a warp.
    struct Producer<const Q_STAGES: u32, const STAGES: u32, const PACKED: u32> {
        tiles: Tiles<Q_STAGES, STAGES>,
        maps: Maps,
        loader: Loader<PACKED>,
        q: pipeline::Pipeline<Q_STAGES>,
        grad: pipeline::Pipeline<STAGES>,
    }

    impl<const Q_STAGES: u32, const STAGES: u32, const PACKED: u32> Producer<Q_STAGES, STAGES, PACKED> {
        /// Nothing is loaded.
        fn new(tiles: Tiles<Q_STAGES, STAGES>, maps: Maps) -> Producer<Q_STAGES, STAGES, PACKED> {
            let q = pipeline::Pipeline::<Q_STAGES>::new(tiles.q_bars);
            let grad = pipeline::Pipeline::<STAGES>::new(tiles.grad_bars);
            let loader = Loader::<PACKED> { bar: tiles.partial, phase: 0 };
            Producer { tiles, maps, loader, q, grad }
        }

        /// Loads `COUNT` keys from number `first` on.
        fn load_keys<const COUNT: u32, const PARTS: u32>(
            &mut self,
            keys: &flash_grad::Keys,
            first: u32,
            to: u32,
            full: u32,
        ) {
            let rows = Rows { map: self.maps.k, start: keys.k.start, len: keys.k.len, batch: keys.batch };
            self.loader.load::<COUNT, PARTS, 0>(to, full, &rows, keys.head, first);
        }

        /// Loads `COUNT` values from number `first` on.
        fn load_values<const COUNT: u32, const PARTS: u32>(
            &mut self,
            keys: &flash_grad::Keys,
            first: u32,
            to: u32,
            full: u32,
        ) {
            let rows = Rows { map: self.maps.v, start: keys.k.start, len: keys.k.len, batch: keys.batch };
            self.loader.load::<COUNT, PARTS, 0>(to, full, &rows, keys.head, first);
        }

        /// Loads the current tile of the walk, `QUERIES` queries in parts of 64 elements, and moves on.
        fn load_tile<const QUERIES: u32, const PARTS: u32, const PARTS_V: u32, const HEAD: u32>(
            &mut self,
            keys: &flash_grad::Keys,
            scratch: &flash_grad::Scratch,
            walk: &mut flash_grad::Walk,
        ) {
            let (start, len, batch): (u32, u32, u32) = (keys.q.start, keys.q.len, keys.batch);
            let sums = scratch.part::<QUERIES, HEAD>(keys.number, start, walk.head);
            let row: u32 = walk.tile * QUERIES;
            let rows = Rows { map: self.maps.q, start, len, batch };
            self.q.wait_empty();
            let (stage, full): (u32, u32) = (self.q.stage, self.q.full());
            let (to, numbers): (u32, u32) =
                (self.tiles.q + stage * (PARTS * QUERIES * 128), self.tiles.logs + stage * (4 * QUERIES));
            self.loader.load::<QUERIES, PARTS, { 4 * QUERIES }>(to, full, &rows, walk.head, row);
            self.loader.load_numbers::<QUERIES>(numbers, full, sums.logs, row);
            let rows = Rows { map: self.maps.grad, start, len, batch };
            self.grad.wait_empty();
            let (stage, full): (u32, u32) = (self.grad.stage, self.grad.full());
            let (to, numbers): (u32, u32) =
                (self.tiles.grad + stage * (PARTS_V * QUERIES * 128), self.tiles.deltas + stage * (4 * QUERIES));
            self.loader.load::<QUERIES, PARTS_V, { 4 * QUERIES }>(to, full, &rows, walk.head, row);
            self.loader.load_numbers::<QUERIES>(numbers, full, sums.deltas, row);
            self.q.advance();
            self.grad.advance();
            walk.advance();
        }
    }

    /// Copies of tiles by one thread, or with `PACKED` = 1 by all lanes of a warp: then rows behind the end of a sequence, which are
    /// another one's, become zeros. These need a barrier of their own.
    struct Loader<const PACKED: u32> {
        bar: Shared<mbarrier::Barrier>,
        phase: u32,
    }

    impl<const PACKED: u32> Loader<PACKED> {
        /// `Rows::copy`, and for the last rows of a packed sequence `st.shared.v4`, `fence.proxy.async` and `mbarrier.arrive.expect_tx`.
        fn load<const COUNT: u32, const PARTS: u32, const MORE: u32>(
            &mut self,
            to: u32,
            full: u32,
            rows: &Rows,
            head: u32,
            row: u32,
        ) {
            if PACKED == 0 {
                rows.copy::<COUNT, PARTS, MORE>(to, full, head, row);
            } else if row + COUNT <= rows.len {
                if laneid == 0 {
                    rows.copy::<COUNT, PARTS, MORE>(to, full, head, row);
                }
            } else {
                let own: u32 = self.bar;
                if laneid == 0 {
                    rows.copy::<COUNT, PARTS, 0>(to, own, head, row);
                }
                self.bar.wait(self.phase);
                self.phase = self.phase ^ 1;
                clear_rows::<COUNT, PARTS>(to, rows.len.max(row) - row);
                warp::sync();
                if laneid == 0 {
                    mbarrier::arrive_expect(full, MORE);
                }
            }
        }

        /// Begins to copy the numbers of a tile, which its barrier expects.
        fn load_numbers<const COUNT: u32>(&self, to: u32, full: u32, numbers: u64, row: u32) {
            let from: u64 = numbers + wide(row) * 4;
            if PACKED == 0 {
                bulk::load(to, from, 4 * COUNT, full);
            } else if laneid == 0 {
                bulk::load(to, from, 4 * COUNT, full);
            }
        }
    }

    /// The rows of a tile from number `row` on become zeros, also for `wgmma`, by a warp: `st.shared.v4` in a loop and `fence.proxy.async`.
    fn clear_rows<const COUNT: u32, const PARTS: u32>(tile: u32, row: u32) {
        let mut at: u32 = row * 128 + laneid * 16;
        while at < COUNT * 128 {
            let to: u32 = tile + at;
            for i in 0..PARTS {
                ptx! { st.shared.v4.u32 [to + i * (COUNT * 128)], {0, 0, 0, 0}; }
            }
            at += 512;
        }
        tma::fence();
    }
}

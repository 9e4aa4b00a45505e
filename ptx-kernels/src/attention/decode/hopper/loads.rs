//! The producers of latent decode on Hopper: a warp group copies rows of Q and of the cache.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod loads {
    /// The rows of a tile that this thread copies, 16 apart: addresses of its 16 bytes of each atom, and 16 where there is a row.
    struct Rows {
        from: [u64; 4],
        bytes: [u32; 4],
    }

    impl Rows {
        /// Begins to copy the atoms of 64 columns from `FROM` to before `TO`; `to` is the tile. Columns from `dim` on become zeros.
        fn copy<const FROM: u32, const TO: u32>(&self, to: u32, dim: u32) {
            let row: u32 = tid.x / 8;
            let own: u32 = to + row * 128 + ((row ^ laneid) & 7) * 16;
            for atom in FROM..TO {
                let inside: pred = laneid % 8 * 8 + 64 * atom < dim;
                for i in 0..4 {
                    let bytes: u32 = inside.select(self.bytes[i], 0);
                    cp_async::copy16_zero(own + (atom * ATOM + 2048 * i), self.from[i] + (128 * atom) as u64, bytes);
                }
            }
        }
    }

    /// The cache of a sequence: the address of page 0, strides of page and row, and where the table has this lane's row of the next tile.
    struct Cache {
        from: u64,
        strides: [u64; 2],
        places: kv_cache::Pages,
        len: u32,
        /// The last key that any sequence can have.
        last: u32,
        entry: u32,
        slot: u32,
    }

    impl Cache {
        /// Finds the rows of a tile: each of sixteen lanes one of this warp's.
        fn find(&mut self, tile: u32) {
            let row: u32 = laneid / 4 % 4 * 16 + tid.x / 32 * 4 + laneid % 4;
            let token: u32 = (tile * 64 + row).min(self.len.max(1) - 1);
            cut!(token <= self.last);
            (self.entry, self.slot) = self.places.find_own(token);
        }

        /// This thread's rows of a tile that is found; those behind the last key become zeros.
        fn rows(&self, tile: u32) -> Rows {
            let (page, slot): (u32, u32) = (self.places.page(self.entry), self.slot.min(self.places.size - 1));
            let (from, bytes): ([u64; 4], [u32; 4]);
            for i in 0..4 {
                let lane: u32 = 4 * i + laneid / 8;
                let (own_page, own_slot): (u32, u32) = (warp::broadcast(page, lane), warp::broadcast(slot, lane));
                let known: pred = tile * 64 + (tid.x / 8 + 16 * i) < self.len;
                bytes[i] = known.select(16, 0);
                from[i] = self.from
                    + own_page as u64 * self.strides[0]
                    + own_slot as u64 * self.strides[1]
                    + (laneid % 8 * 16) as u64;
            }
            Rows { from, bytes }
        }
    }

    /// This thread's rows of Q.
    fn queries(packed: &kv_cache::Packed, q: u64, strides: [u64; 3]) -> Rows {
        let (from, bytes): ([u64; 4], [u32; 4]);
        for i in 0..4 {
            let row: u32 = tid.x / 8 + 16 * i;
            from[i] = packed.at(q, strides, row) + (laneid % 8 * 16) as u64;
            bytes[i] = packed.has(row).select(16, 0);
        }
        Rows { from, bytes }
    }

    /// Begins to copy a part of a tile when its place is empty.
    fn fill<const PART: u32, const FROM: u32, const TO: u32, const C: Config>(
        memory: &Memory<C>,
        at: &flash::Position<STAGES>,
        rows: &Rows,
        dim: u32,
    ) {
        const BAR: u32 = 8 * PART;
        let own: u32 = at.stage * (8 * PARTS) + BAR;
        mbarrier::wait(memory.empty + own, at.phase ^ 1);
        rows.copy::<FROM, TO>(memory.tiles + at.stage * C.tile(), dim);
        cp_async::arrive(memory.full + own);
    }

    /// Copies the queries and the keys of all works.
    fn load<const C: Config>(
        memory: &Memory<C>,
        walk: &mut Walk<ROWS, KEYS>,
        p: &DecodeProblem,
        from: [u64; 2],
        tables: u64,
    ) {
        const BEHIND: u32 = C.head_v / 64;
        const HALF: u32 = BEHIND / 2;
        let mut at = flash::Position::<STAGES> { stage: 0, phase: 0 };
        while walk.round < walk.last {
            let work: Work = walk.work(p);
            let rows: Rows = queries(&work.packed, from[0], p.q);
            rows.copy::<0, { C.head / 64 }>(memory.q, p.dim);
            cp_async::arrive(memory.q_full);
            let places =
                kv_cache::Pages::of_sequence(tables, p.table_pages, work.packed.sequence, p.page_size, p.pages);
            let (len, last): (u32, u32) = (work.len, p.last);
            let mut cache = Cache { from: from[1], strides: [p.k[0], p.k[1]], places, len, last, entry: 0, slot: 0 };
            cache.find(work.at);
            let mut tile: u32 = work.at;
            while tile < work.end {
                let rows: Rows = cache.rows(tile);
                tile += 1;
                cache.find(tile);
                fill::<0, BEHIND, { C.head / 64 }, C>(memory, &at, &rows, p.dim);
                fill::<1, HALF, BEHIND, C>(memory, &at, &rows, p.dim);
                fill::<2, 0, HALF, C>(memory, &at, &rows, p.dim);
                at.advance();
            }
            walk.advance(&work);
            // The sums take the place of the tiles.
            memory.sync();
        }
    }
}

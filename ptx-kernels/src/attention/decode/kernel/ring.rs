//! A warp's ring of tiles of the cache, which it fills and reads alone.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod ring {
    /// The cache of all heads and sequences: addresses of K and V.
    struct Source {
        k: u64,
        v: u64,
    }

    /// A tile of keys, and of values behind them, whose rows are `pitch` bytes apart.
    struct Stage {
        at: u32,
    }

    impl Stage {
        /// This lane's row of K as a right operand (`fragment::rows_b`).
        fn keys<const C: Config>(&self) -> u32 {
            fragment::rows_b::<{ C.size * C.head / 2 }>(self.at)
        }

        /// This lane's row of V, which is transposed as it is read (`fragment::rows_a`).
        fn values<const C: Config>(&self) -> u32 {
            fragment::rows_a::<{ C.size * C.head / 2 }>(self.at + C.tile())
        }

        /// The address of 32 bytes, number `STEP` of the row that is `ROWS` below a lane's.
        fn atom<const C: Config, const ROWS: u32, const STEP: u32>(&self, row: u32) -> u32 {
            row + (ROWS * C.pitch() + 32 * STEP)
        }
    }

    /// The cache of one head of one sequence, K and V: addresses of the rows in page 0, strides, and bytes of a row.
    struct Cache {
        from: [u64; 2],
        pages: [u64; 2],
        slots: [u64; 2],
        bytes: [u32; 2],
        places: kv_cache::Pages,
        len: u32,
        /// The last key that any sequence can have.
        last: u32,
    }

    impl Cache {
        /// That of head `head` and a sequence of `len` keys.
        fn new<const C: Config>(
            p: &DecodeProblem,
            source: &Source,
            places: kv_cache::Pages,
            head: u32,
            len: u32,
        ) -> Cache {
            Cache {
                from: [source.k + p.k[2] * head as u64, source.v + p.v[2] * head as u64],
                pages: [p.k[0], p.v[0]],
                slots: [p.k[1], p.v[1]],
                bytes: [p.dim * C.size, p.dim_v * C.size],
                places,
                len,
                last: p.last,
            }
        }

        /// The address of a row of K (`part` 0) or V (1).
        fn row(&self, part: u32, page: u32, slot: u32) -> u64 {
            self.from[part] + page as u64 * self.pages[part] + slot as u64 * self.slots[part]
        }

        /// Begins to copy a warp's tile of keys and values from `token` on; those behind the last key become zeros. Each lane gives an
        /// entry of the table and a place in the page for one key; `ACROSS` lanes copy a row.
        fn copy<const C: Config>(&self, tile: u32, token: u32, entry: u32, slot: u32) {
            const WIDTH: u32 = C.size * C.head;
            const ACROSS: u32 = if WIDTH % 128 == 0 { 8 } else { 2 };
            const STEP: u32 = 32 / ACROSS;
            let (page, column): (u32, u32) = (self.places.page(entry), laneid % ACROSS * 16);
            let slot: u32 = slot.min(self.places.size - 1);
            for i in 0..C.keys / STEP {
                let row: u32 = laneid / ACROSS + STEP * i;
                let (own_page, own_slot): (u32, u32) = (warp::broadcast(page, row), warp::broadcast(slot, row));
                let known: pred = token + row < self.len;
                for part in 0..2 {
                    let from: u64 = self.row(part, own_page, own_slot) + column as u64;
                    let to: u32 = tile + row * C.pitch() + column;
                    for j in 0..WIDTH / (16 * ACROSS) {
                        const AT: u32 = 16 * ACROSS * j;
                        let inside: pred = known & (column + AT < self.bytes[part]);
                        cp_async::copy16_zero_of_line(
                            to + (part * C.tile() + AT),
                            from + AT as u64,
                            inside.select(16, 0),
                        );
                    }
                }
            }
        }
    }

    /// A warp's ring of tiles: the ones to fill and to read next, and where the table and the page have this lane's key of the former, so
    /// that no copy waits for the table.
    struct Ring<const C: Config> {
        tiles: u32,
        to: u32,
        read: u32,
        entry: u32,
        slot: u32,
    }

    impl<const C: Config> Ring<C> {
        /// The ring of this warp.
        fn new(tiles: u32) -> Ring<C> {
            Ring { tiles: tiles + tid.x / 32 * C.ring(), to: 0, read: 0, entry: 0, slot: 0 }
        }

        /// Finds the keys of this warp's tile of a round.
        fn find(&mut self, cache: &Cache, round: u32) {
            let token: u32 = round * C.block() + tid.x / 32 * C.keys + (laneid & (C.keys - 1));
            let token: u32 = token.min(cache.len.max(1) - 1);
            cut!(token <= cache.last);
            (self.entry, self.slot) = cache.places.find_own(token);
        }

        /// Begins to copy this warp's tile of a round before `end`.
        fn fill(&mut self, cache: &Cache, round: u32, end: u32) {
            if round < end {
                self.begin(cache, round);
            }
            cut!(self.to < C.stages);
            cp_async::commit();
        }

        /// Begins to copy this warp's tile of a round, whose keys are found, and finds those of the next one.
        fn begin(&mut self, cache: &Cache, round: u32) {
            let token: u32 = round * C.block() + tid.x / 32 * C.keys;
            cache.copy::<C>(self.tiles + self.to * (2 * C.tile()), token, self.entry, self.slot);
            self.to += 1;
            self.to = (self.to == C.stages).select(0, self.to);
            self.find(cache, round + 1);
        }

        /// Waits for the rows of Q, which came before the first tiles.
        fn wait_for_queries(&self) {
            cp_async::wait::<{ C.stages - 1 }>();
        }

        /// Waits for the next tile.
        fn wait(&self, _cache: &Cache, _round: u32) -> Stage {
            cp_async::wait::<{ C.stages - 1 }>();
            warp::sync();
            Stage { at: self.tiles + self.read * (2 * C.tile()) }
        }

        /// The next tile to fill.
        fn free(&self) -> u32 {
            self.tiles + self.to * (2 * C.tile())
        }

        /// Gives the tile back.
        fn advance(&mut self) {
            warp::sync();
            self.read += 1;
            self.read = (self.read == C.stages).select(0, self.read);
            cut!(self.read < C.stages);
        }
    }
}

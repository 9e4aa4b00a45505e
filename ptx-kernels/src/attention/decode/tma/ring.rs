//! A warp's ring of tiles of the cache, which it fills by TMA and reads alone.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod ring {
    /// The cache of all heads and sequences: the maps of K and V.
    struct Source {
        k: TensorMap,
        v: TensorMap,
    }

    /// The cache of one head of one sequence.
    struct Cache {
        source: Source,
        places: kv_cache::Pages,
        head: u32,
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
            Cache { source: Source { k: source.k, v: source.v }, places, head, len, last: p.last }
        }
    }

    /// A tile of keys, and of values behind them: addresses of this lane's rows, and bytes of an atom of a box.
    struct Stage {
        k: u32,
        v: u32,
        atom: u32,
    }

    impl Stage {
        /// This lane's row of K as a right operand, and its row of V, which is transposed as it is read.
        fn keys<const C: Config>(&self) -> u32 {
            self.k
        }

        fn values<const C: Config>(&self) -> u32 {
            self.v
        }

        /// The address of 32 bytes, number `STEP` of the row that is `ROWS` below a lane's.
        fn atom<const C: Config, const ROWS: u32, const STEP: u32>(&self, row: u32) -> u32 {
            const AT: u32 = ROWS * ATOM * C.atoms();
            let across: u32 = STEP / 4 * self.atom;
            ((row ^ ((across >> 3) & 0x70)) + across ^ (STEP % 4 * 32)) + AT
        }
    }

    /// The rows of a tile in boxes of `step` tokens: each box has the first atoms of its tokens' rows, then the second ones.
    fn line<const C: Config>(token: u32, step: u32) -> u32 {
        token + (token & (0 - step)) * (C.atoms() - 1)
    }

    /// A box: the entry of the table, and the place in the page.
    struct Box {
        entry: u32,
        slot: u32,
    }

    /// A warp's ring of tiles and their barriers: the ones to fill and to read next, and the latter's phase. The lanes have 32 boxes of the next tiles, and
    /// the 32 behind them, so that no copy waits for the table; `number` is that of the next tile among the former.
    struct Ring<const C: Config> {
        tiles: u32,
        barriers: u32,
        step: u32,
        to: u32,
        read: u32,
        phase: u32,
        number: u32,
        boxes: Box,
        later: Box,
    }

    impl<const C: Config> Ring<C> {
        /// The ring of this warp, which gets boxes of `step` tokens.
        fn new(tiles: u32, barriers: u32, step: u32) -> Ring<C> {
            let own: u32 = barriers + tid.x / 32 * (8 * C.stages);
            if laneid == 0 {
                for i in 0..C.stages {
                    mbarrier::init(own + 8 * i, 1);
                }
                mbarrier::fence_init();
            }
            warp::sync();
            let tiles: u32 = tiles + tid.x / 32 * C.ring();
            let none = Box { entry: 0, slot: 0 };
            Ring { tiles, barriers: own, step, to: 0, read: 0, phase: 0, number: 0, boxes: none, later: none }
        }

        /// This lane's box of this warp's tiles from a round on; those behind the last key are the last one.
        fn locate(&self, cache: &Cache, round: u32) -> Box {
            let at: u32 = laneid * self.step;
            let first: u32 = (round + at / C.keys) * C.block() + tid.x / 32 * C.keys;
            let last: u32 = (cache.len.max(1) - 1) & (0 - self.step);
            let token: u32 = (first + at % C.keys).min(last).min(cache.last);
            cut!(token <= cache.last);
            let (entry, slot): (u32, u32) = cache.places.find_own(token);
            Box { entry, slot }
        }

        /// Finds the boxes of this warp's tiles from a round on.
        fn find(&mut self, cache: &Cache, round: u32) {
            self.number = 0;
            self.boxes = self.locate(cache, round);
            self.later = self.locate(cache, round + 32 * self.step / C.keys);
        }

        /// Moves on to the next tile, that of a round.
        fn find_next(&mut self, cache: &Cache, round: u32) {
            self.number += 1;
            let tiles: u32 = 32 * self.step / C.keys;
            if self.number == tiles {
                self.number = 0;
                self.boxes = self.later;
                self.later = self.locate(cache, round + tiles);
            }
        }

        /// Begins to copy this warp's tile of a round before `end`, whose boxes are found, and finds those of the next one.
        fn fill(&mut self, cache: &Cache, round: u32, end: u32) {
            if round < end {
                let known: pred = round * C.block() + tid.x / 32 * C.keys < cache.len;
                let bar: u32 = self.barriers + self.to * 8;
                if laneid == 0 {
                    mbarrier::arrive_expect(bar, known.select(2 * C.tile(), 0));
                }
                warp::sync();
                let own: u32 = laneid * self.step;
                if known & (own / C.keys == self.number) {
                    let page: u32 = cache.places.page(self.boxes.entry);
                    let at: [u32; 5] = [0, self.boxes.slot, 0, cache.head, page];
                    let to: u32 = self.tiles + self.to * (2 * C.tile()) + own % C.keys * (ATOM * C.atoms());
                    tma::load_5d(to, cache.source.k, at, bar);
                    tma::load_5d(to + C.tile(), cache.source.v, at, bar);
                }
                self.to += 1;
                self.to = (self.to == C.stages).select(0, self.to);
                self.find_next(cache, round + 1);
            }
            cut!(self.to < C.stages);
        }

        /// Waits for the rows of Q. What the block wrote to the free stage comes before the next copies to it.
        fn wait_for_queries(&self) {
            cp_async::wait_all();
            tma::fence();
        }

        /// Waits for this warp's tile of a round, the next one. Rows behind the last key become zeros, as weights of zero do not hide a NaN.
        fn wait(&self, cache: &Cache, round: u32) -> Stage {
            let first: u32 = round * C.block() + tid.x / 32 * C.keys;
            let tile: u32 = self.tiles + self.read * (2 * C.tile());
            mbarrier::wait(self.barriers + self.read * 8, self.phase);
            if (first < cache.len) & (first + C.keys > cache.len) {
                self.clear(tile, cache.len - first);
            }
            let (row_k, row_v): (u32, u32) = ((laneid & 7) + ((laneid >> 4) << 3), laneid & 15);
            let k: u32 = line::<C>(row_k, self.step) * ATOM + (((laneid >> 3) & 1) << 4);
            let v: u32 = line::<C>(row_v, self.step) * ATOM + ((laneid >> 4) << 4);
            Stage { k: tile + swizzle::bytes128(k), v: tile + C.tile() + swizzle::bytes128(v), atom: self.step * ATOM }
        }

        /// Zeros in the rows of a tile from number `rows` on.
        fn clear(&self, tile: u32, rows: u32) {
            let (mut at, zero): (u32, u32) = (laneid / 8, 0);
            while at < C.keys * C.atoms() {
                let token: u32 = at / C.atoms() & (0 - self.step) | at & (self.step - 1);
                if token >= rows {
                    let k: u32 = tile + at * ATOM + laneid % 8 * 16;
                    let v: u32 = k + C.tile();
                    ptx! {
                        st.shared.v4.b32 [k], {zero, zero, zero, zero};
                        st.shared.v4.b32 [v], {zero, zero, zero, zero};
                    }
                }
                at += 4;
            }
            tma::fence();
            warp::sync();
        }

        /// The next tile to fill.
        fn free(&self) -> u32 {
            self.tiles + self.to * (2 * C.tile())
        }

        /// Gives the tile back.
        fn advance(&mut self) {
            warp::sync();
            self.read += 1;
            if self.read == C.stages {
                self.read = 0;
                self.phase ^= 1;
            }
            cut!(self.read < C.stages);
        }
    }
}

//! Parts of warp-specialized attention kernels: work tiles, rings of tiles of K and V. `scores` has the softmax of a warp group.
//!
//! One warp group copies tiles by TMA; each of the others owns 64 queries. For `sm_90` and later.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod flash {
    /// A position in rings of `STAGES` stages: the stage, and the parity of its round.
    struct Position<const STAGES: u32> {
        stage: u32,
        phase: u32,
    }

    impl<const STAGES: u32> Position<STAGES> {
        /// The next stage; the parity changes where the ring starts again: `add`, `setp`, and under it `mov` and `xor`.
        fn advance(&mut self) {
            self.stage += 1;
            if self.stage == STAGES {
                self.stage = 0;
                self.phase = self.phase ^ 1;
            }
            cut!(self.stage < STAGES);
        }
    }

    /// A ring of `STAGES` tiles of K or of V, and its barriers. A tile has `PARTS` parts of `PART` bytes, whose rows are 128 bytes.
    struct Ring<const STAGES: u32, const PARTS: u32, const PART: u32> {
        tiles: u32,
        full: u32,
        empty: u32,
    }

    impl<const STAGES: u32, const PARTS: u32, const PART: u32> Ring<STAGES, PARTS, PART> {
        /// The ring of these tiles.
        fn new(
            tiles: Shared<[[[u8; PART]; PARTS]; STAGES]>,
            barriers: Shared<pipeline::Barriers<STAGES>>,
        ) -> Ring<STAGES, PARTS, PART> {
            Ring { tiles, full: barriers.full, empty: barriers.empty }
        }

        /// Initializes the barriers, in one thread: each of `READERS` warps releases a stage. `mbarrier.init`.
        fn init<const READERS: u32>(&self) {
            for i in 0..STAGES {
                mbarrier::init(self.full + 8 * i, 1);
                mbarrier::init(self.empty + 8 * i, READERS);
            }
        }

        /// The same for stages that `FILLERS` warps fill.
        fn init_filled<const FILLERS: u32, const READERS: u32>(&self) {
            for i in 0..STAGES {
                mbarrier::init(self.full + 8 * i, FILLERS);
                mbarrier::init(self.empty + 8 * i, READERS);
            }
        }

        /// Begins to copy the tile of a head whose first row is `token`, `COLUMNS` elements for each part, when its stage is empty.
        fn load<const COLUMNS: u32>(&self, map: TensorMap, at: &Position<STAGES>, head: u32, token: u32, batch: u32) {
            let (bar, to): (u32, u32) = (self.full + 8 * at.stage, self.tiles + at.stage * (PARTS * PART));
            mbarrier::wait(self.empty + 8 * at.stage, at.phase ^ 1);
            mbarrier::arrive_expect(bar, PARTS * PART);
            for i in 0..PARTS {
                tma::load_4d(to + i * PART, map, [COLUMNS * i, head, token, batch], bar);
            }
        }

        /// Waits until a tile is there: `mbarrier.try_wait.parity` in a loop.
        fn wait(&self, at: &Position<STAGES>) {
            mbarrier::wait(self.full + 8 * at.stage, at.phase);
        }

        /// Waits until a stage is empty: `mbarrier.try_wait.parity` in a loop.
        fn wait_empty(&self, at: &Position<STAGES>) {
            mbarrier::wait(self.empty + 8 * at.stage, at.phase ^ 1);
        }

        /// One lane of each warp signals that the warp has filled its part of a stage: `setp`, and under it `mbarrier.arrive`.
        fn fill(&self, stage: u32) {
            if laneid == 0 {
                mbarrier::arrive(self.full + 8 * stage);
            }
        }

        /// One lane of each warp signals that the warp has read a stage: `setp`, and under it `mbarrier.arrive`.
        fn release(&self, stage: u32) {
            if laneid == 0 {
                mbarrier::arrive(self.empty + 8 * stage);
            }
        }

        /// The rows of a tile from number `row` on become zeros, also for `wgmma`, by `count` threads that call it: `st.shared.v4` in a loop and
        /// `fence.proxy.async`. `thread` is the number of this one. A barrier has to follow.
        fn clear_rows(&self, stage: u32, row: u32, thread: u32, count: u32) {
            let tile: u32 = self.tiles + stage * (PARTS * PART);
            let mut at: u32 = row * 128 + thread * 16;
            while at < PART {
                let to: u32 = tile + at;
                for i in 0..PARTS {
                    ptx! { st.shared.v4.u32 [to + i * PART], {0, 0, 0, 0}; }
                }
                at += count * 16;
            }
            tma::fence();
        }
    }

    /// The queries of `GROUPS` warp groups, 64 of each in `PARTS` parts with rows of `WIDTH` swizzled bytes, and two barriers for each group: its
    /// queries are there, and it has read them.
    struct Queries<const GROUPS: u32, const PARTS: u32, const WIDTH: u32> {
        tile: u32,
        full: u32,
        empty: u32,
    }

    impl<const GROUPS: u32, const PARTS: u32, const WIDTH: u32> Queries<GROUPS, PARTS, WIDTH> {
        /// The queries in this memory.
        fn new(
            tile: Shared<[[[u8; 64 * WIDTH]; GROUPS]; PARTS]>,
            barriers: Shared<pipeline::Barriers<GROUPS>>,
        ) -> Queries<GROUPS, PARTS, WIDTH> {
            Queries { tile, full: barriers.full, empty: barriers.empty }
        }

        /// Initializes the barriers, in one thread: `mbarrier.init`.
        fn init(&self) {
            for i in 0..GROUPS {
                mbarrier::init(self.full + 8 * i, 1);
                mbarrier::init(self.empty + 8 * i, 4);
            }
        }

        /// Begins to copy the queries of each group for work tile number `turn`, `COLUMNS` elements for each part, when it has read those before.
        fn load<const COLUMNS: u32>(&self, map: TensorMap, work: &WorkTile, turn: u32) {
            for group in 0..GROUPS {
                let bar: u32 = self.full + 8 * group;
                mbarrier::wait(self.empty + 8 * group, turn & 1 ^ 1);
                mbarrier::arrive_expect(bar, 64 * PARTS * WIDTH);
                for i in 0..PARTS {
                    let to: u32 = self.tile + (i * GROUPS + group) * (64 * WIDTH);
                    tma::load_4d(to, map, [COLUMNS * i, work.head, work.first + 64 * group, work.batch], bar);
                }
            }
        }

        /// Waits for the queries of a group: `mbarrier.try_wait.parity` in a loop.
        fn wait(&self, group: u32, turn: u32) {
            mbarrier::wait(self.full + 8 * group, turn & 1);
        }

        /// One lane of each warp of a group signals that the warp has read the queries: `setp`, and under it `mbarrier.arrive`.
        fn release(&self, group: u32) {
            if laneid == 0 {
                mbarrier::arrive(self.empty + 8 * group);
            }
        }
    }

    /// A work tile: queries from `first` on of a head of a sequence, and the number of tiles of keys that they see. Without a tile there is
    /// no more work.
    #[align(16)]
    struct WorkTile {
        first: u32,
        head: u32,
        batch: u32,
        blocks: u32,
    }

    impl WorkTile {
        /// No work.
        fn none() -> WorkTile {
            WorkTile { first: 0, head: 0, batch: 0, blocks: 0 }
        }
    }

    /// The keys of a work tile, if they are not all of a tensor: the number of the first tile, the row of the tensor in which the
    /// sequence's queries begin, and the numbers of its queries and keys.
    struct Bounds {
        begin: u32,
        start: u32,
        queries: u32,
        keys: u32,
    }

    impl Bounds {
        /// Nothing.
        fn none() -> Bounds {
            Bounds { begin: 0, start: 0, queries: 0, keys: 0 }
        }
    }

    /// Two slots for work tiles on their way from the thread that claims them to the warp groups, and their barriers. With `BOUNDED` = 1
    /// bounds go with them.
    struct Slots<const BOUNDED: u32> {
        work: Shared<[WorkTile; 2 + 2 * BOUNDED]>,
        full: u32,
        empty: u32,
    }

    impl<const BOUNDED: u32> Slots<BOUNDED> {
        /// The slots in this memory.
        fn new(work: Shared<[WorkTile; 2 + 2 * BOUNDED]>, barriers: Shared<pipeline::Barriers<2>>) -> Slots<BOUNDED> {
            Slots { work, full: barriers.full, empty: barriers.empty }
        }

        /// Initializes the barriers, in one thread: each of `READERS` warps receives each work tile. `mbarrier.init`.
        fn init<const READERS: u32>(&self) {
            for i in 0..2 {
                mbarrier::init(self.full + 8 * i, 1);
                mbarrier::init(self.empty + 8 * i, READERS);
            }
        }

        /// Sends work tile number `turn`, when its slot is empty: `mbarrier.try_wait.parity` in a loop, `st.shared.v4`, `mbarrier.arrive`.
        fn send(&self, work: &WorkTile, bounds: &Bounds, turn: u32) {
            let slot: u32 = turn & 1;
            mbarrier::wait(self.empty + 8 * slot, (turn >> 1) & 1 ^ 1);
            let to = self.work.at(slot);
            ptx! { st.shared.v4.u32 [to], {work.first, work.head, work.batch, work.blocks}; }
            if BOUNDED == 1 {
                ptx! { st.shared.v4.u32 [to + 32], {bounds.begin, bounds.start, bounds.queries, bounds.keys}; }
            }
            mbarrier::arrive(self.full + 8 * slot);
        }

        /// Waits for work tile number `turn`: `mbarrier.try_wait.parity` in a loop, `ld.shared.v4`, `bar.warp.sync`, `mbarrier.arrive`.
        fn receive(&self, work: &mut WorkTile, bounds: &mut Bounds, turn: u32) {
            let slot: u32 = turn & 1;
            mbarrier::wait(self.full + 8 * slot, (turn >> 1) & 1);
            let from = self.work.at(slot);
            ptx! { ld.shared.v4.u32 {work.first, work.head, work.batch, work.blocks}, [from]; }
            if BOUNDED == 1 {
                ptx! { ld.shared.v4.u32 {bounds.begin, bounds.start, bounds.queries, bounds.keys}, [from + 32]; }
            }
            warp::sync();
            if laneid == 0 {
                mbarrier::arrive(self.empty + 8 * slot);
            }
        }
    }

    /// The order in which blocks claim work tiles: `head_block` heads at a time, whose keys and values fit the second-level cache, and of
    /// these one tile of queries after the other.
    struct Order {
        tiles: u32,
        head_block: u32,
    }

    impl Order {
        /// The tile and the head of work tile `index`, heads of all sequences counted: two `div`, two `rem`.
        fn locate(&self, index: u32) -> (u32, u32) {
            let (number, inside): (u32, u32) =
                (index / (self.head_block * self.tiles), index % (self.head_block * self.tiles));
            (inside / self.head_block, number * self.head_block + inside % self.head_block)
        }
    }

    /// The tensor maps of Q, K and V.
    struct Maps {
        q: TensorMap,
        k: TensorMap,
        v: TensorMap,
    }

    /// If causal, query `i` sees the keys before `i` plus this number: the last query is aligned with the last key, unless `top_left` is 1.
    fn diagonal<const CAUSAL: u32>(top_left: u32, queries: u32, keys: u32) -> i32 {
        let offset: i32 = (top_left != 0).select(0, signed(keys - queries));
        if CAUSAL == 1 { offset + 1 } else { 0 }
    }

    /// Work tiles of `count` sequences of one length, with tiles of `ROWS` queries and `KEYS` keys. If `CAUSAL` = 1, query `i` sees the keys before
    /// `i` plus `high`.
    struct Dense<const ROWS: u32, const KEYS: u32, const CAUSAL: u32> {
        count: u32,
        heads: u32,
        queries: u32,
        keys: u32,
        high: i32,
        head_block: u32,
    }

    impl<const ROWS: u32, const KEYS: u32, const CAUSAL: u32> Dense<ROWS, KEYS, CAUSAL> {
        /// Work tile `index`: if causal, the queries that see the most keys first, so that all blocks end at about the same time.
        fn work_tile(&self, index: u32) -> WorkTile {
            let order = Order { tiles: (self.queries + (ROWS - 1)) / ROWS, head_block: self.head_block };
            let (row, column): (u32, u32) = order.locate(index);
            let tile: u32 = if CAUSAL == 1 { order.tiles - 1 - row } else { row };
            let first: u32 = tile * ROWS;
            let mut seen: i32 = signed(self.keys);
            if CAUSAL == 1 {
                seen = seen.min(signed(first + ROWS) + self.high - 1);
            }
            // Without a key there is one tile, all of it hidden.
            let mut blocks: u32 = unsigned(seen.max(1) + (KEYS - 1) as i32) / KEYS;
            let batch: u32 = column / self.heads;
            blocks = (batch < self.count).select(blocks, 0);
            WorkTile { first, head: column % self.heads, batch, blocks }
        }

        /// Claims the number of a work tile behind those that the blocks begin with; the last claim brings the counter back to 0. `atom.inc`.
        fn claim(&self, tile_counter: u64) -> u32 {
            let last: u32 = (self.queries + (ROWS - 1)) / ROWS * self.heads * self.count - 1;
            let claimed: u32;
            ptx! { atom.relaxed.gpu.global.inc.u32 claimed, [tile_counter], last; }
            nctaid.x + claimed
        }
    }

    /// A batch of `count` sequences, packed if `variable` is 1 (`attention::Sequence::locate`): cumulative lengths of Q and K, tokens of the tensors of
    /// both, and of the longest sequences.
    struct Batch {
        starts: [Global<i32>; 2],
        variable: u32,
        count: u32,
        tokens: [u32; 2],
        longest: [u32; 2],
    }

    /// Work tiles of `heads` heads and tiles of `ROWS` queries and `KEYS` keys, one sequence after the other. `before` are those of earlier
    /// sequences than the current one, which has `tiles` of queries.
    struct Sequences<const ROWS: u32, const KEYS: u32> {
        batch: Batch,
        heads: u32,
        number: u32,
        before: u32,
        tiles: u32,
        q: attention::Sequence,
        k: attention::Sequence,
    }

    impl<const ROWS: u32, const KEYS: u32> Sequences<ROWS, KEYS> {
        /// The first sequence.
        fn new(batch: Batch, heads: u32) -> Sequences<ROWS, KEYS> {
            let q = attention::Sequence { start: 0, len: 0 };
            let k = attention::Sequence { start: 0, len: 0 };
            let mut first = Sequences::<ROWS, KEYS> { batch, heads, number: 0, before: 0, tiles: 0, q, k };
            first.locate();
            first
        }

        /// The extents of the current sequence.
        fn locate(&mut self) {
            let (all, number): (u32, u32) = (self.batch.variable, self.number);
            self.q = attention::Sequence::locate(
                self.batch.starts[0],
                all,
                number,
                self.batch.tokens[0],
                self.batch.longest[0],
            );
            self.k = attention::Sequence::locate(
                self.batch.starts[1],
                all,
                number,
                self.batch.tokens[1],
                self.batch.longest[1],
            );
            self.tiles = (self.q.len + (ROWS - 1)) / ROWS;
        }

        /// Moves on to the sequence of work tile `index`; behind the last work tile it has no tiles.
        fn seek(&mut self, index: u32) {
            let mut end: u32 = self.before + self.tiles * self.heads;
            while index >= end {
                self.before = end;
                self.number += 1;
                if self.number >= self.batch.count {
                    self.tiles = 0;
                    break;
                }
                self.locate();
                end = self.before + self.tiles * self.heads;
            }
        }

        /// Work tile `index`, which is one of this sequence, late queries first, `head_block` heads at a time. Without a key that they see there is one tile,
        /// all of it hidden.
        fn work_tile(&self, index: u32, head_block: u32, top_left: u32, left: i32, right: i32) -> (WorkTile, Bounds) {
            let order = Order { tiles: self.tiles.max(1), head_block };
            let (row, head): (u32, u32) = order.locate(index - self.before);
            let first: u32 = (order.tiles - 1 - row) * ROWS;
            let mask = attention::Mask::new(self.q.len, self.k.len, top_left, left, right);
            let (mut begin, mut end): (u32, u32) = mask.tiles::<KEYS>(first, (first + ROWS).min(self.q.len) - 1);
            let blind: pred = begin >= end;
            begin = blind.select(0, begin);
            end = blind.select(1, end);
            let blocks: u32 = (self.tiles == 0).select(0, end - begin);
            // Packed sequences are one for the tensor maps.
            let batch: u32 = (self.batch.variable != 0).select(0, self.number);
            let bounds = Bounds { begin, start: self.q.start, queries: self.q.len, keys: self.k.len };
            (WorkTile { first, head, batch, blocks }, bounds)
        }
    }

    /// Called by one thread of each block after its last claim: the last block resets the two words of `tile_counter` to 0. `atom.inc`, and under a
    /// predicate `st`.
    fn reset_counter(tile_counter: u64) {
        let (last, mut ended): (u32, u32) = (nctaid.x - 1, 0);
        ptx! { atom.acq_rel.gpu.global.inc.u32 ended, [tile_counter + 4], last; }
        if ended == last {
            ptx! { st.relaxed.gpu.global.u32 [tile_counter], 0; }
        }
    }
}

//! Forward on Hopper: TMA, `wgmma`, warp specialization, persistent blocks.
//!
//! One warp group brings tiles of K and V by TMA into two rings; each of the others owns 64 queries. A group's next scores are on
//! the tensor cores together with its last product with V, and it computes the exponentials of the scores while that product is
//! computed (FlashAttention-3, Shah et al., 2024).
//!
//! Exponentials are relative to the largest score of the first tile of a row, and not of all tiles so far: what is relative to it cancels
//! when O is divided by the sums. So nobody looks for the largest score of a later tile, which costs as much as the exponentials
//! themselves. Only if an exponential would not fit 16 bits, which the sums show, a warp computes its scores of the tile once more, and
//! takes their largest one. Rows of V of more than 128 elements have the usual running maximum: their tiles have few keys, and the loader
//! needs the tiles of K back before the exponentials.
//!
//! A block computes one tile of queries after the other, and claims the next one by a counter in memory. The results of a tile leave while
//! the first scores of the next one are on the tensor cores.

use crate::attention::problem::Problem;
use ptx_launch::prelude::*;

/// The kernel and its parts.
#[ptx_module(arch = "sm_90a", params(Problem))]
pub(crate) mod kernels {
    use super::Problem;

    /// Extents of the tiles.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Config {
        /// Most elements of a row of Q and K, and of V: all of them, unless `masked`.
        pub head: u32,
        pub head_v: u32,
        /// Warp groups that multiply, 64 queries each.
        pub groups: u32,
        /// Keys of a tile.
        pub keys: u32,
        /// 1 if a query sees no key behind its own, else 0.
        pub causal: u32,
        /// 1 for packed sequences, windows, a soft cap and any number of elements, as the call says; then `causal` is 0.
        pub masked: u32,
        /// Tiles of K, and of V, in shared memory.
        pub stages: u32,
    }

    impl Config {
        /// Queries of a block.
        pub(crate) const fn rows(&self) -> u32 {
            64 * self.groups
        }

        /// Bytes of shared memory: Q and the rings.
        pub(crate) const fn shared(&self) -> u32 {
            self.parts() * self.q_part() + self.stages * (self.parts() + self.parts_v()) * self.kv_part()
        }

        /// Parts of 64 columns of a tile of Q or K, whose rows are 128 bytes.
        const fn parts(&self) -> u32 {
            self.head.div_ceil(64)
        }

        /// The same of V.
        const fn parts_v(&self) -> u32 {
            self.head_v.div_ceil(64)
        }

        /// Bytes of a part of Q.
        const fn q_part(&self) -> u32 {
            self.rows() * 128
        }

        /// Bytes of a part of K or V.
        const fn kv_part(&self) -> u32 {
            self.keys * 128
        }

        /// Groups of 8 columns of P whose exponentials hide the product with V: the more, the wider its rows are. None in rows of more than 128
        /// elements.
        const fn hiding(&self) -> u32 {
            if self.head_v > 128 { 0 } else { self.keys * self.head_v / 2048 }
        }

        /// Registers of a thread that multiplies.
        const fn many(&self) -> u32 {
            if self.groups == 2 { 240 } else { 160 }
        }

        /// Registers of a thread that copies.
        const fn few(&self) -> u32 {
            if self.groups == 2 { 24 } else { 32 }
        }
    }

    /// The shared memory of a block.
    struct Memory<const C: Config> {
        q: flash::Queries<{ C.groups }, { C.parts() }, 128>,
        slots: flash::Slots<{ C.masked }>,
        k: flash::Ring<{ C.stages }, { C.parts() }, { C.kv_part() }>,
        v: flash::Ring<{ C.stages }, { C.parts_v() }, { C.kv_part() }>,
    }

    impl<const C: Config> Memory<C> {
        /// Q, the tiles of K, those of V; and behind Q's barrier those of the rings.
        fn new(tiles: u32, barriers: u32, work: Shared<[flash::Work; 2 + 2 * C.masked]>) -> Memory<C> {
            let k_tiles: u32 = tiles + C.parts() * C.q_part();
            let k_full: u32 = barriers + 16 * C.groups + 32;
            Memory {
                q: flash::Queries::new(tiles, barriers),
                slots: flash::Slots::new(work, barriers + 16 * C.groups),
                k: flash::Ring::new(k_tiles, k_full),
                v: flash::Ring::new(k_tiles + C.stages * C.parts() * C.kv_part(), k_full + 16 * C.stages),
            }
        }

        /// Makes the barriers, by one thread.
        fn init(&self) {
            self.q.init();
            self.slots.init::<{ 4 * C.groups }>();
            self.k.init::<{ 4 * C.groups }>();
            self.v.init::<{ 4 * C.groups }>();
            mbarrier::fence_init();
        }

        /// Begins to copy the queries of a piece from row `rows[0]` of the tensor on, and its keys and values from row `rows[1]` on, the last tile
        /// first. The first keys come before the queries, for these are needed longer.
        fn load(
            &self,
            maps: &flash::Maps,
            at: &mut flash::Position<{ C.stages }>,
            work: &flash::Work,
            rows: [u32; 2],
            head: u32,
            phase: u32,
        ) {
            let mut block: u32 = work.blocks - 1;
            self.k.load::<64>(maps.k, at, head, rows[1] + block * C.keys, work.batch);
            let queries = flash::Work { first: rows[0], head: work.head, batch: work.batch, blocks: 0 };
            self.q.load::<64>(maps.q, &queries, phase);
            self.v.load::<64>(maps.v, at, head, rows[1] + block * C.keys, work.batch);
            at.advance();
            while block > 0 {
                block -= 1;
                self.k.load::<64>(maps.k, at, head, rows[1] + block * C.keys, work.batch);
                self.v.load::<64>(maps.v, at, head, rows[1] + block * C.keys, work.batch);
                at.advance();
            }
        }
    }

    /// If causal, query `i` sees the keys before `i` plus this number.
    fn high<const C: Config>(p: &Problem) -> i32 {
        flash::diagonal::<{ C.causal }>(p.top_left, p.tokens_q, p.tokens_k)
    }

    /// The pieces of work.
    fn pieces<const C: Config>(p: &Problem, section: u32) -> flash::Dense<{ C.rows() }, { C.keys }, { C.causal }> {
        let (count, heads, queries, keys): (u32, u32, u32, u32) = (p.batch, p.heads, p.queries, p.tokens_k);
        flash::Dense { count, heads, queries, keys, high: high::<C>(p), section }
    }

    /// Loads Q, K and V of all pieces of work, and tells the groups which these are. A block claims the next piece when it begins one,
    /// so that blocks which are faster do more; the last claim brings the counter back to 0.
    fn load<const C: Config>(memory: &Memory<C>, maps: &flash::Maps, p: &Problem, section: u32, claims: u64) {
        let pieces = pieces::<C>(p, section);
        let mut at = flash::Position::<{ C.stages }> { stage: 0, phase: 0 };
        let (mut index, mut turn): (u32, u32) = (ctaid.x, 0);
        loop {
            let work = pieces.piece(index);
            memory.slots.send(&work, &flash::Bounds::none(), turn);
            if work.blocks == 0 {
                break;
            }
            let next: u32 = pieces.claim(claims);
            memory.load(maps, &mut at, &work, [work.first, 0], work.head / p.group, turn & 1);
            index = next;
            turn += 1;
        }
    }

    /// The same for packed sequences and windows.
    fn load_masked<const C: Config>(
        memory: &Memory<C>,
        maps: &flash::Maps,
        p: &Problem,
        starts: [Global<i32>; 2],
        section: u32,
        claims: u64,
    ) {
        let (tokens, longest): ([u32; 2], [u32; 2]) = ([p.tokens_q, p.tokens_k], [p.queries, p.keys]);
        let batch = flash::Batch { starts, variable: p.variable, count: p.batch, tokens, longest };
        let mut sequences = flash::Sequences::<{ C.rows() }, { C.keys }>::new(batch, p.heads);
        let mut at = flash::Position::<{ C.stages }> { stage: 0, phase: 0 };
        let (mut index, mut turn): (u32, u32) = (ctaid.x, 0);
        loop {
            sequences.seek(index);
            let (work, bounds): (flash::Work, flash::Bounds) =
                sequences.piece(index, section, p.top_left, p.left, p.right);
            memory.slots.send(&work, &bounds, turn);
            if work.blocks == 0 {
                break;
            }
            let claimed: u32;
            ptx! { atom.relaxed.gpu.global.add.u32 claimed, [claims], 1; }
            let rows: [u32; 2] = [bounds.start + work.first, sequences.k.start + bounds.begin * C.keys];
            memory.load(maps, &mut at, &work, rows, work.head / p.group, turn & 1);
            index = nctaid.x + claimed;
            turn += 1;
        }
        flash::claimed(claims);
    }

    /// O = softmax(Q · Kᵀ · scale) · V, and the logarithm of each row's sum of exponentials, by `blocks` blocks, not more than there are
    /// pieces of work. The maps are those of `q`, `k` and `v`: (batch, tokens, heads, elements) in boxes of 64 or `keys` tokens and 64
    /// elements; with cumulative lengths the batch is 1. The first words of `claims` are 0, and are 0 again at the end.
    #[ptx_kernel(
        block = 128 * (C.groups + 1),
        grid = blocks,
        shared = C.shared(),
        max_regs = 65536 / (128 * (C.groups + 1)) / 8 * 8,
        instances = [
            d64 = (bf16, Config { head: 64, head_v: 64, groups: 3, keys: 128, causal: 0, masked: 0, stages: 3 }),
            d64 = (f16, Config { head: 64, head_v: 64, groups: 3, keys: 128, causal: 0, masked: 0, stages: 3 }),
            d64_causal = (bf16, Config { head: 64, head_v: 64, groups: 3, keys: 128, causal: 1, masked: 0, stages: 3 }),
            d64_causal = (f16, Config { head: 64, head_v: 64, groups: 3, keys: 128, causal: 1, masked: 0, stages: 3 }),
            d128 = (bf16, Config { head: 128, head_v: 128, groups: 2, keys: 128, causal: 0, masked: 0, stages: 3 }),
            d128 = (f16, Config { head: 128, head_v: 128, groups: 2, keys: 128, causal: 0, masked: 0, stages: 3 }),
            d128_causal = (bf16, Config { head: 128, head_v: 128, groups: 2, keys: 128, causal: 1, masked: 0, stages: 3 }),
            d128_causal = (f16, Config { head: 128, head_v: 128, groups: 2, keys: 128, causal: 1, masked: 0, stages: 3 }),
            d256_causal = (bf16, Config { head: 256, head_v: 256, groups: 2, keys: 80, causal: 1, masked: 0, stages: 2 }),
            d256_causal = (f16, Config { head: 256, head_v: 256, groups: 2, keys: 80, causal: 1, masked: 0, stages: 2 }),
            d64_masked = (bf16, Config { head: 64, head_v: 64, groups: 3, keys: 128, causal: 0, masked: 1, stages: 3 }),
            d64_masked = (f16, Config { head: 64, head_v: 64, groups: 3, keys: 128, causal: 0, masked: 1, stages: 3 }),
            d96_masked = (bf16, Config { head: 96, head_v: 96, groups: 2, keys: 128, causal: 0, masked: 1, stages: 3 }),
            d96_masked = (f16, Config { head: 96, head_v: 96, groups: 2, keys: 128, causal: 0, masked: 1, stages: 3 }),
            d128_masked = (bf16, Config { head: 128, head_v: 128, groups: 2, keys: 128, causal: 0, masked: 1, stages: 3 }),
            d128_masked = (f16, Config { head: 128, head_v: 128, groups: 2, keys: 128, causal: 0, masked: 1, stages: 3 }),
            d192_masked = (bf16, Config { head: 192, head_v: 128, groups: 2, keys: 128, causal: 0, masked: 1, stages: 2 }),
            d192_masked = (f16, Config { head: 192, head_v: 128, groups: 2, keys: 128, causal: 0, masked: 1, stages: 2 }),
            d256_masked = (bf16, Config { head: 256, head_v: 256, groups: 2, keys: 80, causal: 0, masked: 1, stages: 2 }),
            d256_masked = (f16, Config { head: 256, head_v: 256, groups: 2, keys: 80, causal: 0, masked: 1, stages: 2 }),
        ],
        requires(
            p.covers([q.len(), k.len(), v.len(), out.len(), lse.len(), 0]),
            p.separates(starts_q.len(), starts_k.len()),
            section > 0 && p.heads % section == 0 && blocks > 0 && claims.len() > 1
        )
    )]
    pub fn forward<T, const C: Config>(
        q_map: TensorMap,
        k_map: TensorMap,
        v_map: TensorMap,
        q: &[T],
        k: &[T],
        v: &[T],
        out: &mut [T],
        lse: &mut [f32],
        claims: &mut [u32],
        p: Problem,
        section: u32,
        blocks: u32,
        starts_q: &[i32],
        starts_k: &[i32],
    ) {
        #[shared(dynamic, align = 1024)]
        let tiles: [u8];
        #[shared]
        let barriers: [u64; 4 + 2 * C.groups + 4 * C.stages];
        #[shared(align = 16)]
        let slots: [flash::Work; 2 + 2 * C.masked];
        let (tiles_at, barriers_at): (u32, u32) = (tiles, barriers);
        let memory = Memory::<C>::new(tiles_at, barriers_at, slots);
        if tid.x == 0 {
            memory.init();
        }
        block::sync();
        if tid.x < 128 {
            wgmma::fewer_registers::<{ C.few() }>();
            if tid.x == 0 {
                let (maps, counter): (flash::Maps, u64) = (flash::Maps { q: q_map, k: k_map, v: v_map }, claims);
                if C.masked == 1 {
                    load_masked::<C>(&memory, &maps, &p, [starts_q, starts_k], section, counter);
                } else {
                    load::<C>(&memory, &maps, &p, section, counter);
                }
            }
        } else {
            wgmma::more_registers::<{ C.many() }>();
            let mut consumer = Consumer::<T, C>::new(&memory, &p);
            let (to, lse_to): (u64, u64) = (out, lse);
            consumer.run(&memory, &p, to, lse_to);
        }
    }

    /// State of a warp group that multiplies. This thread has two rows, 8 apart; of 8 keys it holds the scores of two.
    struct Consumer<T, const C: Config> {
        group: u32,
        /// The first of this thread's rows and of the group's, plus the keys that query 0 sees behind key 0; without them if masked.
        own: i32,
        top: i32,
        mask: attention::Mask,
        q_rows: u64,
        k_rows: u64,
        v_rows: u64,
        exponent: f32,
        s: [f32; C.keys / 2],
        p: [b32; C.keys / 4],
        o: [f32; C.head_v / 2],
        softmax: scores::Softmax<8, 0>,
    }

    impl<T, const C: Config> Consumer<T, C> {
        fn new(memory: &Memory<C>, p: &Problem) -> Consumer<T, C> {
            let group: u32 = warp::broadcast(tid.x / 128 - 1, 0);
            let (s, packed, o): ([f32; C.keys / 2], [b32; C.keys / 4], [f32; C.head_v / 2]);
            for i in 0..C.keys / 2 {
                s[i] = 0.0;
            }
            for i in 0..C.head_v / 2 {
                o[i] = 0.0;
            }
            for i in 0..C.keys / 4 {
                packed[i] = 0;
            }
            let mut exponent: f32 = p.exponent;
            if C.masked == 1 {
                // Scores are those before the cap, and the cap is a part of the exponent.
                exponent = (p.soft_cap > 0.0).select(p.exponent * p.soft_cap, p.exponent);
            }
            Consumer {
                group,
                own: 0,
                top: 0,
                mask: attention::Mask { columns: 0, low: 0, high: 0 },
                q_rows: wgmma::descriptor_k128(memory.q.tile + group * (64 * 128)),
                k_rows: wgmma::descriptor_k128(memory.k.tiles),
                v_rows: wgmma::descriptor::<{ C.kv_part() }, 1024, 128>(memory.v.tiles),
                exponent,
                s,
                p: packed,
                o,
                softmax: scores::Softmax::new(),
            }
        }

        /// All pieces of work, if there are any: empty sequences may leave a block without one.
        fn run(&mut self, memory: &Memory<C>, p: &Problem, out: u64, lse: u64) {
            let mut work = flash::Work::none();
            let mut bounds = flash::Bounds::none();
            memory.slots.receive(&mut work, &mut bounds, 0);
            if C.masked == 1 {
                if work.blocks > 0 {
                    self.run_pieces(memory, &mut work, &mut bounds, p, [out, lse]);
                }
            } else {
                self.run_pieces(memory, &mut work, &mut bounds, p, [out, lse]);
            }
        }

        /// All pieces of work from `work` on. While the results of one leave, the first scores of the next are on the tensor cores.
        fn run_pieces(
            &mut self,
            memory: &Memory<C>,
            work: &mut flash::Work,
            bounds: &mut flash::Bounds,
            p: &Problem,
            to: [u64; 2],
        ) {
            let (out, lse): (u64, u64) = (to[0], to[1]);
            let mut at = flash::Position::<{ C.stages }> { stage: 0, phase: 0 };
            let mut turn: u32 = 0;
            memory.q.wait(self.group, 0);
            self.skip(memory, work, &mut at, p);
            memory.k.wait(&at);
            wgmma::fence();
            self.scores(at.stage);
            wgmma::commit();
            wgmma::wait::<0>();
            loop {
                if C.masked == 1 {
                    self.mask = attention::Mask::new(bounds.queries, bounds.keys, p.top_left, p.left, p.right);
                    self.begin(work, 0);
                } else {
                    self.begin(work, high::<C>(p));
                }
                self.walk(memory, work, bounds.begin, &mut at, p);
                let (first, head, batch): (u32, u32, u32) = (work.first, work.head, work.batch);
                let done = flash::Work { first, head, batch, blocks: 0 };
                let (start, queries): (u32, u32) = (bounds.start, bounds.queries);
                let old = flash::Bounds { begin: 0, start, queries, keys: 0 };
                turn += 1;
                memory.slots.receive(work, bounds, turn);
                if work.blocks == 0 {
                    self.finish(&done, &old, p, out, lse);
                    break;
                }
                memory.q.wait(self.group, turn & 1);
                self.skip(memory, work, &mut at, p);
                memory.k.wait(&at);
                wgmma::fence();
                self.scores(at.stage);
                wgmma::commit();
                self.finish(&done, &old, p, out, lse);
                wgmma::wait::<0>();
            }
        }

        /// If causal, gives back the last tiles of a piece, which later groups see and this one does not.
        fn skip(
            &self,
            memory: &Memory<C>,
            work: &mut flash::Work,
            at: &mut flash::Position<{ C.stages }>,
            p: &Problem,
        ) {
            if C.causal == 1 {
                let seen: i32 = (signed(work.first + self.group * 64 + 63) + high::<C>(p)).min(signed(p.tokens_k));
                let own: u32 = unsigned(seen.max(1) + (C.keys - 1) as i32) / C.keys;
                while work.blocks > own {
                    memory.k.wait(at);
                    memory.k.release(at.stage);
                    memory.v.wait(at);
                    memory.v.release(at.stage);
                    at.advance();
                    work.blocks -= 1;
                }
            }
        }

        /// A new piece of work: nothing is summed yet.
        fn begin(&mut self, work: &flash::Work, high: i32) {
            let first: u32 = work.first + self.group * 64;
            self.top = signed(first) + high;
            self.own = signed(first + tid.x / 32 % 4 * 16 + laneid / 4) + high;
            for half in 0..2 {
                self.softmax.clear::<half>();
            }
            for i in 0..C.head_v / 2 {
                self.o[i] = 0.0;
            }
        }

        /// All tiles, the scores of whose first one are there: scores of the next one beside the product with V of the one before.
        fn walk(
            &mut self,
            memory: &Memory<C>,
            work: &flash::Work,
            begin: u32,
            at: &mut flash::Position<{ C.stages }>,
            p: &Problem,
        ) {
            // Numbers of tiles count from the first one of the walk.
            let mut block: u32 = work.blocks - 1;
            self.release(memory, at.stage, block);
            if C.masked == 1 {
                self.clear_values(memory, at, (begin + block) * C.keys, p.variable);
            }
            self.mask(begin, block, p);
            self.softmax.update(&mut self.s, self.exponent);
            scores::pack::<T, { C.keys / 2 }>(&mut self.p, &self.s);
            while block > 0 {
                block -= 1;
                let (v_stage, v_phase): (u32, u32) = (at.stage, at.phase);
                at.advance();
                memory.k.wait(at);
                wgmma::fence();
                self.scores(at.stage);
                wgmma::commit();
                mbarrier::wait(memory.v.full + 8 * v_stage, v_phase);
                self.values(v_stage);
                wgmma::commit();
                wgmma::wait::<1>();
                if C.hiding() == 0 {
                    self.release(memory, at.stage, block);
                    self.mask(begin, block, p);
                    self.weigh_exactly(memory, v_stage);
                } else {
                    self.mask(begin, block, p);
                    let mut sums: [f32; 2] = [0.0, 0.0];
                    if self.weigh(memory, v_stage, &mut sums) {
                        self.weigh_again(memory, at.stage, begin, block, p);
                    } else {
                        self.softmax.keep(&sums);
                    }
                    self.release(memory, at.stage, block);
                }
            }
            memory.v.wait(at);
            wgmma::fence();
            self.values(at.stage);
            wgmma::commit();
            wgmma::wait::<0>();
            memory.v.release(at.stage);
            at.advance();
        }

        /// P of a tile, relative to the largest scores of earlier ones, and its sums; meanwhile the product with V of the tile before ends.
        /// Returns true if the largest scores have grown by too much.
        fn weigh(&mut self, memory: &Memory<C>, v_stage: u32, sums: &mut [f32; 2]) -> pred {
            let mut wrong: pred = self.softmax.guess::<0, { C.hiding() }>(&mut self.s, self.exponent, sums);
            // Behind a branch, so that ptxas does not wait before the exponentials.
            if !wrong {
                wgmma::wait::<0>();
                memory.v.release(v_stage);
                wrong = self.softmax.guess::<{ C.hiding() }, { C.keys / 8 }>(&mut self.s, self.exponent, sums);
                scores::pack::<T, { C.keys / 2 }>(&mut self.p, &self.s);
            } else {
                wgmma::wait::<0>();
                memory.v.release(v_stage);
            }
            wrong
        }

        /// P of a tile and earlier sums, relative to the largest scores of all tiles so far.
        fn weigh_exactly(&mut self, memory: &Memory<C>, v_stage: u32) {
            if self.softmax.update(&mut self.s, self.exponent) {
                wgmma::wait::<0>();
                self.softmax.shrink(&mut self.o);
            }
            // Behind a branch, so that ptxas does not wait before the exponentials.
            wgmma::wait::<0>();
            memory.v.release(v_stage);
            scores::pack::<T, { C.keys / 2 }>(&mut self.p, &self.s);
        }

        /// P of a tile whose largest scores have grown by too much, and earlier sums relative to these.
        fn weigh_again(&mut self, memory: &Memory<C>, stage: u32, begin: u32, block: u32, p: &Problem) {
            let row: u32 = self.group * 64 + tid.x / 32 % 4 * 16;
            let keys: u32 = memory.k.tiles + stage * (C.parts() * C.kv_part());
            scores::multiply::<T, { C.head }, { C.q_part() }, { C.kv_part() }>(&mut self.s, memory.q.tile, row, keys);
            self.mask(begin, block, p);
            self.softmax.update(&mut self.s, self.exponent);
            self.softmax.shrink(&mut self.o);
            scores::pack::<T, { C.keys / 2 }>(&mut self.p, &self.s);
        }

        /// Gives a tile of keys back, and behind the last one the queries.
        fn release(&self, memory: &Memory<C>, stage: u32, block: u32) {
            memory.k.release(stage);
            if block == 0 {
                memory.q.release(self.group);
            }
        }

        /// S = Q · Kᵀ: 64 rows and `keys` columns, 16 elements at a time.
        fn scores(&mut self, stage: u32) {
            const SHAPE: &str = wgmma::SHAPES_16[C.keys / 8 - 1];
            let k_rows: u64 = self.k_rows + (stage * (C.parts() * C.kv_part() / 16)) as u64;
            for i in 0..C.head / 16 {
                const PART: u64 = (i / 4) as u64;
                const STEP: u64 = (i % 4 * 2) as u64;
                const ADD: u32 = (i != 0) as u32;
                let a: u64 = self.q_rows + (PART * C.q_part() as u64 / 16 + STEP);
                let b: u64 = k_rows + (PART * C.kv_part() as u64 / 16 + STEP);
                ptx! { wgmma.mma_async.sync.aligned.{SHAPE}.f32.{T}.{T} {self.s[..]}, a, b, ADD, 1, 1, 0, 0; }
            }
        }

        /// O += P · V, 16 keys at a time: P in registers, V as it lies, keys by columns.
        fn values(&mut self, stage: u32) {
            const SHAPE: &str = wgmma::SHAPES_16[C.head_v / 8 - 1];
            let v_rows: u64 = self.v_rows + (stage * (C.parts_v() * C.kv_part() / 16)) as u64;
            for i in 0..C.keys / 16 {
                let b: u64 = v_rows + (i * (16 * 128 / 16)) as u64;
                ptx! {
                    wgmma.mma_async.sync.aligned.{SHAPE}.f32.{T}.{T} {self.o[..]}, {self.p[4 * i..4 * i + 4]}, b, 1, 1, 1, 1;
                }
            }
        }

        /// Values behind the end of a packed sequence are another one's, perhaps not even numbers: they become zeros. Only the first tile of a
        /// walk, whose first key is `key`, has any.
        fn clear_values(&self, memory: &Memory<C>, at: &flash::Position<{ C.stages }>, key: u32, variable: u32) {
            if (variable != 0) & (key + C.keys > self.mask.columns) {
                memory.v.wait(at);
                memory.v.clear_rows(at.stage, self.mask.columns.max(key) - key, tid.x - 128, 128 * C.groups);
                barrier::sync::<{ 128 * C.groups }>(1);
            }
        }

        /// The cap of scores, and keys that a row does not see: those behind the last one and, if causal, behind the row's own, or outside of
        /// its window. Most tiles have none.
        fn mask(&mut self, begin: u32, block: u32, p: &Problem) {
            if C.masked == 1 {
                if p.soft_cap > 0.0 {
                    scores::bound(&mut self.s, p.scale);
                }
                let (first, column): (u32, u32) = (unsigned(self.top), (begin + block) * C.keys);
                if self.mask.hides(first, first + 63, column, column + C.keys) {
                    for half in 0..2 {
                        let own: i32 = self.own + 8 * half as i32;
                        let to: i32 = (own + self.mask.high).min(signed(self.mask.columns));
                        scores::hide_outside::<half, { C.keys / 2 }>(&mut self.s, column, own + self.mask.low, to);
                    }
                }
            } else {
                self.mask_dense(block, p.tokens_k);
            }
        }

        /// The same without a cap and a window.
        fn mask_dense(&mut self, block: u32, keys: u32) {
            let mut least: i32 = signed(keys);
            if C.causal == 1 {
                least = least.min(self.top);
            }
            if signed((block + 1) * C.keys) > least {
                for half in 0..2 {
                    let mut limit: i32 = signed(keys);
                    if C.causal == 1 {
                        limit = limit.min(self.own + 8 * half as i32);
                    }
                    scores::hide_from::<half, { C.keys / 2 }>(&mut self.s, block * C.keys, limit);
                }
            }
        }

        /// Divides O by the sums, and writes it and the logarithms of the sums; rows that see no key become zeros.
        fn finish(&mut self, work: &flash::Work, bounds: &flash::Bounds, p: &Problem, out: u64, lse: u64) {
            let row: u32 = work.first + self.group * 64 + tid.x / 32 % 4 * 16 + laneid / 4;
            for half in 0..2 {
                let (inverse, log): (f32, f32) = self.softmax.finish::<half>();
                let mut own: u32 = row + 8 * half;
                let mut queries: u32 = p.tokens_q;
                if C.masked == 1 {
                    queries = bounds.queries;
                }
                let inside: pred = own < queries;
                if C.masked == 1 {
                    own += bounds.start;
                }
                if p.logged != 0 {
                    let logarithm: f32 = self.softmax.logarithm::<half>(log, self.exponent);
                    let to: u64 = lse + attention::offset(p.lse, work.batch, own, work.head);
                    let writes: pred = inside & (laneid % 4 == 0);
                    ptx! { @writes st.global.f32 [to], logarithm; }
                }
                for i in 0..C.head_v / 4 {
                    self.o[i / 2 * 4 + 2 * half + i % 2] *= inverse;
                }
                let to: u64 = out + attention::offset(p.out, work.batch, own, work.head);
                scores::store_row::<T, half, { C.masked }, { C.head_v / 2 }>(&self.o, to, inside, p.dim_v);
            }
        }
    }
}

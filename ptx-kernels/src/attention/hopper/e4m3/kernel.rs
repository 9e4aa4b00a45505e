//! Forward with Q, K and V of `e4m3` on Hopper: the loops of [`forward`](super::super::forward), with products of 8 bits.
//!
//! `wgmma` reads operands of 8 bits along K alone, so that V must lie by columns. Three warps beside the one that loads turn each tile
//! of V in shared memory (`flash8`), in the order of keys in which threads hold their weights, as in FlashAttention-3 (Shah et al., 2024).
//!
//! The groups do not take turns at the tensor cores: that is faster here (docs/benchmarks/tried.md). Exponentials are scaled by 2⁶, so
//! that small ones are still normal numbers of `e4m3`.

use crate::attention::factors::Factors;
use crate::attention::problem::Problem;
use ptx_launch::prelude::*;

/// The kernel and its parts.
#[ptx_module(arch = "sm_90a", params(Problem, Factors))]
pub(crate) mod kernels {
    use super::{Factors, Problem};

    /// Extents of the tiles.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Config {
        /// Elements of a row of Q, K and V.
        pub head: u32,
        /// Warp groups that multiply, 64 queries each.
        pub groups: u32,
        /// Keys of a tile.
        pub keys: u32,
        /// 1 if a query sees no key behind its own, else 0.
        pub causal: u32,
    }

    /// Tiles of K, of V, and of V by columns, in shared memory.
    const STAGES: u32 = 2;

    /// Warps that turn tiles of V.
    const TURNERS: u32 = 3;

    impl Config {
        /// Queries of a block.
        pub(crate) const fn rows(&self) -> u32 {
            64 * self.groups
        }

        /// Bytes of shared memory: Q and the rings.
        pub(crate) const fn shared(&self) -> u32 {
            self.head * (self.rows() + 3 * STAGES * self.keys)
        }

        /// Elements of a row in a part of a tile, which are its swizzled bytes.
        pub(crate) const fn width(&self) -> u32 {
            if self.head < 128 { self.head } else { 128 }
        }

        /// Parts of a tile.
        const fn parts(&self) -> u32 {
            self.head / self.width()
        }

        /// Bytes of a part of K or V, and of a tile.
        const fn kv_part(&self) -> u32 {
            self.keys * self.width()
        }

        const fn kv_tile(&self) -> u32 {
            self.keys * self.head
        }

        /// Registers of a thread that multiplies, as an average, and of one that copies.
        const fn many(&self) -> u32 {
            if self.groups == 3 { 160 } else { 232 + self.head / 256 * 8 }
        }

        const fn average(&self) -> u32 {
            65536 / (128 * (self.groups + 1)) / 8 * 8
        }

        const fn few(&self) -> u32 {
            self.average() * (self.groups + 1) - self.many() * self.groups
        }
    }

    /// The shared memory of a block.
    struct Memory<const C: Config> {
        q: flash::Queries<{ C.groups }, { C.parts() }, { C.width() }>,
        slots: flash::Slots<0>,
        k: flash::Ring<STAGES, { C.parts() }, { C.kv_part() }>,
        v: flash::Ring<STAGES, { C.parts() }, { C.kv_part() }>,
        /// V by columns: for each 32 keys core matrices of 8 columns and 16 keys, the second 16 keys behind the first.
        turned: flash::Ring<STAGES, { C.parts() }, { C.kv_part() }>,
    }

    impl<const C: Config> Memory<C> {
        /// Q, the tiles of K, of V, and of V by columns; and behind Q's barriers those of the rings.
        fn new(tiles: u32, barriers: u32, work: Shared<[flash::Work; 2]>) -> Memory<C> {
            let k_tiles: u32 = tiles + C.rows() * C.head;
            let k_full: u32 = barriers + 16 * C.groups + 32;
            Memory {
                q: flash::Queries::new(tiles, barriers),
                slots: flash::Slots::new(work, barriers + 16 * C.groups),
                k: flash::Ring::new(k_tiles, k_full),
                v: flash::Ring::new(k_tiles + STAGES * C.kv_tile(), k_full + 16 * STAGES),
                turned: flash::Ring::new(k_tiles + 2 * STAGES * C.kv_tile(), k_full + 32 * STAGES),
            }
        }

        /// Makes the barriers, by one thread.
        fn init(&self) {
            self.q.init();
            self.slots.init::<{ 4 * C.groups + TURNERS }>();
            self.k.init::<{ 4 * C.groups }>();
            self.v.init::<TURNERS>();
            self.turned.init_filled::<TURNERS, { 4 * C.groups }>();
            mbarrier::fence_init();
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

    /// Loads Q, K and V of all pieces of work, and tells the other warps which these are: as in `forward`.
    fn load<const C: Config>(memory: &Memory<C>, maps: &flash::Maps, p: &Problem, section: u32, claims: u64) {
        let pieces = pieces::<C>(p, section);
        let mut at = flash::Position::<STAGES> { stage: 0, phase: 0 };
        let (mut index, mut turn): (u32, u32) = (ctaid.x, 0);
        loop {
            let work = pieces.piece(index);
            memory.slots.send(&work, &flash::Bounds::none(), turn);
            if work.blocks == 0 {
                break;
            }
            let next: u32 = pieces.claim(claims);
            let head: u32 = work.head / p.group;
            let mut block: u32 = work.blocks - 1;
            memory.k.load::<{ C.width() }>(maps.k, &at, head, block * C.keys, work.batch);
            memory.q.load::<{ C.width() }>(maps.q, &work, turn);
            memory.v.load::<{ C.width() }>(maps.v, &at, head, block * C.keys, work.batch);
            at.advance();
            while block > 0 {
                block -= 1;
                memory.v.load::<{ C.width() }>(maps.v, &at, head, block * C.keys, work.batch);
                memory.k.load::<{ C.width() }>(maps.k, &at, head, block * C.keys, work.batch);
                at.advance();
            }
            index = next;
            turn += 1;
        }
    }

    /// Turns the tiles of V of all pieces of work.
    fn turn_values<const C: Config>(memory: &Memory<C>) {
        let mut work = flash::Work::none();
        let mut bounds = flash::Bounds::none();
        let mut at = flash::Position::<STAGES> { stage: 0, phase: 0 };
        let mut turn: u32 = 0;
        loop {
            memory.slots.receive(&mut work, &mut bounds, turn);
            if work.blocks == 0 {
                break;
            }
            let mut block: u32 = work.blocks;
            while block > 0 {
                block -= 1;
                memory.v.wait(&at);
                memory.turned.wait_empty(&at);
                let stage: u32 = at.stage * C.kv_tile();
                let (from, to): (u32, u32) = (memory.v.tiles + stage, memory.turned.tiles + stage);
                flash8::turn_tile::<{ C.keys }, { C.head }, { C.width() }, 1, TURNERS>(from, to);
                // `wgmma` reads by the asynchronous proxy.
                tma::fence();
                warp::sync();
                memory.v.release(at.stage);
                memory.turned.fill(at.stage);
                at.advance();
            }
            turn += 1;
        }
    }

    /// O = softmax(Q · Kᵀ · scale) · V times the factors of the heads, and the logarithm of each row's sum of exponentials, by `blocks`
    /// blocks, not more than there are pieces of work. The maps are those of `q`, `k` and `v`: (batch, tokens, heads, elements) in boxes of
    /// 64 or `keys` tokens and `width` elements. The first word of `claims` is 0, and is 0 again at the end.
    #[ptx_kernel(
        block = 128 * (C.groups + 1),
        grid = blocks,
        shared = C.shared(),
        max_regs = C.average(),
        instances = [
            d64 = (bf16, Config { head: 64, groups: 3, keys: 160, causal: 0 }),
            d64 = (f16, Config { head: 64, groups: 3, keys: 160, causal: 0 }),
            d64_causal = (bf16, Config { head: 64, groups: 3, keys: 160, causal: 1 }),
            d64_causal = (f16, Config { head: 64, groups: 3, keys: 160, causal: 1 }),
            d128 = (bf16, Config { head: 128, groups: 2, keys: 224, causal: 0 }),
            d128 = (f16, Config { head: 128, groups: 2, keys: 224, causal: 0 }),
            d128_causal = (bf16, Config { head: 128, groups: 2, keys: 224, causal: 1 }),
            d128_causal = (f16, Config { head: 128, groups: 2, keys: 224, causal: 1 }),
            d256 = (bf16, Config { head: 256, groups: 2, keys: 128, causal: 0 }),
            d256 = (f16, Config { head: 256, groups: 2, keys: 128, causal: 0 }),
            d256_causal = (bf16, Config { head: 256, groups: 2, keys: 128, causal: 1 }),
            d256_causal = (f16, Config { head: 256, groups: 2, keys: 128, causal: 1 }),
        ],
        requires(
            p.covers([q.len(), k.len(), v.len(), out.len(), lse.len(), 0]),
            f.covers([q_factors.len(), k_factors.len(), v_factors.len()]),
            section > 0 && p.heads % section == 0 && blocks > 0 && claims.len() > 0
        )
    )]
    pub fn forward<T, const C: Config>(
        q_map: TensorMap,
        k_map: TensorMap,
        v_map: TensorMap,
        q: &[u8],
        k: &[u8],
        v: &[u8],
        q_factors: &[f32],
        k_factors: &[f32],
        v_factors: &[f32],
        out: &mut [T],
        lse: &mut [f32],
        claims: &mut [u32],
        p: Problem,
        f: Factors,
        section: u32,
        blocks: u32,
    ) {
        #[shared(dynamic, align = 1024)]
        let tiles: [u8];
        #[shared]
        let barriers: [u64; 4 + 2 * C.groups + 6 * STAGES];
        #[shared(align = 16)]
        let slots: [flash::Work; 2];
        let (tiles_at, barriers_at): (u32, u32) = (tiles, barriers);
        let memory = Memory::<C>::new(tiles_at, barriers_at, slots);
        if tid.x == 0 {
            memory.init();
        }
        block::sync();
        if tid.x < 128 {
            wgmma::fewer_registers::<{ C.few() }>();
            if tid.x >= 32 {
                turn_values::<C>(&memory);
            } else if tid.x == 0 {
                let (maps, counter): (flash::Maps, u64) = (flash::Maps { q: q_map, k: k_map, v: v_map }, claims);
                load::<C>(&memory, &maps, &p, section, counter);
            }
        } else {
            wgmma::more_registers::<{ C.many() }>();
            let factors: [u64; 3];
            factors = [q_factors, k_factors, v_factors];
            let descale = attention::Descale { factors, strides: [f.q, f.k, f.v], given: f.reach };
            let mut consumer = Consumer::<T, C>::new(&memory);
            let (to, lse_to): (u64, u64) = (out, lse);
            consumer.run(&memory, &p, &descale, to, lse_to);
        }
    }

    /// State of a warp group that multiplies. This thread has two rows, 8 apart; of 8 keys it holds the scores of two.
    struct Consumer<T, const C: Config> {
        group: u32,
        /// The first of this thread's rows, plus the keys that its query sees behind key 0.
        own: i32,
        /// The keys that the group's first query sees.
        top: i32,
        q_rows: u64,
        k_rows: u64,
        v_rows: u64,
        /// Of the head.
        exponent: f32,
        factor: f32,
        s: [f32; C.keys / 2],
        p: [b32; C.keys / 8],
        o: [f32; C.head / 2],
        softmax: scores::Softmax<2, 6>,
    }

    impl<T, const C: Config> Consumer<T, C> {
        fn new(memory: &Memory<C>) -> Consumer<T, C> {
            let group: u32 = warp::broadcast(tid.x / 128 - 1, 0);
            let s: [f32; C.keys / 2] = [0.0; C.keys / 2];
            let p: [b32; C.keys / 8] = [0; C.keys / 8];
            let o: [f32; C.head / 2] = [0.0; C.head / 2];
            Consumer {
                group,
                own: 0,
                top: 0,
                q_rows: wgmma::descriptor_k::<{ C.width() }>(memory.q.tile + group * (64 * C.width())),
                k_rows: wgmma::descriptor_k::<{ C.width() }>(memory.k.tiles),
                v_rows: wgmma::descriptor_plain::<0, 128, 256>(memory.turned.tiles),
                exponent: 0.0,
                factor: 0.0,
                s,
                p,
                o,
                softmax: scores::Softmax::new(),
            }
        }

        /// All pieces of work. While the results of one leave, the first scores of the next are on the tensor cores.
        fn run(&mut self, memory: &Memory<C>, p: &Problem, descale: &attention::Descale, out: u64, lse: u64) {
            let mut work = flash::Work::none();
            let mut bounds = flash::Bounds::none();
            let mut at = flash::Position::<STAGES> { stage: 0, phase: 0 };
            let mut turn: u32 = 0;
            memory.slots.receive(&mut work, &mut bounds, turn);
            let (mut score, mut factor): (f32, f32) = descale.of_head(work.batch, work.head / p.group);
            memory.q.wait(self.group, 0);
            memory.k.wait(&at);
            wgmma::fence();
            self.scores(0);
            wgmma::commit();
            wgmma::wait::<0>();
            loop {
                (self.exponent, self.factor) = (p.exponent * score, factor);
                self.begin(&work, high::<C>(p));
                self.walk(memory, &work, &mut at, p.tokens_k);
                let (first, head, batch): (u32, u32, u32) = (work.first, work.head, work.batch);
                let done = flash::Work { first, head, batch, blocks: 0 };
                turn += 1;
                memory.slots.receive(&mut work, &mut bounds, turn);
                if work.blocks == 0 {
                    self.finish(&done, p, out, lse);
                    break;
                }
                (score, factor) = descale.of_head(work.batch, work.head / p.group);
                memory.q.wait(self.group, turn);
                memory.k.wait(&at);
                wgmma::fence();
                self.scores(at.stage);
                wgmma::commit();
                self.finish(&done, p, out, lse);
                wgmma::wait::<0>();
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
            for i in 0..C.head / 2 {
                self.o[i] = 0.0;
            }
        }

        /// All tiles, the scores of whose first one are there: scores of the next one beside the product with V of the one before.
        fn walk(&mut self, memory: &Memory<C>, work: &flash::Work, at: &mut flash::Position<STAGES>, keys: u32) {
            let mut block: u32 = work.blocks - 1;
            self.release(memory, at.stage, block);
            self.mask(block, keys);
            self.softmax.update(&mut self.s, self.exponent);
            flash8::pack::<{ C.keys / 2 }>(&mut self.p, &self.s);
            while block > 0 {
                block -= 1;
                let (v_stage, v_phase): (u32, u32) = (at.stage, at.phase);
                at.advance();
                memory.k.wait(at);
                wgmma::fence();
                self.scores(at.stage);
                wgmma::commit();
                mbarrier::wait(memory.turned.full + 8 * v_stage, v_phase);
                self.values(v_stage);
                wgmma::commit();
                wgmma::wait::<1>();
                self.release(memory, at.stage, block);
                self.mask(block, keys);
                if self.softmax.update(&mut self.s, self.exponent) {
                    wgmma::wait::<0>();
                    self.softmax.shrink(&mut self.o);
                }
                // Behind a branch, so that ptxas does not wait before the exponentials.
                wgmma::wait::<0>();
                memory.turned.release(v_stage);
                flash8::pack::<{ C.keys / 2 }>(&mut self.p, &self.s);
            }
            memory.turned.wait(at);
            wgmma::fence();
            self.values(at.stage);
            wgmma::commit();
            wgmma::wait::<0>();
            memory.turned.release(at.stage);
            at.advance();
        }

        /// Gives a tile of keys back, and behind the last one the queries.
        fn release(&self, memory: &Memory<C>, stage: u32, block: u32) {
            memory.k.release(stage);
            if block == 0 {
                memory.q.release(self.group);
            }
        }

        /// S = Q · Kᵀ: 64 rows and `keys` columns, 32 elements at a time.
        fn scores(&mut self, stage: u32) {
            const SHAPE: &str = wgmma::SHAPES_8[C.keys / 8 - 1];
            const STEPS: u32 = C.width() / 32;
            let k_rows: u64 = self.k_rows + (stage * (C.kv_tile() / 16)) as u64;
            for i in 0..C.head / 32 {
                const PART: u64 = (i / STEPS) as u64;
                const STEP: u64 = (i % STEPS * 2) as u64;
                const ADD: u32 = (i != 0) as u32;
                let a: u64 = self.q_rows + (PART * (C.rows() * C.width() / 16) as u64 + STEP);
                let b: u64 = k_rows + (PART * C.kv_part() as u64 / 16 + STEP);
                ptx! { wgmma.mma_async.sync.aligned.{SHAPE}.f32.e4m3.e4m3 {self.s[..]}, a, b, ADD, 1, 1; }
            }
        }

        /// O += P · V, 32 keys at a time: P in registers, V by columns.
        fn values(&mut self, stage: u32) {
            const SHAPE: &str = wgmma::SHAPES_8[C.head / 8 - 1];
            let v_rows: u64 = self.v_rows + (stage * (C.kv_tile() / 16)) as u64;
            for i in 0..C.keys / 32 {
                let b: u64 = v_rows + (i * (32 * C.head / 16)) as u64;
                ptx! {
                    wgmma.mma_async.sync.aligned.{SHAPE}.f32.e4m3.e4m3 {self.o[..]}, {self.p[4 * i..4 * i + 4]}, b, 1, 1, 1;
                }
            }
        }

        /// Keys that a row does not see: those behind the last one and, if causal, behind the row's own. Most tiles have none.
        fn mask(&mut self, block: u32, keys: u32) {
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
        fn finish(&mut self, work: &flash::Work, p: &Problem, out: u64, lse: u64) {
            let row: u32 = work.first + self.group * 64 + tid.x / 32 % 4 * 16 + laneid / 4;
            for half in 0..2 {
                let (inverse, log): (f32, f32) = self.softmax.finish::<half>();
                let own: u32 = row + 8 * half;
                let inside: pred = own < p.tokens_q;
                if p.logged != 0 {
                    let logarithm: f32 = self.softmax.logarithm::<half>(log, self.exponent);
                    let to: u64 = lse + attention::offset(p.lse, work.batch, own, work.head);
                    let writes: pred = inside & (laneid % 4 == 0);
                    ptx! { @writes st.global.f32 [to], logarithm; }
                }
                let scale: f32 = inverse * self.factor;
                for i in 0..C.head / 4 {
                    self.o[i / 2 * 4 + 2 * half + i % 2] *= scale;
                }
                let to: u64 = out + attention::offset(p.out, work.batch, own, work.head);
                flash8::store_row::<T, half, { C.head / 2 }>(&self.o, to, inside);
            }
        }
    }
}

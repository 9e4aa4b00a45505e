//! Forward on Hopper: TMA, `wgmma`, warp specialization.
//!
//! One warp group brings tiles of K and V by TMA into two rings; each of the others owns 64 queries. A group's next scores are on
//! the tensor cores together with its last product with V, while it computes the exponentials of the scores between; and the
//! groups take turns at the tensor cores, so that one multiplies while another exponentiates (FlashAttention-3, Shah et al., 2024).

use crate::attention::problem::Problem;
use ptx_launch::prelude::*;

/// The kernel and its parts.
#[ptx_module(arch = "sm_90a", params(Problem {
    q: [u64; 3], k: [u64; 3], v: [u64; 3], out: [u64; 3], lse: [u64; 3], bias: [u64; 4], reach: [u64; 6],
    batch: u32, heads: u32, tokens_q: u32, tokens_k: u32, queries: u32, keys: u32, group: u32, dim: u32, dim_v: u32,
    variable: u32, biased: u32, logged: u32, top_left: u32, left: i32, right: i32,
    scale: f32, soft_cap: f32, exponent: f32
}))]
pub(crate) mod kernels {
    use super::Problem;

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

    /// Tiles of K, and of V, in shared memory.
    const STAGES: u32 = 2;

    impl Config {
        /// Queries of a block.
        pub(crate) const fn rows(&self) -> u32 {
            64 * self.groups
        }

        /// Bytes of shared memory: Q, later O, and the rings.
        pub(crate) const fn shared(&self) -> u32 {
            2 * self.head * (self.rows() + 2 * STAGES * self.keys)
        }

        /// Parts of 64 columns of a tile, whose rows are 128 bytes.
        const fn parts(&self) -> u32 {
            self.head / 64
        }

        /// Bytes of a part of Q.
        const fn q_part(&self) -> u32 {
            self.rows() * 128
        }

        /// Bytes of a part of K or V.
        const fn kv_part(&self) -> u32 {
            self.keys * 128
        }

        /// Bytes of a tile of K or V.
        const fn kv_tile(&self) -> u32 {
            self.parts() * self.kv_part()
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

    /// A position in the rings: the stage, and the parity of its round.
    struct Position {
        stage: u32,
        phase: u32,
    }

    impl Position {
        /// The next stage; the parity changes where the ring starts again.
        fn advance(&mut self) {
            self.stage += 1;
            if self.stage == STAGES {
                self.stage = 0;
                self.phase = self.phase ^ 1;
            }
        }
    }

    /// A ring of tiles of K or of V, and its barriers.
    struct Ring<const C: Config> {
        tiles: u32,
        full: u32,
        empty: u32,
    }

    impl<const C: Config> Ring<C> {
        /// Makes the barriers: each warp that multiplies gives a stage back.
        fn init(&self) {
            for i in 0..STAGES {
                mbarrier::init(self.full + 8 * i, 1);
                mbarrier::init(self.empty + 8 * i, 4 * C.groups);
            }
        }

        /// Begins to copy the tile that starts at a token, when its stage is empty.
        fn load(&self, map: TensorMap, at: &Position, head: u32, token: u32) {
            let (bar, to): (u32, u32) = (self.full + 8 * at.stage, self.tiles + at.stage * C.kv_tile());
            mbarrier::wait(self.empty + 8 * at.stage, at.phase ^ 1);
            mbarrier::arrive_expect(bar, C.kv_tile());
            for i in 0..C.parts() {
                tma::load_4d(to + i * C.kv_part(), map, 64 * i, head, token, ctaid.z, bar);
            }
        }

        /// Waits until a tile is there.
        fn wait(&self, at: &Position) {
            mbarrier::wait(self.full + 8 * at.stage, at.phase);
        }

        /// One lane of each warp says that the warp has read a stage.
        fn release(&self, stage: u32) {
            if laneid == 0 {
                mbarrier::arrive(self.empty + 8 * stage);
            }
        }
    }

    /// The shared memory of a block.
    struct Memory<const C: Config> {
        q_tile: u32,
        q_full: u32,
        k: Ring<C>,
        v: Ring<C>,
    }

    impl<const C: Config> Memory<C> {
        /// Q, the tiles of K, those of V; and behind Q's barrier those of the rings.
        fn new(tiles: u32, barriers: u32) -> Memory<C> {
            let k_tiles: u32 = tiles + C.parts() * C.q_part();
            let k_full: u32 = barriers + 8;
            let v_full: u32 = k_full + 16 * STAGES;
            Memory {
                q_tile: tiles,
                q_full: barriers,
                k: Ring { tiles: k_tiles, full: k_full, empty: k_full + 8 * STAGES },
                v: Ring { tiles: k_tiles + STAGES * C.kv_tile(), full: v_full, empty: v_full + 8 * STAGES },
            }
        }

        /// Makes the barriers, by one thread.
        fn init(&self) {
            mbarrier::init(self.q_full, 1);
            self.k.init();
            self.v.init();
            mbarrier::fence_init();
        }
    }

    /// The part of a block: queries from `first` on, and tiles of keys, the last one first. Query `i` sees the keys before
    /// i + high, and before `keys`.
    struct Work {
        first: u32,
        blocks: u32,
        keys: u32,
        high: i32,
    }

    impl Work {
        /// The last blocks see the most keys if causal, and go first. Without a key there is one tile, all of it hidden.
        fn new<const C: Config>(p: &Problem) -> Work {
            let tile: u32 = if C.causal == 1 { nctaid.x - 1 - ctaid.x } else { ctaid.x };
            let first: u32 = tile * C.rows();
            let (mut seen, mut high): (i32, i32) = (signed(p.tokens_k), 0);
            if C.causal == 1 {
                let diagonal: i32 = (p.top_left != 0).select(0, signed(p.tokens_k - p.tokens_q));
                high = diagonal + 1;
                seen = seen.min(signed(first + C.rows()) + diagonal);
            }
            let blocks: u32 = unsigned(seen.max(1) + (C.keys - 1) as i32) / C.keys;
            Work { first, blocks, keys: p.tokens_k, high }
        }
    }

    /// O = softmax(Q · Kᵀ · scale) · V for `rows` queries of a head, and the logarithm of each row's sum of exponentials. The
    /// maps are those of `q`, `k` and `v`: (batch, tokens, heads, elements) in boxes of `rows` or `keys` tokens and 64 elements.
    #[ptx_kernel(
        block = 128 * (C.groups + 1),
        grid = p.grid(C.rows()),
        shared = C.shared(),
        max_regs = 65536 / (128 * (C.groups + 1)) / 8 * 8,
        instances = [
            d64 = (bf16, Config { head: 64, groups: 3, keys: 128, causal: 0 }),
            d64 = (f16, Config { head: 64, groups: 3, keys: 128, causal: 0 }),
            d64_causal = (bf16, Config { head: 64, groups: 3, keys: 128, causal: 1 }),
            d64_causal = (f16, Config { head: 64, groups: 3, keys: 128, causal: 1 }),
            d128 = (bf16, Config { head: 128, groups: 2, keys: 176, causal: 0 }),
            d128 = (f16, Config { head: 128, groups: 2, keys: 176, causal: 0 }),
            d128_causal = (bf16, Config { head: 128, groups: 2, keys: 128, causal: 1 }),
            d128_causal = (f16, Config { head: 128, groups: 2, keys: 128, causal: 1 }),
            d128_long_causal = (bf16, Config { head: 128, groups: 2, keys: 176, causal: 1 }),
            d128_long_causal = (f16, Config { head: 128, groups: 2, keys: 176, causal: 1 }),
        ],
        requires(p.covers([q.len(), k.len(), v.len(), out.len(), lse.len(), 0]))
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
        p: Problem,
    ) {
        #[shared(dynamic, align = 1024)]
        let tiles: [u8];
        #[shared]
        let barriers: [u64; 1 + 4 * STAGES];
        let (tiles_at, barriers_at): (u32, u32) = (tiles, barriers);
        let memory = Memory::<C>::new(tiles_at, barriers_at);
        let work = Work::new::<C>(&p);
        if tid.x == 0 {
            memory.init();
        }
        block::sync();
        if tid.x < 128 {
            wgmma::fewer_registers::<{ C.few() }>();
            if tid.x == 0 {
                let mut at = Position { stage: 0, phase: 0 };
                mbarrier::arrive_expect(memory.q_full, C.parts() * C.q_part());
                for i in 0..C.parts() {
                    tma::load_4d(
                        memory.q_tile + i * C.q_part(),
                        q_map,
                        64 * i,
                        ctaid.y,
                        work.first,
                        ctaid.z,
                        memory.q_full,
                    );
                }
                let head: u32 = ctaid.y / p.group;
                let mut block: u32 = work.blocks;
                while block > 0 {
                    block -= 1;
                    memory.k.load(k_map, &at, head, block * C.keys);
                    memory.v.load(v_map, &at, head, block * C.keys);
                    at.advance();
                }
            }
        } else {
            wgmma::more_registers::<{ C.many() }>();
            let mut consumer = Consumer::<T, C>::new(&memory, &work, p.exponent);
            consumer.walk(&memory, &work);
            let (to, lse_to): (u64, u64) = (out, lse);
            let logarithms: [f32; 2] = consumer.finish();
            let row: u32 = work.first + consumer.group * 64 + tid.x / 32 % 4 * 16;
            if p.logged != 0 {
                let from: u64 = lse_to + attention::offset(p.lse, ctaid.z, row + laneid / 4, ctaid.y);
                for half in 0..2 {
                    let inside: pred = (row + laneid / 4 + 8 * half < p.tokens_q) & (laneid % 4 == 0);
                    let at: u64 = from + p.lse[1] * (8 * half) as u64;
                    ptx! { @inside st.global.f32 [at], logarithms[half]; }
                }
            }
            consumer.store(
                memory.q_tile,
                to + attention::offset(p.out, ctaid.z, row, ctaid.y),
                p.out[1],
                p.tokens_q,
                row,
            );
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
        exponent: f32,
        s: [f32; C.keys / 2],
        p: [b32; C.keys / 4],
        o: [f32; C.head / 2],
        most: [f32; 2],
        sum: [f32; 2],
        shrink: [f32; 2],
    }

    impl<T, const C: Config> Consumer<T, C> {
        fn new(memory: &Memory<C>, work: &Work, exponent: f32) -> Consumer<T, C> {
            let group: u32 = tid.x / 128 - 1;
            let row: u32 = work.first + group * 64 + tid.x / 32 % 4 * 16 + laneid / 4;
            let (s, p, o): ([f32; C.keys / 2], [b32; C.keys / 4], [f32; C.head / 2]);
            for i in 0..C.keys / 2 {
                s[i] = 0.0;
            }
            for i in 0..C.head / 2 {
                o[i] = 0.0;
            }
            for i in 0..C.keys / 4 {
                p[i] = 0;
            }
            Consumer {
                group,
                own: signed(row) + work.high,
                top: signed(work.first + group * 64) + work.high,
                q_rows: wgmma::descriptor_k128(memory.q_tile + group * (64 * 128)),
                k_rows: wgmma::descriptor_k128(memory.k.tiles),
                v_rows: wgmma::descriptor::<{ C.kv_part() }, 1024, 128>(memory.v.tiles),
                exponent,
                s,
                p,
                o,
                most: [-1e30, -1e30],
                sum: [0.0, 0.0],
                shrink: [1.0, 1.0],
            }
        }

        /// All tiles: scores of the next one beside the product with V of the one before.
        fn walk(&mut self, memory: &Memory<C>, work: &Work) {
            let mut at = Position { stage: 0, phase: 0 };
            let mut block: u32 = work.blocks - 1;
            // The first scores, with nothing to overlap.
            mbarrier::wait(memory.q_full, 0);
            memory.k.wait(&at);
            wgmma::fence();
            self.scores(0);
            wgmma::commit();
            if self.group == C.groups - 1 {
                barrier::arrive::<256>(1);
            }
            wgmma::wait::<0>();
            memory.k.release(0);
            self.mask(block, work.keys);
            self.softmax();
            self.pack();
            while block > 0 {
                block -= 1;
                let (v_stage, v_phase): (u32, u32) = (at.stage, at.phase);
                at.advance();
                memory.k.wait(&at);
                barrier::sync::<256>(1 + self.group);
                wgmma::fence();
                self.scores(at.stage);
                wgmma::commit();
                mbarrier::wait(memory.v.full + 8 * v_stage, v_phase);
                self.values(v_stage);
                wgmma::commit();
                self.pass();
                wgmma::wait::<1>();
                memory.k.release(at.stage);
                self.mask(block, work.keys);
                let grown: pred = self.softmax();
                wgmma::wait::<0>();
                memory.v.release(v_stage);
                if grown {
                    for i in 0..C.head / 2 {
                        self.o[i] *= self.shrink[i / 2 % 2];
                    }
                }
                self.pack();
            }
            memory.v.wait(&at);
            wgmma::fence();
            self.values(at.stage);
            wgmma::commit();
            wgmma::wait::<0>();
        }

        /// Lets the next group multiply.
        fn pass(&self) {
            let mut next: u32 = self.group + 2;
            let last: pred = self.group == C.groups - 1;
            ptx! { selp.u32 next, 1, next, last; }
            barrier::arrive::<256>(next);
        }

        /// S = Q · Kᵀ: 64 rows and `keys` columns, 16 elements at a time.
        fn scores(&mut self, stage: u32) {
            const SHAPE: &str = wgmma::SHAPES_16[C.keys / 8 - 1];
            let k_rows: u64 = self.k_rows + (stage * (C.kv_tile() / 16)) as u64;
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
            const SHAPE: &str = wgmma::SHAPES_16[C.head / 8 - 1];
            let v_rows: u64 = self.v_rows + (stage * (C.kv_tile() / 16)) as u64;
            for i in 0..C.keys / 16 {
                let b: u64 = v_rows + (i * (16 * 128 / 16)) as u64;
                ptx! {
                    wgmma.mma_async.sync.aligned.{SHAPE}.f32.{T}.{T} {self.o[..]}, {self.p[4 * i..4 * i + 4]}, b, 1, 1, 1, 1;
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
                    limit -= signed(block * C.keys + laneid % 4 * 2);
                    for j in 0..C.keys / 8 {
                        for e in 0..2 {
                            const AT: u32 = 4 * j + 2 * half + e;
                            let hidden: pred = limit <= (8 * j + e) as i32;
                            ptx! { selp.f32 self.s[AT], 0fFF800000, self.s[AT], hidden; }
                        }
                    }
                }
            }
        }

        /// Scores become exponentials; the sums, and the factors by which earlier sums shrink. Returns true if any row of this
        /// warp has such a factor. A row's largest score makes its exponentials 1 at most; as long as an earlier one leaves
        /// them below 2⁸, it stays, and with it all sums, so that O is seldom scaled.
        fn softmax(&mut self) -> pred {
            let mut grown: pred = false;
            for half in 0..2 {
                let (mut x, mut y): (f32, f32) = (self.most[half], self.most[half]);
                for j in 0..C.keys / 8 {
                    x = x.max(self.s[4 * j + 2 * half]);
                    y = y.max(self.s[4 * j + 2 * half + 1]);
                }
                x = fragment::quad_max(x.max(y));
                self.shrink[half] = (self.most[half] - x) * self.exponent;
                let far: pred = self.shrink[half] < -8.0;
                ptx! {
                    selp.f32 self.shrink[half], self.shrink[half], 0f00000000, far;
                    selp.f32 x, x, self.most[half], far;
                    or.pred grown, grown, far;
                    ex2.approx.ftz.f32 self.shrink[half], self.shrink[half];
                }
                self.most[half] = x;
                let base: f32 = -x * self.exponent;
                let (mut a, mut b): (f32, f32) = (self.sum[half] * self.shrink[half], 0.0);
                for j in 0..C.keys / 8 {
                    const AT: u32 = 4 * j + 2 * half;
                    ptx! {
                        fma.rn.f32 self.s[AT], self.s[AT], self.exponent, base;
                        fma.rn.f32 self.s[AT + 1], self.s[AT + 1], self.exponent, base;
                        ex2.approx.ftz.f32 self.s[AT], self.s[AT];
                        ex2.approx.ftz.f32 self.s[AT + 1], self.s[AT + 1];
                        add.f32 a, a, self.s[AT];
                        add.f32 b, b, self.s[AT + 1];
                    }
                }
                self.sum[half] = a + b;
            }
            warp::any(grown)
        }

        /// The exponentials as the left operand of the next product: pairs of keys.
        fn pack(&mut self) {
            for i in 0..C.keys / 4 {
                ptx! { cvt.rn.{T}x2.f32 self.p[i], self.s[2 * i + 1], self.s[2 * i]; }
            }
        }

        /// Divides O by the sums; rows that see no key become zeros. Returns the natural logarithms of the sums.
        fn finish(&mut self) -> [f32; 2] {
            let (inverse, logarithms): ([f32; 2], [f32; 2]);
            for half in 0..2 {
                let total: f32 = fragment::quad_sum(self.sum[half]);
                let log: f32;
                ptx! {
                    rcp.approx.ftz.f32 inverse[half], total;
                    lg2.approx.ftz.f32 log, total;
                }
                inverse[half] = (total == 0.0).select(0.0, inverse[half]);
                logarithms[half] = self.most[half].fma(self.exponent, log) * 0.6931471805599453;
            }
            for i in 0..C.head / 2 {
                self.o[i] *= inverse[i / 2 % 2];
            }
            logarithms
        }

        /// Writes O through this group's rows of Q in shared memory, so that a warp writes whole rows; `row` is the warp's first
        /// of `queries`, at `to`.
        fn store(&self, q_tile: u32, to: u64, stride: u64, queries: u32, row: u32) {
            let lane: u32 = laneid;
            barrier::sync::<128>(1 + C.groups + self.group);
            let mine: u32 = q_tile + (self.group * 64 + tid.x / 32 % 4 * 16) * 128;
            let own: u32 = mine + (lane & 15) * 128;
            for i in (0..C.head / 2).step_by(8) {
                let packed: [b32; 4];
                for j in 0..4 {
                    const AT: u32 = i + 2 * j;
                    ptx! { cvt.rn.{T}x2.f32 packed[j], self.o[AT + 1], self.o[AT]; }
                }
                let chunk: u32 = (i / 4 % 8 + (lane >> 4)) ^ (lane & 7);
                matrix::store_x4(own + (i / 32 * C.q_part()) + (chunk << 4), packed);
            }
            warp::sync();
            for i in 0..C.head / 16 {
                const PART: u32 = i / 4;
                let at: u32 = i % 4 * 4 + lane / 8;
                let packed: [b32; 4];
                let from: u32 = mine + PART * C.q_part() + at * 128 + (((lane & 7) ^ (at & 7)) << 4);
                let place: u64 = to + stride * at as u64 + (PART * 128 + (lane & 7) * 16) as u64;
                let inside: pred = row + at < queries;
                ptx! {
                    ld.shared.v4.b32 {packed[..]}, [from];
                    @inside st.global.v4.b32 [place], {packed[..]};
                }
            }
        }
    }
}

//! dK and dV, and sums of dQ, on Hopper: TMA, `wgmma`, warp specialization.
//!
//! A block owns 128 keys of a head and walks over the tiles of queries that see them, for each head of Q that shares the keys. One
//! warp brings Q, dO and their numbers by TMA. Two warp groups own 64 keys each: they compute Sᵀ = K · Qᵀ and dPᵀ = V · dOᵀ, so that P
//! is a left operand of dV += Pᵀ · dO without leaving its registers. dS goes to shared memory, for dK += dSᵀ · Q and for the other group:
//! each computes a half of the tile's dQ = dS · K, over all 128 keys. Another warp adds it to the sums in global memory
//! (`cp.reduce.async.bulk`), in no fixed order. The products are those of FlashAttention-3 (Shah et al., 2024).
//!
//! Their order is not. A warp group that issues `wgmma` waits until the tensor cores have taken nearly all of it, so a group that multiplies
//! does nothing else, and two groups that are in step leave the tensor cores idle while both compute exponentials. So the second group
//! starts later, and no barrier brings them into step: dQ is computed two tiles after its dS, which the other group has written by then.
//! Sums begin at -log Σ exp S / scale and at -delta instead of 0, which saves two operations for each score and the registers of the numbers.

use crate::attention::problem::{Gradients, Problem};
use ptx_launch::prelude::*;

/// The kernel and its parts.
#[ptx_module(arch = "sm_90a", params(Problem, Gradients))]
pub(crate) mod kernels {
    use super::{Gradients, Problem};

    /// Extents of the tiles.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Config {
        /// Elements of a row of Q, K and V.
        pub head: u32,
        /// Queries of a tile.
        pub queries: u32,
    }

    /// Keys of a block.
    const KEYS: u32 = 128;

    /// Tiles of Q, and of dO, in shared memory, and those of dS. A tile of Q is needed longest.
    const Q_STAGES: u32 = 3;
    const STAGES: u32 = 2;

    /// Named barriers: of both groups; from each of the others on, one for each group: it may write its part of dQ, has written it, and
    /// has written its part of dS.
    const CONSUMERS: u32 = 1;
    const DQ_EMPTY: u32 = 2;
    const DQ_FULL: u32 = 4;
    const DS_WRITTEN: u32 = 6;

    impl Config {
        /// Parts of 64 columns of a tile, whose rows are 128 bytes.
        const fn parts(&self) -> u32 {
            self.head / 64
        }

        /// Bytes of a part of Q or dO, and of 64 keys of dS.
        const fn q_part(&self) -> u32 {
            self.queries * 128
        }

        /// Bytes of a tile of Q or dO.
        const fn q_tile(&self) -> u32 {
            self.parts() * self.q_part()
        }

        /// Bytes of a part of K or V.
        const fn k_part(&self) -> u32 {
            KEYS * 128
        }

        /// Sums of a thread in a warp group's part of dQ.
        const fn dq_len(&self) -> u32 {
            self.queries * self.head / 256
        }
    }

    /// A tile of Q or dO, and a number for each query: its logarithm, or its delta.
    #[align(1024)]
    struct Stage<const C: Config> {
        tile: [[u8; 128]; C.queries * C.parts()],
        numbers: [f32; C.queries],
    }

    /// The shared memory of a block.
    struct Memory<const C: Config> {
        k: [[u8; 128]; KEYS * C.parts()],
        v: [[u8; 128]; KEYS * C.parts()],
        ds: [[[u8; 128]; 2 * C.queries]; STAGES],
        dq: [f32; C.queries * C.head],
        q: [Stage<C>; Q_STAGES],
        grad: [Stage<C>; STAGES],
        q_bars: pipeline::Barriers<Q_STAGES>,
        grad_bars: pipeline::Barriers<STAGES>,
        ds_bars: pipeline::Barriers<STAGES>,
        kv_full: mbarrier::Barrier,
    }

    /// Tiles of queries, of one head after the other.
    struct Walk {
        head: u32,
        tile: u32,
        begin: u32,
        end: u32,
        left: u32,
    }

    impl Walk {
        /// The tiles that see any key of this block, of all heads that share its head of K and V.
        fn new<const C: Config>(p: &Problem, mask: &attention::Mask, keys: [u32; 2], head: u32) -> Walk {
            let (begin, end): (u32, u32) = mask.tiles::<{ C.queries }>(keys[0], keys[1]);
            Walk { head: head * p.group, tile: begin, begin, end, left: (end.max(begin) - begin) * p.group }
        }

        /// The next tile, of the next head behind a head's last one.
        fn advance(&mut self) {
            self.left -= 1;
            self.tile += 1;
            if self.tile >= self.end {
                self.tile = self.begin;
                self.head += 1;
            }
        }
    }

    /// The scratch memory of a head of this block's sequence.
    fn scratch_of<const C: Config>(memory: u64, p: &Problem, head: u32) -> attention::GradScratch {
        let rows: u32 = (p.tokens_q + (C.queries - 1)) / C.queries * C.queries;
        attention::GradScratch::of_head(memory, rows, ctaid.z * p.heads + head, p.batch * p.heads, C.head)
    }

    /// Loads this block's keys and values.
    fn load_own<const C: Config>(memory: Shared<Memory<C>>, k_map: TensorMap, v_map: TensorMap, first: u32, head: u32) {
        let (bar, k_to, v_to): (u32, u32, u32) = (memory.kv_full, memory.k, memory.v);
        mbarrier::arrive_expect(bar, 2 * C.parts() * C.k_part());
        for i in 0..C.parts() {
            tma::load_4d(k_to + i * C.k_part(), k_map, 64 * i, head, first, ctaid.z, bar);
            tma::load_4d(v_to + i * C.k_part(), v_map, 64 * i, head, first, ctaid.z, bar);
        }
    }

    /// Loads all tiles of Q and dO with their logarithms and deltas.
    fn load_queries<const C: Config>(
        memory: Shared<Memory<C>>,
        q_map: TensorMap,
        grad_map: TensorMap,
        scratch: u64,
        p: &Problem,
        walk: &mut Walk,
    ) {
        let mut q = pipeline::Pipeline::<Q_STAGES>::new(memory.q_bars);
        let mut grad = pipeline::Pipeline::<STAGES>::new(memory.grad_bars);
        while walk.left > 0 {
            let numbers = scratch_of::<C>(scratch, p, walk.head);
            q.wait_empty();
            load_stage::<C>(memory.q.at(q.stage), q.full(), q_map, walk, numbers.logs);
            grad.wait_empty();
            load_stage::<C>(memory.grad.at(grad.stage), grad.full(), grad_map, walk, numbers.deltas);
            q.advance();
            grad.advance();
            walk.advance();
        }
    }

    /// Loads a tile of Q or dO with its numbers.
    fn load_stage<const C: Config>(stage: Shared<Stage<C>>, full: u32, map: TensorMap, walk: &Walk, numbers: u64) {
        let (tile, numbers_to, row): (u32, u32, u32) = (stage.tile, stage.numbers, walk.tile * C.queries);
        mbarrier::arrive_expect(full, C.q_tile() + 4 * C.queries);
        for i in 0..C.parts() {
            tma::load_4d(tile + i * C.q_part(), map, 64 * i, walk.head, row, ctaid.z, full);
        }
        bulk::load(numbers_to, numbers + wide(row) * 4, 4 * C.queries, full);
    }

    /// dK and dV of 128 keys of a head, summed over the heads of Q that share it, and their part of the sums of dQ. The maps are
    /// those of `q`, `k`, `v` and `out_grad`: (batch, tokens, heads, elements) in boxes of 128 tokens, or the queries of a tile, and 64
    /// elements.
    #[ptx_kernel(
        block = 384,
        grid = (p.keys.div_ceil(KEYS) * section, g.heads_k / section, p.batch),
        max_regs = 168,
        instances = [
            d64 = (bf16, Config { head: 64, queries: 128 }),
            d64 = (f16, Config { head: 64, queries: 128 }),
            d128 = (bf16, Config { head: 128, queries: 64 }),
            d128 = (f16, Config { head: 128, queries: 64 }),
        ],
        requires(
            p.covers_inputs([q.len(), k.len(), v.len(), 0]),
            g.covers_keys([out_grad.len(), k_grad.len(), v_grad.len(), scratch.len()]),
            section > 0 && g.heads_k % section == 0
        )
    )]
    pub fn backward<T, const C: Config>(
        q_map: TensorMap,
        k_map: TensorMap,
        v_map: TensorMap,
        grad_map: TensorMap,
        q: &[T],
        k: &[T],
        v: &[T],
        out_grad: &[T],
        scratch: &mut [u8],
        k_grad: &mut [T],
        v_grad: &mut [T],
        p: Problem,
        g: Gradients,
        section: u32,
    ) {
        #[shared(dynamic)]
        let memory: Memory<C>;
        let (first, head): (u32, u32) = (ctaid.x / section * KEYS, ctaid.y * section + ctaid.x % section);
        let last: u32 = (first + KEYS).min(p.tokens_k) - 1;
        let mask = attention::Mask::new(p.tokens_q, p.tokens_k, p.top_left, p.left, p.right).transposed(p.tokens_q);
        let mut walk = Walk::new::<C>(&p, &mask, [first, last], head);
        let scratch_at: u64 = scratch;
        if tid.x == 0 {
            memory.q_bars.init::<1, 8>();
            memory.grad_bars.init::<1, 8>();
            memory.ds_bars.init::<2, 8>();
            memory.kv_full.init(1);
            mbarrier::fence_init();
        }
        block::sync();
        if tid.x < 128 {
            wgmma::fewer_registers::<24>();
            if tid.x == 0 {
                load_own::<C>(memory, k_map, v_map, first, head);
                load_queries::<C>(memory, q_map, grad_map, scratch_at, &p, &mut walk);
            }
            if tid.x / 32 == 1 {
                let dq: u32 = memory.dq;
                add_sums::<C>(dq, scratch_at, &p, &mut walk);
            }
        } else {
            wgmma::more_registers::<240>();
            let mut consumer = Consumer::<T, C>::new(memory, &p, mask, first);
            if walk.left > 0 {
                consumer.start(walk.tile * C.queries);
                if walk.left > 1 {
                    walk.advance();
                    consumer.step::<0>(walk.tile * C.queries);
                }
                while walk.left > 1 {
                    walk.advance();
                    consumer.step::<1>(walk.tile * C.queries);
                }
                consumer.end();
            }
            let (k_to, v_to): (u64, u64) = (k_grad, v_grad);
            let k_rows = attention::Rows {
                first: k_to + attention::offset(g.k, ctaid.z, 0, head),
                stride: g.k[1],
                len: p.tokens_k,
                dim: C.head,
            };
            let v_rows = attention::Rows {
                first: v_to + attention::offset(g.v, ctaid.z, 0, head),
                stride: g.v[1],
                len: p.tokens_k,
                dim: C.head,
            };
            consumer.finish(&k_rows, &v_rows, g.slope);
        }
    }

    /// A warp that adds each tile's dQ to the sums in global memory, the halves of both warp groups one after the other.
    fn add_sums<const C: Config>(dq: u32, scratch: u64, p: &Problem, walk: &mut Walk) {
        const BYTES: u32 = C.queries * C.head * 2;
        for group in 0..2 {
            barrier::arrive::<160>(DQ_EMPTY + group);
        }
        while walk.left > 0 {
            let sums: u64 = scratch_of::<C>(scratch, p, walk.head).sums + wide(walk.tile) * (2 * BYTES);
            for group in 0..2 {
                barrier::sync::<160>(DQ_FULL + group);
                if laneid == 0 {
                    bulk::reduce::<f32, "add">(sums + (group * BYTES) as u64, dq + group * BYTES, BYTES);
                    tma::commit();
                }
            }
            for group in 0..2 {
                if laneid == 0 {
                    tma::wait_read::<{ 1 - group }>();
                }
                if walk.left > 1 {
                    barrier::arrive::<160>(DQ_EMPTY + group);
                }
            }
            walk.advance();
        }
        if laneid == 0 {
            tma::wait::<0>();
        }
    }

    /// State of a warp group that multiplies. This thread has two keys, 8 apart; of 8 queries it holds the scores of two.
    struct Consumer<T, const C: Config> {
        memory: Shared<Memory<C>>,
        group: u32,
        /// The block's first key, and the queries that see a key.
        first: u32,
        mask: attention::Mask,
        keys: u32,
        exponent: f32,
        /// The number of the current tile: its stage of dO and dS, and the parity of the round.
        at: u32,
        q: pipeline::Pipeline<Q_STAGES>,
        s: [f32; C.queries / 2],
        dp: [f32; C.queries / 2],
        p: [b32; C.queries / 4],
        dq: [f32; C.dq_len()],
        dk: [f32; C.head / 2],
        dv: [f32; C.head / 2],
    }

    impl<T, const C: Config> Consumer<T, C> {
        fn new(memory: Shared<Memory<C>>, p: &Problem, mask: attention::Mask, first: u32) -> Consumer<T, C> {
            let (s, dp): ([f32; C.queries / 2], [f32; C.queries / 2]);
            let packed: [b32; C.queries / 4];
            let (dq, dk, dv): ([f32; C.dq_len()], [f32; C.head / 2], [f32; C.head / 2]);
            for i in 0..C.queries / 2 {
                s[i] = 0.0;
                dp[i] = 0.0;
            }
            for i in 0..C.queries / 4 {
                packed[i] = 0;
            }
            for i in 0..C.dq_len() {
                dq[i] = 0.0;
            }
            for i in 0..C.head / 2 {
                dk[i] = 0.0;
                dv[i] = 0.0;
            }
            let group: u32 = warp::broadcast(tid.x / 128 - 1, 0);
            Consumer {
                memory,
                group,
                first,
                mask,
                keys: p.tokens_k,
                exponent: p.exponent,
                at: 0,
                q: pipeline::Pipeline::new(memory.q_bars),
                s,
                dp,
                p: packed,
                dq,
                dk,
                dv,
            }
        }

        /// The first tile, up to its dS, with nothing to overlap.
        fn start(&mut self, query: u32) {
            self.memory.kv_full.wait(0);
            self.begin_scores();
            wgmma::fence();
            self.multiply_scores();
            wgmma::wait::<0>();
            // From here on the second group is behind the first one.
            if self.group == 0 {
                barrier::arrive::<256>(CONSUMERS);
            } else {
                barrier::sync::<256>(CONSUMERS);
            }
            self.mask(query);
            self.weigh();
            self.differentiate();
        }

        /// The next tile, whose first query is `query`, up to its dS, with dV and dK of the one before, and with `LAG` = 1 dQ of the one
        /// before that: both groups have its dS by then, though one is half a step ahead of the other, so that one multiplies while the
        /// other one does the rest.
        fn step<const LAG: u32>(&mut self, query: u32) {
            let (q_stage, stage): (u32, u32) = (self.q.stage, self.at & 1);
            self.at += 1;
            self.q.advance();
            self.begin_scores();
            if LAG == 1 {
                self.wait_ds(self.at - 2);
            }
            wgmma::fence();
            self.multiply_scores();
            if LAG == 1 {
                self.multiply_dq(stage ^ 1);
            }
            self.multiply_dv(stage);
            self.multiply_dk(stage, q_stage);
            wgmma::wait::<{ 2 + LAG }>();
            self.mask(query);
            self.weigh();
            if LAG == 1 {
                wgmma::wait::<2>();
                self.store_dq(stage ^ 1);
            }
            wgmma::wait::<0>();
            release(self.memory.grad_bars.empty.at(stage));
            release(self.memory.q_bars.empty.at(q_stage));
            self.differentiate();
        }

        /// dV and dK of the last tile, and dQ of the last one or two.
        fn end(&mut self) {
            let (q_stage, stage): (u32, u32) = (self.q.stage, self.at & 1);
            wgmma::fence();
            self.multiply_dv(stage);
            self.multiply_dk(stage, q_stage);
            wgmma::wait::<0>();
            if self.at > 0 {
                self.add_dq(self.at - 1);
            }
            let last: u32 = self.at;
            self.add_dq(last);
        }

        /// dQ of tile `number`, with nothing to overlap.
        fn add_dq(&mut self, number: u32) {
            self.wait_ds(number);
            wgmma::fence();
            self.multiply_dq(number & 1);
            wgmma::wait::<0>();
            self.store_dq(number & 1);
        }

        /// From a tile's weights to its dP and dS, which shared memory has then.
        fn differentiate(&mut self) {
            let stage: u32 = self.at & 1;
            self.memory.grad_bars.full.at(stage).wait((self.at >> 1) & 1);
            load_numbers::<{ C.queries }>(&mut self.dp, self.memory.grad.at(stage).numbers);
            wgmma::fence();
            self.multiply_grads();
            wgmma::wait::<0>();
            for i in 0..C.queries / 2 {
                self.dp[i] *= self.s[i];
            }
            self.memory.ds_bars.empty.at(stage).wait((self.at >> 1) & 1 ^ 1);
            self.store_ds();
            tma::fence();
            barrier::sync::<128>(DS_WRITTEN + self.group);
            if tid.x % 128 == 0 {
                self.memory.ds_bars.full.at(stage).arrive();
            }
            for i in 0..C.queries / 4 {
                ptx! { cvt.rn.{T}x2.f32 self.p[i], self.s[2 * i + 1], self.s[2 * i]; }
            }
        }

        /// Waits for dS of tile `number`, of both groups.
        fn wait_ds(&self, number: u32) {
            self.memory.ds_bars.full.at(number & 1).wait((number >> 1) & 1);
        }

        /// Scores become weights.
        fn weigh(&mut self) {
            for i in 0..C.queries / 2 {
                self.s[i] *= self.exponent;
                ptx! { ex2.approx.ftz.f32 self.s[i], self.s[i]; }
            }
        }

        /// Waits for a tile of Q; its scores begin at what its logarithms say.
        fn begin_scores(&mut self) {
            self.q.wait_full();
            load_numbers::<{ C.queries }>(&mut self.s, self.memory.q.at(self.q.stage).numbers);
        }

        /// Sᵀ += K · Qᵀ: 64 keys and the queries of a tile.
        fn multiply_scores(&mut self) {
            let (rows, columns): (u32, u32) = (self.memory.k, self.memory.q.at(self.q.stage).tile);
            let (a, b): (u64, u64) =
                (wgmma::descriptor_k128(rows + self.group * 8192), wgmma::descriptor_k128(columns));
            multiply_rows::<T, { C.queries }, { C.head }, { C.k_part() }, { C.q_part() }>(&mut self.s, a, b);
            wgmma::commit();
        }

        /// dPᵀ += V · dOᵀ.
        fn multiply_grads(&mut self) {
            let (rows, columns): (u32, u32) = (self.memory.v, self.memory.grad.at(self.at & 1).tile);
            let (a, b): (u64, u64) =
                (wgmma::descriptor_k128(rows + self.group * 8192), wgmma::descriptor_k128(columns));
            multiply_rows::<T, { C.queries }, { C.head }, { C.k_part() }, { C.q_part() }>(&mut self.dp, a, b);
            wgmma::commit();
        }

        /// dV += Pᵀ · dO.
        fn multiply_dv(&mut self, stage: u32) {
            const SHAPE: &str = wgmma::SHAPES_16[C.head / 8 - 1];
            let tile: u32 = self.memory.grad.at(stage).tile;
            let b: u64 = wgmma::descriptor_mn128::<{ C.q_part() }>(tile);
            for i in 0..C.queries / 16 {
                let at_b: u64 = b + (128 * i) as u64;
                ptx! {
                    wgmma.mma_async.sync.aligned.{SHAPE}.f32.{T}.{T} {self.dv[..]}, {self.p[4 * i..4 * i + 4]}, at_b, 1, 1, 1, 1;
                }
            }
            wgmma::commit();
        }

        /// This group's part of dQ = dS · K, over all keys: its 64 queries of a tile of 128, or its 64 columns of one of 64.
        fn multiply_dq(&mut self, stage: u32) {
            const N: u32 = 2 * C.dq_len();
            const SHAPE: &str = wgmma::SHAPES_16[N / 8 - 1];
            let (mut rows, mut columns): (u32, u32) = (self.memory.ds.at(stage), self.memory.k);
            if C.queries == 128 {
                rows += self.group * 8192;
            } else {
                columns += self.group * C.k_part();
            }
            let (a, b): (u64, u64) = (wgmma::descriptor_k128(rows), wgmma::descriptor_mn128::<{ C.k_part() }>(columns));
            for i in 0..KEYS / 16 {
                const ADD: u32 = (i != 0) as u32;
                let (at_a, at_b): (u64, u64) =
                    (a + (i / 4 * (C.q_part() / 16) + i % 4 * 2) as u64, b + (128 * i) as u64);
                ptx! { wgmma.mma_async.sync.aligned.{SHAPE}.f32.{T}.{T} {self.dq[..]}, at_a, at_b, ADD, 1, 1, 0, 1; }
            }
            wgmma::commit();
        }

        /// Scores that their query does not see become minus infinity. Most tiles have none.
        fn mask(&mut self, query: u32) {
            let (begin, end): (u32, u32) = (self.first + self.group * 64, self.first + self.group * 64 + 64);
            let ragged: pred = end > self.keys;
            if ragged | self.mask.hides(begin, end - 1, query, query + C.queries) {
                for half in 0..2 {
                    let key: u32 = begin + tid.x / 32 % 4 * 16 + laneid / 4 + 8 * half;
                    let from: i32 = signed(key) + self.mask.low - signed(query + laneid % 4 * 2);
                    let width: u32 = (key < self.keys).select(unsigned(self.mask.high - self.mask.low), 0);
                    for j in 0..C.queries / 8 {
                        for e in 0..2 {
                            const AT: u32 = 4 * j + 2 * half + e;
                            let behind: u32 = unsigned((8 * j + e) as i32 - from);
                            let hidden: pred = behind >= width;
                            ptx! { selp.f32 self.s[AT], 0fFF800000, self.s[AT], hidden; }
                        }
                    }
                }
            }
        }

        /// dS to shared memory: rows are queries, in parts of one group's 64 keys.
        fn store_ds(&self) {
            let (lane, tile): (u32, u32) = (laneid, self.memory.ds.at(self.at & 1));
            let chunk: u32 = (tid.x / 32 % 4 * 2 + ((lane >> 3) & 1)) ^ (lane & 7);
            let own: u32 = tile + self.group * C.q_part() + ((lane & 7) + ((lane >> 4) << 3)) * 128 + (chunk << 4);
            for i in 0..C.queries / 16 {
                let four: [b32; 4];
                for j in 0..4 {
                    const AT: u32 = 8 * i + 2 * j;
                    ptx! { cvt.rn.{T}x2.f32 four[j], self.dp[AT + 1], self.dp[AT]; }
                }
                matrix::store_x4_transposed(own + 2048 * i, four);
            }
        }

        /// dK += dSᵀ · Q. This group wrote its rows of dSᵀ to shared memory: registers are short.
        fn multiply_dk(&mut self, stage: u32, q_stage: u32) {
            const SHAPE: &str = wgmma::SHAPES_16[C.head / 8 - 1];
            let (rows, tile): (u32, u32) = (self.memory.ds.at(stage), self.memory.q.at(q_stage).tile);
            let a: u64 = wgmma::descriptor_mn128::<{ C.q_part() }>(rows + self.group * C.q_part());
            let b: u64 = wgmma::descriptor_mn128::<{ C.q_part() }>(tile);
            for i in 0..C.queries / 16 {
                let (at_a, at_b): (u64, u64) = (a + (128 * i) as u64, b + (128 * i) as u64);
                ptx! { wgmma.mma_async.sync.aligned.{SHAPE}.f32.{T}.{T} {self.dk[..]}, at_a, at_b, 1, 1, 1, 1, 1; }
            }
            wgmma::commit();
        }

        /// This group's part of dQ to shared memory, as its threads have it, when the part before has been read. It comes from the dS of
        /// `stage`, which may be overwritten.
        fn store_dq(&self, stage: u32) {
            release(self.memory.ds_bars.empty.at(stage));
            let dq: u32 = self.memory.dq;
            let own: u32 = dq + self.group * (C.queries * C.head * 2) + tid.x % 128 * 16;
            barrier::sync::<160>(DQ_EMPTY + self.group);
            for i in 0..C.dq_len() / 4 {
                ptx! { st.shared.v4.f32 [own + 2048 * i], {self.dq[4 * i..4 * i + 4]}; }
            }
            tma::fence();
            barrier::arrive::<160>(DQ_FULL + self.group);
        }

        /// Writes dK and dV through the memory of K and V.
        fn finish(&mut self, k_rows: &attention::Rows, v_rows: &attention::Rows, slope: f32) {
            for i in 0..C.head / 2 {
                self.dk[i] *= slope;
            }
            barrier::sync::<256>(CONSUMERS);
            let warp_row: u32 = self.group * 64 + tid.x / 32 % 4 * 16;
            let (k_tile, v_tile): (u32, u32) = (self.memory.k, self.memory.v);
            let row: u32 = self.first + warp_row;
            v_rows.write_sums::<T, { C.head }, { C.k_part() }>(&self.dv, v_tile + warp_row * 128, row);
            k_rows.write_sums::<T, { C.head }, { C.k_part() }>(&self.dk, k_tile + warp_row * 128, row);
        }
    }

    /// One lane of each warp says that the warp has read a stage.
    fn release(empty: Shared<mbarrier::Barrier>) {
        warp::sync();
        if laneid == 0 {
            empty.arrive();
        }
    }

    /// Sums of 64 rows and `N` columns begin at a number for each column.
    fn load_numbers<const N: u32>(acc: &mut [f32; N / 2], numbers: u32) {
        let own: u32 = numbers + laneid % 4 * 8;
        for j in 0..N / 8 {
            ptx! {
                ld.shared.v2.f32 {acc[4 * j..4 * j + 2]}, [own + 32 * j];
                ld.shared.v2.f32 {acc[4 * j + 2..4 * j + 4]}, [own + 32 * j];
            }
        }
    }

    /// `acc` += A · Bᵀ over `K` columns of both, in parts of 64.
    fn multiply_rows<T, const N: u32, const K: u32, const A_PART: u32, const B_PART: u32>(
        acc: &mut [f32; N / 2],
        a: u64,
        b: u64,
    ) {
        const SHAPE: &str = wgmma::SHAPES_16[N / 8 - 1];
        for i in 0..K / 16 {
            let at_a: u64 = a + (i / 4 * (A_PART / 16) + i % 4 * 2) as u64;
            let at_b: u64 = b + (i / 4 * (B_PART / 16) + i % 4 * 2) as u64;
            ptx! { wgmma.mma_async.sync.aligned.{SHAPE}.f32.{T}.{T} {acc[..]}, at_a, at_b, 1, 1, 1, 0, 0; }
        }
    }
}

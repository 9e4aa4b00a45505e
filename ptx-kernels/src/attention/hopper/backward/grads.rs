//! dK and dV, and sums of dQ, on Hopper: TMA, `wgmma`, warp specialization.
//!
//! A block owns 128 keys of a head and walks over the tiles of queries that see them, for each head of Q that shares the keys. One
//! warp brings Q, dO and their numbers by TMA. Two warp groups own 64 keys each: they compute Sᵀ = K · Qᵀ and dPᵀ = V · dOᵀ, so that P
//! is a left operand of dV += Pᵀ · dO without leaving its registers. dS goes to shared memory, for dK += dSᵀ · Q and for the other group:
//! each computes a half of the tile's dQ = dS · K, over all 128 keys, and adds it to the sums in global memory (`red.v4`), in no fixed order
//! unless the call asks for one. The products are those of FlashAttention-3 (Shah et al., 2024).
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
        /// 1 for packed sequences, a soft cap and shorter rows, as the call says.
        pub masked: u32,
    }

    /// Keys of a block.
    const KEYS: u32 = 128;

    /// Tiles of Q, and of dO, in shared memory, and those of dS. A tile of Q is needed longest.
    const Q_STAGES: u32 = 3;
    const STAGES: u32 = 2;

    /// Named barriers: of both groups; from each of the others on, one for each group: it has written its part of dS, may add its part of dQ, and
    /// has added it.
    const CONSUMERS: u32 = 1;
    const DS_WRITTEN: u32 = 2;
    const MAY_ADD: u32 = 4;
    const ADDED: u32 = 6;

    impl Config {
        /// Parts of 64 columns of a tile, whose rows are 128 bytes.
        const fn parts(&self) -> u32 {
            self.head / 64
        }

        /// Bytes of a part of Q or dO, and of 64 keys of dS.
        const fn q_part(&self) -> u32 {
            self.queries * 128
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

    /// The shared memory of a block.
    #[align(1024)]
    struct Memory<const C: Config> {
        k: [[u8; 128]; KEYS * C.parts()],
        v: [[u8; 128]; KEYS * C.parts()],
        ds: [[[u8; 128]; 2 * C.queries]; STAGES],
        q: [[[u8; 128]; C.queries * C.parts()]; Q_STAGES],
        grad: [[[u8; 128]; C.queries * C.parts()]; STAGES],
        logs: [[f32; C.queries]; Q_STAGES],
        deltas: [[f32; C.queries]; STAGES],
        q_bars: pipeline::Barriers<Q_STAGES>,
        grad_bars: pipeline::Barriers<STAGES>,
        ds_bars: pipeline::Barriers<STAGES>,
        kv_full: mbarrier::Barrier,
        partial: mbarrier::Barrier,
    }

    /// The tiles in shared memory.
    fn tiles_of<const C: Config>(memory: Shared<Memory<C>>) -> flash_grad::Tiles<Q_STAGES, STAGES> {
        flash_grad::Tiles {
            k: memory.k,
            v: memory.v,
            q: memory.q,
            grad: memory.grad,
            logs: memory.logs,
            deltas: memory.deltas,
            kv_full: memory.kv_full,
            partial: memory.partial,
            q_bars: memory.q_bars,
            grad_bars: memory.grad_bars,
        }
    }

    /// dK and dV of 128 keys of a head, summed over the heads of Q that share it, and their part of the sums of dQ. The maps are
    /// those of `q`, `k`, `v` and `out_grad`: (batch, tokens, heads, elements) in boxes of 128 tokens, or the queries of a tile, and 64
    /// elements.
    #[ptx_kernel(
        block = 384,
        grid = (p.keys.div_ceil(KEYS) * section, g.heads_k / section, p.batch),
        max_regs = 168,
        instances = [
            d64 = (bf16, Config { head: 64, queries: 128, masked: 0 }),
            d64 = (f16, Config { head: 64, queries: 128, masked: 0 }),
            d128 = (bf16, Config { head: 128, queries: 64, masked: 0 }),
            d128 = (f16, Config { head: 128, queries: 64, masked: 0 }),
            d64_masked = (bf16, Config { head: 64, queries: 128, masked: 1 }),
            d64_masked = (f16, Config { head: 64, queries: 128, masked: 1 }),
            d128_masked = (bf16, Config { head: 128, queries: 64, masked: 1 }),
            d128_masked = (f16, Config { head: 128, queries: 64, masked: 1 }),
        ],
        requires(
            p.covers_inputs([q.len(), k.len(), v.len(), 0]),
            g.covers_keys([out_grad.len(), k_grad.len(), v_grad.len(), scratch.len()]),
            p.separates(starts_q.len(), starts_k.len()),
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
        ordered: u32,
        starts_q: &[i32],
        starts_k: &[i32],
    ) {
        #[shared(dynamic)]
        let memory: Memory<C>;
        let (mut block, head): (u32, u32) = (ctaid.x / section, ctaid.y * section + ctaid.x % section);
        if ordered != 0 {
            // A block waits for those with later keys.
            block = nctaid.x / section - 1 - block;
        }
        let variable: u32 = if C.masked == 1 { p.variable } else { 0 };
        let in_q = attention::Sequence::locate(starts_q, variable, ctaid.z, p.tokens_q, p.queries);
        let in_k = attention::Sequence::locate(starts_k, variable, ctaid.z, p.tokens_k, p.keys);
        if block * KEYS >= in_k.len {
            return;
        }
        // Packed sequences are one for the tensor maps.
        let batch: u32 = (variable != 0).select(0, ctaid.z);
        let mask = attention::Mask::new(in_q.len, in_k.len, p.top_left, p.left, p.right).transposed(in_q.len);
        let keys = flash_grad::Keys { first: block * KEYS, q: in_q, k: in_k, mask, batch };
        let mut walk = flash_grad::Walk::new::<KEYS, { C.queries }>(&keys, head, p.group);
        let memory_at: u64 = scratch;
        let (tokens, count, heads): (u32, u32, u32) = (p.tokens_q, p.batch, p.heads);
        let parts = flash_grad::Scratch { memory: memory_at, variable, tokens, count, heads };
        let mut sums = flash_grad::QuerySums::<KEYS, { C.queries }, { C.head }, 2>::new(&parts, &keys, &walk, ordered);
        if tid.x == 0 {
            memory.q_bars.init::<1, 8>();
            memory.grad_bars.init::<1, 8>();
            memory.ds_bars.init::<2, 8>();
            memory.kv_full.init(2);
            memory.partial.init(1);
            mbarrier::fence_init();
        }
        block::sync();
        if tid.x < 128 {
            wgmma::fewer_registers::<24>();
            if tid.x < (if C.masked == 1 { 32 } else { 1 }) {
                let maps = flash_grad::Maps { q: q_map, k: k_map, v: v_map, grad: grad_map };
                tiles_of::<C>(memory)
                    .load::<KEYS, { C.queries }, { C.parts() }, { C.parts() }, { C.head }, { C.masked }>(
                        &maps, &keys, head, &parts, &mut walk,
                    );
            }
            let warp: u32 = tid.x / 32;
            if (ordered != 0) & (warp != 0) & (warp < 3) {
                sums.keep_order(warp - 1, MAY_ADD + warp - 1, ADDED + warp - 1);
            }
        } else {
            wgmma::more_registers::<240>();
            let mut consumer = Consumer::<T, C>::new(memory, &p, &keys);
            if walk.left > 0 {
                consumer.start(walk.tile * C.queries);
                if walk.left > 1 {
                    walk.advance();
                    consumer.step::<0>(walk.tile * C.queries, &mut sums);
                }
                while walk.left > 1 {
                    walk.advance();
                    consumer.step::<1>(walk.tile * C.queries, &mut sums);
                }
                consumer.end(&mut sums);
            }
            let (k_to, v_to): (u64, u64) = (k_grad, v_grad);
            let k_rows = attention::Rows::of_head(k_to, g.k, ctaid.z, head, &keys.k, p.dim);
            let v_rows = attention::Rows::of_head(v_to, g.v, ctaid.z, head, &keys.k, p.dim_v);
            consumer.finish(&k_rows, &v_rows, g.slope);
        }
    }

    /// State of a warp group that multiplies. This thread has two keys, 8 apart; of 8 queries it holds the scores of two.
    struct Consumer<T, const C: Config> {
        memory: Shared<Memory<C>>,
        group: u32,
        /// This group's first key, the number of all, and the queries that see a key.
        key: u32,
        keys: u32,
        mask: attention::Mask,
        exponent: f32,
        /// The factor of scores before a soft cap, or 0 without one.
        bound: f32,
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
        fn new(memory: Shared<Memory<C>>, p: &Problem, keys: &flash_grad::Keys) -> Consumer<T, C> {
            let group: u32 = warp::broadcast(tid.x / 128 - 1, 0);
            let (mut exponent, mut bound): (f32, f32) = (p.exponent, 0.0);
            if C.masked == 1 {
                // Scores are those before the cap, and the cap is a part of the exponent.
                let capped: pred = p.soft_cap > 0.0;
                exponent = capped.select(p.exponent * p.soft_cap, p.exponent);
                bound = capped.select(p.scale, 0.0);
            }
            Consumer {
                memory,
                group,
                key: keys.first + group * 64,
                keys: keys.k.len,
                mask: keys.mask,
                exponent,
                bound,
                at: 0,
                q: pipeline::Pipeline::new(memory.q_bars),
                s: [0.0; C.queries / 2],
                dp: [0.0; C.queries / 2],
                p: [0; C.queries / 4],
                dq: [0.0; C.dq_len()],
                dk: [0.0; C.head / 2],
                dv: [0.0; C.head / 2],
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
            self.hide(query);
            self.weigh::<0, { C.queries / 2 }>();
            self.differentiate();
        }

        /// The next tile, whose first query is `query`, up to its dS, with dV and dK of the one before, and with `LAG` = 1 dQ of the one
        /// before that: both groups have its dS by then, though one is half a step ahead of the other, so that one multiplies while the
        /// other one does the rest.
        fn step<const LAG: u32>(
            &mut self,
            query: u32,
            sums: &mut flash_grad::QuerySums<KEYS, { C.queries }, { C.head }, 2>,
        ) {
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
            self.hide(query);
            if LAG == 1 {
                wgmma::wait::<2>();
                self.weigh_and_add(stage ^ 1, sums);
            } else {
                self.weigh::<0, { C.queries / 2 }>();
            }
            wgmma::wait::<0>();
            flash_grad::release(self.memory.grad_bars.empty.at(stage));
            flash_grad::release(self.memory.q_bars.empty.at(q_stage));
            self.differentiate();
        }

        /// Scores become weights, and dQ of the dS of `stage`, which may be overwritten, is added. An addition takes as long as some exponentials, so they
        /// take turns.
        fn weigh_and_add(&mut self, stage: u32, sums: &mut flash_grad::QuerySums<KEYS, { C.queries }, { C.head }, 2>) {
            const TURNS: u32 = C.dq_len() / 4;
            const EACH: u32 = C.queries / 2 / TURNS;
            flash_grad::release(self.memory.ds_bars.empty.at(stage));
            sums.wait(MAY_ADD + self.group);
            let (to, _): (u64, u64) = sums.place(self.group);
            for i in 0..TURNS {
                self.weigh::<{ EACH * i }, { EACH * (i + 1) }>();
                flash_grad::add_sums::<{ C.dq_len() }, i, { i + 1 }>(&self.dq, to);
            }
            sums.pass(ADDED + self.group);
        }

        /// dV and dK of the last tile, and dQ of the last one or two.
        fn end(&mut self, sums: &mut flash_grad::QuerySums<KEYS, { C.queries }, { C.head }, 2>) {
            let (q_stage, stage): (u32, u32) = (self.q.stage, self.at & 1);
            wgmma::fence();
            self.multiply_dv(stage);
            self.multiply_dk(stage, q_stage);
            wgmma::wait::<0>();
            if self.at > 0 {
                self.end_dq(self.at - 1, sums);
            }
            let last: u32 = self.at;
            self.end_dq(last, sums);
        }

        /// dQ of tile `number`, with nothing to overlap.
        fn end_dq(&mut self, number: u32, sums: &mut flash_grad::QuerySums<KEYS, { C.queries }, { C.head }, 2>) {
            self.wait_ds(number);
            wgmma::fence();
            self.multiply_dq(number & 1);
            wgmma::wait::<0>();
            flash_grad::release(self.memory.ds_bars.empty.at(number & 1));
            sums.wait(MAY_ADD + self.group);
            let (to, _): (u64, u64) = sums.place(self.group);
            flash_grad::add_sums::<{ C.dq_len() }, 0, { C.dq_len() / 4 }>(&self.dq, to);
            sums.pass(ADDED + self.group);
        }

        /// From a tile's weights to its dP and dS, which shared memory has then.
        fn differentiate(&mut self) {
            let stage: u32 = self.at & 1;
            self.memory.grad_bars.full.at(stage).wait((self.at >> 1) & 1);
            flash_grad::begin_sums::<{ C.queries }>(&mut self.dp, self.memory.deltas.at(stage));
            wgmma::fence();
            self.multiply_grads();
            wgmma::wait::<0>();
            self.slope();
            self.memory.ds_bars.empty.at(stage).wait((self.at >> 1) & 1 ^ 1);
            let ds: u32 = self.memory.ds.at(stage);
            flash_grad::store_transposed::<T, { C.queries }>(&self.dp, ds + self.group * C.q_part());
            tma::fence();
            barrier::sync::<128>(DS_WRITTEN + self.group);
            if tid.x % 128 == 0 {
                self.memory.ds_bars.full.at(stage).arrive();
            }
            scores::pack::<T, { C.queries / 2 }>(&mut self.p, &self.s);
        }

        /// Waits for dS of tile `number`, of both groups.
        fn wait_ds(&self, number: u32) {
            self.memory.ds_bars.full.at(number & 1).wait((number >> 1) & 1);
        }

        /// Hides scores that the mask hides, and of capped ones takes the tanh, because the derivative needs that.
        fn hide(&mut self, query: u32) {
            if self.is_capped() {
                scores::bound(&mut self.s, self.bound);
            }
            flash_grad::hide::<{ C.queries }>(&mut self.s, &self.mask, self.keys, self.key, query);
        }

        /// Scores number `FROM` to `TO` become weights, unless they have a cap.
        fn weigh<const FROM: u32, const TO: u32>(&mut self) {
            // Behind a branch, so that ptxas leaves the exponentials beside the products in flight. The exponent is positive.
            if !self.is_capped() & (self.exponent > 0.0) {
                flash_grad::weigh::<{ C.queries / 2 }, FROM, TO>(&mut self.s, self.exponent);
            }
        }

        /// dP becomes dS, and capped scores become weights.
        fn slope(&mut self) {
            if self.is_capped() {
                let logs: u32 = self.memory.logs.at(self.q.stage) + laneid % 4 * 8;
                for j in 0..C.queries / 8 {
                    let log: [f32; 2];
                    ptx! { ld.shared.v2.f32 {log[..]}, [logs + 32 * j]; }
                    for e in 0..4 {
                        const AT: u32 = 4 * j + e;
                        let (weight, slope): (f32, f32) =
                            flash_grad::weigh_capped(self.s[AT], log[e % 2], self.exponent);
                        self.s[AT] = weight;
                        self.dp[AT] *= slope;
                    }
                }
            } else {
                for i in 0..C.queries / 2 {
                    self.dp[i] *= self.s[i];
                }
            }
        }

        /// True if scores have a soft cap.
        fn is_capped(&self) -> pred {
            if C.masked == 1 { self.bound > 0.0 } else { false }
        }

        /// Waits for a tile of Q; its scores begin at what its logarithms say, or with a cap at 0.
        fn begin_scores(&mut self) {
            self.q.wait_full();
            flash_grad::begin_sums::<{ C.queries }>(&mut self.s, self.memory.logs.at(self.q.stage));
            if self.is_capped() {
                for i in 0..C.queries / 2 {
                    self.s[i] = 0.0;
                }
            }
        }

        /// Sᵀ += K · Qᵀ: 64 keys and the queries of a tile.
        fn multiply_scores(&mut self) {
            let (rows, columns): (u32, u32) = (self.memory.k, self.memory.q.at(self.q.stage));
            let (a, b): (u64, u64) =
                (wgmma::descriptor_k128(rows + self.group * 8192), wgmma::descriptor_k128(columns));
            flash_grad::multiply_rows::<T, { C.queries }, { C.head }, { C.k_part() }, { C.q_part() }>(
                &mut self.s,
                a,
                b,
            );
            wgmma::commit();
        }

        /// dPᵀ += V · dOᵀ.
        fn multiply_grads(&mut self) {
            let (rows, columns): (u32, u32) = (self.memory.v, self.memory.grad.at(self.at & 1));
            let (a, b): (u64, u64) =
                (wgmma::descriptor_k128(rows + self.group * 8192), wgmma::descriptor_k128(columns));
            flash_grad::multiply_rows::<T, { C.queries }, { C.head }, { C.k_part() }, { C.q_part() }>(
                &mut self.dp,
                a,
                b,
            );
            wgmma::commit();
        }

        /// dV += Pᵀ · dO.
        fn multiply_dv(&mut self, stage: u32) {
            let tile: u32 = self.memory.grad.at(stage);
            flash_grad::multiply_packed::<T, { C.head }, { C.queries }, { C.q_part() }>(&mut self.dv, &self.p, tile);
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

        /// dK += dSᵀ · Q. This group wrote its rows of dSᵀ to shared memory: registers are short.
        fn multiply_dk(&mut self, stage: u32, q_stage: u32) {
            const SHAPE: &str = wgmma::SHAPES_16[C.head / 8 - 1];
            let (rows, tile): (u32, u32) = (self.memory.ds.at(stage), self.memory.q.at(q_stage));
            let a: u64 = wgmma::descriptor_mn128::<{ C.q_part() }>(rows + self.group * C.q_part());
            let b: u64 = wgmma::descriptor_mn128::<{ C.q_part() }>(tile);
            for i in 0..C.queries / 16 {
                let (at_a, at_b): (u64, u64) = (a + (128 * i) as u64, b + (128 * i) as u64);
                ptx! { wgmma.mma_async.sync.aligned.{SHAPE}.f32.{T}.{T} {self.dk[..]}, at_a, at_b, 1, 1, 1, 1, 1; }
            }
            wgmma::commit();
        }

        /// Writes dK and dV through the memory of K and V.
        fn finish(&mut self, k_rows: &attention::Rows, v_rows: &attention::Rows, slope: f32) {
            for i in 0..C.head / 2 {
                self.dk[i] *= slope;
            }
            // Without any tile nobody has waited for K and V.
            self.memory.kv_full.wait(0);
            barrier::sync::<256>(CONSUMERS);
            let warp_row: u32 = self.group * 64 + tid.x / 32 % 4 * 16;
            let (k_tile, v_tile): (u32, u32) = (self.memory.k, self.memory.v);
            let row: u32 = self.key + tid.x / 32 % 4 * 16;
            v_rows.write_sums::<T, { C.head }, { C.k_part() }>(&self.dv, v_tile + warp_row * 128, row);
            k_rows.write_sums::<T, { C.head }, { C.k_part() }>(&self.dk, k_tile + warp_row * 128, row);
        }
    }
}

//! dK and dV, and sums of dQ, for rows of up to 256 elements on Hopper: TMA, `wgmma`, a product for each warp group.
//!
//! A block owns 64 keys of a head and walks over the tiles of 64 queries that see them. Sums of dK and dV fill the registers of a warp group
//! each. So the first group computes Sᵀ = K · Qᵀ and dV += Pᵀ · dO, the second one dPᵀ = V · dOᵀ and dK += dSᵀ · Q, with P and dS as left operands in
//! registers, and products as wide as the rows. P goes from the first to the second group through shared memory, dS from there to the third one, which
//! computes dQ = dS · K and adds it to the sums in global memory, in no fixed order unless the call requires one. No group waits for its
//! successor, so that one computes exponentials while the others multiply.

use super::shared;
use crate::attention::problem::{Gradients, Problem};
use ptx_launch::prelude::*;

/// The kernel and its parts.
#[ptx_module(
    arch = "sm_90a",
    params(Problem, Gradients),
    parts(shared::arguments, shared::scratch, shared::scheduler),
    modules(
        crate::attention::device::{attention, flash, scores},
        super::flash_grad::flash_grad,
        super::flash_grad_loads::flash_grad_loads
    )
)]
pub(crate) mod kernels {
    use super::{Gradients, Problem};

    /// Extents of the tiles.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Config {
        /// Most elements of a row of Q and K, and of V.
        pub head: u32,
        pub head_v: u32,
    }

    /// Keys of a block, queries of a tile, elements of a row of sums.
    const KEYS: u32 = 64;
    const QUERIES: u32 = 64;
    const SUMS: u32 = 256;

    /// Columns of dQ that are computed at a time, and bytes of so many of a tile.
    const COLUMNS: u32 = 64;
    const PART: u32 = 8192;

    /// Tiles of Q in shared memory, and those of dO and of dS.
    const Q_STAGES: u32 = 2;
    const STAGES: u32 = 2;

    /// Named barriers: of the three groups that multiply; the third one may add a tile of dQ, and has added it.
    const CONSUMERS: u32 = 1;
    const MAY_ADD: u32 = 2;
    const ADDED: u32 = 3;

    impl Config {
        /// Parts of 64 columns of a tile of Q or K, and of V or dO.
        const fn parts(&self) -> u32 {
            self.head / 64
        }

        const fn parts_v(&self) -> u32 {
            self.head_v / 64
        }
    }

    /// The shared memory of a block.
    #[align(1024)]
    struct Memory<const C: Config> {
        k: [[u8; PART]; C.parts()],
        v: [[u8; PART]; C.parts_v()],
        q: [[[u8; PART]; C.parts()]; Q_STAGES],
        grad: [[[u8; PART]; C.parts_v()]; STAGES],
        ds: [[u8; PART]; STAGES],
        weights: [f32; KEYS * QUERIES],
        logs: [[f32; QUERIES]; Q_STAGES],
        deltas: [[f32; QUERIES]; STAGES],
        q_bars: pipeline::Barriers<Q_STAGES>,
        grad_bars: pipeline::Barriers<STAGES>,
        ds_bars: pipeline::Barriers<STAGES>,
        weight_bars: pipeline::Barriers<1>,
        kv_full: mbarrier::Barrier,
        partial: mbarrier::Barrier,
    }

    /// dK and dV of 64 keys of a head, summed over the heads of Q that share it, and their part of the sums of dQ. The maps are
    /// those of `q`, `k`, `v` and `out_grad`: (batch, tokens, heads, elements) in boxes of 64 tokens and 64 elements; with cumulative
    /// lengths the batch is 1.
    #[ptx_kernel(
        block = 512,
        grid = schedule.blocks,
        max_regs = 128,
        instances = [
            d192 = ([bf16, f16], Config { head: 192, head_v: 128 }),
            d256 = ([bf16, f16], Config { head: 256, head_v: 256 })
        ],
        requires(
            p.covers_inputs([tensors.q.len(), tensors.k.len(), tensors.v.len(), tensors.bias.len()]),
            g.covers_keys([tensors.out_grad.len(), tensors.k_grad.len(), tensors.v_grad.len(), tensors.scratch.len()]),
            p.separates(schedule.starts_q.len(), schedule.starts_k.len()),
            schedule.head_block > 0 && g.heads_k % schedule.head_block == 0 && schedule.blocks > 0
        )
    )]
    pub fn wide_backward<T, const C: Config>(
        maps: Maps,
        tensors: Tensors<T>,
        p: Problem,
        g: Gradients,
        schedule: Schedule,
    ) {
        #[shared(dynamic)]
        let memory: Memory<C>;
        let starts: [Global<i32>; 2] = [schedule.starts_q, schedule.starts_k];
        let scheduler =
            Scheduler::<1> { starts, heads_k: g.heads_k, head_block: schedule.head_block, ordered: schedule.ordered };
        let keys: flash_grad::Keys = scheduler.keys(&p, ctaid.x);
        if keys.first >= keys.k.len {
            return;
        }
        let mut walk = flash_grad::Walk::new::<KEYS, QUERIES>(&keys, p.kv_group);
        let memory_at: u64 = tensors.scratch;
        let parts: flash_grad::Scratch = scratch_of::<1>(memory_at, &p);
        let mut sums = flash_grad::QuerySums::<KEYS, QUERIES, SUMS, 1>::new(&parts, &keys, &walk, schedule.ordered);
        if tid.x == 0 {
            memory.q_bars.init::<1, 8>();
            memory.grad_bars.init::<1, 8>();
            memory.ds_bars.init::<4, 4>();
            memory.weight_bars.init::<4, 4>();
            memory.kv_full.init(2);
            memory.partial.init(1);
            mbarrier::fence_init();
        }
        block::sync();
        let group: u32 = warp::broadcast(tid.x / 128, 0);
        let (k_to, v_to): (u64, u64) = (tensors.k_grad, tensors.v_grad);
        if group == 0 {
            wgmma::fewer_registers::<24>();
            if tid.x < 32 {
                let maps = flash_grad_loads::Maps { q: maps.q_map, k: maps.k_map, v: maps.v_map, grad: maps.grad_map };
                let mut producer = flash_grad_loads::Producer::<Q_STAGES, STAGES, 1>::new(tiles_of::<C>(memory), maps);
                producer.load_keys::<KEYS, { C.parts() }>(&keys, keys.first, memory.k, memory.kv_full);
                producer.load_values::<KEYS, { C.parts_v() }>(&keys, keys.first, memory.v, memory.kv_full);
                while walk.left > 0 {
                    producer.load_tile::<QUERIES, { C.parts() }, { C.parts_v() }, SUMS>(&keys, &parts, &mut walk);
                }
            }
            if (schedule.ordered != 0) & (tid.x / 32 == 1) {
                sums.keep_order(0, MAY_ADD, ADDED);
            }
        } else if group == 1 {
            wgmma::more_registers::<208>();
            let bias_from: u64 = tensors.bias;
            let mut values = Values::<T, C>::new(memory, &p, &keys, bias_from);
            values.run(&mut walk, &p);
            values.finish(&attention::Rows::of_head(v_to, g.v, keys.number, keys.head, &keys.k, p.dim_v), keys.first);
        } else if group == 2 {
            wgmma::more_registers::<208>();
            let mut slopes = Slopes::<T, C>::new(memory);
            slopes.run(&mut walk);
            slopes.finish(
                &attention::Rows::of_head(k_to, g.k, keys.number, keys.head, &keys.k, p.dim),
                keys.first,
                g.slope,
            );
        } else {
            wgmma::fewer_registers::<72>();
            let mut adder = Adder::<T, C>::new(memory);
            adder.run(&mut sums);
            barrier::sync::<384>(CONSUMERS);
        }
    }

    /// The first group: S, P and dV. A thread has two keys, 8 apart; of 8 queries it holds the scores of two.
    struct Values<T, const C: Config> {
        memory: Shared<Memory<C>>,
        key: u32,
        keys: u32,
        mask: attention::Mask,
        /// The number of the sequence, and the address of the bias.
        number: u32,
        bias: u64,
        exponent: f32,
        /// The factor of scores before a soft cap, or 0 without one.
        bound: f32,
        q: pipeline::Pipeline<Q_STAGES>,
        grad: pipeline::Pipeline<STAGES>,
        weights: pipeline::Pipeline<1>,
        s: [f32; QUERIES / 2],
        p: [b32; QUERIES / 4],
        dv: [f32; C.head_v / 2],
    }

    impl<T, const C: Config> Values<T, C> {
        fn new(memory: Shared<Memory<C>>, p: &Problem, keys: &flash_grad::Keys, bias: u64) -> Values<T, C> {
            // With a cap, scores are those before it, and it is a part of the exponent.
            let capped: pred = p.soft_cap > 0.0;
            Values {
                memory,
                key: keys.first,
                keys: keys.k.len,
                mask: keys.mask,
                number: keys.number,
                bias,
                exponent: capped.select(p.exponent * p.soft_cap, p.exponent),
                bound: capped.select(p.scale, 0.0),
                q: pipeline::Pipeline::new(memory.q_bars),
                grad: pipeline::Pipeline::new(memory.grad_bars),
                weights: pipeline::Pipeline::new(memory.weight_bars),
                s: [0.0; QUERIES / 2],
                p: [0; QUERIES / 4],
                dv: [0.0; C.head_v / 2],
            }
        }

        /// All tiles: scores of one beside dV of the one before.
        fn run(&mut self, walk: &mut flash_grad::Walk, p: &Problem) {
            self.memory.kv_full.wait(0);
            if walk.left > 0 {
                self.begin_scores();
                wgmma::fence();
                self.multiply_scores();
                wgmma::wait::<0>();
                self.exponentiate(walk, p);
                scores::pack::<T, { QUERIES / 2 }>(&mut self.p, &self.s);
                while walk.left > 1 {
                    walk.advance();
                    self.begin_scores();
                    self.grad.wait_full();
                    wgmma::fence();
                    self.multiply_scores();
                    self.multiply_dv();
                    wgmma::wait::<1>();
                    self.exponentiate(walk, p);
                    wgmma::wait::<0>();
                    flash_grad::release(self.grad.empty());
                    self.grad.advance();
                    scores::pack::<T, { QUERIES / 2 }>(&mut self.p, &self.s);
                }
                self.grad.wait_full();
                wgmma::fence();
                self.multiply_dv();
                wgmma::wait::<0>();
            }
        }

        /// Waits for a tile of Q; its scores begin at what its logarithms say, or with a cap at 0.
        fn begin_scores(&mut self) {
            self.q.wait_full();
            flash_grad::begin_sums::<QUERIES>(&mut self.s, self.memory.logs.at(self.q.stage));
            if self.bound > 0.0 {
                for i in 0..QUERIES / 2 {
                    self.s[i] = 0.0;
                }
            }
        }

        /// Sᵀ += K · Qᵀ.
        fn multiply_scores(&mut self) {
            let (rows, columns): (u32, u32) = (self.memory.k, self.memory.q.at(self.q.stage));
            let (a, b): (u64, u64) = (wgmma::descriptor_k128(rows), wgmma::descriptor_k128(columns));
            flash_grad::multiply_rows::<T, QUERIES, { C.head }, PART, PART>(&mut self.s, a, b);
            wgmma::commit();
        }

        /// dV += Pᵀ · dO.
        fn multiply_dv(&mut self) {
            let tile: u32 = self.memory.grad.at(self.grad.stage);
            flash_grad::multiply_packed::<T, { C.head_v }, QUERIES, PART>(&mut self.dv, &self.p, tile);
            wgmma::commit();
        }

        /// Scores become weights; the second group gets them, or with a cap their products with the derivative.
        fn exponentiate(&mut self, walk: &flash_grad::Walk, p: &Problem) {
            let query: u32 = walk.tile * QUERIES;
            let (extents, factors): ([u32; 2], [f32; 2]) = ([self.mask.columns, self.keys], [p.scale, p.soft_cap]);
            let changes = attention::ScoreMod::of_head(self.bias, p.bias, self.number, walk.head, extents, factors);
            let mut bias = flash_grad::BiasRows::new(&changes.transposed(), self.key, query);
            let to: u32 = self.memory.weights + tid.x % 128 * 16;
            if self.bound > 0.0 {
                scores::bound(&mut self.s, self.bound);
                flash_grad::hide::<QUERIES>(&mut self.s, &self.mask, self.keys, self.key, query);
                let logs: u32 = self.memory.logs.at(self.q.stage) + laneid % 4 * 8;
                let unit: f32 = 1.0 / p.soft_cap;
                self.weights.wait_empty();
                for i in 0..QUERIES / 8 {
                    let (log, slopes): ([f32; 2], [f32; 4]);
                    ptx! { ld.shared.v2.f32 {log[..]}, [logs + 32 * i]; }
                    let mut added: [f32; 4] = [log[0], log[1], log[0], log[1]];
                    if p.biased != 0 {
                        let values: [f32; 4] = bias.next::<T>();
                        for e in 0..4 {
                            added[e] = unit.fma(values[e], added[e]);
                        }
                    }
                    for e in 0..4 {
                        (self.s[4 * i + e], slopes[e]) =
                            flash_grad::exponentiate_capped(self.s[4 * i + e], added[e], self.exponent);
                    }
                    ptx! { st.shared.v4.f32 [to + 2048 * i], {slopes[..]}; }
                }
            } else {
                if p.biased != 0 {
                    for j in 0..QUERIES / 8 {
                        let values: [f32; 4] = bias.next::<T>();
                        for e in 0..4 {
                            self.s[4 * j + e] = self.s[4 * j + e].fma(p.scale, values[e]);
                        }
                    }
                }
                flash_grad::hide::<QUERIES>(&mut self.s, &self.mask, self.keys, self.key, query);
                flash_grad::exponentiate::<{ QUERIES / 2 }, 0, { QUERIES / 2 }>(&mut self.s, self.exponent);
                self.weights.wait_empty();
                for i in 0..QUERIES / 8 {
                    ptx! { st.shared.v4.f32 [to + 2048 * i], {self.s[4 * i..4 * i + 4]}; }
                }
            }
            flash_grad::release(self.weights.full());
            self.weights.advance();
            flash_grad::release(self.q.empty());
            self.q.advance();
        }

        /// Writes dV through the memory of V.
        fn finish(&mut self, rows: &attention::Rows, first: u32) {
            barrier::sync::<384>(CONSUMERS);
            let (tile, row): (u32, u32) = (self.memory.v, tid.x / 32 % 4 * 16);
            rows.write_sums::<T, { C.head_v }, PART>(&self.dv, tile + row * 128, first + row);
        }
    }

    /// The second group: dP, dS and dK. Its threads have the same keys and queries.
    struct Slopes<T, const C: Config> {
        memory: Shared<Memory<C>>,
        q: pipeline::Pipeline<Q_STAGES>,
        grad: pipeline::Pipeline<STAGES>,
        weights: pipeline::Pipeline<1>,
        ds: pipeline::Pipeline<STAGES>,
        dp: [f32; QUERIES / 2],
        p: [b32; QUERIES / 4],
        dk: [f32; C.head / 2],
    }

    impl<T, const C: Config> Slopes<T, C> {
        fn new(memory: Shared<Memory<C>>) -> Slopes<T, C> {
            Slopes {
                memory,
                q: pipeline::Pipeline::new(memory.q_bars),
                grad: pipeline::Pipeline::new(memory.grad_bars),
                weights: pipeline::Pipeline::new(memory.weight_bars),
                ds: pipeline::Pipeline::new(memory.ds_bars),
                dp: [0.0; QUERIES / 2],
                p: [0; QUERIES / 4],
                dk: [0.0; C.head / 2],
            }
        }

        /// All tiles: dP of one behind dK of the one before, so that its tile of Q is soon free.
        fn run(&mut self, walk: &mut flash_grad::Walk) {
            self.memory.kv_full.wait(0);
            if walk.left > 0 {
                self.begin_grads();
                wgmma::fence();
                self.multiply_grads();
                wgmma::wait::<0>();
                self.differentiate();
                while walk.left > 1 {
                    walk.advance();
                    self.begin_grads();
                    self.q.wait_full();
                    wgmma::fence();
                    self.multiply_dk();
                    self.multiply_grads();
                    wgmma::wait::<1>();
                    flash_grad::release(self.q.empty());
                    self.q.advance();
                    wgmma::wait::<0>();
                    self.differentiate();
                }
                self.q.wait_full();
                wgmma::fence();
                self.multiply_dk();
                wgmma::wait::<0>();
            }
        }

        /// Waits for a tile of dO; its dP begin at -delta.
        fn begin_grads(&mut self) {
            self.grad.wait_full();
            flash_grad::begin_sums::<QUERIES>(&mut self.dp, self.memory.deltas.at(self.grad.stage));
        }

        /// dPᵀ += V · dOᵀ.
        fn multiply_grads(&mut self) {
            let (rows, columns): (u32, u32) = (self.memory.v, self.memory.grad.at(self.grad.stage));
            let (a, b): (u64, u64) = (wgmma::descriptor_k128(rows), wgmma::descriptor_k128(columns));
            flash_grad::multiply_rows::<T, QUERIES, { C.head_v }, PART, PART>(&mut self.dp, a, b);
            wgmma::commit();
        }

        /// dK += dSᵀ · Q.
        fn multiply_dk(&mut self) {
            let tile: u32 = self.memory.q.at(self.q.stage);
            flash_grad::multiply_packed::<T, { C.head }, QUERIES, PART>(&mut self.dk, &self.p, tile);
            wgmma::commit();
        }

        /// dP becomes dS, which the third group gets.
        fn differentiate(&mut self) {
            flash_grad::release(self.grad.empty());
            self.grad.advance();
            self.weights.wait_full();
            let from: u32 = self.memory.weights + tid.x % 128 * 16;
            for i in 0..QUERIES / 8 {
                let weights: [f32; 4];
                ptx! { ld.shared.v4.f32 {weights[..]}, [from + 2048 * i]; }
                for e in 0..4 {
                    self.dp[4 * i + e] *= weights[e];
                }
            }
            flash_grad::release(self.weights.empty());
            self.weights.advance();
            self.ds.wait_empty();
            flash_grad::store_transposed::<T, QUERIES>(&self.dp, self.memory.ds.at(self.ds.stage));
            tma::fence();
            flash_grad::release(self.ds.full());
            self.ds.advance();
            scores::pack::<T, { QUERIES / 2 }>(&mut self.p, &self.dp);
        }

        /// Writes dK through the memory of K.
        fn finish(&mut self, rows: &attention::Rows, first: u32, slope: f32) {
            for i in 0..C.head / 2 {
                self.dk[i] *= slope;
            }
            barrier::sync::<384>(CONSUMERS);
            let (tile, row): (u32, u32) = (self.memory.k, tid.x / 32 % 4 * 16);
            rows.write_sums::<T, { C.head }, PART>(&self.dk, tile + row * 128, first + row);
        }
    }

    /// The third group: dQ of each tile, added to the sums in global memory.
    struct Adder<T, const C: Config> {
        memory: Shared<Memory<C>>,
        ds: pipeline::Pipeline<STAGES>,
        dq: [f32; COLUMNS / 2],
    }

    impl<T, const C: Config> Adder<T, C> {
        fn new(memory: Shared<Memory<C>>) -> Adder<T, C> {
            Adder { memory, ds: pipeline::Pipeline::new(memory.ds_bars), dq: [0.0; COLUMNS / 2] }
        }

        /// All tiles.
        fn run(&mut self, sums: &mut flash_grad::QuerySums<KEYS, QUERIES, SUMS, 1>) {
            self.memory.kv_full.wait(0);
            while sums.walk.left > 0 {
                let (to, _): (u64, u64) = sums.place(0);
                self.ds.wait_full();
                for i in 0..C.parts() {
                    wgmma::fence();
                    self.multiply_dq::<i>();
                    wgmma::wait::<0>();
                    if i == 0 {
                        sums.wait(MAY_ADD);
                    }
                    if i == C.parts() - 1 {
                        flash_grad::release(self.ds.empty());
                    }
                    flash_grad::add_sums::<{ COLUMNS / 2 }, 0, { COLUMNS / 8 }>(
                        &self.dq,
                        to + (COLUMNS * QUERIES * 4 * i) as u64,
                    );
                }
                self.ds.advance();
                sums.pass(ADDED);
            }
        }

        /// Columns of dQ = dS · K.
        fn multiply_dq<const AT: u32>(&mut self) {
            const SHAPE: &str = wgmma::SHAPES_16[COLUMNS / 8 - 1];
            let (rows, columns): (u32, u32) = (self.memory.ds.at(self.ds.stage), self.memory.k + AT * PART);
            let (a, b): (u64, u64) = (wgmma::descriptor_k128(rows), wgmma::descriptor_mn128::<PART>(columns));
            for i in 0..KEYS / 16 {
                const ADD: u32 = (i != 0) as u32;
                let (at_a, at_b): (u64, u64) = (a + (2 * i) as u64, b + (128 * i) as u64);
                ptx! { wgmma.mma_async.sync.aligned.{SHAPE}.f32.{T}.{T} {self.dq[..]}, at_a, at_b, ADD, 1, 1, 0, 1; }
            }
            wgmma::commit();
        }
    }
}

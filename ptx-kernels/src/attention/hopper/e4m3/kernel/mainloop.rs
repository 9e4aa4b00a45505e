//! The consumers of the kernel for `e4m3`: a warp group's walk over tiles of keys, and its two products.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod consumer {
    /// State of a warp group that multiplies. This thread has two rows, 8 apart; of 8 keys it holds the scores of two.
    struct Consumer<T, const C: Config> {
        warp_group: u32,
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
        softmax: scores::Softmax<2, 6, 0>,
    }

    impl<T, const C: Config> Consumer<T, C> {
        fn new(memory: &Memory<C>) -> Consumer<T, C> {
            let warp_group: u32 = warp::broadcast(tid.x / 128 - 1, 0);
            let s: [f32; C.keys / 2] = [0.0; C.keys / 2];
            let p: [b32; C.keys / 8] = [0; C.keys / 8];
            let o: [f32; C.head / 2] = [0.0; C.head / 2];
            Consumer {
                warp_group,
                own: 0,
                top: 0,
                q_rows: wgmma::descriptor_k::<{ C.width() }>(memory.q.tile + warp_group * (64 * C.width())),
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

        /// All work tiles. While the results of one leave, the first scores of the next are on the tensor cores.
        fn run(&mut self, memory: &Memory<C>, p: &Problem, descale: &attention::Descale, out: u64, lse: u64) {
            let mut work = flash::WorkTile::none();
            let mut bounds = flash::Bounds::none();
            let mut at = flash::Position::<STAGES> { stage: 0, phase: 0 };
            let mut turn: u32 = 0;
            memory.slots.receive(&mut work, &mut bounds, turn);
            // Producers send work tiles of sequences and heads that there are, and each block has one.
            assume!(work.batch < p.batch && work.head < p.heads);
            cut!(work.batch < p.batch && work.head < p.heads && work.first >= 0);
            let (mut score, mut factor): (f32, f32) = descale.of_head(work.batch, work.head / p.kv_group);
            memory.q.wait(self.warp_group, 0);
            memory.k.wait(&at);
            wgmma::fence();
            self.issue_qk(0);
            wgmma::commit();
            wgmma::wait::<0>();
            invariant!(at.stage < STAGES && work.batch < p.batch && work.head < p.heads);
            loop {
                (self.exponent, self.factor) = (p.exponent * score, factor);
                self.reset(&work, high::<C>(p));
                self.mainloop(memory, &work, &mut at, p.tokens_k);
                let (first, head, batch): (u32, u32, u32) = (work.first, work.head, work.batch);
                let done = flash::WorkTile { first, head, batch, blocks: 0 };
                turn += 1;
                memory.slots.receive(&mut work, &mut bounds, turn);
                if work.blocks == 0 {
                    self.epilogue(&done, p, out, lse);
                    break;
                }
                assume!(work.batch < p.batch && work.head < p.heads);
                cut!(work.batch < p.batch && work.head < p.heads && work.first >= 0);
                let head_k: u32 = work.head / p.kv_group;
                cut!(head_k < p.heads / p.kv_group);
                (score, factor) = descale.of_head(work.batch, head_k);
                memory.q.wait(self.warp_group, turn);
                memory.k.wait(&at);
                wgmma::fence();
                self.issue_qk(at.stage);
                wgmma::commit();
                self.epilogue(&done, p, out, lse);
                wgmma::wait::<0>();
            }
        }

        /// A new work tile: nothing is summed yet.
        fn reset(&mut self, work: &flash::WorkTile, high: i32) {
            let first: u32 = work.first + self.warp_group * 64;
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
        fn mainloop(
            &mut self,
            memory: &Memory<C>,
            work: &flash::WorkTile,
            at: &mut flash::Position<STAGES>,
            keys: u32,
        ) {
            let mut block: u32 = work.blocks - 1;
            self.release(memory, at.stage, block);
            self.mask_dense(block, keys);
            self.softmax.update(&mut self.s, self.exponent);
            flash8::pack::<{ C.keys / 2 }>(&mut self.p, &self.s);
            invariant!(at.stage < STAGES);
            while block > 0 {
                block -= 1;
                let (v_stage, v_phase): (u32, u32) = (at.stage, at.phase);
                at.advance();
                memory.k.wait(at);
                wgmma::fence();
                self.issue_qk(at.stage);
                wgmma::commit();
                mbarrier::wait(memory.turned.full + 8 * v_stage, v_phase);
                self.issue_pv(v_stage);
                wgmma::commit();
                wgmma::wait::<1>();
                self.release(memory, at.stage, block);
                self.mask_dense(block, keys);
                let grown: pred = self.softmax.update(&mut self.s, self.exponent);
                // True for all warps, as `wgmma` requires; the branch keeps ptxas from waiting before the exponentials.
                if block < work.blocks {
                    wgmma::wait::<0>();
                    if grown {
                        self.softmax.rescale(&mut self.o);
                    }
                } else {
                    wgmma::wait::<0>();
                }
                memory.turned.release(v_stage);
                flash8::pack::<{ C.keys / 2 }>(&mut self.p, &self.s);
            }
            memory.turned.wait(at);
            wgmma::fence();
            self.issue_pv(at.stage);
            wgmma::commit();
            wgmma::wait::<0>();
            memory.turned.release(at.stage);
            at.advance();
        }

        /// S = Q · Kᵀ: 64 rows and `keys` columns, 32 elements at a time.
        fn issue_qk(&mut self, stage: u32) {
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
        fn issue_pv(&mut self, stage: u32) {
            const SHAPE: &str = wgmma::SHAPES_8[C.head / 8 - 1];
            let v_rows: u64 = self.v_rows + (stage * (C.kv_tile() / 16)) as u64;
            for i in 0..C.keys / 32 {
                let b: u64 = v_rows + (i * (32 * C.head / 16)) as u64;
                ptx! {
                    wgmma.mma_async.sync.aligned.{SHAPE}.f32.e4m3.e4m3 {self.o[..]}, {self.p[4 * i..4 * i + 4]}, b, 1, 1, 1;
                }
            }
        }
    }
}

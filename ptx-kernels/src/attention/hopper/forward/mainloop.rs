//! The consumers of the forward kernel: a warp group's walk over tiles of keys, and its two products.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod consumer {
    /// State of a warp group that multiplies. This thread has two rows, 8 apart; of 8 keys it holds the scores of two.
    struct Consumer<T, const C: Config> {
        group: u32,
        /// The first of this thread's rows and of the group's, plus the keys that query 0 sees behind key 0; without them if masked.
        own: i32,
        top: i32,
        mask: attention::Mask,
        /// Addresses of the bias, and of its rows of a piece's head.
        bias: u64,
        bias_rows: u64,
        q_rows: u64,
        k_rows: u64,
        v_rows: u64,
        exponent: f32,
        /// The last tile that had a large key, times 8, plus the number of tiles before it that had one, too.
        streak: u32,
        s: [f32; C.keys / 2],
        p: [b32; C.keys / 4],
        o: [f32; C.head_v / 2],
        softmax: scores::Softmax<0, 0, { scores::headroom::<T>() }>,
    }

    impl<T, const C: Config> Consumer<T, C> {
        fn new(memory: &Memory<C>, p: &Problem, bias: u64) -> Consumer<T, C> {
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
                // Without a bias, scores are those before the cap, and the cap is a part of the exponent.
                exponent = ((p.soft_cap > 0.0) & (p.biased == 0)).select(p.exponent * p.soft_cap, p.exponent);
            }
            Consumer {
                group,
                own: 0,
                top: 0,
                mask: attention::Mask { columns: 0, low: 0, high: 0 },
                bias,
                bias_rows: 0,
                q_rows: wgmma::descriptor_k128(memory.q.tile + group * (64 * 128)),
                k_rows: wgmma::descriptor_k128(memory.k.tiles),
                v_rows: wgmma::descriptor::<{ C.kv_part() }, 1024, 128>(memory.v.tiles),
                exponent,
                streak: 0,
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
                    self.bias_rows = self.bias + p.bias[0] * work.batch as u64 + p.bias[1] * work.head as u64;
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
            self.streak = 0;
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
                    self.weigh_exactly(memory, v_stage, [block, work.blocks]);
                } else {
                    self.mask(begin, block, p);
                    let mut sums: [f32; 2] = [0.0, 0.0];
                    if self.weigh(memory, v_stage, [block, work.blocks], &mut sums) {
                        if self.softmax.overflows(&sums) {
                            self.weigh_again(memory, at.stage, [begin, block], p);
                        } else {
                            self.settle([block, work.blocks], &sums);
                        }
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
    }
}

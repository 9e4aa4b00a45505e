//! The consumers of the forward kernel: a warp group's persistent loop over work tiles, its main loop over tiles of keys, and the two products.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod consumer {
    /// State of a warp group that multiplies. This thread has two rows, 8 apart; of 8 keys it holds the scores of two.
    struct Consumer<T, const C: Config> {
        warp_group: u32,
        /// The first of this thread's rows and of the group's, plus the keys that query 0 sees behind key 0; without them if masked.
        own: i32,
        top: i32,
        mask: attention::Mask,
        /// Addresses of the bias, and of its rows of a work tile's head.
        bias: u64,
        bias_rows: u64,
        q_rows: u64,
        k_rows: u64,
        v_rows: u64,
        exponent: f32,
        /// The run of tiles with a large key: the number of the last one, times 8, plus the length of the run before it.
        large_run: u32,
        s: [f32; C.keys / 2],
        p: [b32; C.keys / 4],
        o: [f32; C.head_v / 2],
        softmax: scores::Softmax<0, 0, { scores::headroom::<T>() }>,
    }

    impl<T, const C: Config> Consumer<T, C> {
        fn new(memory: &Memory<C>, p: &Problem, bias: u64) -> Consumer<T, C> {
            let warp_group: u32 = warp::broadcast(tid.x / 128 - 1, 0);
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
                warp_group,
                own: 0,
                top: 0,
                mask: attention::Mask { columns: 0, low: 0, high: 0 },
                bias,
                bias_rows: 0,
                q_rows: wgmma::descriptor_k128(memory.q.tile + warp_group * (64 * 128)),
                k_rows: wgmma::descriptor_k128(memory.k.tiles),
                v_rows: wgmma::descriptor::<{ C.kv_part() }, 1024, 128>(memory.v.tiles),
                exponent,
                large_run: 0,
                s,
                p: packed,
                o,
                softmax: scores::Softmax::new(),
            }
        }

        /// The persistent loop. Empty sequences may leave a block without a work tile.
        fn run(&mut self, memory: &Memory<C>, p: &Problem, out: u64, lse: u64) {
            let mut work = flash::WorkTile::none();
            let mut bounds = flash::Bounds::none();
            memory.slots.receive(&mut work, &mut bounds, 0);
            if C.masked == 1 {
                if work.blocks > 0 {
                    self.run_tiles(memory, &mut work, &mut bounds, p, [out, lse]);
                }
            } else {
                self.run_tiles(memory, &mut work, &mut bounds, p, [out, lse]);
            }
        }

        /// All work tiles from `work` on. The epilogue of one runs while the first scores of the next are on the tensor cores.
        fn run_tiles(
            &mut self,
            memory: &Memory<C>,
            work: &mut flash::WorkTile,
            bounds: &mut flash::Bounds,
            p: &Problem,
            to: [u64; 2],
        ) {
            let (out, lse): (u64, u64) = (to[0], to[1]);
            let mut at = flash::Position::<{ C.stages }> { stage: 0, phase: 0 };
            let mut turn: u32 = 0;
            self.assume_is_of(work, p);
            memory.q.wait(self.warp_group, 0);
            self.skip(memory, work, &mut at, p);
            memory.k.wait(&at);
            wgmma::fence();
            self.issue_qk(at.stage);
            wgmma::commit();
            wgmma::wait::<0>();
            invariant!(at.stage < C.stages && (C.masked == 1 || work.batch < p.batch && work.head < p.heads));
            loop {
                if C.masked == 1 {
                    self.mask = attention::Mask::new(bounds.queries, bounds.keys, p.top_left, p.left, p.right);
                    self.bias_rows = self.bias + p.bias[0] * work.batch as u64 + p.bias[1] * work.head as u64;
                    self.reset(work, 0);
                } else {
                    self.reset(work, high::<C>(p));
                }
                self.mainloop(memory, work, bounds.begin, &mut at, p);
                let (first, head, batch): (u32, u32, u32) = (work.first, work.head, work.batch);
                let done = flash::WorkTile { first, head, batch, blocks: 0 };
                let (start, queries): (u32, u32) = (bounds.start, bounds.queries);
                let old = flash::Bounds { begin: 0, start, queries, keys: 0 };
                turn += 1;
                memory.slots.receive(work, bounds, turn);
                if work.blocks == 0 {
                    self.epilogue(&done, &old, p, out, lse);
                    break;
                }
                self.assume_is_of(work, p);
                memory.q.wait(self.warp_group, turn & 1);
                self.skip(memory, work, &mut at, p);
                memory.k.wait(&at);
                wgmma::fence();
                self.issue_qk(at.stage);
                wgmma::commit();
                self.epilogue(&done, &old, p, out, lse);
                wgmma::wait::<0>();
            }
        }

        /// Work tiles that arrive are of sequences and heads that there are, unless cumulative lengths choose them.
        fn assume_is_of(&self, work: &flash::WorkTile, p: &Problem) {
            if C.masked == 0 {
                assume!(work.batch < p.batch && work.head < p.heads);
                cut!(work.batch < p.batch && work.head < p.heads && work.first >= 0);
            }
        }

        /// If causal, releases the last tiles of keys of a work tile, which later warp groups see and this one does not.
        fn skip(
            &self,
            memory: &Memory<C>,
            work: &mut flash::WorkTile,
            at: &mut flash::Position<{ C.stages }>,
            p: &Problem,
        ) {
            if C.causal == 1 {
                let seen: i32 = (signed(work.first + self.warp_group * 64 + 63) + high::<C>(p)).min(signed(p.tokens_k));
                let own: u32 = unsigned(seen.max(1) + (C.keys - 1) as i32) / C.keys;
                invariant!(at.stage < C.stages);
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

        /// The state at the begin of a work tile: empty sums.
        fn reset(&mut self, work: &flash::WorkTile, high: i32) {
            let first: u32 = work.first + self.warp_group * 64;
            self.top = signed(first) + high;
            self.own = signed(first + tid.x / 32 % 4 * 16 + laneid / 4) + high;
            self.large_run = 0;
            for half in 0..2 {
                self.softmax.clear::<half>();
            }
            for i in 0..C.head_v / 2 {
                self.o[i] = 0.0;
            }
        }

        /// The main loop, from the scores of the first tile on: S of the next tile is on the tensor cores together with O += P · V of this one.
        fn mainloop(
            &mut self,
            memory: &Memory<C>,
            work: &flash::WorkTile,
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
            invariant!(at.stage < C.stages);
            while block > 0 {
                block -= 1;
                let (v_stage, v_phase): (u32, u32) = (at.stage, at.phase);
                at.advance();
                memory.k.wait(at);
                wgmma::fence();
                self.issue_qk(at.stage);
                wgmma::commit();
                mbarrier::wait(memory.v.full + 8 * v_stage, v_phase);
                self.issue_pv(v_stage);
                wgmma::commit();
                wgmma::wait::<1>();
                if C.hiding() == 0 {
                    self.release(memory, at.stage, block);
                    self.mask(begin, block, p);
                    self.softmax_online(memory, v_stage, [block, work.blocks]);
                } else {
                    self.mask(begin, block, p);
                    let mut sums: [f32; 2] = [0.0, 0.0];
                    if self.softmax_speculative(memory, v_stage, [block, work.blocks], &mut sums) {
                        if self.softmax.overflows(&sums) {
                            self.softmax_recompute(memory, at.stage, [begin, block], p);
                        } else {
                            self.softmax_correct([block, work.blocks], &sums);
                        }
                    } else {
                        self.softmax.add_sums(&sums);
                    }
                    self.release(memory, at.stage, block);
                }
            }
            memory.v.wait(at);
            wgmma::fence();
            self.issue_pv(at.stage);
            wgmma::commit();
            wgmma::wait::<0>();
            memory.v.release(at.stage);
            at.advance();
        }

        /// S = Q · Kᵀ: 64 rows and `keys` columns, 16 elements at a time.
        fn issue_qk(&mut self, stage: u32) {
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
        fn issue_pv(&mut self, stage: u32) {
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

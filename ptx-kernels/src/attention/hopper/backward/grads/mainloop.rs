//! The consumers of the backward kernel: the persistent loop over work tiles, and the software pipeline of a warp group. `grads` has a picture of it.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod consumer {
    /// State of a warp group that multiplies. This thread has two keys, 8 apart; of 8 queries it holds the scores of two.
    struct Consumer<T, const C: Config> {
        memory: Shared<Memory<C>>,
        received: Received<C>,
        /// The sums in global memory to which this group adds its part of dQ.
        sums: flash_grad::QuerySums<KEYS, { C.queries }, { C.head }, 2>,
        warp_group: u32,
        /// This group's first key, the number of all, the queries that see a key, and the number of the sequence.
        key: u32,
        keys: u32,
        mask: attention::Mask,
        number: u32,
        /// The first query of the current tile, and its head.
        query: u32,
        head: u32,
        /// The address of the bias.
        bias: u64,
        exponent: f32,
        /// The factor of scores before a soft cap, or 0 without one.
        bound: f32,
        /// The number of the current tile: its stage of dO and dS, and the parity of the round. The first tile whose dQ has not been added when it is
        /// the current one.
        at: u32,
        first: u32,
        /// The tiles of K, of Q and this group's values.
        k: pipeline::Pipeline<K_STAGES>,
        q: pipeline::Pipeline<Q_STAGES>,
        v: pipeline::Pipeline<V_STAGES>,
        s: [f32; C.queries / 2],
        dp: [f32; C.queries / 2],
        p: [b32; C.queries / 4],
        dq: [f32; C.dq_len()],
        dk: [f32; C.head / 2],
        dv: [f32; C.head / 2],
    }

    impl<T, const C: Config> Consumer<T, C> {
        fn new(
            memory: Shared<Memory<C>>,
            p: &Problem,
            parts: &flash_grad::Scratch,
            ordered: u32,
            bias: u64,
        ) -> Consumer<T, C> {
            let warp_group: u32 = warp::broadcast(tid.x / 128 - 1, 0);
            let (mut exponent, mut bound): (f32, f32) = (p.exponent, 0.0);
            if C.masked == 1 {
                // Scores are those before the cap, and the cap is a part of the exponent.
                let capped: pred = p.soft_cap > 0.0;
                exponent = capped.select(p.exponent * p.soft_cap, p.exponent);
                bound = capped.select(p.scale, 0.0);
            }
            let received = Received::<C>::new(memory);
            let (keys, _): (flash_grad::Keys, u32) = received.next(p);
            let walk = flash_grad::Walk::new::<KEYS, { C.queries }>(&keys, p.kv_group);
            let mut v = pipeline::Pipeline::<V_STAGES>::new(memory.v_bars);
            v.stage = warp_group;
            Consumer {
                memory,
                received,
                sums: flash_grad::QuerySums::new(parts, &keys, &walk, ordered),
                warp_group,
                key: 0,
                keys: 0,
                mask: attention::Mask { columns: 0, low: 0, high: 0 },
                number: 0,
                query: 0,
                head: 0,
                bias,
                exponent,
                bound,
                at: 0,
                first: 0,
                k: pipeline::Pipeline::new(memory.k_bars),
                q: pipeline::Pipeline::new(memory.q_bars),
                v,
                s: [0.0; C.queries / 2],
                dp: [0.0; C.queries / 2],
                p: [0; C.queries / 4],
                dq: [0.0; C.dq_len()],
                dk: [0.0; C.head / 2],
                dv: [0.0; C.head / 2],
            }
        }

        /// The persistent loop. Without masks, the pipeline continues from the last tile of one work tile into the first tile of the next, unless one of them is
        /// too short: two work tiles have their K in shared memory, and dQ lags two tiles behind.
        fn run(&mut self, p: &Problem, g: &Gradients, to: [u64; 2]) {
            let (mut begun, mut tiles): (u32, u32) = (0, 0);
            loop {
                let (keys, some): (flash_grad::Keys, u32) = self.received.next(p);
                let mut walk = flash_grad::Walk::new::<KEYS, { C.queries }>(&keys, p.kv_group);
                let count: u32 = walk.left;
                if self.is_overlapped([some, count, tiles]) {
                    self.prologue_overlapped(&keys, &mut walk, p, g, to);
                } else {
                    self.drain([begun, tiles], p, g, to);
                    if some == 0 {
                        break;
                    }
                    begun = 1;
                    self.prologue(&keys, &mut walk, p, g, to);
                }
                while walk.left > 1 {
                    walk.advance();
                    self.mainloop_step::<1, 0>(&walk, p, g, to);
                }
                flash_grad::release(self.v.empty());
                self.v.advance();
                self.v.advance();
                self.received.advance();
                tiles = count;
            }
        }

        /// True if a work tile follows, and it and the one before have enough tiles of queries. `counts` has the numbers of these.
        fn is_overlapped(&self, counts: [u32; 3]) -> pred {
            if C.masked == 0 { (counts[0] != 0) & (counts[1] > 0) & (counts[2] > 1) } else { false }
        }

        /// Drains the pipeline of the work tile before, if there is one, and writes its results.
        fn drain(&mut self, before: [u32; 2], p: &Problem, g: &Gradients, to: [u64; 2]) {
            if before[1] > 0 {
                self.drain_products(p, before[1]);
            }
            if before[0] != 0 {
                self.epilogue(p, g, to);
                flash_grad::release(self.k.empty());
                self.k.advance();
                self.count_end(self.received.at.stage ^ 1);
            }
        }

        /// All of this thread's dQ of the work tile in a slot have been added. All threads arrive: with a branch for one of a warp, ptxas keeps the addresses of
        /// tiles in vector registers. Without an order, a warp waits for them.
        fn count_end(&self, slot: u32) {
            if C.masked == 0 {
                if self.sums.ordered == 0 {
                    barrier::arrive::<288>(WORK_TILE_ENDED + slot);
                }
            }
        }

        /// Fills the empty pipeline with the first two tiles of a work tile.
        fn prologue(
            &mut self,
            keys: &flash_grad::Keys,
            walk: &mut flash_grad::Walk,
            p: &Problem,
            g: &Gradients,
            to: [u64; 2],
        ) {
            self.begin_keys(keys);
            self.sums.turn(keys, walk);
            if walk.left > 0 {
                self.first_tile(walk, p);
            } else {
                self.v.wait_full();
            }
            if walk.left > 1 {
                walk.advance();
                self.mainloop_step::<0, 0>(walk, p, g, to);
            }
        }

        /// The first two tiles of a work tile while dQ of the work tile before is still in the pipeline.
        fn prologue_overlapped(
            &mut self,
            keys: &flash_grad::Keys,
            walk: &mut flash_grad::Walk,
            p: &Problem,
            g: &Gradients,
            to: [u64; 2],
        ) {
            self.k.advance();
            self.begin_keys(keys);
            self.mainloop_step::<1, 1>(walk, p, g, to);
            if walk.left > 1 {
                walk.advance();
                self.mainloop_step::<1, 2>(walk, p, g, to);
                let keys: flash_grad::Keys = self.received.current(p);
                self.switch_keys(&keys, p.kv_group);
                self.count_end(self.received.at.stage ^ 1);
            }
        }

        /// Switches the coordinates and the mask to other keys, and waits for their K.
        fn begin_keys(&mut self, keys: &flash_grad::Keys) {
            self.key = keys.first + self.warp_group * 64;
            self.keys = keys.k.len;
            self.number = keys.number;
            self.mask.columns = keys.mask.columns;
            self.mask.low = keys.mask.low;
            self.mask.high = keys.mask.high;
            self.k.wait_full();
        }

        /// Sets the coordinates of the current tile.
        fn set_tile(&mut self, walk: &flash_grad::Walk) {
            self.query = walk.tile * C.queries;
            self.head = walk.head;
        }

        /// The next dQ belong to these keys: releases K of the keys before.
        fn switch_keys(&mut self, keys: &flash_grad::Keys, group: u32) {
            flash_grad::release(self.memory.k_bars.empty.at(self.k.stage ^ 1));
            self.sums.turn(keys, &flash_grad::Walk::new::<KEYS, { C.queries }>(keys, group));
        }

        /// The first tile, up to its dS, without overlap.
        fn first_tile(&mut self, walk: &flash_grad::Walk, p: &Problem) {
            self.set_tile(walk);
            self.first = self.at;
            self.begin_scores();
            wgmma::fence();
            self.multiply_scores();
            wgmma::wait::<0>();
            // From here on the second warp group is half a step behind the first one.
            if self.warp_group == 0 {
                barrier::arrive::<256>(CONSUMERS);
            } else {
                barrier::sync::<256>(CONSUMERS);
            }
            self.apply_mask(p);
            self.exponentiate::<0, { C.queries / 2 }>();
            self.v.wait_full();
            self.compute_ds(p);
        }

        /// One step of the pipeline: S, P, dP and dS of this tile, dV and dK of the tile before, and with `LAG` = 1 dQ of the tile before that. Both warp
        /// groups have written its dS by then, although one is half a step ahead: one multiplies while the other computes exponentials. With `TURN` = 1
        /// or 2 this is the first or second tile of its keys, and dQ belongs to the keys before; with 1 their dV and dK are complete.
        fn mainloop_step<const LAG: u32, const TURN: u32>(
            &mut self,
            walk: &flash_grad::Walk,
            p: &Problem,
            g: &Gradients,
            to: [u64; 2],
        ) {
            self.set_tile(walk);
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
                self.multiply_dq(stage ^ 1, if TURN == 0 { self.k.stage } else { self.k.stage ^ 1 });
            }
            self.multiply_dv(stage);
            self.multiply_dk(stage, q_stage);
            wgmma::wait::<{ 2 + LAG }>();
            self.apply_mask(p);
            if LAG == 1 {
                wgmma::wait::<2>();
                self.exponentiate_and_add_dq(stage ^ 1);
            } else {
                self.exponentiate::<0, { C.queries / 2 }>();
            }
            wgmma::wait::<0>();
            flash_grad::release(self.memory.grad_bars.empty.at(stage));
            flash_grad::release(self.memory.q_bars.empty.at(q_stage));
            if TURN == 1 {
                self.epilogue(p, g, to);
                self.v.wait_full();
            }
            self.compute_ds(p);
        }

        /// Scores become exponentials, and dQ from the dS of `stage`, which is released, is added to its sums. The additions are interleaved with the
        /// exponentials, which take about as long.
        fn exponentiate_and_add_dq(&mut self, stage: u32) {
            const TURNS: u32 = C.dq_len() / 4;
            const EACH: u32 = C.queries / 2 / TURNS;
            flash_grad::release(self.memory.ds_bars.empty.at(stage));
            self.sums.wait(MAY_ADD + self.warp_group);
            let (to, _): (u64, u64) = self.sums.place(self.warp_group);
            for i in 0..TURNS {
                self.exponentiate::<{ EACH * i }, { EACH * (i + 1) }>();
                flash_grad::add_sums::<{ C.dq_len() }, i, { i + 1 }>(&self.dq, to);
            }
            self.sums.pass(ADDED + self.warp_group);
        }

        /// Drains the pipeline: dV and dK of the last tile, and dQ of the last one or two.
        fn drain_products(&mut self, p: &Problem, tiles: u32) {
            let (q_stage, stage): (u32, u32) = (self.q.stage, self.at & 1);
            wgmma::fence();
            self.multiply_dv(stage);
            self.multiply_dk(stage, q_stage);
            wgmma::wait::<0>();
            flash_grad::release(self.memory.grad_bars.empty.at(stage));
            flash_grad::release(self.memory.q_bars.empty.at(q_stage));
            if self.at != self.first {
                // The only tile of these keys may follow one of the keys before.
                let old: u32 = (tiles == 1).select(1, 0);
                self.drain_dq(self.at - 1, self.k.stage ^ old);
                if old == 1 {
                    let keys: flash_grad::Keys = self.received.previous(p);
                    self.switch_keys(&keys, p.kv_group);
                    self.count_end(self.received.at.stage);
                }
            }
            let (last, k_stage): (u32, u32) = (self.at, self.k.stage);
            self.drain_dq(last, k_stage);
            self.at += 1;
            self.q.advance();
        }

        /// dQ of tile `number`, without overlap.
        fn drain_dq(&mut self, number: u32, k_stage: u32) {
            self.wait_ds(number);
            wgmma::fence();
            self.multiply_dq(number & 1, k_stage);
            wgmma::wait::<0>();
            flash_grad::release(self.memory.ds_bars.empty.at(number & 1));
            self.sums.wait(MAY_ADD + self.warp_group);
            let (to, _): (u64, u64) = self.sums.place(self.warp_group);
            flash_grad::add_sums::<{ C.dq_len() }, 0, { C.dq_len() / 4 }>(&self.dq, to);
            self.sums.pass(ADDED + self.warp_group);
        }

        /// Writes dK and dV of the keys before these, and resets the sums.
        fn epilogue(&mut self, p: &Problem, g: &Gradients, to: [u64; 2]) {
            let keys: flash_grad::Keys = self.received.previous(p);
            let k_rows = attention::Rows::of_head(to[0], g.k, keys.number, keys.head, &keys.k, p.dim);
            let v_rows = attention::Rows::of_head(to[1], g.v, keys.number, keys.head, &keys.k, p.dim_v);
            self.received.release();
            let warp: u32 = tid.x / 32 - 4;
            let (tile, row): (u32, u32) = (self.memory.rows.at(warp), keys.first + 16 * warp);
            v_rows.write_sums::<T, { C.head }, 0>(&self.dv, tile, row);
            for i in 0..C.head / 2 {
                self.dk[i] *= g.slope;
            }
            k_rows.write_sums::<T, { C.head }, 0>(&self.dk, tile, row);
            for i in 0..C.head / 2 {
                self.dk[i] = 0.0;
                self.dv[i] = 0.0;
            }
        }
    }
}

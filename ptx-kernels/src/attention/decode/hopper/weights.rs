//! The consumers of latent decode on Hopper: scores and weights of a warp group, and the products of both with V.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod weights {
    /// State of a warp group: sums of its half of the columns of V. The first group has the scores and the weights of a tile, too.
    struct Consumer<T, const C: Config> {
        q_rows: u64,
        k_rows: u64,
        v_rows: u64,
        weight_rows: u64,
        exponent: f32,
        /// The next tile of the rings, and the number of tiles so far.
        at: flash::Position<STAGES>,
        turn: u32,
        s: [f32; 32],
        p: [b32; 16],
        o: [f32; C.head_v / 4],
        softmax: scores::Softmax<0, 0, 0>,
    }

    /// The mask of this thread's two rows.
    struct RowMask {
        mask: attention::Mask,
        queries: [u32; 2],
    }

    impl<T, const C: Config> Consumer<T, C> {
        /// The state of warp group 0 or 1.
        fn new(memory: &Memory<C>, p: &DecodeProblem, warp_group: u32) -> Consumer<T, C> {
            let (s, packed, o): ([f32; 32], [b32; 16], [f32; C.head_v / 4]);
            for i in 0..32 {
                s[i] = 0.0;
            }
            for i in 0..16 {
                packed[i] = 0;
            }
            for i in 0..C.head_v / 4 {
                o[i] = 0.0;
            }
            // The cap is a part of the exponent.
            let exponent: f32 = (p.soft_cap > 0.0).select(p.exponent * p.soft_cap, p.exponent);
            Consumer {
                q_rows: wgmma::descriptor_k128(memory.q),
                k_rows: wgmma::descriptor_k128(memory.tiles),
                v_rows: wgmma::descriptor::<ATOM, 1024, 128>(memory.tiles + warp_group * (C.head_v / 128 * ATOM)),
                weight_rows: wgmma::descriptor_k128(memory.weights),
                exponent,
                at: flash::Position::<STAGES> { stage: 0, phase: 0 },
                turn: 0,
                s,
                p: packed,
                o,
                softmax: scores::Softmax::new(),
            }
        }

        /// The state at the begin of a work tile: empty sums.
        fn reset(&mut self) {
            for half in 0..2 {
                self.softmax.clear::<half>();
            }
            for i in 0..C.head_v / 4 {
                self.o[i] = 0.0;
            }
        }

        /// S = Q · Kᵀ over the atoms from `FROM` to before `TO` when their part is there.
        fn multiply_part<const PART: u32, const FROM: u32, const TO: u32>(&mut self, memory: &Memory<C>) {
            memory.wait(&self.at, PART);
            wgmma::fence();
            let k_rows: u64 = self.k_rows + (self.at.stage * (C.tile() / 16)) as u64;
            for i in 4 * FROM..4 * TO {
                const STEP: u64 = (i / 4 * (ATOM / 16) + i % 4 * 2) as u64;
                const ADD: u32 = (i != 4 * FROM || PART != 0) as u32;
                let (a, b): (u64, u64) = (self.q_rows + STEP, k_rows + STEP);
                ptx! { wgmma.mma_async.sync.aligned.m64n64k16.f32.{T}.{T} {self.s[..]}, a, b, ADD, 1, 1, 0, 0; }
            }
        }

        /// S = Q · Kᵀ of a tile, whose parts come one after the other.
        fn multiply_keys(&mut self, memory: &Memory<C>) {
            const VALUE_ATOMS: u32 = C.head_v / 64;
            self.multiply_part::<0, VALUE_ATOMS, { C.head / 64 }>(memory);
            self.multiply_part::<1, { VALUE_ATOMS / 2 }, VALUE_ATOMS>(memory);
            self.multiply_part::<2, 0, { VALUE_ATOMS / 2 }>(memory);
            wgmma::commit();
        }

        /// O += P · V, with P in registers.
        fn multiply_values(&mut self, stage: u32) {
            const SHAPE: &str = wgmma::SHAPES_16[C.head_v / 16 - 1];
            let v_rows: u64 = self.v_rows + (stage * (C.tile() / 16)) as u64;
            for i in 0..4 {
                let b: u64 = v_rows + (128 * i);
                ptx! {
                    wgmma.mma_async.sync.aligned.{SHAPE}.f32.{T}.{T} {self.o[..]}, {self.p[4 * i..4 * i + 4]}, b, 1, 1, 1, 1;
                }
            }
            wgmma::commit();
        }

        /// The same with P in shared memory.
        fn multiply_shared_values(&mut self, stage: u32) {
            const SHAPE: &str = wgmma::SHAPES_16[C.head_v / 16 - 1];
            let v_rows: u64 = self.v_rows + (stage * (C.tile() / 16)) as u64;
            wgmma::fence();
            for i in 0..4 {
                let (a, b): (u64, u64) = (self.weight_rows + (2 * i), v_rows + (128 * i));
                ptx! { wgmma.mma_async.sync.aligned.{SHAPE}.f32.{T}.{T} {self.o[..]}, a, b, 1, 1, 1, 0, 1; }
            }
            wgmma::commit();
        }

        /// The soft cap, and minus infinity for the keys of a tile that a row does not see.
        fn mask_scores(&mut self, row_mask: &RowMask, tile: u32, p: &DecodeProblem) {
            if p.soft_cap > 0.0 {
                scores::bound(&mut self.s, p.scale);
            }
            let (first, none): (u32, u32) = (tile * 64, 0);
            if row_mask.mask.hides(none, p.tokens - 1, first, first + 64) {
                for half in 0..2 {
                    let query: i32 = signed(row_mask.queries[half]);
                    let to: i32 = (query + row_mask.mask.high).min(signed(row_mask.mask.columns));
                    scores::hide_outside::<half, 32>(&mut self.s, first, query + row_mask.mask.low, to);
                }
            }
        }

        /// Stores the weights of a tile and the rescale factors of earlier sums for the other group, when it has read those before.
        fn store_weights(&mut self, memory: &Memory<C>) {
            mbarrier::wait(memory.weights_empty, self.turn & 1 ^ 1);
            let warp: u32 = tid.x / 32 % 4;
            let own: u32 = memory.weights + warp * 2048 + (laneid & 15) * 128;
            for i in 0..4 {
                let chunk: u32 = (2 * i + (laneid >> 4)) ^ (laneid & 7);
                let packed: [b32; 4];
                for j in 0..4 {
                    packed[j] = self.p[4 * i + j];
                }
                matrix::store_x4(own + (chunk << 4), packed);
            }
            let first: pred = laneid % 4 == 0;
            for half in 0..2 {
                let to: u32 = memory.rescale_factors + (warp * 16 + laneid / 4 + 8 * half) * 4;
                ptx! { @first st.shared.f32 [to], self.softmax.scores_scale[half]; }
            }
            tma::fence();
            memory.signal(memory.weights_full);
            self.turn += 1;
        }

        /// The weights of a tile whose scores are there; meanwhile the product with V of the tile before, in stage `before`, ends, unless this is the
        /// `FIRST` one.
        fn exponentiate<const FIRST: u32>(
            &mut self,
            memory: &Memory<C>,
            row_mask: &RowMask,
            tile: u32,
            end: u32,
            p: &DecodeProblem,
        ) {
            memory.release(self.at.stage, 0);
            self.mask_scores(row_mask, tile, p);
            let grown: pred = self.softmax.update(&mut self.s, self.exponent);
            // True for all warps, as `wgmma` requires; the branch keeps ptxas from waiting before the exponentials.
            if tile < end {
                wgmma::wait::<0>();
                if grown {
                    self.softmax.rescale(&mut self.o);
                }
            } else {
                wgmma::wait::<0>();
            }
            if FIRST == 0 {
                memory.release(self.at.stage ^ 1, 2);
            }
            scores::pack::<T, 32>(&mut self.p, &self.s);
            self.store_weights(memory);
        }

        /// The main loop of the first group: scores, weights, and its half of O.
        fn mainloop_scores(&mut self, memory: &Memory<C>, work: &Work, mask: attention::Mask, p: &DecodeProblem) {
            let row: u32 = tid.x / 32 % 4 * 16 + laneid / 4;
            let (upper, _upper_head): (u32, u32) = work.packed.locate(row);
            let (lower, _lower_head): (u32, u32) = work.packed.locate(row + 8);
            let row_mask = RowMask { mask, queries: [upper, lower] };
            self.multiply_keys(memory);
            wgmma::wait::<0>();
            let mut tile: u32 = work.at;
            self.exponentiate::<1>(memory, &row_mask, tile, work.end, p);
            tile += 1;
            while tile < work.end {
                let stage: u32 = self.at.stage;
                self.at.advance();
                self.multiply_keys(memory);
                self.multiply_values(stage);
                wgmma::wait::<1>();
                self.exponentiate::<0>(memory, &row_mask, tile, work.end, p);
                tile += 1;
            }
            let stage: u32 = self.at.stage;
            wgmma::fence();
            self.multiply_values(stage);
            wgmma::wait::<0>();
            memory.release(stage, 2);
            self.at.advance();
        }

        /// The main loop of the second group: its half of O, with the weights of the first one.
        fn mainloop_values(&mut self, memory: &Memory<C>, work: &Work) {
            let mut tile: u32 = work.at;
            let own: u32 = memory.rescale_factors + (tid.x / 32 % 4 * 16 + laneid / 4) * 4;
            while tile < work.end {
                mbarrier::wait(memory.weights_full, self.turn & 1);
                memory.wait(&self.at, 1);
                ptx! {
                    ld.shared.f32 self.softmax.scores_scale[0], [own];
                    ld.shared.f32 self.softmax.scores_scale[1], [own + 32];
                }
                if warp::any(self.softmax.scores_scale[0].min(self.softmax.scores_scale[1]) < 1.0) {
                    self.softmax.rescale(&mut self.o);
                }
                let stage: u32 = self.at.stage;
                self.multiply_shared_values(stage);
                wgmma::wait::<0>();
                memory.signal(memory.weights_empty);
                memory.release(stage, 1);
                self.turn += 1;
                tile += 1;
                self.at.advance();
            }
        }

        /// Stores the sums over the tiles, and of each row the inverse of its sum of exponentials and its logarithm in powers of 2.
        fn store_partial(&self, memory: &Memory<C>, warp_group: u32) {
            let row: u32 = tid.x / 32 % 4 * 16 + laneid / 4;
            let to: u32 = memory.tiles + row * PITCH + warp_group * (2 * C.head_v) + laneid % 4 * 8;
            for half in 0..2 {
                if warp_group == 0 {
                    let (inverse, log): (f32, f32) = self.softmax.finish::<half>();
                    let total: f32 = self.softmax.row_max[half].fma(self.exponent, log);
                    let (stats_at, first): (u32, pred) = (memory.row_stats + ((row + 8 * half) << 3), laneid % 4 == 0);
                    ptx! { @first st.shared.v2.f32 [stats_at], {inverse, total}; }
                }
                for j in 0..C.head_v / 16 {
                    ptx! {
                        st.shared.v2.f32 [to + (8 * half * PITCH + 32 * j)], {self.o[4 * j + 2 * half], self.o[4 * j + 2 * half + 1]};
                    }
                }
            }
        }
    }

    /// Reads a row of `Consumer::store_partial`, by a warp, divided by its sum of exponentials; returns the logarithm of that sum.
    fn read_row<const C: Config>(memory: &Memory<C>, row: u32, columns: &mut [f32; C.head_v / 32]) -> f32 {
        let (by, log): (f32, f32);
        let (stats_at, at): (u32, u32) = (memory.row_stats + (row << 3), memory.tiles + row * PITCH + laneid * 4);
        ptx! { ld.shared.v2.f32 {by, log}, [stats_at]; }
        for j in 0..C.head_v / 32 {
            ptx! { ld.shared.f32 columns[j], [at + 128 * j]; }
            columns[j] *= by;
        }
        log
    }

    /// Computes and writes all work tiles, by two warp groups.
    fn attend<T, const C: Config>(
        memory: &Memory<C>,
        walk: &mut Walk<ROWS, KEYS>,
        p: &DecodeProblem,
        output: &kv_cache::Output,
        scratch: u64,
        flags: u64,
    ) {
        let warp_group: u32 = warp::broadcast(tid.x / 128 - 1, 0);
        let mut own = Consumer::<T, C>::new(memory, p, warp_group);
        let mut number: u32 = 0;
        while walk.round < walk.last {
            let work: Work = walk.work(p);
            own.reset();
            if warp_group == 0 {
                mbarrier::wait(memory.q_full, number & 1);
                tma::fence();
                own.mainloop_scores(memory, &work, walk.sequences.mask(work.len), p);
            } else {
                own.mainloop_values(memory, &work);
            }
            number += 1;
            barrier::sync::<256>(1);
            own.store_partial(memory, warp_group);
            barrier::sync::<256>(1);
            let (first, part, count): (u32, u32, u32) = walk.owners(&work);
            let parts = kv_cache::Parts::<ROWS, { C.head_v }> { scratch, first, count };
            let mut row: u32 = tid.x / 32 - 4;
            while row < ROWS {
                if work.packed.has(row) {
                    let columns: [f32; C.head_v / 32];
                    let log: f32 = read_row::<C>(memory, row, &mut columns);
                    if count == 1 {
                        output.write::<T, { C.head_v }>(&work.packed, row, &columns, log);
                    } else {
                        parts.store(part, row, &columns, log);
                    }
                }
                row += 8;
            }
            memory.sync();
            let steps: [u64; 2] = [flags + wide(first) * 4, flags + wide(nctaid.x + first) * 4];
            parts.reduce_in_steps::<T, 8>(part, output, &work.packed, steps, memory.slot);
            walk.advance(&work);
        }
    }
}

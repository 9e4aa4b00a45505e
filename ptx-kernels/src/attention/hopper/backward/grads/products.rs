//! The products of a tile, and the softmax and its gradient between them.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod products {
    impl<T, const C: Config> Consumer<T, C> {
        /// dP and dS of a tile from its exponentials; writes dS to shared memory.
        fn compute_ds(&mut self, p: &Problem) {
            let stage: u32 = self.at & 1;
            self.memory.grad_bars.full.at(stage).wait((self.at >> 1) & 1);
            flash_grad::begin_sums::<{ C.queries }>(&mut self.dp, self.memory.deltas.at(stage));
            wgmma::fence();
            self.multiply_grads();
            wgmma::wait::<0>();
            self.apply_softmax_gradient(p);
            self.memory.ds_bars.empty.at(stage).wait((self.at >> 1) & 1 ^ 1);
            let ds: u32 = self.memory.ds.at(stage);
            flash_grad::store_transposed::<T, { C.queries }>(&self.dp, ds + self.warp_group * C.q_part());
            tma::fence();
            barrier::sync::<128>(DS_WRITTEN + self.warp_group);
            if tid.x % 128 == 0 {
                self.memory.ds_bars.full.at(stage).arrive();
            }
            scores::pack::<T, { C.queries / 2 }>(&mut self.p, &self.s);
        }

        /// Waits for dS of tile `number`, of both groups.
        fn wait_ds(&self, number: u32) {
            self.memory.ds_bars.full.at(number & 1).wait((number >> 1) & 1);
        }

        /// Applies the mask, the bias, and the tanh of a soft cap, which the derivative needs.
        fn apply_mask(&mut self, p: &Problem) {
            if self.is_capped() {
                scores::bound(&mut self.s, self.bound);
            } else if self.is_biased(p) {
                let mut bias: flash_grad::BiasRows = self.bias_rows(p);
                for j in 0..C.queries / 8 {
                    let values: [f32; 4] = bias.next::<T>();
                    for e in 0..4 {
                        self.s[4 * j + e] = self.s[4 * j + e].fma(p.scale, values[e]);
                    }
                }
            }
            flash_grad::hide::<{ C.queries }>(&mut self.s, &self.mask, self.keys, self.key, self.query);
        }

        /// Scores number `FROM` to `TO` become exponentials, unless they have a cap.
        fn exponentiate<const FROM: u32, const TO: u32>(&mut self) {
            // Behind a branch, so that ptxas leaves the exponentials beside the products in flight. The exponent is positive.
            if !self.is_capped() & (self.exponent > 0.0) {
                flash_grad::exponentiate::<{ C.queries / 2 }, FROM, TO>(&mut self.s, self.exponent);
            }
        }

        /// dP becomes dS, and capped scores become exponentials.
        fn apply_softmax_gradient(&mut self, p: &Problem) {
            if self.is_capped() {
                let mut bias: flash_grad::BiasRows = self.bias_rows(p);
                let unit: f32 = 1.0 / p.soft_cap;
                let logs: u32 = self.memory.logs.at(self.q.stage) + laneid % 4 * 8;
                for j in 0..C.queries / 8 {
                    let log: [f32; 2];
                    ptx! { ld.shared.v2.f32 {log[..]}, [logs + 32 * j]; }
                    let mut added: [f32; 4] = [log[0], log[1], log[0], log[1]];
                    if self.is_biased(p) {
                        let values: [f32; 4] = bias.next::<T>();
                        for e in 0..4 {
                            added[e] = unit.fma(values[e], added[e]);
                        }
                    }
                    for e in 0..4 {
                        const AT: u32 = 4 * j + e;
                        let (weight, slope): (f32, f32) =
                            flash_grad::exponentiate_capped(self.s[AT], added[e], self.exponent);
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

        /// The bias of the current tile.
        fn bias_rows(&self, p: &Problem) -> flash_grad::BiasRows {
            let (extents, factors): ([u32; 2], [f32; 2]) = ([self.mask.columns, self.keys], [p.scale, p.soft_cap]);
            let changes = attention::ScoreMod::of_head(self.bias, p.bias, self.number, self.head, extents, factors);
            flash_grad::BiasRows::new(&changes.transposed(), self.key, self.query)
        }

        /// True if scores have a bias.
        fn is_biased(&self, p: &Problem) -> pred {
            if C.masked == 1 { p.biased != 0 } else { false }
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
            let (rows, columns): (u32, u32) = (self.memory.k.at(self.k.stage), self.memory.q.at(self.q.stage));
            let (a, b): (u64, u64) =
                (wgmma::descriptor_k128(rows + self.warp_group * 8192), wgmma::descriptor_k128(columns));
            flash_grad::multiply_rows::<T, { C.queries }, { C.head }, { C.k_part() }, { C.q_part() }>(
                &mut self.s,
                a,
                b,
            );
            wgmma::commit();
        }

        /// dPᵀ += V · dOᵀ.
        fn multiply_grads(&mut self) {
            let (rows, columns): (u32, u32) = (self.memory.v.at(self.warp_group), self.memory.grad.at(self.at & 1));
            let (a, b): (u64, u64) = (wgmma::descriptor_k128(rows), wgmma::descriptor_k128(columns));
            flash_grad::multiply_rows::<T, { C.queries }, { C.head }, 8192, { C.q_part() }>(&mut self.dp, a, b);
            wgmma::commit();
        }

        /// dV += Pᵀ · dO.
        fn multiply_dv(&mut self, stage: u32) {
            let tile: u32 = self.memory.grad.at(stage);
            flash_grad::multiply_packed::<T, { C.head }, { C.queries }, { C.q_part() }>(&mut self.dv, &self.p, tile);
            wgmma::commit();
        }

        /// This group's part of dQ = dS · K, over all keys: its 64 queries of a tile of 128, or its 64 columns of one of 64.
        fn multiply_dq(&mut self, stage: u32, k_stage: u32) {
            const N: u32 = 2 * C.dq_len();
            const SHAPE: &str = wgmma::SHAPES_16[N / 8 - 1];
            let (mut rows, mut columns): (u32, u32) = (self.memory.ds.at(stage), self.memory.k.at(k_stage));
            if C.queries == 128 {
                rows += self.warp_group * 8192;
            } else {
                columns += self.warp_group * C.k_part();
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
            let a: u64 = wgmma::descriptor_mn128::<{ C.q_part() }>(rows + self.warp_group * C.q_part());
            let b: u64 = wgmma::descriptor_mn128::<{ C.q_part() }>(tile);
            for i in 0..C.queries / 16 {
                let (at_a, at_b): (u64, u64) = (a + (128 * i) as u64, b + (128 * i) as u64);
                ptx! { wgmma.mma_async.sync.aligned.{SHAPE}.f32.{T}.{T} {self.dk[..]}, at_a, at_b, 1, 1, 1, 1, 1; }
            }
            wgmma::commit();
        }
    }
}

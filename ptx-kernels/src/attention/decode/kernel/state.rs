//! Sums of a warp over the keys that it has seen, and of a block over its warps.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod state {
    /// State of a warp: sums over the keys that it has seen.
    struct State<const C: Config> {
        o: [[[f32; 4]; C.head / 8]; 1],
        online: attention::Online<1>,
    }

    impl<const C: Config> State<C> {
        /// No keys.
        fn new() -> State<C> {
            let o: [[[f32; 4]; C.head / 8]; 1];
            fragment::clear(&mut o);
            State { o, online: attention::Online::<1>::new() }
        }

        /// Adds a tile of keys and values.
        fn add<T>(&mut self, queries: &[[b32; 4]; C.head / 16], stage: &Stage, scores: &kv_cache::Scores, first: u32) {
            let s: [[[f32; 4]; C.keys / 8]; 1];
            fragment::clear(&mut s);
            multiply_keys::<T, C>(&mut s, queries, stage);
            scores.change::<{ C.keys / 8 }>(&mut s, first);
            self.online.update(&mut s, &mut self.o, scores.exponent);
            let weights: [[[b32; 4]; C.keys / 16]; 1];
            if C.size == 2 {
                weights = fragment::pack::<T, 1, { C.keys / 16 }>(&s);
            } else {
                weights = fragment::pack::<f16, 1, { C.keys / 16 }>(&s);
            }
            multiply_values::<T, C>(&mut self.o, &weights, stage);
        }

        /// Leaves the warp's part: sums at `sums`, as `f32` of `head` a row, of all warps one behind the other; largest scores in
        /// powers of 2 and sums of exponentials at `row_stats`.
        fn store_partial(&self, sums: u32, row_stats: u32, exponent: f32, packed: &kv_cache::Packed) {
            let (warp, row): (u32, u32) = (tid.x / 32, laneid / 4);
            for half in 0..2 {
                let total: f32 = fragment::quad_sum(self.online.sum[0][half]);
                if packed.has(row + 8 * half) {
                    let own: u32 = warp * ROWS + row + 8 * half;
                    let (stats_at, most): (u32, f32) = (row_stats + (own << 3), self.online.most[0][half] * exponent);
                    let first: pred = laneid % 4 == 0;
                    ptx! { @first st.shared.v2.f32 [stats_at], {most, total}; }
                    let to: u32 = sums + ((row + 8 * half) * C.head + laneid % 4 * (4 / C.size)) * 4;
                    for j in 0..C.head / 16 {
                        let (a, b): ([f32; 4], [f32; 4]) = (self.o[0][2 * j], self.o[0][2 * j + 1]);
                        if C.size == 2 {
                            ptx! {
                                st.shared.v2.f32 [to + 64 * j], {a[2 * half], a[2 * half + 1]};
                                st.shared.v2.f32 [to + 64 * j + 32], {b[2 * half], b[2 * half + 1]};
                            }
                        } else {
                            ptx! { st.shared.v4.f32 [to + 64 * j], {a[2 * half], b[2 * half], a[2 * half + 1], b[2 * half + 1]}; }
                        }
                    }
                }
            }
        }
    }

    /// The parts of a block's warps: their sums, and the row_stats of each row.
    struct Warps<const C: Config> {
        sums: u32,
        row_stats: u32,
    }

    impl<const C: Config> Warps<C> {
        /// Adds up a row by a warp, times `factor`; returns the logarithm of the sum of exponentials in powers of 2.
        fn combine(&self, row: u32, factor: f32, columns: &mut [f32; C.head / 32]) -> f32 {
            let (stats_at, at): (u32, u32) = (self.row_stats + (row << 3), self.sums + (row * C.head + laneid) * 4);
            let own: [[f32; 2]; C.warps];
            let (mut most, mut sum): (f32, f32) = (-3.4e38, 0.0);
            for warp in 0..C.warps {
                ptx! { ld.shared.v2.f32 {own[warp][0], own[warp][1]}, [stats_at + 8 * ROWS * warp]; }
                most = most.max(own[warp][0]);
            }
            for j in 0..C.head / 32 {
                columns[j] = 0.0;
            }
            for warp in 0..C.warps {
                const RING: u32 = C.ring() * warp;
                let weight: f32 = attention::power(own[warp][0], 1.0, most);
                sum = own[warp][1].fma(weight, sum);
                for j in 0..C.head / 32 {
                    let part: f32;
                    ptx! { ld.shared.f32 part, [at + (RING + 128 * j)]; }
                    columns[j] = part.fma(weight, columns[j]);
                }
            }
            let by: f32 = attention::inverse(sum) * factor;
            for j in 0..C.head / 32 {
                columns[j] *= by;
            }
            attention::log2(sum) + most
        }
    }
}

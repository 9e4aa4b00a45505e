//! The epilogue of the forward kernel: O and the logarithms of a work tile.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod results {
    impl<T, const C: Config> Consumer<T, C> {
        /// Divides O by the sums of exponentials, and writes both O and the logarithms of the sums. Rows that see no key become zeros.
        fn epilogue(&mut self, work: &flash::WorkTile, bounds: &flash::Bounds, p: &Problem, out: u64, lse: u64) {
            if C.masked == 0 {
                cut!(work.batch < p.batch && work.head < p.heads && work.first >= 0);
            }
            let row: u32 = work.first + self.warp_group * 64 + tid.x / 32 % 4 * 16 + laneid / 4;
            for half in 0..2 {
                let (inverse, log): (f32, f32) = self.softmax.finish::<half>();
                let mut own: u32 = row + 8 * half;
                let mut queries: u32 = p.tokens_q;
                if C.masked == 1 {
                    queries = bounds.queries;
                }
                let inside: pred = own < queries;
                if C.masked == 1 {
                    own += bounds.start;
                }
                if p.logged != 0 {
                    let logarithm: f32 = self.softmax.logarithm::<half>(log, self.exponent);
                    let to: u64 = lse + attention::offset(p.lse, work.batch, own, work.head);
                    let writes: pred = inside & (laneid % 4 == 0);
                    ptx! { @writes st.global.f32 [to], logarithm; }
                }
                for i in 0..C.head_v / 4 {
                    self.o[i / 2 * 4 + 2 * half + i % 2] *= inverse;
                }
                let to: u64 = out + attention::offset(p.out, work.batch, own, work.head);
                scores::store_row::<T, half, { C.masked }, { C.head_v / 2 }>(&self.o, to, inside, p.dim_v);
            }
        }
    }
}

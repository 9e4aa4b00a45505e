//! The results of a work tile of the kernel for `e4m3`.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod results {
    impl<T, const C: Config> Consumer<T, C> {
        /// Divides O by the sums, and writes it and the logarithms of the sums; rows that see no key become zeros.
        fn epilogue(&mut self, work: &flash::WorkTile, p: &Problem, out: u64, lse: u64) {
            cut!(work.batch < p.batch && work.head < p.heads && work.first >= 0);
            let row: u32 = work.first + self.warp_group * 64 + tid.x / 32 % 4 * 16 + laneid / 4;
            for half in 0..2 {
                let (inverse, log): (f32, f32) = self.softmax.finish::<half>();
                let own: u32 = row + 8 * half;
                let inside: pred = own < p.tokens_q;
                if p.logged != 0 {
                    let logarithm: f32 = self.softmax.logarithm::<half>(log, self.exponent);
                    let to: u64 = lse + attention::offset(p.lse, work.batch, own, work.head);
                    let writes: pred = inside & (laneid % 4 == 0);
                    ptx! { @writes st.global.f32 [to], logarithm; }
                }
                let scale: f32 = inverse * self.factor;
                for i in 0..C.head / 4 {
                    self.o[i / 2 * 4 + 2 * half + i % 2] *= scale;
                }
                let to: u64 = out + attention::offset(p.out, work.batch, own, work.head);
                flash8::store_row::<T, half, { C.head / 2 }>(&self.o, to, inside);
            }
        }
    }
}

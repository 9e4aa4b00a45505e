use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_90")]
pub mod kernels {
    fn write(to: GlobalMut<u32>, v: u32) {
        ptx! { st.global.u32 [to], v; }
    }

    #[ptx_kernel]
    pub fn kernel(x: &[u32], a: Tile<u32, (M, N)>, n: u32) {
        #[shared]
        let tile: [u32; 32];
        let from = a.at(n, 0);
        ptx! {
            st.global.u32           [x], n;
            red.global.add.u32      [x + 4], n;
            st.global.v2.u32        [from], {n, n};
            cp.async.bulk.global.shared::cta.bulk_group [x], [tile], 16;
        }
    }

    #[ptx_kernel]
    pub fn passed_on(x: &[u32], n: u32) {
        write(x, n);
    }
}

fn main() {}

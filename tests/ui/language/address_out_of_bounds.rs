use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [f32]) {
    #[shared]
    let tile: [[f32; 4]; 8];
    let (a, b, c, d): f32;
    let late = tile.at(8, 0);
    ptx! {
        st.shared.f32       [tile + 128], 0f00000000;
        ld.shared.v4.f32    {a, b, c, d}, [tile + 116];
        ld.shared.v2.f32    {a, b}, [tile + 4];
    }
}

fn main() {}

use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_90")]
pub fn kernel(x: &[f32], n: u32) {
    #[shared]
    let tile: [f32; 32];
    let v: f32;
    let (from, to) = (x.at(n), tile.at(n));
    ptx! {
        ld.shared.f32   v, [x];
        ld.global.f32   v, [to];
        ld.f32          v, [to + 4];
        ld.shared.f32   v, [from];
    }
}

fn main() {}

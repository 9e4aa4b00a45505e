use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(x: &[f32], y: &[u32], h: u16, s: f32, n: u32) {
    #[shared]
    let tile: [f32; 32];
    let a = x.at(s);
    let b = tile.at(h);
    let c = x & 7;
    let d = x - y;
    let e: Global<f32> = 4096u64;
    let f: Global<f32> = y;
    let g: Global<f32> = tile;
    let h = x + n * 4;
    let i = x.len();
    let j = x.row(n);
}

fn main() {}

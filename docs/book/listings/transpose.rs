//! Shared memory: a transposition in tiles of 32 × 32.

// ANCHOR: use
use ptx_launch::prelude::*;
// ANCHOR_END: use

// ANCHOR: kernel
#[ptx_kernel(arch = "sm_80", block = (32, 8), grid = (N.div_ceil(32), M.div_ceil(32)), unsafe(requires()))]
pub fn transpose(x: Tile<f32, (M, N)>, y: TileMut<f32, (N, M)>) {
    #[shared]
    let tile: [[f32; 33]; 32];

    let (row, column): (u32, u32) = (ctaid.y * 32, ctaid.x * 32);
    for i in 0..4 {
        let (r, c): (u32, u32) = (row + tid.y + 8 * i, column + tid.x);
        let inside: pred = (r < M) & (c < N);
        let (from, to) = (x.at(r, c), tile.at(tid.y + 8 * i, tid.x));
        let v: f32;
        ptx! {
            @inside ld.global.f32   v, [from];
            @inside st.shared.f32   [to], v;
        }
    }
    block::sync();
    for i in 0..4 {
        let (r, c): (u32, u32) = (column + tid.y + 8 * i, row + tid.x);
        let inside: pred = (r < N) & (c < M);
        let (from, to) = (tile.at(tid.x, tid.y + 8 * i), y.at(r, c));
        let v: f32;
        ptx! {
            @inside ld.shared.f32   v, [from];
            @inside st.global.f32   [to], v;
        }
    }
}
// ANCHOR_END: kernel

// ANCHOR: main
pub fn main() -> ptx_launch::Result<()> {
    let device = Device::best()?;
    let (m, n) = (70, 45);
    let x: Vec<f32> = (0..m * n).map(|i| i as f32).collect();
    let input = device.upload(&x)?;
    let mut output = device.zeros::<f32>(m * n)?;
    transpose(&device, input.tile([m, n])?, output.tile_mut([n, m])?)?;
    let y = output.download()?;
    assert!((0..m * n).all(|i| y[i % n * m + i / n] == x[i]));
    Ok(())
}
// ANCHOR_END: main

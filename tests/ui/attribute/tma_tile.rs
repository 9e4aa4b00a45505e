use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_90")]
pub fn kernel(
    #[tma(tile = swizzle::Tile::<f32, 64>)] _x: Tile<f32, (M, N)>,
    #[tma(tile = swizzle::Tile128::<f32>)] _y: Tile<f32, (M, N)>,
    #[tma(tile = swizzle::Tile128::<f32, 64>)] _z: Tile<f32, (M, N, K)>,
) {
}

fn main() {}

//! Hopper, step 2: `wgmma` multiplies the tiles that TMA brings, one stage at a time.

use super::hopper_tma::hopper_or_cpu;
use super::host::{Shape, check};
use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_90a")]
pub mod kernels {
    // ANCHOR: kernel
    #[align(1024)]
    struct Stage {
        a: [[bf16; 64]; 64],
        b: [[bf16; 64]; 128],
    }

    #[ptx_kernel(block = 128, grid = (N.div_ceil(128), M.div_ceil(64)), unsafe(requires()))]
    pub fn gemm(
        #[tma(box = [64, 64], swizzle = 128)] a: Tile<bf16, (M, K)>,
        #[tma(box = [128, 64], swizzle = 128)] b: Tile<bf16, (N, K)>,
        c: TileMut<f32, (M, N)>,
    ) {
        #[shared]
        let stage: Stage;
        #[shared]
        let bar: u64;
        if tid.x == 0 {
            mbarrier::init(bar, 1);
            mbarrier::fence_init();
        }
        block::sync();

        let (row, column): (u32, u32) = (ctaid.y * 64, ctaid.x * 128);
        let (a_tile, b_tile): (u64, u64) = (wgmma::descriptor_k128(stage.a), wgmma::descriptor_k128(stage.b));
        let mut sum: [f32; 64] = [0.0; 64]; // 64 × 128 sums over 128 threads
        let (mut at, mut phase): (u32, u32) = (0, 0);
        while at < K {
            if tid.x == 0 {
                mbarrier::arrive_expect(bar, size_of::<Stage>());
                tma::load_2d(stage.a, a_map, at, row, bar);
                tma::load_2d(stage.b, b_map, at, column, bar);
            }
            mbarrier::wait(bar, phase);

            multiply_stage(&mut sum, a_tile, b_tile);
            wgmma::commit();
            wgmma::wait::<0>(); // the products have read the stage
            block::sync(); // in all four warps
            at += 64;
            phase = phase ^ 1;
        }
        let rows: u32 = M - row;
        let columns: u32 = N - column;
        let to: u64 = c + (wide(row) * N + column as u64) * 4;
        epilogue::store_pairs(&sum, tid.x, to, wide(N) * 4, rows, columns);
    }

    /// 64 × 128 += 64 × 64 · (128 × 64)ᵀ: four products of 16 along K, 32 bytes further on in each row.
    fn multiply_stage(sum: &mut [f32; 64], a: u64, b: u64) {
        let accumulate: pred = true;
        wgmma::fence();
        for step in 0..4 {
            let (a_step, b_step): (u64, u64) = (a + 2 * step, b + 2 * step); // in units of 16 bytes
            ptx! {
                wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
                    {sum[..]}, a_step, b_step, accumulate, 1, 1, 0, 0;
            }
        }
    }
    // ANCHOR_END: kernel
}

pub fn launch(
    stream: &Stream,
    a: &Buffer<bf16>,
    b: &Buffer<bf16>,
    c: &mut Buffer<f32>,
    shape: Shape,
) -> ptx_launch::Result<()> {
    let [m, n, k] = shape.map(|extent| extent as usize);
    kernels::gemm(stream, a.tile([m, k])?, b.tile([n, k])?, c.tile_mut([m, n])?)
}

pub fn main() -> ptx_launch::Result<()> {
    check(&hopper_or_cpu()?, [100, 136, 144], launch)
}

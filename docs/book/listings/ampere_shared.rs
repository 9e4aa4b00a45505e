//! Tensor cores, step 2: a block shares its operands, and `ldmatrix` reads them without bank conflicts.

use super::host::{Shape, check};
use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    // ANCHOR: memory
    /// 64 rows of 64 `bf16`: 128 bytes a row, eight chunks of 16 bytes.
    #[align(128)]
    struct Stage {
        a: [[bf16; 64]; 64],
        b: [[bf16; 64]; 64],
    }

    /// The byte offset of a chunk: eight rows put the same column into eight different groups of banks.
    fn swizzled(row: u32, chunk: u32) -> u32 {
        row * 128 + ((chunk ^ (row & 7)) << 4)
    }

    /// Copies a tile of 64 × 64: eight threads a row, 16 rows at a time.
    fn copy_tile(to: u32, from: Global<bf16>, k: u32) {
        let (row, chunk): (u32, u32) = (tid.x / 8, tid.x % 8);
        let mut source: u64 = from + (wide(row) * k + (chunk * 8) as u64) * 2;
        for i in 0..4 {
            let v: [b32; 4];
            let place: u32 = to + swizzled(row + 16 * i, chunk);
            ptx! {
                ld.global.v4.b32    {v[..]}, [source];
                st.shared.v4.b32    [place], {v[..]};
            }
            source += wide(k) * 32;
        }
    }
    // ANCHOR_END: memory

    // ANCHOR: multiply
    /// Adds a stage to the warp's 32 × 32 sums: 2 × 4 products of 16 × 8, four times along K.
    fn multiply_stage(sum: &mut [[[f32; 4]; 4]; 2], a: u32, b: u32) {
        let lane: u32 = laneid;
        let a_row: u32 = lane & 15;
        let b_row: u32 = (lane & 7) + ((lane >> 4) << 3);
        for step in 0..4 {
            let fa: [[b32; 4]; 2];
            let fb: [[b32; 4]; 2];
            for i in 0..2 {
                fa[i] = matrix::load_x4(a + swizzled(a_row + 16 * i, (lane >> 4) + 2 * step));
                fb[i] = matrix::load_x4(b + swizzled(b_row + 16 * i, ((lane >> 3) & 1) + 2 * step));
            }
            for i in 0..2 {
                for j in 0..4 {
                    const FIRST: u32 = 2 * (j % 2);
                    ptx! {
                        mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
                            {sum[i][j][..]}, {fa[i][..]}, {fb[j / 2][FIRST..FIRST + 2]}, {sum[i][j][..]};
                    }
                }
            }
        }
    }
    // ANCHOR_END: multiply

    // ANCHOR: kernel
    #[ptx_kernel(
        block = 128,
        grid = (n / 64, m / 64),
        unsafe(requires(m % 64 == 0, n % 64 == 0, k % 64 == 0, a.len() >= m * k, b.len() >= n * k, c.len() >= m * n))
    )]
    pub fn gemm(a: &[bf16], b: &[bf16], c: &mut [f32], m: u32, n: u32, k: u32) {
        #[shared]
        let stage: Stage;
        let mut from_a: Global<bf16> = a + wide(ctaid.y * 64) * k * 2;
        let mut from_b: Global<bf16> = b + wide(ctaid.x * 64) * k * 2;

        // Four warps, each with 32 × 32 of the block's 64 × 64.
        let warp: u32 = tid.x / 32;
        let (warp_m, warp_n): (u32, u32) = (warp % 2 * 32, warp / 2 * 32);
        let mut sum: [[[f32; 4]; 4]; 2] = [[[0.0; 4]; 4]; 2];

        let mut at: u32 = 0;
        while at < k {
            copy_tile(stage.a, from_a, k);
            copy_tile(stage.b, from_b, k);
            block::sync(); // the stage is full
            multiply_stage(&mut sum, stage.a + warp_m * 128, stage.b + warp_n * 128);
            block::sync(); // and may be overwritten
            from_a = from_a + 128;
            from_b = from_b + 128;
            at += 64;
        }
        store_sums(c, &sum, ctaid.y * 64 + warp_m, ctaid.x * 64 + warp_n, n);
    }
    // ANCHOR_END: kernel

    // ANCHOR: epilogue
    /// Writes a warp's sums to the rows of C from `row` on and its columns from `column` on.
    fn store_sums(c: GlobalMut<f32>, sum: &[[[f32; 4]; 4]; 2], row: u32, column: u32, n: u32) {
        let (r, q): (u32, u32) = (row + laneid / 4, column + laneid % 4 * 2);
        let mut to: u64 = c + (wide(r) * n + q as u64) * 4;
        for i in 0..2 {
            for half in 0..2 {
                for j in 0..4 {
                    ptx! { st.global.v2.f32 [to + 32 * j], {sum[i][j][2 * half..2 * half + 2]}; }
                }
                to += wide(n) * 32;
            }
        }
    }
    // ANCHOR_END: epilogue
}

// ANCHOR: main
pub fn launch(
    stream: &Stream,
    a: &Buffer<bf16>,
    b: &Buffer<bf16>,
    c: &mut Buffer<f32>,
    [m, n, k]: Shape,
) -> ptx_launch::Result<()> {
    kernels::gemm(stream, a, b, c, m, n, k)
}

pub fn main() -> ptx_launch::Result<()> {
    check(&Device::best()?, [128, 64, 192], launch)
}
// ANCHOR_END: main

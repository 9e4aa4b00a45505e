//! Tensor cores, step 1: one warp, one `mma.sync`, operands straight from global memory.

use super::host::{Shape, check};
use ptx_launch::prelude::*;

// ANCHOR: kernel
#[ptx_kernel(
    arch = "sm_80",
    block = 32,
    grid = (n / 8, m / 16),
    unsafe(requires(m % 16 == 0, n % 8 == 0, k % 16 == 0, a.len() >= m * k, b.len() >= n * k, c.len() >= m * n))
)]
pub fn gemm(a: &[bf16], b: &[bf16], c: &mut [f32], m: u32, n: u32, k: u32) {
    // Lane 4·group + t holds columns 2t and 2t + 1 of row `group`.
    let (group, pair): (u32, u32) = (laneid / 4, laneid % 4 * 2);
    let (row, column): (u32, u32) = (ctaid.y * 16 + group, ctaid.x * 8 + group);
    let mut upper: u64 = a + (wide(row) * k + pair as u64) * 2;
    let mut lower: u64 = upper + wide(k) * 16; // eight rows further down
    let mut right: u64 = b + (wide(column) * k + pair as u64) * 2;

    let mut sum: [f32; 4] = [0.0; 4];
    let mut at: u32 = 0;
    while at < k {
        let (fa, fb): ([b32; 4], [b32; 2]); // two bf16 in each register
        ptx! {
            ld.global.b32   fa[0], [upper];
            ld.global.b32   fa[1], [lower];
            ld.global.b32   fa[2], [upper + 16];
            ld.global.b32   fa[3], [lower + 16];
            ld.global.b32   fb[0], [right];
            ld.global.b32   fb[1], [right + 16];
            mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
                {sum[..]}, {fa[..]}, {fb[..]}, {sum[..]};
        }
        upper += 32;
        lower += 32;
        right += 32;
        at += 16;
    }

    let out: u64 = c + (wide(row) * n + (ctaid.x * 8 + pair) as u64) * 4;
    let below: u64 = out + wide(n) * 32;
    ptx! {
        st.global.v2.f32    [out], {sum[..2]};
        st.global.v2.f32    [below], {sum[2..]};
    }
}
// ANCHOR_END: kernel

// ANCHOR: main
pub fn launch(
    stream: &Stream,
    a: &Buffer<bf16>,
    b: &Buffer<bf16>,
    c: &mut Buffer<f32>,
    [m, n, k]: Shape,
) -> ptx_launch::Result<()> {
    gemm(stream, a, b, c, m, n, k)
}

pub fn main() -> ptx_launch::Result<()> {
    check(&Device::best()?, [48, 40, 80], launch)
}
// ANCHOR_END: main

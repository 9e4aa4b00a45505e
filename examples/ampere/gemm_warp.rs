//! A matrix product by single warps: each makes 16 × 8 elements of C, straight from global memory to `mma.sync`.
//!
//! It shows which lane holds what. Nothing is shared, so that every element of A is read N / 8 times.

use ptx_examples::product::{Shape, check};
use ptx_examples::{Report, elements};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// C = A · Bᵀ: A is `m` × `k`, B is `n` × `k`, C is `m` × `n`, all row by row, sums in `f32`.
#[ptx_kernel(
    arch = "sm_80",
    block = 32,
    grid = (n / 8, m / 16),
    instances = [bf16, f16],
    unsafe(requires(m % 16 == 0, n % 8 == 0, k % 16 == 0, a.len() >= m * k, b.len() >= n * k, c.len() >= m * n))
)]
pub fn gemm_warp<T>(#[align(4)] a: &[T], #[align(4)] b: &[T], #[align(4)] c: &mut [T], m: u32, n: u32, k: u32) {
    // A lane holds two neighbors of K in a row of A, and again eight rows below, and again eight columns to the right.
    let (group, pair): (u32, u32) = (laneid / 4, laneid % 4 * 2);
    let (row, column): (u32, u32) = (ctaid.y * 16 + group, ctaid.x * 8 + group);
    let mut upper: u64 = a + (wide(row) * k + pair as u64) * 2;
    let mut lower: u64 = upper + wide(k) * 16;
    let mut right: u64 = b + (wide(column) * k + pair as u64) * 2;
    let mut sum: [f32; 4] = [0.0; 4];
    let mut at: u32 = 0;
    while at < k {
        let (fa, fb): ([b32; 4], [b32; 2]);
        ptx! {
            ld.global.b32 fa[0], [upper];
            ld.global.b32 fa[1], [lower];
            ld.global.b32 fa[2], [upper + 16];
            ld.global.b32 fa[3], [lower + 16];
            ld.global.b32 fb[0], [right];
            ld.global.b32 fb[1], [right + 16];
        }
        matrix::multiply::<T>(&mut sum, fa, fb);
        upper += 32;
        lower += 32;
        right += 32;
        at += 16;
    }
    // Of C it holds two neighbors in a row, and again eight rows below.
    let place: u64 = c + (wide(row) * n + (ctaid.x * 8 + pair) as u64) * 2;
    let below: u64 = place + wide(n) * 16;
    let packed: [b32; 2];
    ptx! {
        cvt.rn.{T}x2.f32 packed[0], sum[1], sum[0];
        cvt.rn.{T}x2.f32 packed[1], sum[3], sum[2];
        st.global.b32 [place], packed[0];
        st.global.b32 [below], packed[1];
    }
}

fn launch(stream: &Stream, a: &Buffer<bf16>, b: &Buffer<bf16>, c: &mut Buffer<bf16>, [m, n, k]: Shape) -> Result<()> {
    gemm_warp::<bf16>(stream, a, b, c, m, n, k)
}

pub(crate) fn run(device: &Device) -> Result<Report> {
    let last = elements(device, 2048, 64);
    check(device, "gemm_warp", &[[16, 8, 16], [48, 40, 80], [last, last, last]], launch)
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}

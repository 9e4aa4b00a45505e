//! A matrix product in two stages: while the warps multiply one pair of tiles in shared memory, `cp.async` brings the
//! next. Rows of shared memory are padded by 16 bytes, so that `ldmatrix` meets no bank twice.

use ptx_examples::product::{Shape, check};
use ptx_examples::{Report, elements};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// C = A · Bᵀ: A is `m` × `k`, B is `n` × `k`, C is `m` × `n`, all row by row, sums in `f32`. Four warps make 64 × 64
/// elements, each 32 × 32.
#[ptx_kernel(
    arch = "sm_80",
    block = 128,
    grid = (n / 64, m / 64),
    instances = [bf16, f16],
    unsafe(requires(m % 64 == 0, n % 64 == 0, k % 32 == 0, k > 0, a.len() >= m * k, b.len() >= n * k, c.len() >= m * n))
)]
pub fn gemm_pipelined<T>(#[align(16)] a: &[T], #[align(16)] b: &[T], #[align(4)] c: &mut [T], m: u32, n: u32, k: u32) {
    const PITCH: u32 = 32 * 2 + 16;
    const TILE: u32 = 64 * PITCH;

    #[shared(align = 16)]
    let tiles: [u8; 2 * 2 * 64 * 80];

    // Two rows of each tile, 32 apart, one chunk of 16 bytes of each.
    let (row, chunk): (u32, u32) = (tid.x / 4, tid.x % 4);
    let mut from_a: u64 = a + (wide(ctaid.y * 64 + row) * k + (chunk * 8) as u64) * 2;
    let mut from_b: u64 = b + (wide(ctaid.x * 64 + row) * k + (chunk * 8) as u64) * 2;
    let further: u64 = wide(k) * 64;
    let to: u32 = tiles + row * PITCH + chunk * 16;
    fetch(to, &mut from_a, &mut from_b, further);

    let (warp, lane): (u32, u32) = (tid.x / 32, laneid);
    let (down, across): (u32, u32) = (warp % 2 * 32, warp / 2 * 32);
    let a_row: u32 = tiles + (down + (lane & 15)) * PITCH + (lane >> 4) * 16;
    let b_row: u32 = tiles + TILE + (across + (lane & 7) + (lane >> 4) * 8) * PITCH + ((lane >> 3) & 1) * 16;
    let sum: [[[f32; 4]; 4]; 2];
    for i in 0..2 {
        for j in 0..4 {
            sum[i][j] = [0.0; 4];
        }
    }
    let (mut at, mut stage): (u32, u32) = (0, 0);
    while at < k {
        at += 32;
        if at < k {
            fetch(to + (2 * TILE - stage), &mut from_a, &mut from_b, further);
            cp_async::wait::<1>();
        } else {
            cp_async::wait::<0>();
        }
        block::sync();
        for step in 0..2 {
            let (fa, fb): ([[b32; 4]; 2], [[b32; 4]; 2]);
            for i in 0..2 {
                fa[i] = matrix::load_x4(a_row + stage + (i * 16 * PITCH + step * 32));
                fb[i] = matrix::load_x4(b_row + stage + (i * 16 * PITCH + step * 32));
            }
            for i in 0..2 {
                for j in 0..4 {
                    const PART: u32 = 2 * (j % 2);
                    matrix::multiply::<T>(&mut sum[i][j], fa[i], [fb[j / 2][PART], fb[j / 2][PART + 1]]);
                }
            }
        }
        block::sync();
        stage = 2 * TILE - stage;
    }

    let mut place: u64 =
        c + (wide(ctaid.y * 64 + down + lane / 4) * n + (ctaid.x * 64 + across + lane % 4 * 2) as u64) * 2;
    let below: u64 = wide(n) * 16;
    for i in 0..2 {
        for half in 0..2 {
            for j in 0..4 {
                let pair: b32;
                ptx! {
                    cvt.rn.{T}x2.f32 pair, sum[i][j][2 * half + 1], sum[i][j][2 * half];
                    st.global.b32 [place + j * 16], pair;
                }
            }
            place += below;
        }
    }

    /// Begins to copy this thread's part of the next tiles, and goes on along K.
    fn fetch(to: u32, from_a: &mut u64, from_b: &mut u64, further: u64) {
        cp_async::copy16(to, *from_a);
        cp_async::copy16(to + 32 * PITCH, *from_a + further);
        cp_async::copy16(to + TILE, *from_b);
        cp_async::copy16(to + TILE + 32 * PITCH, *from_b + further);
        cp_async::commit();
        *from_a += 64;
        *from_b += 64;
    }
}

pub(crate) fn launch(
    stream: &Stream,
    a: &Buffer<bf16>,
    b: &Buffer<bf16>,
    c: &mut Buffer<bf16>,
    [m, n, k]: Shape,
) -> Result<()> {
    gemm_pipelined::<bf16>(stream, a, b, c, m, n, k)
}

pub(crate) fn run(device: &Device) -> Result<Report> {
    let last = elements(device, 4096, 128);
    check(device, "gemm_pipelined", &[[64, 64, 32], [128, 64, 96], [last, last, last]], launch)
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}

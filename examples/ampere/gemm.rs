//! A matrix product as fast as `mma.sync` goes: `cp.async` fills a ring of stages, `ldmatrix` reads them without bank
//! conflicts through an XOR swizzle, and the fragments of the next step are on their way while this one is multiplied.

use ptx_examples::product::{Launch, check};
use ptx_examples::{Report, elements};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// C = A · Bᵀ: A is `m` × `k`, B is `n` × `k`, C is `m` × `n`, all row by row, sums in `f32`.
///
/// A block makes `BM` × `BN` elements of C, a warp `WM` × `WN` of them, `BK` of K at a time, with `STAGES` in flight.
#[ptx_kernel(
    arch = "sm_80",
    block = 32 * (BM / WM) * (BN / WN),
    grid = m.div_ceil(BM) * n.div_ceil(BN),
    shared = STAGES * (BM + BN) * BK * 2,
    min_blocks = BLOCKS,
    instances = [
        (bf16, 128, 128, 32, 64, 64, 4, 2), (bf16, 128, 256, 32, 64, 64, 4, 1), (bf16, 256, 128, 32, 64, 64, 4, 1),
        (bf16, 128, 256, 64, 64, 64, 4, 1), (bf16, 128, 128, 64, 64, 64, 3, 2), (bf16, 128, 128, 32, 64, 64, 5, 2),
        (f16, 128, 128, 32, 64, 64, 4, 2),
    ],
    unsafe(requires(k % 8 == 0, n % 8 == 0, a.len() >= m * k, b.len() >= n * k, c.len() >= m * n))
)]
pub fn gemm<
    T,
    const BM: u32,
    const BN: u32,
    const BK: u32,
    const WM: u32,
    const WN: u32,
    const STAGES: u32,
    const BLOCKS: u32,
>(
    a: &[T],
    b: &[T],
    c: &mut [T],
    m: u32,
    n: u32,
    k: u32,
) {
    const WARPS: u32 = (BM / WM) * (BN / WN);
    const PITCH: u32 = BK * 2;
    const STAGE: u32 = (BM + BN) * PITCH;
    /// Products of 16 × 8 in a warp, down and across, and steps of 16 along K in a stage.
    const DOWN: u32 = WM / 16;
    const ACROSS: u32 = WN / 8;
    const STEPS: u32 = BK / 16;
    /// Chunks of 16 bytes in a row of a stage, and rows that the block copies at once.
    const CHUNKS: u32 = BK / 8;
    const ROWS: u32 = 32 * WARPS / CHUNKS;

    #[shared(dynamic, align = 128)]
    let ring: [u8];

    let (row0, column0): (u32, u32) = place::<BM, BN>(m, n);

    // Of every stage this thread copies one chunk of some rows of A, then of B.
    let (row, chunk): (u32, u32) = (tid.x / CHUNKS, tid.x % CHUNKS);
    let to: u32 = ring + row * PITCH + ((chunk ^ swizzle::<BK>(row)) << 4);
    let from: [u64; (BM + BN) / ROWS];
    let inside: [pred; (BM + BN) / ROWS];
    for i in 0..BM / ROWS {
        let at: u32 = row0 + row + i * ROWS;
        inside[i] = at < m;
        from[i] = a + (wide(at) * k + (chunk * 8) as u64) * 2;
    }
    for i in 0..BN / ROWS {
        let at: u32 = column0 + row + i * ROWS;
        inside[BM / ROWS + i] = at < n;
        from[BM / ROWS + i] = b + (wide(at) * k + (chunk * 8) as u64) * 2;
    }
    let mut fetched: u32 = chunk * 8;
    for stage in 0..STAGES - 1 {
        for i in 0..(BM + BN) / ROWS {
            fetch(to + stage * STAGE + i * ROWS * PITCH, &mut from[i], inside[i], fetched < k);
        }
        cp_async::commit();
        fetched += BK;
    }
    let mut write: u32 = to + (STAGES - 1) * STAGE;

    // The rows that this lane names to `ldmatrix`: 16 of A, 8 and 8 of B.
    let (warp, lane): (u32, u32) = (tid.x / 32, laneid);
    let (down, across): (u32, u32) = (warp % (BM / WM) * WM, warp / (BM / WM) * WN);
    let (a_row, b_row): (u32, u32) = (lane & 15, (lane & 7) + ((lane >> 4) << 3));
    let a_from: u32 = ring + (down + a_row) * PITCH + (((lane >> 4) ^ swizzle::<BK>(a_row)) << 4);
    let b_from: u32 = ring + (BM + across + b_row) * PITCH + ((((lane >> 3) & 1) ^ swizzle::<BK>(b_row)) << 4);

    let sum: [[[f32; 4]; ACROSS]; DOWN];
    for i in 0..DOWN {
        for j in 0..ACROSS {
            sum[i][j] = [0.0; 4];
        }
    }
    let fa: [[[b32; 4]; DOWN]; 2];
    let fb: [[[b32; 4]; ACROSS / 2]; 2];
    cp_async::wait::<{ STAGES - 2 }>();
    block::sync();
    load(&mut fa[0], a_from);
    load(&mut fb[0], b_from);

    let (mut done, mut stage): (u32, u32) = (0, 0);
    while done < k {
        for step in 0..STEPS {
            // While a step is multiplied, the fragments of the next one are loaded.
            const NEXT: u32 = (step + 1) % STEPS;
            if NEXT == 0 {
                cp_async::wait::<{ STAGES - 2 }>();
                block::sync();
                stage = next(stage);
            }
            load(&mut fa[NEXT % 2], (a_from + stage) ^ (NEXT << 5));
            load(&mut fb[NEXT % 2], (b_from + stage) ^ (NEXT << 5));
            if step == 0 {
                for i in 0..(BM + BN) / ROWS {
                    fetch(write + i * ROWS * PITCH, &mut from[i], inside[i], fetched < k);
                }
                cp_async::commit();
                fetched += BK;
                write = to + stage;
            }
            for i in 0..DOWN {
                for j in 0..ACROSS {
                    const PART: u32 = 2 * (j % 2);
                    let columns: [b32; 2] = [fb[step % 2][j / 2][PART], fb[step % 2][j / 2][PART + 1]];
                    matrix::multiply::<T>(&mut sum[i][j], fa[step % 2][i], columns);
                }
            }
        }
        done += BK;
    }
    cp_async::wait_all();
    block::sync();

    // Through shared memory, so that a warp writes rows of 16-byte chunks.
    let mine: u32 = ring + warp * (WM * WN * 2);
    for i in 0..DOWN {
        for j in 0..ACROSS {
            for half in 0..2 {
                let at: u32 = i * 16 + half * 8 + lane / 4;
                let chunk: u32 = (j ^ (at & 7)) << 4;
                let place: u32 = mine + at * (WN * 2) + chunk + (lane & 3) * 4;
                let pair: b32;
                ptx! {
                    cvt.rn.{T}x2.f32 pair, sum[i][j][2 * half + 1], sum[i][j][2 * half];
                    st.shared.b32 [place], pair;
                }
            }
        }
    }
    warp::sync();
    const WIDE: u32 = WN / 8;
    for i in 0..WM * WIDE / 32 {
        let at: u32 = i * (32 / WIDE) + lane / WIDE;
        let chunk: u32 = lane % WIDE;
        let (row, column): (u32, u32) = (row0 + down + at, column0 + across + chunk * 8);
        let there: pred = (row < m) & (column < n);
        let packed: [b32; 4];
        let place: u32 = mine + at * (WN * 2) + ((chunk ^ (at & 7)) << 4);
        ptx! { ld.shared.v4.b32 {packed[..]}, [place]; }
        vector::store::<T, 8>(c + (wide(row) * n + column as u64) * 2, packed, there);
    }

    /// This block's first row and column. Eight rows of blocks are numbered column by column, so that those that run
    /// together share A and B in the second-level cache.
    fn place<const BM: u32, const BN: u32>(m: u32, n: u32) -> (u32, u32) {
        let (down, across): (u32, u32) = ((m + (BM - 1)) / BM, (n + (BN - 1)) / BN);
        let (group, rest): (u32, u32) = (ctaid.x / (8 * across), ctaid.x % (8 * across));
        let mut height: u32 = down - group * 8;
        ptx! { min.u32 height, height, 8; }
        ((group * 8 + rest % height) * BM, rest / height * BN)
    }

    /// Which chunk a row's first one changes places with, so that eight rows lie in eight chunks of 128 bytes.
    fn swizzle<const BK: u32>(row: u32) -> u32 {
        if BK == 64 { row & 7 } else { (row >> 1) & 3 }
    }

    /// Begins to copy 16 bytes, zeros where they are outside of the matrix, and goes on along the row.
    fn fetch(to: u32, from: &mut u64, inside: pred, left: pred) {
        let bytes: u32;
        let both: pred = inside & left;
        ptx! { selp.u32 bytes, 16, 0, both; }
        cp_async::copy16_zero(to, *from, bytes);
        *from += PITCH as u64;
    }

    /// Where the stage after this one begins.
    fn next(stage: u32) -> u32 {
        let (mut after, last): (u32, pred) = (stage + STAGE, stage == (STAGES - 1) * STAGE);
        ptx! { selp.u32 after, 0, after, last; }
        after
    }

    /// A column of fragments, 16 rows each.
    fn load<const N: u32>(fragments: &mut [[b32; 4]; N], row: u32) {
        for i in 0..N {
            fragments[i] = matrix::load_x4(row + i * 16 * PITCH);
        }
    }
}

macro_rules! variants {
    ($($bm:literal $bn:literal $bk:literal $wm:literal $wn:literal $stages:literal $blocks:literal)*) => {
        /// Every instance, the best at 4096 first. The ring of 128x256x64 is larger than the shared memory of `sm_80` itself.
        pub(crate) const VARIANTS: &[(&str, Launch)] = &[$((
            concat!($bm, "x", $bn, "x", $bk, " s", $stages),
            |stream, a, b, c, [m, n, k]| gemm::<bf16, $bm, $bn, $bk, $wm, $wn, $stages, $blocks>(stream, a, b, c, m, n, k),
        )),*];
    };
}
variants! {
    128 256 32 64 64 4 1
    256 128 32 64 64 4 1
    128 128 32 64 64 4 2
    128 256 64 64 64 4 1
    128 128 64 64 64 3 2
    128 128 32 64 64 5 2
}

pub(crate) fn run(device: &Device) -> Result<Report> {
    let last = elements(device, 4096, 256);
    check(device, "ampere_gemm", &[[200, 136, 104], [3, 8, 8], [129, 520, 32], [last, last, last / 2]], VARIANTS[0].1)
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}

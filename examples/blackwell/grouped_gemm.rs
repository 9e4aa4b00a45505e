//! Grouped GEMM for a mixture of experts: the rows of A are sorted by expert, and each group of rows is multiplied with the
//! matrix of its expert. One launch for all groups, of any sizes; empty ones cost nothing.
//!
//! The roles of the warps are those of `gemm.rs`. Where a group begins stands in `offsets`; every role walks through the
//! groups as the tiles go by. A tile may read rows of the next group, but writes its own alone: no TMA, but 16 bytes a
//! thread, row by row.
//!
//! For `sm_100a`. Where there is no such chip, the CPU device runs it; nobody has measured it here.

use ptx_examples::Report;
use ptx_examples::blackwell;
use ptx_examples::product::{Product, offsets};
use ptx_launch::prelude::*;

/// Bytes of shared memory: the stages, the barriers of both rings, and a word.
pub(crate) const fn shared_bytes(columns: u32, stages: u32) -> u32 {
    stages * (128 + columns) * 128 + 16 * stages + 32 + 16
}

/// The kernel and what it is made of.
#[ptx_module(arch = "sm_100a")]
pub mod kernels {
    /// Rows of a tile: the lanes of tensor memory.
    const ROWS: u32 = 128;
    /// Elements along K in a stage: rows of 128 bytes.
    const DEPTH: u32 = 64;

    /// Goes on to the group that has a tile, or behind the last one: `group`, the tiles `before` it, and its rows from
    /// `first` to `end` change. A loop of `ld.global.nc` and additions.
    fn seek(
        tile: u32,
        offsets: u64,
        groups: u32,
        columns: u32,
        group: &mut u32,
        before: &mut u32,
        first: &mut u32,
        end: &mut u32,
    ) {
        loop {
            if *group >= groups {
                break;
            }
            let at: u64 = offsets + wide(*group) * 4;
            ptx! {
                ld.global.nc.u32 first, [at];
                ld.global.nc.u32 end, [at + 4];
            }
            let next: u32 = *before + (*end - *first + (ROWS - 1)) / ROWS * columns;
            if tile < next {
                break;
            }
            *before = next;
            *group += 1;
        }
    }

    /// C (M × N): row r is row r of A (M × K) times the matrix of its group, of those (W / N, each N × K) that stand below
    /// each other in B. Group g has the rows from `offsets[g]` to `offsets[g + 1]`.
    #[ptx_kernel(
        block = 192,
        grid = blocks,
        shared = super::shared_bytes(COLUMNS, STAGES),
        instances = [(bf16, bf16x2, 1, 128, 4), (f16, f16x2, 0, 256, 4)],
        unsafe(requires(K % 8 == 0, N % 8 == 0, blocks > 0, W == groups * N, offsets.len() > groups))
    )]
    pub fn gemm<T, T2, const TYPE: u32, const COLUMNS: u32, const STAGES: u32>(
        #[tma(box = [128, 64], swizzle = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [COLUMNS, 64], swizzle = 128)] b: Tile<T, (W, K)>,
        c: TileMut<T, (M, N)>,
        offsets: &[u32],
        groups: u32,
        blocks: u32,
    ) {
        #[shared(dynamic, align = 1024)]
        let stages: [u8];
        const STAGE: u32 = (ROWS + COLUMNS) * 128;
        const IDESC: u32 = tcgen05::idesc(TYPE, TYPE, tcgen05::SUM_F32, ROWS, COLUMNS);
        // The ring of stages, and that of the two tiles of sums.
        let filled: u32 = stages + STAGES * STAGE;
        let summed: u32 = filled + 16 * STAGES;
        let slot: u32 = summed + 32;

        let warp: u32 = tid.x >> 5;
        if warp == 0 {
            tcgen05::alloc::<1, { 2 * COLUMNS }>(slot);
            tcgen05::relinquish::<1>();
        }
        if tid.x == 32 {
            tma::prefetch(a_map);
            tma::prefetch(b_map);
            pipeline::init::<STAGES, 1, 1>(filled);
            pipeline::init::<2, 1, 4>(summed);
        }
        tcgen05::fence_before();
        block::sync();
        tcgen05::fence_after();
        let sums: u32 = tcgen05::address(slot);

        let columns: u32 = (N + (COLUMNS - 1)) / COLUMNS;
        let mut tile: u32 = ctaid.x;
        let (mut stage, mut phase): (u32, u32) = (0, 0);
        let (mut half, mut turn): (u32, u32) = (0, 0);
        let (mut group, mut before, mut first, mut end): (u32, u32, u32, u32) = (0, 0, 0, 0);

        if warp == 0 {
            if warp::elect() {
                loop {
                    seek(tile, offsets, groups, columns, &mut group, &mut before, &mut first, &mut end);
                    if group >= groups {
                        break;
                    }
                    let (row, column): (u32, u32) = scheduler::linear(tile - before, columns);
                    let (y_a, y_b): (u32, u32) = (first + row * ROWS, group * N + column * COLUMNS);
                    let mut k: u32 = 0;
                    while k < K {
                        pipeline::wait_empty::<STAGES>(filled, stage, phase);
                        let full: u32 = pipeline::full(filled, stage);
                        let to: u32 = stages + stage * STAGE;
                        mbarrier::arrive_expect(full, STAGE);
                        tma::load_2d(to, a_map, k, y_a, full);
                        tma::load_2d(to + ROWS * 128, b_map, k, y_b, full);
                        pipeline::advance::<STAGES>(&mut stage, &mut phase);
                        k += DEPTH;
                    }
                    tile += nctaid.x;
                }
            }
            warp::sync();
        } else if warp == 1 {
            if warp::elect() {
                let from_a: u64 = tcgen05::descriptor_k128(stages);
                let from_b: u64 = tcgen05::descriptor_k128(stages + ROWS * 128);
                loop {
                    seek(tile, offsets, groups, columns, &mut group, &mut before, &mut first, &mut end);
                    if group >= groups {
                        break;
                    }
                    pipeline::wait_empty::<2>(summed, half, turn);
                    tcgen05::fence_after();
                    let to: u32 = sums + half * COLUMNS;
                    tcgen05::multiply::<1, "kind::f16", DEPTH, STAGE, STAGES>(
                        to, from_a, from_b, IDESC, K, filled, &mut stage, &mut phase,
                    );
                    tcgen05::commit_all::<1>(pipeline::full(summed, half));
                    pipeline::advance::<2>(&mut half, &mut turn);
                    tile += nctaid.x;
                }
            }
            warp::sync();
        } else {
            let thread: u32 = (warp & 3) * 32 + (tid.x & 31);
            loop {
                seek(tile, offsets, groups, columns, &mut group, &mut before, &mut first, &mut end);
                if group >= groups {
                    break;
                }
                let (row, column): (u32, u32) = scheduler::linear(tile - before, columns);
                let (y, x): (u32, u32) = (first + row * ROWS + thread, column * COLUMNS);
                // Rows of the next group, and whatever `offsets` says, rows that there are not.
                let mine: pred = y < end;
                let there: pred = y < M;
                let to: u64 = c + (wide(y) * N + x as u64) * size_of::<T>();
                pipeline::wait_full(summed, half, turn);
                tcgen05::fence_after();
                let from: u32 = tcgen05::quarter(sums + half * COLUMNS);
                for part in 0..COLUMNS / 64 {
                    let values: [f32; 64] = tcgen05::load::<f32, 64>(from + 64 * part);
                    let pairs: [T2; 32] = tcgen05::pack::<T2, 64>(values);
                    for piece in 0..8 {
                        let mut inside: pred = x + (64 * part + 8 * piece) < N;
                        ptx! {
                            and.pred inside, inside, mine;
                            and.pred inside, inside, there;
                            @inside st.global.v4.b32 [to + 128 * part + 16 * piece], {pairs[4 * piece..4 * piece + 4]};
                        }
                    }
                }
                // All is read: the next tile but one may be multiplied here.
                tcgen05::fence_before();
                warp::sync();
                if tid.x & 31 == 0 {
                    mbarrier::arrive(pipeline::empty::<2>(summed, half));
                }
                pipeline::advance::<2>(&mut half, &mut turn);
                tile += nctaid.x;
            }
            warp::sync();
        }
        tcgen05::fence_before();
        block::sync();
        if warp == 0 {
            tcgen05::fence_after();
            tcgen05::dealloc::<1, { 2 * COLUMNS }>(sums);
        }
    }
}

use kernels::gemm;

/// N and K, and the rows of each group: some empty, some of many tiles, none a whole number of them.
const SHAPES: [([usize; 2], &[usize]); 3] =
    [([256, 256], &[130, 0, 7, 128, 300, 1]), ([136, 72], &[0, 0, 50]), ([8, 8], &[3])];

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let device = &blackwell::device(device);
    let mut found = Vec::new();
    for (seed, ([n, k], groups)) in SHAPES.into_iter().enumerate() {
        let offsets = device.upload(&offsets(groups, 0))?;
        let (m, w, count) = (groups.iter().sum(), groups.len() * n, groups.len() as u32);
        found.push(Product::<bf16>::grouped([m, n, k], groups, seed as u32).check(device, |stream, a, b, c| {
            let (a, b, c) = (a.tile([m, k])?, b.tile([w, k])?, c.tile_mut([m, n])?);
            gemm::<bf16, bf16x2, 1, 128, 4>(stream, a, b, c, &offsets, count, 3)
        })?);
        found.push(Product::<f16>::grouped([m, n, k], groups, seed as u32).check(device, |stream, a, b, c| {
            let (a, b, c) = (a.tile([m, k])?, b.tile([w, k])?, c.tile_mut([m, n])?);
            gemm::<f16, f16x2, 0, 256, 4>(stream, a, b, c, &offsets, count, 2)
        })?);
    }
    Ok(blackwell::report("blackwell_grouped_gemm", device, "6 groups, 256 × 256", &found))
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}

//! C = A · B on Blackwell's tensor cores, a block a tile: 16-bit operands, `f32` sums in tensor memory, any M, and any N and
//! K whose rows are whole 16 bytes.
//!
//! A block has six warps. One is the *producer*: one of its threads asks TMA for 64 columns of A and of B at a time, into a
//! ring of stages. One *multiplies*: one of its threads issues `tcgen05.mma`, which reads shared memory and adds to tensor
//! memory, and lets `tcgen05.commit` say when a stage may be filled again. Four are the *epilogue*: each reads 32 lanes of
//! the sums (`tcgen05.ld`), converts them, and sends them out by TMA.
//!
//! Two tiles of sums fit into tensor memory, so that the next one is multiplied while the last one is written.
//!
//! For `sm_100a`. Where there is no such chip, the CPU device runs it; nobody has measured it here.

use ptx_examples::Report;
use ptx_examples::blackwell;
use ptx_examples::product::Product;
use ptx_launch::prelude::*;

/// Bytes of shared memory: the stages, four panels, the barriers of both rings, and a word.
pub(crate) const fn shared_bytes(columns: u32, stages: u32) -> u32 {
    stages * (128 + columns) * 128 + 4 * 4096 + 16 * stages + 32 + 16
}

/// The kernel and what it is made of.
#[ptx_module(arch = "sm_100a")]
pub mod kernels {
    /// Rows of a tile: the lanes of tensor memory.
    const ROWS: u32 = 128;
    /// Elements along K in a stage: rows of 128 bytes.
    const DEPTH: u32 = 64;
    /// Bytes of an epilogue warp's panel: 32 rows, 64 columns.
    const PANEL: u32 = 32 * 128;

    /// C (M × N) = A (M × K) · Bᵀ (N × K). `TYPE` is the number of `T` in a descriptor: 1 is `bf16`, 0 is `f16`.
    #[ptx_kernel(
        block = 192,
        grid = blocks,
        shared = super::shared_bytes(COLUMNS, STAGES),
        instances = [(bf16, bf16x2, 1, 128, 4), (bf16, bf16x2, 1, 256, 4), (f16, f16x2, 0, 128, 4)],
        unsafe(requires(K % 8 == 0, N % 8 == 0, blocks > 0))
    )]
    pub fn gemm<T, T2, const TYPE: u32, const COLUMNS: u32, const STAGES: u32>(
        #[tma(box = [128, 64], swizzle = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [COLUMNS, 64], swizzle = 128)] b: Tile<T, (N, K)>,
        #[tma(box = [32, 64], swizzle = 128)] c: TileMut<T, (M, N)>,
        blocks: u32,
        group: u32,
    ) {
        #[shared(dynamic, align = 1024)]
        let stages: [u8];
        const STAGE: u32 = (ROWS + COLUMNS) * 128;
        const IDESC: u32 = tcgen05::idesc(TYPE, TYPE, tcgen05::SUM_F32, ROWS, COLUMNS);
        let panels: u32 = stages + STAGES * STAGE;
        // The ring of stages, and that of the two tiles of sums.
        let filled: u32 = panels + 4 * PANEL;
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
            tma::prefetch(c_map);
            pipeline::init::<STAGES, 1, 1>(filled);
            pipeline::init::<2, 1, 4>(summed);
        }
        tcgen05::fence_before();
        block::sync();
        tcgen05::fence_after();
        let sums: u32 = tcgen05::address(slot);

        let rows: u32 = (M + (ROWS - 1)) / ROWS;
        let columns: u32 = (N + (COLUMNS - 1)) / COLUMNS;
        let tiles: u32 = rows * columns;
        let mut tile: u32 = ctaid.x;
        let (mut stage, mut phase): (u32, u32) = (0, 0);
        let (mut half, mut turn): (u32, u32) = (0, 0);

        if warp == 0 {
            if warp::elect() {
                while tile < tiles {
                    let (row, column): (u32, u32) = scheduler::grouped(tile, rows, columns, group);
                    let mut k: u32 = 0;
                    while k < K {
                        pipeline::wait_empty::<STAGES>(filled, stage, phase);
                        let full: u32 = pipeline::full(filled, stage);
                        let to: u32 = stages + stage * STAGE;
                        mbarrier::arrive_expect(full, STAGE);
                        tma::load_2d(to, a_map, k, row * ROWS, full);
                        tma::load_2d(to + ROWS * 128, b_map, k, column * COLUMNS, full);
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
                while tile < tiles {
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
            // Which lanes a warp reaches is decided by its number.
            let quarter: u32 = warp & 3;
            let panel: u32 = panels + quarter * PANEL;
            let lane: u32 = tid.x & 31;
            while tile < tiles {
                let (row, column): (u32, u32) = scheduler::grouped(tile, rows, columns, group);
                pipeline::wait_full(summed, half, turn);
                tcgen05::fence_after();
                let from: u32 = tcgen05::quarter(sums + half * COLUMNS);
                for part in 0..COLUMNS / 64 {
                    let values: [f32; 64] = tcgen05::load::<f32, 64>(from + 64 * part);
                    if part == COLUMNS / 64 - 1 {
                        // All is read: the next tile but one may be multiplied here.
                        tcgen05::fence_before();
                        warp::sync();
                        if lane == 0 {
                            mbarrier::arrive(pipeline::empty::<2>(summed, half));
                        }
                    }
                    // The panel is free when the store from there has read it.
                    if lane == 0 {
                        tma::wait_read::<0>();
                    }
                    warp::sync();
                    tcgen05::store_row(panel, lane, tcgen05::pack::<T2, 64>(values));
                    tma::fence();
                    warp::sync();
                    if lane == 0 {
                        tma::store_2d(c_map, column * COLUMNS + 64 * part, row * ROWS + quarter * 32, panel);
                        tma::commit();
                    }
                }
                pipeline::advance::<2>(&mut half, &mut turn);
                tile += nctaid.x;
            }
            if lane == 0 {
                tma::wait::<0>();
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

/// M, N and K, and how many blocks share the tiles: whole tiles; edges in every dimension; less than a tile; and more
/// tiles than blocks.
const SHAPES: [([usize; 3], u32); 4] =
    [([256, 256, 256], 4), ([200, 136, 72], 2), ([8, 8, 8], 1), ([384, 256, 128], 2)];

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let device = &blackwell::device(device);
    let mut found = Vec::new();
    for (seed, (shape, blocks)) in SHAPES.into_iter().enumerate() {
        let ([m, n, k], product) = (shape, Product::<bf16>::new(shape, seed as u32));
        found.push(product.check(device, |stream, a, b, c| {
            let (a, b, c) = (a.tile([m, k])?, b.tile([n, k])?, c.tile_mut([m, n])?);
            gemm::<bf16, bf16x2, 1, 128, 4>(stream, a, b, c, blocks, 2)
        })?);
        found.push(product.check(device, |stream, a, b, c| {
            let (a, b, c) = (a.tile([m, k])?, b.tile([n, k])?, c.tile_mut([m, n])?);
            gemm::<bf16, bf16x2, 1, 256, 4>(stream, a, b, c, blocks, 2)
        })?);
    }
    found.push(Product::<f16>::new([256, 128, 192], 9).check(device, |stream, a, b, c| {
        let (a, b, c) = (a.tile([256, 192])?, b.tile([128, 192])?, c.tile_mut([256, 128])?);
        gemm::<f16, f16x2, 0, 128, 4>(stream, a, b, c, 2, 1)
    })?);
    Ok(blackwell::report("blackwell_gemm", device, "256 × 256 × 256 bf16", &found))
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}

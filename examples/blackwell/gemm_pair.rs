//! C = A · B on Blackwell's tensor cores, two blocks a tile (`.cta_group::2`): each has half of A's rows, half of B's columns
//! and half of the sums, and the tensor cores of both read both halves of B. A stage is half as large for the same tile.
//!
//! The blocks are a cluster. Each one's producer fills its own shared memory, and its bytes count at the barrier of the
//! first block, the *leader*, whose thread multiplies for both. `tcgen05.commit` then arrives at the barriers of both.
//! The roles of the warps are those of `gemm.rs`.
//!
//! For `sm_100a`. Where there is no such chip, the CPU device runs it; nobody has measured it here.

use ptx_examples::Report;
use ptx_examples::blackwell;
use ptx_examples::product::Product;
use ptx_launch::prelude::*;

/// Bytes of shared memory of a block: the stages, four panels, the barriers of both rings, and a word.
pub(crate) const fn shared_bytes(columns: u32, stages: u32) -> u32 {
    stages * (128 + columns / 2) * 128 + 4 * 4096 + 16 * stages + 32 + 16
}

/// The kernel and what it is made of.
#[ptx_module(arch = "sm_100a")]
pub mod kernels {
    /// Rows of a tile in one block: the lanes of its tensor memory.
    const ROWS: u32 = 128;
    /// Elements along K in a stage: rows of 128 bytes.
    const DEPTH: u32 = 64;
    /// Bytes of an epilogue warp's panel: 32 rows, 64 columns.
    const PANEL: u32 = 32 * 128;

    /// C (M × N) = A (M × K) · Bᵀ (N × K). `TYPE` is the number of `T` in a descriptor: 1 is `bf16`, 0 is `f16`.
    #[ptx_kernel(
        block = 192,
        cluster = 2,
        grid = blocks,
        shared = super::shared_bytes(COLUMNS, STAGES),
        instances = [(bf16, bf16x2, 1, 256, 4), (f16, f16x2, 0, 128, 6)],
        unsafe(requires(K % 8 == 0, N % 8 == 0, blocks > 0, blocks % 2 == 0))
    )]
    pub fn gemm<T, T2, const TYPE: u32, const COLUMNS: u32, const STAGES: u32>(
        #[tma(box = [128, 64], swizzle = 128)] a: Tile<T, (M, K)>,
        #[tma(box = [COLUMNS / 2, 64], swizzle = 128)] b: Tile<T, (N, K)>,
        #[tma(box = [32, 64], swizzle = 128)] c: TileMut<T, (M, N)>,
        blocks: u32,
        group: u32,
    ) {
        #[shared(dynamic, align = 1024)]
        let stages: [u8];
        const STAGE: u32 = (ROWS + COLUMNS / 2) * 128;
        const IDESC: u32 = tcgen05::idesc(TYPE, TYPE, tcgen05::SUM_F32, 2 * ROWS, COLUMNS);
        let panels: u32 = stages + STAGES * STAGE;
        // The ring of stages, and that of the two tiles of sums.
        let filled: u32 = panels + 4 * PANEL;
        let summed: u32 = filled + 16 * STAGES;
        let slot: u32 = summed + 32;

        let warp: u32 = tid.x >> 5;
        let rank: u32 = cluster::rank();
        if warp == 0 {
            tcgen05::alloc::<2, { 2 * COLUMNS }>(slot);
            tcgen05::relinquish::<2>();
        }
        if tid.x == 32 {
            tma::prefetch(a_map);
            tma::prefetch(b_map);
            tma::prefetch(c_map);
            // The epilogue warps of both blocks say that sums have been read.
            pipeline::init::<STAGES, 1, 1>(filled);
            pipeline::init::<2, 1, 8>(summed);
        }
        tcgen05::fence_before();
        block::sync();
        cluster::sync();
        tcgen05::fence_after();
        let sums: u32 = tcgen05::address(slot);

        let rows: u32 = (M + (2 * ROWS - 1)) / (2 * ROWS);
        let columns: u32 = (N + (COLUMNS - 1)) / COLUMNS;
        let tiles: u32 = rows * columns;
        let workers: u32 = nctaid.x >> 1;
        let mut tile: u32 = ctaid.x >> 1;
        let (mut stage, mut phase): (u32, u32) = (0, 0);
        let (mut half, mut turn): (u32, u32) = (0, 0);

        if warp == 0 {
            if warp::elect() {
                while tile < tiles {
                    let (row, column): (u32, u32) = scheduler::grouped(tile, rows, columns, group);
                    let y_a: u32 = (2 * row + rank) * ROWS;
                    let y_b: u32 = column * COLUMNS + rank * (COLUMNS / 2);
                    let mut k: u32 = 0;
                    while k < K {
                        pipeline::wait_empty::<STAGES>(filled, stage, phase);
                        let full: u32 = pipeline::full(filled, stage);
                        let to: u32 = stages + stage * STAGE;
                        // The leader expects the bytes of both blocks.
                        if rank == 0 {
                            mbarrier::arrive_expect(full, 2 * STAGE);
                        }
                        let leader: u32 = cluster::map(full, 0);
                        tma::load_2d_pair(to, a_map, k, y_a, leader);
                        tma::load_2d_pair(to + ROWS * 128, b_map, k, y_b, leader);
                        pipeline::advance::<STAGES>(&mut stage, &mut phase);
                        k += DEPTH;
                    }
                    tile += workers;
                }
            }
            warp::sync();
        } else if warp == 1 {
            if rank == 0 {
                if warp::elect() {
                    let from_a: u64 = tcgen05::descriptor_k128(stages);
                    let from_b: u64 = tcgen05::descriptor_k128(stages + ROWS * 128);
                    while tile < tiles {
                        pipeline::wait_empty::<2>(summed, half, turn);
                        tcgen05::fence_after();
                        let to: u32 = sums + half * COLUMNS;
                        tcgen05::multiply::<2, "kind::f16", DEPTH, STAGE, STAGES>(
                            to, from_a, from_b, IDESC, K, filled, &mut stage, &mut phase,
                        );
                        tcgen05::commit_all::<2>(pipeline::full(summed, half));
                        pipeline::advance::<2>(&mut half, &mut turn);
                        tile += workers;
                    }
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
                let y: u32 = (2 * row + rank) * ROWS + quarter * 32;
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
                            mbarrier::arrive_remote(pipeline::empty::<2>(summed, half), 0);
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
                        tma::store_2d(c_map, column * COLUMNS + 64 * part, y, panel);
                        tma::commit();
                    }
                }
                pipeline::advance::<2>(&mut half, &mut turn);
                tile += workers;
            }
            if lane == 0 {
                tma::wait::<0>();
            }
            warp::sync();
        }
        // Nobody leaves while the other block may still arrive here or read here.
        tcgen05::fence_before();
        block::sync();
        cluster::sync();
        if warp == 0 {
            tcgen05::fence_after();
            tcgen05::dealloc::<2, { 2 * COLUMNS }>(sums);
        }
    }
}

use kernels::gemm;

/// M, N and K, and how many blocks share the tiles: whole tiles; edges in every dimension; less than a tile; and more
/// tiles than pairs of blocks.
const SHAPES: [([usize; 3], u32); 4] =
    [([512, 512, 256], 4), ([300, 136, 72], 2), ([8, 8, 8], 2), ([512, 768, 128], 4)];

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let device = &blackwell::device(device);
    let mut found = Vec::new();
    for (seed, (shape, blocks)) in SHAPES.into_iter().enumerate() {
        let [m, n, k] = shape;
        found.push(Product::<bf16>::new(shape, seed as u32).check(device, |stream, a, b, c| {
            let (a, b, c) = (a.tile([m, k])?, b.tile([n, k])?, c.tile_mut([m, n])?);
            gemm::<bf16, bf16x2, 1, 256, 4>(stream, a, b, c, blocks, 2)
        })?);
    }
    found.push(Product::<f16>::new([256, 128, 192], 9).check(device, |stream, a, b, c| {
        let (a, b, c) = (a.tile([256, 192])?, b.tile([128, 192])?, c.tile_mut([256, 128])?);
        gemm::<f16, f16x2, 0, 128, 6>(stream, a, b, c, 2, 1)
    })?);
    Ok(blackwell::report("blackwell_gemm_pair", device, "512 × 512 × 256 bf16", &found))
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}

"""C = A · Bᵀ on Ampere: cp.async fills a ring of stages while the tensor cores work.

``python gemm_ampere.py`` compares the kernel with float64, on the GPU of PyTorch if there is one, else on the device of
JAX: NumPy has no bfloat16.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

import ptx_kernels

TEXT = """
#[ptx_module(arch = "sm_80")]
mod kernels {
    const STAGES: u32 = 3;

    /// 64 elements along K: rows of 128 bytes, whose pieces of 16 bytes change places with the row, so that `ldmatrix` meets no bank twice.
    #[align(128)]
    struct Stage {
        a: [[bf16; 64]; 128],
        b: [[bf16; 64]; 128],
    }

    /// This thread's part of an operand: a piece of 16 bytes in every sixteenth row.
    struct Copier {
        from: u64,
        /// Bytes to this thread's next row.
        step: u64,
        /// The place in a stage.
        to: u32,
    }

    impl Copier {
        fn new(operand: Global<bf16>, first: u32, k: u32) -> Copier {
            let (row, chunk): (u32, u32) = (tid.x / 8, tid.x % 8);
            let from: u64 = operand + (wide(first + row) * k + (chunk * 8) as u64) * 2;
            Copier { from, step: wide(k) * 32, to: row * 128 + ((chunk ^ (row & 7)) << 4) }
        }

        /// Begins to copy a tile of 128 × 64, and moves on to the next one; nobody waits here.
        fn copy(&mut self, tile: u32) {
            let mut source: u64 = self.from;
            let place: u32 = tile + self.to;
            for i in 0..8 {
                ptx! { cp.async.cg.shared.global.L2::128B [place + 2048 * i], [source], 16; }
                source += self.step;
            }
            self.from += 128;
        }
    }

    /// Where this lane's `ldmatrix` reads in each of a stage's four steps along K.
    fn places(row: u32, chunk: u32) -> [u32; 4] {
        let at: [u32; 4];
        for step in 0..4 {
            at[step] = row * 128 + (((chunk + 2 * step) ^ (row & 7)) << 4);
        }
        at
    }

    /// A warp has 64 × 64 elements of C.
    fn multiply_stage(sum: &mut [[[f32; 4]; 8]; 4], a: u32, b: u32, at_a: &[u32; 4], at_b: &[u32; 4]) {
        for step in 0..4 {
            let (fa, fb): ([[b32; 4]; 4], [[b32; 4]; 4]);
            let (row_a, row_b): (u32, u32) = (a + at_a[step], b + at_b[step]);
            for i in 0..4 {
                fa[i] = matrix::load_x4(row_a + 2048 * i);
                fb[i] = matrix::load_x4(row_b + 2048 * i);
            }
            for i in 0..4 {
                for j in 0..8 {
                    const FIRST: u32 = 2 * (j % 2);
                    ptx! {
                        mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
                            {sum[i][j][..]}, {fa[i][..]}, {fb[j / 2][FIRST..FIRST + 2]}, {sum[i][j][..]};
                    }
                }
            }
        }
    }

    #[ptx_kernel(
        block = 128,
        grid = M / 128 * (N / 128),
        min_blocks = 2,
        unsafe(requires(M % 128 == 0, N % 128 == 0, K % 64 == 0))
    )]
    fn gemm(a: Tile<bf16, (M, K)>, b: Tile<bf16, (N, K)>, c: TileMut<f32, (M, N)>) {
        #[shared(dynamic)]
        let stages: [Stage; STAGES];
        // Blocks that run at the same time share rows and columns in the cache.
        let (tile_m, tile_n): (u32, u32) = scheduler::grouped(ctaid.x, M / 128, N / 128, 8);
        let mut from_a = Copier::new(a, tile_m * 128, K);
        let mut from_b = Copier::new(b, tile_n * 128, K);

        // Two stages are on their way before the loop begins. A group may be empty: the count stays right.
        let mut copied: u32 = 0;
        for i in 0..STAGES - 1 {
            if copied < K {
                let stage = stages.at(i);
                from_a.copy(stage.a);
                from_b.copy(stage.b);
            }
            cp_async::commit();
            copied += 64;
        }

        let (warp, lane): (u32, u32) = (tid.x / 32, laneid);
        let (warp_m, warp_n): (u32, u32) = (warp % 2 * 64, warp / 2 * 64);
        let at_a: [u32; 4] = places(warp_m + (lane & 15), lane >> 4);
        let at_b: [u32; 4] = places(warp_n + (lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1);
        let mut sum: [[[f32; 4]; 8]; 4] = [[[0.0; 4]; 8]; 4];
        let (mut read, mut write): (u32, u32) = (0, STAGES - 1);
        let mut at: u32 = 0;
        while at < K {
            cp_async::wait::<{ STAGES - 2 }>(); // this thread's copies of the oldest stage have come
            block::sync(); // everybody's have, and nobody reads the stage before any more
            if copied < K {
                let stage = stages.at(write);
                from_a.copy(stage.a);
                from_b.copy(stage.b);
            }
            cp_async::commit();
            copied += 64;
            let stage = stages.at(read);
            multiply_stage(&mut sum, stage.a, stage.b, &at_a, &at_b);
            read = next(read);
            write = next(write);
            at += 64;
        }
        store_sums(c, &sum, tile_m * 128 + warp_m, tile_n * 128 + warp_n, N);
    }

    /// The stage behind this one: `add`, `setp`, `selp`.
    fn next(stage: u32) -> u32 {
        let (after, last): (u32, pred) = (stage + 1, stage == STAGES - 1);
        last.select(0, after)
    }

    fn store_sums(c: GlobalMut<f32>, sum: &[[[f32; 4]; 8]; 4], row: u32, column: u32, n: u32) {
        let (r, q): (u32, u32) = (row + laneid / 4, column + laneid % 4 * 2);
        let mut to: u64 = c + (wide(r) * n + q as u64) * 4;
        for i in 0..4 {
            for half in 0..2 {
                for j in 0..8 {
                    ptx! { st.global.v2.f32 [to + 32 * j], {sum[i][j][2 * half..2 * half + 2]}; }
                }
                to += wide(n) * 32;
            }
        }
    }
}
"""

gemm = ptx_kernels.kernel(TEXT)


def check(m: int, n: int, k: int, move: Callable[[Any], Any]) -> float:
    """The largest error against float64. The operands are small integers, so that every sum is exact. ``move`` makes bfloat16 of an array, on a device."""
    values = np.random.default_rng(0)
    a, b = (values.integers(-3, 4, shape).astype(np.float32) for shape in ((m, k), (n, k)))
    c = gemm(move(a), move(b))
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    return float(np.abs(np.asarray(c.cpu() if hasattr(c, "cpu") else c) - expected).max())


def main() -> None:
    try:
        import torch

        if torch.cuda.is_available():
            print(check(4096, 4096, 4096, lambda array: torch.from_numpy(array).to("cuda", torch.bfloat16)))
            return
    except ImportError:
        pass
    import jax.numpy

    print(check(128, 128, 256, lambda array: jax.numpy.asarray(array, jax.numpy.bfloat16)))


if __name__ == "__main__":
    main()

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

    #[align(128)]
    struct Stage {
        a: [[bf16; 64]; 64],
        b: [[bf16; 64]; 64],
    }

    fn swizzled(row: u32, chunk: u32) -> u32 {
        row * 128 + ((chunk ^ (row & 7)) << 4)
    }

    /// Begins to copy a tile of 64 × 64; nobody waits here.
    fn copy_tile(to: u32, from: Global<bf16>, k: u32) {
        let (row, chunk): (u32, u32) = (tid.x / 8, tid.x % 8);
        let mut source: u64 = from + (wide(row) * k + (chunk * 8) as u64) * 2;
        for i in 0..4 {
            let place: u32 = to + swizzled(row + 16 * i, chunk);
            ptx! { cp.async.cg.shared.global [place], [source], 16; }
            source += wide(k) * 32;
        }
    }

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

    #[ptx_kernel(
        block = 128,
        grid = (N / 64, M / 64),
        unsafe(requires(M % 64 == 0, N % 64 == 0, K % 64 == 0))
    )]
    fn gemm(a: Tile<bf16, (M, K)>, b: Tile<bf16, (N, K)>, c: TileMut<f32, (M, N)>) {
        #[shared]
        let stages: [Stage; STAGES];
        let mut from_a: Global<bf16> = a + wide(ctaid.y * 64) * K * 2;
        let mut from_b: Global<bf16> = b + wide(ctaid.x * 64) * K * 2;
        let warp: u32 = tid.x / 32;
        let (warp_m, warp_n): (u32, u32) = (warp % 2 * 32, warp / 2 * 32);
        let mut sum: [[[f32; 4]; 4]; 2] = [[[0.0; 4]; 4]; 2];

        // Two stages are on their way before the loop begins. A group may be empty: the count stays right.
        let mut copied: u32 = 0;
        for i in 0..STAGES - 1 {
            if copied < K {
                let stage = stages.at(i);
                copy_tile(stage.a, from_a, K);
                copy_tile(stage.b, from_b, K);
            }
            cp_async::commit();
            from_a = from_a + 128;
            from_b = from_b + 128;
            copied += 64;
        }

        let (mut read, mut write): (u32, u32) = (0, STAGES - 1);
        let mut at: u32 = 0;
        while at < K {
            cp_async::wait::<{ STAGES - 2 }>(); // this thread's copies of the oldest stage have come
            block::sync(); // everybody's have, and nobody reads the stage before any more
            if copied < K {
                let stage = stages.at(write);
                copy_tile(stage.a, from_a, K);
                copy_tile(stage.b, from_b, K);
            }
            cp_async::commit();
            from_a = from_a + 128;
            from_b = from_b + 128;
            copied += 64;
            let stage = stages.at(read);
            multiply_stage(&mut sum, stage.a + warp_m * 128, stage.b + warp_n * 128);
            read = next(read);
            write = next(write);
            at += 64;
        }
        store_sums(c, &sum, ctaid.y * 64 + warp_m, ctaid.x * 64 + warp_n, N);
    }

    /// The stage behind this one: `add`, `setp`, `selp`.
    fn next(stage: u32) -> u32 {
        let (after, last): (u32, pred) = (stage + 1, stage == STAGES - 1);
        last.select(0, after)
    }

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

    print(check(128, 64, 256, lambda array: jax.numpy.asarray(array, jax.numpy.bfloat16)))


if __name__ == "__main__":
    main()

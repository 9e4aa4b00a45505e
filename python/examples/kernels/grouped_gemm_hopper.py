"""Products of many pairs of matrices of one shape on Hopper, such as those of experts: C[g] = A[g] · B[g]ᵀ, in one launch.

As in ``gemm_hopper.py`` a producer warp keeps a ring of stages full with TMA, and two warp groups multiply with wgmma; the maps have a third dimension, so
that rows of the next group are not read. ``python grouped_gemm_hopper.py`` compares the kernel with float64, on the GPU of PyTorch if there is one, else on the device of
JAX: NumPy has no bfloat16.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

import ptx_kernels

TEXT = """
#[ptx_module(arch = "sm_90a")]
mod kernels {
    const BLOCK_M: u32 = 128;
    const BLOCK_N: u32 = 128;
    const BLOCK_K: u32 = 64;
    const STAGES: u32 = 4;

    #[align(1024)]
    struct Stage {
        a: [[bf16; BLOCK_K]; BLOCK_M],
        b: [[bf16; BLOCK_K]; BLOCK_N],
    }

    struct Memory {
        stages: [Stage; STAGES],
        /// The bytes of a stage have come.
        full: [u64; STAGES],
        /// Both consumers have read it.
        empty: [u64; STAGES],
    }

    /// The current stage of a ring, and the parity of its round.
    struct Ring {
        stage: u32,
        phase: u32,
    }

    impl Ring {
        fn new() -> Ring {
            Ring { stage: 0, phase: 0 }
        }

        fn advance(&mut self) {
            self.stage += 1;
            if self.stage == STAGES {
                self.stage = 0;
                self.phase = self.phase ^ 1;
            }
        }
    }

    /// One thread requests all stages of the block's tile, each as soon as it is empty.
    fn load_tiles(a: TensorMap, b: TensorMap, memory: Shared<Memory>, place: [u32; 3], k: u32) {
        let (row, column, group): (u32, u32, u32) = (place[0], place[1], place[2]);
        let mut ring = Ring::new();
        let mut at: u32 = 0;
        while at < k {
            let (stage, full) = (memory.stages.at(ring.stage), memory.full.at(ring.stage));
            mbarrier::wait(memory.empty.at(ring.stage), ring.phase ^ 1); // passes at once in the first round
            mbarrier::arrive_expect(full, size_of::<Stage>());
            tma::load_3d(stage.a, a, [at, row, group], full);
            tma::load_3d(stage.b, b, [at, column, group], full);
            ring.advance();
            at += BLOCK_K;
        }
    }

    /// A warp group multiplies its 64 rows of each stage by all columns, and gives the stage back.
    fn multiply_tiles(sum: &mut [f32; BLOCK_N / 2], memory: Shared<Memory>, group: u32, k: u32) {
        let mut ring = Ring::new();
        let mut at: u32 = 0;
        while at < k {
            let stage = memory.stages.at(ring.stage);
            let a: u64 = wgmma::descriptor_k128(stage.a + group * (64 * 128));
            let b: u64 = wgmma::descriptor_k128(stage.b);
            mbarrier::wait(memory.full.at(ring.stage), ring.phase);
            let accumulate: pred = true;
            wgmma::fence();
            for step in 0..4 {
                let (a_step, b_step): (u64, u64) = (a + 2 * step, b + 2 * step);
                ptx! {
                    wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
                        {sum[..]}, a_step, b_step, accumulate, 1, 1, 0, 0;
                }
            }
            wgmma::commit();
            wgmma::wait::<0>();
            if (tid.x & 127) == 0 {
                mbarrier::arrive(memory.empty.at(ring.stage));
            }
            ring.advance();
            at += BLOCK_K;
        }
    }

    #[ptx_kernel(block = 384, min_blocks = 1, grid = (N.div_ceil(BLOCK_N), M.div_ceil(BLOCK_M), G), unsafe(requires()))]
    fn grouped_gemm(
        #[tma(box = [1, BLOCK_M, BLOCK_K], swizzle = 128)] a: Tile<bf16, (G, M, K)>,
        #[tma(box = [1, BLOCK_N, BLOCK_K], swizzle = 128)] b: Tile<bf16, (G, N, K)>,
        c: TileMut<f32, (G, M, N)>,
    ) {
        #[shared(dynamic)]
        let memory: Memory;
        if tid.x == 0 {
            for i in 0..STAGES {
                mbarrier::init(memory.full.at(i), 1);
                mbarrier::init(memory.empty.at(i), 2);
            }
            mbarrier::fence_init();
        }
        block::sync();

        let (row, column): (u32, u32) = (ctaid.y * BLOCK_M, ctaid.x * BLOCK_N);
        let role: u32 = cluster::warp_group();
        if role == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x == 0 {
                load_tiles(a_map, b_map, memory, [row, column, ctaid.z], K);
            }
        } else {
            wgmma::more_registers::<232>();
            let group: u32 = role - 1;
            let mut sum: [f32; BLOCK_N / 2] = [0.0; BLOCK_N / 2];
            multiply_tiles(&mut sum, memory, group, K);
            let first: u32 = row + group * 64;
            let rows: u32 = M - first.min(M);
            let columns: u32 = N - column;
            let before: u64 = wide(ctaid.z) * M + first as u64;
            let to: u64 = c + (before * (N as u64) + column as u64) * 4;
            epilogue::store_pairs(&sum, tid.x & 127, to, wide(N) * 4, rows, columns);
        }
    }
}
"""

grouped_gemm = ptx_kernels.kernel(TEXT)


def check(groups: int, m: int, n: int, k: int, move: Callable[[Any], Any]) -> float:
    """The largest error against float64. The operands are small integers, so that every sum is exact. ``move`` makes bfloat16 of an array, on a device."""
    values = np.random.default_rng(0)
    a, b = (values.integers(-3, 4, shape).astype(np.float32) for shape in ((groups, m, k), (groups, n, k)))
    c = grouped_gemm(move(a), move(b))
    expected = a.astype(np.float64) @ b.astype(np.float64).transpose(0, 2, 1)
    return float(np.abs(np.asarray(c.cpu() if hasattr(c, "cpu") else c) - expected).max())


def main() -> None:
    try:
        import torch

        if torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9:
            print(check(8, 1024, 2048, 1024, lambda array: torch.from_numpy(array).to("cuda", torch.bfloat16)))
            return
    except ImportError:
        pass
    import jax.numpy

    print(check(3, 160, 136, 200, lambda array: jax.numpy.asarray(array, jax.numpy.bfloat16)))


if __name__ == "__main__":
    main()

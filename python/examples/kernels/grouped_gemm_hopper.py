"""Products of many pairs of matrices of one shape on Hopper, such as those of experts: C[g] = A[g] · B[g], in one launch.

As in ``gemm_hopper.py`` a producer warp keeps a ring of stages full with TMA. The maps have a third dimension, so that rows of the next group are not read, and
the rows of B lie along N. ``python grouped_gemm_hopper.py`` compares the kernel with float64, on the GPU of PyTorch if there is one, else on the device of
JAX: NumPy has no bfloat16.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

import ptx_kernels

TEXT = """
#[ptx_module(arch = "sm_90a")]
mod kernels {
    /// The layout of B is `MN_MAJOR`, and both operands have a matrix for each group.
    fn policy(block_m: u32, block_n: u32, stages: u32) -> mainloop::Policy {
        mainloop::Policy { block_m, block_n, stages, cluster_m: 1, cluster_n: 1, major_a: 0, major_b: 1, groups: 2 }
    }

    struct Memory<const P: mainloop::Policy> {
        stages: [mainloop::Stage<P>; P.stages],
        barriers: pipeline::Barriers<{ P.stages }>,
    }

    /// A warp group has 64 rows of a tile; with few columns, as here, two blocks of 64 rows fit into a multiprocessor, and memory is what limits them.
    #[ptx_kernel(
        block = 128 + 2 * BLOCK_M,
        grid = (N.div_ceil(BLOCK_N), M.div_ceil(BLOCK_M), G),
        min_blocks = 1,
        instances = [(64, 64, 6)],
        unsafe(requires())
    )]
    fn grouped_gemm<const BLOCK_M: u32, const BLOCK_N: u32, const STAGES: u32>(
        #[tma(box = [1, BLOCK_M, 64], swizzle = 128)] a: Tile<bf16, (G, M, K)>,
        #[tma(box = [1, 64, 64], swizzle = 128)] b: Tile<bf16, (G, K, N)>,
        c: TileMut<f32, (G, M, N)>,
    ) {
        const P: mainloop::Policy = policy(BLOCK_M, BLOCK_N, STAGES);
        #[shared(dynamic)]
        let memory: Memory<P>;
        if tid.x == 0 {
            tma::prefetch(a_map);
            tma::prefetch(b_map);
            memory.barriers.init::<1, { P.consumers() }>();
        }
        block::sync();

        let (row, column): (u32, u32) = (ctaid.y * BLOCK_M, ctaid.x * BLOCK_N);
        let range = mainloop::KRange { begin: 0, end: K, backward: 0 };
        let warp_group: u32 = cluster::warp_group();
        if warp_group == 0 {
            if tid.x < 32 {
                let mut producer = mainloop::Producer::<P>::new(a_map, b_map, memory.stages, memory.barriers, 0, 0);
                producer.a.group = ctaid.z;
                producer.b.group = ctaid.z;
                producer.load_tile::<bf16>(row, column, &range);
            }
        } else {
            let mut consumer = mainloop::Consumer::<P>::new(memory.stages, memory.barriers, warp_group);
            let mut sums: [f32; P.accumulators()] = [0.0; P.accumulators()];
            consumer.multiply_tile::<bf16, 0>(&mut sums, &range);
            let first: u32 = row + (warp_group - 1) * 64;
            let rows: u32 = M - first.min(M);
            let before: u64 = wide(ctaid.z) * M + first as u64;
            let to: u64 = c + (before * (N as u64) + column as u64) * 4;
            epilogue::store_pairs(&sums, consumer.thread, to, wide(N) * 4, rows, N - column);
        }
    }
}
"""

grouped_gemm = ptx_kernels.kernel(TEXT)


def check(groups: int, m: int, n: int, k: int, move: Callable[[Any], Any]) -> float:
    """The largest error against float64. The operands are small integers, so that every sum is exact. ``move`` makes bfloat16 of an array, on a device."""
    values = np.random.default_rng(0)
    a, b = (values.integers(-3, 4, shape).astype(np.float32) for shape in ((groups, m, k), (groups, k, n)))
    c = grouped_gemm(move(a), move(b))
    expected = a.astype(np.float64) @ b.astype(np.float64)
    return float(np.abs(np.asarray(c.cpu() if hasattr(c, "cpu") else c) - expected).max())


def main() -> None:
    try:
        import torch

        if torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9:
            print(check(8, 2048, 64, 2048, lambda array: torch.from_numpy(array).to("cuda", torch.bfloat16)))
            return
    except ImportError:
        pass
    import jax.numpy

    print(check(3, 160, 136, 200, lambda array: jax.numpy.asarray(array, jax.numpy.bfloat16)))


if __name__ == "__main__":
    main()

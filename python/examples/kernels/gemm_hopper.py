"""C = A · Bᵀ on Hopper, as fast as it goes: clusters of two blocks share their loads, TMA stores bfloat16, and blocks stay for many tiles.

A producer warp keeps a ring of stages full with TMA, and two warp groups multiply with wgmma: ``mainloop`` of the helper library. While one warp group stores
its part of a tile, the other one multiplies. ``python gemm_hopper.py`` compares the kernel with float64, on the GPU of PyTorch if there is one, else on the
device of JAX: NumPy has no bfloat16.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

import ptx_kernels

TEXT = """
#[ptx_module(arch = "sm_90a")]
mod kernels {
    /// A tile has 128 × 256 elements of C, and two blocks of a cluster, one below the other, need the same rows of B: each loads half of them for both.
    const P: mainloop::Policy =
        mainloop::Policy { block_m: 128, block_n: 256, stages: 3, cluster_m: 2, cluster_n: 1, major_a: 0, major_b: 0, groups: 0 };
    /// Subtiles of C in flight, for each warp group.
    const BUFFERS: u32 = 4;

    struct Memory {
        stages: [mainloop::Stage<P>; P.stages],
        stores: [[epilogue::Subtile; BUFFERS]; P.consumers()],
        barriers: pipeline::Barriers<{ P.stages }>,
    }

    /// The tiles of a cluster, and the block's place in it. Clusters that run at the same time have neighboring tiles, which share rows in the cache.
    struct Work {
        tiles: scheduler::Raster,
        cluster: u32,
        clusters: u32,
        rank: u32,
    }

    /// The producer warp. Every other tile goes backward along K: the cache still holds the last stages of the tile before.
    fn load_tiles(a: TensorMap, b: TensorMap, memory: Shared<Memory>, work: &Work, k: u32) {
        let mut producer = mainloop::Producer::<P>::new(a, b, memory.stages, memory.barriers, work.rank, 0);
        let mut range = mainloop::KRange { begin: 0, end: k, backward: 0 };
        let mut tile: u32 = work.cluster;
        while tile < work.tiles.count() {
            let (row, column): (u32, u32) = work.tiles.tile(tile);
            producer.load_tile::<bf16>((2 * row + work.rank) * P.block_m, column * P.block_n + work.rank * (P.block_n / 2), &range);
            range.backward = 1 - range.backward;
            tile += work.clusters;
        }
        producer.pipeline.drain();
    }

    /// A warp group of consumers has 64 rows of each tile.
    fn multiply_tiles(c: TensorMap, memory: Shared<Memory>, work: &Work, warp_group: u32, k: u32) {
        let mut consumer = mainloop::Consumer::<P>::new(memory.stages, memory.barriers, warp_group);
        let store = epilogue::TileStore::new(memory.stores.at(warp_group - 1), consumer.thread, warp_group);
        let mut sums: [f32; P.accumulators()] = [0.0; P.accumulators()];
        let range = mainloop::KRange { begin: 0, end: k, backward: 0 };
        let mut tile: u32 = work.cluster;
        while tile < work.tiles.count() {
            consumer.multiply_tile::<bf16, 3>(&mut sums, &range);
            let (row, column): (u32, u32) = work.tiles.tile(tile);
            let first: u32 = (2 * row + work.rank) * P.block_m + (warp_group - 1) * 64;
            store.store_tile::<bf16, { P.block_n }>(&sums, c, first, column * P.block_n);
            tile += work.clusters;
        }
        store.finish();
    }

    /// 66 clusters fill the 132 multiprocessors of an H100 or H200.
    #[ptx_kernel(
        block = 384,
        cluster = 2,
        max_regs = 168,
        grid = 2 * (M.div_ceil(256) * N.div_ceil(256)).min(66),
        unsafe(requires(K > 0))
    )]
    fn gemm(
        #[tma(box = [128, 64], swizzle = 128, promotion = 128)] a: Tile<bf16, (M, K)>,
        #[tma(box = [128, 64], swizzle = 128, promotion = 128)] b: Tile<bf16, (N, K)>,
        #[tma(box = [64, 64], swizzle = 128)] c: TileMut<bf16, (M, N)>,
    ) {
        #[shared(dynamic)]
        let memory: Memory;
        if tid.x == 0 {
            tma::prefetch(a_map);
            tma::prefetch(b_map);
            tma::prefetch(c_map);
            memory.barriers.init::<1, { P.consumers() * P.cluster() }>();
        }
        warp::sync();
        cluster::sync();
        let tiles = scheduler::Raster::covering::<{ 2 * P.block_m }, { P.block_n }>(M, N, 4, 8);
        let work = Work { tiles, cluster: ctaid.x / 2, clusters: nctaid.x / 2, rank: cluster::rank() };
        let warp_group: u32 = cluster::warp_group();
        if warp_group == 0 {
            wgmma::fewer_registers::<40>();
            if tid.x < 32 {
                load_tiles(a_map, b_map, memory, &work, K);
            }
        } else {
            wgmma::more_registers::<232>();
            multiply_tiles(c_map, memory, &work, warp_group, K);
        }
    }
}
"""

gemm = ptx_kernels.kernel(TEXT)


def rounded(values: Any) -> Any:
    """The nearest bfloat16 of numbers that float32 holds, as float64."""
    bits = values.astype(np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(np.float64)


def check(m: int, n: int, k: int, move: Callable[[Any], Any]) -> float:
    """The largest error against float64, rounded once. The operands are small integers, so that every sum is exact. ``move`` makes bfloat16 of an array, on a device."""
    values = np.random.default_rng(0)
    a, b = (values.integers(-3, 4, shape).astype(np.float32) for shape in ((m, k), (n, k)))
    c = gemm(move(a), move(b))
    found = np.asarray(c.float().cpu() if hasattr(c, "cpu") else c).astype(np.float64)
    return float(np.abs(found - rounded(a.astype(np.float64) @ b.astype(np.float64).T)).max())


def main() -> None:
    try:
        import torch

        if torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9:
            print(check(4096, 4096, 4096, lambda array: torch.from_numpy(array).to("cuda", torch.bfloat16)))
            return
    except ImportError:
        pass
    import jax.numpy

    print(check(160, 136, 400, lambda array: jax.numpy.asarray(array, jax.numpy.bfloat16)))


if __name__ == "__main__":
    main()

"""Attention of one head on Hopper: O = softmax(scale · Q · Kᵀ) · V, in one pass over the keys, with heads of up to 64 elements.

A producer thread keeps tiles of keys and values coming with TMA. A warp group multiplies with wgmma, and its probabilities stay in registers between the two
products. ``python attention_hopper.py`` compares the kernel with float64, on the GPU of PyTorch if there is one, else on the device of JAX: NumPy has no
bfloat16.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

import ptx_kernels

TEXT = """
#[ptx_module(arch = "sm_90a")]
mod kernels {
    const KEYS: u32 = 128;
    const STAGES: u32 = 2;
    const LOG2_E: f32 = 1.4426950408889634;

    /// Rows of 128 bytes; heads with fewer elements leave zeros behind them.
    #[align(1024)]
    struct Stage {
        k: [[bf16; 64]; KEYS],
        v: [[bf16; 64]; KEYS],
    }

    #[align(1024)]
    struct Queries {
        rows: [[bf16; 64]; 64],
    }

    struct Memory {
        stages: [Stage; STAGES],
        q: Queries,
        q_full: mbarrier::Barrier,
        barriers: pipeline::Barriers<STAGES>,
    }

    fn load_tiles(k: TensorMap, v: TensorMap, memory: Shared<Memory>, keys: u32) {
        let mut pipeline = pipeline::Pipeline::<STAGES>::new(memory.barriers);
        let mut at: u32 = 0;
        while at < keys {
            pipeline.wait_empty();
            let (stage, full) = (memory.stages.at(pipeline.stage), pipeline.full());
            full.arrive_expect(size_of::<Stage>());
            tma::load_2d(stage.k, k, 0, at, full);
            tma::load_2d(stage.v, v, 0, at, full);
            pipeline.advance();
            at += KEYS;
        }
    }

    /// Of this thread's two rows, 8 apart: the largest score so far, the sum of the probabilities, and those times the values.
    struct Rows<const D: u32> {
        top: [f32; 2],
        sum: [f32; 2],
        out: [f32; D / 2],
    }

    impl<const D: u32> Rows<D> {
        fn new() -> Rows<D> {
            Rows { top: [-1e30; 2], sum: [0.0; 2], out: [0.0; D / 2] }
        }

        /// Scores become probabilities; what there is already is scaled to the new largest score.
        fn soften(&mut self, s: &mut [f32; KEYS / 2], exponent: f32) {
            for half in 0..2 {
                const FIRST: u32 = 2 * half;
                let before: f32 = self.top[half];
                let mut top: f32 = before;
                for i in 0..KEYS / 8 {
                    ptx! {
                        max.f32 top, top, s[4 * i + FIRST];
                        max.f32 top, top, s[4 * i + FIRST + 1];
                    }
                }
                top = fragment::quad_max(top);
                let mut factor: f32 = (before - top) * exponent;
                let shift: f32 = 0.0 - top * exponent;
                ptx! { ex2.approx.ftz.f32 factor, factor; }
                let mut sum: f32 = self.sum[half] * factor;
                for i in 0..KEYS / 4 {
                    const AT: u32 = i / 2 * 4 + i % 2 + FIRST;
                    ptx! {
                        fma.rn.f32 s[AT], s[AT], exponent, shift;
                        ex2.approx.ftz.f32 s[AT], s[AT];
                    }
                    sum += s[AT];
                }
                for i in 0..D / 4 {
                    self.out[i / 2 * 4 + i % 2 + FIRST] *= factor;
                }
                self.top[half] = top;
                self.sum[half] = sum;
            }
        }

        fn add_values(&mut self, s: &[f32; KEYS / 2], v: u64) {
            let p: [[b32; 4]; KEYS / 16];
            for i in 0..KEYS / 16 {
                for word in 0..4 {
                    ptx! { cvt.rn.bf16x2.f32 p[i][word], s[8 * i + 2 * word + 1], s[8 * i + 2 * word]; }
                }
            }
            let all: pred = true;
            wgmma::fence();
            for i in 0..KEYS / 16 {
                wgmma::multiply16_registers::<bf16, D, 0, 1>(&mut self.out, p[i], v + (128 * i) as u64, all);
            }
            wgmma::commit();
            wgmma::wait::<0>();
        }
    }

    fn scores<const D: u32>(s: &mut [f32; KEYS / 2], q: u64, k: u64) {
        let mut accumulate: pred = false;
        wgmma::fence();
        for step in 0..D / 16 {
            wgmma::multiply16::<bf16, KEYS, 0, 0, 0>(s, q + (2 * step) as u64, k + (2 * step) as u64, accumulate);
            accumulate = true;
        }
        wgmma::commit();
        wgmma::wait::<0>();
    }

    /// Keys from `count` on have no weight.
    fn mask(s: &mut [f32; KEYS / 2], count: u32) {
        for i in 0..KEYS / 2 {
            const COLUMN: u32 = i / 4 * 8 + i % 2;
            let outside: pred = laneid % 4 * 2 + COLUMN >= count;
            ptx! { @outside mov.f32 s[i], -1e30; }
        }
    }

    #[ptx_kernel(
        block = 256,
        grid = M.div_ceil(64),
        instances = [64],
        unsafe(requires(WIDTH == D, D == 16 || D == 32 || D == 64, N > 0))
    )]
    fn attention<const D: u32>(
        #[tma(box = [64, 64], swizzle = 128)] q: Tile<bf16, (M, WIDTH)>,
        #[tma(box = [KEYS, 64], swizzle = 128)] k: Tile<bf16, (N, WIDTH)>,
        #[tma(box = [KEYS, 64], swizzle = 128)] v: Tile<bf16, (N, WIDTH)>,
        scale: f32,
        out: TileMut<f32, (M, WIDTH)>,
    ) {
        #[shared(dynamic)]
        let memory: Memory;
        let row: u32 = ctaid.x * 64;
        if tid.x == 0 {
            memory.q_full.init(1);
            memory.barriers.init::<1, 1>();
            memory.q_full.arrive_expect(size_of::<Queries>());
            tma::load_2d(memory.q, q_map, 0, row, memory.q_full);
        }
        block::sync();
        if cluster::warp_group() == 0 {
            if tid.x == 0 {
                load_tiles(k_map, v_map, memory, N);
            }
        } else {
            let mut pipeline = pipeline::Pipeline::<STAGES>::new(memory.barriers);
            let mut rows = Rows::<D>::new();
            let (thread, exponent): (u32, f32) = (tid.x & 127, scale * LOG2_E);
            let q: u64 = wgmma::descriptor_k128(memory.q);
            memory.q_full.wait(0);
            let mut s: [f32; KEYS / 2] = [0.0; KEYS / 2];
            let mut at: u32 = 0;
            while at < N {
                let stage = memory.stages.at(pipeline.stage);
                pipeline.wait_full();
                scores::<D>(&mut s, q, wgmma::descriptor_k128(stage.k));
                if at + KEYS > N {
                    mask(&mut s, N - at);
                }
                rows.soften(&mut s, exponent);
                rows.add_values(&s, wgmma::descriptor_mn128::<8192>(stage.v));
                pipeline.release::<1>(pipeline.stage, thread);
                pipeline.advance();
                at += KEYS;
            }
            for half in 0..2 {
                let mut inverse: f32 = fragment::quad_sum(rows.sum[half]);
                ptx! { rcp.rn.f32 inverse, inverse; }
                for i in 0..D / 4 {
                    rows.out[i / 2 * 4 + i % 2 + 2 * half] *= inverse;
                }
            }
            let to: u64 = out + wide(row) * (4 * D);
            epilogue::store_pairs(&rows.out, thread, to, (4 * D) as u64, M - row, D);
        }
    }
}
"""

attention = ptx_kernels.kernel(TEXT)


def check(queries: int, keys: int, head: int, move: Callable[[Any], Any]) -> float:
    """The largest error against float64, relative to the largest value. ``move`` makes bfloat16 of an array, on a device."""
    values = np.random.default_rng(0)
    # Multiples of 1/8 are exact in bfloat16.
    q, k, v = (np.round(8 * values.standard_normal((rows, head)).clip(-4, 4)).astype(np.float32) / 8 for rows in (queries, keys, keys))
    out = attention.instance(D=head)(move(q), move(k), move(v), scale=head**-0.5)
    scores = np.exp(q.astype(np.float64) @ k.astype(np.float64).T * head**-0.5)
    expected = scores / scores.sum(axis=1, keepdims=True) @ v.astype(np.float64)
    return float(np.abs(np.asarray(out.cpu() if hasattr(out, "cpu") else out) - expected).max() / np.abs(expected).max())


def main() -> None:
    try:
        import torch

        if torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9:
            print(check(2048, 2048, 64, lambda array: torch.from_numpy(array).to("cuda", torch.bfloat16)))
            return
    except ImportError:
        pass
    import jax.numpy

    print(check(72, 200, 64, lambda array: jax.numpy.asarray(array, jax.numpy.bfloat16)))


if __name__ == "__main__":
    main()

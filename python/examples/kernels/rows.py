"""Row-wise kernels in the kernel language: RMSNorm, LayerNorm, softmax, SwiGLU and FlashNorm (arXiv 2407.09577), for Ampere and Hopper.

A block has a row, and a thread PARTS runs of EACH neighbors of it, a block apart. ``python rows.py`` compares each with float64, on the GPU of PyTorch if
there is one, else on the CPU device.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

import ptx_kernels

TEXT = """
#[ptx_module(arch = "sm_80")]
mod rows {
    const LOG2_E: f32 = 1.4426950408889634;

    /// This thread's part of a row: `PARTS` runs of `EACH` neighbors, a whole block apart.
    fn read_row<T, const BLOCK: u32, const EACH: u32, const PARTS: u32>(from: Global<T>) -> [[f32; EACH]; PARTS] {
        let values: [[f32; EACH]; PARTS];
        for part in 0..PARTS {
            values[part] = vector::read::<T, EACH>(from + (part * (BLOCK * EACH * size_of::<T>())) as u64);
        }
        values
    }

    fn write_part<T, const BLOCK: u32, const EACH: u32, const PART: u32>(to: GlobalMut<T>, values: [f32; EACH]) {
        let there: pred = true;
        vector::store::<T, EACH>(to + (PART * (BLOCK * EACH * size_of::<T>())) as u64, vector::pack::<T, EACH>(values), there);
    }

    /// Σ (x - center)² of a row, in every thread.
    fn sum_of_squares<const BLOCK: u32, const EACH: u32, const PARTS: u32>(values: &[[f32; EACH]; PARTS], center: f32) -> f32 {
        let mut sum: f32 = 0.0;
        for part in 0..PARTS {
            for i in 0..EACH {
                let off: f32 = values[part][i] - center;
                ptx! { fma.rn.f32 sum, off, off, sum; }
            }
        }
        block::reduce_sum::<{ BLOCK / 32 }, f32>(sum)
    }

    fn sum<const BLOCK: u32, const EACH: u32, const PARTS: u32>(values: &[[f32; EACH]; PARTS]) -> f32 {
        let mut sum: f32 = 0.0;
        for part in 0..PARTS {
            for i in 0..EACH {
                sum += values[part][i];
            }
        }
        block::reduce_sum::<{ BLOCK / 32 }, f32>(sum)
    }

    /// sum / columns
    fn mean(sum: f32, columns: u32) -> f32 {
        let (mean, count): f32;
        ptx! {
            cvt.rn.f32.u32 count, columns;
            div.rn.f32 mean, sum, count;
        }
        mean
    }

    /// 1 / sqrt(variance + epsilon)
    fn inverse_deviation(variance: f32, epsilon: f32) -> f32 {
        let mut inverse: f32 = variance + epsilon;
        ptx! { rsqrt.approx.f32 inverse, inverse; }
        inverse
    }

    /// x · weight / sqrt(mean(x²) + epsilon)
    #[ptx_kernel(block = BLOCK, grid = R, instances = [(f32, 256, 4, 1)], unsafe(requires(C == BLOCK * EACH * PARTS)))]
    fn rms_norm<T, const BLOCK: u32, const EACH: u32, const PARTS: u32>(
        x: Tile<T, (R, C)>, weight: Tile<T, (C,)>, epsilon: f32, out: TileMut<T, (R, C)>,
    ) {
        let (row, column): (u32, u32) = (ctaid.x, tid.x * EACH);
        let mut v: [[f32; EACH]; PARTS] = read_row::<T, BLOCK, EACH, PARTS>(x.at(row, column));
        let square: f32 = mean(sum_of_squares::<BLOCK, EACH, PARTS>(&v, 0.0), C);
        let inverse: f32 = inverse_deviation(square, epsilon);
        let w: [[f32; EACH]; PARTS] = read_row::<T, BLOCK, EACH, PARTS>(weight.at(column));
        for part in 0..PARTS {
            for i in 0..EACH {
                v[part][i] = v[part][i] * inverse * w[part][i];
            }
            write_part::<T, BLOCK, EACH, part>(out.at(row, column), v[part]);
        }
    }

    /// (x - mean) · weight / sqrt(variance + epsilon) + bias
    #[ptx_kernel(block = BLOCK, grid = R, instances = [(f32, 256, 4, 1)], unsafe(requires(C == BLOCK * EACH * PARTS)))]
    fn layer_norm<T, const BLOCK: u32, const EACH: u32, const PARTS: u32>(
        x: Tile<T, (R, C)>, weight: Tile<T, (C,)>, bias: Tile<T, (C,)>, epsilon: f32, out: TileMut<T, (R, C)>,
    ) {
        let (row, column): (u32, u32) = (ctaid.x, tid.x * EACH);
        let mut v: [[f32; EACH]; PARTS] = read_row::<T, BLOCK, EACH, PARTS>(x.at(row, column));
        let middle: f32 = mean(sum::<BLOCK, EACH, PARTS>(&v), C);
        let variance: f32 = mean(sum_of_squares::<BLOCK, EACH, PARTS>(&v, middle), C);
        let inverse: f32 = inverse_deviation(variance, epsilon);
        let w: [[f32; EACH]; PARTS] = read_row::<T, BLOCK, EACH, PARTS>(weight.at(column));
        let b: [[f32; EACH]; PARTS] = read_row::<T, BLOCK, EACH, PARTS>(bias.at(column));
        for part in 0..PARTS {
            for i in 0..EACH {
                v[part][i] = (v[part][i] - middle) * inverse * w[part][i] + b[part][i];
            }
            write_part::<T, BLOCK, EACH, part>(out.at(row, column), v[part]);
        }
    }

    /// FlashNorm: x / sqrt(mean(x²) + epsilon). The weights are part of the matrix that follows, by `fold_weights`.
    #[ptx_kernel(block = BLOCK, grid = R, instances = [(f32, 256, 4, 1)], unsafe(requires(C == BLOCK * EACH * PARTS)))]
    fn flash_norm<T, const BLOCK: u32, const EACH: u32, const PARTS: u32>(x: Tile<T, (R, C)>, epsilon: f32, out: TileMut<T, (R, C)>) {
        let (row, column): (u32, u32) = (ctaid.x, tid.x * EACH);
        let mut v: [[f32; EACH]; PARTS] = read_row::<T, BLOCK, EACH, PARTS>(x.at(row, column));
        let square: f32 = mean(sum_of_squares::<BLOCK, EACH, PARTS>(&v, 0.0), C);
        let inverse: f32 = inverse_deviation(square, epsilon);
        for part in 0..PARTS {
            for i in 0..EACH {
                v[part][i] *= inverse;
            }
            write_part::<T, BLOCK, EACH, part>(out.at(row, column), v[part]);
        }
    }

    /// matrix[r][c] · weight[r]
    #[ptx_kernel(block = BLOCK, grid = R, instances = [(f32, 256, 4, 1)], unsafe(requires(C == BLOCK * EACH * PARTS)))]
    fn fold_weights<T, const BLOCK: u32, const EACH: u32, const PARTS: u32>(
        matrix: Tile<T, (R, C)>, weight: Tile<f32, (R,)>, out: TileMut<T, (R, C)>,
    ) {
        let (row, column): (u32, u32) = (ctaid.x, tid.x * EACH);
        let mut v: [[f32; EACH]; PARTS] = read_row::<T, BLOCK, EACH, PARTS>(matrix.at(row, column));
        let (w, from): (f32, Global<f32>);
        from = weight.at(row);
        ptx! { ld.global.nc.f32 w, [from]; }
        for part in 0..PARTS {
            for i in 0..EACH {
                v[part][i] *= w;
            }
            write_part::<T, BLOCK, EACH, part>(out.at(row, column), v[part]);
        }
    }

    /// The base of exponentials where all elements are -∞: -∞ minus it is still -∞.
    const LEAST: f32 = f32::MIN;

    /// exp(x)
    fn power(x: f32) -> f32 {
        let mut y: f32 = x * LOG2_E;
        ptx! { ex2.approx.ftz.f32 y, y; }
        y
    }

    /// The largest base of all warps, and the sum of their sums of exponentials, which are rescaled to it.
    fn merge<const WARPS: u32>(base: f32, sum: f32) -> (f32, f32) {
        #[shared(align = 8)]
        let pairs: [[f32; 2]; WARPS];
        if laneid == 0 {
            let own: u32 = pairs + tid.x / 32 * 8;
            ptx! { st.shared.v2.f32 [own], {base, sum}; }
        }
        block::sync();
        let (bases, sums): [f32; WARPS];
        let (mut top, mut total): (f32, f32) = (LEAST, 0.0);
        for warp in 0..WARPS {
            ptx! {
                ld.shared.v2.f32 {bases[warp], sums[warp]}, [pairs + warp * 8];
                max.f32 top, top, bases[warp];
            }
        }
        for warp in 0..WARPS {
            total += sums[warp] * power(bases[warp] - top);
        }
        (top, total)
    }

    /// exp(x) / sum of exp(x). A warp takes its largest element as the base of its exponentials, so that the warps exchange numbers once. With plain stores it is
    /// 1 % faster than with `st.global.cs` on an H200 that runs it again and again.
    #[ptx_kernel(block = BLOCK, grid = R, instances = [(f32, 256, 4, 1)], unsafe(requires(C == BLOCK * EACH * PARTS)))]
    fn softmax<T, const BLOCK: u32, const EACH: u32, const PARTS: u32>(x: Tile<T, (R, C)>, out: TileMut<T, (R, C)>) {
        let (row, column): (u32, u32) = (ctaid.x, tid.x * EACH);
        let mut v: [[f32; EACH]; PARTS] = read_row::<T, BLOCK, EACH, PARTS>(x.at(row, column));
        let (mut base, mut sum): (f32, f32) = (LEAST, 0.0);
        for part in 0..PARTS {
            for i in 0..EACH {
                ptx! { max.f32 base, base, v[part][i]; }
            }
        }
        base = warp::reduce_max(base);
        for part in 0..PARTS {
            for i in 0..EACH {
                v[part][i] = power(v[part][i] - base);
                sum += v[part][i];
            }
        }
        let (top, total): (f32, f32) = merge::<{ BLOCK / 32 }>(base, warp::reduce_sum(sum));
        let mut factor: f32 = total;
        ptx! { rcp.rn.f32 factor, factor; }
        factor *= power(base - top);
        let to: GlobalMut<T> = out.at(row, column);
        for part in 0..PARTS {
            for i in 0..EACH {
                v[part][i] *= factor;
            }
            vector::write::<T, EACH>(to + (part * (BLOCK * EACH * size_of::<T>())) as u64, v[part]);
        }
    }

    /// silu(gate) · up, where silu(x) = x / (1 + exp(-x))
    #[ptx_kernel(block = BLOCK, grid = R, instances = [(f32, 256, 4, 1)], unsafe(requires(C == BLOCK * EACH * PARTS)))]
    fn swiglu<T, const BLOCK: u32, const EACH: u32, const PARTS: u32>(
        gate: Tile<T, (R, C)>, up: Tile<T, (R, C)>, out: TileMut<T, (R, C)>,
    ) {
        let (row, column): (u32, u32) = (ctaid.x, tid.x * EACH);
        let mut v: [[f32; EACH]; PARTS] = read_row::<T, BLOCK, EACH, PARTS>(gate.at(row, column));
        let u: [[f32; EACH]; PARTS] = read_row::<T, BLOCK, EACH, PARTS>(up.at(row, column));
        for part in 0..PARTS {
            for i in 0..EACH {
                let mut divisor: f32 = v[part][i] * (0.0 - LOG2_E);
                ptx! { ex2.approx.ftz.f32 divisor, divisor; }
                divisor += 1.0;
                ptx! { rcp.rn.f32 divisor, divisor; }
                v[part][i] = v[part][i] * divisor * u[part][i];
            }
            write_part::<T, BLOCK, EACH, part>(out.at(row, column), v[part]);
        }
    }
}
"""

EPSILON = 1e-6


def _rms_norm(x: Any, weight: Any) -> Any:
    return x * weight / np.sqrt((x**2).mean(axis=1, keepdims=True) + EPSILON)


def _layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + EPSILON) * weight + bias


def _softmax(x: Any) -> Any:
    power = np.exp(x - x.max(axis=1, keepdims=True))
    return power / power.sum(axis=1, keepdims=True)


def _flash_norm(x: Any) -> Any:
    return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + EPSILON)


def _fold_weights(matrix: Any, weight: Any) -> Any:
    return matrix * weight[:, None]


def _swiglu(gate: Any, up: Any) -> Any:
    return gate / (1 + np.exp(-gate)) * up


# The shapes of the inputs, by rows and columns, and the reference.
CASES: dict[str, tuple[Callable[[int, int], list[tuple[int, ...]]], Callable[..., Any]]] = {
    "rms_norm": (lambda rows, columns: [(rows, columns), (columns,)], _rms_norm),
    "layer_norm": (lambda rows, columns: [(rows, columns), (columns,), (columns,)], _layer_norm),
    "flash_norm": (lambda rows, columns: [(rows, columns)], _flash_norm),
    "fold_weights": (lambda rows, columns: [(rows, columns), (rows,)], _fold_weights),
    "softmax": (lambda rows, columns: [(rows, columns)], _softmax),
    "swiglu": (lambda rows, columns: [(rows, columns), (rows, columns)], _swiglu),
}


def kernels(target: str = "sm_80") -> ptx_kernels.Module:
    """The kernels for a target: ``sm_80``, ``sm_90a``."""
    return ptx_kernels.kernels(TEXT, target=target)


def instance(columns: int, each: int = 4) -> dict[str, int]:
    """The constants for rows of so many elements: at most 256 threads, which read 16 bytes at a time."""
    parts = max(1, columns // (256 * each))
    return {"BLOCK": columns // (each * parts), "EACH": each, "PARTS": parts}


def check(target: str, rows: int, columns: int, move: Callable[[Any], Any] = lambda array: array) -> dict[str, float]:
    """The largest error of each kernel against float64, relative to the largest value. ``move`` brings an array to a device."""
    values = np.random.default_rng(0)
    found = {}
    for kernel in kernels(target):
        shapes, reference = CASES[kernel.name]
        inputs = [values.standard_normal(shape).astype(np.float32) for shape in shapes(rows, columns)]
        options = {"epsilon": EPSILON} if "norm" in kernel.name else {}
        out = kernel.instance(**instance(columns))(*map(move, inputs), **options)
        expected = reference(*(array.astype(np.float64) for array in inputs))
        found[kernel.name] = float(np.abs(np.asarray(out.cpu() if hasattr(out, "cpu") else out) - expected).max() / np.abs(expected).max())
    return found


def main() -> None:
    try:
        import torch

        if torch.cuda.is_available():
            print(check("sm_80", 2048, 4096, lambda array: torch.from_numpy(array).cuda()))
            return
    except ImportError:
        pass
    print(check("sm_80", 4, 512))


if __name__ == "__main__":
    main()

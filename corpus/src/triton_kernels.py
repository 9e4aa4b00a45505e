"""Kernels for Triton: softmax of a row, a tiled matrix product, and a dropout with Philox."""

import triton
import triton.language as tl


@triton.jit
def softmax(out, x, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + at, mask=at < n, other=-float("inf"))
    value = tl.exp(value - tl.max(value, axis=0))
    tl.store(out + row * stride + at, value / tl.sum(value, axis=0), mask=at < n)


@triton.jit
def matmul(a, b, c, k, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, 32)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for step in range(0, k, 32):
        left = tl.load(a + rows[:, None] * k + (step + inner)[None, :])
        right = tl.load(b + (step + inner)[:, None] * 1024 + cols[None, :])
        acc = tl.dot(left, right, acc)
    tl.store(c + rows[:, None] * 1024 + cols[None, :], acc.to(tl.bfloat16))


@triton.jit
def dropout(out, x, n, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, at) > 0.5
    tl.store(out + at, tl.where(keep, 2.0 * tl.load(x + at, mask=at < n), 0.0), mask=at < n)
    tl.device_assert(n > 0)


SIGNATURES = {
    "softmax": ({"out": "*fp32", "x": "*fp32", "stride": "i32", "n": "i32", "BLOCK": "constexpr"}, 1024),
    "matmul": ({"a": "*bf16", "b": "*bf16", "c": "*bf16", "k": "i32", "BLOCK": "constexpr"}, 64),
    "dropout": ({"out": "*fp32", "x": "*fp32", "n": "i32", "seed": "i32", "BLOCK": "constexpr"}, 512),
}


def main(kernel, arch, out):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature, block = SIGNATURES[kernel]
    source = ASTSource(fn=globals()[kernel], signature=signature, constexprs={"BLOCK": block})
    compiled = triton.compile(source, target=GPUTarget("cuda", int(arch), 32))
    with open(out, "w") as file:
        file.write(compiled.asm["ptx"])


if __name__ == "__main__":
    import sys

    main(*sys.argv[1:])

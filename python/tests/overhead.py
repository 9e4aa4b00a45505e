"""Host time of a call in microseconds, medians, and its ratio to torch.add(out=), beside a Triton kernel and pyptx in the same process. Needs a GPU and
PyTorch."""

from __future__ import annotations

import os
import statistics
import time
from typing import Any, Callable

import torch

import ptx_kernels


ADD = "torch.add(out=)"
# Functions of PyTorch, each with ours.
BESIDE = {
    "torch.nn.functional.rms_norm": "ptx_kernels.rms_norm(x, w)",
    "torch.nn.functional.rms_norm with gradients": "ptx_kernels.rms_norm with gradients, forward",
}


def microseconds(call: Callable[[], Any], rounds: int = 4, calls: int = 50) -> float:
    """The median over rounds of the mean time of a call; the GPU is idle when a round begins."""
    for _ in range(calls):
        call()
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls * 1e6)
    torch.cuda.synchronize()
    return statistics.median(times)


def kernel_alone(x: Any, out: Any) -> Callable[[], Any] | None:
    """A kernel of the tests' library that is exported without a function around it, and launched without options."""
    if "PTX_TEST_LIBRARY" not in os.environ:
        return None
    direct, vector, result = ptx_kernels.load(os.environ["PTX_TEST_LIBRARY"]).add_one.direct, x.view(-1), out.view(-1)
    return lambda: direct(vector, result)


def triton_add() -> Callable[[], Any] | None:
    """A Triton kernel that adds two vectors."""
    try:
        import triton_kernel
    except ImportError:
        return None
    return triton_kernel.make()


def pyptx_rms_norm(x: Any, w: Any) -> Callable[[], Any] | None:
    """RMSNorm of pyptx's examples, which allocates its result. The first call compiles pyptx's extension of PyTorch, for half a minute."""
    try:
        from pyptx.examples.hopper.rms_norm import build_rms_norm

        kernel = build_rms_norm(*x.shape)
        torch.testing.assert_close(kernel(x, w), torch.nn.functional.rms_norm(x, w.shape, w, 1e-6), rtol=1e-4, atol=1e-4)
    except Exception as error:  # It is one rival of several, and depends on what is installed.
        print(f"pyptx: {type(error).__name__}: {error}")
        return None
    return lambda: kernel(x, w)


def own_kernel(x: Any, out: Any) -> dict[str, Callable[[], Any]]:
    """The calls of a kernel from text."""
    from test_kernels import SCALE, SQUARE

    x, out = x.view(-1), out.view(-1)
    scale, both = ptx_kernels.kernel(SCALE), ptx_kernels.kernels(SQUARE)
    square = ptx_kernels.differentiable(both.square, both.square_grad)
    name, grad = scale.function(x, 2.0).operator, x.clone().requires_grad_()
    operator, into = (getattr(torch.ops.ptx_jit, name + suffix).default for suffix in ("", "_out"))
    return {
        "own kernel: direct call": lambda: scale.direct(x, 2.0, out),
        "own kernel, out=": lambda: scale(x, 2.0, out=out),
        "own kernel": lambda: scale(x, 2.0),
        "own kernel with gradients, forward": lambda: square(grad),
        "own kernel: operator, out=": lambda: into(x, 2.0, out),
        "own kernel: operator that allocates": lambda: operator(x, 2.0),
    }


class Recorded(torch.autograd.Function):
    """A function that PyTorch records, and that only makes its result."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]


def empty_operator(*_: Any) -> None:
    """What an operator does that does nothing."""


def floors(x: Any, out: Any) -> dict[str, Callable[[], Any]]:
    """What PyTorch takes around a function of Python: the time that a call through its recorder or its dispatcher has at least."""
    library = torch.library.Library("overhead", "DEF")
    library.define("nothing(Tensor x, float factor, Tensor(a!) out) -> ()")
    library.impl("nothing", empty_operator, "Autograd")
    grad, nothing, record = x.clone().requires_grad_(), torch.ops.overhead.nothing.default, super(torch.autograd.Function, Recorded).apply
    kept.append(library)
    return {
        "PyTorch's recorder around torch.empty_like": lambda: record(grad),
        "PyTorch's dispatcher around nothing, out=": lambda: nothing(x, 2.0, out),
    }


kept: list[Any] = []


def main() -> None:
    from ptx_kernels import _torch

    x, w = torch.randn(16, 64, device="cuda"), torch.ones(64, device="cuda")
    out, y = torch.empty_like(x), torch.randn_like(x)
    library = ptx_kernels.library()
    direct, operators = library.rms_norm.direct, _torch.operators(library.rms_norm)
    silu = library.silu.direct
    grad = x.clone().requires_grad_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(1000):
            direct(x, w, out, 1e-6)
    rows: dict[str, Callable[[], Any] | None] = {
        "direct call, out=": lambda: direct(x, w, out, 1e-6),
        "direct call of silu, out=": lambda: silu(x, out),
        "direct call of a kernel alone, out=": kernel_alone(x, out),
        "torch.library operator, out=": lambda: operators.op_out(x, w, out, 1e-6),
        "torch.library operator that allocates": lambda: operators.op(x, w, 1e-6),
        "ptx_kernels.rms_norm(x, w, out=out)": lambda: ptx_kernels.rms_norm(x, w, out=out),
        "ptx_kernels.rms_norm(x, w)": lambda: ptx_kernels.rms_norm(x, w),
        "ptx_kernels.rms_norm with gradients, forward": lambda: ptx_kernels.rms_norm(grad, w),
        **own_kernel(x, out),
        ADD: lambda: torch.add(x, y, out=out),
        "torch.nn.functional.rms_norm": lambda: torch.nn.functional.rms_norm(x, (64,), w, 1e-6),
        "torch.nn.functional.rms_norm with gradients": lambda: torch.nn.functional.rms_norm(grad, (64,), w, 1e-6),
        "torch.empty_like": lambda: torch.empty_like(x),
        **floors(x, out),
        "Triton kernel": triton_add(),
        "pyptx kernel": pyptx_rms_norm(x, w),
    }
    present = {name: call for name, call in rows.items() if call is not None}
    # In turns, and ratios of the same turn: the clock of the host changes within a run.
    turns = [{name: microseconds(call) for name, call in present.items()} for _ in range(15)]
    for name in present:
        median, ratio = (statistics.median(found) for found in zip(*((turn[name], turn[name] / turn[ADD]) for turn in turns)))
        print(f"{name:48} {median:7.2f} {ratio:7.2f}", flush=True)
    for theirs, ours in BESIDE.items():
        print(f"{'ours beside ' + theirs:60} {statistics.median(turn[ours] / turn[theirs] for turn in turns):.2f}", flush=True)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(10):
        graph.replay()
    torch.cuda.synchronize()
    print(f"{'a kernel of a CUDA graph of 1000':48} {(time.perf_counter() - start) / 10_000 * 1e6:7.2f}")


if __name__ == "__main__":
    main()

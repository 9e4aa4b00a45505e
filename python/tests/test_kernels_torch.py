"""Kernels from text with PyTorch: eager, torch.compile, gradients, the watched CPU device."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from conftest import has, has_gpu, needs_gpu
from test_kernels import ADD, PTX, SAXPY, SCALE, SIGNATURE, SQUARE, WIDE

if not has("torch"):
    pytest.skip("PyTorch is not installed", allow_module_level=True)

import torch  # noqa: E402

import ptx_kernels  # noqa: E402

DEVICES = ["cpu", *(["cuda"] if has_gpu() else [])]

@pytest.mark.parametrize("device", DEVICES)
def test_eager(device: str) -> None:
    scale, x = ptx_kernels.kernel(SCALE), torch.randn(300, device=device)
    torch.testing.assert_close(scale(x, 3.0), 3 * x)
    out = torch.empty_like(x)
    assert scale(x, 3.0, out=out) is out
    torch.testing.assert_close(out, 3 * x)
    y = torch.ones_like(x)
    assert ptx_kernels.kernel(SAXPY)(2.0, x, y, 300) is y
    torch.testing.assert_close(y, 2 * x + 1)
    scale.direct(x, 4.0, out)
    torch.testing.assert_close(out, 4 * x)
    add = ptx_kernels.kernel(ADD, "add")
    assert (add["BLOCK":32, "EACH":2](x.to(torch.int32)) == x.to(torch.int32) + 2).all()
    with pytest.raises(TypeError, match="scale: x: expected an array, found list"):
        scale([1.0], x)
    with pytest.raises(TypeError, match="scale: x: expected a tensor of float32, found float64"):
        scale(x.double(), 1.0)
    with pytest.raises(RuntimeError, match="scale has no gradient"):
        scale(x.requires_grad_(), 1.0)


@pytest.mark.parametrize("device", DEVICES)
def test_compiled(device: str) -> None:
    scale, saxpy, add = ptx_kernels.kernel(SCALE), ptx_kernels.kernel(SAXPY), ptx_kernels.kernel(ADD, "add")
    chosen = add.instance(BLOCK=96, EACH=3)

    @torch.compile(fullgraph=True, backend="aot_eager" if device == "cpu" else "inductor")
    def run(x: Any, y: Any) -> Any:
        saxpy(2.0, x, y, 300)
        # The instance of `add` for this type is compiled while PyTorch traces.
        return scale(chosen(x), 2.0) + 1, add(x), add["f32", 32, 5](x)

    x, y = torch.randn(300, device=device), torch.zeros(300, device=device)
    first, second, third = run(x, y)
    torch.testing.assert_close(first, 2 * (x + 3) + 1)
    torch.testing.assert_close(second, x + 1)
    torch.testing.assert_close(third, x + 5)
    torch.testing.assert_close(y, 2 * x)


FIRST = """
import ptx_kernels
import torch

scale = ptx_kernels.kernel(SCALE)
x, weight = torch.randn(4, 64), torch.randn(64)
run = torch.compile(lambda x: (scale(weight, 2.0), ptx_kernels.rms_norm(x, weight)), fullgraph=True, backend="aot_eager")
doubled, normalized = run(x)
torch.testing.assert_close(doubled, 2 * weight)
torch.testing.assert_close(normalized, torch.nn.functional.rms_norm(x, (64,), weight, 1e-6), rtol=1e-4, atol=1e-4)
"""


def test_compiled_before_any_call() -> None:
    """PyTorch comes after this package, and what it compiles is the first call."""
    code = f"SCALE = {SCALE!r}\n{FIRST}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr


def test_operators_are_right() -> None:
    # Where no call has defined the operators yet.
    import ptx_kernels.torch

    function = ptx_kernels.kernel(SCALE).function()
    op = getattr(torch.ops.ptx_jit, function.operator)
    torch.library.opcheck(op, (torch.randn(40), 2.0), test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("device", DEVICES)
def test_gradients(device: str) -> None:
    module = ptx_kernels.kernels(SQUARE)
    square = ptx_kernels.differentiable(module.square, module.square_grad)
    for dtype in (torch.float32, torch.float64):
        x = torch.randn(100, device=device, dtype=dtype, requires_grad=True)
        made = square(x)
        torch.testing.assert_close(made, x * x)
        made.backward(torch.full_like(made, 3.0))
        torch.testing.assert_close(x.grad, 6 * x.detach())
        x.grad = None
        compiled = torch.compile(lambda x: square(x) * 2, fullgraph=True, backend="aot_eager" if device == "cpu" else "inductor")
        compiled(x).sum().backward()
        torch.testing.assert_close(x.grad, 4 * x.detach())
    with pytest.raises(TypeError, match="square has no output called grad_X for an input X of square"):
        ptx_kernels.differentiable(module.square, module.square)(x)
    with pytest.raises(TypeError, match="scale: nothing is called 'factor' in square; it has grad_out, out, x"):
        ptx_kernels.differentiable(module.square, ptx_kernels.kernel(SCALE))(x)


@needs_gpu
def test_graphs_and_watched_calls_on_a_gpu() -> None:
    scale, x = ptx_kernels.kernel(SCALE), torch.randn(300, device="cuda")
    out = torch.empty_like(x)
    scale(x, 3.0, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scale(x, 3.0, out=out)
    x.fill_(2.0)
    graph.replay()
    torch.testing.assert_close(out, 3 * x)
    with ptx_kernels.watched():
        torch.testing.assert_close(scale(x, 5.0), 5 * x)
    with ptx_kernels.watched(), pytest.raises(RuntimeError, match="no allocation holds"):
        ptx_kernels.kernel(SAXPY.replace("x.len() >= n, ", ""))(1.0, x[:3], torch.zeros(64, device="cuda"), 64)


def test_ptx_of_other_compilers(tmp_path: Any) -> None:
    path = tmp_path / "twice.ptx"
    path.write_text(PTX)
    x, out = torch.randn(300), torch.zeros(300)
    ptx_kernels.ptx_file(path, "twice", SIGNATURE)(x, out, 300)
    torch.testing.assert_close(out, 2 * x)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("factor", [5, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_integers_of_64_bits_without_a_sign(device: str, factor: int) -> None:
    both = ptx_kernels.kernels(WIDE)
    wide = ptx_kernels.differentiable(both.wide, both.wide_grad)
    x, out = torch.ones(70, device=device), torch.empty(70, device=device)
    expected = torch.full_like(x, float(factor))
    torch.testing.assert_close(both.wide(x, factor), expected, rtol=0, atol=0)
    torch.testing.assert_close(both.wide(x, factor, out=out), expected, rtol=0, atol=0)
    torch._dynamo.reset()
    run = torch.compile(lambda x: wide(x, factor) + 0, fullgraph=True, backend="aot_eager" if device == "cpu" else "inductor")
    for call in [lambda x: wide(x, factor), run]:
        leaf = x.clone().requires_grad_()
        made = call(leaf)
        torch.testing.assert_close(made.detach(), expected, rtol=0, atol=0)
        (grad,) = torch.autograd.grad(made.sum(), leaf)
        torch.testing.assert_close(grad, expected, rtol=0, atol=0)
    # Operators have integers with a sign.
    operator = getattr(torch.ops.ptx_jit, both.wide.function().operator)
    signed = factor - (1 << 64) if factor >= 1 << 63 else factor
    torch.testing.assert_close(operator(x, signed), expected, rtol=0, atol=0)
    for wrong in [-1, 1 << 64]:
        with pytest.raises(ValueError, match=f"wide: factor: {wrong} is outside of 0 to 18446744073709551615"):
            wide(x, wrong)

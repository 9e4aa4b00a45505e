"""PyTorch's own samples (`OpInfo`) for the functions that ours stand for: shapes, strides, empty tensors, options, gradients. Run as a program, it
prints how many there are."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import pytest
from conftest import has, has_gpu

import ptx_kernels

if not has("torch"):
    pytest.skip("PyTorch is not installed", allow_module_level=True)
if not has("expecttest"):
    # PyTorch's testing modules import it for tests that are not here.
    import sys
    import types

    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = __import__("unittest").TestCase  # type: ignore[attr-defined]
import torch  # noqa: E402

DEVICE = "cuda" if has_gpu() else "cpu"


def _same_shape(sample: Any, x: Any) -> bool:
    shape = sample.kwargs.get("normalized_shape", sample.args[0] if sample.args else None)
    return tuple(shape or ()) == tuple(x.shape[-1:])


def _rms_norm(sample: Any, x: Any) -> Any:
    weight, eps = ([*sample.args[1:], None, None])[:2]
    weight, eps = sample.kwargs.get("weight", weight), sample.kwargs.get("eps", eps)
    return ptx_kernels.rms_norm(x, weight, torch.finfo(torch.float32).eps if eps is None else eps) if _same_shape(sample, x) else None


def _layer_norm(sample: Any, x: Any) -> Any:
    weight, bias = ([*sample.args[1:], None, None])[:2]
    weight, bias = sample.kwargs.get("weight", weight), sample.kwargs.get("bias", bias)
    return ptx_kernels.layer_norm(x, weight, bias, sample.kwargs.get("eps", 1e-5)) if _same_shape(sample, x) else None


def _softmax(sample: Any, x: Any) -> Any:
    dim = sample.args[0] if sample.args else sample.kwargs["dim"]
    return ptx_kernels.softmax(x, dim) if x.ndim > 0 and sample.kwargs.get("dtype") in (None, x.dtype) else None


def _cross_entropy(sample: Any, x: Any) -> Any:
    (target, *_), options = sample.args, dict(sample.kwargs)
    if target.is_floating_point() or options.pop("weight", None) is not None or x.ndim != target.ndim + 1:
        return None
    return ptx_kernels.cross_entropy(x if x.ndim == 1 else x.movedim(1, -1), target, **options)


def _matmul(sample: Any, a: Any) -> Any:
    (b,) = sample.args
    return ptx_kernels.matmul(a, b) if a.ndim >= 2 and b.ndim == 2 or a.ndim == b.ndim == 3 and a.shape[0] == b.shape[0] else None


# Ours for a sample of PyTorch's function: the result, or None for options that ours has not.
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "nn.functional.relu": lambda sample, x: ptx_kernels.relu(x),
    "nn.functional.silu": lambda sample, x: ptx_kernels.silu(x),
    "nn.functional.gelu": lambda sample, x: ptx_kernels.gelu(x, **sample.kwargs),
    "nn.functional.rms_norm": _rms_norm,
    "nn.functional.layer_norm": _layer_norm,
    "softmax": _softmax,
    "nn.functional.cross_entropy": _cross_entropy,
    "matmul": _matmul,
    "mm": lambda sample, a: ptx_kernels.matmul(a, *sample.args),
    "bmm": lambda sample, a: ptx_kernels.matmul(a, *sample.args),
}


def samples(name: str, dtype: Any) -> Iterator[tuple[Any, Any]]:
    from torch.testing._internal.common_methods_invocations import op_db

    for info in op_db:
        if info.name == name and info.variant_test_name in ("", "default"):
            for sample in info.sample_inputs(DEVICE, dtype, requires_grad=True):
                yield info, sample


def _check(name: str, dtype: Any) -> int:
    """Compares every sample that ours takes, and counts them."""
    count, bound = 0, {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 4e-2}[dtype]
    for info, sample in samples(name, dtype):
        x = sample.input
        found = FUNCTIONS[name](sample, x)
        if found is None:
            continue
        expected = info.op(x, *sample.args, **sample.kwargs)
        if name == "nn.functional.cross_entropy" and sample.kwargs.get("reduction") == "none":
            expected = expected.float()
        torch.testing.assert_close(found.to(expected.dtype), expected, rtol=bound, atol=bound, equal_nan=True)
        count += 1
        wanted = [t for t in (x, *sample.args, *sample.kwargs.values()) if isinstance(t, torch.Tensor) and t.requires_grad]
        if not expected.requires_grad:
            continue
        pairs = [torch.autograd.grad(out.float().sum(), wanted, create_graph=True, allow_unused=True) for out in (found, expected)]
        _compare(*pairs, 4 * bound)
        twice = []
        for grads in pairs:
            loss = sum((g.float().square().sum() for g in grads if g is not None and g.requires_grad), start=torch.zeros((), device=DEVICE))
            twice.append(torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True) if loss.requires_grad else [])
        if all(twice):
            _compare(*twice, 16 * bound)
    return count


def _compare(found: Any, expected: Any, bound: float) -> None:
    for mine, reference in zip(found, expected, strict=True):
        if mine is not None and reference is not None:
            mine, reference = mine.detach(), reference.detach()
            # PyTorch's own steps leave 16 bits where a row has one element: of these numbers only ours are finite.
            ours = mine.isfinite() & ~reference.isfinite()
            reference = torch.where(ours, mine, reference)
            scale = max(1.0, float(reference.abs().max())) if reference.numel() else 1.0
            torch.testing.assert_close(mine, reference, rtol=bound, atol=bound * scale, equal_nan=True)


@pytest.mark.skipif(not has_gpu(), reason="no GPU on this machine: the CPU device would take long")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_samples(name: str, dtype: Any) -> None:
    assert _check(name, dtype) > 0


if __name__ == "__main__":
    counts = {(name, dtype): _check(name, dtype) for name in FUNCTIONS for dtype in (torch.float32, torch.bfloat16)}
    print(f"{sum(counts.values())} samples of {len(FUNCTIONS)} functions agree")

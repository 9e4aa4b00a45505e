"""Shared by the tests with PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conftest import has_gpu

each_device = pytest.mark.parametrize("device", ["cpu", *(["cuda"] if has_gpu() else [])])


def make(shapes: list[tuple[int, ...]], device: str, dtype: Any = torch.float32, grad: bool = False) -> list[Any]:
    """Tensors of these shapes with random numbers, the same in every run."""
    generator = torch.Generator().manual_seed(len(shapes) + sum(map(sum, shapes)))
    tensors = [torch.randn(shape, generator=generator).to(device=device, dtype=dtype) for shape in shapes]
    return [tensor.requires_grad_(grad) for tensor in tensors]


def compiled(device: str, function: Any) -> Any:
    """The function by torch.compile, as one graph."""
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend="aot_eager" if device == "cpu" else "inductor")


def needs_hopper(device: str) -> None:
    """Skips the test on a GPU that is none."""
    if device == "cuda" and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs compute capability 9.0")

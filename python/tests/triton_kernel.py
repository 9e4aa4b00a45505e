"""A Triton kernel, as a rival for the time of a launch."""

from __future__ import annotations

from typing import Any, Callable

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """out = x + y"""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask) + tl.load(y_ptr + at, mask), mask)


def make() -> Callable[[], Any]:
    """A call of it."""
    x, y = torch.randn(1024, device="cuda"), torch.randn(1024, device="cuda")
    out = torch.empty_like(x)
    return lambda: add_kernel[(1,)](x, y, out, 1024, BLOCK=1024)

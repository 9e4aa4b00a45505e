"""Shared by the tests: the library of tests/library, built with cargo, or the one that PTX_TEST_LIBRARY names; the frameworks that are here."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
from typing import Any

import numpy as np
import pytest

import ptx_kernels

HERE = pathlib.Path(__file__).parent
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def _build() -> pathlib.Path:
    if path := os.environ.get("PTX_TEST_LIBRARY"):
        return pathlib.Path(path)
    subprocess.run(["cargo", "build", "--release", "--quiet", "--locked"], cwd=HERE / "library", check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target"))
    return target / "release" / "libptx_ffi_test_library.so"


@pytest.fixture(scope="session")
def lib() -> ptx_kernels.Library:
    """The library of the tests."""
    return ptx_kernels.load(_build())


def has(module: str) -> bool:
    """True if a module can be imported."""
    return importlib.util.find_spec(module) is not None


def has_gpu() -> bool:
    """True if this machine has a GPU with its driver."""
    return os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/nvidia0")


needs_gpu = pytest.mark.skipif(not has_gpu(), reason="no GPU on this machine")
needs_torch = pytest.mark.skipif(not has("torch"), reason="PyTorch is not installed")
needs_jax = pytest.mark.skipif(not has("jax"), reason="JAX is not installed")
needs_cupy = pytest.mark.skipif(not (has("cupy") and has_gpu()), reason="CuPy is not installed, or no GPU is here")


# Values that fit no parameter, or few.
WRONG: list[Any] = [
    None, 3, 2.5, "text", [1.0], {}, object(), b"bytes", 1 << 80, float("nan"), -1, True,
    np.float32(1.0), np.zeros(()), np.zeros((2, 3, 4, 5, 6)), np.zeros((0, 8), np.float32), np.zeros((2, 8), np.float64),
    np.zeros((2, 8), ">f4"), np.zeros((3, 8), np.float16), np.array(["a"]), np.array([None]), np.zeros((5, 7), np.float32)[::-1],
    np.zeros((5, 7), np.float32), np.zeros(3, np.int64), np.zeros((2, 2, 2, 2), np.float16), np.broadcast_to(np.float32(0), (4, 8)),
]  # fmt: skip

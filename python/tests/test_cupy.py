"""CuPy, on its current stream."""

from __future__ import annotations

import numpy as np
import pytest
import references
from conftest import has, has_gpu

import ptx_kernels

if not (has("cupy") and has_gpu()):
    pytest.skip("CuPy is not installed, or no GPU is here", allow_module_level=True)

import cupy  # noqa: E402


def test_results_and_outputs() -> None:
    x, w = cupy.random.randn(6, 40, dtype=cupy.float32), cupy.random.randn(40, dtype=cupy.float32)
    found = ptx_kernels.rms_norm(x, w)
    assert isinstance(found, cupy.ndarray)
    np.testing.assert_allclose(found.get(), references.rms_norm(x.get(), w.get()), rtol=1e-5, atol=1e-5)
    out = cupy.empty_like(x)
    assert ptx_kernels.rms_norm(x, w, out=out) is out
    np.testing.assert_allclose(out.get(), found.get())


def test_the_current_stream() -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.ones((512, 512), cupy.float32)
        for _ in range(200):
            x = x @ x / 512.0
        found = ptx_kernels.rms_norm(x)
    stream.synchronize()
    np.testing.assert_allclose(found.get(), np.ones((512, 512)), rtol=1e-4)


def test_wrong_arguments() -> None:
    x = cupy.ones((4, 8), cupy.float32)
    with pytest.raises(TypeError, match="x: expected a tensor of float32 or float16 or bfloat16, found float64"):
        ptx_kernels.rms_norm(x.astype(cupy.float64))
    with pytest.raises(ValueError, match="weight: is on cpu, and x is on cuda:0"):
        ptx_kernels.rms_norm(x, np.ones(8, np.float32))

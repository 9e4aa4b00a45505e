"""Fast GPU kernels for PyTorch, JAX, NumPy and CuPy, and a loader for kernels written in Rust.

The framework follows from the arguments: PyTorch tensors give PyTorch tensors, JAX arrays JAX arrays. Tensors in host memory run on the CPU device,
an interpreter for tests. Importing this package imports no framework.
"""

from __future__ import annotations

import sys as _sys

from ._native_library import Library, load
from ._operations import (
    add_layer_norm,
    add_rms_norm,
    attention,
    attention_append,
    attention_decode,
    attention_decode_latent,
    attention_prefill,
    attention_varlen,
    cross_entropy,
    geglu,
    gelu,
    grouped_matmul,
    layer_norm,
    library,
    matmul,
    relu,
    rms_norm,
    rotary,
    silu,
    softmax,
    swiglu,
)

__all__ = [
    "Library",
    "add_layer_norm",
    "add_rms_norm",
    "attention",
    "attention_append",
    "attention_decode",
    "attention_decode_latent",
    "attention_prefill",
    "attention_varlen",
    "cross_entropy",
    "geglu",
    "gelu",
    "grouped_matmul",
    "layer_norm",
    "library",
    "load",
    "matmul",
    "relu",
    "rms_norm",
    "rotary",
    "silu",
    "softmax",
    "swiglu",
]
__version__ = "0.1.0"

# Operators exist as soon as the framework and this package do. Where PyTorch or JAX comes later, `ptx_kernels.torch` and `ptx_kernels.jax` register them.
if hasattr(_sys.modules.get("torch"), "library"):
    from . import torch as _with_torch
if hasattr(_sys.modules.get("jax"), "ffi"):
    from . import jax as _with_jax

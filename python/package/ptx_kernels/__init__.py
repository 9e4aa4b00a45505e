"""Fast GPU kernels for PyTorch, JAX, NumPy and CuPy, kernels from text, and a loader for kernels written in Rust.

The framework follows from the arguments: PyTorch tensors give PyTorch tensors, JAX arrays JAX arrays. Tensors in host memory run on the CPU device,
an interpreter for tests. Importing this package imports no framework.
"""

from __future__ import annotations

import sys as _sys

from . import _arrays as _arrays
from ._kernels import (
    CompileError,
    Differentiable,
    Kernel,
    Module,
    Problem,
    differentiable,
    explain,
    kernel,
    kernel_file,
    kernels,
    load_transpiled,
    ptx_file,
)
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
from ._tune import tune
from ._watch import watched

__all__ = [
    "CompileError",
    "Differentiable",
    "Kernel",
    "Library",
    "Module",
    "Problem",
    "add_layer_norm",
    "add_rms_norm",
    "attention",
    "attention_append",
    "attention_decode",
    "attention_decode_latent",
    "attention_prefill",
    "attention_varlen",
    "cross_entropy",
    "differentiable",
    "explain",
    "geglu",
    "gelu",
    "grouped_matmul",
    "kernel",
    "kernel_file",
    "kernels",
    "layer_norm",
    "library",
    "load",
    "matmul",
    "load_transpiled",
    "ptx_file",
    "relu",
    "rms_norm",
    "rotary",
    "silu",
    "softmax",
    "swiglu",
    "tune",
    "watched",
]
__version__ = "0.1.0"



def load_ipython_extension(shell: object) -> None:
    """``%load_ext ptx_kernels`` defines the magic ``%%ptx``: the kernels of a cell become objects."""
    from . import _notebook

    _notebook.load(shell)


# Operators exist as soon as the framework and this package do. Where PyTorch or JAX comes later, `ptx_kernels.torch` and `ptx_kernels.jax` register them.
if hasattr(_sys.modules.get("torch"), "library"):
    from . import torch as _with_torch
if hasattr(_sys.modules.get("jax"), "ffi"):
    from . import jax as _with_jax

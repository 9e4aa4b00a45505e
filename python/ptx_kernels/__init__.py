"""Fast GPU kernels for PyTorch, JAX, NumPy and CuPy, and a loader for kernels written in Rust.

The framework follows from the arguments: PyTorch tensors give PyTorch tensors, JAX arrays JAX arrays. Importing this package imports neither.
"""

from __future__ import annotations

from ._native_library import Library, load

__all__ = ["Library", "load"]
__version__ = "0.1.0"

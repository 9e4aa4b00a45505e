"""The operations of the crate ptx-kernels."""

from __future__ import annotations

import importlib.util
from typing import Any

from ._function import call
from ._native_library import Library

_spec = importlib.util.find_spec("ptx_kernels._native")
if _spec is None or _spec.origin is None:
    raise ImportError("ptx_kernels was installed without its library: pip install ./python")
_library = Library(_spec.origin)


def library() -> Library:
    """The library of this package, with the functions behind the operations."""
    return _library


def rms_norm(x: Any, weight: Any = None, eps: float = 1e-6, *, out: Any = None) -> Any:
    """RMSNorm over the last dimension: ``x / sqrt(mean(x²) + eps) · weight``.

    Args:
        x: float32, float16 or bfloat16 of shape ``[..., n]``.
        weight: of shape ``[n]`` and the type of ``x``; ones without it.
        eps: what is added to the mean square.
        out: where the result goes; else it is a new tensor.

    Returns:
        A tensor like ``x``. Sums are float32. Differentiable in ``x`` and ``weight``.
    """
    return call(_library.rms_norm, [x, weight, out, eps])


def layer_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *, out: Any = None) -> Any:
    """LayerNorm over the last dimension: ``(x - mean(x)) / sqrt(var(x) + eps) · weight + bias``.

    Args:
        x: float32, float16 or bfloat16 of shape ``[..., n]``.
        weight: of shape ``[n]`` and the type of ``x``; ones without it.
        bias: of shape ``[n]`` and the type of ``x``; zeros without it.
        eps: what is added to the variance, which is the mean squared deviation.
        out: where the result goes; else it is a new tensor.

    Returns:
        A tensor like ``x``. Sums are float32. Differentiable in ``x``, ``weight`` and ``bias``.
    """
    return call(_library.layer_norm, [x, weight, bias, out, eps])


def gelu(x: Any, approximate: str = "none", *, out: Any = None) -> Any:
    """GELU: ``x · Φ(x)``, or its approximation with ``approximate="tanh"``, as PyTorch's.

    Args:
        x: float32, float16 or bfloat16 of any shape with at least one dimension.
        approximate: ``"none"`` or ``"tanh"``.
        out: where the result goes; else it is a new tensor.
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate: expected 'none' or 'tanh', found {approximate!r}")
    return call(_library.activation, [x, out, "gelu" if approximate == "none" else "gelu_tanh"])


def silu(x: Any, *, out: Any = None) -> Any:
    """SiLU, also called swish: ``x / (1 + exp(-x))``.

    Args:
        x: float32, float16 or bfloat16 of any shape with at least one dimension.
        out: where the result goes; else it is a new tensor.
    """
    return call(_library.activation, [x, out, "silu"])


def relu(x: Any, *, out: Any = None) -> Any:
    """ReLU: ``max(x, 0)``. Its derivative at zero is zero.

    Args:
        x: float32, float16 or bfloat16 of any shape with at least one dimension.
        out: where the result goes; else it is a new tensor.
    """
    return call(_library.activation, [x, out, "relu"])


def swiglu(gate: Any, up: Any, *, out: Any = None) -> Any:
    """SwiGLU: ``silu(gate) · up``.

    Args:
        gate: float32, float16 or bfloat16 of any shape with at least one dimension.
        up: of the same shape and type.
        out: where the result goes; else it is a new tensor.
    """
    return call(_library.gated, [gate, up, out, "silu"])


def geglu(gate: Any, up: Any, approximate: str = "none", *, out: Any = None) -> Any:
    """GEGLU: ``gelu(gate) · up``.

    Args:
        gate: float32, float16 or bfloat16 of any shape with at least one dimension.
        up: of the same shape and type.
        approximate: ``"none"`` or ``"tanh"``.
        out: where the result goes; else it is a new tensor.
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"geglu: approximate: expected 'none' or 'tanh', found {approximate!r}")
    return call(_library.gated, [gate, up, out, "gelu" if approximate == "none" else "gelu_tanh"])

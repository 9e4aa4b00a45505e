"""References in float64, for NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])


def rms_norm(x: Any, weight: Any = 1.0, eps: float = 1e-6) -> Any:
    x = np.asarray(x, np.float64)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def layer_norm(x: Any, weight: Any = 1.0, bias: Any = 0.0, eps: float = 1e-5) -> Any:
    x = np.asarray(x, np.float64)
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered * centered).mean(-1, keepdims=True) + eps) * weight + bias


def softmax(x: Any, axis: int = -1) -> Any:
    x = np.asarray(x, np.float64)
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def gelu(x: Any) -> Any:
    x = np.asarray(x, np.float64)
    return x * 0.5 * (1.0 + _erf(x / math.sqrt(2.0)))


def gelu_tanh(x: Any) -> Any:
    x = np.asarray(x, np.float64)
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def silu(x: Any) -> Any:
    x = np.asarray(x, np.float64)
    return x / (1.0 + np.exp(-x))


def relu(x: Any) -> Any:
    return np.maximum(np.asarray(x, np.float64), 0.0)


def attention(q: Any, k: Any, v: Any, causal: bool = False, window: Any = (None, None), bias: Any = 0.0) -> Any:
    """Shape [batch, sequence, heads, head_dim]; as many heads of k and v as divide those of q."""
    q, k, v = (np.asarray(t, np.float64).transpose(0, 2, 1, 3) for t in (q, k, v))
    k, v = (np.repeat(t, q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1]) + bias
    rows, columns = scores.shape[-2:]
    distance = np.arange(columns) - np.arange(rows)[:, None] - (columns - rows)
    left, right = window[0], 0 if causal else window[1]
    hidden = (distance < -math.inf if left is None else distance < -left) | (distance > (math.inf if right is None else right))
    return (softmax(np.where(hidden, -np.inf, scores)) @ v).transpose(0, 2, 1, 3)

"""The operations in functions that a framework can differentiate: for derivatives that no kernel computes.

A formula takes the parameters of the library's function by name and returns its results by name. `m` has the functions of the framework whose names
or options differ.
"""

from __future__ import annotations

import math
from typing import Any, Callable

Formula = Callable[..., dict[str, Any]]


def _rms_norm(m: Any, x: Any, weight: Any, eps: float) -> dict[str, Any]:
    wide = m.wide(x)
    normed = wide * (m.mean(wide * wide) + eps) ** -0.5
    return {"out": m.cast(normed if weight is None else normed * m.wide(weight), x)}


def _layer_norm(m: Any, x: Any, weight: Any, bias: Any, eps: float) -> dict[str, Any]:
    wide = m.wide(x)
    centered = wide - m.mean(wide)
    normed = centered * (m.mean(centered * centered) + eps) ** -0.5
    normed = normed if weight is None else normed * m.wide(weight)
    return {"out": m.cast(normed if bias is None else normed + m.wide(bias), x)}


def _gelu_of(m: Any, x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1.0 + m.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1.0 + m.erf(x * math.sqrt(0.5)))


def _gelu(m: Any, x: Any, approximate: str) -> dict[str, Any]:
    return {"out": m.cast(_gelu_of(m, m.wide(x), approximate), x)}


def _silu(m: Any, x: Any) -> dict[str, Any]:
    return {"out": m.cast(m.wide(x) * m.sigmoid(m.wide(x)), x)}


def _relu(m: Any, x: Any) -> dict[str, Any]:
    return {"out": m.where(x > 0, x, m.zeros_like(x))}


def _swiglu(m: Any, gate: Any, up: Any) -> dict[str, Any]:
    return {"out": m.cast(m.wide(gate) * m.sigmoid(m.wide(gate)) * m.wide(up), gate)}


def _geglu(m: Any, gate: Any, up: Any, approximate: str) -> dict[str, Any]:
    return {"out": m.cast(_gelu_of(m, m.wide(gate), approximate) * m.wide(up), gate)}


def _softmax(m: Any, x: Any, scale: float) -> dict[str, Any]:
    return {"out": m.cast(m.exp(m.log_softmax(m.wide(x) * scale)), x)}


def _softmax_backward(m: Any, out: Any, grad_out: Any, scale: float) -> dict[str, Any]:
    share, grad = m.wide(out), m.wide(grad_out)
    return {"grad_x": m.cast(scale * share * (grad - m.sum(share * grad)), out)}


def _cross_entropy(m: Any, logits: Any, targets: Any, ignore_index: int, label_smoothing: float) -> dict[str, Any]:
    wide = m.wide(logits)
    logs = m.log_softmax(wide)
    classes = m.classes(targets)
    counted = classes != ignore_index
    chosen = m.take(logs, m.where(counted, classes, m.zeros_like(classes)))
    loss = -(1.0 - label_smoothing) * chosen - label_smoothing * m.mean(logs)[..., 0]
    return {"loss": m.where(counted, loss, m.zeros_like(loss)), "lse": (wide - logs)[..., 0]}


def _matmul(m: Any, a: Any, b: Any, tf32: bool) -> dict[str, Any]:
    return {"out": m.matmul(a, b)}


def _rotary(m: Any, x: Any, cos: Any, sin: Any, positions: Any, interleaved: bool) -> dict[str, Any]:
    wide, rows = m.wide(x), m.classes(positions)
    pairs = cos.shape[-1]
    c, s = cos[rows][..., None, :], sin[rows][..., None, :]
    if interleaved:
        turned, rest = wide[..., : 2 * pairs], wide[..., 2 * pairs :]
        first, second = turned[..., ::2], turned[..., 1::2]
        made = m.stack([first * c - second * s, second * c + first * s])
        made = made.reshape(turned.shape)
    else:
        first, second, rest = wide[..., :pairs], wide[..., pairs : 2 * pairs], wide[..., 2 * pairs :]
        made = m.concatenate([first * c - second * s, second * c + first * s])
    return {"out": m.cast(m.concatenate([made, rest]), x)}


FORMULAS: dict[str, Formula] = {
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "gelu": _gelu,
    "silu": _silu,
    "relu": _relu,
    "swiglu": _swiglu,
    "geglu": _geglu,
    "softmax": _softmax,
    "softmax_backward": _softmax_backward,
    "cross_entropy": _cross_entropy,
    "matmul": _matmul,
    "batched_matmul": _matmul,
    "rotary": _rotary,
}

# Functions of single elements, which any order of elements suits.
_ACTIVATIONS = ("gelu", "silu", "relu", "swiglu", "geglu")
ELEMENTWISE = frozenset([*_ACTIVATIONS, *(f"{name}_backward" for name in _ACTIVATIONS)])
# Functions of rows whose elements lie side by side: other tensors are copied.
_ROWS = ("rms_norm", "layer_norm", "softmax", "cross_entropy", "rotary")
ROWS = ELEMENTWISE | frozenset([*_ROWS, *(f"{name}_backward" for name in _ROWS)])
# Functions whose rows are copied 16 bytes at a time, and their inputs of rows.
_ATTENTION = ("attention", "attention_bhsd", "attention_varlen")
_ALIGNED = frozenset([*_ATTENTION, *(f"{name}_e4m3" for name in _ATTENTION), *(f"{name}_backward" for name in _ATTENTION)])
_ALIGNED_INPUTS = frozenset(["q", "k", "v", "grad_out"])


def row_alignment(function: Any, param: Any, itemsize: int) -> int:
    """The elements at whose multiples the rows of an input begin, side by side in each; 0 where any strides will do."""
    if not function.library.is_own:
        return 0
    if function.name in _ALIGNED:
        return 16 // itemsize if param.name in _ALIGNED_INPUTS else int(param.rank == 1)
    return int(function.name in ROWS)


def formula_of(function: Any) -> Formula | None:
    """The formula of a function, where there is one; libraries of others have none."""
    return FORMULAS.get(function.name) if function.library.is_own else None


def forward_inputs(m: Any, source: Any, backward: Any, values: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The inputs of a function by their names, from the values of its backward function, and the names of those that have a gradient."""
    named = {source.params[at].name: values.get(source.params[at].name) for at in source.inputs}
    read = {param.name for param in backward.params}
    wanted = [source.params[at].name for at, _ in source.gradient_inputs()]
    named |= {name: _unread(m, name, values) for name in wanted if name not in read}
    return named, [name for name in wanted if named[name] is not None]


def _unread(m: Any, name: str, values: dict[str, Any]) -> Any:
    """Zeros for an input that a backward function does not read, because the operation is linear in it."""
    return m.zeros_like(values["grad_out"]) if name == "x" else m.zeros(values["x"].shape[-1:], values["x"])

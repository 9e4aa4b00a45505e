"""The operations of the crate ptx-kernels."""

from __future__ import annotations

import importlib
import importlib.util
import operator
from typing import Any

from ._function import call, product
from ._native_library import Library

_spec = importlib.util.find_spec("._native", __package__)
if _spec is None or _spec.origin is None:
    raise ImportError("ptx_kernels was installed without its library: pip install ./python")
_library = Library(_spec.origin, "ptx_kernels")


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


def add_rms_norm(x: Any, residual: Any, weight: Any = None, eps: float = 1e-6) -> Any:
    """Adds ``x`` to a residual stream, in place, and normalizes the sum by RMSNorm: one launch.

    Args:
        x: float32, float16 or bfloat16 of shape ``[..., n]``.
        residual: of the shape and type of ``x``, contiguous; it becomes ``x + residual``.
        weight: of shape ``[n]`` and the type of ``x``; ones without it.
        eps: what is added to the mean square.

    Returns:
        The norm, and the residual stream. With JAX this is a new array, in the memory of the old one where that is not used again. Without a
        gradient.
    """
    return _add_norm(_library.add_rms_norm, x, residual, [weight], eps)


def add_layer_norm(x: Any, residual: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """As `add_rms_norm`, with LayerNorm.

    Args:
        x: float32, float16 or bfloat16 of shape ``[..., n]``.
        residual: of the shape and type of ``x``, contiguous; it becomes ``x + residual``.
        weight: of shape ``[n]`` and the type of ``x``; ones without it.
        bias: of shape ``[n]`` and the type of ``x``; zeros without it.
        eps: what is added to the variance.

    Returns:
        The norm, and the residual stream. Without a gradient.
    """
    return _add_norm(_library.add_layer_norm, x, residual, [weight, bias], eps)


def _add_norm(function: Any, x: Any, residual: Any, vectors: list[Any], eps: float) -> Any:
    _check_arrays(function.label, x=x, residual=residual)
    if len(x.shape) == 0:
        raise ValueError(f"{function.label}: x: expected at least 1 dimensions, found shape ()")
    if tuple(x.shape) != tuple(residual.shape):
        raise ValueError(f"{function.label}: residual: expected shape {tuple(x.shape)}, that of x, found {tuple(residual.shape)}")
    if not _is_contiguous(residual):
        raise ValueError(f"{function.label}: residual: expected a contiguous tensor")
    rows, sums = (tensor.reshape(product(x.shape[:-1]), x.shape[-1]) for tensor in (x, residual))
    out, after = call(function, [rows, *vectors, None, sums, eps])
    return out.reshape(x.shape), residual if after is sums else after.reshape(x.shape)


def gelu(x: Any, approximate: str = "none", *, out: Any = None) -> Any:
    """GELU: ``x · Φ(x)``, or its approximation with ``approximate="tanh"``, as PyTorch's.

    Args:
        x: float32, float16 or bfloat16 of any shape. A dense tensor of any order of dimensions (`channels_last`) is not copied.
        approximate: ``"none"`` or ``"tanh"``.
        out: where the result goes; else it is a new tensor.
    """
    _check_choice("gelu: approximate", approximate, "none", "tanh")
    return _elementwise(_library.gelu, [x, out, approximate], 2)


def silu(x: Any, *, out: Any = None) -> Any:
    """SiLU, also called swish: ``x / (1 + exp(-x))``.

    Args:
        x: float32, float16 or bfloat16 of any shape. A dense tensor of any order of dimensions (`channels_last`) is not copied.
        out: where the result goes; else it is a new tensor.
    """
    return _elementwise(_library.silu, [x, out], 2)


def relu(x: Any, *, out: Any = None) -> Any:
    """ReLU: ``max(x, 0)``. Its derivative at zero is zero.

    Args:
        x: float32, float16 or bfloat16 of any shape. A dense tensor of any order of dimensions (`channels_last`) is not copied.
        out: where the result goes; else it is a new tensor.
    """
    return _elementwise(_library.relu, [x, out], 2)


def swiglu(gate: Any, up: Any, *, out: Any = None) -> Any:
    """SwiGLU: ``silu(gate) · up``.

    Args:
        gate: float32, float16 or bfloat16 of any shape. A dense tensor of any order of dimensions (`channels_last`) is not copied.
        up: of the same shape and type.
        out: where the result goes; else it is a new tensor.
    """
    return _elementwise(_library.swiglu, [gate, up, out], 3)


def geglu(gate: Any, up: Any, approximate: str = "none", *, out: Any = None) -> Any:
    """GEGLU: ``gelu(gate) · up``.

    Args:
        gate: float32, float16 or bfloat16 of any shape. A dense tensor of any order of dimensions (`channels_last`) is not copied.
        up: of the same shape and type.
        approximate: ``"none"`` or ``"tanh"``.
        out: where the result goes; else it is a new tensor.
    """
    _check_choice("geglu: approximate", approximate, "none", "tanh")
    return _elementwise(_library.geglu, [gate, up, out, approximate], 3)


def _elementwise(function: Any, values: list[Any], tensors: int) -> Any:
    """A function of single elements. A scalar is a row of one."""
    if any(getattr(value, "shape", None) != () for value in values[:tensors] if value is not None):
        return call(function, values)
    made = call(function, [*(value if value is None else value.reshape(1) for value in values[:tensors]), *values[tensors:]])
    given = values[tensors - 1]
    return made.reshape(()) if given is None else given


def softmax(x: Any, axis: int = -1, *, scale: float = 1.0, out: Any = None) -> Any:
    """Softmax of ``scale · x`` over one dimension.

    Args:
        x: float32, float16 or bfloat16.
        axis: the dimension; another one than the last is moved there, which copies.
        scale: positive: the inverse of a temperature.
        out: where the result goes, for the last dimension; else it is a new tensor.
    """
    _check_arrays("softmax", x=x)
    axis = _index("softmax: axis", axis)
    if axis in (-1, x.ndim - 1):
        return call(_library.softmax, [x, out, scale])
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"softmax: axis {axis} is not one of the {x.ndim} dimensions of x")
    if out is not None:
        raise ValueError("softmax: out= is possible for the last dimension only")
    return _move(call(_library.softmax, [_move(x, axis, -1), None, scale]), -1, axis)


def cross_entropy(
    logits: Any,
    targets: Any,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    out: Any = None,
) -> Any:
    """The cross entropy of logits, as ``torch.nn.functional.cross_entropy`` for targets that are classes.

    Args:
        logits: float32, float16 or bfloat16 of shape ``[..., classes]``.
        targets: integers of shape ``[...]``: int64, int32 or uint32.
        reduction: ``"mean"`` over the targets that count, ``"sum"``, or ``"none"``.
        ignore_index: targets with this value do not count.
        label_smoothing: the share that all classes divide among themselves, from 0 to 1.
        out: where the losses go, float32 of shape ``[...]``, with ``reduction="none"``; else they are a new tensor.

    Returns:
        float32: a scalar, or the loss of each target. Differentiable in ``logits``.
    """
    _check_choice("cross_entropy: reduction", reduction, "mean", "sum", "none")
    if out is not None and reduction != "none":
        raise ValueError("cross_entropy: out= is possible with reduction='none' only")
    _check_arrays("cross_entropy", logits=logits, targets=targets)
    counted = targets != _index("cross_entropy: ignore_index", ignore_index)
    loss = call(_library.cross_entropy, [logits, _unsigned(targets), out, None, ignore_index, label_smoothing])[0]
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.sum() / counted.sum(dtype=loss.dtype)


_ACTIVATIONS = {"relu": relu, "gelu": gelu, "silu": silu}


def matmul(
    a: Any,
    b: Any,
    *,
    bias: Any = None,
    activation: str | None = None,
    residual: Any = None,
    scale_a: Any = None,
    scale_b: Any = None,
    tf32: bool = False,
    out_dtype: Any = None,
    out: Any = None,
) -> Any:
    """The matrix product ``activation(a · b + bias) + residual``.

    Args:
        a: float32, float16, bfloat16, float8_e4m3fn, float8_e5m2 or int8, of shape ``[..., m, k]``.
        b: of shape ``[k, n]``, or ``[batch, k, n]`` with ``a`` of shape ``[batch, m, k]``. Any strides: a transposed operand costs nothing.
        bias: of shape ``[n]``, for a ``b`` of two dimensions.
        activation: ``"relu"``, ``"gelu"``, ``"gelu_tanh"`` or ``"silu"``.
        residual: of the result's shape.
        scale_a: factors of the rows of ``a``, for operands of 8 bits: float32 of shape ``[..., m]``, or one number for all.
        scale_b: factors of the columns of ``b``: float32 of shape ``[n]``, or one number.
        tf32: float32 operands are cut to 11 significant bits, for tensor cores.
        out_dtype: float32 for a float32 result of half-precision operands; else the result has their type. Without a gradient. Operands of 8 bits
            have a result of bfloat16, float16 or float32; it is bfloat16 without ``out_dtype``.
        out: where the result goes; else it is a new tensor.

    Returns:
        ``[..., m, n]``. Sums are float32. Differentiable in ``a``, ``b``, ``bias`` and ``residual``, but for operands of 8 bits.
    """
    if activation is not None:
        _check_choice("matmul: activation", activation, "relu", "gelu", "gelu_tanh", "silu")
    _check_arrays("matmul", a=a, b=b)
    plain = bias is None and activation is None and residual is None
    if _dtype_name(a) in _FORMATS:
        _refuse("matmul", "operands of 8 bits", residual=residual)
        if b.ndim != 2:
            raise ValueError(f"matmul: b: expected two dimensions for operands of 8 bits, found {b.ndim}")
        return _scaled_matmul(a, b, [scale_a, scale_b], bias, activation, out_dtype, out)
    _refuse("matmul", "other operands than those of 8 bits", scale_a=scale_a, scale_b=scale_b)
    if b.ndim == 3:
        _refuse("matmul", "a b of three dimensions", bias=bias, activation=activation, residual=residual, out_dtype=out_dtype)
        return call(_library.batched_matmul, [a, b, out, tf32])
    if out_dtype is not None:
        out = _result_of_type(a, (*a.shape[:-1], b.shape[-1]), out_dtype, out)
        return call(_library.linear, [a, b, bias, residual, out, activation or "none", tf32])
    if out is None and _differentiates(a, b, bias, residual):
        made = call(_library.matmul, [a, b, None, tf32])
        made = made if bias is None else made + bias
        made = made if activation is None else _activate(made, activation)
        return made if residual is None else made + residual
    if plain:
        return call(_library.matmul, [a, b, out, tf32])
    return call(_library.linear, [a, b, bias, residual, out, activation or "none", tf32])


# Operands of 8 bits: the names of their types in Rust.
_FORMATS = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "int8": "int8"}


def _scaled_matmul(
    a: Any, b: Any, scales: list[Any], bias: Any, activation: str | None, out_dtype: Any, out: Any
) -> Any:
    """A product of operands of 8 bits."""
    names = [_dtype_name(operand) for operand in (a, b)]
    if names[0] != names[1]:
        raise TypeError(f"matmul: b: expected a tensor of {names[0]}, the type of a, found {names[1]}")
    out = _result_of_type(a, (*a.shape[:-1], b.shape[-1]), out_dtype, out)
    shapes = {"scale_a": a.shape[:-1], "scale_b": b.shape[1:]}
    factors = [_factors(f"matmul: {name}", scale, shape, a) for (name, shape), scale in zip(shapes.items(), scales)]
    passed = [operand if names[0] == "int8" else _viewed(operand, "uint8") for operand in (a, b)]
    return call(_library.scaled_matmul, [*passed, *factors, bias, out, activation or "none", _FORMATS[names[0]]])


def grouped_matmul(a: Any, b: Any, offsets: Any, *, out_dtype: Any = None, out: Any = None) -> Any:
    """Products of groups of rows, each with a matrix of its own, as a mixture of experts needs them. One launch for all groups.

    Args:
        a: bfloat16 of shape ``[m, k]``, with the rows of a group side by side; ``k`` is a multiple of 8.
        b: bfloat16 of shape ``[groups, k, n]``, or a transposed ``[groups, n, k]``, which is faster; ``n`` is a multiple of 8.
        offsets: int32 (or uint32) of shape ``[groups + 1]``: group ``g`` has the rows from ``offsets[g]`` to ``offsets[g + 1]``. They are read
            where they are, so that a router on the GPU writes them.
        out_dtype: float32 for a float32 result; else it is bfloat16.
        out: where the result goes; else it is a new tensor.

    Returns:
        ``[m, n]``. Rows of no group have no defined value, or keep theirs in ``out``. Sums are float32. Differentiable in ``a`` and ``b``, for a
        bfloat16 result; the gradient of ``b`` is zero for groups without rows. A GPU needs compute capability 9.0.

    Raises:
        ValueError: ``offsets`` of NumPy decrease, or are outside of the rows of ``a``. On a GPU nothing reads them before the kernel: they must not
            decrease there.
    """
    _check_offsets(offsets, a)
    out = _result_of_type(a, (a.shape[0], b.shape[-1]), out_dtype, out)
    return call(_library.grouped_matmul, [a, b, _unsigned(offsets), out])


def _check_offsets(offsets: Any, a: Any) -> None:
    """Two groups have no row in common. Offsets on a GPU are not read."""
    if type(offsets).__module__ != "numpy" or getattr(offsets, "ndim", 0) != 1 or offsets.dtype.kind not in "iu":
        return
    values = [0, *offsets.tolist(), a.shape[0]]
    wrong = next((at for at, (low, high) in enumerate(zip(values, values[1:])) if low > high), None)
    if wrong is not None:
        low, high = values[wrong : wrong + 2]
        place = "is negative" if wrong == 0 else f"is followed by {high}" if wrong + 2 < len(values) else f"is behind the {high} rows of a"
        raise ValueError(f"grouped_matmul: offsets: {high if wrong == 0 else low} {place}; offsets must not decrease")


Window = tuple[int | None, int | None] | None


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    window: Window = None,
    bias: Any = None,
    scale: float | None = None,
    layout: str = "bshd",
    soft_cap: float = 0.0,
    deterministic: bool = False,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    out_dtype: Any = None,
    out: Any = None,
) -> Any:
    """Attention: ``softmax(q · kᵀ · scale + bias) · v`` for each head.

    Args:
        q: float16, bfloat16 or float8_e4m3fn of shape ``[batch, tokens, heads, elements]``; elements are a multiple of 8 (16 for float8_e4m3fn), at
            most 256.
        k: of shape ``[batch, tokens of k, heads of k, elements]``; heads of ``q`` may share those of ``k``.
        v: of shape ``[batch, tokens of k, heads of k, elements of v]``.
        causal: a query sees no key behind its own; the last query is aligned with the last key.
        window: the keys that a query sees in front of its own and behind it, ``None`` for all: ``(1023, 0)`` for a sliding window of 1024.
        bias: of shape ``[batch, heads, tokens, tokens of k]`` and the type of ``q``; minus infinity hides a key. Without a gradient.
        scale: the factor of the scores; ``1 / sqrt(elements)`` without it.
        layout: ``"bshd"``, or ``"bhsd"`` for tensors of shape ``[batch, heads, tokens, elements]``.
        soft_cap: scores become ``soft_cap · tanh(score / soft_cap)``, where it is not zero.
        deterministic: gradients have the same bits each time.
        q_descale: for float8_e4m3fn: an element of ``q`` is the tensor's times the factor of its sequence and head of ``k``. float32 of shape
            ``[batch, heads of k]``, positive, or one number for all; one without it.
        k_descale: as ``q_descale``, for ``k``.
        v_descale: as ``q_descale``, for ``v``; of any sign.
        out_dtype: for float8_e4m3fn: bfloat16, as without it, or float16.
        out: where the result goes; else it is a new tensor.

    Returns:
        A tensor like ``q`` with the elements of ``v``. Differentiable in ``q``, ``k`` and ``v``, but for float8_e4m3fn.
    """
    _check_choice("attention: layout", layout, "bshd", "bhsd")
    left, right = _bounds("attention", window, causal)
    descales = {"q_descale": q_descale, "k_descale": k_descale, "v_descale": v_descale}
    if _dtype_name(q) in ("float8_e4m3fn", "uint8"):
        _refuse("attention", "float8_e4m3fn", bias=bias)
        function = _library.attention_e4m3 if layout == "bshd" else _library.attention_bhsd_e4m3
        inputs, out = _e4m3_inputs([q, k, v], list(descales.values()), layout, out_dtype, out)
        return call(function, [*inputs, out, None, causal, scale, soft_cap, left, right])
    _refuse("attention", "other types than float8_e4m3fn", **descales, out_dtype=out_dtype)
    function = _library.attention if layout == "bshd" else _library.attention_bhsd
    return call(function, [q, k, v, bias, out, None, causal, scale, soft_cap, left, right, deterministic])


def _e4m3_inputs(tensors: list[Any], descales: list[Any], layout: str, out_dtype: Any, out: Any) -> tuple[list[Any], Any]:
    """Tensors of e4m3 and their factors as the library takes them, and where the result goes, if that is known."""
    q, k, v = tensors
    for name, tensor in (("k", k), ("v", v)):
        if _dtype_name(tensor) != _dtype_name(q):
            raise TypeError(f"attention: {name}: expected a tensor of {_dtype_name(q)}, the type of q, found {_dtype_name(tensor)}")
    out = _result_of_type(q, (*q.shape[:-1], v.shape[-1]), out_dtype, out)
    heads = 2 if layout == "bshd" else 1
    shape = (k.shape[0], k.shape[heads]) if k.ndim == 4 else ()
    named = zip(("q_descale", "k_descale", "v_descale"), descales)
    return [*map(_e4m3_as_bytes, tensors), *(_factors(f"attention: {name}", factor, shape, q) for name, factor in named)], out


def attention_varlen(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    causal: bool = False,
    window: Window = None,
    scale: float | None = None,
    soft_cap: float = 0.0,
    deterministic: bool = False,
    out: Any = None,
) -> Any:
    """Attention of sequences of different lengths, packed behind each other: a sequence sees its own keys.

    Args:
        q: float16 or bfloat16 of shape ``[tokens, heads, elements]``; elements are a multiple of 8, at most 256.
        k: of shape ``[tokens of k, heads of k, elements]``.
        v: of shape ``[tokens of k, heads of k, elements of v]``.
        cu_seqlens_q: int32 of shape ``[sequences + 1]``: sequence ``i`` has the tokens from ``cu_seqlens_q[i]`` to ``cu_seqlens_q[i + 1]``. They are
            read where they are.
        cu_seqlens_k: the same for ``k`` and ``v``.
        max_seqlen_q: a length that no sequence of ``q`` exceeds.
        max_seqlen_k: a length that no sequence of ``k`` exceeds.
        causal: as for `attention`, in each sequence.
        window: as for `attention`.
        scale: the factor of the scores; ``1 / sqrt(elements)`` without it.
        soft_cap: scores become ``soft_cap · tanh(score / soft_cap)``, where it is not zero.
        deterministic: gradients have the same bits each time.
        out: where the result goes; else it is a new tensor.

    Returns:
        A tensor like ``q`` with the elements of ``v``. Rows of no sequence have no defined value. Differentiable in ``q``, ``k`` and ``v``.
    """
    _check_arrays("attention_varlen", q=q, k=k, v=v)
    left, right = _bounds("attention_varlen", window, causal)
    inputs = [q[None], k[None], v[None], cu_seqlens_q, cu_seqlens_k, None if out is None else out[None], None]
    made = call(
        _library.attention_varlen,
        [*inputs, max_seqlen_q, max_seqlen_k, causal, scale, soft_cap, left, right, deterministic],
    )
    return made[0] if out is None else out


def attention_decode(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    lengths: Any,
    *,
    block_table: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    causal: bool = True,
    window: Window = None,
    scale: float | None = None,
    soft_cap: float = 0.0,
    out: Any = None,
) -> Any:
    """Attention of new tokens to a cache of keys and values: one launch, which splits the keys among the processors.

    The lengths and the table are read on the GPU, so one captured graph serves every step.

    Args:
        q: float16 or bfloat16 of shape ``[batch, tokens, heads, elements]``: 1 to 16 new tokens of each sequence.
        k_cache: of shape ``[batch, capacity, heads of k, elements]``, or ``[pages, page size, heads of k, elements]`` with a table. It holds the
            keys of the new tokens already (`attention_append`). Of the type of ``q``, or float8_e4m3fn.
        v_cache: as ``k_cache``, with the elements of v.
        lengths: int32 of shape ``[batch]``: the keys of each sequence, new ones included.
        block_table: int32 of shape ``[batch, pages of a sequence]``: token t of sequence b lies in page ``block_table[b][t // page size]``.
        k_scale: float32 of shape ``[heads of k]``: a key is the cache's times the factor of its head. Together with ``v_scale``.
        v_scale: as ``k_scale``, for values.
        causal: a query sees no key behind its own; the last query is aligned with the last key.
        window: as for `attention`.
        scale: the factor of the scores; ``1 / sqrt(elements)`` without it.
        soft_cap: scores become ``soft_cap · tanh(score / soft_cap)``, where it is not zero.
        out: where the result goes; else it is a new tensor.

    Returns:
        A tensor like ``q`` with the elements of ``v_cache``. Without a gradient.
    """
    caches = [_e4m3_as_bytes(cache) for cache in (k_cache, v_cache)]
    bounds = _bounds("attention_decode", window, causal)
    values = [q, *caches, lengths, block_table, k_scale, v_scale, out, None, causal, scale, soft_cap, *bounds]
    return call(_library.attention_decode, values)


def attention_prefill(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    lengths: Any,
    *,
    block_table: Any = None,
    causal: bool = True,
    window: Window = None,
    scale: float | None = None,
    soft_cap: float = 0.0,
    out: Any = None,
) -> Any:
    """Attention of a chunk of new tokens to a cache that holds their keys and values already.

    Args:
        q: float16 or bfloat16 of shape ``[batch, tokens, heads, elements]``: any number of new tokens; for up to 16 `attention_decode` is faster.
        k_cache: as for `attention_decode`, of the type of ``q``.
        v_cache: as ``k_cache``, with the elements of v.
        lengths: int32 of shape ``[batch]``: the keys of each sequence, new ones included.
        block_table: as for `attention_decode`.
        causal: a query sees no key behind its own; the last query is aligned with the last key.
        window: as for `attention`.
        scale: the factor of the scores; ``1 / sqrt(elements)`` without it.
        soft_cap: scores become ``soft_cap · tanh(score / soft_cap)``, where it is not zero.
        out: where the result goes; else it is a new tensor.

    Returns:
        A tensor like ``q`` with the elements of ``v_cache``. Without a gradient.
    """
    bounds = _bounds("attention_prefill", window, causal)
    values = [q, k_cache, v_cache, lengths, block_table, out, None, causal, scale, soft_cap, *bounds]
    return call(_library.attention_prefill, values)


def attention_decode_latent(
    q: Any,
    cache: Any,
    lengths: Any,
    v_elements: int,
    *,
    block_table: Any = None,
    causal: bool = True,
    scale: float | None = None,
    out: Any = None,
) -> Any:
    """Attention of new tokens to a cache of latent attention (MLA), with the projections of keys and values absorbed into ``q`` and the output.

    Args:
        q: float16 or bfloat16 of shape ``[batch, tokens, heads, elements]``: 1 to 16 new tokens of each sequence, at most 576 elements.
        cache: of shape ``[batch, capacity, 1, elements]``, or ``[pages, page size, 1, elements]`` with a table. A row is the key of all heads, and
            its first elements are the value.
        lengths: int32 of shape ``[batch]``: the keys of each sequence, new ones included.
        v_elements: the elements of a value, at most 512.
        block_table: as for `attention_decode`.
        causal: a query sees no key behind its own; the last query is aligned with the last key.
        scale: the factor of the scores: that of the heads before the absorption. ``1 / sqrt(elements)`` without it.
        out: where the result goes; else it is a new tensor.

    Returns:
        ``[batch, tokens, heads, v_elements]``. Without a gradient.
    """
    _check_arrays("attention_decode_latent", q=q)
    if _index("attention_decode_latent: v_elements", v_elements) < 1:
        raise ValueError(f"attention_decode_latent: v_elements: expected at least 1, found {v_elements}")
    if out is None:
        out = _like(q, (*q.shape[:-1], v_elements), q.dtype)
    elif tuple(out.shape) != (*q.shape[:-1], v_elements):
        raise ValueError(f"attention_decode_latent: out: expected shape {(*q.shape[:-1], v_elements)}, found {tuple(out.shape)}")
    return call(_library.attention_decode_latent, [q, cache, lengths, block_table, out, None, causal, scale])


def attention_append(
    k: Any,
    v: Any,
    k_cache: Any,
    v_cache: Any,
    lengths: Any,
    *,
    block_table: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
) -> Any:
    """Writes new keys and values to a cache, at the places of the last tokens of each sequence: one launch.

    The lengths and the table are read on the GPU, so one captured graph serves every step. A token that the cache has no place for is left out.

    Args:
        k: float16 or bfloat16 of shape ``[batch, new tokens, heads, elements]``.
        v: as ``k``, with the elements of v.
        k_cache: as for `attention_decode`; it is written. Elements of float8_e4m3fn are those of ``k``, divided by the factor of their head and rounded.
        v_cache: as ``k_cache``, with the elements of v.
        lengths: int32 of shape ``[batch]``: the keys of each sequence, new ones included.
        block_table: as for `attention_decode`.
        k_scale: as for `attention_decode`.
        v_scale: as ``k_scale``, for values.

    Returns:
        The caches. With JAX they are new arrays, in the memory of the old ones where these are donated or not used again.
    """
    before = (k_cache, v_cache)
    passed = [_e4m3_as_bytes(cache) for cache in before]
    made = call(_library.attention_append, [k, v, lengths, block_table, k_scale, v_scale, *passed])
    if all(after is given for after, given in zip(made, passed)):
        return before
    return tuple(after if after.dtype == cache.dtype else _viewed(after, cache.dtype) for after, cache in zip(made, before))


def rotary(x: Any, cos: Any, sin: Any, positions: Any, *, interleaved: bool = False, out: Any = None) -> Any:
    """Rotary position embedding: rotates pairs of elements by the angles of their positions.

    Args:
        x: float32, float16 or bfloat16 of shape ``[..., heads, elements]``.
        cos: float32 of shape ``[positions, pairs]``.
        sin: as ``cos``.
        positions: the row of the tables for each token: int64, int32 or uint32 of shape ``[...]``.
        interleaved: pairs are neighbors, as in GPT-J; else an element of the first half and one of the second, as in Llama.
        out: where the result goes; else it is a new tensor.

    Returns:
        A tensor like ``x``. Differentiable in ``x``.
    """
    return call(_library.rotary, [x, cos, sin, _unsigned(positions), out, interleaved])


def _refuse(name: str, case: str, **options: Any) -> None:
    """An error for an optional argument that is given where there is none."""
    for option, value in options.items():
        if value is not None:
            raise ValueError(f"{name}: {option}: not possible for {case}")


def _check_choice(name: str, value: Any, *choices: str) -> None:
    """An error for an option that is none of these words. ``name`` is for it."""
    if isinstance(value, str) and value in choices:
        return
    words = [repr(choice) for choice in choices]
    found = repr(value) if value is None or isinstance(value, (str, int, float)) else type(value).__name__
    raise ValueError(f"{name}: expected {', '.join(words[:-1])} or {words[-1]}, found {found}")


def _index(name: str, value: Any) -> int:
    """A whole number of at most 64 bits. ``name`` is for errors."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an int, found {'None' if value is None else type(value).__name__}") from None
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError(f"{name}: {number} has more than 64 bits")
    return number


def _bounds(name: str, window: Window, causal: bool) -> tuple[int | None, int | None]:
    """The two sides of a window."""
    if window is None:
        return None, None
    if not isinstance(window, (tuple, list)) or len(window) != 2:
        raise TypeError(f"{name}: window: expected two numbers, each None or at least 0, found {window!r}")
    if causal and window[1] not in (None, 0):
        raise ValueError(f"{name}: window: causal attention sees no key behind its own, found {window!r}")
    return window[0], window[1]


def _check_arrays(function: str, **arguments: Any) -> None:
    """An error for an argument that is no array or tensor of any framework."""
    for name, value in arguments.items():
        if not hasattr(value, "shape") or not hasattr(value, "ndim"):
            raise TypeError(f"{function}: {name}: expected an array, found {'None' if value is None else type(value).__name__}")


def _factors(name: str, value: Any, shape: tuple[Any, ...], like: Any) -> Any:
    """Factors of this shape, in the framework of ``like``: a number, or a tensor of one, counts for all. ``name`` is for errors."""
    if value is None:
        return None
    if isinstance(value, (int, float)):
        value = _number(value, like)
    if not hasattr(value, "ndim"):
        raise TypeError(f"{name}: expected a number or an array, found {type(value).__name__}")
    if value.ndim > 0 and tuple(value.shape) != (1,):
        return value
    if hasattr(value, "is_cuda"):
        return value.reshape(()).expand(shape)
    module = _module_of(value)
    return module.array(module.broadcast_to(value.reshape(()), shape))


def _number(value: float, like: Any) -> Any:
    """A tensor of one float32, in the framework and place of ``like``."""
    if hasattr(like, "is_cuda"):
        return like.new_full((), value, dtype=_torch_type("float32"))
    return _module_of(like).full((), value, "float32")


def _unsigned(tensor: Any) -> Any:
    """Integers of 32 bits without a sign, which the kernels take; others as they are."""
    return _viewed(tensor, "uint32") if _dtype_name(tensor) == "int32" else tensor


def _e4m3_as_bytes(tensor: Any) -> Any:
    """Elements of 8 bits as bytes, which the kernels take; others as they are."""
    return _viewed(tensor, "uint8") if _dtype_name(tensor) == "float8_e4m3fn" else tensor


def _dtype_name(tensor: Any) -> str:
    return str(getattr(tensor, "dtype", None)).rpartition(".")[2]


def _viewed(tensor: Any, dtype: Any) -> Any:
    """The same bits as another type of the same size."""
    if hasattr(tensor, "is_cuda"):
        return tensor.view(_torch_type(dtype))
    if _is_jax(tensor):
        import jax

        return jax.lax.bitcast_convert_type(tensor, dtype)
    return tensor.view(dtype)


def _activate(x: Any, activation: str) -> Any:
    return gelu(x, "tanh") if activation == "gelu_tanh" else _ACTIVATIONS[activation](x)


def _differentiates(*tensors: Any) -> bool:
    """True if a gradient may be asked for: always in JAX, in PyTorch where it is required."""
    for tensor in tensors:
        if tensor is None:
            continue
        if hasattr(tensor, "is_cuda"):
            if tensor.requires_grad:
                return True
        elif _is_jax(tensor):
            return True
    return False


def _result_of_type(tensor: Any, shape: tuple[Any, ...], dtype: Any, out: Any) -> Any:
    """Where a result of another type than the operands' goes: to ``out``, or else to a new tensor; ``out`` without such a type."""
    if dtype is None or out is not None:
        return out
    if _is_jax(tensor):
        raise TypeError("out_dtype is not possible in JAX; cast the result")
    return _like(tensor, shape, dtype)


def _like(tensor: Any, shape: tuple[Any, ...], dtype: Any) -> Any:
    """A new tensor of the same framework and place."""
    if hasattr(tensor, "is_cuda"):
        return tensor.new_empty(shape, dtype=_torch_type(dtype))
    return _module_of(tensor).empty(shape, dtype)


def _is_contiguous(tensor: Any) -> bool:
    """True if elements lie in row-major order without gaps; those of JAX do."""
    if hasattr(tensor, "is_cuda"):
        return bool(tensor.is_contiguous())
    return bool(getattr(getattr(tensor, "flags", None), "c_contiguous", True))


def _module_of(array: Any) -> Any:
    """The module that makes arrays of this kind."""
    return importlib.import_module("jax.numpy" if _is_jax(array) else _framework(array))


def _framework(array: Any) -> str:
    """The name of the package that an array is from."""
    return type(array).__module__.partition(".")[0]


def _is_jax(array: Any) -> bool:
    return _framework(array) in ("jax", "jaxlib")


def _torch_type(dtype: Any) -> Any:
    """A type of PyTorch, by its name or as it is."""
    import torch

    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype):
        raise TypeError(f"expected a type of PyTorch, found {dtype!r}")
    return found


def _move(tensor: Any, source: int, target: int) -> Any:
    """The tensor with a dimension elsewhere, without gaps."""
    if hasattr(tensor, "is_cuda"):
        return tensor.movedim(source, target).contiguous()
    module = _module_of(tensor)
    moved = module.moveaxis(tensor, source, target)
    return moved if _is_jax(tensor) else module.ascontiguousarray(moved)

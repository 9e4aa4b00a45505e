"""Calls with JAX's arrays, on GPUs and on the CPU: jit, grad and vmap."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any, Callable, Iterable, Iterator, Sequence, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jax.interpreters.ad import JVPTracer

from . import _native_library
from ._formulas import formula_of, forward_inputs
from ._function import LEADING, Function, Param
from ._jax_partition import partitioned

_PLATFORMS = {"CUDA": "cuda", "cpu": "cpu"}


# The meaning of a custom call's operands and attributes. A program that `jax.export` or a cache keeps names it.
_VERSION = 1


def _target(function: Function) -> str:
    """The name of a function's custom call, the same in every process."""
    return f"{function.target}.v{_VERSION}"


def _kept(make: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps what a function has made, by its arguments. Zeros of both signs are equal, and are not the same."""

    @functools.lru_cache(maxsize=None)
    def find(signs: tuple[float, ...], *arguments: Any) -> Any:
        return make(*arguments)

    def keeping(*arguments: Any) -> Any:
        return find(tuple(_signs(arguments)), *arguments)

    return keeping


def _signs(values: Iterable[Any]) -> Iterator[float]:
    """The signs of all numbers that are not whole, in tuples of tuples."""
    for value in values:
        if isinstance(value, tuple):
            yield from _signs(value)
        elif isinstance(value, float):
            yield math.copysign(1.0, value)


_registered: set[str] = set()


def define(functions: Iterable[Function]) -> None:
    """Registers functions with XLA. Kernels from text share a custom call, whose attribute says which one it is."""
    for function in functions:
        target = _target(function)
        if target in _registered:
            continue
        _registered.add(target)
        for platform, suffix in _PLATFORMS.items():
            symbol = function.library._address(f"__xla_ffi_{function.handler}_{suffix}")
            jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(symbol), platform=platform)


def export_checks() -> list[Any]:
    """The checks of `jax.export` that the custom calls of all libraries pass: their names and meaning are stable."""
    from jax import export

    every = {_target(function) for library in _native_library.loaded() for function in library}
    return [export.DisabledSafetyCheck.custom_call(target) for target in sorted(every)]


class _Jax:
    """The functions of JAX for formulas."""

    exp, erf, tanh, sigmoid, where, zeros_like = jnp.exp, jax.lax.erf, jnp.tanh, jax.nn.sigmoid, jnp.where, jnp.zeros_like

    @staticmethod
    def matmul(a: Any, b: Any) -> Any:
        return jnp.matmul(a, b, precision="highest")

    @staticmethod
    def wide(x: Any) -> Any:
        return x.astype(jnp.float32)

    @staticmethod
    def cast(x: Any, like: Any) -> Any:
        return x.astype(like.dtype)

    @staticmethod
    def classes(x: Any) -> Any:
        return x.astype(jnp.int32)

    @staticmethod
    def zeros(shape: Any, like: Any) -> Any:
        return jnp.zeros(shape, like.dtype)

    @staticmethod
    def mean(x: Any) -> Any:
        return x.mean(-1, keepdims=True)

    @staticmethod
    def sum(x: Any) -> Any:
        return x.sum(-1, keepdims=True)

    @staticmethod
    def log_softmax(x: Any) -> Any:
        return jax.nn.log_softmax(x, -1)

    @staticmethod
    def take(x: Any, classes: Any) -> Any:
        return jnp.take_along_axis(x, classes[..., None], -1)[..., 0]

    @staticmethod
    def stack(parts: list[Any]) -> Any:
        return jnp.stack(parts, -1)

    @staticmethod
    def concatenate(parts: list[Any]) -> Any:
        return jnp.concatenate(parts, -1)


def call(function: Function, values: list[Any]) -> Any:
    """Calls a function. Its outputs are new arrays: JAX's arrays cannot be written.

    Outputs whose shape the library does not say are passed, as what they are before the call.
    """
    present = tuple(at for at in function.tensors if values[at] is not None)
    arrays = _varying_alike([_as_array(function, at, values[at]) for at in present])
    scalars = tuple((at, _scalar(function, at, values[at])) for at in function.inputs if at not in function.tensors)
    updated = tuple(at for at in function.outputs if values[at] is not None)
    # Errors come here, at trace time, and name the argument.
    known = _infer(function, present, arrays)
    for at in updated:
        if at in known and not function.updates:
            name = function.params[at].name
            raise TypeError(f"{function.label}() got {name}=: JAX arrays are immutable, and outputs are returned")
    if updated:
        before = [_as_array(function, at, values[at]) for at in updated]
        every = _varying_alike([*arrays, *before])
        arrays, before = every[: len(arrays)], every[len(arrays) :]
        made = _updating(function, (present, updated), scalars)(*arrays, *before)
    else:
        _results(function, known, function.main_outputs)
        made = _differentiable(function, present, scalars)(*arrays)
    return made[0] if len(made) == 1 else tuple(made)


def _as_array(function: Function, at: int, value: Any) -> Any:
    if not isinstance(value, (jax.Array, np.ndarray)):
        name = function.params[at].name
        raise TypeError(f"{function.label}: {name}: expected an array, found {type(value).__name__}")
    return jnp.asarray(value)


def _scalar(function: Function, at: int, value: Any) -> Any:
    """A scalar as an attribute of XLA's."""
    param = function.params[at]
    if value is None:
        return None
    try:
        if param.kind == "float" and not isinstance(value, (str, bytes, bool, np.bool_)):
            return _held(param, float(value))
        if param.kind == "int" and not isinstance(value, (str, bytes)):
            return _in_range(param, operator.index(value))
        if param.kind == "bool" and isinstance(value, (bool, np.bool_, jax.core.Tracer)):
            return bool(value)
        if param.kind == "str" and isinstance(value, str):
            return value
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerIntegerConversionError):
        raise TypeError(f"{function.label}: {param.name}: must be known when the function is traced") from None
    except _Outside as error:
        raise ValueError(f"{function.label}: {param.name}: {error}") from None
    except OverflowError as error:
        raise OverflowError(f"{function.label}: {param.name}: {error}") from None
    except (TypeError, ValueError):
        pass
    raise TypeError(f"{function.label}: {param.name}: expected {param.kind}, found {type(value).__name__}")


class _Outside(Exception):
    """A number that a parameter's type cannot hold."""


def _held(param: Param, value: float) -> float:
    # A library of an earlier version does not have the type.
    dtype = jnp.dtype(str(param.dtype) or "float64")
    with np.errstate(over="ignore"):
        if math.isfinite(value) and np.isinf(dtype.type(value)):
            raise _Outside(f"{value!r} is too large for {param.dtype}")
    return value


def _in_range(param: Param, value: int) -> int:
    if not -(1 << 63) <= value < 1 << 64:
        raise OverflowError(f"{value} has more than 64 bits")
    low, high = param.range
    if not low <= value <= high:
        raise _Outside(f"{value} is outside of {low} to {high}")
    return value


def _infer(function: Function, present: Sequence[int], arrays: Sequence[Any]) -> dict[int, Any]:
    """Shapes and types of the outputs."""
    shapes: list[Any] = [None] * len(function.params)
    dtypes: list[Any] = [None] * len(function.params)
    for at, array in zip(present, arrays):
        shapes[at], dtypes[at] = array.shape, array.dtype.name
    return function.infer(shapes, dtypes)


def _varying(array: Any) -> frozenset[str]:
    """The axes of a mesh along which an array differs, inside of `shard_map`."""
    kind = jax.typeof(array) if hasattr(jax, "typeof") else None
    # `vma` in earlier versions of JAX.
    manual = getattr(kind, "manual_axis_type", None)
    return frozenset(getattr(manual, "varying", getattr(kind, "vma", frozenset())))


def _varying_alike(arrays: list[Any]) -> list[Any]:
    """The arrays, each varying along the axes of all: a custom call takes no others. The gradient of such a step is a sum over its axes."""
    axes = [_varying(array) for array in arrays]
    every = frozenset().union(*axes)

    def spread(array: Any, missing: tuple[str, ...]) -> Any:
        lax: Any = jax.lax
        return lax.pcast(array, missing, to="varying") if hasattr(lax, "pcast") else lax.pvary(array, missing)

    return [spread(array, tuple(sorted(every - its))) if every != its else array for array, its in zip(arrays, axes)]


def _described(shape: Any, dtype: Any, like: Any) -> Any:
    """The type of a result, which varies along the axes of an operand."""
    if like is None or not _varying(like):
        return jax.ShapeDtypeStruct(shape, dtype)
    kind, struct = jax.typeof(like), cast(Any, jax.ShapeDtypeStruct)
    if not hasattr(kind, "manual_axis_type"):
        return struct(shape, dtype, vma=kind.vma)
    sharding = jax.sharding.NamedSharding(kind.sharding.mesh, jax.sharding.PartitionSpec(*(None for _ in shape)))
    return struct(shape, dtype, sharding=sharding, manual_axis_type=kind.manual_axis_type)


def _results(function: Function, made: dict[int, Any], outputs: Sequence[int], like: Any = None) -> list[Any]:
    for at in outputs:
        if at not in made:
            raise function.missing_shape(at)
    return [_described(made[at][0], jnp.dtype(made[at][1]), like) for at in outputs]


# Attributes of custom calls that belong to no parameter.
_RESERVED = frozenset(["absent", "updated", "negative_zeros", "__function"])


def _attributes(function: Function, tensors: Sequence[int], scalars: Any) -> dict[str, Any]:
    """The attributes of a call with these tensors."""
    absent = 0
    for at, param in enumerate(function.params):
        if param.is_tensor and at not in tensors:
            absent |= 1 << at
    attributes: dict[str, Any] = {"absent": np.int64(absent), **{name: np.int64(value) for name, value in function.attributes.items()}}
    for at, value in scalars:
        name = function.params[at].attribute
        if name in _RESERVED:
            raise TypeError(f"{function.label}: {name}: custom calls have an attribute of this name; call the parameter something else")
        if value is not None:
            attributes[name] = _attribute(value)
    # JAX, too, takes a call for an earlier one with equal attributes.
    if negative := [at for at, value in scalars if isinstance(value, float) and value == 0 and math.copysign(1.0, value) < 0]:
        attributes["negative_zeros"] = np.int64(sum(1 << at for at in negative))
    return attributes


def _invoke(function: Function, present: Any, scalars: Any, outputs: tuple[int, ...], arrays: Sequence[Any]) -> tuple[Any, ...]:
    """XLA's custom call with these outputs."""
    attributes = _attributes(function, (*present, *outputs), scalars)

    def of_one_device(*arrays: Any) -> tuple[Any, ...]:
        shapes = _results(function, _infer(function, present, arrays), outputs, arrays[0])
        return tuple(jax.ffi.ffi_call(_target(function), shapes)(*arrays, **attributes))

    return partitioned(function, present, outputs, of_one_device, arrays)(*arrays)


@_kept
def _updating(function: Function, tensors: Any, scalars: Any) -> Any:
    """XLA's custom call with outputs that begin as arrays, behind the others: in their memory, where nothing else needs it, or in a copy."""
    present, updated = tensors
    every = (*present, *updated)
    outputs = [at for at in function.outputs if at in updated or at in function.main_outputs]
    attributes = _attributes(function, (*present, *outputs), scalars) | {"updated": np.int64(len(updated))}
    aliases = {len(present) + number: outputs.index(at) for number, at in enumerate(updated)}

    def of_one_device(*arrays: Any) -> tuple[Any, ...]:
        made = _infer(function, every, arrays)
        made |= {at: (array.shape, array.dtype.name) for at, array in zip(updated, arrays[len(present) :])}
        shapes = _results(function, made, outputs, arrays[0])
        return tuple(jax.ffi.ffi_call(_target(function), shapes, input_output_aliases=aliases)(*arrays, **attributes))

    @custom_vmap
    def invoke(*arrays: Any) -> tuple[Any, ...]:
        return partitioned(function, every, outputs, of_one_device, arrays)(*arrays)

    @invoke.def_vmap
    def rule(_: int, batched: Sequence[bool], *arrays: Any) -> Any:
        return _one_by_one(invoke, batched, arrays)

    return _without_gradient(function, invoke)


def _one_by_one(invoke: Any, batched: Sequence[bool], arrays: Sequence[Any]) -> Any:
    """A call for each slice along the first dimension of the arrays that have it, as a rule for vmap."""
    moving = [array for array, is_batched in zip(arrays, batched) if is_batched]

    def one(parts: Sequence[Any]) -> Any:
        rest = iter(parts)
        return invoke(*[next(rest) if is_batched else array for array, is_batched in zip(arrays, batched)])

    made = jax.lax.map(one, tuple(moving))
    return made, tuple(True for _ in made)


def _without_gradient(function: Function, work: Any) -> Any:
    """The work of a function that has no gradient, with an error that names it where a derivative is asked for."""

    @jax.custom_jvp
    def run(*arrays: Any) -> Any:
        return work(*arrays)

    @run.defjvp
    def refuse(primals: Any, tangents: Any) -> Any:
        raise NotImplementedError(f"{function.label} has no gradient{_hint(function)}")

    return run


def _hint(function: Function) -> str:
    """The way to a gradient."""
    if function.library.is_own:
        return ""
    of_rust = isinstance(function.library, _native_library.Library)
    return "; export it with `backward = …`" if of_rust else "; make it differentiable with ptx_kernels.differentiable"


def _attribute(value: Any) -> Any:
    if isinstance(value, bool) or isinstance(value, str):
        return value
    if isinstance(value, float):
        return np.float64(value)
    # The library finds the number by its bits.
    return np.int64(value if value < 1 << 63 else value - (1 << 64))


@_kept
def _batchable(function: Function, present: Any, scalars: Any, outputs: tuple[int, ...]) -> Any:
    """The custom call, with the rule for vmap: leading dimensions take the new one, anything else runs in a loop."""

    @custom_vmap
    def invoke(*arrays: Any) -> tuple[Any, ...]:
        return _invoke(function, present, scalars, outputs, arrays)

    @invoke.def_vmap
    def rule(size: int, batched: Sequence[bool], *arrays: Any) -> Any:
        leading = [bool(function.params[at].dims) and function.params[at].dims[0] == LEADING for at in present]
        spreads = all(function.params[at].has_leading for at in outputs)
        if spreads and all(front or not is_batched for front, is_batched in zip(leading, batched)):
            spread = [
                jnp.broadcast_to(array, (size, *array.shape)) if front and not is_batched else array
                for array, front, is_batched in zip(arrays, leading, batched)
            ]
            made = invoke(*spread)
            return made, tuple(True for _ in made)
        return _one_by_one(invoke, batched, arrays)

    return invoke


@_kept
def _second(source: Function, function: Function, present: Any, scalars: Any, outputs: tuple[int, ...]) -> Any:
    """A backward function whose own gradients, of any order, come from the formula of the operation."""
    names = [function.params[at].name for at in present]
    numbers = {function.params[at].name: value for at, value in scalars}
    primal = _batchable(function, present, scalars, outputs)

    @jax.custom_vjp
    def run(*arrays: Any) -> Any:
        return primal(*arrays)

    def exact(*arrays: Any) -> tuple[Any, ...]:
        made = _pulled_back(source, function, {**numbers, **dict(zip(names, arrays))})
        return tuple(made[function.params[at].name] for at in outputs)

    def pull_back(arrays: Any, cotangents: Any) -> Any:
        return jax.vjp(exact, *arrays)[1](tuple(cotangents))

    def call(*arrays: Any) -> Any:
        return exact(*arrays) if _is_forward_mode(arrays) else run(*arrays)

    run.defvjp(lambda *arrays: (call(*arrays), arrays), pull_back)
    return call


def _is_forward_mode(arrays: Sequence[Any]) -> bool:
    """True where JAX takes a forward-mode derivative, which kernels do not have. Inside of a `jax.jit` that is differentiated it cannot be seen."""
    return any(isinstance(_unbatched(array), JVPTracer) for array in arrays)


def _unbatched(array: Any) -> Any:
    """The array that `jax.vmap` has a part of."""
    while isinstance(array, jax.core.Tracer) and hasattr(array, "batch_dim"):
        array = array.val
    return array


def _by_formula(function: Function, present: Any, scalars: Any, outputs: tuple[int, ...], arrays: Sequence[Any]) -> tuple[Any, ...] | None:
    """The outputs by the formula of the function, in forward mode.

    Raises:
        NotImplementedError: there is no formula.
    """
    if not _is_forward_mode(arrays):
        return None
    formula = formula_of(function)
    if formula is None:
        raise NotImplementedError(f"{function.label} has no forward-mode derivative; use reverse mode: jax.grad, jax.vjp")
    values: dict[str, Any] = {function.params[at].name: None for at in function.inputs}
    values |= {function.params[at].name: array for at, array in zip(present, arrays)}
    values |= {function.params[at].name: value for at, value in scalars}
    made = formula(_Jax, **values)
    return tuple(made[function.params[at].name] for at in outputs)


def _pulled_back(source: Function, function: Function, values: dict[str, Any]) -> dict[str, Any]:
    """The gradients of an operation by their names, as JAX can differentiate them."""
    own = formula_of(function)
    if own is not None:
        return own(_Jax, **{function.params[at].name: values.get(function.params[at].name) for at in function.inputs})
    forward = formula_of(source)
    if forward is None:
        raise NotImplementedError(f"{source.label} has no second derivative: {function.label} has no gradient")
    named, wanted = forward_inputs(_Jax, source, function, values)

    def of_wanted(*arrays: Any) -> dict[str, Any]:
        made = forward(_Jax, **{**named, **dict(zip(wanted, arrays))})
        return {name: value for name, value in made.items() if f"grad_{name}" in values}

    made, back = jax.vjp(of_wanted, *[named[name] for name in wanted])
    return {f"grad_{name}": grad for name, grad in zip(wanted, back({name: values[f"grad_{name}"] for name in made}))}


@_kept
def _differentiable(function: Function, present: Any, scalars: Any) -> Any:
    main = tuple(function.main_outputs)
    primal = _batchable(function, present, scalars, main)
    backward = function.backward
    if backward is None:
        return _without_gradient(function, primal)
    saved = main + tuple(at for at in function.saved_outputs() if at not in main)
    saving = _batchable(function, present, scalars, saved)

    # Also with what the gradients read, so that gradients can be differentiated.
    @jax.custom_vjp
    def run_saved(*arrays: Any) -> Any:
        return saving(*arrays)

    @jax.custom_vjp
    def run(*arrays: Any) -> Any:
        return primal(*arrays)

    def forward_saved(*arrays: Any) -> Any:
        made = _by_formula(function, present, scalars, saved, arrays) or run_saved(*arrays)
        return made, (arrays, made)

    def forward(*arrays: Any) -> Any:
        made, residuals = forward_saved(*arrays)
        return made[: len(main)], residuals

    def pull_back(residuals: Any, cotangents: Any) -> tuple[Any, ...]:
        arrays, made = residuals
        known = {function.params[at].name: array for at, array in zip(present, arrays)}
        known |= {function.params[at].name: array for at, array in zip(saved, made)}
        known |= {f"grad_{function.params[at].name}": array for at, array in zip(main, cotangents)}
        numbers = {function.params[at].name: value for at, value in scalars}
        needed = tuple(at for at in backward.tensors if backward.params[at].name in known)
        inputs = [known[backward.params[at].name] for at in needed]
        for at in backward.tensors:
            if at not in needed and not backward.params[at].optional:
                raise TypeError(f"{backward.label}: nothing is called {backward.params[at].name!r} in {function.label}")
        passed = tuple(
            (at, numbers.get(backward.params[at].name, backward.params[at].default))
            for at in backward.inputs
            if at not in backward.tensors
        )
        wanted = tuple((at, grad) for at, grad in function.gradient_inputs() if at in present)
        outputs = tuple(sorted(grad for _, grad in wanted))
        found = _second(function, backward, needed, passed, outputs)(*inputs)
        grads = dict(zip(outputs, found))
        of_input = dict(wanted)
        return tuple(grads[of_input[at]] if at in of_input else None for at in present)

    run_saved.defvjp(forward_saved, pull_back)
    run.defvjp(forward, pull_back)
    return lambda *arrays: _by_formula(function, present, scalars, main, arrays) or run(*arrays)


_native_library.when_loaded(define)

"""Calls with JAX's arrays, on GPUs and on the CPU: jit, grad and vmap."""

from __future__ import annotations

import functools
from typing import Any, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from ._function import LEADING, Function

_PLATFORMS = {"CUDA": "cuda", "cpu": "cpu"}


class _State:
    """The target of a function, registered with XLA."""

    def __init__(self, function: Function) -> None:
        self.target = f"ptx_kernels.{function.library._name}.{id(function.library):x}.{function.name}"
        for platform, suffix in _PLATFORMS.items():
            symbol = function.library._address(f"__xla_ffi_{function.name}_{suffix}")
            jax.ffi.register_ffi_target(self.target, jax.ffi.pycapsule(symbol), platform=platform)


def _state(function: Function) -> _State:
    if function.jax_state is None:
        function.jax_state = _State(function)
    state: _State = function.jax_state
    return state


def call(function: Function, values: list[Any]) -> Any:
    """Calls a function. Its outputs are new arrays: JAX's arrays cannot be written.

    Outputs whose shape the library does not say are passed, as what they are before the call.
    """
    present = tuple(at for at in function.tensors if values[at] is not None)
    arrays = [_as_array(function, at, values[at]) for at in present]
    scalars = tuple((at, _scalar(function, at, values[at])) for at in function.inputs if at not in function.tensors)
    updated = tuple(at for at in function.outputs if values[at] is not None)
    # Errors come here, at trace time, and name the argument.
    known = _infer(function, present, arrays)
    for at in updated:
        if at in known:
            name = function.params[at].name
            raise TypeError(f"{function.label}() got {name}=: JAX arrays are immutable, and outputs are returned")
    if updated:
        before = [_as_array(function, at, values[at]) for at in updated]
        made = _update(function, (present, updated), scalars, arrays, before)
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
        if param.kind == "float" and not isinstance(value, (str, bytes)):
            return float(value)
        if param.kind == "int" and not isinstance(value, (str, bytes, float)):
            return int(value)
        if param.kind == "bool" and isinstance(value, (bool, np.bool_)):
            return bool(value)
        if param.kind == "str" and isinstance(value, str):
            return value
    except jax.errors.ConcretizationTypeError:
        raise TypeError(f"{function.label}: {param.name}: must be known when the function is traced") from None
    except (TypeError, ValueError):
        pass
    raise TypeError(f"{function.label}: {param.name}: expected {param.kind}, found {type(value).__name__}")


def _infer(function: Function, present: Sequence[int], arrays: Sequence[Any]) -> dict[int, Any]:
    """Shapes and types of the outputs."""
    shapes: list[Any] = [None] * len(function.params)
    dtypes: list[Any] = [None] * len(function.params)
    for at, array in zip(present, arrays):
        shapes[at], dtypes[at] = array.shape, array.dtype.name
    return function.infer(shapes, dtypes)


def _results(function: Function, made: dict[int, Any], outputs: Sequence[int]) -> list[Any]:
    for at in outputs:
        if at not in made:
            raise function.missing_shape(at)
    return [jax.ShapeDtypeStruct(made[at][0], jnp.dtype(made[at][1])) for at in outputs]


def _attributes(function: Function, tensors: Sequence[int], scalars: Any) -> dict[str, Any]:
    """The attributes of a call with these tensors."""
    absent = 0
    for at, param in enumerate(function.params):
        if param.is_tensor and at not in tensors:
            absent |= 1 << at
    attributes: dict[str, Any] = {"absent": np.int64(absent)}
    for at, value in scalars:
        if value is not None:
            attributes[function.params[at].name] = _attribute(value)
    return attributes


def _invoke(function: Function, present: Any, scalars: Any, outputs: tuple[int, ...], arrays: Sequence[Any]) -> tuple[Any, ...]:
    """XLA's custom call with these outputs."""
    shapes = _results(function, _infer(function, present, arrays), outputs)
    attributes = _attributes(function, (*present, *outputs), scalars)
    return tuple(jax.ffi.ffi_call(_state(function).target, shapes)(*arrays, **attributes))


def _update(function: Function, tensors: Any, scalars: Any, arrays: Sequence[Any], before: Sequence[Any]) -> tuple[Any, ...]:
    """XLA's custom call with outputs that begin as arrays: in their memory, where nothing else needs it, or in a copy."""
    present, updated = tensors
    made = _infer(function, [*present, *updated], [*arrays, *before])
    made |= {at: (array.shape, array.dtype.name) for at, array in zip(updated, before)}
    outputs = [at for at in function.outputs if at in updated or at in function.main_outputs]
    attributes = _attributes(function, (*present, *outputs), scalars) | {"updated": np.int64(len(updated))}
    aliases = {len(arrays) + number: outputs.index(at) for number, at in enumerate(updated)}
    shapes = _results(function, made, outputs)
    call = jax.ffi.ffi_call(_state(function).target, shapes, input_output_aliases=aliases)
    return tuple(call(*arrays, *before, **attributes))


def _attribute(value: Any) -> Any:
    if isinstance(value, bool) or isinstance(value, str):
        return value
    return np.float64(value) if isinstance(value, float) else np.int64(value)


@functools.lru_cache(maxsize=None)
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
        else:
            moving = [array for array, is_batched in zip(arrays, batched) if is_batched]

            def one(parts: Sequence[Any]) -> Any:
                rest = iter(parts)
                return invoke(*[next(rest) if is_batched else array for array, is_batched in zip(arrays, batched)])

            made = jax.lax.map(one, tuple(moving))
        return made, tuple(True for _ in made)

    return invoke


@functools.lru_cache(maxsize=None)
def _differentiable(function: Function, present: Any, scalars: Any) -> Any:
    main = tuple(function.main_outputs)
    primal = _batchable(function, present, scalars, main)
    backward = function.backward
    if backward is None:
        return primal
    saved = main + tuple(at for at in function.saved_outputs() if at not in main)

    @jax.custom_vjp
    def run(*arrays: Any) -> Any:
        return primal(*arrays)

    def forward(*arrays: Any) -> Any:
        made = _batchable(function, present, scalars, saved)(*arrays)
        return made[: len(main)], (arrays, made)

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
        grads = dict(zip(outputs, _batchable(backward, needed, passed, outputs)(*inputs)))
        of_input = dict(wanted)
        return tuple(grads[of_input[at]] if at in of_input else None for at in present)

    run.defvjp(forward, pull_back)
    return run

"""Calls with NumPy's arrays, which run on the CPU device, with CuPy's, and with any other object that has ``__dlpack__``."""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any

from ._formulas import row_alignment
from ._function import Function, needs_copy, results, to_python
from ._native_library import tvm_ffi


def _kind(value: Any) -> str:
    """The package that an array's class is from; a class of the user's has the one that it is derived from."""
    packages = [kind.__module__.partition(".")[0] for kind in type(value).__mro__]
    return next((package for package in packages if package in ("numpy", "cupy")), packages[0])


def call(function: Function, values: list[Any]) -> Any:
    """Calls a function; outputs that are not passed are made."""
    to_python(function, values)
    tensors = [at for at, param in enumerate(function.params) if param.is_tensor and values[at] is not None]
    for at in tensors:
        _check(function, at, values[at])
    source = next((values[at] for at in function.tensors if values[at] is not None), None)
    if any(values[at] is None for at in function.main_outputs):
        _make_outputs(function, values, source)
    if not hasattr(function.direct, "__call__"):
        raise RuntimeError(f"{function.label} cannot be called")
    passed = [_readable(function, at, value) if at in tensors else value for at, value in enumerate(values)]
    with _stream(source):
        try:
            function.direct(*passed)
        except BufferError as error:
            raise _unexported(function, passed, error) from error
    return results(function, values)


class _Memory:
    """The memory of an array that must not be written, described as any other memory: DLPack has no word for it that all versions have."""

    def __init__(self, array: Any) -> None:
        interface = array.__array_interface__
        self.array = array
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def _readable(function: Function, at: int, value: Any) -> Any:
    """An input as the library takes it: its memory, or a copy where the elements lie as no kernel takes them.

    For a read-only array of NumPy an array of the same memory that DLPack takes. It is passed to parameters that are read, only.
    """
    kind = _kind(value)
    if kind not in ("numpy", "cupy") or function.params[at].written:
        return value
    module = importlib.import_module(kind)
    if _needs_copy(function, at, value):
        return module.array(value, order="C", copy=True, subok=False)
    if kind == "cupy" or value.flags.writeable:
        return value
    return module.asarray(_Memory(value))


def _needs_copy(function: Function, at: int, array: Any) -> bool:
    bytes_each = array.itemsize
    if any(step % bytes_each or (step < 0 and size > 1) for size, step in zip(array.shape, array.strides)):
        return bool(array.size > 0)
    if not getattr(array.flags, "aligned", True):
        return True
    param = function.params[at]
    strides = [step // bytes_each for step in array.strides]
    return bool(array.size > 0) and needs_copy(param, array.shape, strides, _address(array) // bytes_each, row_alignment(function, param, bytes_each))


def _address(array: Any) -> int:
    interface = getattr(array, "__array_interface__", None) or array.__cuda_array_interface__
    return int(interface["data"][0])


def _unexported(function: Function, values: list[Any], error: BufferError) -> Exception:
    """The error for an argument that DLPack does not take, with its name."""
    for param, value in zip(function.params, values):
        try:
            if hasattr(value, "__dlpack__"):
                value.__dlpack__()
        except BufferError:
            if not param.is_tensor:
                return TypeError(f"{function.label}: {param.name}: expected {param.kind}, found {type(value).__name__}")
            return BufferError(f"{function.label}: {param.name}: {error}")
    return BufferError(f"{function.label}: {error}")


def _check(function: Function, at: int, value: Any) -> None:
    param = function.params[at]
    if not hasattr(value, "__dlpack__"):
        found = "None" if value is None else type(value).__name__
        raise TypeError(f"{function.label}: {param.name}: expected an array, found {found}")
    if _kind(value) != "numpy":
        return
    import numpy

    if not isinstance(value, numpy.ndarray):
        raise TypeError(f"{function.label}: {param.name}: expected an array, found {type(value).__name__}")
    if isinstance(value, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())):
        raise TypeError(f"{function.label}: {param.name}: a masked array, whose mask kernels do not read; pass its data, or filled()")
    if value.dtype.name not in _NUMPY_TYPES or not value.dtype.isnative:
        raise TypeError(f"{function.label}: {param.name}: arrays of {value.dtype} cannot be passed")
    if param.written and not value.flags.writeable:
        raise ValueError(f"{function.label}: {param.name}: the array is read-only")
    if param.written and any(stride % value.itemsize for stride in value.strides):
        raise ValueError(f"{function.label}: {param.name}: its strides are no multiples of an element")


_NUMPY_TYPES = frozenset(
    ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
)


def _make_outputs(function: Function, values: list[Any], source: Any) -> None:
    kind = _kind(source)
    if kind not in ("numpy", "cupy"):
        names = ", ".join(f"{function.params[at].name}=" for at in function.main_outputs if values[at] is None)
        raise TypeError(f"{function.label}: pass {names}: arrays of {type(source).__name__} cannot be made here")
    shapes = [getattr(value, "shape", None) if param.is_tensor else None for param, value in zip(function.params, values)]
    # The types of NumPy have names; those of other frameworks are written with their module.
    dtypes = [None if shape is None else str(getattr(value.dtype, "name", value.dtype)).rpartition(".")[2] for value, shape in zip(values, shapes)]
    made = function.infer(shapes, dtypes)
    for at in function.main_outputs:
        if values[at] is not None:
            continue
        if at not in made:
            raise function.missing_shape(at)
        shape, dtype = made[at]
        values[at] = _empty(kind, shape, dtype, source)


def _empty(kind: str, shape: tuple[int, ...], dtype: str, source: Any) -> Any:
    if kind == "numpy":
        import numpy

        return numpy.empty(shape, _numpy_type(numpy, dtype))
    import cupy

    with source.device:
        return cupy.empty(shape, dtype)


def _numpy_type(numpy: Any, dtype: str) -> Any:
    if dtype not in _NUMPY_TYPES:
        raise TypeError(f"NumPy has no {dtype}: pass the output")
    return numpy.dtype(dtype)


def _stream(source: Any) -> Any:
    """CuPy's current stream; TVM-FFI takes that of PyTorch from the tensors."""
    if _kind(source) != "cupy":
        return contextlib.nullcontext()
    import cupy

    module = tvm_ffi()
    device = module.device("cuda", source.device.id)
    with source.device:
        pointer = cupy.cuda.get_current_stream().ptr
    return module.use_raw_stream(device, pointer)

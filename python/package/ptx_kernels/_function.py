"""Exported functions: their parameters, and calls whose framework follows from the arguments."""

from __future__ import annotations

import inspect
import keyword
import math
import numbers
import operator
import sys
from typing import Any, Callable, Iterable, Sequence

# Dimensions of a description: any number of them that all tensors with it share, and any number that are the tensor's own.
LEADING = ".."
FLAT = "..."


class cached_property:
    """``functools.cached_property`` without a lock, as Python 3.12 has it. Before, all objects share one, and a child of a fork waits for ever for a thread
    of its parent that held it. Two threads may make the value, which is the same."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make, self.__doc__ = make, make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.make(instance)
        return value


def names_of(written: Iterable[str]) -> list[str]:
    """The names of parameters in Python. A field of a struct of arguments, ``inputs.x`` in Rust, is ``inputs_x``; Python's keywords, and names that others
    have already, end in ``_``: ``lambda_``, with the gradient ``grad_lambda_``."""
    names: list[str] = []
    for name in written:
        name = name.replace(".", "_")
        while keyword.iskeyword(name.removeprefix("grad_")) or name in names:
            name += "_"
        names.append(name)
    return names


class Param:
    """A parameter of an exported function."""

    __slots__ = ("name", "attribute", "kind", "optional", "has_default", "default", "written", "dtype", "range", "rank", "dims")

    def __init__(self, entry: dict[str, Any], name: str) -> None:
        self.name = name
        # The name of its value among the attributes of XLA's custom call.
        self.attribute: str = entry["name"].replace(".", "_")
        self.kind: str = entry["kind"]
        self.optional: bool = entry["optional"]
        self.has_default: bool = "default" in entry
        self.default: Any = entry.get("default")
        self.written: bool = entry.get("written", False)
        # The least and the greatest integer.
        self.range: tuple[int, int] = tuple(entry.get("range", (-(1 << 63), (1 << 63) - 1)))
        # The name of a type, or the number of a type parameter.
        self.dtype: str | int = entry.get("dtype", "")
        self.rank: int = entry.get("rank", 0)
        self.dims: list[Any] = entry.get("dims", [])

    @property
    def is_tensor(self) -> bool:
        return self.kind == "tensor"

    @property
    def is_wide(self) -> bool:
        """True for an integer that may not fit 64 bits with a sign."""
        return self.kind == "int" and self.range[1] >= 1 << 63

    @property
    def has_leading(self) -> bool:
        return LEADING in self.dims or FLAT in self.dims

    @property
    def is_made(self) -> bool:
        """True for an output that a call without it makes."""
        return self.written and FLAT not in self.dims


class Function:
    """A function of a library. Calling it runs it in the framework of its tensors; ``direct`` is the quickest way."""

    def __init__(self, library: Any, entry: dict[str, Any]) -> None:
        self.library = library
        self.described = entry
        # A field of a struct of arguments, `inputs.x` in Rust, is `inputs_x` here.
        self.name: str = entry["name"].replace(".", "_")
        # Names of its operator in PyTorch, of its custom call in JAX, and of the symbols that XLA calls with these attributes.
        self.operator: str = self.name
        self.target = f"{library._name}.{self.name}"
        self.handler: str = self.name
        self.attributes: dict[str, int] = {}
        # Outputs whose shapes are known may also be passed where arrays are immutable, as what they are before the call.
        self.updates = False
        # The name in messages.
        self.label: str = entry["label"]
        self.__name__ = self.name
        self.__doc__ = entry["doc"]
        self.types: list[list[str]] = entry["types"]
        self.params = [Param(param, name) for param, name in zip(entry["params"], names_of(param["name"] for param in entry["params"]))]
        self.backward_name: str | None = entry["backward"]
        # Extents along which slices are computed each on its own, with the extent that is split alike or none.
        self.parallel: dict[str, str | None] = {name: next(iter(groups), None) for name, *groups in entry.get("parallel", [])}
        # Positions of the parameters: inputs and scalars in the order of Rust, outputs, tensors that are read.
        self.inputs = [at for at, param in enumerate(self.params) if not param.written]
        self.outputs = [at for at, param in enumerate(self.params) if param.written]
        self.tensors = [at for at in self.inputs if self.params[at].is_tensor]
        self.main_outputs = [at for at in self.outputs if not self.params[at].optional]
        self.has_wide = any(param.is_wide for param in self.params)
        # Positional arguments, and True if these may also be all parameters.
        self.passed = self.inputs
        self.takes_all = False
        # The native ways of PyTorch's tensors into the function: from the values of all parameters, and from a tuple of arguments and those that are named.
        self.quick: Callable[[list[Any]], Any] | None = None
        self.quick_apply: Callable[[Sequence[Any], dict[str, Any]], Any] | None = None
        # What the frameworks keep about it.
        self.torch_state: Any = None

    @cached_property
    def direct(self) -> Any:
        """The function as TVM-FFI calls it: all parameters in the order of Rust, outputs among them. Nothing is allocated."""
        return self.library._direct(self.name)

    @property
    def backward(self) -> "Function | None":
        """The function that computes the gradients."""
        return None if self.backward_name is None else getattr(self.library, self.backward_name)

    @property
    def __signature__(self) -> inspect.Signature:
        def default(param: Param) -> Any:
            if param.has_default:
                return param.default
            return None if param.optional else inspect.Parameter.empty

        kinds = inspect.Parameter
        named = [
            kinds(self.params[at].name, kinds.POSITIONAL_OR_KEYWORD, default=default(self.params[at])) for at in self.passed
        ]
        while any(a.default is not kinds.empty and b.default is kinds.empty for a, b in zip(named, named[1:])):
            # Python has no required parameter behind one with a default.
            named = [p.replace(kind=kinds.KEYWORD_ONLY) if p.default is not kinds.empty else p for p in named]
            named.sort(key=lambda p: p.kind)
        made = [at for at in self.outputs if at not in self.passed]
        named += [kinds(self.params[at].name, kinds.KEYWORD_ONLY, default=None) for at in made]
        return inspect.Signature(named)

    def __reduce__(self) -> Any:
        return getattr, (self.library, self.name)

    def __repr__(self) -> str:
        return f"<ptx_kernels function {self.name}{self.__signature__}>"

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The values of all parameters, in the order of Rust; ``None`` where there is none."""
        values: list[Any] = [None] * len(self.params)
        if len(args) > len(self.inputs):
            raise TypeError(f"{self.name}() takes {len(self.inputs)} positional arguments but {len(args)} were given")
        for at, value in zip(self.inputs, args):
            values[at] = value
        given = len(args)
        used = 0
        for at, param in enumerate(self.params):
            if param.name in kwargs:
                if param.name in [self.params[position].name for position in self.inputs[:given]]:
                    raise TypeError(f"{self.name}() got multiple values for argument {param.name!r}")
                values[at] = kwargs[param.name]
                used += 1
            if values[at] is None and not param.written:
                if param.has_default:
                    values[at] = param.default
                elif not param.optional:
                    raise TypeError(f"{self.name}() missing required argument {param.name!r}")
        if used < len(kwargs):
            names = [param.name for param in self.params]
            unknown = [name for name in kwargs if name not in names]
            raise TypeError(f"{self.name}() got an unexpected keyword argument {unknown[0]!r}")
        return values

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return call_slowly(self, self.bind(args, kwargs))
        return self.apply(args, kwargs)

    def apply(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A call that PyTorch's compiler does not read."""
        if self.quick_apply is not None:
            made = self.quick_apply(args, kwargs)
            if made is not NotImplemented:
                return made
        return call_slowly(self, self.bind(args, kwargs))

    # Shapes

    def infer(self, shapes: Sequence[Any], dtypes: Sequence[Any]) -> dict[int, tuple[tuple[Any, ...], str]]:
        """Checks shapes and types, and gives those of the outputs.

        Args:
            shapes: one shape a parameter, ``None`` for what is no tensor or is to be made.
            dtypes: the names of their types.

        Raises:
            TypeError, ValueError: an argument does not fit; the message names it.
        """
        bound: dict[str, tuple[Any, str, int]] = {}
        leading: tuple[Any, ...] | None = None
        for param, shape in zip(self.params, shapes):
            if shape is None:
                continue
            expected = param.rank - 1 if param.has_leading else param.rank
            if len(shape) < expected or (len(shape) > expected and not param.has_leading):
                least = "at least " if param.has_leading else ""
                raise ValueError(
                    f"{self.label}: {param.name}: expected {least}{expected} dimensions, found shape {tuple(shape)}"
                )
            extra = len(shape) - expected if param.has_leading else 0
            if param.has_leading:
                front = tuple(shape[:extra])
                if FLAT in param.dims:
                    continue
                if leading is None:
                    leading = front
                elif product(leading) != product(front):
                    raise ValueError(
                        f"{self.label}: {param.name}: its first dimensions are {front}, those of an argument before {leading}"
                    )
            dims = param.dims[1:] if param.has_leading else param.dims
            for at, (dim, extent) in enumerate(zip(dims, shape[extra:])):
                self._bind_dim(param, dim, extent, at + extra, shape, bound)
        types = self._choose(dtypes)
        made: dict[int, tuple[tuple[Any, ...], str]] = {}
        for at in self.outputs:
            shape = self._shape_of(self.params[at], bound, leading)
            if shape is not None:
                made[at] = (shape, self._type_of(self.params[at], types))
        return made

    def _bind_dim(self, param: Param, dim: Any, extent: Any, at: int, shape: Any, bound: dict[str, Any]) -> None:
        if dim is None:
            return
        if isinstance(dim, int):
            if extent != dim:
                raise ValueError(
                    f"{self.label}: {param.name}: expected {dim} elements in dimension {at}, found shape {tuple(shape)}"
                )
            return
        if dim not in bound:
            bound[dim] = (extent, param.name, at)
        elif bound[dim][0] != extent:
            known, other, place = bound[dim]
            raise ValueError(
                f"{self.label}: {param.name}: dimension {at} ({dim}) has {extent} elements, and dimension {place} of {other} has {known}"
            )

    def _choose(self, dtypes: Sequence[Any]) -> list[str]:
        best: tuple[int, list[str]] = (-1, [])
        for types in self.types:
            wrong = self._mismatch(types, dtypes)
            if wrong is None:
                return types
            if wrong > best[0]:
                best = (wrong, [])
            if wrong == best[0]:
                expected = self._type_of(self.params[wrong], types)
                if expected not in best[1]:
                    best[1].append(expected)
        at, names = best
        raise TypeError(
            f"{self.label}: {self.params[at].name}: expected a tensor of {' or '.join(names)}, found {dtypes[at]}"
        )

    def _mismatch(self, types: list[str], dtypes: Sequence[Any]) -> int | None:
        for at, (param, dtype) in enumerate(zip(self.params, dtypes)):
            if dtype is not None and self._type_of(param, types) != dtype:
                return at
        return None

    def _type_of(self, param: Param, types: list[str]) -> str:
        return types[param.dtype] if isinstance(param.dtype, int) else param.dtype

    def _shape_of(self, param: Param, bound: dict[str, Any], leading: Any) -> tuple[Any, ...] | None:
        if not param.dims and param.rank > 0:
            return None
        shape: list[Any] = []
        for dim in param.dims:
            if dim == FLAT:
                return None
            if dim == LEADING:
                if leading is None:
                    return None
                shape += leading
            elif isinstance(dim, int):
                shape.append(dim)
            elif dim is None or dim not in bound:
                return None
            else:
                shape.append(bound[dim][0])
        return tuple(shape)

    def missing_shape(self, at: int) -> TypeError:
        """The error for an output that has to be passed."""
        name = self.params[at].name
        return TypeError(f"{self.label}() needs {name}=…: the library does not say its shape (`shapes({name} = […])`)")

    # Gradients

    def saved_outputs(self) -> list[int]:
        """Optional outputs that the backward function reads."""
        backward = self.backward
        if backward is None:
            return []
        names = [backward.params[at].name for at in backward.tensors]
        return [at for at in self.outputs if self.params[at].optional and self.params[at].name in names]

    def gradient_inputs(self) -> list[tuple[int, int]]:
        """Inputs that have a gradient, each with the output of the backward function that is it."""
        backward = self.backward
        if backward is None:
            return []
        names = {backward.params[at].name: at for at in backward.outputs}
        named = [(at, f"grad_{self.params[at].name}") for at in self.tensors]
        return [(at, names[name]) for at, name in named if name in names]


def product(extents: Sequence[Any]) -> Any:
    """The number of elements of a shape; the extents may be symbols."""
    elements: Any = 1
    for extent in extents:
        elements = elements * extent
    return elements


def needs_copy(param: Param, shape: Sequence[int], strides: Sequence[int], address: int, alignment: int) -> bool:
    """True for a tensor that no kernel takes: the elements of its rows lie apart, its rows begin elsewhere than at multiples of ``alignment``, or its
    first dimensions, which become one, are not evenly spaced.

    Args:
        strides: in elements, as ``address`` and ``alignment``.
        alignment: 0 where rows may have any strides.
    """
    if alignment and len(shape) > 0:
        if shape[-1] > 1 and strides[-1] != 1:
            return True
        if any(step % alignment for size, step in zip(shape[:-1], strides) if size > 1) or address % alignment:
            return True
    if not param.has_leading:
        return False
    leading = list(zip(shape, strides))[: len(shape) - param.rank + 1]
    spaced = [(size, step) for size, step in leading if size != 1]
    return any(outer[1] != inner[0] * inner[1] for outer, inner in zip(spaced, spaced[1:]))


def results(function: Function, values: Sequence[Any]) -> Any:
    """The result of a call: its output, or a tuple of them. Optional outputs only where they were passed."""
    made = [values[at] for at in function.outputs if values[at] is not None]
    return made[0] if len(made) == 1 else tuple(made)


# Types of Python itself, which the library reads.
_READ = (int, float, bool, str, type(None))


def to_python(function: Function, values: list[Any]) -> None:
    """Makes Python's numbers of those of NumPy and other packages among the values of a call. An array stays, and is refused.

    Raises:
        TypeError, ValueError: a number that the parameter's type does not have.
    """
    for at, param in enumerate(function.params):
        if not param.is_tensor and type(values[at]) not in _READ:
            values[at] = _number(function, param, values[at])


def _number(function: Function, param: Param, value: Any) -> Any:
    numpy = sys.modules.get("numpy")
    is_generic = numpy is not None and isinstance(value, numpy.generic)
    # Types of other packages, such as bfloat16, have a kind of their own.
    kind = value.dtype.kind if is_generic and not type(value).__module__.startswith("ml_dtypes") else "f"
    if not (is_generic or isinstance(value, numbers.Real)):
        return value
    if kind not in "biuf":
        raise TypeError(f"{function.label}: {param.name}: expected {param.kind}, found {type(value).__name__}")
    if kind == "b":
        return bool(value)
    if param.kind == "float":
        try:
            made = float(value)
        except OverflowError:
            made = math.inf
        if math.isinf(made) and value != made:
            raise ValueError(f"{function.label}: {param.name}: {value!r} is too large for {param.dtype or 'float64'}")
        return made
    if param.kind == "int" and hasattr(value, "__index__"):
        return operator.index(value)
    # The library refuses a number of another kind.
    return float(value)


def is_compiling() -> bool:
    """True while PyTorch's compiler reads Python's code, which cannot see native calls. PyTorch's own function takes this one's place as soon as this package
    has its operators: where PyTorch is imported later, that is the first call."""
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "compiler") and bool(torch.compiler.is_dynamo_compiling())


def call(function: Function, values: list[Any]) -> Any:
    """Calls a function in the framework of its tensors. Plain calls of PyTorch are native; Python's code takes all others."""
    if not is_compiling() and function.quick is not None:
        made = function.quick(values)
        if made is not NotImplemented:
            return made
    return call_slowly(function, values)


def call_slowly(function: Function, values: list[Any]) -> Any:
    """The same in Python."""
    for at in function.tensors:
        # An attribute of PyTorch's tensors alone, which torch.compile sees, too.
        if hasattr(values[at], "is_cuda"):
            from . import _torch

            return _torch.call(function, values)
    return _call_elsewhere(function, values)


def _call_elsewhere(function: Function, values: list[Any]) -> Any:
    for at in function.tensors:
        if values[at] is None and not function.params[at].optional:
            raise TypeError(f"{function.label}: {function.params[at].name}: expected an array, found None")
    kinds = {type(values[at]).__module__.partition(".")[0] for at in (*function.tensors, *function.outputs)}
    if kinds & {"jax", "jaxlib"}:
        from . import _jax

        return _jax.call(function, values)
    from . import _arrays

    return _arrays.call(function, values)

"""Kernels from text: the kernel language while Python runs, with no Rust toolchain.

A text is compiled by the native library. Each kernel, and each instance of a generic one, becomes a function as those of a Rust library are: the same
checks, messages, operators and custom calls.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import linecache
import os
import pathlib
import sys
from dataclasses import dataclass, replace
from typing import Any, Iterator, Mapping, Sequence

from . import _function, _native_library
from ._function import FLAT, Function, Param, cached_property, call_slowly

# The most bytes of a source, as in Rust.
MOST_BYTES = 1 << 28

# Names of types in kernels, by those of NumPy, PyTorch and JAX.
TYPES = {
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
}  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """Something wrong in a text. Lines and columns count from 1; a problem of the whole text has line 0."""

    code: str
    message: str
    line: int
    column: int
    end_line: int
    end_column: int
    help: tuple[str, ...]


class CompileError(ValueError):
    """A text that does not compile. The message has each problem with its file, line, column, a mark below the text, and the fix.

    Attributes:
        problems: the problems one by one.
    """

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.problems)


@dataclass(frozen=True)
class Source:
    """A text with its name in messages."""

    name: str
    text: str
    target: str = ""
    # The Rust signatures of entries, where the text is PTX.
    signatures: str | None = None
    # The text in the kernel language that the PTX was transpiled to.
    rust: str = ""


def _ask(*texts: str) -> dict[str, Any]:
    """The native library's answer to a request.

    Raises:
        CompileError: the text of the request is wrong.
    """
    return _ask_bytes(_request(*texts))


def _request(*texts: str) -> bytes:
    encoded = [text.encode("utf-8", "replace") for text in texts]
    return b"".join(len(text).to_bytes(8, "little") + text for text in encoded)


def _ask_bytes(request: bytes) -> dict[str, Any]:
    library = _symbols()
    pointer = library.__ptx_ffi_jit(request, len(request))
    if not pointer:
        raise MemoryError("no memory for an answer")
    try:
        answer: dict[str, Any] = json.loads(ctypes.string_at(pointer).decode())
    finally:
        library.__ptx_ffi_free(pointer)
    if "error" in answer:
        raise CompileError(answer["error"], [Problem(**{**problem, "help": tuple(problem["help"])}) for problem in answer["problems"]])
    return answer


def _symbols() -> Any:
    global _declared
    if _declared is None:
        from ._operations import library

        symbols = library()._symbols
        symbols.__ptx_ffi_jit.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        symbols.__ptx_ffi_jit.restype = ctypes.c_void_p
        symbols.__ptx_ffi_free.argtypes = [ctypes.c_void_p]
        symbols.__ptx_ffi_free.restype = None
        _declared = symbols
    return _declared


_declared: Any = None


class _Compiled:
    """The library that functions of kernels from text belong to."""

    _name = "ptx_jit"
    _path = "kernels from text"
    is_own = False

    def __init__(self) -> None:
        self.functions: list[KernelFunction] = []
        self._by_number: Any = None

    def __iter__(self) -> Iterator[Function]:
        return iter(list(self.functions))

    def direct_of(self, key: int) -> Any:
        if self._by_number is None:
            from ._operations import library

            self._by_number = library()._direct("ptx_ffi_jit_function")
        return self._by_number(key)

    def _address(self, symbol: str) -> Any:
        from ._operations import library

        return library()._address(symbol)

    def addresses(self, function: "KernelFunction") -> tuple[int, int, int] | None:
        """As those of a library."""
        from ._operations import library

        return _native_library.addresses(library()._symbols, "__ptx_ffi_jit_find", ctypes.c_int64(function.key))


class KernelFunction(Function):
    """An instance of a kernel from text, as a function of a library."""

    def __init__(self, entry: dict[str, Any], request: tuple[str, ...]) -> None:
        super().__init__(_COMPILED, entry["function"])
        self.key: int = entry["key"]
        self.entry: str = entry["entry"]
        # The generic arguments, as its kernel has chosen them.
        self.arguments = ""
        self.request = request
        # The same in every process.
        self.operator = f"{self.name}_{self.key & (1 << 64) - 1:016x}"
        self.target = "ptx_jit"
        self.handler = "ptx_ffi_jit"
        self.attributes = {"__function": self.key}
        self.updates = True
        # Positional arguments: all parameters, or all but those that can be made.
        self.passed = [at for at, param in enumerate(self.params) if not param.is_made]
        self.takes_all = True

    @cached_property
    def direct(self) -> Any:
        return _COMPILED.direct_of(self.key)

    def __reduce__(self) -> Any:
        return _function_again, (self.request, self.entry)

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The values of all parameters. Positional arguments are those of the kernel, with or without the outputs that can be made."""
        given = range(len(self.params)) if len(args) == len(self.params) else self.passed
        return bind(self.name, self.params, args, kwargs, list(given))


def bind(name: str, params: Sequence[Param], args: Sequence[Any], kwargs: dict[str, Any], positions: Sequence[int]) -> list[Any]:
    """The arguments of a call in the order of the parameters."""
    if len(args) > len(positions):
        raise TypeError(f"{name}() takes {len(positions)} positional arguments, or {len(params)} with its outputs, but {len(args)} were given")
    values: list[Any] = [None] * len(params)
    for at, value in zip(positions, args):
        values[at] = value
    positional = set(positions[: len(args)])
    names = {param.name: at for at, param in enumerate(params)}
    for key, value in kwargs.items():
        if key not in names:
            raise TypeError(f"{name}() got an unexpected keyword argument {key!r}; its parameters are {', '.join(names)}")
        if names[key] in positional:
            raise TypeError(f"{name}() got multiple values for argument {key!r}")
        values[names[key]] = value
    for at, param in enumerate(params):
        if values[at] is None and (not param.written or FLAT in param.dims):
            raise TypeError(f"{name}() missing required argument {param.name!r}")
        if param.kind == "bytes" and values[at] is not None:
            values[at] = _digits(name, param, values[at])
    return values


def _digits(name: str, param: Param, value: Any) -> str:
    """The bytes of a struct as hexadecimal digits, which every framework passes."""
    if isinstance(value, str):
        return value
    try:
        return bytes(memoryview(value)).hex()
    except TypeError:
        raise TypeError(f"{name}: {param.name}: expected the bytes of a struct, found {type(value).__name__}") from None


_COMPILED = _Compiled()
_functions: dict[tuple[str, ...], dict[str, Any]] = {}


def _compiled(*request: str) -> dict[str, Any]:
    """The kernels that a request compiles to, by their names in PTX: functions, or the reason why they cannot be called."""
    if request in _functions:
        return _functions[request]
    digest = hashlib.blake2b(_request(*request), digest_size=8).digest()
    # The kernels of a text have consecutive numbers.
    key = int.from_bytes(digest, "little", signed=True) & ~0xFFFF
    answer = _ask(request[0], str(key), *request[1:])
    made = {
        entry["entry"]: KernelFunction(entry, request) if entry["function"] else entry["refused"] for entry in answer["kernels"]
    }
    with _native_library.guard:
        if request not in _functions:
            new = [function for function in made.values() if isinstance(function, KernelFunction)]
            _COMPILED.functions.extend(new)
            _native_library.announce(_COMPILED, new)
            _functions[request] = made
        return _functions[request]


def _function_again(request: tuple[str, ...], entry: str) -> Any:
    return _compiled(*request)[entry]


def argument(value: Any) -> str:
    """A generic argument as Rust text: a number, a type by any of its names, or text as it is."""
    if value is None:
        raise TypeError("a generic argument is a number, or a type such as \"f32\", and not None")
    if isinstance(value, bool):
        return "true" if value else "false"
    name = value if isinstance(value, str) else getattr(value, "name", None) or getattr(value, "__name__", None) or str(value)
    name = name.removeprefix("torch.")
    return TYPES.get(name, name)


# The attributes of kernels that are functions and instances, by their arguments.
_INSTANCE = "_instance "
_CHOICE = "_choice "
_BETWEEN = "\x1f"


class Kernel:
    """A kernel from text. A call runs it in the framework of its tensors, as the functions of this package.

    Outputs (``TileMut``) whose shapes follow from the other tensors are made and returned, or passed by keyword; memory without a shape (``&mut [T]``)
    is passed, and returned. A type parameter that is not chosen is that of the tensor that has it.

    Attributes:
        name: its name in the text.
        choices: the generic arguments that were chosen.
    """

    def __init__(self, source: Source, outline: dict[str, Any] | None, choices: Mapping[str, str], name: str = "") -> None:
        self.source = source
        self.name: str = name or (outline or {}).get("name", "")
        self.__name__ = self.name
        self.choices = dict(choices)
        self._outline = outline
        self._generics: list[list[Any]] = [] if outline is None else outline["generics"]
        self._function: Any = None
        self._by_types: dict[Any, Any] = {}
        # Where one type is open: the positional argument that has it, and the instances by its type.
        self._decides = -1
        self._by_dtype: dict[Any, Any] = {}
        # The times that ``tune`` has measured.
        self.tuning: dict[str, float] = {}
        missing = [generic for generic, _ in self._generics if generic not in self.choices]
        if missing and outline is not None:
            # Constants that are not chosen are those of the first instance in the text that has the choices.
            rows = [dict(zip((generic for generic, _ in self._generics), row)) for row in outline["instances"]]
            self._rows = [row for row in rows if all(row.get(key) == value for key, value in self.choices.items())]
            self._open = missing
            outputs = [is_output for _, _, is_output in outline["params"]]
            self._passed = [at for at, is_output in enumerate(outputs) if not is_output]
            deciding = [at for at, (_, element, _) in enumerate(outline["params"]) if element in missing]
            if len({outline["params"][at][1] for at in deciding}) == 1 and not any(outputs[: deciding[0] + 1]):
                self._decides = deciding[0]
        else:
            self._open = []
            self._function = self._chosen(*(self.choices[generic] for generic, _ in self._generics))
            self.__doc__ = self._function.__doc__
            self.__signature__ = self._function.__signature__

    def instance(self, **arguments: Any) -> "Kernel":
        """The kernel with generic arguments: numbers, and types by their names: ``k.instance(BLOCK=256, T="bf16")``.

        Raises:
            TypeError: it has no such parameter.
            CompileError: there is no such instance.
        """
        return self._with({name: argument(value) for name, value in arguments.items()})

    def _with(self, arguments: dict[str, str]) -> "Kernel":
        pairs = [text for pair in arguments.items() for text in pair]
        self._choose(*pairs)
        found: Kernel = getattr(self, _CHOICE + _BETWEEN.join(pairs))
        return found

    def _choose(self, *pairs: str) -> bool:
        """Makes the kernel with these arguments, and keeps it as an attribute, as ``_prepare`` does."""
        attribute = _CHOICE + _BETWEEN.join(pairs)
        if attribute not in self.__dict__:
            names = [name for name, _ in self._generics]
            arguments = dict(zip(pairs[::2], pairs[1::2]))
            for name in arguments:
                if name not in names:
                    has = f"it has {', '.join(names)}" if names else "it has none"
                    raise TypeError(f"{self.name} has no generic parameter {name!r}; {has}")
            setattr(self, attribute, type(self)(self.source, self._outline, {**self.choices, **arguments}, self.name))
        return True

    _choose._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def __getitem__(self, arguments: Any) -> "Kernel":
        """The same as ``instance``: ``k["BLOCK":256, "T":"bf16"]``, or ``k[256, "bf16"]`` in the order of the parameters."""
        every = arguments if isinstance(arguments, tuple) else (arguments,)
        names = [name for name, _ in self._generics]
        if len(every) > len(names):
            raise TypeError(f"{self.name} has {len(names)} generic parameters, and {len(every)} arguments are given")
        chosen: dict[str, str] = {}
        for name, given in zip(names, every):
            value = given
            if isinstance(given, slice):
                name, value = given.start, given.stop
                if not isinstance(name, str) or given.step is not None:
                    raise TypeError(f"{self.name}: a generic argument is written \"NAME\":value, or as the value alone")
            if name in chosen:
                raise TypeError(f"{self.name} got multiple values for its generic parameter {name!r}")
            chosen[name] = argument(value)
        return self._with(chosen)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _function.is_compiling():
            function = self._function
            if function is None:
                function = self._of_arguments(args, kwargs)
            return function(*args, **kwargs)
        function = self._function
        if function is None:
            function = self._known_function(args, kwargs)
        # As `apply` of the function, without its frame.
        quick = function.quick_apply
        if quick is not None:
            made = quick(args, kwargs)
            if made is not NotImplemented:
                return made
        return call_slowly(function, function.bind(args, kwargs))

    def _known_function(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The instance for the types of arguments, from a table of the calls before."""
        if self._function is not None:
            return self._function
        decides = self._decides
        if not 0 <= decides < len(args):
            return self._function_of_types(args, kwargs)
        dtype = getattr(args[decides], "dtype", None)
        function = self._by_dtype.get(dtype)
        if function is None:
            function = self._function_of_types(args, kwargs)
            if dtype is not None:
                self._by_dtype[dtype] = function
        return function

    def _function_of_types(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        types = [getattr(value, "dtype", None) for value in args]
        for name, value in kwargs.items():
            types += name, getattr(value, "dtype", None)
        key = (len(args), *types)
        try:
            return self._by_types[key]
        except KeyError:
            function = self._by_types[key] = self._of_arguments(args, kwargs)
            return function

    def function(self, *args: Any, **kwargs: Any) -> Any:
        """The function that a call with these arguments runs: ``direct`` calls it the quickest way, with outputs that are there."""
        return self._function or self._of_arguments(args, kwargs)

    @cached_property
    def direct(self) -> Any:
        """The kernel as TVM-FFI calls it: all parameters in their order, outputs among them. Nothing is allocated."""
        return self._fixed().direct

    def _fixed(self) -> Any:
        if self._function is None:
            self._function = self._of_types({})
        return self._function

    def _of_arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The instance for the types of arguments."""
        assert self._outline is not None
        params = self._outline["params"]
        positions = range(len(params)) if len(args) == len(params) else self._passed
        values = dict(zip(positions, args))
        types: dict[str, str] = {}
        for at, ((_, element, _), name) in enumerate(zip(params, _function.names_of(name for name, _, _ in params))):
            value = values.get(at, kwargs.get(name))
            dtype = getattr(value, "dtype", None)
            if element in self._open and element not in types and dtype is not None:
                types[element] = argument(dtype)
        return self._of_types(types)

    def compile_first(self) -> None:
        """Compiles the instance of a call that chooses nothing, if the text has one: an error of the text shows at once."""
        if self._open and self._rows:
            self._of_types({})

    def _of_types(self, types: dict[str, str]) -> Any:
        missing = [name for name, _ in self._generics if name not in self.choices and name not in types]
        row = next((row for row in self._rows if all(row.get(name) == ty for name, ty in types.items())), {}) if missing else {}
        known = {**row, **types, **self.choices}
        for name in missing:
            if name not in known:
                found = "".join(f" for {ty}={value}" for ty, value in types.items())
                raise TypeError(f"{self.name}: {name} has no argument{found}; choose one: {self.name}.instance({name}=…)")
        return self._chosen(*(known[name] for name, _ in self._generics))

    def _chosen(self, *arguments: str) -> Any:
        """The function of the instance with these arguments, which is compiled unless it is there."""
        self._prepare(*arguments)
        return getattr(self, _INSTANCE + _BETWEEN.join(arguments))

    def _prepare(self, *arguments: str) -> bool:
        """Compiles an instance, and keeps it as an attribute: PyTorch's compiler calls this while it traces, and reads the attribute then."""
        attribute = _INSTANCE + _BETWEEN.join(arguments)
        if attribute not in self.__dict__:
            function = self._compile(arguments)
            function.arguments = _BETWEEN.join(arguments)
            setattr(self, attribute, function)
        return True

    _prepare._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def _compile(self, arguments: tuple[str, ...]) -> Any:
        source = self.source
        if source.signatures is not None:
            made = _compiled("compile_ptx", source.name, source.text, source.signatures)
            found = made.get(self.name) or next((f for f in made.values() if getattr(f, "name", None) == self.name), None)
        else:
            pairs = [text for (name, _), value in zip(self._generics, arguments) for text in (name, value)]
            made = _compiled("compile", source.name, source.text, self.name, source.target, *pairs)
            found = next(iter(made.values()), None)
        if isinstance(found, str):
            raise TypeError(found)
        if found is None:
            raise ValueError(f"{source.name} has no kernel {self.name!r}")
        return found

    # About the kernel

    def ptx(self, target: str | None = None) -> str:
        """The PTX of its module, for the first of its targets or a given one."""
        texts = _ask("ptx", str(self._fixed().key))["texts"]
        for text in texts:
            if target is None or text["target"] == target:
                return str(text["ptx"])
        raise ValueError(f"{self.name} has no PTX for {target}; it has {', '.join(text['target'] for text in texts)}")

    @property
    def rust(self) -> str:
        """The text of the kernel language: its own, or what its PTX was transpiled to."""
        return self.source.rust or ("" if self.source.signatures is not None else self.source.text)

    def info(self) -> dict[str, Any]:
        """Registers, shared memory and spills of its machine code, and its occupancy of the usual chip for its target.

        The figures are those of ptxas, the program that ``PTXAS`` names or the one on the path; without it, those of the driver of the first GPU.
        ``occupancy`` is ``None`` where the size of a block depends on the arguments of a call.

        Raises:
            NotImplementedError: there is neither ptxas nor a GPU.
        """
        from ._info import find_ptxas, of_ptx

        function = self._fixed()
        key = str(function.key)
        if find_ptxas():
            text = _ask("ptx", key)["texts"][0]
            figures = of_ptx(text["target"], text["ptx"], function.entry)
        else:
            try:
                figures = _ask("figures", key)
            except CompileError as error:
                raise NotImplementedError(
                    f"the figures come from ptxas or a GPU: set PTXAS, or pip install nvidia-cuda-nvcc; the driver says: {error}"
                ) from None
        found = _ask("occupancy", key, str(figures["registers"]), str(figures["shared_bytes"]))
        return {**figures, **found}

    def explain(self, code: str) -> str:
        """The page of a code in an error message, such as ``P0201``."""
        return explain(code)

    def __reduce__(self) -> Any:
        return type(self), (self.source, self._outline, self.choices, self.name)

    def __repr__(self) -> str:
        chosen = ", ".join(f"{name}={value}" for name, value in self.choices.items())
        still = ", ".join(self._open)
        return f"<ptx_kernels.Kernel {self.name}{f'[{chosen}]' if chosen else ''}{f', {still} open' if still else ''}>"


def expect_kernel(function: str, name: str, value: Any) -> None:
    """Refuses anything that is no kernel from text."""
    if not isinstance(value, Kernel):
        hint = "; ptx_kernels.kernel makes one of a text" if isinstance(value, str) else ""
        raise TypeError(f"{function}(): {name}: expected a kernel from text, found {type(value).__name__}{hint}")


class Differentiable:
    """A kernel whose gradients another kernel computes; see ``differentiable``."""

    def __init__(self, forward: Any, backward: Any) -> None:
        self.forward, self.backward = forward, backward
        self.name = self.__name__ = forward.name
        self.__doc__ = forward.__doc__
        # The pairs by the functions of the forward kernel.
        self._pairs: dict[Any, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _function.is_compiling():
            return self._pair_of(self.forward.function(*args, **kwargs))(*args, **kwargs)
        forward = self.forward._known_function(args, kwargs)
        pair = self._pairs.get(forward)
        if pair is None:
            pair = self._pairs[forward] = self._pair_of(forward)
        quick = pair.quick_apply
        if quick is not None:
            made = quick(args, kwargs)
            if made is not NotImplemented:
                return made
        return call_slowly(pair, pair.bind(args, kwargs))

    def _pair_of(self, forward: Any) -> Any:
        self._prepare(forward.arguments)
        return getattr(self, _INSTANCE + forward.arguments)

    def _prepare(self, arguments: str) -> bool:
        """The same as that of kernels."""
        attribute = _INSTANCE + arguments
        if attribute not in self.__dict__:
            setattr(self, attribute, self._pair(arguments))
        return True

    _prepare._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def _pair(self, arguments: str) -> Any:
        kernel = self.forward
        forward = getattr(kernel, _INSTANCE + arguments)
        chosen = dict(zip((name for name, _ in kernel._generics), arguments.split(_BETWEEN)))
        names = [name for name, _ in self.backward._generics]
        shared = {name: value for name, value in chosen.items() if name in names}
        return _paired(forward, self.backward._with({**shared, **self.backward.choices})._fixed())

    def __getitem__(self, arguments: Any) -> "Differentiable":
        """The same as ``instance``, as that of a kernel."""
        return Differentiable(self.forward[arguments], self.backward)

    def instance(self, **arguments: Any) -> "Differentiable":
        """The same with generic arguments of the forward kernel."""
        return Differentiable(self.forward.instance(**arguments), self.backward)

    # About the forward kernel

    @property
    def choices(self) -> dict[str, str]:
        """The generic arguments of the forward kernel that were chosen."""
        return dict(self.forward.choices)

    @property
    def source(self) -> Source:
        """The text of the forward kernel."""
        source: Source = self.forward.source
        return source

    @property
    def rust(self) -> str:
        """As that of the forward kernel."""
        return str(self.forward.rust)

    @property
    def direct(self) -> Any:
        """The forward kernel as TVM-FFI calls it; no gradient is recorded."""
        return self.forward.direct

    def function(self, *args: Any, **kwargs: Any) -> Any:
        """The function that a call with these arguments runs."""
        return self._pair_of(self.forward.function(*args, **kwargs))

    def compile_first(self) -> None:
        """As that of both kernels."""
        self.forward.compile_first()
        self.backward.compile_first()

    def ptx(self, target: str | None = None) -> str:
        """The PTX of the forward kernel; ``backward.ptx()`` is that of its gradient."""
        return str(self.forward.ptx(target))

    def info(self) -> dict[str, Any]:
        """The figures of the forward kernel; ``backward.info()`` has those of its gradient."""
        info: dict[str, Any] = self.forward.info()
        return info

    def explain(self, code: str) -> str:
        """The page of a code in an error message, such as ``P0201``."""
        return explain(code)

    def __reduce__(self) -> Any:
        return type(self), (self.forward, self.backward)

    def __repr__(self) -> str:
        return f"<ptx_kernels.Differentiable {self.forward!r}, {self.backward!r}>"


class _Pair(_Compiled):
    """The library of a function with its gradient."""

    def __init__(self, backward: KernelFunction) -> None:
        super().__init__()
        self.gradient = backward

    def __getattr__(self, name: str) -> Any:
        gradient = self.__dict__.get("gradient")
        if gradient is not None and name == gradient.name:
            return gradient
        raise AttributeError(name)


class _PairFunction(KernelFunction):
    """A function with its gradient."""

    def __init__(self, forward: KernelFunction, backward: KernelFunction) -> None:
        described = {"key": forward.key, "entry": forward.entry, "function": {**forward.described, "backward": backward.name}}
        super().__init__(described, forward.request)
        self.halves = forward, backward

    def __reduce__(self) -> Any:
        return _paired, self.halves


_pairs: dict[str, KernelFunction] = {}


def _paired(forward: KernelFunction, backward: KernelFunction) -> KernelFunction:
    operator = f"{forward.operator}_{backward.operator}"
    with _native_library.guard:
        if operator not in _pairs:
            _pairs[operator] = _new_pair(forward, backward, operator)
        return _pairs[operator]


def _new_pair(forward: KernelFunction, backward: KernelFunction, operator: str) -> KernelFunction:
    pair = _PairFunction(forward, backward)
    pair.library = _Pair(backward)
    pair.operator = operator
    known = {param.name for param in forward.params} | {f"grad_{forward.params[at].name}" for at in forward.main_outputs}
    for at in backward.inputs:
        if backward.params[at].name not in known:
            raise TypeError(f"{backward.name}: nothing is called {backward.params[at].name!r} in {forward.name}; it has {', '.join(sorted(known))}")
    if not pair.gradient_inputs():
        raise TypeError(f"{backward.name} has no output called grad_X for an input X of {forward.name}")
    # A framework that is imported later finds it there.
    _COMPILED.functions.append(pair)
    _native_library.announce(_COMPILED, [pair])
    return pair


def differentiable(forward: Kernel, backward: Kernel) -> Differentiable:
    """A kernel with a gradient, in PyTorch and JAX.

    Args:
        forward: the kernel.
        backward: the kernel that computes the gradients. Its parameters are matched by their names: inputs, numbers and outputs of the forward kernel,
            ``grad_OUT`` for the gradient of the output ``OUT``, and ``grad_X``, an output, for the gradient of the input ``X``.

    Returns:
        A kernel that is called as the forward kernel.

    Raises:
        TypeError: one of them is no kernel. Parameters that do not fit are errors of the first call.
    """
    for name, value in (("forward", forward), ("backward", backward)):
        expect_kernel("differentiable", name, value)
    return Differentiable(forward, backward)


class Module:
    """The kernels of a text; each is an attribute."""

    def __init__(self, kernels: dict[str, Kernel]) -> None:
        self._kernels = kernels

    def __getattr__(self, name: str) -> Kernel:
        kernels: dict[str, Kernel] = self.__dict__.get("_kernels", {})
        if name in kernels:
            return kernels[name]
        raise AttributeError(f"there is no kernel {name!r}; there are {', '.join(kernels)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._kernels]

    def __iter__(self) -> Iterator[Kernel]:
        return iter(self._kernels.values())

    def __repr__(self) -> str:
        return f"<ptx_kernels.Module {', '.join(self._kernels)}>"


def of_source(source: Source) -> Module:
    """The kernels of a source."""
    outlines = _ask("outline", source.name, source.text, source.target)["kernels"]
    names = [outline["name"] for outline in outlines]
    if twice := [name for at, name in enumerate(names) if name in names[:at]]:
        raise ValueError(f"{source.name} has several kernels that are called {twice[0]!r}; give them different names")
    return Module({outline["name"]: Kernel(source, outline, {}) for outline in outlines})


def _only(source: Source, name: str | None) -> Kernel:
    outlines = _ask("outline", source.name, source.text, source.target)["kernels"]
    names = [outline["name"] for outline in outlines]
    if not names:
        raise ValueError(f"{source.name} has no kernel: no function has #[ptx_kernel]")
    if name is None and len(names) > 1:
        raise ValueError(f"{source.name} has several kernels; choose one with name=, or take all with ptx_kernels.kernels: {', '.join(names)}")
    if name is not None and names.count(name) != 1:
        has = f"several kernels that are called {name!r}" if name in names else f"no kernel {name!r}; it has {', '.join(names)}"
        raise ValueError(f"{source.name} has {has}")
    return Kernel(source, outlines[0 if name is None else names.index(name)], {})


def kernel(source: str, name: str | None = None, *, target: str | None = None, file: str | None = None) -> Kernel:
    """The kernel of a text in the kernel language: a function with ``#[ptx_kernel]``, alone or in a module with ``#[ptx_module]``.

    >>> scale = ptx_kernels.kernel('''                                                        # doctest: +SKIP
    ... #[ptx_kernel(arch = "sm_80", block = 128, grid = N.div_ceil(128), unsafe(requires(N > 0)))]
    ... fn scale(x: Tile<f32, (N,)>, factor: f32, out: TileMut<f32, (N,)>) {
    ...     let i: u32 = ctaid.x * ntid.x + tid.x;
    ...     if i < N {
    ...         let (from, to, value): (Global<f32>, GlobalMut<f32>, f32);
    ...         (from, to) = (x.at(i), out.at(i));
    ...         ptx! { ld.global.f32 value, [from]; mul.rn.f32 value, value, factor; st.global.f32 [to], value; }
    ...     }
    ... }
    ... ''')
    >>> scale(numpy.ones(3, numpy.float32), 2.0)                                              # doctest: +SKIP

    Args:
        source: the text.
        name: the kernel, where the text has several.
        target: the target in place of those in the text: ``"sm_90a"``.
        file: the name of the text in messages; without it the caller's file, whose lines messages then have.

    Raises:
        CompileError: the text is wrong.
        ValueError: it has no such kernel.
    """
    return _only(_source(source, target, file, 2), name)


def kernels(source: str, *, target: str | None = None, file: str | None = None) -> Module:
    """All kernels of a text, as attributes of the result; see ``kernel``."""
    return of_source(_source(source, target, file, 2))


def kernel_file(path: str | os.PathLike[str], name: str | None = None, *, target: str | None = None) -> Kernel:
    """The kernel of a file in the kernel language; see ``kernel``."""
    return _only(Source(_name_of(path), _text_of(path), _target(target)), name)


def ptx_file(path: str | os.PathLike[str], entry: str, signature: str) -> Kernel:
    """An entry of a PTX file, from nvcc, Triton, pyptx or anything else, as a kernel.

    Args:
        path: the file.
        entry: the entry's name.
        signature: the parameters as a kernel of this project has them, and the launch:
            ``"#[ptx_kernel(block = 128, grid = n.div_ceil(128))] (x: &[f32], out: &mut [f32], n: u32)"``. Each is one parameter of the entry. A
            struct is declared in front: ``"#[repr(C)] struct Size { n: u32 } (x: &[f32], size: Size)"``.

    Raises:
        CompileError: the PTX or the signature is wrong, or they do not fit.
    """
    return of_ptx(Source(_name_of(path), _text_of(path), signatures=""), entry, signature)


def of_ptx(source: Source, entry: str, signature: str) -> Kernel:
    """The same for a text."""
    for name, value in (("entry", entry), ("signature", signature)):
        if not isinstance(value, str):
            raise TypeError(f"{name}: expected a str, found {type(value).__name__}")
    begin = _begin_of_parameters(signature)
    if begin is None:
        raise ValueError(f"a signature has parameters in parentheses: \"(x: &[f32], n: u32)\", found {signature.strip()!r}")
    written = f"{signature[:begin]} fn {entry}{signature[begin:].rstrip()};"
    return Kernel(replace(source, signatures=written), None, {}, entry)


def load_transpiled(path: str | os.PathLike[str], entry: str, signature: str) -> Kernel:
    """An entry of a PTX file as a kernel that is compiled from the kernel language: the file is transpiled first, as ``ptx transpile --sugar`` does. The
    attribute ``rust`` of the kernel is the text, for ``kernel`` after an edit.

    Args:
        path: the file.
        entry: the entry's name.
        signature: the parameters and the launch, as for ``ptx_file``.

    Raises:
        CompileError: the PTX or the signature is wrong, or they do not fit.
    """
    made = _ask("transpile", _name_of(path), _text_of(path))
    return of_ptx(Source(_name_of(path), made["ptx"], signatures="", rust=made["rust"]), entry, signature)


def _name_of(path: str | os.PathLike[str]) -> str:
    """The name of a file in messages."""
    return os.fsdecode(path)


def _text_of(path: str | os.PathLike[str]) -> str:
    """The text of a file. A device or a pipe may have no end."""
    # A number would be a file that is open.
    with open(os.fspath(path), "rb") as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError(f"`{path}` cannot be read: it has more than 256 MiB, which no source has")
    try:
        return text.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise ValueError(f"`{path}` is no text in UTF-8: byte {text[error.start]:#04x} in line {line}") from None


def _begin_of_parameters(signature: str) -> int | None:
    """The place of the parameters in a signature: the first parenthesis outside of structs and attributes."""
    depth = 0
    for at, letter in enumerate(signature):
        if letter == "(" and depth == 0:
            return at
        depth += {"[": 1, "{": 1, "(": 1, "]": -1, "}": -1, ")": -1}.get(letter, 0)
    return None


def explain(code: str) -> str:
    """The page of a code in an error message, such as ``P0201``: its meaning, a wrong example, the right one.

    Raises:
        ValueError: there is no such code.
    """
    try:
        return str(_ask("explain", str(code))["page"])
    except CompileError as error:
        raise ValueError(str(error)) from None


def compiler_version() -> str:
    """The version of the compiler of kernels, and a hash of the library that it is in."""
    global _version
    if not _version:
        from . import __version__
        from ._operations import library

        digest = hashlib.sha256(pathlib.Path(library()._path).read_bytes()).hexdigest()
        _version = f"{__version__} {digest[:16]}"
    return _version


_version = ""


def _source(text: str, target: str | None, file: str | None, depth: int) -> Source:
    if not isinstance(text, str) or _is_path(text):
        hint = "; ptx_kernels.kernel_file reads a file" if isinstance(text, (str, os.PathLike)) else ""
        raise TypeError(f"expected the text of a kernel, found {repr(text) if isinstance(text, str) else type(text).__name__}{hint}")
    if file is not None:
        return Source(str(file), text, _target(target))
    name, line, column = _place(text, depth + 1)
    # Blank lines in front give the compiler the lines and columns of the caller's file.
    return Source(name, "\n" * line + " " * column + text, _target(target))


def _is_path(text: str) -> bool:
    """True for the name of a file in the place of its text."""
    return text.endswith((".rs", ".ptx")) and not any(letter in text for letter in "\n{;")


def _target(target: str | None) -> str:
    if target is not None and not isinstance(target, str):
        raise TypeError(f"target: expected a str such as \"sm_90a\", found {type(target).__name__}")
    return target or ""


def _place(text: str, depth: int) -> tuple[str, int, int]:
    """The caller's file, and the line and column at which it has the text; ``<kernel>`` where it cannot be seen there."""
    frame = sys._getframe(depth)
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    whole = "".join(lines)
    at = whole.find(text)
    if not text or at < 0 or whole.find(text, at + 1) >= 0:
        return "<kernel>", 0, 0
    before = whole[:at]
    return frame.f_code.co_filename, before.count("\n"), at - (before.rfind("\n") + 1)

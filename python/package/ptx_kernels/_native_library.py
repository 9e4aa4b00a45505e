"""Loading of libraries that were built with ptx-ffi: their descriptions, and their symbols."""

from __future__ import annotations

import atexit
import ctypes
import filecmp
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Iterator, Sequence

from ._function import Function

# Held while modules are imported and lists of functions grow. A fork waits for it: in a child, nothing would end what another thread has begun.
guard = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=guard.acquire, after_in_parent=guard.release, after_in_child=guard.release)

_tvm_module: Any = None
_libraries: list[Any] = []
_listeners: list[Callable[[Any], None]] = []


def when_loaded(listener: Callable[[Any], None]) -> None:
    """Calls ``listener`` with the functions of every library, those that are loaded and those to come."""
    _listeners.append(listener)
    for library in _libraries:
        listener(library)


def _end() -> None:
    """At the end of the interpreter: lets calls of other threads end, from where they do not come back."""
    libraries = [library for library in _libraries if isinstance(library, Library)]
    ends = [end for library in libraries if (end := getattr(library._symbols, "__ptx_ffi_end", None)) is not None]
    # Threads that wait for this one to end come to their next call within these milliseconds, or do not call.
    until = time.monotonic() + (0.05 if threading.active_count() > 1 else 0.0)
    # All of them begin before a signal can end the wait for one.
    for end in ends:
        end.restype = ctypes.c_bool
        end()
    for end in ends:
        while time.monotonic() < until or (not end() and time.monotonic() < until + 0.2):
            time.sleep(0.001)


def _is_main_interpreter() -> bool:
    """False in a sub-interpreter, whose end is not that of the process."""
    get, main = (ctypes.PYFUNCTYPE(ctypes.c_void_p)((f"PyInterpreterState_{name}", ctypes.pythonapi)) for name in ("Get", "Main"))
    return bool(get() == main())


if _is_main_interpreter():
    atexit.register(_end)


def announce(library: Any, functions: Sequence[Function]) -> None:
    """Calls the listeners with new functions of a library that grows."""
    if library not in _libraries:
        _libraries.append(library)
    for listener in _listeners:
        listener(functions)


def loaded() -> tuple[Any, ...]:
    """The libraries of this process."""
    return tuple(_libraries)


def tvm_ffi() -> Any:
    """The package tvm_ffi, imported at the first call.

    It imports torch where torch is installed. It does not need it: without the import, tensors of a torch that is imported later work as well.

    Raises:
        RuntimeError: the import is under way in this thread, which a signal's handler has interrupted, or this is a sub-interpreter.
    """
    global _tvm_module, _is_importing
    if _tvm_module is None:
        with guard:
            if _tvm_module is None:
                if _is_importing:
                    raise RuntimeError("the first call of ptx_kernels was interrupted by another one, of a signal's handler or a finalizer; call it once before")
                if not _is_main_interpreter():
                    raise RuntimeError("ptx_kernels calls kernels in the main interpreter only: tvm_ffi does not support sub-interpreters")
                _is_importing = True
                try:
                    _tvm_module = _import_tvm_ffi()
                finally:
                    _is_importing = False
    return _tvm_module


_is_importing = False


class _WithoutTorch:
    """Finds no torch for the thread that has made it. Other threads import it meanwhile."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "torch" and threading.get_ident() == self.thread:
            raise ModuleNotFoundError("torch is imported when it is needed", name=name)


def _import_tvm_ffi() -> Any:
    finder = _WithoutTorch()
    sys.meta_path.insert(0, finder)
    try:
        import tvm_ffi as module
    finally:
        sys.meta_path.remove(finder)
    module.register_error("NotImplementedError", NotImplementedError)
    return module


class Library:
    """The exported functions of a library; each is an attribute.

    >>> lib = ptx_kernels.load("target/release/libmine.so")      # doctest: +SKIP
    >>> lib.scale(x, factor=3.0)                                 # doctest: +SKIP
    """

    def __init__(self, path: str | os.PathLike[str], name: str | None = None, mapped: str | None = None) -> None:
        self._path = os.path.abspath(os.fspath(path))
        if not os.path.exists(self._path):
            raise FileNotFoundError(f"no library at {self._path}")
        # The file that is mapped, where it is another one.
        self._mapped = mapped or self._path
        try:
            self._symbols = ctypes.CDLL(self._mapped)
        except OSError as error:
            raise ImportError(f"{self._path} does not load: {error}", path=self._path) from error
        try:
            describe = getattr(self._symbols, "__ptx_ffi_functions")
        except AttributeError:
            raise ImportError(f"{self._path} was not built with ptx-ffi", path=self._path) from None
        describe.restype = ctypes.c_char_p
        # The name of its operators in PyTorch and JAX, the same in every process.
        self._name = name or _name_of(self._path)
        # The library of this package.
        self.is_own = name is not None and mapped is None
        _check_name(self._name, self._path)
        self._module: Any = None
        described = json.loads(describe().decode())
        self._functions = {entry["name"]: Function(self, entry) for entry in described}
        for key, function in self._functions.items():
            # Found at once; one with the name of something else here is found by `__getattr__`.
            if not hasattr(type(self), key):
                self.__dict__.setdefault(key, function)
        _libraries.append(self)
        for listener in _listeners:
            listener(self)

    def __getattr__(self, name: str) -> Function:
        functions: dict[str, Function] = self.__dict__.get("_functions", {})
        if name in functions:
            return functions[name]
        raise AttributeError(f"{self.__dict__.get('_path', 'the library')} exports no function {name!r}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._functions]

    def __iter__(self) -> Iterator[Function]:
        return iter(self._functions.values())

    def __repr__(self) -> str:
        return f"<ptx_kernels.Library {self._path}: {', '.join(self._functions)}>"

    def __reduce__(self) -> Any:
        return _loaded, (self._path,)

    def _direct(self, name: str) -> Any:
        if self._module is None:
            self._module = tvm_ffi().load_module(self._mapped)
        return getattr(self._module, name)

    def _address(self, symbol: str) -> Any:
        return getattr(self._symbols, symbol)

    def addresses(self, function: Function) -> tuple[int, int, int] | None:
        """The addresses of a function's description, and of the functions that compute its shapes and call it; none in a library of an older ptx-ffi."""
        return addresses(self._symbols, "__ptx_ffi_function", ctypes.c_char_p(function.name.encode()))


def addresses(symbols: Any, find: str, key: Any) -> tuple[int, int, int] | None:
    """The address that the symbol ``find`` has for a key, and those of the functions of a native call."""
    if not hasattr(symbols, "__ptx_ffi_invoke") or not hasattr(symbols, find):
        return None
    # Another object than that of the library, which others may call otherwise.
    lookup = ctypes.CFUNCTYPE(ctypes.c_void_p, type(key))((find, symbols))
    infer, invoke = (ctypes.cast(getattr(symbols, name), ctypes.c_void_p).value for name in ("__ptx_ffi_infer", "__ptx_ffi_invoke"))
    found = lookup(key)
    return (found, infer, invoke) if found and infer and invoke else None


def _name_of(path: str) -> str:
    """The name of a library's file, without what platforms add to it."""
    stem = os.path.basename(path).split(".")[0].removeprefix("lib")
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in stem)
    return name if name[:1].isalpha() else f"lib{name}"


# Namespaces that PyTorch's own operators have.
_TAKEN = frozenset(["aten", "prim", "prims", "quantized", "profiler", "inductor", "higher_order", "c10d", "c10d_functional", "torch", "ptx_kernels", "ptx_jit"])


def _check_name(name: str, path: str) -> None:
    """An error for a second library of one name: programs that are kept say the name of an operator alone."""
    other = next((library for library in _libraries if library._name == name and library._path != path), None)
    if other is not None:
        raise ImportError(f"{path}: a library called {name!r} is loaded already, from {other._path}; rename one of the files", path=path)
    if name in _TAKEN and _libraries:
        raise ImportError(f"{path}: operators called {name}::… are not its own; rename the file", path=path)


_copies: str | None = None


def _remove(folder: str, owner: int) -> None:
    """Removes a folder at the end of the process that made it; the end of a child leaves it to its parent."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(path: str) -> str:
    """A copy of a library with a name of its own. The system maps a file of one name once, so that a rebuilt one would be the old one; and a file that is
    written while it is mapped changes the code that runs."""
    global _copies
    if _copies is None:
        _copies = tempfile.mkdtemp(prefix="ptx_kernels-")
        atexit.register(_remove, _copies, os.getpid())
    return shutil.copy(path, os.path.join(tempfile.mkdtemp(dir=_copies), os.path.basename(path)))


def _loaded(path: str) -> Library:
    """The newest library of this file, which is loaded unless it is there already."""
    found: Library | None = next((library for library in reversed(_libraries) if library._path == path), None)
    return found or load(path)


def load(path: str | os.PathLike[str]) -> Library:
    """Loads a library that was built with ptx-ffi.

    A file that was built again can be loaded again: each call returns the functions of the file as it is then. Functions of earlier calls stay as they are.

    Args:
        path: the shared library: ``target/release/libmine.so``.

    Returns:
        An object with the library's functions as attributes. Each takes its inputs and scalars in the order of the Rust function, and its
        outputs by keyword; outputs that are not passed are made and returned.

    Raises:
        FileNotFoundError: there is no such file.
        ImportError: it does not load, or was not built with ptx-ffi.
    """
    path = os.path.abspath(os.fspath(path))
    if not os.path.exists(path):
        raise FileNotFoundError(f"no library at {path}")
    former: list[Library] = [library for library in _libraries if library._path == path]
    # It takes files of the same size and time for those that it has compared, and a build may set the time.
    filecmp.clear_cache()
    if former and filecmp.cmp(former[-1]._mapped, path, shallow=False):
        return former[-1]
    # Operators of frameworks cannot be defined again: those of a rebuilt library have names of their own.
    return Library(path, f"{_name_of(path)}_{len(former) + 1}" if former else None, _copy(path))

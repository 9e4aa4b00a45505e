"""Calls on the watched CPU device."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Iterator

from . import _native_library


# The blocks under way, each with the switches that it has turned on.
_blocks: list[tuple[object, list[Any]]] = []


def _turn_on(switches: list[Any], library: Any) -> None:
    """Turns the watcher of a library on. Kernels from text are functions of a library that is turned on itself."""
    switch = getattr(library._symbols, "__ptx_ffi_watch", None) if isinstance(library, _native_library.Library) else None
    if switch is not None:
        switch.argtypes, switch.restype = [ctypes.c_bool], None
        switch(True)
        switches.append(switch)


def _turn_on_everywhere(library: Any) -> None:
    for _, switches in _blocks:
        _turn_on(switches, library)


_native_library.when_loaded(_turn_on_everywhere)


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Runs all calls meanwhile, those of other threads and of libraries to come too, on the watched CPU device, on copies of their tensors.

    The watcher looks for data races, reads of memory that nothing wrote, accesses outside of tensors, and misuse of barriers and asynchronous
    operations. A finding is an exception with the line of the kernel. Calls with CUDA tensors take part, and so does every call where the environment
    has ``PTX_DEVICE=cpu``. What JAX compiles runs when JAX runs it: wait for results inside of the block.

    >>> with ptx_kernels.watched():            # doctest: +SKIP
    ...     kernel(x)
    """
    block: tuple[object, list[Any]] = (object(), [])
    try:
        with _native_library.guard:
            _blocks.append(block)
            for library in _native_library.loaded():
                _turn_on(block[1], library)
        yield
    finally:
        with _native_library.guard:
            if block in _blocks:
                _blocks.remove(block)
            for switch in block[1]:
                switch(False)

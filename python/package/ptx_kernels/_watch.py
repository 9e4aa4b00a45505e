"""Calls on the watched CPU device."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Iterator

from . import _native_library


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Runs all calls meanwhile, those of other threads too, on the watched CPU device, on copies of their tensors.

    The watcher looks for data races, reads of memory that nothing wrote, accesses outside of tensors, and misuse of barriers and asynchronous
    operations. A finding is an exception with the line of the kernel. Calls with CUDA tensors take part, and so does every call where the environment
    has ``PTX_DEVICE=cpu``. What JAX compiles runs when JAX runs it: wait for results inside of the block.

    >>> with ptx_kernels.watched():            # doctest: +SKIP
    ...     kernel(x)
    """
    libraries = [library for library in _native_library.loaded() if isinstance(library, _native_library.Library)]
    switches = [getattr(library._symbols, "__ptx_ffi_watch", None) for library in libraries]
    for switch in filter(None, switches):
        switch.argtypes, switch.restype = [ctypes.c_bool], None
        switch(True)
    try:
        yield
    finally:
        for switch in filter(None, switches):
            switch(False)

"""The end of the interpreter, sub-interpreters, signals, and imports in other threads: each in a process of its own."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest

import ptx_kernels
from ptx_kernels import _watch


def _run(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_exit_functions_wait_for_calls_of_other_threads() -> None:
    """One that was registered before the package runs after the package's own, and a thread of the daemon kind may be what it waits for."""
    code = """
import atexit, queue, threading
tasks = queue.Queue()
atexit.register(lambda: (tasks.put(None), tasks.join(), print("done")))
import numpy as np, ptx_kernels
def work():
    while True:
        tasks.get(); ptx_kernels.relu(np.ones(8, np.float32)); tasks.task_done()
threading.Thread(target=work, daemon=True).start()
"""
    assert _run(code) == "done\n"


def test_sub_interpreters_are_refused() -> None:
    """Python's interface for threads, which tvm_ffi uses, waits for ever there. Their end is not that of the main interpreter."""
    name = next((name for name in ("_interpreters", "_xxsubinterpreters") if __import__("importlib.util").util.find_spec(name)), None)
    if name is None:
        pytest.skip("this Python has no sub-interpreters")
    code = f"""
import {name} as interpreters
import ptx_kernels
other = interpreters.create()
interpreters.run_string(other, '''
import atexit
before = atexit._ncallbacks()
import ptx_kernels
assert ptx_kernels._native_library._end.__name__ == "_end"
try:
    ptx_kernels.library().relu.direct
except RuntimeError as error:
    assert "main interpreter only" in str(error), error
else:
    raise AssertionError("tvm_ffi was imported")
''')
interpreters.destroy(other)
"""
    _run(code)


def test_the_first_call_leaves_torch_to_other_threads() -> None:
    """It imports tvm_ffi without torch. A signal's handler that calls in the middle of it has an error that says so."""
    code = """
import importlib.machinery, importlib.util, sys, threading
import numpy as np, ptx_kernels

class Meanwhile(importlib.machinery.SourceFileLoader):
    found = []

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "torch":
            return None if cls.found else importlib.util.spec_from_loader("torch", None)
        if name == "tvm_ffi":
            spec = importlib.machinery.PathFinder.find_spec(name, path)
            spec.loader = cls(name, spec.origin)
            return spec

    def exec_module(self, module):
        other = threading.Thread(target=lambda: self.found.append(importlib.util.find_spec("torch")))
        other.start()
        other.join()
        try:
            ptx_kernels.relu(np.ones(8, np.float32))
        except RuntimeError as error:
            self.found.append(str(error))
        super().exec_module(module)

sys.meta_path.insert(0, Meanwhile)
assert ptx_kernels.relu(np.ones(8, np.float32)).sum() == 8
torch, message = Meanwhile.found
assert torch is not None and "torch" not in sys.modules
assert "was interrupted by another one" in message, message
"""
    _run(code)


def test_libraries_that_are_loaded_meanwhile_are_watched(lib: Any, tmp_path: pathlib.Path) -> None:
    with ptx_kernels.watched():
        switches = _watch._blocks[-1][1]
        before = len(switches)
        other = ptx_kernels.load(shutil.copy(lib._path, tmp_path / "libwatched_meanwhile.so"))
        assert len(switches) == before + 1
        with ptx_kernels.watched():
            assert len(_watch._blocks[-1][1]) == before + 1
    assert not _watch._blocks and other.add_one is not None

"""Notebooks: ``%load_ext ptx_kernels``, then ``%%ptx`` makes of a cell in the kernel language a Python object for each of its kernels."""

from __future__ import annotations

import re
import sys
from typing import Any

from ._kernels import CompileError, Source, of_source

_COLORS = [
    (re.compile(r"^(error)(: .*)$", re.M), "\033[1;31m\\1\033[0m\033[1m\\2\033[0m"),
    (re.compile(r"^(warning)(: .*)$", re.M), "\033[1;33m\\1\033[0m\033[1m\\2\033[0m"),
    (re.compile(r"^( *\| *)(\^+)", re.M), "\\1\033[1;31m\\2\033[0m"),
    (re.compile(r"^( *(?:-->|\d* ?\|))", re.M), "\033[1;34m\\1\033[0m"),
    (re.compile(r"^( *= )(help|note)(:)", re.M), "\\1\033[1;36m\\2\033[0m\\3"),
]  # fmt: skip


def colored(message: str) -> str:
    """A message of the compiler with the colors of a terminal."""
    for pattern, replacement in _COLORS:
        message = pattern.sub(replacement, message)
    return message


def load(shell: Any) -> None:
    """Defines the magic in IPython."""

    def ptx(line: str, cell: str) -> None:
        """Compiles a cell; its kernels become objects of their names. Behind the magic a target may stand: ``%%ptx sm_90a``."""
        name = f"cell {shell.execution_count}"
        # The magic is the first line of the cell.
        try:
            module = of_source(Source(name, "\n" + cell, line.strip()))
            for kernel in module:
                kernel.compile_first()
        except CompileError as error:
            print(colored(str(error)), file=sys.stderr)
            return
        shell.push({kernel.name: kernel for kernel in module})

    shell.register_magic_function(ptx, magic_kind="cell", magic_name="ptx")

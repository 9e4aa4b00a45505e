"""Notebooks: ``%load_ext ptx_kernels``, then ``%%ptx`` makes of a cell in the kernel language a Python object for each of its kernels."""

from __future__ import annotations

import re
from typing import Any

from ._function import names_of
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


class CellError(CompileError):
    """A cell that does not compile. A notebook shows the message with colors, and no trace of this package; the cells behind it do not run."""

    def _render_traceback_(self) -> list[str]:
        return colored(str(self)).split("\n")


def load(shell: Any) -> None:
    """Defines the magic in IPython."""

    def ptx(line: str, cell: str) -> None:
        """Compiles a cell; its kernels become objects of their names. Behind the magic a target may stand: ``%%ptx sm_90a``."""
        name, target = f"cell {shell.execution_count}", line.strip()
        if target and not re.fullmatch(r"sm_\d+[af]?", target):
            raise CellError(f"error: a target such as `sm_90a` may stand behind `%%ptx`, and this is `{target}`")
        # The magic is the first line of the cell.
        try:
            module = of_source(Source(name, "\n" + cell, target))
            for kernel in module:
                kernel.compile_first()
        except CompileError as error:
            raise CellError(str(error), error.problems) from None
        except (TypeError, ValueError) as error:
            raise CellError(f"error: {error}") from None
        kernels = list(module)
        if not kernels:
            raise CellError(f"error: {name} has no kernel: no function has #[ptx_kernel]")
        shell.push(dict(zip(names_of(kernel.name for kernel in kernels), kernels)))

    shell.register_magic_function(ptx, magic_kind="cell", magic_name="ptx")

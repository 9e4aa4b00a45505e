"""Registers, shared memory and spills of machine code, as ptxas reports them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from typing import Any

_FIGURES = {
    "registers": r"Used (\d+) registers",
    "barriers": r"used (\d+) barriers",
    "shared_bytes": r"(\d+) bytes smem",
    "constant_bytes": r"(\d+) bytes cmem\[0\]",
    "stack_bytes": r"(\d+) bytes stack frame",
    "spill_store_bytes": r"(\d+) bytes spill stores",
    "spill_load_bytes": r"(\d+) bytes spill loads",
}


def find_ptxas() -> str | None:
    """The program that ``PTXAS`` names, or the one on the path."""
    return os.environ.get("PTXAS") or shutil.which("ptxas")


def of_ptx(target: str, ptx: str, entry: str) -> dict[str, Any]:
    """The figures of an entry.

    Raises:
        NotImplementedError: there is no ptxas.
        RuntimeError: it refuses the PTX, or is another program.
    """
    ptxas = find_ptxas()
    if not ptxas:
        raise NotImplementedError("the figures come from ptxas: set PTXAS, or pip install nvidia-cuda-nvcc")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.ptx")
        with open(path, "w", encoding="utf-8") as file:
            file.write(ptx)
        command = [ptxas, "-v", f"-arch={target}", f"--entry={entry}", path, "-o", os.path.join(folder, "kernel.cubin")]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        except OSError as error:
            raise NotImplementedError(f"the figures come from ptxas, and `{ptxas}` cannot be run: {error.strerror}; set PTXAS to the program") from None
    report = ran.stderr + ran.stdout
    if ran.returncode != 0:
        raise RuntimeError(f"{ptxas} refuses {entry}:\n{report}")
    found = {name: re.search(pattern, report) for name, pattern in _FIGURES.items()}
    if found["registers"] is None:
        raise RuntimeError(f"`{ptxas}` reports no registers of {entry}: set PTXAS to a ptxas of CUDA 12 or later\n{report}")
    return {"target": target, **{name: int(match[1]) if match else 0 for name, match in found.items()}}

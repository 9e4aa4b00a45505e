"""The first calls of a process beside warm ones, in milliseconds: `matmul` of 4096³, then `attention`, each in a new process with nothing cached, with the
driver's cache, and with `PTX_CACHE`. A folder as argument has a `ptx_kernels` that was built with machine code (`PTX_EMBED=sm_90a`), which is measured, too.
Needs a GPU and PyTorch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable

ROUNDS = 3
OPERATIONS = "matmul", "attention"


def one_process() -> dict[str, float]:
    """The times of this process: its import, and of each operation the first call and the median of warm ones."""
    import torch

    def timed(call: Callable[[], Any]) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - start)

    device, size, tokens = "cuda", 4096, 4096
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    q, k, v = (torch.randn(2, 16, tokens, 128, device=device, dtype=torch.bfloat16) for _ in range(3))
    torch.cuda.synchronize()
    begin = time.perf_counter()
    import ptx_kernels

    found = {"import": 1e3 * (time.perf_counter() - begin)}
    calls = {"matmul": lambda: ptx_kernels.matmul(a, b), "attention": lambda: ptx_kernels.attention(q, k, v)}
    for name, call in calls.items():
        found[f"{name} first"] = timed(call)
        found[f"{name} warm"] = sorted(timed(call) for _ in range(9))[4]
    assert (calls["matmul"]() - torch.matmul(a, b)).abs().max().item() < 4.0
    return found


def new_process(mode: str, package: str | None = None, **variables: str) -> None:
    """Prints a line of the table."""
    path = [package] if package else []
    path += filter(None, [os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "PTX_CACHE": "off", **variables, "PYTHONPATH": os.pathsep.join(path)}
    command = [sys.executable, __file__, "--one"]
    made = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(made.stdout.splitlines()[-1])
    cells = [f"{found['import']:8.1f}"]
    for name in OPERATIONS:
        first, warm = found[f"{name} first"], found[f"{name} warm"]
        cells.append(f"{first:10.1f} {warm:8.3f} {first - warm:8.1f}")
    print(f"{mode:16} | {' | '.join(cells)}", flush=True)


def main() -> None:
    package = sys.argv[1] if len(sys.argv) > 1 else None
    print(f"{'ms':16} | {'import':>8} | " + " | ".join(f"{name:>10} {'warm':>8} {'more':>8}" for name in OPERATIONS))
    for _ in range(ROUNDS):
        if package:
            new_process("machine code", package, CUDA_CACHE_DISABLE="1")
        with tempfile.TemporaryDirectory() as driver, tempfile.TemporaryDirectory() as own:
            new_process("nothing cached", CUDA_CACHE_PATH=driver)
            new_process("driver's cache", CUDA_CACHE_PATH=driver)
            new_process("nothing cached", CUDA_CACHE_DISABLE="1", PTX_CACHE=own)
            new_process("PTX_CACHE", CUDA_CACHE_DISABLE="1", PTX_CACHE=own)


if sys.argv[1:] == ["--one"]:
    print(json.dumps(one_process()))
else:
    main()

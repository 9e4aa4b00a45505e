"""A chain of calls in one JAX program on a GPU: the profile's kernels, the graphs that launched them, and the time between kernels."""

from __future__ import annotations

import collections
import glob
import gzip
import json
import os
import statistics
import tempfile
import time
from typing import Any

# Command buffers for custom calls, too, from two kernels on.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUSTOM_CALL --xla_gpu_graph_min_graph_size=2"
)
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

import ptx_kernels  # noqa: E402

CALLS = 100


@jax.jit
def chain(x: Any, w: Any) -> Any:
    """RMSNorm of RMSNorm, and so on."""
    for _ in range(CALLS):
        x = ptx_kernels.rms_norm(x, w)
    return x


def trace(x: Any, w: Any) -> list[dict[str, Any]]:
    """The events of one execution."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, create_perfetto_trace=True):
            jax.block_until_ready(chain(x, w))
        (path,) = glob.glob(f"{folder}/**/perfetto_trace.json.gz", recursive=True)
        with gzip.open(path) as file:
            return [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]


def main() -> None:
    x, w = jnp.ones((16, 64)) + jnp.arange(64.0), jnp.ones(64)
    for _ in range(10):
        jax.block_until_ready(chain(x, w))
    events = trace(x, w)
    counts = collections.Counter(event["name"] for event in events)
    kernels = sorted((e for e in events if "norm" in e["name"] and "args" in e and "hlo_op" in e["args"]), key=lambda e: e["ts"])
    kernels = kernels or sorted((e for e in events if "norm" in e["name"]), key=lambda e: e["ts"])
    gaps = [after["ts"] - before["ts"] - before["dur"] for before, after in zip(kernels, kernels[1:])]
    print(f"events of one execution of {CALLS} calls: {counts.most_common(12)}")
    if gaps:
        durations = [kernel["dur"] for kernel in kernels]
        print(
            f"{len(kernels)} kernels of {statistics.median(durations):.2f} us, {statistics.median(gaps):.2f} us between them (medians)"
        )
    launches = {name: count for name, count in counts.items() if "Launch" in name}
    print(f"launches by the host: {launches}")
    times = []
    for _ in range(50):
        start = time.perf_counter()
        jax.block_until_ready(chain(x, w))
        times.append((time.perf_counter() - start) * 1e6)
    print(f"one execution: {statistics.median(times):.0f} us, {statistics.median(times) / CALLS:.2f} us a call")


if __name__ == "__main__":
    main()

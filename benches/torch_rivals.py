#!/usr/bin/env python3
"""What PyTorch does with the row kernels (torch.compile) and with attention (cuDNN), for `bench --merge`.

    python3 benches/torch_rivals.py --json torch.json [--filter softmax] [--sizes 8192x8192]

Many launches are recorded in one graph, so that Python's own time is not measured. They take turns on so many inputs
that none is found in the second-level cache. Names, sizes and what counts as a byte are those of `benches/src/suites`.
"""

import argparse
import collections
import json
import subprocess

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

SHAPES = [(2048, 8192), (8192, 8192), (16384, 8192), (32768, 8192)]
VOCABULARY = (4096, 131072)
ROUND = 512 << 20
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
# Each input: a whole matrix, or one row.
ROWS = {
    "rms_norm": ([True, False], lambda x, w: F.rms_norm(x, (x.shape[-1],), w, 1e-6)),
    "layer_norm": ([True, False, False], lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b, 1e-5)),
    "softmax": ([True], lambda x: torch.softmax(x, -1)),
    "swiglu": ([True, True], lambda g, u: F.silu(g) * u),
}
# Batch, heads, sequence, width of a head, causal.
ATTENTION = [(max(1, 16384 // n), 16 if d == 128 else 32, n, d, causal)
             for d in (64, 128) for n in (4096, 16384) for causal in (False, True)]


def time(launches, turns):
    """Microseconds of one launch, ascending: each launch of the list once a replay."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for launch in launches[:2]:
            launch()
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        launches[0]()
        end.record()
        torch.cuda.synchronize()
        count = max(len(launches), min(200, int(20 / max(begin.elapsed_time(end), 1e-3))))
        graph = torch.cuda.CUDAGraph()
        # Outputs stay for a round, or all launches would write the same memory, and the second-level cache keep it.
        outputs = collections.deque(maxlen=len(launches))
        with torch.cuda.graph(graph, stream=side):
            for at in range(count):
                outputs.append(launches[at % len(launches)]())
        samples = []
        for turn in range(turns + 1):
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            samples += [begin.elapsed_time(end) * 1e3 / count] * (turn > 0)
    return sorted(samples)


def entry(kernel, size, contestant, samples, work, unit):
    median, scale = samples[len(samples) // 2], {"GB/s": 1e-3, "TFLOP/s": 1e-6}[unit]
    found = {
        "kernel": kernel, "size": size, "contestant": contestant, "ours": False, "error": None, "right": True,
        "median": median, "quartiles": [samples[len(samples) // 4], samples[3 * len(samples) // 4]],
        "rate": work / median * scale, "unit": unit,
    }
    print(f"{kernel:<22} {size:<22} {contestant:<16} {median:10.1f} µs {found['rate']:8.1f} {unit}", flush=True)
    return found


def rows(name, ty, shapes, turns):
    inputs, function = ROWS[name]
    compiled = torch.compile(function)
    for count, columns in shapes:
        elements = count * columns
        size = (1 + sum(inputs)) * elements * TYPES[ty].itemsize

        def fresh():
            made = [torch.randn(*((count, columns) if whole else (columns,)), device="cuda", dtype=TYPES[ty])
                    for whole in inputs]
            for tensor, whole in zip(made, inputs):
                if whole:
                    torch._dynamo.mark_dynamic(tensor, 0)
            return made

        sets = [fresh() for _ in range(-(-ROUND // size))]
        samples = time([lambda s=s: compiled(*s) for s in sets], turns)
        yield entry(f"{name} {ty}", f"{count}x{columns}", "torch.compile", samples, size, "GB/s")


def attention(shape, turns):
    batch, heads, length, width, causal = shape
    q, k, v = (torch.randn(batch, heads, length, width, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    work = 4 * batch * heads * length * length * width * (0.5 if causal else 1)
    size = f"b{batch} h{heads} n{length} d{width}" + (" causal" if causal else "")
    for contestant, backend in (("cuDNN", SDPBackend.CUDNN_ATTENTION),):
        with sdpa_kernel(backend):
            samples = time([lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal)], turns)
        yield entry("attention bf16", size, contestant, samples, work, "TFLOP/s")


def copy_bandwidth():
    a, b = (torch.empty(1 << 28, device="cuda") for _ in range(2))
    samples = time([lambda: b.copy_(a)], 11)
    return 2 * a.nbytes / samples[len(samples) // 2] * 1e-3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--filter", action="append", default=[])
    parser.add_argument("--sizes", action="append", default=[])
    parser.add_argument("--turns", type=int, default=11)
    arguments = parser.parse_args()
    wants = lambda name, parts: not parts or any(part in name for part in parts)
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                            capture_output=True, text=True).stdout.strip()
    copy = copy_bandwidth()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, copy {copy:.0f} GB/s", flush=True)
    entries = []
    for name in ROWS:
        shapes = SHAPES + [VOCABULARY] * (name == "softmax")
        shapes = [s for s in shapes if wants(f"{s[0]}x{s[1]}", arguments.sizes)]
        for ty in TYPES:
            if wants(f"{name} {ty}", arguments.filter):
                entries += rows(name, ty, shapes, arguments.turns)
    for shape in ATTENTION if wants("attention bf16", arguments.filter) else []:
        entries += attention(shape, arguments.turns)
    if arguments.json:
        machine = {"device": torch.cuda.get_device_name(), "driver": driver, "copy": copy}
        with open(arguments.json, "w") as file:
            json.dump({"machine": machine, "entries": entries}, file, indent=1)


if __name__ == "__main__":
    main()

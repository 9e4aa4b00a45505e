#!/usr/bin/env python3
"""Rivals from Python: torch.compile (rows), PyTorch's attention (which is cuDNN's), FlashInfer (decode), pyptx (GEMM, grouped GEMM).

`bench` starts this and tells it, line by line, what to open and when to run it (the protocol stands in
`benches/src/companion.rs`); whoever is not installed is absent. `--check KERNEL SIZE` opens one case and runs it once.

Launches are recorded in a CUDA graph, so that Python's own time is not measured, and take turns on so many inputs that
none is found in the second-level cache. Kernels, sizes and what an error is are those of `benches/src/suites`.
"""

import collections
import contextlib
import gc
import os
import re
import sys

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # pyptx's examples may import jax, which takes all memory

ROUND = 512 << 20  # bytes of inputs that take turns, as in suites/rows.rs
GRAPH_MS = 5.0  # of launches in one graph
COMPARED = 48  # rows that are compared with a reference in float64


class Rival:
    """Launches that take turns, and how far the first is from its reference."""

    def __init__(self, launches, error):
        self.launches, self.error, self.graph = launches, error, None

    def time(self, torch, count):
        """Microseconds of one of at least `count` launches."""
        if self.graph is None:
            once = elapsed(torch, self.launches[0])
            self.size = max(len(self.launches), min(1000, int(GRAPH_MS / max(once, 1e-3))))
            self.graph = record_graph(torch, self.launches, self.size)
        replays = max(1, round(count / self.size))
        return elapsed(torch, lambda: [self.graph.replay() for _ in range(replays)]) * 1e3 / (replays * self.size)


def elapsed(torch, work):
    """Milliseconds between two events around some work."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


def record_graph(torch, launches, size):
    graph = torch.cuda.CUDAGraph()
    # Outputs stay for a round, or all launches would write the same memory, and the second-level cache keep it.
    outputs = collections.deque(maxlen=len(launches))
    with torch.cuda.graph(graph):
        for at in range(size):
            outputs.append(launches[at % len(launches)]())
    return graph


def distance(torch, out, reference):
    """‖out − reference‖ / ‖reference‖; not a number where something is none."""
    out, reference = out.double(), reference.double()
    return float((out - reference).norm() / reference.norm().clamp_min(1e-300))


# torch.compile: rows. Each input: a whole matrix, or one row.


def row_kernels(torch):
    import torch.nn.functional as F

    return {
        "rms_norm": ([True, False], lambda x, w: F.rms_norm(x, (x.shape[-1],), w, 1e-6)),
        "layer_norm": ([True, False, False], lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b, 1e-5)),
        "softmax": ([True], lambda x: torch.softmax(x, -1)),
        "swiglu": ([True, True], lambda g, u: F.silu(g) * u),
    }


COMPILED = {}


def rows(torch, name, number, size):
    inputs, function = row_kernels(torch)[name]
    compiled = COMPILED.setdefault(name, torch.compile(function))
    count, columns = map(int, size.split("x"))
    ty = {"f32": torch.float32, "bf16": torch.bfloat16}[number]
    matrix = count * columns * ty.itemsize

    def fresh():
        shapes = [(count, columns) if whole else (columns,) for whole in inputs]
        made = [torch.randn(*shape, device="cuda", dtype=ty) for shape in shapes]
        for tensor in made:
            if tensor.dim() == 2:
                torch._dynamo.mark_dynamic(tensor, 0)
        return made

    sets = [fresh() for _ in range(-(-ROUND // ((1 + sum(inputs)) * matrix)))]
    some = slice(None, None, max(1, count // COMPARED))
    pick = lambda values: [value[some].double() if whole else value.double() for value, whole in zip(values, inputs)]
    error = distance(torch, compiled(*sets[0])[some], function(*pick(sets[0])))
    return {"torch.compile": Rival([lambda s=s: compiled(*s) for s in sets], error)}


# PyTorch: attention by cuDNN, on heads that lie one behind the other.


def attention(torch, size):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    import torch.nn.functional as F

    batch, heads, length, width = (int(word[1:]) for word in size.split()[:4])
    causal = size.endswith("causal")
    if size.split()[4:] not in ([], ["causal"]):
        raise RuntimeError("it plays with equal heads and all keys only")
    q, k, v = (torch.randn(batch, heads, length, width, device="cuda", dtype=torch.bfloat16) for _ in range(3))

    def launch():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    out = launch()
    error = 0.0
    for at in range(COMPARED):
        row = (length - 1) * at // (COMPARED - 1)
        seen = row + 1 if causal else length
        one, head = at % batch, at % heads
        scores = k[one, head, :seen].double() @ q[one, head, row].double() / width**0.5
        expected = torch.softmax(scores, 0) @ v[one, head, :seen].double()
        error = max(error, distance(torch, out[one, head, row], expected))
    return {"torch SDPA": Rival([launch], error)}


# FlashInfer: decode from pages, with the schedule made in front.


def flashinfer_decode(torch, size):
    numbers = dict(re.findall(r"([a-z]+) ?([0-9]+)", size))
    batch, keys, heads, heads_k, width = (int(numbers[name]) for name in ("b", "n", "h", "kv", "d"))
    if "page" not in numbers:
        raise RuntimeError("it decodes from pages only")
    import flashinfer

    page = int(numbers["page"])
    pages = batch * keys // page
    q = torch.randn(batch, heads, width, device="cuda", dtype=torch.bfloat16)
    cache = torch.randn(pages, 2, page, heads_k, width, device="cuda", dtype=torch.bfloat16)
    table = (torch.arange(pages, device="cuda", dtype=torch.int64) * 7919 % pages).int()
    starts = torch.arange(batch + 1, device="cuda", dtype=torch.int32) * (keys // page)
    full = torch.full((batch,), page, device="cuda", dtype=torch.int32)
    launches, missing = {}, None
    for cores in (False, True):
        workspace = torch.zeros(256 << 20, device="cuda", dtype=torch.uint8)
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=cores)
        try:
            wrapper.plan(starts, table, full, heads, heads_k, width, page, q_data_type=q.dtype, kv_data_type=q.dtype)
        except Exception as why:  # noqa: BLE001 - a kernel may be missing that is compiled at its first use
            missing = why
            continue
        launches["FlashInfer" + (" mma" if cores else "")] = lambda wrapper=wrapper: wrapper.run(q, cache)
    if not launches:
        raise missing
    rivals = {}
    for name, launch in launches.items():
        out, error = launch(), 0.0
        for at in range(16):
            row = (batch * heads - 1) * at // 15
            one, head = divmod(row, heads)
            own = cache[table[starts[one] : starts[one + 1]].long()][:, :, :, head // (heads // heads_k)].double()
            k, v = (own[:, part].reshape(keys, width) for part in (0, 1))
            expected = torch.softmax(k @ q[one, head].double() / width**0.5, 0) @ v
            error = max(error, distance(torch, out[one, head], expected))
        rivals[name] = Rival([launch], error)
    return rivals


# pyptx. Its launcher copies the tensor maps to the device before every launch; what takes turns here is its kernel alone,
# launched by the driver with the maps that the first launch left there.


def kernel_alone(torch, kernel, tensors, numbers):
    """A launch of the kernel that was called last, on the same memory."""
    import ctypes

    from cuda.bindings import driver
    from pyptx.jax_support import get_cubin_registry

    handle = kernel._cubin_handles[kernel._last_cache_hit[1]]
    record = get_cubin_registry().get(handle)
    slots = [slot[2] for slot in kernel._tma_slots_by_handle[handle]]
    values = [tensor.data_ptr() for tensor in tensors] + numbers + slots
    types = [ctypes.c_uint64] * len(tensors) + [ctypes.c_uint32] * len(numbers) + [ctypes.c_uint64] * len(slots)

    cluster = driver.CUlaunchAttribute()
    cluster.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    extents = cluster.value.clusterDim
    extents.x, extents.y, extents.z = kernel._cluster
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = record.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = record.block
    config.sharedMemBytes = max(record.smem_bytes, getattr(kernel, "_last_trace_smem", 0))
    config.attrs, config.numAttrs = [cluster], 1

    def launch():
        config.hStream = torch.cuda.current_stream().cuda_stream
        (code,) = driver.cuLaunchKernelEx(config, record.cu_function, (tuple(values), tuple(types)), 0)
        if code != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"cuLaunchKernelEx: {code}")
        return tensors

    return launch


def alone_and_right(torch, kernel, inputs, numbers, error):
    """Calls the kernel as its users do, then alone on the same output, poisoned, which must come out right again."""
    import pyptx.torch_support

    pyptx.torch_support._CPP_EXT_CHECKED = True  # its quicker launcher takes a minute to build, and is not timed
    out = kernel(*inputs)
    launch = kernel_alone(torch, kernel, [*inputs, out], numbers)
    out.fill_(float("nan"))
    launch()
    return {"pyptx": Rival([launch], error(out))}


def pyptx_gemm(torch, size):
    from pyptx.examples.hopper import gemm_highperf_hopper as example

    m, n, k = map(int, size.split("x"))
    tile = (example.BM * example.CLUSTER_M, example.BN, example.BK)
    if m % tile[0] or n % tile[1] or k % tile[2]:
        raise RuntimeError(f"its tiles are {tile[0]} x {tile[1]} x {tile[2]}")
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
    schedule = example.create_hilbert_schedule(m // tile[0], n // tile[1])
    schedule = torch.tensor(schedule, device="cuda", dtype=torch.int32)
    some = slice(None, None, max(1, m // COMPARED))
    error = lambda out: distance(torch, out[:, some].T, a[some].float() @ b.float().T)  # its C is N x M
    return alone_and_right(torch, example.gemm_warp_specialized, [a, b, schedule], [m, n, k], error)


def pyptx_grouped(torch, size):
    with jax_or_a_stand_in():
        from pyptx.examples.hopper import grouped_gemm as example

    groups, m, n, k = map(int, re.findall(r"\d+", size))
    kernel = example.build_grouped_gemm(groups, m, n, k)
    a = torch.randn(groups * m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(groups * k, n, device="cuda", dtype=torch.bfloat16)
    expected = a.view(groups, m, k).float() @ b.view(groups, k, n).float()
    error = lambda out: distance(torch, out.view(groups, m, n), expected)
    return alone_and_right(torch, kernel, [a, b], [], error)


@contextlib.contextmanager
def jax_or_a_stand_in():
    """The example imports jax for its own test alone; a machine without it has an empty one meanwhile."""
    import importlib.util
    import types

    added = [name for name in ("jax", "jax.numpy") if importlib.util.find_spec("jax") is None]
    sys.modules.update({name: types.ModuleType(name) for name in added})
    if added:
        sys.modules["jax"].numpy = sys.modules["jax.numpy"]
    try:
        yield
    finally:
        for name in added:
            sys.modules.pop(name, None)


# Who plays in what: the first word of the kernel's name, or all of it.

RIVALS = {
    "gemm bf16": [("pyptx", lambda torch, kernel, size: pyptx_gemm(torch, size))],
    "grouped gemm f32": [("pyptx", lambda torch, kernel, size: pyptx_grouped(torch, size))],
    "decode bf16": [("FlashInfer", lambda torch, kernel, size: flashinfer_decode(torch, size))],
    "attention bf16": [("torch SDPA", lambda torch, kernel, size: attention(torch, size))],
    **{
        f"{name} {number}": [("torch.compile", lambda torch, kernel, size: rows(torch, *kernel.split(), size))]
        for name in ("rms_norm", "layer_norm", "softmax", "swiglu")
        for number in ("f32", "bf16")
    },
}


def one_line(why):
    return f"{type(why).__name__}: {' '.join(str(why).split())}"[:300].replace("\t", " ")


class Companion:
    def __init__(self):
        self.torch, self.missing, self.rivals = None, None, {}

    def ready(self):
        says = []
        try:
            import torch

            torch.zeros(1, device="cuda")
            self.torch = torch
            says.append(f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
            import importlib.metadata

            says.append(f"pyptx {importlib.metadata.version('pyptx')}")
        except Exception as why:  # noqa: BLE001 - whatever is missing, the others still play
            says.append(one_line(why))
            self.missing = self.missing if self.torch else one_line(why)
        return [["ready", ", ".join(says)]]

    def open(self, kernel, size):
        lines = []
        for name, prepare in RIVALS.get(kernel, []):
            try:
                if self.missing:
                    raise RuntimeError(self.missing)
                for name, rival in prepare(self.torch, kernel, size).items():
                    self.rivals[name] = rival
                    lines.append(["rival", name, repr(rival.error)])
            except Exception as why:  # noqa: BLE001
                lines.append(["absent", name, one_line(why)])
        return lines + [["done"]]

    def time(self, name, count):
        return [["micros", repr(self.rivals[name].time(self.torch, int(count)))]]

    def close(self):
        self.rivals.clear()
        gc.collect()
        if self.torch:
            self.torch.cuda.empty_cache()
        return [["done"]]

    def answer(self, request, *arguments):
        try:
            return getattr(self, request)(*arguments)
        except Exception as why:  # noqa: BLE001
            return [["failed", one_line(why)]]


def main():
    # What libraries print goes to the other stream: this one is the protocol's.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    companion = Companion()

    def say(lines):
        for line in lines:
            print("\t".join(line), file=replies, flush=True)

    say(companion.answer("ready"))
    if sys.argv[1:2] == ["--check"]:
        say(companion.answer("open", *sys.argv[2:4]))
        for name in list(companion.rivals):
            say(companion.answer("time", name, "20"))
        return
    for line in sys.stdin:
        say(companion.answer(*line.rstrip("\n").split("\t")))


if __name__ == "__main__":
    main()

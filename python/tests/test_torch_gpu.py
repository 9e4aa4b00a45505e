"""PyTorch on a GPU: graphs, streams, threads, several devices, faults of kernels."""

from __future__ import annotations

import gc
import os
import pathlib
import subprocess
import sys
import threading
from typing import Any

import pytest
from conftest import has, has_gpu, needs_gpu

import ptx_kernels

if not has("torch"):
    pytest.skip("PyTorch is not installed", allow_module_level=True)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from with_torch import make  # noqa: E402


@needs_gpu
def test_devices_are_not_mixed() -> None:
    x, w = make([(4, 16), (16,)], "cuda")
    with pytest.raises(ValueError, match="weight: is on cpu, and x is on cuda:0"):
        ptx_kernels.rms_norm(x, w.cpu())


@needs_gpu
def test_graph() -> None:
    x, w = make([(128, 64), (64,)], "cuda")
    out = torch.empty_like(x)
    graph = torch.cuda.CUDAGraph()
    # The first launch of a kernel may be the captured one.
    with torch.cuda.graph(graph):
        ptx_kernels.layer_norm(x, w, w, out=out)
        made = ptx_kernels.layer_norm(out, w)
    x.normal_()
    graph.replay()
    torch.testing.assert_close(out, F.layer_norm(x, (64,), w, w), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(made, F.layer_norm(out, (64,), w), rtol=1e-5, atol=1e-5)


_FAULT = """
import sys, torch, ptx_kernels
lib = ptx_kernels.load(sys.argv[1])
x = torch.ones(2, device="cuda")
lib.stray(x, 0xFFFFFFFF)
try:
    torch.cuda.synchronize()
except RuntimeError as error:
    assert "illegal memory access" in str(error), error
else:
    raise AssertionError("no error")
try:
    lib.add_one(x)
except RuntimeError as error:
    assert "add_one" in str(error), error
else:
    raise AssertionError("the context is lost")
"""


@needs_gpu
def test_a_fault_of_a_kernel(lib: Any) -> None:
    """PyTorch reports it when it synchronizes, as a fault of its own kernels; later calls fail, too. In a process of its own."""
    subprocess.run([sys.executable, "-c", _FAULT, lib._path], check=True, timeout=120)


@needs_gpu
def test_current_stream() -> None:
    x, w = make([(4096, 4096), (4096,)], "cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        x.mul_(3.0)
        found = ptx_kernels.rms_norm(x, w)
    torch.cuda.current_stream().wait_stream(stream)
    torch.testing.assert_close(found, F.rms_norm(x, (4096,), w, 1e-6), rtol=1e-5, atol=1e-5)


@needs_gpu
@pytest.mark.skipif(not has_gpu() or torch.cuda.device_count() < 2, reason="one GPU or none")
def test_another_device() -> None:
    x, w = make([(64, 64), (64,)], "cuda:1", grad=True)
    found = ptx_kernels.rms_norm(x, w)
    assert torch.cuda.current_device() == 0 and found.device == x.device
    y = torch.ones(4, device="cuda")
    assert y.device.index == 0 and (y + 1).sum().item() == 8.0
    expected = F.rms_norm(x, (64,), w, 1e-6)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    for mine, reference in zip(torch.autograd.grad(found.sum(), (x, w)), torch.autograd.grad(expected.sum(), (x, w))):
        torch.testing.assert_close(mine, reference, rtol=1e-4, atol=1e-4)
    # Operations with scratch memory, on both devices in turns.
    pairs = [make([(300, 512), (512, 200)], device, torch.bfloat16) for device in ("cuda:1", "cuda:0", "cuda:1")]
    for a, b in pairs:
        torch.testing.assert_close(ptx_kernels.matmul(a, b), a @ b, rtol=2e-2, atol=2e-1)
    with torch.cuda.device(1):
        graph, out = torch.cuda.CUDAGraph(), torch.empty_like(x)
        with torch.cuda.graph(graph), torch.no_grad():
            ptx_kernels.rms_norm(x, w, out=out)
        graph.replay()
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="weight: is on cuda:0, and x is on cuda:1"):
        ptx_kernels.rms_norm(x.detach(), w.detach().to("cuda:0"))


def _resident() -> int:
    """Bytes of this process in memory."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@needs_gpu
@pytest.mark.parametrize("graphs", [False, True])
def test_threads(graphs: bool) -> None:
    """8 threads with a stream each, 100,000 calls a thread, alone or in graphs: the results are right, and no memory is lost."""
    x, w = make([(64, 64), (64,)], "cuda")
    expected = F.rms_norm(x, (64,), w, 1e-6)
    direct = ptx_kernels.library().rms_norm.direct
    outs, streams = [torch.empty_like(x) for _ in range(8)], [torch.cuda.Stream() for _ in range(8)]
    in_graph, captured = 100, []
    for out, stream in zip(outs, streams):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(in_graph):
                direct(x, w, out, 1e-6)
        captured.append(graph)

    def work(at: int, calls: int) -> None:
        with torch.cuda.stream(streams[at]):
            for _ in range(calls // in_graph if graphs else calls):
                captured[at].replay() if graphs else direct(x, w, outs[at], 1e-6)
            streams[at].synchronize()

    def run(calls: int) -> tuple[int, int]:
        for out in outs:
            out.zero_()
        torch.cuda.synchronize()
        threads = [threading.Thread(target=work, args=(at, calls)) for at in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        torch.cuda.synchronize()
        gc.collect()
        assert all(torch.allclose(out, expected, 1e-5, 1e-5) for out in outs)
        return torch.cuda.mem_get_info()[0], _resident()

    before = run(2_000)
    after = run(100_000)
    print(f"free memory of the GPU {before[0]} then {after[0]}, resident {before[1]} then {after[1]}")
    # A leak of 32 bytes a call would be 25 MB.
    assert before[0] - after[0] <= 2 << 20 and after[1] - before[1] <= 8 << 20

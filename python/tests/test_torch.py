"""PyTorch: eager, autograd, torch.library, torch.compile, CUDA graphs, autocast, streams, threads."""

from __future__ import annotations

import threading
from typing import Any, Callable

import pytest
from conftest import has, has_gpu, needs_gpu

import ptx_kernels

if not has("torch"):
    pytest.skip("PyTorch is not installed", allow_module_level=True)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

DEVICES = ["cpu", *(["cuda"] if has_gpu() else [])]
Op = tuple[Callable[..., Any], Callable[..., Any], list[tuple[int, ...]]]


def _swiglu(gate: Any, up: Any) -> Any:
    return F.silu(gate) * up


# Ours, PyTorch's, and the shapes of the arguments.
OPERATIONS: dict[str, Op] = {
    "rms_norm": (ptx_kernels.rms_norm, lambda x, w: F.rms_norm(x, (x.shape[-1],), w, 1e-6), [(4, 3, 64), (64,)]),
    "rms_norm_plain": (ptx_kernels.rms_norm, lambda x: F.rms_norm(x, (x.shape[-1],), None, 1e-6), [(5, 33)]),
    "layer_norm": (
        ptx_kernels.layer_norm,
        lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b, 1e-5),
        [(4, 3, 64), (64,), (64,)],
    ),
    "gelu": (ptx_kernels.gelu, F.gelu, [(3, 5, 8)]),
    "silu": (ptx_kernels.silu, F.silu, [(3, 5, 8)]),
    "relu": (ptx_kernels.relu, F.relu, [(3, 5, 8)]),
    "swiglu": (ptx_kernels.swiglu, _swiglu, [(3, 5, 8), (3, 5, 8)]),
    "softmax": (ptx_kernels.softmax, lambda x: x.softmax(-1), [(3, 5, 40)]),
    "softmax_axis": (lambda x: ptx_kernels.softmax(x, 1), lambda x: x.softmax(1), [(3, 5, 8)]),
    "matmul": (ptx_kernels.matmul, torch.matmul, [(2, 5, 24), (24, 16)]),
    "batched_matmul": (ptx_kernels.matmul, torch.matmul, [(2, 5, 24), (2, 24, 16)]),
    "linear": (
        lambda a, b, bias: ptx_kernels.matmul(a, b, bias=bias, activation="gelu_tanh"),
        lambda a, b, bias: F.gelu(a @ b + bias, approximate="tanh"),
        [(6, 24), (24, 16), (16,)],
    ),
}
each_operation = pytest.mark.parametrize("name", OPERATIONS)
each_device = pytest.mark.parametrize("device", DEVICES)


def make(shapes: list[tuple[int, ...]], device: str, dtype: Any = torch.float32, grad: bool = False) -> list[Any]:
    generator = torch.Generator().manual_seed(len(shapes) + sum(map(sum, shapes)))
    tensors = [torch.randn(shape, generator=generator).to(device=device, dtype=dtype) for shape in shapes]
    return [tensor.requires_grad_(grad) for tensor in tensors]


@each_operation
@each_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_forward(name: str, device: str, dtype: Any) -> None:
    ours, theirs, shapes = OPERATIONS[name]
    tensors = make(shapes, device, dtype)
    found = ours(*tensors)
    assert found.dtype == dtype and found.device == tensors[0].device
    expected = theirs(*[tensor.double() for tensor in tensors])
    bound = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    torch.testing.assert_close(found.double(), expected, rtol=bound, atol=bound)


@each_operation
@each_device
def test_gradients(name: str, device: str) -> None:
    ours, theirs, shapes = OPERATIONS[name]
    tensors = make(shapes, device, grad=True)
    weight = torch.randn_like(ours(*tensors))
    found = torch.autograd.grad((ours(*tensors) * weight).sum(), tensors)
    expected = torch.autograd.grad((theirs(*tensors) * weight).sum(), tensors)
    for mine, reference in zip(found, expected):
        torch.testing.assert_close(mine, reference, rtol=1e-4, atol=1e-4)


@each_device
@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(device: str, layout: str, causal: bool) -> None:
    shapes = [(2, 24, 4, 32), (2, 24, 2, 32), (2, 24, 2, 32)]
    q, k, v = make(shapes, device, torch.bfloat16)
    if layout == "bhsd":
        q, k, v = (tensor.transpose(1, 2).contiguous() for tensor in (q, k, v))
    tensors = [tensor.requires_grad_() for tensor in (q, k, v)]

    def reference(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (tensor if layout == "bhsd" else tensor.transpose(1, 2) for tensor in (q, k, v))
        out = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=causal, enable_gqa=True)
        return out if layout == "bhsd" else out.transpose(1, 2)

    found = ptx_kernels.attention(q, k, v, causal=causal, layout=layout)
    expected = reference(q, k, v)
    torch.testing.assert_close(found.float(), expected, rtol=2e-2, atol=2e-2)
    weight = torch.randn_like(expected)
    mine = torch.autograd.grad((found.float() * weight).sum(), tensors)
    theirs = torch.autograd.grad((expected * weight).sum(), tensors)
    for one, other in zip(mine, theirs):
        torch.testing.assert_close(one.float(), other.float(), rtol=5e-2, atol=5e-2)


@each_device
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(device: str, reduction: str) -> None:
    (logits,) = make([(7, 50)], device, grad=True)
    targets = torch.arange(7, device=device)
    targets[2] = -100

    def loss(operation: Any) -> Any:
        return operation(logits, targets, reduction=reduction, label_smoothing=0.1)

    torch.testing.assert_close(loss(ptx_kernels.cross_entropy), loss(F.cross_entropy), rtol=1e-5, atol=1e-5)
    (found,) = torch.autograd.grad(loss(ptx_kernels.cross_entropy).sum(), logits)
    (expected,) = torch.autograd.grad(loss(F.cross_entropy).sum(), logits)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@each_device
def test_outputs_that_are_passed(device: str) -> None:
    x, w = make([(4, 16), (16,)], device)
    out = torch.empty_like(x)
    assert ptx_kernels.rms_norm(x, w, out=out) is out
    torch.testing.assert_close(out, ptx_kernels.rms_norm(x, w))
    with pytest.raises(RuntimeError, match="out= cannot be written where gradients"):
        ptx_kernels.rms_norm(x.requires_grad_(), w, out=out)
    with torch.no_grad():
        ptx_kernels.rms_norm(x, w, out=out)


@each_device
def test_strides(device: str) -> None:
    (x,) = make([(6, 4, 32)], device)
    part = x[:, :, 3:19]
    torch.testing.assert_close(ptx_kernels.rms_norm(part), F.rms_norm(part, (16,), None, 1e-6), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="x: its first 2 dimensions .* are not evenly spaced; make it contiguous"):
        ptx_kernels.rms_norm(x.transpose(0, 1))


@each_device
def test_wrong_arguments(device: str) -> None:
    x, w = make([(4, 16), (16,)], device)
    with pytest.raises(TypeError, match="weight: expected a tensor of float32, found float16"):
        ptx_kernels.rms_norm(x, w.half())
    with pytest.raises(ValueError, match=r"weight: dimension 0 \(n\) has 15 elements, and dimension 1 of x has 16"):
        ptx_kernels.rms_norm(x, w[:15])
    with pytest.raises(TypeError, match="weight: expected a torch.Tensor, found ndarray"):
        ptx_kernels.rms_norm(x, w.cpu().numpy())
    with pytest.raises(TypeError, match="x: expected a tensor of float32 or float16 or bfloat16, found float64"):
        ptx_kernels.rms_norm(x.double())


@needs_gpu
def test_devices_are_not_mixed() -> None:
    x, w = make([(4, 16), (16,)], "cuda")
    with pytest.raises(ValueError, match="weight: is on cpu, and x is on cuda:0"):
        ptx_kernels.rms_norm(x, w.cpu())


@each_device
def test_opcheck(device: str) -> None:
    from ptx_kernels import _torch

    state = _torch.operators(ptx_kernels.library().rms_norm)
    x, w = make([(4, 16), (16,)], device)
    torch.library.opcheck(state.op, (x, w, 1e-6))
    torch.library.opcheck(state.op_out, (x, w, torch.empty_like(x), 1e-6))
    torch.library.opcheck(state.op_saved, (x.clone().requires_grad_(), w.clone().requires_grad_(), 1e-6))
    torch.library.opcheck(state.op, (x.clone().requires_grad_(), None, 1e-6))


@each_operation
@each_device
def test_compile(name: str, device: str) -> None:
    ours, theirs, shapes = OPERATIONS[name]
    torch._dynamo.reset()
    compiled = torch.compile(lambda *tensors: ours(*tensors) * 2.0, fullgraph=True, backend="aot_eager" if device == "cpu" else "inductor")
    tensors = make(shapes, device)
    torch.testing.assert_close(compiled(*tensors), ours(*tensors) * 2.0)
    with_grad = make(shapes, device, grad=True)
    found = torch.autograd.grad(compiled(*with_grad).sum(), with_grad)
    expected = torch.autograd.grad((theirs(*with_grad) * 2.0).sum(), with_grad)
    for mine, reference in zip(found, expected):
        torch.testing.assert_close(mine, reference, rtol=1e-4, atol=1e-4)


@each_device
def test_compile_with_mutation(device: str) -> None:
    torch._dynamo.reset()

    @torch.compile(fullgraph=True, backend="aot_eager" if device == "cpu" else "inductor")
    def step(x: Any, w: Any, out: Any) -> Any:
        ptx_kernels.rms_norm(x, w, out=out)
        return out + 1.0

    x, w = make([(4, 16), (16,)], device)
    out = torch.zeros_like(x)
    found = step(x, w, out)
    torch.testing.assert_close(out, ptx_kernels.rms_norm(x, w))
    torch.testing.assert_close(found, out + 1.0)


@each_device
def test_functions_of_a_library(lib: Any, device: str) -> None:
    x, w = make([(4, 16), (16,)], device, grad=True)
    torch.testing.assert_close(lib.rms_norm(x, w), F.rms_norm(x, (16,), w, 1e-6), rtol=1e-5, atol=1e-5)
    found = torch.autograd.grad(lib.rms_norm(x, w).square().sum(), (x, w))
    expected = torch.autograd.grad(F.rms_norm(x, (16,), w, 1e-6).square().sum(), (x, w))
    for mine, reference in zip(found, expected):
        torch.testing.assert_close(mine, reference, rtol=1e-4, atol=1e-4)
    low, high = lib.both(torch.arange(5.0, device=device))
    assert low.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0] and high[-1] == 8.0
    with pytest.raises(RuntimeError, match="add_one has no gradient"):
        lib.add_one(w)


@each_device
def test_functions_of_a_library_compile(lib: Any, device: str) -> None:
    torch._dynamo.reset()
    backend = "aot_eager" if device == "cpu" else "inductor"
    compiled = torch.compile(lambda x, w: lib.rms_norm(x, w, eps=1e-5).square(), fullgraph=True, backend=backend)
    x, w = make([(4, 16), (16,)], device, grad=True)
    found = torch.autograd.grad(compiled(x, w).sum(), (x, w))
    expected = torch.autograd.grad(F.rms_norm(x, (16,), w, 1e-5).square().sum(), (x, w))
    for mine, reference in zip(found, expected):
        torch.testing.assert_close(mine, reference, rtol=1e-4, atol=1e-4)


@each_device
def test_autocast(device: str) -> None:
    x, w = make([(4, 16), (16,)], device)
    with torch.autocast(device, torch.bfloat16):
        found = ptx_kernels.rms_norm(x.bfloat16(), w)
    assert found.dtype == torch.bfloat16


@each_device
def test_vmap(device: str) -> None:
    x, w = make([(3, 4, 16), (16,)], device)
    try:
        found = torch.vmap(ptx_kernels.rms_norm, (0, None))(x, w)
    except (RuntimeError, NotImplementedError) as error:
        assert "vmap" in str(error) or "atching rule" in str(error)
    else:
        torch.testing.assert_close(found, ptx_kernels.rms_norm(x, w))


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
    x, w = make([(64, 64), (64,)], "cuda:1")
    found = ptx_kernels.rms_norm(x, w)
    assert torch.cuda.current_device() == 0 and found.device == x.device
    y = torch.ones(4, device="cuda")
    assert y.device.index == 0 and (y + 1).sum().item() == 8.0
    torch.testing.assert_close(found, F.rms_norm(x, (64,), w, 1e-6), rtol=1e-5, atol=1e-5)


@needs_gpu
@pytest.mark.parametrize("calls", [5_000])
def test_threads(calls: int) -> None:
    x, w = make([(64, 64), (64,)], "cuda")
    expected = F.rms_norm(x, (64,), w, 1e-6)
    torch.cuda.synchronize()
    wrong: list[Any] = []

    def work() -> None:
        stream = torch.cuda.Stream()
        out = torch.empty_like(x)
        direct = ptx_kernels.library().rms_norm.direct
        with torch.cuda.stream(stream):
            for _ in range(calls):
                direct(x, w, out, 1e-6)
            stream.synchronize()
        if not torch.allclose(out, expected, 1e-5, 1e-5):
            wrong.append(out)

    before = torch.cuda.mem_get_info()[0]
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert before - torch.cuda.mem_get_info()[0] < 256 << 20

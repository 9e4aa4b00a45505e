"""PyTorch: derivatives of every kind, each right or an error that names the operation; layouts; programs that outlive their process."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import pytest
from conftest import has

import ptx_kernels

if not has("torch"):
    pytest.skip("PyTorch is not installed", allow_module_level=True)

import torch  # noqa: E402
import torch.autograd.forward_ad as forward_ad  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from with_torch import each_device, make  # noqa: E402

_TARGETS = torch.tensor([1, 2, -100, 3])
_ANGLES = torch.arange(3.0)[:, None] / 10.0 ** torch.arange(4)


def _layer_norm(x: Any, w: Any, b: Any) -> Any:
    centered = x - x.mean(-1, keepdim=True)
    return centered * (centered.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * w + b


def _rms_norm(x: Any, w: Any) -> Any:
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w


def _rotary(x: Any) -> Any:
    (first, second), (c, s) = x.chunk(2, -1), (table.to(x)[:, None] for table in (_ANGLES.cos(), _ANGLES.sin()))
    return torch.cat([first * c - second * s, second * c + first * s], -1)


def _our_rotary(x: Any) -> Any:
    cos, sin = (table.to(x.device) for table in (_ANGLES.cos(), _ANGLES.sin()))
    return ptx_kernels.rotary(x, cos, sin, torch.arange(3, device=x.device))


# Ours, the same by functions of PyTorch that are right for every derivative, and the shapes of the arguments.
OPERATIONS: dict[str, Any] = {
    "rms_norm": (ptx_kernels.rms_norm, _rms_norm, [(4, 16), (16,)]),
    "layer_norm": (ptx_kernels.layer_norm, _layer_norm, [(4, 16), (16,), (16,)]),
    "gelu": (ptx_kernels.gelu, F.gelu, [(3, 8)]),
    "gelu_tanh": (lambda x: ptx_kernels.gelu(x, "tanh"), lambda x: F.gelu(x, approximate="tanh"), [(3, 8)]),
    "silu": (ptx_kernels.silu, F.silu, [(3, 8)]),
    "relu": (ptx_kernels.relu, F.relu, [(3, 8)]),
    "swiglu": (ptx_kernels.swiglu, lambda gate, up: F.silu(gate) * up, [(3, 8), (3, 8)]),
    "geglu": (ptx_kernels.geglu, lambda gate, up: F.gelu(gate) * up, [(3, 8), (3, 8)]),
    "softmax": (lambda x: ptx_kernels.softmax(x, scale=2.0), lambda x: (2.0 * x).softmax(-1), [(3, 8)]),
    "cross_entropy": (
        lambda x: ptx_kernels.cross_entropy(x, _TARGETS.to(x.device), label_smoothing=0.1),
        lambda x: F.cross_entropy(x, _TARGETS.to(x.device), label_smoothing=0.1),
        [(4, 8)],
    ),
    "matmul": (ptx_kernels.matmul, torch.matmul, [(4, 8), (8, 6)]),
    "batched_matmul": (ptx_kernels.matmul, torch.matmul, [(2, 4, 8), (2, 8, 6)]),
    "rotary": (_our_rotary, _rotary, [(3, 2, 8)]),
}
each_operation = pytest.mark.parametrize("name", OPERATIONS)


def _close(found: Any, expected: Any) -> None:
    for mine, reference in zip(found, expected, strict=True):
        scale = max(1.0, float(reference.abs().max()))
        torch.testing.assert_close(mine.double(), reference.double(), rtol=1e-3, atol=1e-4 * scale)


def _orders(function: Any, tensors: list[Any]) -> list[Any]:
    """Derivatives of the first, second and third order of a loss."""
    out = function(*tensors)
    weight = torch.linspace(-1.0, 2.0, out.numel(), device=out.device, dtype=out.dtype).reshape(out.shape)
    first = torch.autograd.grad((out * weight * tensors[0].sum()).sum(), tensors, create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in first), tensors, create_graph=True)
    third = torch.autograd.grad(sum(g.square().sum() for g in second), tensors)
    return [*(g.detach() for g in (*first, *second)), *third]


@each_operation
@each_device
def test_three_orders(name: str, device: str) -> None:
    ours, theirs, shapes = OPERATIONS[name]
    tensors = make(shapes, device, grad=True)
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    _close(_orders(ours, tensors), _orders(theirs, exact))


@each_operation
@each_device
def test_transforms(name: str, device: str) -> None:
    ours, theirs, shapes = OPERATIONS[name]
    tensors = make(shapes, device)

    def results(function: Any, tensors: list[Any]) -> list[Any]:
        def loss(*tensors: Any) -> Any:
            out = function(*tensors)
            return (out * torch.linspace(-1.0, 2.0, out.numel(), device=device).to(out).reshape(out.shape)).sum()

        every = tuple(range(len(tensors)))
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(tensor, torch.ones_like(tensor)) for tensor in tensors]
            tangent = forward_ad.unpack_dual(function(*duals)).tangent
        found = [tangent, torch.func.jvp(function, tuple(tensors), tuple(map(torch.ones_like, tensors)))[1]]
        found += [*torch.func.grad(loss, every)(*tensors), torch.func.hessian(loss)(*tensors), torch.func.vjp(function, *tensors)[0]]
        return found

    _close(results(ours, tensors), results(theirs, [tensor.double() for tensor in tensors]))
    if name not in ("cross_entropy", "rotary"):
        stacked = [torch.stack([tensor, 2.0 * tensor]) for tensor in tensors]
        _close([torch.vmap(ours)(*stacked)], [torch.vmap(theirs)(*stacked)])


@each_device
def test_derivatives_that_are_not_there(lib: Any, device: str) -> None:
    """An error that names the operation, where PyTorch would take the derivative for zero."""
    (q,) = make([(1, 8, 2, 16)], device, torch.bfloat16, grad=True)
    (x, w) = make([(4, 16), (16,)], device, grad=True)

    def attend(q: Any) -> Any:
        return ptx_kernels.attention(q, q, q).float().sum()

    for loss, tensor, name in ((attend, q, "attention"), (lambda x: lib.rms_norm(x, w).square().sum(), x, "rms_norm")):
        (grad,) = torch.autograd.grad(loss(tensor), tensor, create_graph=True)
        with pytest.raises(NotImplementedError, match=f"{name} has no second derivative"):
            torch.autograd.grad(grad.float().square().sum(), tensor)
        for transform in (torch.func.grad, torch.func.jacfwd, torch.func.jacrev, torch.func.hessian):
            with pytest.raises(NotImplementedError, match=f"{name} has no"):
                transform(loss)(tensor.detach())
    with pytest.raises(RuntimeError, match="add_one has no gradient"):
        lib.add_one(w)


@each_device
def test_derivatives_of_operators(lib: Any, device: str) -> None:
    """Operators of torch.library, called as such: no path to an input is hidden."""
    ops, own = torch.ops.ptx_kernels, getattr(torch.ops, lib._name)
    (x, w) = make([(4, 16), (16,)], device, grad=True)
    (grad,) = torch.autograd.grad(ops.silu(x).sum(), x, create_graph=True)
    (expected,) = torch.autograd.grad(F.silu(x).sum(), x, create_graph=True)
    _close(torch.autograd.grad(grad.square().sum(), x), torch.autograd.grad(expected.square().sum(), x))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.detach(), torch.ones_like(x))
        assert forward_ad.unpack_dual(ops.silu(dual)).tangent is not None
        with pytest.raises(NotImplementedError, match="has no forward-mode derivative"):
            own.rms_norm(dual, w.detach(), 1e-6)
    with pytest.raises(NotImplementedError, match="add_one has no gradient"):
        own.add_one(w).sum().backward()
    assert not ops.cross_entropy(x, torch.zeros(4, dtype=torch.int64, device=device), -100, 0.0)[1].requires_grad
    for write in (ops.silu_out, lambda x, out: ptx_kernels.silu(x, out=out)):
        with pytest.raises(RuntimeError, match="cannot be written where gradients"):
            write(x * 1.0, torch.empty_like(x))


@each_device
def test_a_write_is_seen(device: str) -> None:
    """Autograd refuses values that were overwritten after it kept them."""
    x, residual = make([(4, 16), (4, 16)], device)
    scale = torch.ones_like(residual).requires_grad_()
    product = scale * residual
    with torch.no_grad():
        ptx_kernels.add_rms_norm(x, residual)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


ELEMENTWISE: dict[str, Any] = {
    "gelu": (ptx_kernels.gelu, F.gelu, 1),
    "silu": (ptx_kernels.silu, F.silu, 1),
    "relu": (ptx_kernels.relu, F.relu, 1),
    "swiglu": (ptx_kernels.swiglu, lambda gate, up: F.silu(gate) * up, 2),
    "geglu": (ptx_kernels.geglu, lambda gate, up: F.gelu(gate) * up, 2),
}


@each_device
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_layouts_of_elements(name: str, device: str) -> None:
    ours, theirs, count = ELEMENTWISE[name]
    (x,) = make([(2, 8, 3, 4)], device)
    layouts = [x.to(memory_format=torch.channels_last), x.permute(3, 1, 0, 2), x.transpose(0, 1), x[:, ::2], x[:1].expand(3, 8, 3, 4), x[0, 0, 0, 0]]
    for at, tensor in enumerate(layouts):
        for other in (tensor, tensor.contiguous()):
            arguments = [t.detach().requires_grad_() for t in (tensor, other)[:count]]
            found, expected = ours(*arguments), theirs(*arguments)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
            if at < 3:
                assert found.stride() == tensor.stride()
            for mine, reference in zip(torch.autograd.grad(found.sum(), arguments), torch.autograd.grad(expected.sum(), arguments)):
                torch.testing.assert_close(mine, reference, rtol=1e-4, atol=1e-5)


@each_device
def test_layouts_of_outputs_that_are_passed(device: str) -> None:
    (x,) = make([(2, 8, 3, 4)], device)
    last = x.to(memory_format=torch.channels_last)
    for given in (x, last):
        for out in (torch.empty_like(x), torch.empty_like(last)):
            torch.testing.assert_close(ptx_kernels.gelu(given, out=out), F.gelu(x), rtol=1e-4, atol=1e-5)
            assert out.stride() in (x.stride(), last.stride())


@each_device
@pytest.mark.parametrize("count", [63, 64, 65, 200])
def test_more_elements_than_a_launch_takes(monkeypatch: Any, device: str, count: int) -> None:
    from ptx_kernels import _torch

    monkeypatch.setattr(_torch, "MOST", 64)
    for name, (ours, theirs, tensors) in ELEMENTWISE.items():
        arguments = make([(count,)] * tensors, device, grad=True)
        torch.testing.assert_close(ours(*arguments), theirs(*arguments), rtol=1e-4, atol=1e-5)
        found, expected = (torch.autograd.grad(f(*arguments).sum(), arguments) for f in (ours, theirs))
        for mine, reference in zip(found, expected):
            torch.testing.assert_close(mine, reference, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
def test_more_than_2_to_the_31_elements() -> None:
    x = torch.full((2**31 + 4096,), -1.0, device="cuda", dtype=torch.float16)
    x[-4096:] = 2.0
    found = ptx_kernels.relu(x)
    assert float(found[:-4096].max()) == 0.0 and float(found[-4096:].min()) == 2.0


class _Module(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return ptx_kernels.silu(x) + 1.0


def _in_another_process(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


@each_device
def test_a_program_in_another_process(tmp_path: pathlib.Path, device: str) -> None:
    path = tmp_path / "module.pt2"
    torch.export.save(torch.export.export(_Module(), (torch.ones(8, 64, device=device),)), path)
    call = f"print(float(torch.export.load({str(path)!r}).module()(torch.zeros(8, 64, device={device!r}))[0, 0]))"
    for imports in ("import torch, ptx_kernels", "import ptx_kernels.torch, torch"):
        assert _in_another_process(f"{imports}; {call}") == "1.0\n"


def test_names_of_operators() -> None:
    assert torch.ops.ptx_kernels.silu.default.name() == "ptx_kernels::silu"


@each_device
def test_the_profiler_sees_operations(device: str) -> None:
    (x,) = make([(4, 16)], device, grad=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        ptx_kernels.silu(x).sum().backward()
    names = {event.key for event in profile.key_averages()}
    assert {"ptx_kernels::silu", "ptx_kernels::silu_backward"} <= names


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_several_gradients_at_once(lib: Any) -> None:
    """By `is_grads_batched`, as `torch.autograd.functional` has it, and by vmap: such gradients have no memory of their own."""
    x, w = torch.randn(4, 16, requires_grad=True), torch.randn(16, requires_grad=True)
    expected = torch.func.jacrev(lambda x, w: torch.nn.functional.rms_norm(x, (16,), w, 1e-6), (0, 1))(x, w)
    for function in (ptx_kernels.rms_norm, lib.rms_norm):
        found = torch.autograd.functional.jacobian(function, (x, w), vectorize=True)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        made = function(x, w)
        each = torch.eye(64).reshape(64, 4, 16)
        found = torch.func.vmap(lambda g: torch.autograd.grad(made, (x, w), g, retain_graph=True))(each)
        torch.testing.assert_close([f.reshape(e.shape) for f, e in zip(found, expected)], list(expected), rtol=1e-4, atol=1e-4)

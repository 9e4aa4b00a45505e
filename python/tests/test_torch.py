"""PyTorch: eager, autograd, torch.library, torch.compile, autocast, wrong calls."""

from __future__ import annotations

import pathlib
import socket
import subprocess
import sys
from typing import Any, Callable

import numpy as np
import pytest
from conftest import WRONG, has

import ptx_kernels

if not has("torch"):
    pytest.skip("PyTorch is not installed", allow_module_level=True)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from with_torch import compiled, each_device, make, needs_hopper  # noqa: E402

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
    "geglu": (ptx_kernels.geglu, lambda gate, up: F.gelu(gate) * up, [(3, 5, 8), (3, 5, 8)]),
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


def test_distributed_tensors() -> None:
    """Four processes call operations with tensors that are split by rows, columns and heads."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    script = pathlib.Path(__file__).parent / "sharded_torch.py"
    ranks = [subprocess.Popen([sys.executable, str(script), str(rank), port]) for rank in range(4)]
    assert [rank.wait(timeout=300) for rank in ranks] == [0, 0, 0, 0]


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
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("out_dtype", [None, torch.float32])
def test_grouped_matmul(device: str, transposed: bool, out_dtype: Any) -> None:
    needs_hopper(device)
    if transposed and out_dtype is not None:
        pytest.skip("there is no such kernel")
    a, b = make([(200, 64), (4, 64, 136)], device, torch.bfloat16)
    if transposed:
        b = b.transpose(1, 2).contiguous().transpose(1, 2)
    offsets = torch.tensor([0, 3, 3, 150, 200], dtype=torch.int32, device=device)
    found = ptx_kernels.grouped_matmul(a, b, offsets, out_dtype=out_dtype)
    assert found.dtype == (out_dtype or torch.bfloat16)
    rows = [a[low:high].float() @ matrix.float() for low, high, matrix in zip([0, 3, 3, 150], [3, 3, 150, 200], b)]
    torch.testing.assert_close(found.float(), torch.cat(rows), rtol=2e-2, atol=2e-2)
    if out_dtype is None:
        torch.testing.assert_close(compiled(device, ptx_kernels.grouped_matmul)(a, b, offsets), found)
    with pytest.raises(ValueError, match="offsets: expected 5 numbers without gaps for 4 groups, found 4"):
        ptx_kernels.grouped_matmul(a, b, offsets[:4])
    with pytest.raises(TypeError, match="a: expected a tensor of bfloat16, found float32"):
        ptx_kernels.grouped_matmul(a.float(), b, offsets)


@each_device
@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_grouped_matmul(device: str, transposed: bool) -> None:
    needs_hopper(device)
    a, b, weight = make([(210, 64), (4, 64, 136), (210, 136)], device, torch.bfloat16)
    if transposed:
        b = b.transpose(1, 2).contiguous().transpose(1, 2)
    # Rows in front of the first group and behind the last one, and a group without rows.
    bounds = [4, 7, 7, 150, 200]
    offsets = torch.tensor(bounds, dtype=torch.int32, device=device)
    inputs = [a.requires_grad_(), b.requires_grad_()]
    exact = [t.detach().double().requires_grad_() for t in (a, b)]
    rows = [exact[0][low:high] @ matrix for low, high, matrix in zip(bounds, bounds[1:], exact[1])]
    expected = torch.autograd.grad((torch.cat(rows) * weight[4:200].double()).sum(), exact)
    for call in (ptx_kernels.grouped_matmul, compiled(device, ptx_kernels.grouped_matmul)):
        found = torch.autograd.grad((call(a, b, offsets)[4:200] * weight[4:200]).sum(), inputs)
        for mine, reference in zip(found, expected):
            torch.testing.assert_close(mine.double(), reference, rtol=2e-2, atol=2e-2 * reference.abs().max().item())
    only_a = torch.autograd.grad(ptx_kernels.grouped_matmul(a, b.detach(), offsets)[4:200].float().sum(), a)
    assert bool((only_a[0][200:] == 0).all() and (only_a[0][:4] == 0).all())


@each_device
@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary(device: str, interleaved: bool) -> None:
    (x,) = make([(2, 5, 3, 16)], device, grad=True)
    angles = torch.arange(9.0, device=device)[:, None] / 10.0 ** torch.arange(8, device=device)
    positions = torch.tensor([[0, 1, 2, 3, 4], [4, 5, 6, 7, 8]], device=device)
    cos, sin = (table[positions][:, :, None] for table in (angles.cos(), angles.sin()))
    first, second = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :8], x[..., 8:])
    pairs = [first * cos - second * sin, second * cos + first * sin]
    expected = torch.stack(pairs, -1).flatten(-2) if interleaved else torch.cat(pairs, -1)
    for kind in (torch.int64, torch.int32):
        found = ptx_kernels.rotary(x, angles.cos(), angles.sin(), positions.to(kind), interleaved=interleaved)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        mine, theirs = (
            torch.autograd.grad(t.square().sum(), x, retain_graph=True)[0]
            for t in (found * cos[0, 1, 0, 0], expected * cos[0, 1, 0, 0])
        )
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


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
    for other in (x.transpose(0, 1), x[:, :, ::2], x.movedim(0, -1), x[:1].expand(6, 4, 32)):
        expected = F.rms_norm(other, (other.shape[-1],), None, 1e-6)
        torch.testing.assert_close(ptx_kernels.rms_norm(other), expected, rtol=1e-5, atol=1e-5)


@each_device
def test_plain_calls_are_native(device: str) -> None:
    function = ptx_kernels.library().rms_norm
    # The first call with a tensor defines the native ways.
    ptx_kernels.rms_norm(torch.ones(1, 8))
    if function.quick is None:
        pytest.skip("this PyTorch has no exchange interface of DLPack 1")
    x, w = make([(8, 64), (64,)], device)
    out, leaf = torch.empty_like(x), x.clone().requires_grad_()

    def is_native(*values: Any) -> bool:
        return function.quick([*values, *[None, None, None, 1e-6][len(values) :]]) is not NotImplemented

    assert is_native(x, w) and is_native(x) and is_native(x, w, out) and is_native(leaf, w) and is_native(x.bfloat16())
    assert function.quick_apply((x,), {"eps": 1e-6, "weight": w}) is not NotImplemented
    # Python's code takes the others, and has the messages.
    for values in [(None, w), (x.cpu().numpy(), w), (x[:, ::2], w[::2]), (x, w.bfloat16()), (x.to("meta"), w.to("meta")), (x.to_sparse(), w), (leaf, w, out), (x, 3)]:
        assert not is_native(*values)
    assert function.quick([x, w]) is NotImplemented
    for args, kwargs in [((x, w, 1e-6, out, 3), {}), ((x,), {"y": 3}), ((x,), {"x": x}), ((), {})]:
        assert function.quick_apply(args, kwargs) is NotImplemented
    with torch.autograd.forward_ad.dual_level():
        assert not is_native(x, w)
    with torch._subclasses.FakeTensorMode():
        assert not is_native(x, w)
    with torch.autograd.profiler.profile():
        assert not is_native(x, w)
    found: list[bool] = []
    torch.func.vmap(lambda row: found.append(is_native(row, w)) or row)(x)
    torch.func.grad(lambda value: found.append(is_native(value, w)) or value.sum())(x)
    torch.func.functionalize(lambda value: found.append(is_native(value, w)) or value)(x)
    assert found == [False] * 3


@each_device
def test_shapes_that_come_again(device: str) -> None:
    """The outputs of calls with equal shapes are tensors of their own, also where a call with another shape or inside of inference mode comes between."""
    sizes = [5, 5, 5, 7, 5, 5, 5]
    held: list[Any] = []
    for at, size in enumerate(sizes):
        a, b = make([(size, 24), (24, 16)], device)
        with torch.inference_mode(at == 2):
            made = ptx_kernels.matmul(a, b)
        assert made.is_inference() == (at == 2)
        assert made.is_contiguous() and made.untyped_storage().nbytes() == made.numel() * made.element_size()
        held.append((made, a @ b))
    assert len({made.data_ptr() for made, _ in held}) == len(sizes)
    for made, expected in held:
        torch.testing.assert_close(made, expected, rtol=1e-3, atol=1e-3)


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
    with pytest.raises(TypeError, match="x: expected a tensor of float32 or float16 or bfloat16, found bool"):
        ptx_kernels.rms_norm(x > 0)
    with pytest.raises(TypeError, match="up: expected a torch.Tensor, found None"):
        ptx_kernels.swiglu(x, None)
    with pytest.raises(TypeError, match="x: expected a dense tensor"):
        ptx_kernels.rms_norm(x.to_sparse())
    with pytest.raises(TypeError, match="expected a type of PyTorch, found 'float33'"):
        ptx_kernels.matmul(x, x.t(), out_dtype="float33")
    with pytest.raises(RuntimeError, match="residual= cannot be written where gradients"):
        ptx_kernels.add_rms_norm(x, torch.zeros_like(x).requires_grad_())


@each_device
def test_tensors_without_memory(device: str) -> None:
    x, out = make([(4, 16), (4, 16)], device)
    assert ptx_kernels.rms_norm(x.to("meta")).device.type == "meta"
    with pytest.raises(ValueError, match="out: is on meta, and x is on"):
        ptx_kernels.rms_norm(x, out=out.to("meta"))
    for freed, call in [(out, lambda: ptx_kernels.rms_norm(x, out=out)), (x, lambda: ptx_kernels.rms_norm(x))]:
        freed.untyped_storage().resize_(0)
        with pytest.raises(ValueError, match=r"a tensor of shape \[4, 16\] without memory"):
            call()


F32, BF16, U8, I32, I64 = torch.float32, torch.bfloat16, torch.uint8, torch.int32, torch.int64
# The inputs of functions of the library in their order: (type, shape) of tensors, and scalars.
INPUTS: dict[str, list[Any]] = {
    "rms_norm": [(F32, (4, 16)), (F32, (16,)), 1e-6],
    "layer_norm": [(F32, (4, 16)), (F32, (16,)), (F32, (16,)), 1e-5],
    "gelu": [(F32, (4, 16)), "tanh"],
    "silu": [(F32, (4, 16))],
    "relu": [(F32, (4, 16))],
    "swiglu": [(F32, (4, 16)), (F32, (4, 16))],
    "geglu": [(F32, (4, 16)), (F32, (4, 16)), "none"],
    "add_rms_norm": [(F32, (4, 16)), (F32, (16,)), 1e-6],
    "add_layer_norm": [(F32, (4, 16)), (F32, (16,)), (F32, (16,)), 1e-5],
    "softmax": [(F32, (4, 16)), 2.0],
    "cross_entropy": [(F32, (4, 16)), (I64, (4,)), -100, 0.1],
    "matmul": [(F32, (4, 8)), (F32, (8, 6)), False],
    "linear": [(F32, (4, 8)), (F32, (8, 6)), (F32, (6,)), (F32, (4, 6)), "relu", False],
    "scaled_matmul": [(U8, (4, 16)), (U8, (16, 8)), (F32, (4,)), (F32, (8,)), None, "none", "e4m3"],
    "batched_matmul": [(F32, (2, 4, 8)), (F32, (2, 8, 6)), False],
    "grouped_matmul": [(BF16, (8, 16)), (BF16, (1, 16, 8)), (torch.uint32, (2,))],
    "attention": [(BF16, (1, 4, 2, 16)), (BF16, (1, 4, 1, 16)), (BF16, (1, 4, 1, 16)), None, True, None, 0.0, None, None, False],
    "attention_bhsd": [(BF16, (1, 2, 4, 16)), (BF16, (1, 1, 4, 16)), (BF16, (1, 1, 4, 16)), None, False, None, 0.0, 2, 1, True],
    "attention_e4m3": [
        (U8, (1, 4, 2, 16)), (U8, (1, 4, 1, 16)), (U8, (1, 4, 1, 16)), (F32, (1, 1)), None, None, True, None, 0.0, None, None,
    ],
    "attention_bhsd_e4m3": [
        (U8, (1, 2, 4, 16)), (U8, (1, 1, 4, 16)), (U8, (1, 1, 4, 16)), None, (F32, (1, 1)), None, True, None, 0.0, None, None,
    ],
    "attention_varlen": [
        (BF16, (1, 8, 2, 16)), (BF16, (1, 8, 1, 16)), (BF16, (1, 8, 1, 16)), (I32, (2,)), (I32, (2,)), 8, 8, True, None, 0.0, None,
        None, False,
    ],
    "attention_decode": [
        (BF16, (1, 1, 2, 16)), (BF16, (1, 4, 1, 16)), (BF16, (1, 4, 1, 16)), (I32, (1,)), None, None, None, True, None, 0.0, 2, None,
    ],
    "attention_prefill": [
        (BF16, (1, 3, 2, 16)), (BF16, (1, 4, 1, 16)), (BF16, (1, 4, 1, 16)), (I32, (1,)), None, True, None, 0.0, None, None,
    ],
    "attention_decode_latent": [(BF16, (1, 1, 2, 32)), (BF16, (1, 4, 1, 32)), (I32, (1,)), None, True, None],
    "attention_append": [(BF16, (1, 1, 1, 16)), (BF16, (1, 1, 1, 16)), (I32, (1,)), None, None, None],
    "rotary": [(F32, (4, 2, 16)), (F32, (4, 8)), (F32, (4, 8)), (I64, (4,)), False],
}  # fmt: skip
# The outputs of functions whose callers pass them.
OUTPUTS: dict[str, list[Any]] = {
    "add_rms_norm": [(F32, (4, 16)), (F32, (4, 16))],
    "add_layer_norm": [(F32, (4, 16)), (F32, (4, 16))],
    "attention_decode_latent": [(BF16, (1, 1, 2, 16))],
    "attention_append": [(BF16, (1, 4, 1, 16)), (BF16, (1, 4, 1, 16))],
}


def test_every_function_has_inputs_here() -> None:
    # Those of process groups have tests of their own.
    names = [function.name for function in ptx_kernels.library() if not function.name.startswith("ranks_") and not function.name.endswith("_backward")]
    assert sorted(INPUTS) == sorted(names)


@pytest.mark.parametrize("name", INPUTS)
@each_device
def test_opcheck(device: str, name: str) -> None:
    from ptx_kernels import _torch

    if name == "grouped_matmul":
        needs_hopper(device)
    function = getattr(ptx_kernels.library(), name)
    state = _torch.operators(function)

    def tensors(descriptions: list[Any], grad: bool = False) -> list[Any]:
        def tensor(dtype: Any, shape: tuple[int, ...]) -> Any:
            if dtype == U8:
                return torch.zeros(shape, device=device, dtype=dtype)
            if not dtype.is_floating_point:
                # Offsets of a group or sequence with all rows; numbers in order.
                return (torch.arange(shape[0], device=device, dtype=torch.int32) * (1 if dtype == I64 else 8)).to(dtype)
            return make([shape], device, dtype, grad)[0]

        return [tensor(*value) if isinstance(value, tuple) else value for value in descriptions]

    if name not in OUTPUTS:
        torch.library.opcheck(state.op, tuple(tensors(INPUTS[name])))
    if function.backward is not None:
        torch.library.opcheck(state.op_saved, tuple(tensors(INPUTS[name], grad=True)))
    values: list[Any] = [None] * len(function.params)
    for at, value in zip(function.inputs, tensors(INPUTS[name])):
        values[at] = value
    for at, value in zip(function.main_outputs, tensors(OUTPUTS.get(name, []))):
        values[at] = value
    _torch.make_outputs(function, values, function.main_outputs)
    torch.library.opcheck(state.op_out, tuple(values))


@each_operation
@each_device
def test_compile(name: str, device: str) -> None:
    ours, theirs, shapes = OPERATIONS[name]
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda *tensors: ours(*tensors) * 2.0, fullgraph=True, backend="aot_eager" if device == "cpu" else "inductor"
    )
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


@pytest.mark.skipif(not has("transformers"), reason="transformers is not installed")
def test_the_example_with_hugging_face() -> None:
    script = pathlib.Path(__file__).parents[1] / "examples" / "llama.py"
    subprocess.run([sys.executable, str(script), "--tiny"], check=True)


def _wrong(device: str) -> list[Any]:
    """Values of which none fits, most of them tensors of this device."""
    tensors = [
        torch.zeros(()),
        torch.zeros(2, 3, 4, 5, 6),
        torch.zeros(0, 8),
        torch.zeros(2, 8).double(),
        torch.zeros(3, 8).half(),
    ]
    tensors += [
        torch.zeros(5, 7),
        torch.zeros(3, dtype=torch.int64),
        torch.zeros(2, 2, 2, 2).bfloat16(),
        torch.zeros(4, 8).bool(),
    ]
    tensors += [torch.zeros(4, 8, dtype=torch.complex64), torch.zeros(1).expand(4, 8), torch.zeros(8, 5).t()]
    others = [torch.zeros(4, 8), torch.zeros(4, 8, device="meta"), torch.zeros(4, 8).to_sparse()]
    return [*WRONG, *[tensor.to(device) for tensor in tensors], *others]


@each_device
@pytest.mark.parametrize("function", list(ptx_kernels.library()), ids=lambda function: function.name)
def test_wrong_calls(function: Any, device: str) -> None:
    """500 calls with arguments that do not fit: an exception each, and nothing is written."""
    random, wrong, refused = np.random.default_rng(len(function.name)), _wrong(device), 0
    for _ in range(500):
        values: list[Any] = [wrong[random.integers(len(wrong))] for _ in function.params]
        outputs = []
        for at in function.outputs:
            if random.random() < 0.5:
                values[at] = torch.full(tuple(random.integers(1, 6, random.integers(0, 4))), 7.0, device=device)
                outputs.append(values[at])
        calls = [lambda: function.direct(*values[: random.integers(len(values) + 1)])]
        calls.append(lambda: ptx_kernels._operations.call(function, list(values)))
        try:
            calls[random.integers(2)]()
        except (TypeError, ValueError, RuntimeError, NotImplementedError, OverflowError, BufferError, AttributeError):
            refused += 1
            assert all(bool((output == 7.0).all()) for output in outputs)
    assert refused >= 495, "almost no random call fits"


def test_a_record_keeps_the_numbers_of_its_call() -> None:
    x, w = torch.randn(4, 8, requires_grad=True), torch.randn(8, requires_grad=True)
    assert ptx_kernels.rms_norm(x, w).grad_fn.name() == "rms_normBackward"
    for eps in (1e-6, 0.5, 1, 0.25, 1e-6):
        found, expected = ptx_kernels.rms_norm(x, w, eps), torch.nn.functional.rms_norm(x, (8,), w, eps)
        torch.testing.assert_close(torch.autograd.grad(found.square().sum(), (x, w)), torch.autograd.grad(expected.square().sum(), (x, w)))


def test_views_with_the_opposite_signs(lib: Any) -> None:
    """The imaginary part of a conjugate is its memory with the opposite signs. DLPack has no word for it."""
    x, w = torch.randn(4, 8), torch.randn(8)
    for view in (torch.randn(4, 8, dtype=torch.complex64).conj().imag, torch._neg_view(x)):
        assert view.is_neg()
        plain = view.clone()
        torch.testing.assert_close(ptx_kernels.relu(view), plain.relu())
        torch.testing.assert_close(ptx_kernels.rms_norm(view, torch._neg_view(w)), ptx_kernels.rms_norm(plain, -w))
        torch.testing.assert_close(ptx_kernels.matmul(x, view.T), x @ plain.T)
        torch.testing.assert_close(lib.copy(view.contiguous()), plain)
        leaf = x.clone().requires_grad_()
        found, expected = (torch.autograd.grad(ptx_kernels.matmul(leaf, b), leaf, g)[0] for b, g in ((view.T, view[:, :4]), (plain.T, plain[:, :4])))
        torch.testing.assert_close(found, expected)
        with pytest.raises(ValueError, match="relu: out: its memory has the opposite signs"):
            ptx_kernels.relu(x.clone(), out=view)
    torch.testing.assert_close(lib.add_one(torch._neg_view(w)), 1 - w)


def test_tensors_without_memory() -> None:
    x = torch.randn(4, 8)
    torch.testing.assert_close(torch.func.functionalize(ptx_kernels.relu)(x), x.relu())
    with pytest.raises(TypeError, match="rms_norm: eps: expected float, found a tensor"):
        ptx_kernels.rms_norm(x, None, x.to("meta"))
    with pytest.raises(TypeError, match="relu: out: expected a dense tensor, found a sparse, nested or quantized one"):
        ptx_kernels.relu(x, out=torch.quantize_per_tensor(x, 0.1, 0, torch.qint8))
    with pytest.raises(ValueError, match="relu: out: "):
        ptx_kernels.relu(x, out=torch.empty(2, 3, 4, 8).to(memory_format=torch.channels_last))

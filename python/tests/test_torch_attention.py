"""PyTorch: options of attention, packed sequences, operands of 8 bits, norms of a residual stream."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import has

import ptx_kernels

if not has("torch"):
    pytest.skip("PyTorch is not installed", allow_module_level=True)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from with_torch import compiled, each_device, make  # noqa: E402

E4M3 = torch.float8_e4m3fn


def _reference(q: Any, k: Any, v: Any, window: Any = (None, None), bias: Any = None) -> Any:
    """Attention in float32, of shape (batch, tokens, heads, elements)."""
    q, k, v = (t.float().transpose(1, 2) for t in (q, k, v))
    rows, columns = q.shape[2], k.shape[2]
    distance = torch.arange(columns, device=q.device) - torch.arange(rows, device=q.device)[:, None] - (columns - rows)
    left, right = (columns + rows if side is None else side for side in window)
    mask = torch.zeros(rows, columns, device=q.device).masked_fill((distance < -left) | (distance > right), float("-inf"))
    mask = mask if bias is None else mask + bias.float()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True).transpose(1, 2)


def _close(found: Any, expected: Any, bound: float = 2e-2) -> None:
    torch.testing.assert_close(found.float(), expected.float(), rtol=bound, atol=bound)


def _compare_gradients(ours: Any, theirs: Any, tensors: list[Any]) -> None:
    weight = torch.randn_like(ours.float())
    mine = torch.autograd.grad((ours.float() * weight).sum(), tensors)
    for one, other in zip(mine, torch.autograd.grad((theirs.float() * weight).sum(), tensors)):
        _close(one, other, 5e-2)


@each_device
@pytest.mark.parametrize("window", [(3, 0), (None, 2), (5, 1)])
@pytest.mark.parametrize("biased", [False, True])
def test_window_and_bias(device: str, window: Any, biased: bool) -> None:
    q, k, v = make([(2, 24, 4, 32), (2, 24, 2, 32), (2, 24, 2, 32)], device, torch.bfloat16, grad=True)
    bias = make([(2, 4, 24, 24)], device, torch.bfloat16)[0] if biased else None

    def call(q: Any, k: Any, v: Any) -> Any:
        return ptx_kernels.attention(q, k, v, window=window, bias=bias, deterministic=True)

    expected = _reference(q, k, v, window, bias)
    _close(call(q, k, v), expected)
    _close(compiled(device, call)(q, k, v), expected)
    _compare_gradients(call(q, k, v), expected, [q, k, v])
    if bias is not None:
        with pytest.raises(RuntimeError, match="attention: bias has no gradient"):
            ptx_kernels.attention(q, k, v, bias=bias.requires_grad_())


@each_device
def test_any_layout(device: str) -> None:
    """As PyTorch's own attention takes them: rows that lie apart, or that begin between multiples of 16 bytes, are copied."""
    q, k, v, weight = make([(2, 6, 2, 16)] * 4, device, torch.bfloat16, grad=True)
    expected = ptx_kernels.attention(q, k, v)
    gradients = torch.autograd.grad(expected, (q, k, v), weight)
    places = [
        lambda t: t.transpose(1, 3).contiguous().transpose(1, 3),
        lambda t: torch.cat([t, t, t[..., :3]], -1)[..., 16:32],
        lambda t: torch.zeros(t.numel() + 1, device=device, dtype=t.dtype)[1:].view(t.shape).copy_(t),
    ]
    for place in places:
        moved = [place(t.detach()).requires_grad_() for t in (q, k, v)]
        for at in range(3):
            given = [moved[at] if at == other else t for other, t in enumerate((q, k, v))]
            found = ptx_kernels.attention(*given)
            assert torch.equal(found, expected)
            for one, other in zip(torch.autograd.grad(found, given, place(weight.detach()), retain_graph=True), gradients):
                assert torch.equal(one, other)
        assert torch.equal(compiled(device, ptx_kernels.attention)(moved[0], k, v), expected)


@each_device
def test_packed_sequences(device: str) -> None:
    q, k, v = make([(48, 4, 64), (48, 2, 64), (48, 2, 64)], device, torch.bfloat16, grad=True)
    bounds = [0, 7, 7, 48]
    lengths = torch.tensor(bounds, dtype=torch.int32, device=device)

    def call(q: Any, k: Any, v: Any) -> Any:
        return ptx_kernels.attention_varlen(q, k, v, lengths, lengths, 41, 41, causal=True)

    parts = [_reference(*(t[None, low:high] for t in (q, k, v)), (None, 0))[0] for low, high in ((0, 7), (7, 48))]
    expected = torch.cat(parts)
    _close(call(q, k, v), expected)
    _close(compiled(device, call)(q, k, v), expected)
    _compare_gradients(call(q, k, v), expected, [q, k, v])
    with torch.no_grad():
        out = torch.empty_like(q)
        assert ptx_kernels.attention_varlen(q, k, v, lengths, lengths, 41, 41, causal=True, out=out) is out
        _close(out, expected)
    with pytest.raises(ValueError, match=r"cu_seqlens_k: dimension 0 \(n\) has 3 elements"):
        ptx_kernels.attention_varlen(q, k, v, lengths, lengths[:3], 41, 41)


@each_device
@pytest.mark.parametrize("elements", [64, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_e4m3(device: str, elements: int, causal: bool) -> None:
    tokens = 300 if device == "cuda" else 20
    tensors = make([(2, tokens, 4, elements), (2, tokens, 2, elements), (2, tokens, 2, elements)], device)
    q, k, v = (t.to(E4M3) for t in tensors)
    factors = torch.tensor([[0.5, 2.0], [1.0, 0.25]], device=device)
    scaled = [q.float() * 0.5, k.float() * factors[:, None, :, None], v.float() * 2.0]
    expected = _reference(*scaled, (None, 0) if causal else (None, None))

    def call(q: Any, k: Any, v: Any) -> Any:
        return ptx_kernels.attention(q, k, v, causal=causal, q_descale=0.5, k_descale=factors, v_descale=2.0)

    found = call(q, k, v)
    assert found.dtype == torch.bfloat16
    # Hopper's kernel rounds the softmax to e4m3.
    error = (found.float() - expected).square().mean().sqrt() / expected.square().mean().sqrt()
    assert error < 4e-2, error
    torch.testing.assert_close(compiled(device, call)(q, k, v), found)
    half = ptx_kernels.attention(q, k, v, causal=causal, q_descale=0.5, k_descale=factors, v_descale=2.0, out_dtype=torch.float16)
    assert half.dtype == torch.float16
    _close(half, found)
    turned = ptx_kernels.attention(
        *(t.transpose(1, 2) for t in (q, k, v)), causal=causal, q_descale=0.5, k_descale=factors, v_descale=2.0, layout="bhsd"
    )
    _close(turned.transpose(1, 2), found)


@each_device
def test_wrong_attention_of_e4m3(device: str) -> None:
    q, k, v = (t.to(E4M3) for t in make([(1, 8, 2, 32), (1, 8, 2, 32), (1, 8, 2, 32)], device))
    for message, arguments in [
        ("k: expected a tensor of float8_e4m3fn, the type of q, found bfloat16", {"k": k.bfloat16()}),
        ("v: expected a tensor of float8_e4m3fn, the type of q, found float8_e5m2", {"v": v.view(torch.float8_e5m2)}),
        ("q_descale: expected a tensor of float32, found float64", {"q_descale": torch.ones(1, 2, device=device).double()}),
    ]:
        with pytest.raises(TypeError, match=message):
            ptx_kernels.attention(**{"q": q, "k": k, "v": v, **arguments})
    for message, arguments in [
        (r"k_descale: dimension 1 \(g\) has 3 elements, and dimension 2 of k has 2", {"k_descale": torch.ones(1, 3, device=device)}),
        ("bias: not possible", {"bias": torch.zeros(1, 2, 8, 8, device=device)}),
        ("24 elements", {"q": q[..., :24], "k": k[..., :24]}),
    ]:
        with pytest.raises(ValueError, match=message):
            ptx_kernels.attention(**{"q": q, "k": k, "v": v, **arguments})
    with pytest.raises(ValueError, match="descale: not possible for other types"):
        ptx_kernels.attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), v_descale=2.0)


@each_device
@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn, torch.float8_e5m2])
def test_matmul_of_8_bits(device: str, dtype: Any) -> None:
    a, b, scale = make([(2, 40, 64), (64, 48), (2, 40)], device)
    a, b = (a * 4).to(dtype), (b * 4).to(dtype).t().contiguous().t()
    expected = F.silu((a.float() @ b.float()) * scale[..., None] * 0.25)

    def call(a: Any, b: Any) -> Any:
        return ptx_kernels.matmul(a, b, scale_a=scale, scale_b=0.25, activation="silu", out_dtype=torch.float32)

    torch.testing.assert_close(call(a, b), expected, rtol=1e-2, atol=2e-2)
    torch.testing.assert_close(compiled(device, call)(a, b), call(a, b))
    assert ptx_kernels.matmul(a, b).dtype == torch.bfloat16
    with pytest.raises(TypeError, match="b: expected a tensor of"):
        ptx_kernels.matmul(a, b.float())


@each_device
def test_residuals(device: str) -> None:
    x, w, stream = make([(2, 3, 16), (16,), (2, 3, 16)], device)
    expected, other = stream + x, stream.clone()
    out, after = ptx_kernels.add_rms_norm(x, stream, w)
    assert after is stream
    torch.testing.assert_close(stream, expected)
    torch.testing.assert_close(out, F.rms_norm(expected, (16,), w, 1e-6), rtol=1e-5, atol=1e-5)
    again, _ = compiled(device, ptx_kernels.add_rms_norm)(x, other, w)
    torch.testing.assert_close((again, other), (out, stream))
    with pytest.raises(ValueError, match="residual: expected a contiguous tensor"):
        ptx_kernels.add_rms_norm(x.transpose(0, 1), stream.transpose(0, 1), w)
    a, b, residual = make([(6, 24), (24, 16), (6, 16)], device, grad=True)
    theirs = F.relu(a @ b) + residual
    ours = ptx_kernels.matmul(a, b, activation="relu", residual=residual)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    _compare_gradients(ours, theirs, [a, b, residual])
    with torch.no_grad():
        torch.testing.assert_close(ptx_kernels.matmul(a, b, activation="relu", residual=residual), theirs, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(ptx_kernels.matmul(a, b, tf32=True), a @ b, rtol=2e-2, atol=2e-2)

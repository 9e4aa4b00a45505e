"""PyTorch: attention to caches of keys and values, and what writes them."""

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


def _attend(q: Any, k: Any, v: Any, scale: float | None = None) -> Any:
    """Attention of the last tokens of one sequence, in float32: (tokens, heads, elements)."""
    q, k, v = (t.float().transpose(0, 1) for t in (q, k, v))
    tokens, keys = q.shape[1], k.shape[1]
    mask = torch.ones(tokens, keys, dtype=torch.bool, device=q.device).tril(keys - tokens)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=True).transpose(0, 1)


@each_device
@pytest.mark.parametrize("paged", [False, True])
def test_attention_decode(device: str, paged: bool) -> None:
    q, k, v = make([(2, 1, 4, 32), (2, 64, 2, 32), (2, 64, 2, 32)], device, torch.bfloat16)
    lengths, table = torch.tensor([13, 64], dtype=torch.int32, device=device), None
    caches = [k, v]
    if paged:
        order = torch.randperm(8, generator=torch.Generator().manual_seed(0)).to(device)
        caches = [t.reshape(8, 16, 2, 32)[order].contiguous() for t in (k, v)]
        table = order.argsort().reshape(2, 4).int()

    def expected() -> Any:
        rows = [F.scaled_dot_product_attention(
            *(t[at : at + 1].transpose(1, 2).float() for t in (q, k[:, :length], v[:, :length])), enable_gqa=True
        ).transpose(1, 2) for at, length in enumerate(lengths.tolist())]  # fmt: skip
        return torch.cat(rows)

    found = ptx_kernels.attention_decode(q, *caches, lengths, block_table=table)
    torch.testing.assert_close(found.float(), expected(), rtol=2e-2, atol=2e-2)
    traced = compiled(device, ptx_kernels.attention_decode)
    torch.testing.assert_close(traced(q, *caches, lengths, block_table=table), found)
    if device == "cuda":
        # One graph serves every step: the lengths are read on the GPU.
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            ptx_kernels.attention_decode(q, *caches, lengths, block_table=table, out=found)
        lengths.copy_(torch.tensor([64, 2], dtype=torch.int32))
        graph.replay()
        torch.testing.assert_close(found.float(), expected(), rtol=2e-2, atol=2e-2)
    with pytest.raises(ValueError, match=r"lengths: dimension 0 \(b\) has 1 elements"):
        ptx_kernels.attention_decode(q, *caches, lengths[:1], block_table=table)
    with pytest.raises(RuntimeError, match="attention_decode has no gradient"):
        ptx_kernels.attention_decode(q.requires_grad_(), *caches, lengths, block_table=table)


@each_device
def test_attention_prefill(device: str) -> None:
    q, k, v = make([(2, 20, 4, 32), (2, 64, 2, 32), (2, 64, 2, 32)], device, torch.bfloat16)
    lengths = torch.tensor([33, 64], dtype=torch.int32, device=device)
    found = ptx_kernels.attention_prefill(q, k, v, lengths)
    for at, length in enumerate(lengths.tolist()):
        expected = _attend(q[at], k[at, :length], v[at, :length])
        torch.testing.assert_close(found[at].float(), expected, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(compiled(device, ptx_kernels.attention_prefill)(q, k, v, lengths), found)


def _paged(device: str, dtype: Any) -> tuple[list[Any], Any]:
    """Caches of 8 pages for two sequences, and the table of their pages."""
    table = torch.tensor([[3, 0, 6, 1], [7, 2, 5, 4]], dtype=torch.int32, device=device)
    return [torch.zeros(8, 16, 2, 32, device=device).to(dtype) for _ in range(2)], table


@each_device
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn])
def test_a_cache_that_grows(device: str, dtype: Any) -> None:
    """Rows are appended in two steps, and attention sees them all; of e4m3 as they were rounded."""
    q, k, v = make([(2, 2, 4, 32), (2, 40, 2, 32), (2, 40, 2, 32)], device, torch.bfloat16)
    caches, table = _paged(device, dtype)
    scales: dict[str, Any] = {}
    if dtype == torch.float8_e4m3fn:
        scales = {"k_scale": torch.tensor([0.5, 0.25], device=device), "v_scale": torch.tensor([1.0, 0.125], device=device)}

    def rounded(x: Any, name: str) -> Any:
        factor = scales[name][:, None] if scales else 1.0
        return (x.float() / factor).to(dtype).float() * factor

    lengths = torch.tensor([30, 30], dtype=torch.int32, device=device)
    append = ptx_kernels.attention_append
    made = append(k[:, :30], v[:, :30], *caches, lengths, block_table=table, **scales)
    assert made[0] is caches[0] and made[1] is caches[1]
    lengths += 10
    compiled(device, append)(k[:, 30:], v[:, 30:], *caches, lengths, block_table=table, **scales)
    found = ptx_kernels.attention_decode(q, *caches, lengths, block_table=table, **scales)
    for at in range(2):
        expected = _attend(q[at], rounded(k[at], "k_scale"), rounded(v[at], "v_scale"))
        torch.testing.assert_close(found[at].float(), expected, rtol=2e-2, atol=2e-2)
    if dtype == torch.bfloat16:
        chunk = ptx_kernels.attention_prefill(q, *caches, lengths, block_table=table)
        torch.testing.assert_close(chunk.float(), found.float(), rtol=2e-2, atol=2e-2)
    with pytest.raises(ValueError, match=r"v_cache: dimension 3 \(e\) has 24 elements"):
        append(k, v, caches[0], caches[1][..., :24], lengths, block_table=table)
    with pytest.raises(ValueError, match="k_scale and v_scale: expected both or none, found one"):
        append(k, v, *caches, lengths, block_table=table, k_scale=torch.ones(2, device=device))


@each_device
def test_append_in_a_graph(device: str) -> None:
    if device == "cpu":
        pytest.skip("graphs are those of GPUs")
    k, v = make([(2, 1, 2, 32), (2, 1, 2, 32)], device, torch.bfloat16)
    caches, table = _paged(device, torch.bfloat16)
    lengths = torch.ones(2, dtype=torch.int32, device=device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ptx_kernels.attention_append(k, v, *caches, lengths, block_table=table)
        lengths += 1
    for _ in range(20):
        graph.replay()
    rows = [torch.cat([cache[page] for page in table[1].tolist()])[:21] for cache in caches]
    for row, new in zip(rows, (k, v)):
        torch.testing.assert_close(row[:20], new[1].expand(20, 2, 32))
        assert bool((row[20] == 0).all())


@each_device
def test_attention_decode_latent(device: str) -> None:
    q, cache = make([(2, 2, 4, 48), (2, 24, 1, 48)], device, torch.bfloat16)
    lengths = torch.tensor([9, 24], dtype=torch.int32, device=device)
    found = ptx_kernels.attention_decode_latent(q, cache, lengths, 32, scale=0.125)
    assert found.shape == (2, 2, 4, 32)
    for at, length in enumerate(lengths.tolist()):
        rows = cache[at, :length]
        torch.testing.assert_close(found[at].float(), _attend(q[at], rows, rows[..., :32], 0.125), rtol=2e-2, atol=2e-2)
    out = torch.empty_like(found)
    compiled(device, ptx_kernels.attention_decode_latent)(q, cache, lengths, 32, scale=0.125, out=out)
    torch.testing.assert_close(out, found)
    with pytest.raises(ValueError, match=r"attention_decode_latent: out: expected shape \(2, 2, 4, 40\)"):
        ptx_kernels.attention_decode_latent(q, cache, lengths, 40, out=out)

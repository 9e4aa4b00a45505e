"""A Llama of Hugging Face with the kernels of ptx_kernels in the place of its norms, rotary embedding, MLP activation, attention and loss.

    python llama.py            # the shape of Llama-3.2-1B with random weights, on a GPU: distances of logits, times beside eager and torch.compile
    python llama.py --tiny     # a model of a few thousand weights, on the CPU device

Needs PyTorch and transformers. `convert` is all that a program of yours needs.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from typing import Any, Callable

import torch
import transformers
from torch import nn
from transformers.models.llama import modeling_llama

import ptx_kernels


class RMSNorm(nn.Module):
    """In the place of LlamaRMSNorm, with its weight."""

    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.weight, self.eps = norm.weight, norm.variance_epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ptx_kernels.rms_norm(x, self.weight, self.eps)


class MLP(nn.Module):
    """In the place of LlamaMLP, with its layers."""

    def __init__(self, mlp: Any) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = mlp.gate_proj, mlp.up_proj, mlp.down_proj

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(ptx_kernels.swiglu(self.gate_proj(x), self.up_proj(x)))


class Angles(nn.Module):
    """In the place of LlamaRotaryEmbedding: tables of cosines and sines, and a row of them for each token."""

    def __init__(self, embedding: Any, positions: int) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(positions, device=embedding.inv_freq.device).float(), embedding.inv_freq.float())
        self.register_buffer("cos", angles.cos() * embedding.attention_scaling, persistent=False)
        self.register_buffer("sin", angles.sin() * embedding.attention_scaling, persistent=False)

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> Any:
        return (self.cos, self.sin), position_ids.expand(x.shape[:2]).contiguous()


def rotate(q: torch.Tensor, k: torch.Tensor, cos: Any, sin: Any, *rest: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """In the place of apply_rotary_pos_emb. With `Angles`, `cos` is the tables and `sin` the positions."""
    if not isinstance(cos, tuple):
        return _rotate(q, k, cos, sin, *rest)
    # The heads of Hugging Face lie in front of the tokens, in memory that has them behind: nothing is copied.
    turned = (ptx_kernels.rotary(x.transpose(1, 2), *cos, sin).transpose(1, 2) for x in (q, k))
    return next(turned), next(turned)


def attend(module: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any, scaling: float, **_: Any) -> Any:
    """Causal attention, as transformers calls it."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return ptx_kernels.attention(q, k, v, causal=True, scale=scaling), None


def next_token_loss(logits: torch.Tensor, labels: torch.Tensor, **_: Any) -> torch.Tensor:
    """In the place of the loss: the cross entropy of each token's successor, from logits in bfloat16 that are read once."""
    targets = nn.functional.pad(labels, (0, 1), value=-100)[:, 1:].contiguous()
    return ptx_kernels.cross_entropy(logits, targets)


_rotate = modeling_llama.apply_rotary_pos_emb
modeling_llama.apply_rotary_pos_emb = rotate
transformers.AttentionInterface.register("ptx_kernels", attend)


def convert(model: Any) -> Any:
    """Replaces the operations of a LlamaForCausalLM by those of ptx_kernels; weights stay where they are."""
    model.set_attn_implementation("ptx_kernels")
    model.loss_function = next_token_loss
    decoder = model.model
    decoder.norm = RMSNorm(decoder.norm)
    decoder.rotary_emb = Angles(decoder.rotary_emb, model.config.max_position_embeddings)
    for layer in decoder.layers:
        layer.input_layernorm = RMSNorm(layer.input_layernorm)
        layer.post_attention_layernorm = RMSNorm(layer.post_attention_layernorm)
        layer.mlp = MLP(layer.mlp)
    return model


def config(tiny: bool) -> Any:
    """The shape of Llama-3.2-1B, or a tiny one."""
    sizes = dict(
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
    )
    if tiny:
        sizes = dict(
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            vocab_size=101,
        )
    return transformers.LlamaConfig(
        **sizes, max_position_embeddings=4096, rms_norm_eps=1e-5, tie_word_embeddings=True, use_cache=False
    )


def distances(model: Any, ours: Any, tokens: torch.Tensor) -> tuple[float, float]:
    """The largest distance of the logits from those of the same weights in float32: of the model, and of its conversion."""
    with torch.no_grad():
        exact = copy.deepcopy(model).float()(tokens).logits
        return tuple((m(tokens).logits.float() - exact).abs().max().item() for m in (model, ours))  # type: ignore[return-value]


def milliseconds(variants: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median time of each, in turns."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(rounds + 2):
        for name, work in variants.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            work()
            torch.cuda.synchronize()
            # The first rounds compile and load.
            if turn >= 2:
                times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(all_times) for name, all_times in times.items()}


def compiled(model: Any, part: str) -> Any:
    """The model with the same weights, compiled without graph breaks."""
    if part == "model":
        return torch.compile(model, fullgraph=True)
    twin = copy.copy(model)
    twin._modules = dict(model._modules)
    twin.model = copy.copy(model.model)
    twin.model._modules = dict(model.model._modules)
    twin.model.layers = nn.ModuleList(torch.compile(layer, fullgraph=True) for layer in model.model.layers)
    return twin


def step(model: Any, call: Any, tokens: torch.Tensor) -> Callable[[], Any]:
    """A training step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    def run() -> None:
        call(tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return run


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--compile",
        choices=["no", "layers", "model"],
        default="model",
        help="layers: each decoder layer alone, which compiles quickly",
    )
    options = parser.parse_args()
    device = "cpu" if options.tiny else "cuda"
    shape = (2, 12) if options.tiny else (options.batch, options.tokens)
    torch.manual_seed(0)
    with torch.device(device):
        model = transformers.LlamaForCausalLM(config(options.tiny)).to(torch.bfloat16).eval()
        tokens = torch.randint(model.config.vocab_size, shape)
    ours = convert(copy.deepcopy(model))
    theirs_off, ours_off = distances(model, ours, tokens)
    print(f"largest distance of logits from float32: transformers {theirs_off:.4f}, ptx_kernels {ours_off:.4f}", flush=True)
    assert ours_off <= 1.5 * theirs_off, "the conversion is less exact than the model"
    if options.tiny:
        losses = [m(tokens, labels=tokens).loss for m in (model, ours)]
        torch.testing.assert_close(losses[1], losses[0].float(), rtol=2e-2, atol=2e-2)
        losses[1].backward()
        assert all(weight.grad is not None for weight in ours.parameters())
        return
    calls = {"eager": (model, model), "ptx_kernels": (ours, ours)}
    if options.compile != "no":
        calls["torch.compile"] = (model, compiled(model, options.compile))
        calls["ptx_kernels, torch.compile"] = (ours, compiled(ours, options.compile))
    title = f"ms, {shape[0]} x {shape[1]} tokens"
    with torch.no_grad():
        forward = milliseconds({name: lambda call=call: call(tokens) for name, (_, call) in calls.items()}, options.rounds)
    print(f"{title:32} {'forward':>14}", *(f"{name:32} {time:14.2f}" for name, time in forward.items()), sep="\n", flush=True)
    for weights in (model, ours):
        weights.train()
    training = milliseconds({name: step(weights, call, tokens) for name, (weights, call) in calls.items()}, options.rounds)
    print(f"{title:32} {'training step':>14}", *(f"{name:32} {time:14.2f}" for name, time in training.items()), sep="\n")


if __name__ == "__main__":
    main()

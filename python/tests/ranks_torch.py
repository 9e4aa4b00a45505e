"""The operations of process groups, in the processes of a gloo group: values, gradients, torch.compile, a second group. `test_torch_ranks.py` runs it.

    python ranks_torch.py RANK RANKS PORT [fail]
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist

import ptx_kernels.distributed as ranks

Op = Callable[..., torch.Tensor]


def of_rank(rank: int, shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """The tensor that a rank has, which every rank can make."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    return torch.randn(shape, generator=generator).to(dtype)


def total(parts: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack([part.float() for part in parts]).sum(0)


def check(found: torch.Tensor, expected: torch.Tensor) -> None:
    bound = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[found.dtype]
    scale = float(expected.abs().max().clamp(min=1))
    torch.testing.assert_close(found.float(), expected.float(), rtol=bound, atol=bound * scale)


def collectives(rank: int, size: int, group: Any, dtype: torch.dtype) -> None:
    shape = (4 * size, 3, 5)
    all_x = [of_rank(each, shape, dtype) for each in range(size)]
    x, expected = all_x[rank].clone().requires_grad_(), total(all_x)
    rows = slice(4 * rank, 4 * rank + 4)
    made = ranks.all_reduce(x, group)
    check(made, expected)
    gathered: list[Any] = [torch.empty_like(made) for _ in range(size)]
    dist.all_gather(gathered, made.detach(), group=group)
    assert all(torch.equal(each, made) for each in gathered), "other bits on another rank"
    weights = [of_rank(each, shape, dtype, 1) for each in range(size)]
    (grad,) = torch.autograd.grad((made * weights[rank]).sum(), x)
    check(grad, total(weights))

    made = ranks.reduce_scatter(x, group)
    check(made, expected[rows])
    parts = [weight[4 * each : 4 * each + 4] for each, weight in enumerate(weights)]
    (grad,) = torch.autograd.grad((made * parts[rank]).sum(), x)
    check(grad, torch.cat(parts))

    x = all_x[rank][:4].clone().requires_grad_()
    made = ranks.all_gather(x, group)
    assert torch.equal(made, torch.cat([each[:4] for each in all_x]))
    (grad,) = torch.autograd.grad((made * weights[rank]).sum(), x)
    check(grad, total(weights)[rows])


def products(rank: int, size: int, group: Any, transposed: bool) -> None:
    dtype = torch.bfloat16
    m, n, k = 8 * size, 16, 24
    all_a = [of_rank(each, (m, k), dtype, 2) for each in range(size)]
    all_b = [of_rank(each, (n, k), dtype, 3).T for each in range(size)]
    if not transposed:
        all_b = [b.contiguous() for b in all_b]
    a, b = all_a[rank].clone().requires_grad_(), all_b[rank].detach().requires_grad_()
    expected = total([a.float() @ b.float() for a, b in zip(all_a, all_b)])
    rows = slice(8 * rank, 8 * rank + 8)
    weight = of_rank(0, (m, n), dtype, 4)
    for call, mine, want in (
        (ranks.matmul_all_reduce, lambda made: made, expected),
        (ranks.matmul_reduce_scatter, lambda made: made, expected[rows]),
    ):
        made = call(a, b, group)
        check(made, want)
        own = weight[rows] if made.shape[0] < m else weight
        found = torch.autograd.grad((mine(made) * own).sum(), (a, b))
        # The same loss on every rank counts as often as there are ranks.
        all_grad = weight.float() * (1 if made.shape[0] < m else size)
        check(found[0], all_grad @ b.detach().float().T)
        check(found[1], a.detach().float().T @ all_grad)

    x = all_a[rank][:8].clone().requires_grad_()
    made = ranks.all_gather_matmul(x, b, group)
    whole = torch.cat([each[:8] for each in all_a])
    check(made, whole.float() @ b.detach().float())
    grads = torch.autograd.grad((made * weight).sum(), (x, b))
    check(grads[0], total([weight.float() @ each.float().T for each in all_b])[rows])
    check(grads[1], whole.float().T @ weight.float())


def compiled(rank: int, size: int) -> None:
    def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return ranks.all_reduce(torch.relu(x @ w))

    x, w = of_rank(rank, (4, 8), torch.float32, 5), of_rank(rank, (8, 8), torch.float32, 6)
    made = torch.compile(layer, fullgraph=True, backend="aot_eager")(x, w)
    torch.testing.assert_close(made, layer(x, w))


def refused(rank: int, size: int, group: Any) -> None:
    for wrong, kind in (
        (lambda: ranks.reduce_scatter(torch.ones(size + 1) if size > 1 else torch.ones(()), group), (ValueError, IndexError)),
        (lambda: ranks.all_reduce(torch.ones(3, dtype=torch.int32), group), (TypeError,)),
        (lambda: ranks.matmul_all_reduce(torch.ones(8, 8), torch.ones(4, 8), group), (ValueError,)),
    ):
        try:
            wrong()
        except kind:
            continue
        raise AssertionError("nothing was refused")


def fail(rank: int) -> None:
    """Rank 1 ends in the midst of the work; the others have an error soon."""
    ranks.join(device="cpu", timeout=timedelta(seconds=30))
    for turn in range(1000):
        if rank == 1 and turn == 3:
            os._exit(7)
        begun = time.monotonic()
        try:
            ranks.all_reduce(torch.ones(100))
        except RuntimeError as error:
            assert "rank 1" in str(error) and time.monotonic() - begun < 5, error
            # At once, without an end of gloo, which waits for others.
            os._exit(0)
    raise AssertionError("no error")


def main() -> None:
    rank, size, port = (int(each) for each in sys.argv[1:4])
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    if sys.argv[4:] == ["fail"]:
        fail(rank)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        collectives(rank, size, None, dtype)
    for transposed in (True, False):
        products(rank, size, None, transposed)
    compiled(rank, size)
    refused(rank, size, None)
    if size == 4:
        # Groups of every second rank, beside the group of all.
        halves = [dist.new_group([half, half + 2]) for half in range(2)]
        collectives(rank // 2, 2, halves[rank % 2], torch.float32)
        ranks.leave(halves[rank % 2])
    collectives(rank, size, None, torch.float32)
    dist.barrier()
    ranks.leave()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Operations of PyTorch's process groups by kernels that communicate: every rank of a group is a process of one machine, with a GPU of its own or in host memory.

>>> import torch.distributed as dist, ptx_kernels.distributed as ranks        # doctest: +SKIP
>>> dist.init_process_group("gloo")                                            # doctest: +SKIP
>>> y = ranks.matmul_all_reduce(x, w.T)                                        # doctest: +SKIP

Every rank calls the same operations in the same order, with tensors of the same shape and type. Each is an operator of torch.library, for torch.compile, with a
gradient. The first call of a group on a device, and the first of a shape, exchange memory between the processes: call each once before a CUDA graph records it.

A rank that has ended, or does not come within the time of :func:`join`, is a RuntimeError on all others, which names it; the group is of no use after that.
"""

from __future__ import annotations

import itertools
import os
import socket
import tempfile
import uuid
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _resolve_process_group

from ._function import call
from ._operations import library, matmul

__all__ = [
    "all_gather",
    "all_gather_matmul",
    "all_reduce",
    "join",
    "leave",
    "matmul_all_reduce",
    "matmul_reduce_scatter",
    "reduce_scatter",
]
_PATIENCE = timedelta(seconds=60)
_NAMESPACE = "ptx_kernels_ranks"
# The number of this process's rank in the library, by the name of the group and the device.
_numbers: dict[tuple[str, torch.device], int] = {}
_next = itertools.count(1)


def join(group: dist.ProcessGroup | None = None, device: Any = None, timeout: timedelta = _PATIENCE) -> None:
    """Prepares a group for the operations: its ranks meet, and map each other's memory. The first operation does it with the defaults.

    Args:
        group: the process group; all processes without it. Its ranks are on one machine.
        device: the device of this rank: a GPU, or ``cpu``; the current GPU where there is one.
        timeout: the time for which a rank waits for others, here and in operations.

    Raises:
        RuntimeError: a rank did not come, has other devices, or is on another machine.
    """
    chosen = torch.device(device if device is not None else "cuda" if torch.cuda.is_available() else "cpu")
    if chosen.type == "cuda" and chosen.index is None:
        chosen = torch.device("cuda", torch.cuda.current_device())
    _join(_name(group), chosen, timeout)


def leave(group: dist.ProcessGroup | None = None) -> None:
    """Gives the memory of a group back, which its ranks may do in any order."""
    name = _name(group)
    for key in [key for key in _numbers if key[0] == name]:
        library().ranks_leave(_numbers.pop(key), place=torch.empty(1, dtype=torch.uint8, device=key[1]))


def all_reduce(x: torch.Tensor, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """The sum of ``x`` over all ranks, added in float32 in the order of the ranks and rounded once: the same bits on every rank.

    Args:
        x: float32, float16 or bfloat16, of any shape.
        group: the process group; all processes without it.

    Returns:
        A tensor like ``x``. Its gradient is the sum of the gradients of all ranks.
    """
    return torch.ops.ptx_kernels_ranks.all_reduce(x, _name(group))


def reduce_scatter(x: torch.Tensor, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """This rank's rows of the sum of ``x`` over all ranks, added as in :func:`all_reduce`.

    Args:
        x: float32, float16 or bfloat16 of shape ``[rows, ...]``; the number of ranks divides that of rows.

    Returns:
        A tensor of shape ``[rows / ranks, ...]``. Its gradient is :func:`all_gather`.
    """
    return torch.ops.ptx_kernels_ranks.reduce_scatter(x, _name(group))


def all_gather(x: torch.Tensor, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """The rows of all ranks, in the order of the ranks.

    Args:
        x: float32, float16 or bfloat16 of shape ``[rows, ...]``.

    Returns:
        A tensor of shape ``[ranks · rows, ...]``. Its gradient is :func:`reduce_scatter`.
    """
    return torch.ops.ptx_kernels_ranks.all_gather(x, _name(group))


def matmul_reduce_scatter(a: torch.Tensor, b: torch.Tensor, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """``reduce_scatter(a @ b)``: on Hopper one kernel that communicates while it multiplies, where that is the fastest.

    Args:
        a: float16 or bfloat16 of shape ``[rows, k]``.
        b: of shape ``[k, n]``, best the transpose of a contiguous tensor, as the weight of a linear layer is.

    Returns:
        A tensor of shape ``[rows / ranks, n]``. Differentiable in ``a`` and ``b``.
    """
    return torch.ops.ptx_kernels_ranks.matmul_reduce_scatter(a, b, _name(group))


def matmul_all_reduce(a: torch.Tensor, b: torch.Tensor, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """``all_reduce(a @ b)``; see :func:`matmul_reduce_scatter`.

    Returns:
        A tensor of shape ``[rows, n]``, with the same bits on every rank. Differentiable in ``a`` and ``b``.
    """
    return torch.ops.ptx_kernels_ranks.matmul_all_reduce(a, b, _name(group))


def all_gather_matmul(x: torch.Tensor, b: torch.Tensor, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """``all_gather(x) @ b``; see :func:`matmul_reduce_scatter`.

    Args:
        x: float16 or bfloat16 of shape ``[rows, k]``: this rank's rows.
        b: of shape ``[k, n]``.

    Returns:
        A tensor of shape ``[ranks · rows, n]``. Differentiable in ``x`` and ``b``.
    """
    return torch.ops.ptx_kernels_ranks.all_gather_matmul(x, b, _name(group))


# ---- groups ----


def _name(group: dist.ProcessGroup | None) -> str:
    found = group if group is not None else dist.group.WORLD
    if found is None:
        raise RuntimeError("torch.distributed has no process group here: call init_process_group first")
    return str(found.group_name)


def _ranks(name: str) -> int:
    return int(_resolve_process_group(name).size())


def _join(name: str, device: torch.device, timeout: timedelta = _PATIENCE) -> int:
    """The number of this process's rank; ranks of a group meet at the first call."""
    key = (name, device)
    if key not in _numbers:
        group = _resolve_process_group(name)
        # The path of the group's first rank is that of all.
        own = (_machine(), os.path.join(tempfile.gettempdir(), f"ptx-ranks-{uuid.uuid4().hex}"))
        all_own: list[Any] = [None] * group.size()
        dist.all_gather_object(all_own, own, group=group)
        away = [rank for rank, (machine, _) in enumerate(all_own) if machine != all_own[0][0]]
        if away:
            raise RuntimeError(f"ranks {away} of the group {name!r} are on another machine than rank 0: kernels reach the memory of one machine")
        number, place = next(_next), torch.empty(1, dtype=torch.uint8, device=device)
        library().ranks_join(number, all_own[0][1], group.rank(), group.size(), timeout.total_seconds(), place=place)
        _numbers[key] = number
    return _numbers[key]


def _machine() -> str:
    """What tells machines apart."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as boot:
            return socket.gethostname() + boot.read()
    except OSError:
        return socket.gethostname()


# ---- operators ----


def _run(function: Any, inputs: list[torch.Tensor], out: torch.Tensor, name: str) -> torch.Tensor:
    number = _join(name, inputs[0].device)
    call(function, [*inputs, out, number])
    return out


def _line(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous().view(-1)


def _part(rows: Any, name: str) -> Any:
    ranks = _ranks(name)
    if rows % ranks:
        raise ValueError(f"{rows} rows are no multiple of the {ranks} ranks of the group {name!r}")
    return rows // ranks


def _define(name: str, arguments: str, infer: Any, run: Any, backward: Any, saved: Any) -> None:
    """An operator: its shapes, its work, and its gradients."""
    _operators.define(f"{name}({arguments}, str group) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))

    def work(*inputs: Any) -> torch.Tensor:
        return run(*inputs, infer(*inputs))

    for key in ("CPU", "CUDA"):
        _operators.impl(name, work, key)
    qualified = f"{_NAMESPACE}::{name}"
    torch.library.register_fake(qualified, infer, lib=_operators)

    def save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.group = inputs[-1]
        ctx.save_for_backward(*saved(*inputs[:-1]))

    torch.library.register_autograd(qualified, backward, setup_context=save, lib=_operators)


_operators = torch.library.Library(_NAMESPACE, "DEF")


def _like(x: torch.Tensor, group: str) -> torch.Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def _scattered(x: torch.Tensor, group: str) -> torch.Tensor:
    return x.new_empty((_part(x.shape[0], group), *x.shape[1:]))


def _gathered(x: torch.Tensor, group: str) -> torch.Tensor:
    return x.new_empty((x.shape[0] * _ranks(group), *x.shape[1:]))


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(f"no product of {a.dtype} {tuple(a.shape)} and {b.dtype} {tuple(b.shape)}: expected matrices of one type")
    return a.new_empty((a.shape[0], b.shape[1]))


def _rows(x: torch.Tensor) -> torch.Tensor:
    """A matrix as kernels take it: elements of rows, or of columns, side by side."""
    return x if 1 in x.stride() and all(x.stride()) else x.contiguous()


def _nothing(*inputs: Any) -> tuple[Any, ...]:
    return ()


def _both(a: Any, b: Any) -> tuple[Any, ...]:
    return a, b


def _of_line(function: str) -> Any:
    def run(x: torch.Tensor, group: str, out: torch.Tensor) -> torch.Tensor:
        _run(getattr(library(), function), [_line(x)], out.view(-1), group)
        return out

    return run


def _of_product(function: str) -> Any:
    def run(a: torch.Tensor, b: torch.Tensor, group: str, out: torch.Tensor) -> torch.Tensor:
        left = a.contiguous() if function == "ranks_all_gather_matmul" else _rows(a)
        return _run(getattr(library(), function), [left, _rows(b)], out, group)

    return run


def _all_reduce_backward(ctx: Any, grad: torch.Tensor) -> Any:
    return torch.ops.ptx_kernels_ranks.all_reduce(grad, ctx.group), None


def _reduce_scatter_backward(ctx: Any, grad: torch.Tensor) -> Any:
    return torch.ops.ptx_kernels_ranks.all_gather(grad, ctx.group), None


def _all_gather_backward(ctx: Any, grad: torch.Tensor) -> Any:
    return torch.ops.ptx_kernels_ranks.reduce_scatter(grad, ctx.group), None


def _product_backward(whole: Any, ctx: Any, grad: torch.Tensor) -> Any:
    """Of a sum of products, of whose gradient each rank needs all rows."""
    a, b = ctx.saved_tensors
    rows = whole(grad, ctx.group)
    of_a = matmul(rows, b.transpose(0, 1)) if ctx.needs_input_grad[0] else None
    of_b = matmul(a.transpose(0, 1), rows) if ctx.needs_input_grad[1] else None
    return of_a, of_b, None


def _scattered_product_backward(ctx: Any, grad: torch.Tensor) -> Any:
    return _product_backward(torch.ops.ptx_kernels_ranks.all_gather, ctx, grad)


def _summed_product_backward(ctx: Any, grad: torch.Tensor) -> Any:
    return _product_backward(torch.ops.ptx_kernels_ranks.all_reduce, ctx, grad)


def _gathered_product_backward(ctx: Any, grad: torch.Tensor) -> Any:
    x, b = ctx.saved_tensors
    of_x = of_b = None
    # Every rank takes part in both, whichever gradients it needs.
    if any(ctx.needs_input_grad[:2]):
        of_x = torch.ops.ptx_kernels_ranks.matmul_reduce_scatter(grad, b.transpose(0, 1), ctx.group)
        of_b = matmul(torch.ops.ptx_kernels_ranks.all_gather(x, ctx.group).transpose(0, 1), grad)
    return of_x, of_b, None


def _infer_scattered_product(a: torch.Tensor, b: torch.Tensor, group: str) -> torch.Tensor:
    return _scattered(_product(a, b), group)


def _infer_product(a: torch.Tensor, b: torch.Tensor, group: str) -> torch.Tensor:
    return _product(a, b)


def _infer_gathered_product(x: torch.Tensor, b: torch.Tensor, group: str) -> torch.Tensor:
    return _gathered(_product(x, b), group)


_define("all_reduce", "Tensor x", _like, _of_line("ranks_all_reduce"), _all_reduce_backward, _nothing)
_define("reduce_scatter", "Tensor x", _scattered, _of_line("ranks_reduce_scatter"), _reduce_scatter_backward, _nothing)
_define("all_gather", "Tensor x", _gathered, _of_line("ranks_all_gather"), _all_gather_backward, _nothing)
_define(
    "matmul_reduce_scatter", "Tensor a, Tensor b", _infer_scattered_product, _of_product("ranks_matmul_reduce_scatter"),
    _scattered_product_backward, _both,
)  # fmt: skip
_define(
    "matmul_all_reduce", "Tensor a, Tensor b", _infer_product, _of_product("ranks_matmul_all_reduce"), _summed_product_backward, _both
)
_define(
    "all_gather_matmul", "Tensor x, Tensor b", _infer_gathered_product, _of_product("ranks_all_gather_matmul"),
    _gathered_product_backward, _both,
)  # fmt: skip

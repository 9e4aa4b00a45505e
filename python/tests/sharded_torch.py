"""Calls with PyTorch's DTensor on a mesh of two by two processes: the right values and gradients, and results that stay split. `test_torch.py` runs it."""

from __future__ import annotations

import sys
from typing import Any, Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode

import ptx_kernels

ROWS, COLUMNS, HEADS, WHOLE = Shard(0), Shard(1), Shard(2), Replicate()
Call = Callable[..., torch.Tensor]


def rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, w.shape, w, 1e-6)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    q, k, v = (x.transpose(1, 2).float() for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(1, 2).to(torch.bfloat16)


# The operation, PyTorch's own, the shapes, and the placements along both dimensions of the mesh; the last ones are the result's.
CASES: list[tuple[Call, Call, list[tuple[int, ...]], list[tuple[Placement, Placement]]]] = [
    (ptx_kernels.rms_norm, rms_norm, [(4, 3, 16), (16,)], [(ROWS, WHOLE), (WHOLE, WHOLE), (ROWS, WHOLE)]),
    (ptx_kernels.layer_norm, lambda x, w, b: F.layer_norm(x, w.shape, w, b), [(8, 16), (16,), (16,)],
     [(ROWS, ROWS), (WHOLE, WHOLE), (WHOLE, WHOLE), (ROWS, ROWS)]),
    (ptx_kernels.silu, F.silu, [(4, 8)], [(ROWS, COLUMNS), (ROWS, COLUMNS)]),
    (ptx_kernels.swiglu, lambda gate, up: F.silu(gate) * up, [(4, 8), (4, 8)], [(ROWS, COLUMNS)] * 3),
    (ptx_kernels.softmax, lambda x: x.softmax(-1), [(4, 8)], [(ROWS, WHOLE), (ROWS, WHOLE)]),
    (ptx_kernels.matmul, torch.matmul, [(4, 24), (24, 16)], [(ROWS, WHOLE), (WHOLE, COLUMNS), (ROWS, COLUMNS)]),
    (ptx_kernels.attention, attend, [(2, 16, 4, 16), (2, 16, 2, 16), (2, 16, 2, 16)], [(ROWS, HEADS)] * 4),
]  # fmt: skip


def compiled(call: Call) -> tuple[Call, list[str]]:
    """The call under torch.compile, and the collectives of its forward graphs. A mode that counts would be in the compiler's way."""
    collectives: list[str] = []

    def forward(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        called = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
        collectives.extend(name for name in called if "c10d" in name and "wait_tensor" not in name)
        return make_boxed_func(graph.forward)

    backend = aot_autograd(fw_compiler=forward, bw_compiler=lambda graph, inputs: make_boxed_func(graph.forward))
    return torch.compile(call, fullgraph=True, backend=backend), collectives


def main() -> None:
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    for ours, theirs, shapes, placements in CASES:
        dtype = torch.bfloat16 if len(shapes[0]) == 4 else torch.float32
        bound = 5e-2 if dtype == torch.bfloat16 else 1e-4
        arrays = [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]
        expected = theirs(*arrays)
        # A sum over more than its own elements: the gradient of a norm's weight is one over the rows of all.
        wanted = torch.autograd.grad((expected.float() ** 2).sum(), arrays)
        with torch.no_grad():
            parts = [distribute_tensor(array.detach(), mesh, placement) for array, placement in zip(arrays, placements)]
        parts = [part.requires_grad_() for part in parts]
        with CommDebugMode() as communication:
            ours(*parts)
        assert communication.get_total_counts() == 0, (ours, communication.get_comm_counts())
        in_graph, collectives = compiled(ours)
        for call in (ours, in_graph):
            made = call(*parts)
            assert isinstance(made, DTensor) and made.placements == placements[-1], (ours, made.placements)
            torch.testing.assert_close(made.full_tensor(), expected, rtol=bound, atol=bound)
            found = torch.autograd.grad((made.float() ** 2).sum(), parts)
            for mine, reference in zip(found, wanted):
                torch.testing.assert_close(mine.full_tensor(), reference, rtol=bound, atol=bound * float(reference.abs().max().clamp(min=1)))
        assert not collectives, (ours, collectives)
    # A column of a norm is gathered first, and a split of the inner extent, too.
    x, w = torch.randn(4, 16), torch.randn(16)
    split = distribute_tensor(x, mesh, (ROWS, COLUMNS)), distribute_tensor(w, mesh, (WHOLE, ROWS))
    in_graph, collectives = compiled(ptx_kernels.rms_norm)
    for call in (ptx_kernels.rms_norm, in_graph):
        torch.testing.assert_close(call(*split).full_tensor(), rms_norm(x, w), rtol=1e-4, atol=1e-4)
    assert collectives
    a, b = torch.randn(4, 24), torch.randn(24, 16)
    made = ptx_kernels.matmul(distribute_tensor(a, mesh, (WHOLE, COLUMNS)), distribute_tensor(b, mesh, (WHOLE, ROWS)))
    torch.testing.assert_close(made.full_tensor(), a @ b, rtol=1e-4, atol=1e-4)
    # A partial sum is summed first: a norm of parts is no part of the norm.
    part = DTensor.from_local(x / 4, mesh, (Partial(), Partial()))
    made = ptx_kernels.silu(part)
    torch.testing.assert_close(made.full_tensor(), F.silu(x), rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    rank, port = int(sys.argv[1]), sys.argv[2]
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=4)
    main()
    dist.destroy_process_group()

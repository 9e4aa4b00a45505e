"""Sharding strategies of the operators for PyTorch's DTensor, so that plans of tensor and sequence parallelism find them.

A placement that splits an extent of `..` or of a function's `parallel` splits it in every tensor; an output without it is a partial sum.
"""

from __future__ import annotations

import sys
from typing import Any, Iterable, Sequence

import torch

from . import _native_library
from ._extents import Extents
from ._function import Function
from ._torch import Operators, described, operators

_registered = False


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def ready() -> bool:
    """Registers the operators of all libraries with DTensor, once it is imported: also where `torch.compile` traces a call."""
    global _registered
    if not _registered and "torch.distributed.tensor" in sys.modules:
        _registered = True
        _native_library.when_loaded(define)
    return _registered


def define(functions: Iterable[Function]) -> None:
    """Registers the operators of functions."""
    from torch.distributed.tensor.experimental import register_sharding

    for state in map(operators, functions):
        for op, outputs in ((state.op, state.function.main_outputs), (state.op_saved, state.saved_outputs())):
            register_sharding(op)(_strategy(state, outputs))


def _strategy(state: Operators, outputs: Sequence[int]) -> Any:
    def strategy(*inputs: Any) -> list[tuple[list[Any], list[Any]]]:
        return placements(state.function, state.spread(inputs), outputs)

    return strategy


def placements(function: Function, values: list[Any], outputs: Sequence[int]) -> list[tuple[list[Any], list[Any]]]:
    """The placements of outputs and inputs along one dimension of a mesh that need no communication before the call."""
    from torch.distributed.tensor import Partial, Replicate, Shard

    present = [at for at in function.tensors if values[at] is not None]
    # What DTensor passes for a tensor has its shape and type in `tensor_meta`.
    made = function.infer(*described(function, [getattr(value, "tensor_meta", value) for value in values]))
    shapes = [*(tuple(values[at].shape) for at in present), *(made[at][0] for at in outputs)]
    extents = Extents(function, present, outputs, shapes)
    parts = [int(size) for size in values[present[0]].mesh.shape]

    def of_inputs(chosen: dict[int, Any]) -> list[Any]:
        return [chosen.get(at) for at in function.inputs]

    found: list[tuple[list[Any], list[Any]]] = [([Replicate()] * len(outputs), of_inputs({at: Replicate() for at in present}))]
    for factor in sorted(extents.splits):
        # Heads and their groups are split alike only where no slice is shorter.
        if factor in extents.groups.values() and any(extents.sizes[factor] % size for size in parts):
            continue
        dims = [next((dim for dim, name in enumerate(names) if extents.factor(name) == factor), None) for names in extents.names]
        inputs = {at: Replicate() if dim is None else Shard(dim) for at, dim in zip(present, dims)}
        results = [Partial() if dim is None else Shard(dim) for dim in dims[len(present) :]]
        found.append((results, of_inputs(inputs)))
    return found

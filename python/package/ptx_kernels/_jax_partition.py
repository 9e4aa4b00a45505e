"""Rules by which XLA splits a call over the devices of a mesh: along batch, rows and heads, and what else a function's `parallel` names.

Without them an array that is sharded by rows would be gathered on every device. Shardy reads the rule; `partition` then chooses the axes of the
mesh for each extent, and the call of one device sees its own slices. An output without an extent that is split is the sum over it.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Sequence

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from ._extents import Extents
from ._function import Function, product

_RULES = {"need_replication_factors"} & set(inspect.signature(custom_partitioning.def_partition).parameters)

Call = Callable[..., tuple[Any, ...]]


def _rule(extents: Extents) -> tuple[str, dict[str, Any]]:
    """The rule in Shardy's notation, and the extents that every device needs whole."""
    inner: dict[str, int] = {}

    def written(name: str) -> list[str]:
        groups = extents.groups.get(name)
        if groups is None or extents.sizes[name] == extents.sizes[groups]:
            return [extents.factor(name)]
        inner[f"{name}in{groups}"] = extents.sizes[name] // extents.sizes[groups]
        return [groups, f"{name}in{groups}"]

    tensors = [[written(name) for name in names] for names in extents.names]
    # In the order in which they come first.
    order = dict.fromkeys(factor for names in tensors for factors in names for factor in factors)
    whole = tuple(factor for factor in order if factor not in extents.splits)
    texts = [" ".join(factors[0] if len(factors) == 1 else f"({' '.join(factors)})" for factors in names) for names in tensors]
    text = f"{', '.join(texts[: extents.operands])} -> {', '.join(texts[extents.operands :])}"
    return text, {**inner, **{name: whole for name in _RULES}}


def _axes(extents: Extents, mesh: Any, shardings: Sequence[Any]) -> dict[str, tuple[str, ...]]:
    """The axes of the mesh that split an extent: what the operands have, then what the results want."""
    chosen: dict[str, tuple[str, ...]] = {}
    used: set[str] = set()
    for names, sharding in zip(extents.names, shardings):
        for name, entry in zip(names, getattr(sharding, "spec", ())):
            axes = (entry,) if isinstance(entry, str) else tuple(entry or ())
            factor = extents.factor(name)
            parts = product([mesh.shape[axis] for axis in axes])
            # Slices of one size: padding would be part of the sums.
            if axes and factor in extents.splits and factor not in chosen and not used & set(axes) and extents.sizes[factor] % parts == 0:
                chosen[factor] = axes
                used |= set(axes)
    return chosen


def _spec(extents: Extents, at: int, chosen: dict[str, tuple[str, ...]]) -> PartitionSpec:
    """How a tensor is split."""
    return PartitionSpec(*(chosen.get(extents.factor(name)) for name in extents.names[at]))


def _summed(extents: Extents, at: int, chosen: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The axes over which an output is a sum."""
    own = {extents.factor(name) for name in extents.names[at]}
    return tuple(axis for name, axes in chosen.items() if name not in own for axis in axes)


def partitioned(function: Function, present: Sequence[int], outputs: Sequence[int], call: Call, arrays: Sequence[Any]) -> Call:
    """The call, which XLA splits where it knows how; as it is where there is one device, or nothing to split.

    Args:
        call: the call of one device: tensors of any extents that fit to each other, and its outputs.
    """
    if jax.device_count() == 1:
        return call
    shapes = [array.shape for array in (*arrays, *jax.eval_shape(call, *arrays))]
    extents = Extents(function, present, outputs, shapes)
    if not extents.splits:
        return call

    def partition(mesh: Any, arguments: Any, results: Any) -> Any:
        chosen = _axes(extents, mesh, [value.sharding for value in (*arguments, *results)])
        every = [NamedSharding(mesh, _spec(extents, at, chosen)) for at in range(len(extents.names))]

        def of_one_device(*slices: Any) -> tuple[Any, ...]:
            sums = [_summed(extents, extents.operands + number, chosen) for number in range(len(outputs))]
            return tuple(jax.lax.psum(made, axes) if axes else made for made, axes in zip(call(*slices), sums))

        return mesh, of_one_device, tuple(every[extents.operands :]), tuple(every[: extents.operands])

    def infer(mesh: Any, arguments: Any, results: Any) -> Any:
        chosen = _axes(extents, mesh, [value.sharding for value in arguments])
        return tuple(NamedSharding(mesh, _spec(extents, extents.operands + number, chosen)) for number in range(len(outputs)))

    split = custom_partitioning(call)
    text, special = _rule(extents)
    split.def_partition(partition, infer_sharding_from_operands=infer, sharding_rule=text, **special)
    return split

"""The extents of a call by name, and which of them may be split over devices: what JAX's partitioning and PyTorch's DTensor read."""

from __future__ import annotations

from typing import Sequence

from ._function import LEADING, Function, Param

Shape = tuple[int, ...]


class Extents:
    """The extents of a call by name: those of each tensor, which of them may be split, and their sizes."""

    def __init__(self, function: Function, present: Sequence[int], outputs: Sequence[int], shapes: Sequence[Shape]) -> None:
        places = (*present, *outputs)
        params = [function.params[at] for at in places]
        self.operands = len(present)
        self.names = [_names(param, at, len(shape)) for param, at, shape in zip(params, places, shapes)]
        self.sizes: dict[str, int] = {}
        self.splits: set[str] = set()
        agree = True
        for names, shape in zip(self.names, shapes):
            for name, size in zip(names, shape):
                agree &= not name.startswith("leading") or self.sizes.setdefault(name, size) == size
                self.sizes[name] = size
        # Leading extents that one tensor has in another form cannot be split alike.
        ranks = {sum(name.startswith("leading") for name in names) for param, names in zip(params, self.names) if LEADING in param.dims}
        if agree and len(ranks) == 1:
            self.splits |= {name for name in self.sizes if name.startswith("leading")}
        # Heads are split as their groups are; with one group for all of them, on their own.
        self.groups: dict[str, str] = {}
        for of, groups_of in function.parallel.items():
            name, groups = _named(of), None if groups_of is None else _named(groups_of)
            if name not in self.sizes:
                continue
            if groups is None or self.sizes.get(groups, 1) == 1:
                self.splits.add(name)
            elif self.sizes[name] % self.sizes[groups] == 0:
                self.groups[name] = groups
                self.splits.add(groups)

    def factor(self, name: str) -> str:
        """The extent whose split decides that of this one."""
        return self.groups.get(name, name)


def _names(param: Param, at: int, rank: int) -> list[str]:
    """The names of a tensor's extents, also of those that have none."""
    if not param.dims:
        return [f"own{at}x{dim}" for dim in range(rank)]
    leading = rank - len(param.dims) + 1 if param.has_leading else 0
    front = "leading" if LEADING in param.dims else f"own{at}y"
    own = enumerate(param.dims[1 if param.has_leading else 0 :])
    return [f"{front}{dim}" for dim in range(leading)] + [_named(dim) if isinstance(dim, str) else f"own{at}x{number}" for number, dim in own]


def _named(extent: str) -> str:
    """The name of a function's extent, which is none of those that have no name there."""
    return f"n_{extent}"

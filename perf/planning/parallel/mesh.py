"""The mesh of a plan: named dimensions, the strategy of each, and which of its ranks are in one node."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..communication.interconnect import Group, Interconnect
from .strategies import DEFAULTS, DataParallel, FullyShard, Pipeline, Strategy, TensorParallel

Kind = TypeVar("Kind", DataParallel, FullyShard, Pipeline, TensorParallel)
PROGRAM = "(program)"
"""Dimension name for collectives whose group is not a mesh dimension: all ranks."""


@dataclass(frozen=True)
class Dimension:
    """One dimension: its name, its number of ranks, its strategy (None: the program itself communicates), its group.

    `group_name` is that of a DeviceMesh's process group, by which a program names it.
    """

    name: str
    size: int
    strategy: Strategy | None
    group: Group
    group_name: str = ""


@dataclass(frozen=True)
class Mesh:
    """The dimensions in order: ranks are numbered so that those of the last one follow each other."""

    dimensions: tuple[Dimension, ...]
    everybody: Group

    @property
    def size(self) -> int:
        """The number of ranks."""
        return math.prod(dimension.size for dimension in self.dimensions)

    def of(self, kind: type[Kind]) -> tuple[Dimension, Kind] | None:
        """Return the dimension of a strategy, with the strategy; None if no dimension of more than one rank
        has it.
        """
        for dimension in self.dimensions:
            if isinstance(dimension.strategy, kind) and dimension.size > 1:
                return dimension, dimension.strategy
        return None

    @property
    def data_parallel(self) -> list[tuple[Dimension, DataParallel]]:
        """Dimensions of more than one rank whose gradients are averaged."""
        return [
            (dimension, dimension.strategy)
            for dimension in self.dimensions
            if isinstance(dimension.strategy, DataParallel) and dimension.size > 1
        ]

    def size_of(self, kind: type[Kind]) -> int:
        """Return the number of ranks of a strategy's dimension; 1 if there is none."""
        dimension = self.of(kind)
        return dimension[0].size if dimension else 1

    def group_of(self, name: str) -> tuple[str, Group]:
        """Return the dimension with that name or that process group's name, or all ranks."""
        for dimension in self.dimensions:
            if name and name in (dimension.name, dimension.group_name):
                return dimension.name, dimension.group
        return PROGRAM, self.everybody

    def coordinate(self, rank: int, name: str) -> int:
        """Return the coordinate of a rank along a dimension."""
        stride = 1
        for dimension in reversed(self.dimensions):
            if dimension.name == name:
                return rank // stride % dimension.size
            stride *= dimension.size
        raise ValueError(f"the mesh has no dimension {name!r}")


def mesh_of(mesh: Any, strategies: Mapping[str, Strategy | None] | None, interconnect: Interconnect) -> Mesh:
    """Convert a mapping from names to sizes, or a DeviceMesh, to a mesh.

    Raises:
        ValueError: for a size below 1, a dimension without a name or a strategy, a strategy of no dimension, two
            dimensions of a strategy that can have one alone, and nodes that nothing connects.
    """
    sizes = _sizes_of(mesh)
    strategy_of = dict(strategies or {})
    unknown = sorted(set(strategy_of) - set(sizes))
    if unknown:
        raise ValueError(
            f"plan(): strategies has {unknown[0]!r}, and the dimensions of mesh are {', '.join(sizes)}"
        )
    names = list(sizes)
    dimensions = []
    for number, name in enumerate(names):
        if name not in strategy_of and name not in DEFAULTS:
            raise ValueError(
                f"plan(): strategies must say what dimension {name!r} of mesh does; only "
                f"{', '.join(DEFAULTS)} say it by their names"
            )
        stride = math.prod(sizes[later] for later in names[number + 1 :])
        group = interconnect.group(range(0, stride * sizes[name], stride))
        process_group = "" if isinstance(mesh, Mapping) else str(mesh.get_group(name).group_name)
        strategy = strategy_of.get(name, DEFAULTS.get(name))
        dimensions.append(Dimension(name, sizes[name], strategy, group, process_group))
    for kind in (FullyShard, TensorParallel, Pipeline):
        several = [dimension.name for dimension in dimensions if isinstance(dimension.strategy, kind)]
        if len(several) > 1:
            raise ValueError(
                f"plan(): one dimension of mesh can be {kind.__name__}, got {' and '.join(several)}"
            )
    world = interconnect.group(range(math.prod(sizes.values())))
    if world.nodes > 1 and interconnect.between is None:
        raise ValueError(
            f"plan(): mesh has {math.prod(sizes.values())} ranks on {world.nodes} nodes, and interconnect "
            f"{interconnect.name!r} has no link between nodes"
        )
    return Mesh(tuple(dimensions), world)


def _sizes_of(mesh: Any) -> dict[str, int]:
    if isinstance(mesh, Mapping):
        sizes = dict(mesh)
    else:
        names: Sequence[str] | None = getattr(mesh, "mesh_dim_names", None)
        if not names:
            raise ValueError(
                "plan(): mesh must be a mapping from names of dimensions to their sizes, or a DeviceMesh with "
                f"mesh_dim_names, got {mesh!r}"
            )
        sizes = dict(zip(names, tuple(mesh.mesh.shape), strict=True))
    if not sizes:
        raise ValueError("plan(): mesh must have a dimension, got none")
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"plan(): dimension {name!r} of mesh must have at least 1 rank, got {size!r}")
    return sizes

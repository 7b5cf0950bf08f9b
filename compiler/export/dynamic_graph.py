"""A graph with named sizes: made for given sizes when a call first has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...dispatch.layers.graph.graph import Graph
from ...runtime.tensor_impl import TensorImpl
from ..dynamic_shapes.size_expressions import Sizes
from ..dynamic_shapes.template import Template
from .dynamic_shapes import ValueRange
from .graph_json import graph_from_json, spec_from_json

MAX_GRAPHS = 64
"""Graphs that are kept, one for each combination of sizes."""


class SizedGraph(NamedTuple):
    """The graph for given sizes, and the specs of the tensors among the arguments."""

    graph: Graph
    specs: list[Any]


class DynamicGraph:
    """A graph of which numbers are expressions of named sizes.

    Args:
        template: the graph's steps as JSON, with expressions of the names; those of operators without what they give.
        ranges: of the names.
        dimension_names: For each tensor among the arguments, the names by dimension.
    """

    def __init__(
        self,
        template: Template,
        ranges: Mapping[str, ValueRange],
        dimension_names: Sequence[Mapping[int, str]],
    ) -> None:
        self.template = template
        self.ranges = dict(ranges)
        self.dimension_names = tuple([dict(each) for each in dimension_names])
        self._made: dict[tuple[int, ...], SizedGraph] = {}

    def at(self, sizes: Sizes) -> SizedGraph:
        """Return the graph for these sizes.

        Raises:
            RuntimeError: the module decides something else at these sizes.
            ZeroDivisionError: as the module would.
            Exception: what `graph_from_json` raises where it takes none such.
        """
        key = tuple([sizes[name] for name in self.ranges])
        made = self._made.get(key)
        if made is None:
            broken = self.template.broken(sizes)
            if broken is not None:
                shown = ", ".join(f"{name}={size}" for name, size in sizes.items())
                raise RuntimeError(
                    f"at {shown} the module does something else than was exported, since {broken} there"
                )
            rows = self.template.rows_at(sizes)
            inputs = [row for row in rows if row["op"] == "placeholder"]
            count = len(self.dimension_names)
            specs = [spec_from_json(row["val"]) for row in (inputs[-count:] if count else [])]
            if len(self._made) >= MAX_GRAPHS:
                self._made.clear()
            made = self._made[key] = SizedGraph(graph_from_json(rows), specs)
        return made

    def sizes_of(self, leaves: Sequence[Any], paths: Sequence[str]) -> dict[str, int]:
        """Return the named sizes of a call with these tensors.

        Raises:
            RuntimeError: A size is out of its range, or differs from another dimension of the same name.
            TypeError: An argument that must be a tensor is not.
        """
        named_sizes: dict[str, int] = {}
        first: dict[str, str] = {}
        for leaf, path, names in zip(leaves, paths, self.dimension_names, strict=True):
            if not isinstance(leaf, TensorImpl):
                raise TypeError(f"argument {path}: expected a Tensor, got {type(leaf).__name__}")
            sizes = leaf._spec.sizes
            for dim, name in names.items():
                if dim >= len(sizes):
                    raise RuntimeError(
                        f"argument {path}: expected a dimension {dim}, '{name}', got shape {list(sizes)}"
                    )
                size = sizes[dim]
                location = f"argument {path}: dimension {dim}"
                if size not in self.ranges[name]:
                    raise RuntimeError(f"{location}, '{name}', expected {self.ranges[name]}, got {size}")
                if named_sizes.setdefault(name, size) != size:
                    raise RuntimeError(
                        f"{location}, '{name}', expected {named_sizes[name]} as in {first[name]}, got {size}"
                    )
                first.setdefault(name, f"argument {path}")
        return named_sizes

    def lines(self) -> list[str]:
        """Return lines for people: the ranges, and each number of a step that is an expression."""
        lines = [f"{name}: {each}" for name, each in self.ranges.items()]
        return lines + [
            f"%{self.template.rows[path[0]]['name']}{''.join(f'[{step!r}]' for step in path[1:])}: {expression}"
            for path, expression in self.template.expressions.items()
            if isinstance(path[0], int)
        ]


def without_results(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return steps without their result specs, which follow from the inputs."""
    return [
        {key: value for key, value in row.items() if key != "val" or row["op"] == "placeholder"}
        for row in rows
    ]

"""Conversion of a graph to rows that a template compares, and back: nested lists and dicts instead of nodes and
tuples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...dispatch.layers.graph.graph import Graph, Node
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from .template import DifferentCaptures


class Reference(int):
    """The place of a node in its graph."""


class SpecRow(dict[str, Any]):
    """A tensor's spec: sizes and strides apart from the rest."""


class SliceRow(dict[str, Any]):
    """A slice, by its parts."""


def rows_of(graph: Graph) -> list[dict[str, Any]]:
    """Return the steps of a graph as rows. Raise DifferentCaptures for a tensor among their arguments."""
    index_of: dict[Node, int] = {}
    rows = []
    for i, node in enumerate(graph.nodes):
        rows.append(
            {
                "op": node.op,
                "target": node.target,
                "args": _row(node.args, index_of),
                "kwargs": _row(dict(node.kwargs), index_of),
                "val": _row(node.val, index_of),
            }
        )
        index_of[node] = i
    return rows


def graph_of(rows: Sequence[Mapping[str, Any]], like: Graph) -> Graph:
    """Return the graph of rows, with the names and metadata of the steps of a similar graph."""
    made = Graph()
    nodes: list[Node] = []
    for row, node in zip(rows, like.nodes, strict=True):
        args, kwargs, val = (_value(row[part], nodes) for part in ("args", "kwargs", "val"))
        new = made.create_node(node.op, node.target, args, kwargs, node.name, val)
        new.meta = dict(node.meta)
        nodes.append(new)
    return made


def _row(value: object, index_of: Mapping[Node, int]) -> Any:
    if isinstance(value, Node):
        return Reference(index_of[value])
    if isinstance(value, TensorSpec):
        rest = value.replace(sizes=(), strides=())
        return SpecRow(sizes=list(value.sizes), strides=list(value.strides), like=rest)
    if isinstance(value, TensorImpl):
        raise DifferentCaptures("an argument of a step is a tensor")
    if value.__class__ in (tuple, list):
        return [_row(each, index_of) for each in value]
    if value.__class__ is dict:
        return {key: _row(each, index_of) for key, each in value.items()}
    if value.__class__ is slice:
        return SliceRow({part: _row(getattr(value, part), index_of) for part in ("start", "stop", "step")})
    return value


def _value(row: Any, nodes: Sequence[Node]) -> Any:
    if isinstance(row, Reference):
        return nodes[row]
    if isinstance(row, SpecRow):
        return row["like"].replace(sizes=tuple(row["sizes"]), strides=tuple(row["strides"]))
    if isinstance(row, SliceRow):
        return slice(*[_value(row[part], nodes) for part in ("start", "stop", "step")])
    if isinstance(row, list):
        return tuple([_value(each, nodes) for each in row])
    if isinstance(row, dict):
        return {key: _value(each, nodes) for key, each in row.items()}
    return row

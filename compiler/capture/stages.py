"""Stages of results that depend on each other: each derivative ends at the next earlier result.

A program may request the gradient of one result with regard to another, hook it, or retain its gradient. So the
derivative of later results ends at the result that they depend on. Autograd receives the gradient there, and
continues. Results of one stage do not depend on each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dispatch.autograd.node import AccumulateGrad, Edge, GradientEdge, Node, edge_of
from .unsupported import Unsupported


def stages_of(results: Sequence[Any]) -> list[list[int]]:
    """Return the stages of the results, tensors with history, by number: a stage depends only on earlier stages."""
    edges = [edge_of(tensor) for tensor in results]
    index_of = {edge: i for i, edge in enumerate(edges) if edge is not None}
    needs: list[set[int]] = []
    for own in edges:
        reached = _edges_from([] if own is None else [own[0]])
        needs.append({index_of[edge] for edge in reached if edge in index_of and edge != own})
    levels: dict[int, int] = {}
    # A result needs more results than any result that it depends on.
    for i in sorted(range(len(results)), key=lambda i: len(needs[i])):
        levels[i] = 1 + max((levels[j] for j in needs[i] if j in levels), default=-1)
    return [
        [i for i in range(len(results)) if levels[i] == level] for level in range(max(levels.values()) + 1)
    ]


def cut_at(results: Sequence[Any], ends: Sequence[Any]) -> list[tuple[int, GradientEdge]]:
    """Have the derivatives of results end at some of them.

    Returns:
        The number of a result, and where a gradient of it arrives, for each step that reads it: in the order in which
        they arrive and are added up.

    Raises Unsupported where the stages would go over the same steps more than once for the most part.
    """
    stops = {edge_of(tensor): i for i, tensor in enumerate(ends)}
    starts = [edge[0] for edge in map(edge_of, results) if edge is not None]
    nodes = _nodes_from(starts)
    arrivals: list[tuple[int, GradientEdge]] = []
    for node in sorted(nodes, key=lambda node: -node.sequence):
        edges = list(node.next_edges)
        for position, edge in enumerate(edges):
            if edge is not None and edge in stops:
                end = AccumulateGrad(ends[stops[edge]])
                edges[position] = (end, 0)
                arrivals.append((stops[edge], GradientEdge(end, 0)))
        if edges != list(node.next_edges):
            node.next_edges = tuple(edges)
    if sum(len(_nodes_from([start])) for start in starts) > 2 * len(nodes) + len(results):
        raise Unsupported("results are computed from each other, and from what is no result, by long ways")
    return arrivals


def _nodes_from(starts: Sequence[Node]) -> set[Node]:
    """Return the autograd nodes that gradients reach, except leaves."""
    reached: set[Node] = set()
    pending = list(starts)
    while pending:
        node = pending.pop()
        if node not in reached and node.__class__ is not AccumulateGrad:
            reached.add(node)
            pending += [edge[0] for edge in node.next_edges if edge is not None]
    return reached


def _edges_from(starts: Sequence[Node]) -> set[Edge]:
    return {edge for node in _nodes_from(starts) for edge in node.next_edges if edge is not None}

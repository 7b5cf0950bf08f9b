"""Which parameters a backward will not reach."""

from __future__ import annotations

from collections.abc import Sequence

from ...dispatch.autograd.node import AccumulateGrad, Edge, Node

__all__ = ["leaves_below"]


def leaves_below(edges: Sequence[Edge]) -> set[int]:
    """Return the ids of the leaves that receive gradients through these edges."""
    leaf_ids: set[int] = set()
    visited: set[Node] = set()
    pending = [edge[0] for edge in edges]
    while pending:
        node = pending.pop()
        if node in visited:
            continue
        visited.add(node)
        if node.__class__ is AccumulateGrad:
            leaf_ids.add(id(node.leaf()))
        else:
            pending += [edge[0] for edge in node.next_edges if edge is not None]
    return leaf_ids

"""Gradient sums of leaves with hooks: the engine calls such a leaf once all of its gradients have arrived.

A leaf without hooks takes each gradient as it comes. A hook sees their sum, so the engine must know the last one.
When the engine meets the first such leaf, it counts the edges to such leaves among the nodes that have yet to run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .node import AccumulateGrad, Edge, Node

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = ["Arrivals"]


class Arrivals:
    """Gradients of leaves with hooks.

    Args:
        edges: The edges along which gradients are still to be sent; all others are reachable from their nodes.
        add: The sum of two gradients.
        run: The function that gives a leaf its gradient.
        every_leaf: If True, also count edges to leaves without hooks. Default: False.
    """

    __slots__ = ("_add", "_counts", "_run", "_sums")

    def __init__(
        self,
        edges: Iterable[Edge | None],
        add: Callable[[Any, Any], Tensor],
        run: Callable[[AccumulateGrad, Tensor], None],
        every_leaf: bool = False,
    ) -> None:
        self._add, self._run = add, run
        self._sums: dict[AccumulateGrad, Tensor] = {}
        self._counts: dict[AccumulateGrad, int] = {}
        counts, seen = self._counts, set[Node]()
        pending = [edges]
        while pending:
            for edge in pending.pop():
                if edge is None:
                    continue
                node = edge[0]
                if node.__class__ is AccumulateGrad:
                    if every_leaf or node.hooks is not None:
                        counts[node] = counts.get(node, 0) + 1
                elif node not in seen:
                    seen.add(node)
                    pending.append(node.next_edges)

    def arrive(self, leaf: AccumulateGrad, grad: Tensor) -> None:
        """Take a gradient, and call the leaf if it is the last."""
        present = self._sums.get(leaf)
        if present is not None:
            grad = self._add(present, grad)
        left = self._counts.get(leaf, 1) - 1  # a hook that is newer than the count sees each gradient
        self._counts[leaf] = left
        if left > 0:
            self._sums[leaf] = grad
        else:
            self._sums.pop(leaf, None)
            self._run(leaf, grad)

    def end(self) -> None:
        """Call the leaves for which some node had no gradient to send."""
        while self._sums:
            leaf = next(iter(self._sums))
            self._run(leaf, self._sums.pop(leaf))

"""Dinic's algorithm for the maximum flow through a network, and the resulting minimum cut.

`scipy.sparse.csgraph.maximum_flow` has capacities of 32 bits, which sizes of tensors in bytes exceed.

Source: E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation" (1970).
"""

from __future__ import annotations

import math
from collections import deque


class FlowNetwork:
    """Directed network whose vertices are numbers.

    Example:
        >>> from triten.compiler.max_flow import FlowNetwork
        >>> network = FlowNetwork(4)
        >>> for start, end, capacity in ((0, 1, 5), (0, 2, 4), (1, 3, 3), (2, 3, 7)):
        ...     network.add_edge(start, end, capacity)
        >>> network.maximum_flow(0, 3)
        7
        >>> sorted(network.sink_side(3))
        [2, 3]
    """

    def __init__(self, vertices: int) -> None:
        self._edges: list[list[int]] = [[] for _ in range(vertices)]
        # An edge and its reverse are adjacent, at numbers that differ in the lowest bit.
        self._ends: list[int] = []
        self._residual: list[float] = []

    def add_edge(self, start: int, end: int, capacity: float) -> None:
        """Add an edge; `math.inf` is a valid capacity."""
        self._edges[start].append(len(self._ends))
        self._edges[end].append(len(self._ends) + 1)
        self._ends += (end, start)
        self._residual += (capacity, 0)

    def maximum_flow(self, source: int, sink: int) -> float:
        """Return the maximum flow. Raise ValueError if it is infinite."""
        total: float = 0
        while True:
            levels = self._levels(source)
            if levels[sink] < 0:
                return total
            following = [0] * len(self._edges)
            while True:
                path = self._path(source, sink, levels, following)
                if path is None:
                    break
                amount = min(self._residual[edge] for edge in path)
                if amount == math.inf:
                    raise ValueError("maximum_flow: no edge on a path from the source to the sink is finite")
                for edge in path:
                    self._residual[edge] -= amount
                    self._residual[edge ^ 1] += amount
                total += amount

    def sink_side(self, sink: int) -> set[int]:
        """Return the sink's side of the minimum cut that is nearest to the sink, after `maximum_flow`."""
        side = {sink}
        pending = [sink]
        while pending:
            for edge in self._edges[pending.pop()]:
                start = self._ends[edge]
                if self._residual[edge ^ 1] > 0 and start not in side:
                    side.add(start)
                    pending.append(start)
        return side

    def _levels(self, source: int) -> list[int]:
        """Return each vertex's distance from the source in the residual graph; -1 if unreachable."""
        levels = [-1] * len(self._edges)
        levels[source] = 0
        pending = deque([source])
        while pending:
            vertex = pending.popleft()
            for edge in self._edges[vertex]:
                end = self._ends[edge]
                if self._residual[edge] > 0 and levels[end] < 0:
                    levels[end] = levels[vertex] + 1
                    pending.append(end)
        return levels

    def _path(self, source: int, sink: int, levels: list[int], following: list[int]) -> list[int] | None:
        """Return edges of an augmenting path, or None; `following` has the next edge of each vertex's search."""
        path: list[int] = []
        vertex = source
        while vertex != sink:
            edges = self._edges[vertex]
            while following[vertex] < len(edges):
                edge = edges[following[vertex]]
                if self._residual[edge] > 0 and levels[self._ends[edge]] == levels[vertex] + 1:
                    break
                following[vertex] += 1
            else:
                if not path:
                    return None
                vertex = self._ends[path.pop() ^ 1]
                following[vertex] += 1
                continue
            path.append(edge)
            vertex = self._ends[edge]
        return path

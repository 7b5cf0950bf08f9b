"""Dead-code elimination.

Before::

    graph(%x : float32[4]):
        %exp : float32[4] = aten.exp(%x)
        %sin : float32[4] = aten.sin(%x)
        return [%sin]

After::

    graph(%x : float32[4]):
        %sin : float32[4] = aten.sin(%x)
        return [%sin]

Writes and random ops stay: a random op advances its generator.
"""

from __future__ import annotations

from ...dispatch.layers.graph.graph import Graph


def eliminate_dead_code(graph: Graph) -> bool:
    """Remove dead steps. Return True if any was removed."""
    return graph.eliminate_dead_code()

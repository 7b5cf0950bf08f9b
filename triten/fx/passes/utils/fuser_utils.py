"""Validity of fusions (torch/fx/passes/utils/fuser_utils.py)."""

from __future__ import annotations

from collections.abc import Sequence

from ...node import Node

__all__ = ["validate_partition"]


def validate_partition(partition: Sequence[Node]) -> bool:
    """Return whether nodes can be fused: no path leads out of them and back into them.

    Example:
        >>> import triten as tt
        >>> from triten.fx.passes.utils.fuser_utils import validate_partition
        >>> x, exp, relu, add, output = tt.fx.symbolic_trace(lambda x: (y := x.exp()) + y.relu()).graph.nodes
        >>> validate_partition([exp, relu, add]), validate_partition([exp, add])
        (True, False)
    """
    inside = set(partition)
    waiting = [user for node in partition for user in node.users if user not in inside]
    seen: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node in inside:
            return False
        if node not in seen:
            seen.add(node)
            waiting += node.users
    return True

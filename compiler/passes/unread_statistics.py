"""Removal of running statistics that the backward of training batch norm does not read.

Before::

    graph(%g : float32[2, 4], %x : float32[2, 4], %w : float32[4], %mean : float32[4], %var : float32[4]):
        ...
        %grad = aten.native_batch_norm_backward(%g, %x, %w, %mean, %var, %m, %s, True, 1e-05, [True, True, True])

After::

        %grad = aten.native_batch_norm_backward(%g, %x, %w, None, None, %m, %s, True, 1e-05, [True, True, True])

The operator needs them for evaluation only. Without them, they are not saved for backward, and forward can write the
buffers in place.
"""

from __future__ import annotations

from ...dispatch.core.op_overload import OpOverload
from ...dispatch.layers.graph.graph import Graph

RUNNING, TRAIN = slice(3, 5), 7
"""The indices of the operator's arguments."""


def leave_out_running_statistics(graph: Graph) -> bool:
    """Remove running statistics from the backward of training batch norm. Return True if any were removed."""
    changed = False
    for node in graph.find_nodes(op="call_function"):
        if (
            not isinstance(node.target, OpOverload)
            or node.target.name() != "aten::native_batch_norm_backward"
        ):
            continue
        args = list(node.args)
        if args[TRAIN] is True and args[RUNNING] != [None, None]:
            args[RUNNING] = [None, None]
            node.args = tuple(args)
            changed = True
    return changed

"""Liveness analysis: bytes that are live while steps run, from the step that makes a value to its last use.

It counts memory, not tensors: a view keeps its base alive, and values inside a fused kernel take no memory. The caller
owns a graph's inputs, except values that forward keeps. Results are live to the end.
"""

from __future__ import annotations

import operator
from collections.abc import Collection

from ..dispatch.layers.graph.graph import Node
from ..runtime.tensor_spec import TensorSpec
from .partition import roots_of
from .schedule import OperatorCall, Schedule


def peak_bytes(schedule: Schedule, saved: Collection[Node] = ()) -> int:
    """Return the peak of live bytes.

    Args:
        schedule: The steps.
        saved: Inputs that are live for the graph alone, each until its last use.

    Example:
        >>> import triten as tt
        >>> from triten.compiler.liveness import peak_bytes
        >>> from triten.compiler.schedule import fused_schedule, plain_schedule
        >>> graph = tt.func.make_graph(lambda x: (x.exp() + 1).relu().sum())(tt.ones(4, 4)).graph
        >>> peak_bytes(plain_schedule(graph)), peak_bytes(fused_schedule(graph))
        (128, 4)
    """
    graph = schedule.graph
    roots = roots_of(list(graph.nodes))
    last: dict[Node, int] = {}
    made: list[set[Node]] = []
    for i, step in enumerate(schedule.steps):
        outputs = (step.node,) if isinstance(step, OperatorCall) else step.outputs
        inputs = step.node.all_input_nodes if isinstance(step, OperatorCall) else step.inputs
        parts = [user for node in outputs for user in node.users if user.target is operator.getitem]
        made.append({roots[node] for node in (*outputs, *parts)})
        last.update(dict.fromkeys((roots[node] for node in (*outputs, *inputs)), i))
    last.update(dict.fromkeys((roots[n] for n in graph.output_node.all_input_nodes), len(schedule.steps)))
    gone: dict[int, list[Node]] = {}
    for root, i in last.items():
        gone.setdefault(i, []).append(root)
    alive = {roots[node] for node in saved if roots[node] in last}
    current = peak = sum(map(_bytes_of, alive))
    for i, new in enumerate(made):
        fresh = {root for root in new if root not in alive and root.op == "call_function"}
        current += sum(map(_bytes_of, fresh))
        alive |= fresh
        peak = max(peak, current)
        for root in gone.get(i, ()):
            if root in alive:
                alive.remove(root)
                current -= _bytes_of(root)
    return peak


def _bytes_of(node: Node) -> int:
    """Return the bytes of a value; for several results, of those that no step takes out."""
    if isinstance(node.val, TensorSpec):
        return node.val.numel * node.val.itemsize
    taken = {user.args[1] for user in node.users if user.target is operator.getitem}
    specs = [spec for i, spec in enumerate(node.val or ()) if i not in taken]
    return sum(spec.numel * spec.itemsize for spec in specs if isinstance(spec, TensorSpec))

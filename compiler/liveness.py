"""The bytes that live at once while steps run: values come with the step that makes them and go after their last use.

Memory is counted, not tensors: a view holds what it views, and what is in a fused kernel holds nothing. The inputs of a
graph are somebody else's, unless they are said to be values that forward keeps; its results stay to the end.
"""

from __future__ import annotations

import operator
from collections.abc import Collection

from ..dispatch.layers.graph.graph import Node
from ..runtime.tensor_spec import TensorSpec
from .partition import roots_of
from .schedule import OperatorCall, Schedule


def peak_bytes(schedule: Schedule, kept: Collection[Node] = ()) -> int:
    """The most bytes of values that live at once.

    Args:
        schedule: the steps.
        kept: the graph's inputs that live for it alone, each until its last use.

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
    alive = {roots[node] for node in kept if roots[node] in last}
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
    """A value's bytes; of several, those that no step takes out of them."""
    if isinstance(node.val, TensorSpec):
        return node.val.numel * node.val.itemsize
    taken = {user.args[1] for user in node.users if user.target is operator.getitem}
    specs = [spec for i, spec in enumerate(node.val or ()) if i not in taken]
    return sum(spec.numel * spec.itemsize for spec in specs if isinstance(spec, TensorSpec))

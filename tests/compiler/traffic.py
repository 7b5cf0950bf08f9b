"""Bytes that a compiled graph moves, from its kernels' source, compared with the minimum."""

import re
from typing import Any

from triten.compiler.cuda_graphs.eligibility import specs_of
from triten.compiler.partition import is_view
from triten.compiler.schedule import OperatorCall, ReductionKernel, Schedule


def nbytes(node: Any) -> int:
    """Return the bytes of a step's results; a broadcast dimension counts once."""
    total = 0
    for spec in specs_of(node):
        count = 1
        for size, stride in zip(spec.sizes, spec.strides, strict=True):
            count *= size if stride else 1
        total += count * spec.dtype.itemsize
    return total


def moved(schedule: Schedule, sources: dict[str, str]) -> int:
    """Return the bytes that a schedule's steps read and write.

    Each load and store in a kernel's source passes over its operand once.
    """
    return sum([_of_step(step, sources) for step in schedule.steps])


def _of_step(step: Any, sources: dict[str, str]) -> int:
    if isinstance(step, OperatorCall):
        if is_view(step.node) or not hasattr(step.node.target, "_entry"):
            return 0
        return sum(map(nbytes, (*step.node.all_input_nodes, step.node)))
    text = sources[step.name]
    total = 0
    for letter, access, nodes in (("a", "load", step.inputs), ("b", "store", step.outputs)):
        for i, node in enumerate(nodes):
            count = len(re.findall(rf"tl\.{access}\({letter}{i}\b", text))
            if isinstance(step, ReductionKernel) and letter == "b":
                count = max(count, 1)  # the eager kernel's own text stores what is reduced
            assert count, (step.name, letter, i)
            total += count * nbytes(node)
    return total


def least(schedule: Schedule) -> int:
    """Return the bytes of the inputs that a graph reads and of its results, each counted once."""
    inputs = [node for node in schedule.graph.find_nodes(op="placeholder") if node.users]
    results = schedule.graph.output_node.all_input_nodes
    return sum(map(nbytes, {*inputs, *results}))

"""Bound on the operands of a fused kernel.

A kernel is called with a pointer for each input and output. Parameters of a CUDA kernel take 4 KiB at most, and threads
that share a loop on the CPU have a table of `MAX_POINTERS` pointers each (`runtime/cpu/task_pool_source.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dispatch.layers.graph.graph import Node

MAX_OPERANDS = 60
"""Maximum number of inputs and outputs of a kernel. A loop also takes a workspace, random seeds and sums."""


def bounded_runs(nodes: Sequence[Node]) -> list[list[Node]]:
    """Cut steps into runs, each of which has at most `MAX_OPERANDS` inputs and outputs as a kernel.

    Args:
        nodes: steps with one result each, every step after those that it reads.

    Returns:
        The runs, in the order in which they are computed. A step that exceeds the bound by itself is a run of its own.
    """
    runs: list[list[Node]] = []
    inside: dict[Node, int] = {}  # each step of the run, and how many of its users are not in the run
    inputs: set[Node] = set()
    outputs = 0
    for node in nodes:
        operands_read = node.all_input_nodes
        fresh = {each for each in operands_read if each not in inside}
        closed = sum(inside[each] == 1 for each in operands_read if each in inside)
        users = len(node.users)
        operands = len(inputs | fresh) + outputs - closed + bool(users)
        if not runs or operands > MAX_OPERANDS:
            runs.append([])
            inside, inputs, fresh, outputs, closed = {}, set(), set(operands_read), 0, 0
        for each in operands_read:
            if each in inside:
                inside[each] -= 1
        runs[-1].append(node)
        inside[node] = users
        inputs |= fresh
        outputs += bool(users) - closed
    return runs

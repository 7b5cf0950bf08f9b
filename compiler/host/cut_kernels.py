"""CPU kernels that are split at dropout, `cat` or gather calls, which run eagerly, if no loop supports them.

The steps before, between and after these calls are kernels of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...dispatch.layers.graph.graph import Node
from ..draws import DropoutCall
from ..fused_step import FusedStep
from ..operand_limit import bounded_runs
from ..schedule import FusedKernel, RowsKernel
from .draws import reservation

Kernel = Callable[..., tuple[Any, ...]]


class _Stage(NamedTuple):
    """Part of a kernel: a kernel, or an eager call.

    Attributes:
        function: Function from arrays, and for a dropout its seed and first counter, to arrays.
        inputs: The slots of its inputs.
        outputs: The slots of its results; -1 for an unused result.
        random_op: Its index among the random ops; None for other parts.
    """

    function: Callable[..., Any]
    inputs: list[int]
    outputs: list[int]
    random_op: int | None


def cut_kernel(
    kernel: FusedKernel | RowsKernel, function_of: Callable[[FusedKernel | RowsKernel], Kernel]
) -> Kernel:
    """Return a function from a kernel's input arrays to its output arrays.

    Args:
        kernel: The kernel.
        function_of: Compile a kernel without dropout, `cat` and gathers.
    """
    slot_of = {node: i for i, node in enumerate(kernel.inputs)}
    stages: list[_Stage] = []
    for part in _parts(kernel):
        if isinstance(part, FusedStep):
            function, inputs, made = part.eager_call()
        else:
            function, inputs, made = function_of(part), list(part.inputs), list(part.outputs)
        input_slots = [slot_of[node] for node in inputs]
        slot_of |= {node: len(slot_of) + i for i, node in enumerate(filter(None, made))}
        outputs = [-1 if node is None else slot_of[node] for node in made]
        random_op = kernel.draws.index(part) if isinstance(part, DropoutCall) else None
        stages.append(_Stage(function, input_slots, outputs, random_op))
    reserve = reservation(kernel.draws) if kernel.draws else None
    results = [slot_of[node] for node in kernel.outputs]

    def compute(*inputs: Any) -> tuple[Any, ...]:
        values = dict(enumerate(inputs))
        numbers = [] if reserve is None else reserve().tolist()
        for function, input_slots, outputs, random_op in stages:
            arrays = [values[slot] for slot in input_slots]
            results_ = function(*arrays) if random_op is None else function(*arrays, *numbers[random_op])
            values.update(zip(outputs, results_, strict=True))
        return tuple([values[slot] for slot in results])

    return compute


def _parts(kernel: FusedKernel | RowsKernel) -> list[FusedKernel | RowsKernel | FusedStep]:
    """Return kernels, and eager calls, in topological order."""
    levels: dict[Node, int] = {}
    inside: dict[tuple[int, tuple[int, ...]], list[Any]] = {}
    eager: dict[int, list[FusedStep]] = {}
    for call in kernel.calls:
        level = max((levels.get(node, 0) for node in call.node.all_input_nodes), default=0)
        if call.is_split_off:
            eager.setdefault(level, []).append(call)
            levels |= dict.fromkeys((call.node, *call.results.values()), level + 1)
            continue
        levels[call.node] = level
        # The parts of a `cat` have other sizes than its result.
        sizes = () if isinstance(kernel, RowsKernel) else tuple(call.node.val.sizes)
        group = inside.setdefault((level, sizes), [])
        if call.is_computed or call.node.args[0] in (each.node for each in group):
            group.append(call)
    parts: list[FusedKernel | RowsKernel | FusedStep] = []
    for level in range(max(levels.values()) + 1):
        for (group_level, _), calls in inside.items():
            if group_level == level and calls:
                parts += [_part(kernel, run) for run in _bounded(kernel, calls)]
        parts += eager.get(level, [])
    return parts


def _bounded(kernel: FusedKernel | RowsKernel, calls: Sequence[Any]) -> list[list[Any]]:
    """Split the steps of a part into runs of bounded operands; row kernels have a bound of steps already."""
    if isinstance(kernel, RowsKernel):
        return [list(calls)]
    by_node = {call.node: call for call in calls}
    return [[by_node[node] for node in run] for run in bounded_runs(list(by_node))]


def _part(kernel: FusedKernel | RowsKernel, calls: Sequence[Any]) -> FusedKernel | RowsKernel:
    """Return some steps of a kernel as a kernel of their own."""
    own = {call.node for call in calls}
    several = {call.node.args[0] for call in calls if not call.is_computed}
    inputs = dict.fromkeys(node for call in calls for node in call.node.all_input_nodes if node not in own)
    outputs = [
        call.node
        for call in calls
        if call.node not in several
        and (call.node in kernel.outputs or any(user not in own for user in call.node.users))
    ]
    if isinstance(kernel, RowsKernel):
        return RowsKernel(tuple(calls), tuple(inputs), tuple(outputs), kernel.space)
    return FusedKernel(tuple(calls), tuple(inputs), tuple(outputs))

"""Fusion of batch norms by running statistics with adjacent pointwise steps, into one CUDA kernel.

A batch norm that no matmul kernel includes is fused with the readers of its result and the producers of its input.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dispatch.layers.graph.graph import Node
from .channel_norms import ChannelNormCall, channel_norm_call
from .epilogues import Dependencies
from .pointwise import PointwiseCall, pointwise_call
from .product_kernel import result_of
from .reductions import ResultOf
from .schedule import FusedKernel, OperatorCall, Schedule, Step

MAX_INPUTS = 12
"""The most inputs of the kernel: each is an address, and a value in registers."""
NormStep = PointwiseCall | ChannelNormCall | ResultOf
"""A step of a batch norm's kernel."""


def with_channel_norms(schedule: Schedule) -> Schedule:
    """Return a schedule in which batch norms are fused with pointwise steps.

    Args:
        schedule: A schedule after prologue and epilogue fusion.
    """
    steps = list(schedule.steps)
    norms = [call for step in steps if (call := _norm_of(step)) is not None]
    if not norms:
        return schedule
    results = set(schedule.graph.output_node.all_input_nodes)
    order = Dependencies(schedule.graph)
    for norm in norms:
        _join(steps, norm, results, order)
    return Schedule(schedule.graph, tuple(steps))


def _norm_of(step: Step) -> ChannelNormCall | None:
    """Return the batch norm on CUDA whose result a step takes, or None."""
    call = channel_norm_call(step.node) if isinstance(step, OperatorCall) else None
    return call if call is not None and call.input.val.device.type == "cuda" else None


def _join(steps: list[Step], norm: ChannelNormCall, results: set[Node], order: Dependencies) -> None:
    """Fuse a norm with adjacent steps, if any."""
    taken = result_of(norm)
    calls: tuple[NormStep, ...] = (norm, ResultOf(taken))
    norm_index = next(
        i for i, step in enumerate(steps) if isinstance(step, OperatorCall) and step.node is norm.node
    )
    index = norm_index + 1
    while index < len(steps):
        own = _calls_of(steps[index])
        made = None
        if _reads(own, calls) and _is_alike(own, taken):
            made = _joined(steps, norm_index, index, (*calls, *own), results, order, taken)
        if made is None:
            index += 1
        else:
            steps[:], norm_index = made
            calls, index = _calls_of(steps[norm_index]), norm_index + 1
    for before in range(norm_index - 1, -1, -1):
        own = _calls_of(steps[before])
        if _reads(calls, own) and _is_alike(own, taken):
            made = _joined(steps, before, norm_index, (*own, *calls), results, order, taken)
            if made is not None:
                steps[:], _ = made
                return


def _reads(readers: Sequence[NormStep], calls: Sequence[NormStep]) -> bool:
    """Return True if steps read a result of other steps."""
    made = {call.node for call in calls}
    return any(
        o in made for c in readers if not isinstance(c, ResultOf) for o in c.operands if isinstance(o, Node)
    )


def _joined(
    steps: Sequence[Step],
    first: int,
    last: int,
    calls: tuple[NormStep, ...],
    results: set[Node],
    order: Dependencies,
    taken: Node,
) -> tuple[list[Step], int] | None:
    """Return the steps with two fused into one, and its index; None if another step has to run between."""
    moved = order.after(steps, first, last, {taken})
    made = None if moved is None else _kernel(calls, results)
    if moved is None or made is None:
        return None
    late = {id(step) for step in moved}
    between = [s for s in steps[first + 1 : last] if id(s) not in late and not _takes(s, taken)]
    rest = [s for s in steps[last + 1 :] if not _takes(s, taken)]
    return [*steps[:first], *between, made, *moved, *rest], first + len(between)


def _takes(step: Step, taken: Node) -> bool:
    return isinstance(step, OperatorCall) and step.node is taken


def _calls_of(step: Step) -> tuple[NormStep, ...]:
    """Return the steps of a kernel of pointwise steps and norms, or a single pointwise step; empty for any other."""
    if isinstance(step, OperatorCall):
        call = pointwise_call(step.node)
        return () if call is None else (call,)
    if not isinstance(step, FusedKernel):
        return ()
    calls = tuple([c for c in step.calls if isinstance(c, PointwiseCall | ChannelNormCall | ResultOf)])
    return calls if len(calls) == len(step.calls) else ()


def _is_alike(calls: Sequence[NormStep], taken: Node) -> bool:
    """Return True if the pointwise steps have the sizes and strides of a norm's result."""
    last = [call for call in calls if isinstance(call, PointwiseCall)]
    return bool(last) and all(
        call.node.val.sizes == taken.val.sizes and call.node.val.strides == taken.val.strides for call in last
    )


def _kernel(calls: tuple[NormStep, ...], results: set[Node]) -> FusedKernel | None:
    """Return steps as a kernel; None if it would have too many inputs."""
    nodes = [call.node for call in calls]
    inside = set(nodes)
    inputs = tuple(dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in inside))
    outputs = tuple(n for n in nodes if n in results or any(user not in inside for user in n.users))
    return FusedKernel(calls, inputs, outputs) if len(inputs) <= MAX_INPUTS else None

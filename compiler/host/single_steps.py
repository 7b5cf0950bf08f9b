"""CPU operators that are a compiled loop by themselves: those whose eager kernels are several NumPy passes.

A schedule leaves a step that fuses with no other as a call. If a loop supports it, this pass makes it a kernel of one
step.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...dispatch.layers.graph.graph import Node
from ...runtime.cpu.object_code import is_possible
from ..block_reductions import ReductionSpace
from ..fused_step import FusedStep
from ..reductions import ResultOf
from ..row_space import RowSpace
from ..schedule import FusedKernel, OperatorCall, ReductionKernel, RowsKernel, Schedule, Step, fused_steps

ALONE = frozenset(
    (
        *(
            "erf",
            "gelu",
            "gelu_backward",
            "hardsigmoid",
            "hardswish",
            "mish",
            "sigmoid",
            "silu",
            "silu_backward",
            "sigmoid_backward",
        ),
        *("softmax", "log_softmax", "logsumexp", "softmax_backward", "log_softmax_backward"),
        *("native_layer_norm", "fused_rms_norm", "native_layer_norm_backward", "fused_rms_norm_backward"),
    )
)
"""By stub."""


def with_single_steps(schedule: Schedule) -> Schedule:
    """Return the schedule with loops instead of calls of these operators; unchanged if there are none."""
    if not is_possible():
        return schedule
    nodes = [step.node for step in schedule.steps if isinstance(step, OperatorCall)]
    known = fused_steps(nodes)
    single = {step.node: step for step in known.values() if step.is_loop_alone(ALONE)}
    return Schedule(schedule.graph, tuple(_steps(schedule, single))) if single else schedule


def _steps(schedule: Schedule, single: dict[Node, FusedStep]) -> Iterator[Step]:
    taken: set[Node] = set()
    for step in schedule.steps:
        call = single.get(step.node) if isinstance(step, OperatorCall) else None
        kernel = None if call is None else _kernel(call)
        if kernel is not None:
            taken |= set(kernel.outputs)
            yield kernel
        elif not isinstance(step, OperatorCall) or step.node not in taken:
            yield step


def _kernel(call: FusedStep) -> FusedKernel | RowsKernel | ReductionKernel | None:
    """Return a step as a kernel; None if it is not a loop."""
    inputs = tuple(dict.fromkeys(call.node.all_input_nodes))
    outputs = tuple(call.results.values())
    calls = (call, *[ResultOf(node) for node in outputs if node is not call.node])
    space = call.index_space
    if isinstance(space, ReductionSpace):
        from .block_reductions import is_whole
        from .reduction_loops import is_one_loop

        reduction = ReductionKernel(calls, inputs, outputs, space)
        return reduction if not is_whole(reduction) and is_one_loop(reduction) else None
    if isinstance(space, RowSpace):
        from .row_loops import row_kernel

        rows = RowsKernel(calls, inputs, outputs, space)
        return None if row_kernel(rows) is None else rows
    from .loops import stages_of
    from .tiled_loops import tiled_program

    fused = FusedKernel(calls, inputs, outputs)
    if not fused.draws:
        stages = stages_of(fused)
        if stages is None or len(stages.steps) == 1:
            return None if stages is None else fused
    return None if tiled_program(fused) is None else fused

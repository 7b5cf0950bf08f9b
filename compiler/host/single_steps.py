"""CPU operators that are a compiled loop by themselves: those whose eager kernels are several NumPy passes.

A schedule leaves a step that fuses with no other as a call. If a loop supports it, this pass makes it a kernel of one
step.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...dispatch.layers.graph.graph import Node
from ...dispatch.plans.structured_kernel import StructuredKernel
from ...runtime.cpu.object_code import is_possible
from ..block_reductions import MOMENTS, PLACES, ReductionCall
from ..draws import DropoutCall
from ..norm_gradients import GradientKernel
from ..pointwise import PointwiseCall
from ..reductions import ResultOf, RowCall
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
SingleStep = PointwiseCall | RowCall | DropoutCall | ReductionCall
"""A step that may be a loop. Dropout, variances and argmax become loops wherever possible."""


def with_single_steps(schedule: Schedule) -> Schedule:
    """Return the schedule with loops instead of calls of these operators; unchanged if there are none."""
    if not is_possible():
        return schedule
    nodes = [step.node for step in schedule.steps if isinstance(step, OperatorCall)]
    known = fused_steps(nodes)
    found = {c.node: c for c in known.values() if isinstance(c, SingleStep) and _is_alone(c)}
    return Schedule(schedule.graph, tuple(_steps(schedule, found))) if found else schedule


def _is_alone(call: SingleStep) -> bool:
    if isinstance(call, DropoutCall):
        return call.spec.device.type == "cpu"
    if isinstance(call, ReductionCall):
        return call.stub in MOMENTS | PLACES
    if call.node.is_impure:
        return False
    planner = call.call.kernel if isinstance(call, RowCall) else call.kernel
    device = call.space.device if isinstance(call, RowCall) else call.node.val.device
    if device.type != "cpu" or not isinstance(planner, StructuredKernel | GradientKernel):
        return False
    return planner.stub.removesuffix("_stub") in ALONE


def _steps(schedule: Schedule, found: dict[Node, SingleStep]) -> Iterator[Step]:
    taken: set[Node] = set()
    for step in schedule.steps:
        call = found.get(step.node) if isinstance(step, OperatorCall) else None
        kernel = None if call is None else _kernel(call)
        if kernel is not None:
            taken |= set(kernel.outputs)
            yield kernel
        elif not isinstance(step, OperatorCall) or step.node not in taken:
            yield step


def _kernel(call: SingleStep) -> FusedKernel | RowsKernel | ReductionKernel | None:
    """Return a step as a kernel; None if it is not a loop."""
    inputs = tuple(dict.fromkeys(call.node.all_input_nodes))
    if isinstance(call, ReductionCall):
        from .block_reductions import is_whole
        from .reduction_loops import is_one_loop

        outputs = tuple(call.results.values())
        others = [ResultOf(node) for node in outputs if node is not call.node]
        reduction = ReductionKernel((call, *others), inputs, outputs, call.space)
        return reduction if not is_whole(reduction) and is_one_loop(reduction) else None
    if isinstance(call, RowCall):
        from .row_loops import row_kernel

        outputs = tuple(call.results.values())
        others = [ResultOf(node) for node in outputs if node is not call.node]
        rows = RowsKernel((call, *others), inputs, outputs, call.space)
        return None if row_kernel(rows) is None else rows
    from .loops import stages_of
    from .tiled_loops import tiled_program

    if isinstance(call, DropoutCall):
        drawn = tuple(call.results.values())
        fused = FusedKernel((call, *map(ResultOf, drawn)), inputs, drawn)
        return None if tiled_program(fused) is None else fused
    fused = FusedKernel((call,), inputs, (call.node,))
    stages = stages_of(fused)
    is_loop = stages is not None and (len(stages.steps) == 1 or tiled_program(fused) is not None)
    return fused if is_loop else None

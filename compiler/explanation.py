"""What `tt.compile` makes of a call: the graph, its kernels and guards, or why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..dispatch.layers.pytree import tree_flatten
from ..runtime.tensor_impl import TensorImpl
from .capture.guards import shown
from .capture.recording import record
from .capture.unsupported import Unsupported
from .liveness import peak_bytes
from .optimized import OptimizedFunction
from .optimized_module import OptimizedModule
from .passes import run_passes
from .schedule import OperatorCall, Schedule, fused_schedule, plain_schedule
from .sources import execution_of, sources_of
from .training import split


@dataclass(frozen=True)
class Explanation:
    """What `explain` found; `str()` is a page of it.

    Attributes:
        schedules: of the graph, or of forward and backward; empty where the call cannot be captured.
        break_reasons: why the call cannot be captured.
        guards: the places that the function reads, with their values in words.
        sources: the source of each fused kernel for CUDA, by its name.
        eager_peak_bytes: the most bytes of values between inputs and results that live at once when the operators run
            one by one, forward and backward, each value as long as something reads it.
        peak_bytes: the same for the schedules.
        execution: how each fused kernel runs, in words.
    """

    schedules: tuple[Schedule, ...]
    break_reasons: tuple[str, ...]
    guards: tuple[str, ...]
    sources: dict[str, str]
    eager_peak_bytes: int = 0
    peak_bytes: int = 0
    execution: tuple[str, ...] = ()

    @property
    def graph_count(self) -> int:
        """How many graphs run for one call."""
        return 1 if self.schedules else 0

    @property
    def graph_break_count(self) -> int:
        """How many parts of the function cannot be captured."""
        return len(self.break_reasons)

    @property
    def op_count(self) -> int:
        """Operators of all graphs."""
        return sum(
            1 if isinstance(step, OperatorCall) else len(step.calls)
            for schedule in self.schedules
            for step in schedule.steps
        )

    @property
    def kernel_count(self) -> int:
        """Fused kernels of all graphs."""
        return sum(len(schedule.kernels) for schedule in self.schedules)

    def __str__(self) -> str:
        if not self.schedules:
            reasons = "\n".join(f"    {reason}" for reason in self.break_reasons)
            return f"The function runs eagerly, since it cannot be captured:\n{reasons}"
        titles = (
            ["Forward", *["Backward"] * len(self.schedules[1:])] if len(self.schedules) > 1 else ["Graph"]
        )
        parts = []
        for title, schedule in zip(titles, self.schedules, strict=True):
            lines = "\n".join(f"    {line}" for line in str(schedule).split("\n"))
            parts.append(
                f"{title}: {len(schedule.steps)} steps, {len(schedule.kernels)} of them fused\n{lines}"
            )
        parts.append(
            f"Peak bytes of intermediates: eager {self.eager_peak_bytes:,}, compiled {self.peak_bytes:,}"
        )
        if self.execution:
            lines = "\n".join(f"    {line}" for line in self.execution)
            parts.append(f"Kernels:\n{lines}")
        shown = "\n".join(f"    {guard}" for guard in self.guards)
        return "\n".join([*parts, f"Guards: {len(self.guards)}", shown]).rstrip()


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What `tt.compile` makes of a call (`torch._dynamo.explain`). Nothing is computed.

    Args:
        function: a function or module, compiled or not.
        args: of the call; without any, a function of the arguments is returned, as PyTorch has it.
        kwargs: of the call.

    Returns:
        An `Explanation`.

    Example:
        >>> import triten as tt
        >>> found = tt.compiler.explain(lambda a, b: tt.relu((a + b) * 2), tt.ones(2, 2), tt.ones(2, 2))
        >>> found.op_count, found.kernel_count
        (3, 1)
        >>> print(found.schedules[0])
        kernel add_mul_relu(%tensors_0, %tensors_1) -> %relu over [2, 2] on cpu:
            %add : float32[2, 2] = aten.add.Tensor(%tensors_0, %tensors_1)
            %mul : float32[2, 2] = aten.mul.Tensor(%add, 2)
            %relu : float32[2, 2] = aten.relu(%mul)
        >>> print(tt.compiler.explain(lambda a: a * 2 if a.sum() > 0 else a, tt.ones(2)).graph_break_count)
        1
    """
    if not args and not kwargs:
        return lambda *given, **named: explain(function, *given, **named)
    if isinstance(function, OptimizedModule):
        function = function._orig_mod
    else:
        compiled = getattr(function, "_optimized", None)
        function = compiled.function if isinstance(compiled, OptimizedFunction) else function
    leaves, spec = tree_flatten((args, kwargs))
    try:
        recording = record(function, leaves, spec)
        parts = None if recording.gradients is None else split(recording)
    except Unsupported as error:
        return Explanation((), (str(error),), (), {})
    eager = peak_bytes(plain_schedule(recording.graph))
    graphs = (recording.graph,) if parts is None else (parts.forward, *(s.graph for s in parts.stages))
    schedules = tuple([fused_schedule(run_passes(graph)) for graph in graphs])
    compiled = peak_bytes(schedules[0])
    for stage, schedule in zip(() if parts is None else parts.stages, schedules[1:], strict=True):
        given = stage.graph.find_nodes(op="placeholder")[len(stage.kept_inputs) :]
        compiled = max(compiled, peak_bytes(schedule, given[: len(stage.kept)]))
    guards = [
        f"{location.name} is {shown(value)}"
        for location, value in recording.guards.places
        if location.kind != "elements" and not isinstance(value, TensorImpl)
    ]
    guards += [f"{location.name} is {spec!r}" for location, spec in recording.guards.held]
    execution = [
        f"{kernel.name}: {execution_of(kernel)}" for schedule in schedules for kernel in schedule.kernels
    ]
    return Explanation(schedules, (), tuple(guards), sources_of(schedules), eager, compiled, tuple(execution))


__all__ = ["Explanation", "explain"]

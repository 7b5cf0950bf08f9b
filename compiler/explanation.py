"""What `tt.compile` makes of a call: the graph, its kernels and guards, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..dispatch.layers.graph.graph import Graph
from ..dispatch.layers.pytree import tree_flatten
from ..runtime.tensor_impl import TensorImpl
from .capture.guards import shown
from .capture.recording import record
from .capture.unsupported import Unsupported
from .cuda_graphs.eligibility import device_of, why_not
from .optimized import OptimizedFunction
from .optimized_module import OptimizedModule
from .passes import run_passes
from .schedule import FusedKernel, Schedule, fused_schedule
from .sources import sources_of
from .training import split


@dataclass(frozen=True)
class Explanation:
    """What `explain` found; `str()` is a page of it.

    Attributes:
        schedules: of the graph, or of forward and backward; empty where the call cannot be captured.
        break_reasons: why the call cannot be captured.
        guards: the places that the function reads, with their values in words.
        sources: the source of each fused kernel for CUDA, by its name.
        tuning: whether kernels are chosen by measuring, in words; empty where that is not asked for.
        cuda_graphs: of each schedule whether it is captured as a CUDA graph, in words; empty where none is asked for.
    """

    schedules: tuple[Schedule, ...]
    break_reasons: tuple[str, ...]
    guards: tuple[str, ...]
    sources: dict[str, str]
    cuda_graphs: tuple[str, ...] = ()
    tuning: str = ""

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
            len(step.calls) if isinstance(step, FusedKernel) else 1
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
        titles = ("Forward", "Backward") if len(self.schedules) > 1 else ("Graph",)
        parts = []
        for title, schedule in zip(titles, self.schedules, strict=True):
            lines = "\n".join(f"    {line}" for line in str(schedule).split("\n"))
            parts.append(
                f"{title}: {len(schedule.steps)} steps, {len(schedule.kernels)} of them fused\n{lines}"
            )
        if self.cuda_graphs:
            lines = "\n".join(
                f"    {title}: {what}" for title, what in zip(titles, self.cuda_graphs, strict=True)
            )
            parts.append(f"CUDA graphs:\n{lines}")
        if self.tuning:
            parts.append(f"Tuning: {self.tuning}")
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
    own = vars(function).get("_compiled") if isinstance(function, OptimizedModule) else None
    compiled = own or getattr(function, "_optimized", None)
    if isinstance(compiled, OptimizedFunction):
        function = compiled.function
    leaves, spec = tree_flatten((args, kwargs))
    try:
        recording = record(function, leaves, spec)
        parts = None if recording.gradients is None else split(recording)
    except Unsupported as error:
        return Explanation((), (str(error),), (), {})
    graphs = (recording.graph,) if parts is None else (parts.forward, parts.backward)
    schedules = tuple([fused_schedule(run_passes(graph)) for graph in graphs])
    guards = [
        f"{location.name} is {shown(value)}"
        for location, value in recording.guards.places
        if location.kind != "elements" and not isinstance(value, TensorImpl)
    ]
    guards += [f"{location.name} is {spec!r}" for location, spec in recording.guards.held]
    captured = _cuda_graphs(compiled, graphs) if isinstance(compiled, OptimizedFunction) else ()
    tuning = _tuning(compiled, graphs) if isinstance(compiled, OptimizedFunction) else ""
    return Explanation(schedules, (), tuple(guards), sources_of(schedules), captured, tuning)


def _tuning(compiled: OptimizedFunction, graphs: Sequence[Graph]) -> str:
    """Whether kernels are chosen by measuring."""
    if not compiled.options.tunes:
        return ""
    devices = {device_of(graph) for graph in graphs}
    device = devices.pop()
    if device is None or devices:
        return "nothing is timed, since the graph is not of one CUDA device"
    from .triton.tuning import why_untimed

    reason = why_untimed(device)
    return (
        "kernels are timed when the graph is compiled"
        if reason is None
        else f"nothing is timed, since {reason}"
    )


def _cuda_graphs(compiled: OptimizedFunction, graphs: Sequence[Graph]) -> tuple[str, ...]:
    """Whether each graph is captured as a CUDA graph: by what it computes, and by what calls have shown so far."""
    if not compiled.options.cudagraphs:
        return ()
    reasons = [why_not(graph) for graph in graphs]
    made = [each for same_look in compiled.compilations.values() for each in same_look]
    for each in made:
        if len(each.graphed) == len(reasons):
            pairs = zip(reasons, each.graphed, strict=True)
            reasons = [reason or graphed.reason for reason, graphed in pairs]
    return tuple(["captured" if reason is None else f"not captured, since {reason}" for reason in reasons])


__all__ = ["Explanation", "explain"]

"""Explanation of a compiled call: the graph, its kernels and guards, or why there is no graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..dispatch.layers.graph.graph import Graph
from ..dispatch.layers.pytree import tree_flatten
from ..runtime.tensor_impl import TensorImpl
from .backends import find_backend
from .capture.guards import shown
from .capture.recording import Recording, record
from .capture.unsupported import Unsupported
from .cuda_graphs.eligibility import device_of, why_not
from .liveness import peak_bytes
from .optimized import OptimizedFunction
from .optimized_module import OptimizedModule
from .pipeline import run_early_passes, run_last_passes, run_passes, schedule_of
from .schedule import OperatorCall, Schedule, plain_schedule
from .sources import execution_of, sources_of
from .training import split


@dataclass(frozen=True)
class Explanation:
    """Result of `explain`; `str()` is a page of it.

    Attributes:
        graphs: The graphs in program order, each with one schedule, or those of forward and backward.
        break_reasons: The reason and line of each graph break, or why there is no graph.
        guards: The guarded places and their values, in words.
        sources: The source of each fused kernel for CUDA, by its name.
        eager_peak_bytes: Peak of the live intermediate bytes when the operators run one by one, forward and backward.
        peak_bytes: The same for the schedules.
        execution: How each fused kernel runs, in words.
        tuning: Whether kernels are autotuned, in words; empty if not requested.
        cuda_graphs: For each schedule, whether it is captured as a CUDA graph, in words; empty if not requested.
    """

    graphs: tuple[tuple[Schedule, ...], ...]
    break_reasons: tuple[str, ...]
    guards: tuple[str, ...]
    sources: dict[str, str]
    eager_peak_bytes: int = 0
    peak_bytes: int = 0
    execution: tuple[str, ...] = ()
    cuda_graphs: tuple[str, ...] = ()
    tuning: str = ""

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The schedules of all graphs."""
        return tuple([schedule for graph in self.graphs for schedule in graph])

    @property
    def graph_count(self) -> int:
        """How many graphs run for one call."""
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        """How many places of the program cannot be captured."""
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
        reasons = "\n".join(f"    {reason}" for reason in self.break_reasons)
        if not self.graphs:
            return f"The function runs eagerly, since it cannot be captured:\n{reasons}"
        pages = []
        for i, graph in enumerate(self.graphs, 1):
            number = f" {i}" if len(self.graphs) > 1 else ""
            titles = [f"Forward{number}", *[f"Backward{number}"] * (len(graph) - 1)]
            for title, schedule in zip(titles if len(graph) > 1 else [f"Graph{number}"], graph, strict=True):
                lines = "\n".join(f"    {line}" for line in str(schedule).split("\n"))
                pages.append(
                    f"{title}: {len(schedule.steps)} steps, {len(schedule.kernels)} of them fused\n{lines}"
                )
        if reasons:
            pages.append(f"Graph breaks: {len(self.break_reasons)}\n{reasons}")
        else:
            pages.append(
                f"Peak bytes of intermediates: eager {self.eager_peak_bytes:,}, compiled {self.peak_bytes:,}"
            )
        if self.execution:
            lines = "\n".join(f"    {line}" for line in self.execution)
            pages.append(f"Kernels:\n{lines}")
        if self.cuda_graphs:
            titles = ["Forward", *["Backward"] * (len(self.cuda_graphs) - 1)]
            named = zip(titles if len(titles) > 1 else ["Graph"], self.cuda_graphs, strict=True)
            lines = "\n".join(f"    {title}: {status}" for title, status in named)
            pages.append(f"CUDA graphs:\n{lines}")
        if self.tuning:
            pages.append(f"Tuning: {self.tuning}")
        shown = "\n".join(f"    {guard}" for guard in self.guards)
        return "\n".join([*pages, f"Guards: {len(self.guards)}", shown]).rstrip()


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Explain how `tt.compile` compiles a call (`torch._dynamo.explain`).

    If the call is one graph, only constants are computed. Otherwise the call is run, since the code after a graph
    break is only known then.

    Args:
        function: A function or module, compiled or not.
        args: Arguments of the call. Without arguments, return a function of the arguments, as PyTorch does.
        kwargs: Keyword arguments of the call.

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
        >>> def halved(a):
        ...     b = a * 2 + 1
        ...     return b.exp() * 3 if b.sum().item() > 0 else b
        >>> found = tt.compiler.explain(halved, tt.ones(2))
        >>> found.graph_break_count
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
        eager = peak_bytes(plain_schedule(recording.graph))
        run_early_passes(recording.graph)
        parts = None if recording.gradients is None else split(recording)
    except Unsupported as error:
        return _explained_in_parts(function, args, kwargs, error)
    graphs = (recording.graph,) if parts is None else (parts.forward, *(s.graph for s in parts.stages))
    for graph in graphs:
        run_last_passes(run_passes(graph))
    schedules = tuple([schedule_of(graph) for graph in graphs])
    peak = peak_bytes(schedules[0])
    for stage, schedule in zip(() if parts is None else parts.stages, schedules[1:], strict=True):
        positional = stage.graph.find_nodes(op="placeholder")[len(stage.saved_inputs) :]
        peak = max(peak, peak_bytes(schedule, positional[: len(stage.saved)]))
    return Explanation(
        (schedules,),
        (),
        guards_of(recording),
        sources_of(schedules),
        eager,
        peak,
        executions_of(schedules),
        _cuda_graphs(compiled, graphs) if isinstance(compiled, OptimizedFunction) else (),
        _tuning(compiled, graphs) if isinstance(compiled, OptimizedFunction) else "",
    )


def _explained_in_parts(
    function: Callable[..., Any], args: Any, kwargs: Any, error: Unsupported
) -> Explanation:
    """Explain a call that has graph breaks."""
    optimized = OptimizedFunction(function, find_backend("inductor"), False)
    if not optimized.can_be_split:
        return Explanation((), (str(error),), (), {})
    optimized(*args, **kwargs)
    made = [each for member in optimized.members() for each in member.graphs()]
    reasons = {
        str(failed.reason): None for member in optimized.members() for failed in member.failures.values()
    }
    graphs = tuple([tuple([s for s in each.schedules if s is not None]) for each in made])
    guards = dict.fromkeys(guard for each in made for guard in guards_of(each.recording))
    schedules = [s for graph in graphs for s in graph]
    return Explanation(
        graphs,
        tuple(reasons),
        tuple(guards),
        sources_of(schedules),
        execution=executions_of(schedules),
    )


def executions_of(schedules: Sequence[Schedule]) -> tuple[str, ...]:
    """Describe how each fused kernel runs."""
    return tuple(
        [f"{kernel.name}: {execution_of(kernel)}" for schedule in schedules for kernel in schedule.kernels]
    )


def guards_of(recording: Recording) -> tuple[str, ...]:
    """Describe the guards of a graph."""
    guards = [
        f"{location.name} is {shown(value)}"
        for location, value in recording.guards.locations
        if location.kind != "elements" and not isinstance(value, TensorImpl)
    ]
    return (*guards, *[f"{location.name} is {spec!r}" for location, spec in recording.guards.held])


def _tuning(compiled: OptimizedFunction, graphs: Sequence[Graph]) -> str:
    """Describe whether kernels are autotuned."""
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
    """Describe whether each graph is captured as a CUDA graph, from its operators and from earlier calls."""
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

"""Backends: what makes a graph a function (`torch.compiler.list_backends`, `torch._dynamo.register_backend`).

``"triten"`` fuses, and writes code; PyTorch's ``"inductor"`` is another name of it. ``"graph"`` calls the graph's
operators one after the other, through the dispatcher; ``"eager"`` leaves functions as they are. A backend of one's own
is a function from a `Graph` and example inputs to a function of the graph's inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..dispatch.layers.graph.graph import Graph
from ..dispatch.layers.graph.traced import forward_of
from ..runtime.device import device as Device
from .cuda_graphs.eligibility import device_of
from .host.pointwise import host_kernel
from .host.replay import replay
from .passes import run_passes
from .schedule import FusedKernel, Schedule, fused_schedule, plain_schedule

Compiled = Callable[..., tuple[Any, ...]]
Backend = Callable[[Graph, Sequence[Any]], Callable[..., Any]]

DEFAULT = "triten"
BUILT_IN = ("triten", "inductor", "graph", "aot_eager", "eager")
"""Names that are known without registration, PyTorch's own of the same among them."""
DEBUG = frozenset({"graph", "aot_eager", "eager"})

_registered: dict[str, Backend] = {}


def register_backend(
    compiler_fn: Backend | None = None, name: str | None = None, tags: Sequence[str] = ()
) -> Any:
    """Make a backend known by a name (`torch._dynamo.register_backend`). Without a function, a decorator.

    Args:
        compiler_fn: from a `tt.func.Graph` and its example inputs to a function that takes the inputs one by one and
            returns the tuple of results.
        name: the function's own unless it is given.
        tags: has no effect.

    Raises:
        ValueError: the name is taken.

    Example:
        >>> import triten as tt
        >>> @tt.compiler.register_backend(name="counting")
        ... def counting(graph, example_inputs):
        ...     print(len(graph.find_nodes(op="call_function")), "operators")
        ...     return tt.compiler.interpreted(graph)
        >>> tt.compile(lambda x: (x + 1).exp(), backend="counting")(tt.zeros(2))
        2 operators
        tensor([2.7183, 2.7183])
    """
    if compiler_fn is None:
        return lambda function: register_backend(function, name, tags)
    known = name or compiler_fn.__name__
    if known in _registered or known in BUILT_IN:
        raise ValueError(f"register_backend: duplicate name: {known}")
    _registered[known] = compiler_fn
    return compiler_fn


def list_backends(exclude_tags: Sequence[str] = ("debug", "experimental")) -> list[str]:
    """The backends that there are, by name (`torch.compiler.list_backends`).

    Args:
        exclude_tags: with ``"debug"`` among them those for debugging are left out.

    Example:
        >>> import triten as tt
        >>> "triten" in tt.compiler.list_backends(), "eager" in tt.compiler.list_backends(())
        (True, True)
    """
    own = [name for name in BUILT_IN if name not in DEBUG or "debug" not in (exclude_tags or ())]
    return sorted([*own, *_registered])


def find_backend(name: str | Backend) -> str | Backend:
    """A backend by name, or as it is: a built-in one's name, or a function. Raises RuntimeError for an unknown one."""
    if callable(name):
        return name
    found = _registered.get(name)
    if found is not None:
        return found
    if name not in BUILT_IN:
        raise RuntimeError(
            f"Invalid backend: {name!r}, see `tt.compiler.list_backends()` for available backends"
        )
    return {"inductor": "triten", "aot_eager": "graph"}.get(name, name)


def interpreted(graph: Graph) -> Compiled:
    """A graph as a function that calls its operators one after the other."""
    forward = forward_of(graph)
    return lambda *inputs: forward(None, *inputs)


def kernel_for(kernel: FusedKernel, tunes: bool = False) -> Callable[..., tuple[Any, ...]]:
    """A fused kernel as a function of bytes, on the device that it is for; of measured shape if it `tunes`."""
    device: Device = kernel.domain.device
    if device.type == "cpu":
        return host_kernel(kernel)
    from .triton.pointwise import device_kernel

    return device_kernel(kernel, tunes)


def compile_graph(
    graph: Graph, backend: str | Backend, examples: Sequence[Any], tunes: bool = False
) -> tuple[Compiled, Schedule | None]:
    """A function of a graph's inputs, and the schedule that it follows where this package made it.

    With `tunes` what it launches on a GPU is measured."""
    if callable(backend):
        return backend(graph, examples), None
    run_passes(graph)
    if backend == "graph":
        return interpreted(graph), plain_schedule(graph)
    schedule = fused_schedule(graph)
    schedule.check()
    device = device_of(graph) if tunes else None
    if device is None:
        return replay(schedule, kernel_for)[0], schedule
    from .triton.tuning import tune_operators, why_untimed

    if why_untimed(device) is not None:
        return replay(schedule, kernel_for)[0], schedule
    tune_operators(schedule)
    return replay(schedule, partial(kernel_for, tunes=True))[0], schedule

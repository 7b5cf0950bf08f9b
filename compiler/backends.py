"""Backends: functions that compile a graph (`torch.compiler.list_backends`, `torch._dynamo.register_backend`).

- ``"triten"`` fuses and generates code; PyTorch's ``"inductor"`` is another name of it.
- ``"graph"`` calls the graph's operators one by one, through the dispatcher.
- ``"eager"`` leaves functions unchanged.

A custom backend is a function from a `Graph` and example inputs to a function of the graph's inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dispatch.layers.graph.graph import Graph
from ..dispatch.layers.graph.traced import forward_of

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
    """Return the names of the available backends (`torch.compiler.list_backends`).

    Args:
        exclude_tags: Tags of the backends to leave out. Only ``"debug"`` has an effect.

    Example:
        >>> import triten as tt
        >>> "triten" in tt.compiler.list_backends(), "eager" in tt.compiler.list_backends(())
        (True, True)
    """
    own = [name for name in BUILT_IN if name not in DEBUG or "debug" not in (exclude_tags or ())]
    return sorted([*own, *_registered])


def find_backend(name: str | Backend) -> str | Backend:
    """Return a backend by name, or as given if it is callable. Raise RuntimeError for an unknown name."""
    if callable(name):
        return name
    backend = _registered.get(name)
    if backend is not None:
        return backend
    if name not in BUILT_IN:
        raise RuntimeError(
            f"Invalid backend: {name!r}, see `tt.compiler.list_backends()` for available backends"
        )
    return {"inductor": "triten", "aot_eager": "graph"}.get(name, name)


def interpreted(graph: Graph) -> Compiled:
    """Return a function that calls a graph's operators one by one."""
    forward = forward_of(graph)
    return lambda *inputs: forward(None, *inputs)


def boxed(function: Callable[..., Any], is_boxed: bool = True) -> Compiled:
    """Return the function, as a function of the list of inputs if `is_boxed`."""
    return (lambda given: function(*given)) if is_boxed else function

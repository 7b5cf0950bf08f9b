"""`tt.func`: functions that transform functions (`torch.func`), and graphs of what a function computes.

`grad`, `vjp`, `jvp` and what is made of them differentiate, `vmap` maps over a dimension; they nest in each other.
`make_graph` records a function as a `Graph` of operators (`torch.fx.experimental.proxy_tensor.make_fx`);
`functionalize` takes the writes, and the views, out of one.
"""

from importlib import import_module
from typing import Any

_PLACES = {
    "Graph": "graph.graph",
    "Node": "graph.graph",
    "Traced": "graph.traced",
    "functionalize": "functionalization.functionalize",
    "grad": "transforms",
    "grad_and_value": "transforms",
    "hessian": "jacobians",
    "jacfwd": "jacobians",
    "jacrev": "jacobians",
    "jvp": "transforms",
    "make_graph": "graph.make_graph",
    "vjp": "transforms",
    "vmap": "vmap",
}
"""The module of `dispatch/functional/` that has a name; it is imported with the name's first use."""

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f".dispatch.functional.{place}", __package__), name)
    return found


def __dir__() -> list[str]:
    return __all__

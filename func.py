"""`tt.func`: functions that transform functions (`torch.func`), and graphs of what a function computes.

`grad`, `vjp`, `jvp` and what is made of them differentiate, `vmap` maps over a dimension; they nest in each other.
`make_graph` records a function as a `Graph` of operators (`torch.fx.experimental.proxy_tensor.make_fx`);
`functionalize` takes the writes, and the views, out of one.
"""

from ._lazy_names import lazy_names

_TRANSFORMS = {
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

_PLACES = {name: f"dispatch.functional.{module}" for name, module in _TRANSFORMS.items()} | dict.fromkeys(
    ("functional_call", "stack_module_state"), "nn.modules.functional_call"
)

__all__ = sorted(_PLACES)

__getattr__, __dir__ = lazy_names(__name__, __package__, _PLACES)

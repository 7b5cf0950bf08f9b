"""`tt.func`: functions that transform functions (`torch.func`), and graphs of what a function computes.

`grad`, `vjp`, `jvp` and what is made of them differentiate, `vmap` maps over a dimension; they nest in each other.
`make_graph` records a function as a `Graph` of operators (`torch.fx.experimental.proxy_tensor.make_fx`);
`functionalize` takes the writes, and the views, out of one.
"""

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from .dispatch.functional.functionalization.functionalize import functionalize as functionalize
    from .dispatch.functional.graph.graph import Graph as Graph
    from .dispatch.functional.graph.graph import Node as Node
    from .dispatch.functional.graph.make_graph import make_graph as make_graph
    from .dispatch.functional.graph.traced import Traced as Traced
    from .dispatch.functional.jacobians import hessian as hessian
    from .dispatch.functional.jacobians import jacfwd as jacfwd
    from .dispatch.functional.jacobians import jacrev as jacrev
    from .dispatch.functional.transforms import grad as grad
    from .dispatch.functional.transforms import grad_and_value as grad_and_value
    from .dispatch.functional.transforms import jvp as jvp
    from .dispatch.functional.transforms import vjp as vjp
    from .dispatch.functional.vmap import vmap as vmap
    from .nn.modules.functional_call import functional_call as functional_call
    from .nn.modules.functional_call import stack_module_state as stack_module_state
else:
    __all__ = sorted(_PLACES)
    __getattr__, __dir__ = lazy_names(__name__, __package__, _PLACES)

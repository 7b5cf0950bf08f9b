"""`tt.func`: functions that transform functions (`torch.func`), and graphs of what a function computes.

`grad`, `vjp`, `jvp` and what is made of them differentiate, `vmap` maps over a dimension; they nest in each other.
`make_graph` records a function as a `Graph` of operators (`torch.fx.experimental.proxy_tensor.make_fx`);
`functionalize` takes the writes, and the views, out of one.
"""

from .runtime.lazy_import import lazy_names

_MODULES = {
    ".dispatch.functions.rearrange": "rearrange",
    ".dispatch.layers.functionalization.functionalize": "functionalize",
    ".dispatch.layers.graph.graph": "Graph Node",
    ".dispatch.layers.graph.make_graph": "make_graph",
    ".dispatch.layers.graph.traced": "Traced",
    ".dispatch.layers.jacobians": "hessian jacfwd jacrev",
    ".dispatch.layers.transforms": "debug_unwrap grad grad_and_value jvp linearize vjp",
    ".dispatch.layers.vmap": "vmap",
    ".nn.modules.batchnorm": "replace_all_batch_norm_modules_",
    ".nn.modules.functional_call": "functional_call stack_module_state",
}
"""The names of each module."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES)

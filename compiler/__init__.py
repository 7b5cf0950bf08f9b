"""`tt.compile`, `tt.export` and `tt.compiler`: a program's operators as graphs, fused into kernels (`torch.compile`).

In this folder `capture` runs a function on fake tensors and gives its graph, with the guards under which it holds;
`splitting` takes a function apart at a statement that no graph holds; `training` splits a graph with its derivative
into forward and backward, between which `partition` keeps as few bytes as can be; `liveness` counts the bytes that live
at once; `passes` make graphs better, one by an `attention_pattern`, and `element_order` follows elements through views;
`schedule` says which steps are one kernel, of the kinds in `pointwise`, `reductions`, `norm_gradients`,
`loss_gradients`, `one_hots`, `block_reductions`, `gathers`, `picks`, `concatenations` and `draws`, `epilogues` and
`prologues` which are in that of a product, `norm_kernels` which norms have what is beside them, and `scheduling` puts
them together; `host` and `triton` write code for the CPU and for CUDA, whose kernels `parallel` compiles in processes.
`compilation` makes a recording ready to run; `optimized` finds one by the look of a call (`call_key`), or runs the
function in parts, or as it is. `minifier` finds the operators at fault where a compiled program fails. `cuda_graphs`
captures what runs on CUDA, and `dynamic_shapes` makes a recording serve many sizes. `options` is what modes ask for,
`frontend` is `tt.compile`, `marks`, `size_marks` and `stances` what programs say to a compiler, `backends` who may take
its place. `export` captures modules ahead of time, and saves them.

`import triten` imports `frontend`, `marks` and `stances`; all else comes with the first call of `tt.compile`.
"""

from typing import TYPE_CHECKING, Any

from .frontend import (
    compile,
    cudagraph_mark_step_begin,
    get_default_backend,
    is_compiling,
    is_dynamo_compiling,
    is_exporting,
    reset,
    set_default_backend,
    set_enable_guard_collectives,
)
from .marks import (
    allow_in_graph,
    assume_constant_result,
    disable,
    nested_compile_region,
    substitute_in_graph,
    wrap_numpy,
)
from .stances import set_stance

if TYPE_CHECKING:
    from .backends import interpreted as interpreted
    from .backends import list_backends as list_backends
    from .backends import register_backend as register_backend
    from .capture.unsupported import Unsupported as Unsupported
    from .explanation import explain as explain
    from .minifier import minify as minify

__all__ = [
    "Unsupported",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "explain",
    "get_default_backend",
    "interpreted",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "minify",
    "nested_compile_region",
    "register_backend",
    "reset",
    "set_default_backend",
    "set_enable_guard_collectives",
    "set_stance",
    "substitute_in_graph",
    "wrap_numpy",
]

_LATE = {
    "Unsupported": "capture.unsupported",
    "explain": "explanation",
    "interpreted": "backends",
    "list_backends": "backends",
    "minify": "minifier",
    "register_backend": "backends",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_LATE[name]}", __name__), name)
    globals()[name] = found
    return found

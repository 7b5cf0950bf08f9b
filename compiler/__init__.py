"""`tt.compile`, `tt.export` and `tt.compiler`: operator graphs, fused into kernels (`torch.compile`).

`pipeline` names every phase, pass and lowering of a compilation in order: start reading there. Its parts:

- `capture` runs a function on fake tensors and returns its graph, with the guards under which the graph is valid.
- `splitting` splits a function at a statement that cannot be captured (a graph break).
- `training` splits a joint graph into forward and backward; `partition` minimizes the bytes kept between the two.
- `passes` rewrites graphs, with `attention_pattern` for attention and `element_order` to follow elements through
  views.
- `schedule` groups steps into kernels; `liveness` counts live bytes.
- `host` and `triton` generate code for the CPU and for CUDA; `parallel` compiles CUDA kernels in worker processes.
- `compilation` makes a recording ready to run.
- `optimized` looks up a compilation by the call's key (`call_key`), or runs the function in parts or eagerly.

Kinds of fusible steps: `pointwise`, `reductions`, `norm_gradients`, `loss_gradients`, `one_hots`, `block_reductions`,
`gathers`, `picks`, `concatenations`, `triangles` and `draws`. `epilogues` and `prologues` fuse steps into a matmul's
kernel, and `norm_kernels` fuses them with batch norms.

Other modules:

- `minifier` finds the operators at fault when a compiled program fails.
- `cuda_graphs` captures CUDA programs as CUDA graphs; `dynamic_shapes` makes one recording serve many sizes.
- `options` translates modes, `frontend` is `tt.compile`, and `backends` registers other backends.
- `marks`, `size_marks` and `stances` are what programs say to a compiler.
- `export` captures modules ahead of time and saves them.

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
    attribute = getattr(import_module(f".{_LATE[name]}", __name__), name)
    globals()[name] = attribute
    return attribute

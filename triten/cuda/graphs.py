"""CUDA graphs by PyTorch's path (`torch.cuda.graphs`): `tt.cuda` has the same names."""

from ..runtime.cuda.graph import (
    CUDAGraph as CUDAGraph,
)
from ..runtime.cuda.graph import (
    graph as graph,
)
from ..runtime.cuda.graph import (
    graph_pool_handle as graph_pool_handle,
)
from ..runtime.cuda.graph import (
    is_current_stream_capturing as is_current_stream_capturing,
)
from .graphed_callables import make_graphed_callables as make_graphed_callables

__all__ = [
    "CUDAGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
]

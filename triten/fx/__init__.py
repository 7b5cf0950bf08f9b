"""Programs as graphs, which Python code analyzes, rewrites and generates code from (`torch.fx`).

`_symbolic_trace.py` records a program as a `Graph` (`graph.py`) of `Node`s (`node.py`) by running it on proxies
(`proxy.py`); `patching.py` is what is exchanged meanwhile. `code_generation.py` writes a graph as Python, and
`graph_module.py` makes a module of that. `interpreter.py` runs graphs, `subgraph_rewriter.py` replaces patterns,
`operator_schemas.py` brings arguments into one form, `passes/` works on graphs, `experimental/` has what PyTorch calls
so. Graphs of what the dispatcher sees are made by `tt.func.make_graph`. A name's module is imported with its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy_import import lazy_names

_MODULES = {
    "._symbolic_trace": "PH ProxyableClassMeta Tracer symbolic_trace",
    ".graph": "CodeGen Graph",
    ".graph_module": "GraphModule",
    ".interpreter": "Interpreter Transformer",
    ".node": "Node has_side_effect map_arg",
    ".patching": "wrap",
    ".proxy": "Proxy",
    ".subgraph_rewriter": "replace_pattern",
}
_SUBMODULES = (
    *("_symbolic_trace", "annotate", "experimental", "graph", "graph_module", "immutable_collections"),
    *("interpreter", "node", "operator_schemas", "passes", "proxy", "subgraph_rewriter", "traceback"),
)

if TYPE_CHECKING:
    from . import _symbolic_trace as _symbolic_trace
    from . import annotate as annotate
    from . import experimental as experimental
    from . import graph as graph
    from . import graph_module as graph_module
    from . import immutable_collections as immutable_collections
    from . import interpreter as interpreter
    from . import node as node
    from . import operator_schemas as operator_schemas
    from . import passes as passes
    from . import proxy as proxy
    from . import subgraph_rewriter as subgraph_rewriter
    from . import traceback as traceback
    from ._symbolic_trace import PH as PH
    from ._symbolic_trace import ProxyableClassMeta as ProxyableClassMeta
    from ._symbolic_trace import Tracer as Tracer
    from ._symbolic_trace import symbolic_trace as symbolic_trace
    from .graph import CodeGen as CodeGen
    from .graph import Graph as Graph
    from .graph_module import GraphModule as GraphModule
    from .interpreter import Interpreter as Interpreter
    from .interpreter import Transformer as Transformer
    from .node import Node as Node
    from .node import has_side_effect as has_side_effect
    from .node import map_arg as map_arg
    from .patching import wrap as wrap
    from .proxy import Proxy as Proxy
    from .subgraph_rewriter import replace_pattern as replace_pattern
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES, _SUBMODULES)

"""`tt.func`: functions that transform functions (`torch.func`), and graphs of what a function computes."""

from .dispatch.functional.functionalize import functionalize
from .dispatch.functional.graph import Graph, Node
from .dispatch.functional.make_graph import Tracer, make_graph
from .dispatch.functional.traced import Traced

__all__ = ["Graph", "Node", "Traced", "Tracer", "functionalize", "make_graph"]

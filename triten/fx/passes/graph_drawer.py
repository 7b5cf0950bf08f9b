"""`FxGraphDrawer`: a graph as a picture, by the package `pydot` (torch/fx/passes/graph_drawer.py)."""

from __future__ import annotations

import hashlib
from typing import Any

from ..graph_module import GraphModule
from ..node import Node
from ..qualified_names import target_text
from .shape_prop import TensorMetadata

__all__ = ["FxGraphDrawer"]

_COLORS = {
    "placeholder": "AliceBlue",
    "get_attr": "LightGrey",
    "output": "PowderBlue",
}
_CALL_COLORS = (
    "CadetBlue1",
    "Coral",
    "DarkOliveGreen1",
    "DarkSeaGreen1",
    "GhostWhite",
    "Khaki1",
    "LavenderBlush1",
)
_SPECIAL = str.maketrans({each: f"\\{each}" for each in "{}<>|"})


class FxGraphDrawer:
    """Drawing of a module's graph, and of the graphs of its submodules.

    Args:
        graph_module: the module.
        name: The name of the drawing.
        ignore_getattr, ignore_parameters_and_buffers: The nodes to omit.
        skip_node_names_in_args: If True, arguments that are nodes are left out of the texts. Default: True.

    Raises:
        RuntimeError: the package `pydot` is not installed.

    Source: torch.fx.passes.graph_drawer.FxGraphDrawer.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
    ) -> None:
        try:
            import pydot
        except ImportError:
            raise RuntimeError(
                "FXGraphDrawer requires the pydot package to be installed. Please install pydot through your favorite "
                "Python package manager."
            ) from None
        self._pydot = pydot
        self._ignored = {"get_attr"} if ignore_getattr or ignore_parameters_and_buffers else set()
        self._skips_names = skip_node_names_in_args
        self._name = name
        self._graphs: dict[str, Any] = {name: self._drawn(graph_module, name)}
        for path, module in graph_module.named_modules():
            if path and isinstance(module, GraphModule):
                self._graphs[f"{name}_{path}"] = self._drawn(module, f"{name}_{path}")

    def get_dot_graph(self, submod_name: str | None = None) -> Any:
        """Return the drawing of the module, or of a submodule by its dotted name."""
        return self.get_main_dot_graph() if submod_name is None else self.get_submod_dot_graph(submod_name)

    def get_main_dot_graph(self) -> Any:
        """Return the drawing of the module."""
        return self._graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> Any:
        """Return the drawing of a submodule by its dotted name."""
        return self._graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, Any]:
        """Return all drawings by name."""
        return self._graphs

    def _drawn(self, module: GraphModule, name: str) -> Any:
        picture = self._pydot.Dot(name, rankdir="TB")
        shown = [node for node in module.graph.nodes if node.op not in self._ignored]
        for node in shown:
            picture.add_node(
                self._pydot.Node(
                    node.name,
                    label=self._label(module, node),
                    shape="record",
                    style='"filled,rounded"',
                    fillcolor=_color_of(node),
                    fontcolor="#000000",
                )
            )
        for node in shown:
            for input_node in node.all_input_nodes:
                if input_node.op not in self._ignored:
                    picture.add_edge(self._pydot.Edge(input_node.name, node.name))
        return picture

    def _label(self, module: GraphModule, node: Node) -> str:
        lines = [f"name=%{node.name}", f"op_code={node.op}", f"target={target_text(node.target)}"]
        if node.op == "call_module":
            called = module.get_submodule(node.target)
            constants = getattr(called, "__constants__", ())
            lines += [type(called).__name__, *(f"{each}: {getattr(called, each)}" for each in constants)]
        elif node.op not in ("placeholder", "get_attr", "output"):
            for field, members in (("args", node.args), ("kwargs", node.kwargs)):
                values = members.items() if isinstance(members, dict) else enumerate(members)
                entries = [
                    f"{key}: {value}"
                    for key, value in values
                    if not (self._skips_names and isinstance(value, Node))
                ]
                if entries:
                    lines.append(f"{field}=({', '.join(entries)})")
        lines.append(f"num_users={len(node.users)}")
        meta = node.meta.get("tensor_meta")
        if isinstance(meta, TensorMetadata):
            lines += [f"dtype={meta.dtype}", f"shape={tuple(meta.shape)}", f"stride={meta.stride}"]
        return "{" + "|".join(line.translate(_SPECIAL) for line in lines) + "}"


def _color_of(node: Node) -> str:
    """Return a color that depends only on the target, in every process."""
    fixed = _COLORS.get(node.op)
    if fixed is not None:
        return fixed
    number = int(hashlib.md5(target_text(node.target).encode(), usedforsecurity=False).hexdigest()[:8], 16)
    return _CALL_COLORS[number % len(_CALL_COLORS)]

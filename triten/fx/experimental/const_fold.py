"""Constant folding: a graph's steps that use only attributes run once (torch/fx/experimental/const_fold.py)."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

from ... import nn
from ...dispatch.tensor import Tensor
from .._symbolic_trace import symbolic_trace
from ..graph import Graph
from ..graph_module import GraphModule, _get_attr
from ..node import Node

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(GraphModule):
    """A `GraphModule` whose constants are computed by another graph, once, before the first call.

    Args:
        root: The holder of the graphs' attributes, as in `GraphModule`.
        graph: The steps of each call.
        const_subgraph: The steps that compute the constants. Default: None.
        fx_const_folded_attrs_name: The attribute that gets the constant, or an `nn.ParameterList` of several. Default:
            None.
        device_for_folded_attrs: PyTorch's device for Python numbers. Numbers remain numbers here.

    Attributes:
        const_subgraph_module: The module of the constants, or None.
        has_folding_been_run: Whether the constants have been computed.

    Source: torch.fx.experimental.const_fold.FoldedGraphModule.
    """

    def __init__(
        self,
        root: nn.Module | dict[str, Any],
        graph: Graph,
        const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None,
        device_for_folded_attrs: str = "cuda",
    ) -> None:
        super().__init__(root, graph)
        self.const_subgraph_module = None if const_subgraph is None else GraphModule(root, const_subgraph)
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self) -> None:
        """Compute the constants; a second call raises AssertionError."""
        name = self.fx_const_folded_attrs_name
        if self.const_subgraph_module is None or name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("run_folding(): the constants have been computed already")
        self.has_folding_been_run = True
        constants = self.const_subgraph_module()
        delattr(self, name)
        if isinstance(constants, tuple):
            setattr(self, name, nn.ParameterList(map(_stored, constants)))
        else:
            setattr(self, name, _stored(constants))


def _stored(value: Any) -> Any:
    """Return a tensor as a parameter with memory of its own, and another value as it is."""
    return nn.Parameter(value.detach().clone(), value.requires_grad) if isinstance(value, Tensor) else value


def get_unique_attr_name_in_module(mod_traced: nn.Module, name: str) -> str:
    """Return an identifier like `name` that the module has no attribute of.

    Example:
        >>> import triten as tt
        >>> from triten.fx.experimental.const_fold import get_unique_attr_name_in_module
        >>> get_unique_attr_name_in_module(tt.nn.Linear(1, 1), "weight"), get_unique_attr_name_in_module(
        ...     tt.nn.Linear(1, 1), "0.a")
        ('weight_1', '_0_a')
    """
    name = re.sub(r"\W", "_", name, flags=re.ASCII)
    if name[0].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        numbered = re.fullmatch(r"(.*)_(\d+)", name)
        name = f"{numbered[1]}_{int(numbered[2]) + 1}" if numbered else f"{name}_1"
    return name


def split_const_subgraphs(
    module: nn.Module,
    skip_folding_node_fn: Callable[[Node], bool] | None = None,
    device_for_folded_attrs: str = "cpu",
) -> FoldedGraphModule:
    """Return a module that computes steps without inputs once (`torch.fx.experimental.const_fold`).

    A step is folded if it uses only attributes and folded steps, and has no side effects.

    Args:
        module: The module, which is traced unless it is a `GraphModule`.
        skip_folding_node_fn: A function that returns True for steps to keep. Default: None.
        device_for_folded_attrs: PyTorch's device for Python numbers. Numbers remain numbers here.

    Example:
        >>> import triten as tt
        >>> from triten.fx.experimental.const_fold import split_const_subgraphs
        >>> class Scaled(tt.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.scale = tt.nn.Parameter(tt.tensor(4.0))
        ...     def forward(self, x):
        ...         return x * self.scale.sqrt()
        >>> folded = split_const_subgraphs(Scaled())
        >>> folded(tt.tensor([3.0])).tolist(), [node.target for node in folded.graph.nodes if node.op == "get_attr"]
        ([6.0], ['_FX_CONST_FOLDED_ATTRS'])
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    skip = skip_folding_node_fn or (lambda node: False)
    constant: set[Node] = set()
    for node in traced.graph.nodes:
        if (
            (node.op == "get_attr" or constant.issuperset(node.all_input_nodes))
            and not node.is_impure()
            and not _calls_impure_graph(traced, node)
            and not skip(node)
        ):
            constant.add(node)
    if all(node.op == "get_attr" for node in constant):
        return FoldedGraphModule(traced, traced.graph)

    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    main, const = Graph(), Graph()
    main._codegen = traced.graph._codegen
    computed: dict[Node, Node] = {}
    results = [
        node
        for node in traced.graph.nodes
        if node in constant and node.op != "get_attr" and not constant.issuperset(node.users)
    ]
    for node in traced.graph.nodes:
        if node in constant and (node.op != "get_attr" or not constant.isdisjoint(node.users)):
            computed[node] = const.node_copy(node, computed.__getitem__)
    const.output(computed[results[0]] if len(results) == 1 else tuple(computed[node] for node in results))

    made: dict[Node, Node] = {}
    stored: Node | None = None
    for node in traced.graph.nodes:
        if node not in constant or (node.op == "get_attr" and not constant.issuperset(node.users)):
            made[node] = main.node_copy(node, made.__getitem__)
        elif node in results:
            if stored is None:
                stored = main.get_attr(name)
            made[node] = (
                stored
                if len(results) == 1
                else main.call_function(operator.getitem, (stored, results.index(node)))
            )
            made[node].meta = node.meta.copy()
    values: dict[str, Any] = {
        node.target: _get_attr(traced, node.target)
        for graph in (main, const)
        for node in graph.nodes
        if node.op in ("get_attr", "call_module") and node.target != name
    }
    values[name] = nn.ParameterList() if len(results) > 1 else nn.Parameter()
    folded = FoldedGraphModule(values, main, const, name, device_for_folded_attrs)
    return folded.train(traced.training) if folded.training != traced.training else folded


def _calls_impure_graph(module: GraphModule, node: Node) -> bool:
    """Return whether a node calls a module with a graph that has side effects."""
    called = module.get_submodule(node.target) if node.op == "call_module" else None
    return isinstance(called, GraphModule) and any(
        each.is_impure() if each.op == "call_function" else _calls_impure_graph(called, each)
        for each in called.graph.nodes
    )

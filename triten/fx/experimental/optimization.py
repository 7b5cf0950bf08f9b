"""Optimization of networks for inference by graph rewriting (torch/fx/experimental/optimization.py)."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from ... import nn
from ...nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from .._symbolic_trace import Tracer, symbolic_trace
from ..graph import Graph
from ..graph_module import GraphModule
from ..interpreter import Transformer
from ..node import Argument, Node, Target

__all__ = [
    "extract_subgraph",
    "fuse",
    "matches_module_pattern",
    "optimize_for_inference",
    "remove_dropout",
    "replace_node_module",
]


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: Mapping[str, nn.Module]) -> bool:
    """Return whether a node calls a module of the second class on the result of a module of the first class.

    Args:
        pattern: The two classes; subclasses do not match.
        node: The second call.
        modules: The modules by their dotted names.
    """
    if not node.args:
        return False
    return all(
        isinstance(each, Node)
        and each.op == "call_module"
        and each.target in modules
        and type(modules[each.target]) is expected
        for expected, each in zip(pattern, (node.args[0], node), strict=True)
    )


def replace_node_module(node: Node, modules: dict[str, nn.Module], new_module: nn.Module) -> None:
    """Replace the module that a node calls.

    Args:
        node: The call.
        modules: The modules by their dotted names, updated too.
        new_module: The replacement.
    """
    parent, _, name = node.target.rpartition(".")
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> nn.Module:
    """Fold batch norms into the convolutions or linear layers before them (`torch.fx.experimental.optimization.fuse`).

    Args:
        model: in evaluation mode.
        inplace: If True, modules are changed instead of copied. Default: False.
        no_trace: If True, a `GraphModule` is taken as it is, rather than traced again. Default: False.

    Returns:
        a module that gives what `model` gives, with fewer layers.

    Example:
        >>> import triten as tt
        >>> from triten.fx.experimental.optimization import fuse
        >>> model = tt.nn.Sequential(tt.nn.Conv2d(1, 2, 3), tt.nn.BatchNorm2d(2), tt.nn.ReLU()).eval()
        >>> [node.target for node in fuse(model).graph.nodes]
        ['input', '0', '2', 'output']
    """
    if not inplace:
        model = copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    patterns: dict[tuple[type, type], Any] = {
        (nn.Conv1d, nn.BatchNorm1d): fuse_conv_bn_eval,
        (nn.Conv2d, nn.BatchNorm2d): fuse_conv_bn_eval,
        (nn.Conv3d, nn.BatchNorm3d): fuse_conv_bn_eval,
        (nn.Linear, nn.BatchNorm1d): fuse_linear_bn_eval,
    }
    for pattern, fused in patterns.items():
        for node in graph.nodes:
            if not matches_module_pattern(pattern, node, modules):
                continue
            layer, norm = node.args[0], modules[node.target]
            if len(layer.users) > 1 or not norm.track_running_stats:
                continue
            replace_node_module(layer, modules, fused(modules[layer.target], norm))
            node.replace_all_uses_with(layer)
            graph.erase_node(node)
    return GraphModule(traced, graph)


class _DropoutRemover(Transformer):
    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(self.submodules[str(target)], nn.Dropout):
            return args[0]
        return super().call_module(target, args, kwargs)


def remove_dropout(model: nn.Module) -> nn.Module:
    """Remove the dropout layers of a module; the result shares everything else with it.

    Example:
        >>> import triten as tt
        >>> from triten.fx.experimental.optimization import remove_dropout
        >>> model = tt.nn.Sequential(tt.nn.Linear(2, 2), tt.nn.Dropout(), tt.nn.ReLU())
        >>> [node.target for node in remove_dropout(model).graph.nodes]
        ['input', '0', '2', 'output']
    """
    return _DropoutRemover(symbolic_trace(model)).transform()


def optimize_for_inference(
    model: nn.Module,
    pass_config: Mapping[str, Any] | None = None,
    tracer: type[Tracer] = Tracer,
) -> nn.Module:
    """Fuse batch norms and remove dropout (`torch.fx.experimental.optimization.optimize_for_inference`).

    Args:
        model: A module in evaluation mode. It stays as it is.
        pass_config: Which passes to run: ``conv_bn_fuse`` and ``remove_dropout`` are bools. Default: all.
            ``mkldnn_layout_optimize`` has no effect, as tensors have no MKLDNN layout here.
        tracer: The class of the tracer. Default: `Tracer`.

    Raises:
        ValueError: A pass is not known.

    Example:
        >>> import triten as tt
        >>> from triten.fx.experimental.optimization import optimize_for_inference
        >>> model = tt.nn.Sequential(tt.nn.Conv1d(1, 2, 3), tt.nn.BatchNorm1d(2), tt.nn.Dropout()).eval()
        >>> [node.target for node in optimize_for_inference(model).graph.nodes]
        ['input', '0', 'output']
    """
    config = {"conv_bn_fuse": True, "remove_dropout": True, "mkldnn_layout_optimize": None}
    if unknown := set(pass_config or ()) - config.keys():
        raise ValueError(
            f"optimize_for_inference(): unknown passes {sorted(unknown)}, expected {list(config)}"
        )
    config.update(pass_config or {})
    traced: nn.Module = GraphModule(model, tracer().trace(model))
    if config["conv_bn_fuse"]:
        traced = fuse(traced, no_trace=True)
    return remove_dropout(traced) if config["remove_dropout"] else traced


def extract_subgraph(
    orig_module: nn.Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]
) -> GraphModule:
    """Extract some nodes of a graph as a module.

    Args:
        orig_module: The module that holds the nodes' targets.
        nodes: The nodes, in order.
        inputs: The nodes from outside whose values they use.
        outputs: The nodes whose values the module returns, as a list.
    """
    graph = Graph()
    made = {node: graph.placeholder(node.name) for node in inputs}
    for node in nodes:
        made[node] = graph.node_copy(node, made.__getitem__)
    graph.output([made[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)

"""Merging of matmuls with one right operand (torch/fx/experimental/merge_matmul.py)."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

from ... import nn
from ...dispatch.generated import functions as _ops
from ...dispatch.tensor import Tensor
from .._symbolic_trace import symbolic_trace
from ..graph_module import GraphModule
from ..node import Node
from ..passes.tools_common import legalize_graph

__all__ = ["are_nodes_independent", "may_depend_on", "merge_matmul", "split_result_tensors"]


def split_result_tensors(result: Tensor, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    """Split the rows of a merged matmul's result by the numbers of rows of its inputs.

    Args:
        result: The result, of shape (sum of the rows, ...).
        inputs: The left operands that were concatenated.
    """
    return _ops.split(result, [each.shape[0] for each in inputs], dim=0)


def may_depend_on(a: Node, b: Node, search_depth: int = 6) -> bool:
    """Return whether a node may use another one's value, directly or through others.

    Args:
        a: The user.
        b: The node whose value may be used.
        search_depth: The longest path to follow. A longer path counts as a use. Default: 6.
    """
    if a is b:
        return True
    if not a.all_input_nodes:
        return False
    if search_depth == 0:
        return True
    return any(may_depend_on(each, b, search_depth - 1) for each in a.all_input_nodes)


def are_nodes_independent(nodes: Sequence[Node]) -> bool:
    """Return whether none of the nodes may use the value of another (`may_depend_on`)."""
    return not any(may_depend_on(a, b) or may_depend_on(b, a) for a, b in itertools.combinations(nodes, 2))


def merge_matmul(in_mod: nn.Module) -> GraphModule:
    """Trace a module, and merge its matmuls that have the same right operand into one.

    The left operands are concatenated and the result is split, so they must be matrices.

    Args:
        in_mod: The module, which calls `tt.matmul`.

    Source: torch.fx.experimental.merge_matmul.merge_matmul.

    Example:
        >>> import triten as tt
        >>> from triten.fx.experimental.merge_matmul import merge_matmul
        >>> class Both(tt.nn.Module):
        ...     def forward(self, a, b, w):
        ...         return tt.matmul(a, w), tt.matmul(b, w)
        >>> merged = merge_matmul(Both())
        >>> sum(node.target is tt.matmul for node in merged.graph.nodes)
        1
        >>> [each.shape for each in merged(tt.ones(2, 3), tt.ones(4, 3), tt.ones(3, 5))]
        [triten.Size([2, 5]), triten.Size([4, 5])]
    """
    module = symbolic_trace(in_mod)
    graph = module.graph
    by_right: dict[Any, list[Node]] = {}
    for node in graph.find_nodes(op="call_function", target=_ops.matmul):
        right = node.args[1] if len(node.args) > 1 else node.kwargs["other"]
        by_right.setdefault(right.target if right.op == "get_attr" else right, []).append(node)
    for matmuls in by_right.values():
        if len(matmuls) < 2 or not are_nodes_independent(matmuls):
            continue
        operands = [
            (*node.args, *(node.kwargs[name] for name in ("input", "other") if name in node.kwargs))
            for node in matmuls
        ]
        lefts = [left for left, _ in operands]
        # The new nodes may be needed by nodes before the last operand, so the graph is sorted afterwards.
        together = graph.call_function(_ops.cat, (lefts,))
        product = graph.call_function(_ops.matmul, (together, operands[0][1]))
        parts = graph.call_function(split_result_tensors, (product, lefts))
        for position, node in enumerate(matmuls):
            node.replace_all_uses_with(graph.call_function(operator.getitem, (parts, position)))
            graph.erase_node(node)
    legalize_graph(module)
    module.graph.lint()
    return module

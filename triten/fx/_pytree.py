"""Arguments taken apart as a tracer took them apart: what generated code calls (torch/fx/_pytree.py)."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any

from ..dispatch.layers.pytree import TreeSpec


def tree_flatten_spec(tree: Any, spec: TreeSpec) -> list[Any]:
    """Flatten a tree down to the leaves of `spec`; the tree itself may be deeper.

    Example:
        >>> from triten.dispatch.layers.pytree import tree_structure
        >>> from triten.fx._pytree import tree_flatten_spec
        >>> tree_flatten_spec([{"a": [1, 2]}, 3], tree_structure([{"a": 0}, 0]))
        [[1, 2], 3]
    """
    if spec.type is None:
        return [tree]
    if spec.type in (dict, OrderedDict):
        children = [tree[key] for key in spec.context]
    elif spec.type is defaultdict:
        children = [tree[key] for key in spec.context[1]]
    else:
        children = [tree[index] for index in range(spec.num_children)]
    leaves: list[Any] = []
    for child, each in zip(children, spec.children(), strict=True):
        leaves += tree_flatten_spec(child, each)
    return leaves

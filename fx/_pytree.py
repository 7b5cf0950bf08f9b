"""Arguments taken apart as a tracer took them apart: what generated code calls (torch/fx/_pytree.py)."""

from __future__ import annotations

from typing import Any

from ..dispatch.layers.pytree import TreeSpec


def tree_flatten_spec(tree: Any, spec: TreeSpec) -> list[Any]:
    """The leaves of a tree at the places where `spec` has leaves, where the tree itself may go deeper.

    Example:
        >>> from triten.dispatch.layers.pytree import tree_structure
        >>> from triten.fx._pytree import tree_flatten_spec
        >>> tree_flatten_spec([{"a": [1, 2]}, 3], tree_structure([{"a": 0}, 0]))
        [[1, 2], 3]
    """
    return spec.flatten_up_to(tree)

"""Arguments taken apart as a tracer took them apart: what generated code calls (torch/fx/_pytree.py)."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable, Sequence
from typing import Any

from ..dispatch.layers.pytree import TreeSpec, tree_flatten
from .immutable_collections import immutable_dict, immutable_list

FlattenFnSpec = Callable[[Any, TreeSpec], Sequence[Any]]
FlattenFnExactMatchSpec = Callable[[Any, TreeSpec], bool]

SUPPORTED_NODES: dict[Any, FlattenFnSpec] = {}
"""For a class, the function that takes its objects apart as a spec does."""

SUPPORTED_NODES_EXACT_MATCH: dict[Any, FlattenFnExactMatchSpec | None] = {}
"""For a class, the function that returns whether an object has exactly the children of a spec."""


def register_pytree_flatten_spec(
    cls: Any,
    flatten_fn_spec: FlattenFnSpec,
    flatten_fn_exact_match_spec: FlattenFnExactMatchSpec | None = None,
) -> None:
    """Have `tree_flatten_spec` take objects of a class apart with a function.

    Args:
        cls: The class, which must be a pytree node.
        flatten_fn_spec: A function of an object and a spec that returns the children in the spec's order.
        flatten_fn_exact_match_spec: A function of both that returns whether the object has no other children.

    Source: torch.fx._pytree.register_pytree_flatten_spec.

    Example:
        >>> from triten.dispatch.layers.pytree import register_pytree_node, tree_structure
        >>> from triten.fx._pytree import register_pytree_flatten_spec, tree_flatten_spec
        >>> class Pair:
        ...     def __init__(self, a, b):
        ...         self.a, self.b = a, b
        >>> register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda children, _: Pair(*children))
        >>> register_pytree_flatten_spec(Pair, lambda pair, spec: [pair.a, pair.b])
        >>> tree_flatten_spec(Pair([1], 2), tree_structure(Pair(0, 0)))
        [[1], 2]
    """
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def _deregister_pytree_flatten_spec(cls: Any) -> None:
    del SUPPORTED_NODES[cls], SUPPORTED_NODES_EXACT_MATCH[cls]


def tree_flatten_spec(tree: Any, spec: TreeSpec) -> list[Any]:
    """Flatten a tree down to the leaves of `spec`; the tree itself may be deeper.

    Raises:
        RuntimeError: An object of a class without a registered function has another structure than the spec.

    Example:
        >>> from triten.dispatch.layers.pytree import tree_structure
        >>> from triten.fx._pytree import tree_flatten_spec
        >>> tree_flatten_spec([{"a": [1, 2]}, 3], tree_structure([{"a": 0}, 0]))
        [[1, 2], 3]
    """
    if spec.type is None:
        return [tree]
    children_of = SUPPORTED_NODES.get(spec.type)
    if children_of is None:
        leaves, structure = tree_flatten(tree)
        if structure != spec:
            raise RuntimeError(
                f"tree_flatten_spec(): {tree!r} has the structure {structure}, expected {spec}. Register "
                f"{spec.type.__name__} with register_pytree_flatten_spec to accept deeper trees."
            )
        return leaves
    children = children_of(tree, spec)
    return [
        leaf
        for child, each in zip(children, spec.children(), strict=True)
        for leaf in tree_flatten_spec(child, each)
    ]


def _elements(tree: Any, spec: TreeSpec) -> list[Any]:
    # A tree may be a proxy, which has elements and cannot be iterated over.
    return [tree[index] for index in range(spec.num_children)]


def _has_as_many(tree: Any, spec: TreeSpec) -> bool:
    return len(tree) == spec.num_children


for _sequence in (list, tuple, namedtuple, immutable_list):
    register_pytree_flatten_spec(_sequence, _elements, _has_as_many)
for _mapping in (dict, OrderedDict, immutable_dict):
    register_pytree_flatten_spec(
        _mapping, lambda tree, spec: [tree[key] for key in spec.context], _has_as_many
    )
register_pytree_flatten_spec(
    defaultdict, lambda tree, spec: [tree[key] for key in spec.context[1]], _has_as_many
)

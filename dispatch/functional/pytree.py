"""Pytrees: nested containers and their leaves (torch/utils/_pytree.py).

Tuples, lists, dicts and named tuples are nodes; everything else, None included, is a leaf.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from typing import Any


class TreeSpec:
    """The structure of a tree without its leaves: equal for trees that differ in leaves alone.

    `kind` is the container's class, None for a leaf; `context` what rebuilding it takes beside the children.
    """

    __slots__ = ("children", "context", "kind", "num_leaves")

    num_leaves: int

    def __init__(self, kind: type | None, context: Any, children: Sequence[TreeSpec]) -> None:
        self.kind = kind
        self.context = context
        self.children = tuple(children)
        self.num_leaves = 1 if kind is None else sum(child.num_leaves for child in self.children)

    def is_leaf(self) -> bool:
        """Whether the tree is a leaf."""
        return self.kind is None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return self.kind is other.kind and self.context == other.context and self.children == other.children

    def __hash__(self) -> int:
        return hash((self.kind, self.num_leaves))

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        return f"TreeSpec({self.kind.__name__}, {self.context}, [{', '.join(map(repr, self.children))}])"


_LEAF = TreeSpec(None, None, ())


def is_namedtuple(tree: Any) -> bool:
    """Whether a value is an instance of a named tuple's class."""
    return isinstance(tree, tuple) and hasattr(tree, "_fields")


def children_of(tree: Any) -> tuple[type | None, Any, list[Any]]:
    """A node's class (None for a leaf), the context that it is rebuilt with, and its children in order."""
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind, None, list(tree)
    if kind is dict or kind is OrderedDict:
        return kind, list(tree), list(tree.values())
    if kind is defaultdict:
        return kind, (tree.default_factory, list(tree)), list(tree.values())
    if is_namedtuple(tree):
        return kind, kind, list(tree)
    return None, None, []


def tree_flatten(tree: Any) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, in order, and its structure.

    Example:
        >>> from triten.dispatch.functional.pytree import tree_flatten, tree_unflatten
        >>> leaves, spec = tree_flatten({"a": (1, 2), "b": [3]})
        >>> leaves, tree_unflatten([10, 20, 30], spec)
        ([1, 2, 3], {'a': (10, 20), 'b': [30]})
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> TreeSpec:
    kind, context, children = children_of(tree)
    if kind is None:
        leaves.append(tree)
        return _LEAF
    return TreeSpec(kind, context, [_flatten(child, leaves) for child in children])


def tree_unflatten(leaves: Sequence[Any], spec: TreeSpec) -> Any:
    """The tree of this structure with these leaves. Raises ValueError for another number of leaves."""
    if len(leaves) != spec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(leaves)} but the spec refers to a pytree "
            f"that holds {spec.num_leaves} items ({spec})."
        )
    return _unflatten(iter(leaves), spec)


def _unflatten(leaves: Any, spec: TreeSpec) -> Any:
    kind = spec.kind
    if kind is None:
        return next(leaves)
    children = [_unflatten(leaves, child) for child in spec.children]
    if kind is dict or kind is OrderedDict:
        return kind(zip(spec.context, children, strict=True))
    if kind is defaultdict:
        factory, keys = spec.context
        return defaultdict(factory, zip(keys, children, strict=True))
    if spec.context is kind:
        return kind(*children)
    return kind(children)


def tree_map(fn: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with `fn` applied to each leaf.

    Example:
        >>> from triten.dispatch.functional.pytree import tree_map
        >>> tree_map(lambda leaf: leaf + 1, [1, (2, {"x": 3})])
        [2, (3, {'x': 4})]
    """
    leaves, spec = tree_flatten(tree)
    return tree_unflatten([fn(leaf) for leaf in leaves], spec)

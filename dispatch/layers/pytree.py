"""Trees of Python containers: flattened to their leaves and built again (torch/utils/_pytree.py).

A node is a tuple, a list, a named tuple, a dict, an OrderedDict or a defaultdict; everything else is a leaf, None
and subclasses such as `tt.Size` included.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from ..structured import result_types


class TreeSpec(NamedTuple):
    """A tree without its leaves.

    `type` is the container's class, None for a leaf; `context` what its class needs beside the children: the keys of
    a dict, and the factory of a defaultdict.
    """

    type: type | None
    context: Any
    children: tuple[TreeSpec, ...]

    @property
    def num_leaves(self) -> int:
        """How many leaves the tree has."""
        return 1 if self.type is None else sum(child.num_leaves for child in self.children)

    def is_leaf(self) -> bool:
        """Whether the tree is one leaf."""
        return self.type is None

    def __reduce__(self) -> tuple[Any, ...]:
        fields: Any = self.type
        if fields is not None and _is_named_tuple(fields) and fields.__module__ == result_types.MODULE:
            # Classes of operators' results are made as they are needed, and found by their fields.
            return _of_results, (fields.__name__, fields._fields, self.children)
        return TreeSpec, tuple(self)

    def __str__(self) -> str:
        return _text(self)


def _of_results(base: str, names: tuple[str, ...], children: tuple[TreeSpec, ...]) -> TreeSpec:
    return TreeSpec(result_types.named_results(base, names), None, children)


LEAF: Final = TreeSpec(None, None, ())


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and cls is not tuple and hasattr(cls, "_fields") and hasattr(cls, "_make")


def _opened(tree: Any) -> tuple[Any, Iterable[Any]] | None:
    """A container's context and children; None for a leaf."""
    cls = tree.__class__
    if cls is tuple or cls is list:
        return None, tree
    if cls is dict or cls is OrderedDict:
        return tuple(tree), tree.values()
    if cls is defaultdict:
        return (tree.default_factory, tuple(tree)), tree.values()
    return (None, tree) if _is_named_tuple(cls) else None


def children_of(tree: Any) -> tuple[type | None, Any, list[Any]]:
    """A node's class (None for a leaf), the context that it is rebuilt with, and its children in order."""
    opened = _opened(tree)
    return (None, None, []) if opened is None else (tree.__class__, opened[0], list(opened[1]))


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, in order, and what is needed to build it again.

    Args:
        tree: any nesting of containers.
        is_leaf: keeps whole the containers for which it answers true.

    Example:
        >>> from triten.dispatch.layers.pytree import tree_flatten, tree_unflatten
        >>> leaves, spec = tree_flatten({"a": (1, 2), "b": [3]})
        >>> leaves
        [1, 2, 3]
        >>> tree_unflatten([10, 20, 30], spec)
        {'a': (10, 20), 'b': [30]}
    """
    leaves: list[Any] = []
    return leaves, _flatten_into(tree, leaves, is_leaf)


def _flatten_into(tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None) -> TreeSpec:
    opened = None if is_leaf is not None and is_leaf(tree) else _opened(tree)
    if opened is None:
        leaves.append(tree)
        return LEAF
    context, children = opened
    return TreeSpec(
        tree.__class__, context, tuple([_flatten_into(child, leaves, is_leaf) for child in children])
    )


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of these leaves. Raises ValueError for another number of them than it has, TypeError for no spec."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"tree_unflatten(leaves, treespec): expected treespec to be a TreeSpec, not {type(treespec).__name__}"
        )
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): leaves has length {len(given)} but the spec refers to a pytree that "
            f"holds {treespec.num_leaves} items ({treespec})"
        )
    return _built(iter(given), treespec)


def _built(leaves: Any, spec: TreeSpec) -> Any:
    cls: Any = spec.type
    if cls is None:
        return next(leaves)
    children = [_built(leaves, child) for child in spec.children]
    if cls is list:
        return children
    if cls is tuple:
        return tuple(children)
    if cls is defaultdict:
        factory, keys = spec.context
        return defaultdict(factory, zip(keys, children, strict=True))
    if cls is dict or cls is OrderedDict:
        return cls(zip(spec.context, children, strict=True))
    return cls._make(children)


def tree_map(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """The tree whose leaves are `func` of a tree's leaves, and of those at the same places in `rests`.

    Raises ValueError where the trees differ in structure.

    Example:
        >>> from triten.dispatch.layers.pytree import tree_map
        >>> tree_map(lambda a, b: a + b, {"x": 1, "y": (2,)}, {"x": 10, "y": (20,)})
        {'x': 11, 'y': (22,)}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves]
    for rest in rests:
        others, other = tree_flatten(rest, is_leaf)
        if other != spec:
            raise ValueError(f"tree_map(): the trees differ in structure: {spec} and {other}")
        columns.append(others)
    return _built(iter([func(*row) for row in zip(*columns, strict=True)]), spec)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a tree, in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The tree without its leaves."""
    return tree_flatten(tree, is_leaf)[1]


def _text(spec: TreeSpec) -> str:
    """The structure as Python writes it, leaves as ``*``."""
    if spec.type is None:
        return "*"
    children: Sequence[str] = [_text(child) for child in spec.children]
    if spec.type is list:
        return f"[{', '.join(children)}]"
    if spec.type is tuple:
        return f"({', '.join(children)}{',' if len(children) == 1 else ''})"
    if _is_named_tuple(spec.type):
        fields: Any = spec.type
        named = ", ".join(f"{name}={child}" for name, child in zip(fields._fields, children, strict=True))
        return f"{spec.type.__name__}({named})"
    keys = spec.context[1] if spec.type is defaultdict else spec.context
    inner = "{" + ", ".join(f"{key!r}: {child}" for key, child in zip(keys, children, strict=True)) + "}"
    return inner if spec.type is dict else f"{spec.type.__name__}({inner})"

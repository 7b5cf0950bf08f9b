"""Trees of Python containers: flattened to their leaves and built again (torch/utils/_pytree.py).

A node is a tuple, a list, a named tuple, a dict, an OrderedDict, a defaultdict, a deque, or of a class that somebody
has registered (`register_node`); everything else is a leaf, None and subclasses such as `tt.Size` included. The public
names are in `triten.utils._pytree`.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from ..core import result_types


class NodeType(NamedTuple):
    """How a registered class comes apart and together.

    `flatten` gives the children and what `unflatten` needs beside them; `flatten_with_keys` pairs of a key and a child,
    and the same.
    """

    flatten: Callable[[Any], tuple[Iterable[Any], Any]]
    unflatten: Callable[[Iterable[Any], Any], Any]
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None


registered: dict[type, NodeType] = {}
"""Classes of nodes beside Python's own."""

_DICTS = (dict, OrderedDict, defaultdict)


def register_node(cls: type, node_type: NodeType) -> None:
    """Make the instances of a class nodes. Raises ValueError for one that is a node already."""
    if cls in registered or cls in (tuple, list, deque, *_DICTS):
        raise ValueError(f"{cls} is already registered as pytree node.")
    registered[cls] = node_type


class TreeSpec(NamedTuple):
    """A tree without its leaves.

    `type` is the container's class, None for a leaf; `context` what its class needs beside the children: the keys of
    a dict, the factory of a defaultdict, the length of a deque, or what a registered class gave.
    """

    type: type | None
    context: Any
    children_specs: tuple[TreeSpec, ...]

    @property
    def num_leaves(self) -> int:
        """How many leaves the tree has."""
        return 1 if self.type is None else sum(child.num_leaves for child in self.children_specs)

    @property
    def num_nodes(self) -> int:
        """How many nodes and leaves the tree has."""
        return 1 + sum(child.num_nodes for child in self.children_specs)

    @property
    def num_children(self) -> int:
        """How many children the outermost node has."""
        return len(self.children_specs)

    def is_leaf(self) -> bool:
        """Whether the tree is one leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The trees of the children."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """The tree of one child."""
        return self.children_specs[index]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of these leaves, as `tree_unflatten`."""
        return tree_unflatten(leaves, self)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """What stands in another tree at the places of this one's leaves.

        Raises ValueError where the other tree has another node. Classes of dicts may differ, and the order of keys.

        Example:
            >>> from triten.dispatch.layers.pytree import tree_structure
            >>> tree_structure({"a": 0, "b": 0}).flatten_up_to({"b": [1, 2], "a": 3})
            [3, [1, 2]]
        """
        subtrees: list[Any] = []
        _flatten_up_to(self, tree, subtrees)
        return subtrees

    def __reduce__(self) -> tuple[Any, ...]:
        fields: Any = self.type
        if fields is not None and _is_named_tuple(fields) and fields.__module__ == result_types.MODULE:
            # Classes of operators' results are made as they are needed, and found by their fields.
            return _of_results, (fields.__name__, fields._fields, self.children_specs)
        return TreeSpec, tuple(self)

    def __str__(self) -> str:
        return _text(self)

    def __repr__(self, indent: int = 0) -> str:
        if self.type is None:
            return "*"
        gap = ",\n" + " " * (indent + 2)
        context = list(self.context) if self.type in (dict, OrderedDict) else self.context
        children = gap.join([child.__repr__(indent + 2) for child in self.children_specs])
        return f"TreeSpec({self.type.__name__}, {context}, [{children}])"


def _of_results(base: str, names: tuple[str, ...], children: tuple[TreeSpec, ...]) -> TreeSpec:
    return TreeSpec(result_types.named_results(base, names), None, children)


LEAF: Final = TreeSpec(None, None, ())


def _is_named_tuple(cls: type) -> bool:
    return (
        issubclass(cls, tuple)
        and cls is not tuple
        and cls is not TreeSpec
        and hasattr(cls, "_fields")
        and hasattr(cls, "_make")
    )


def _opened(tree: Any) -> tuple[Any, Iterable[Any]] | None:
    """A container's context and children; None for a leaf."""
    cls = tree.__class__
    if cls is tuple or cls is list:
        return None, tree
    if cls is dict or cls is OrderedDict:
        return tuple(tree), tree.values()
    if cls is defaultdict:
        return (tree.default_factory, tuple(tree)), tree.values()
    if cls is deque:
        return tree.maxlen, tree
    node_type = registered.get(cls)
    if node_type is not None:
        children, context = node_type.flatten(tree)
        return context, children
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
    children = [_built(leaves, child) for child in spec.children_specs]
    if cls is list:
        return children
    if cls in registered:
        return registered[cls].unflatten(children, spec.context)
    if cls is deque:
        return deque(children, maxlen=spec.context)
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

    Where the tree has a leaf, one in `rests` may have a tree, which `func` gets whole. Raises ValueError where they
    differ otherwise.

    Example:
        >>> from triten.dispatch.layers.pytree import tree_map
        >>> tree_map(lambda a, b: a + b, {"x": 1, "y": (2,)}, {"x": 10, "y": (20,)})
        {'x': 11, 'y': (22,)}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *[spec.flatten_up_to(rest) for rest in rests]]
    return _built(iter([func(*row) for row in zip(*columns, strict=True)]), spec)


def _flatten_up_to(spec: TreeSpec, tree: Any, subtrees: list[Any]) -> None:
    if spec.type is None:
        subtrees.append(tree)
        return
    cls = tree.__class__
    are_dicts = spec.type in _DICTS and cls in _DICTS
    opened = _opened(tree)
    if opened is None or (cls is not spec.type and not are_dicts):
        found = cls if opened is not None else None
        raise ValueError(f"Node type mismatch; expected {spec.type!r}, but got {found!r}.")
    context, children = opened[0], list(opened[1])
    if len(children) != len(spec.children_specs):
        raise ValueError(
            f"Node arity mismatch; expected {len(spec.children_specs)}, but got {len(children)}."
        )
    if are_dicts:
        expected = spec.context[1] if spec.type is defaultdict else spec.context
        missing, extra = [k for k in expected if k not in tree], [k for k in tree if k not in expected]
        if missing or extra:
            raise ValueError(f"Node keys mismatch; missing key(s): {missing}; extra key(s): {extra}.")
        children = [tree[key] for key in expected]
    elif spec.type is not deque and context != spec.context:
        raise ValueError(
            f"Node context mismatch for node type {spec.type!r}; expected {spec.context!r}, but got {context!r}."
        )
    for child, subtree in zip(spec.children_specs, children, strict=True):
        _flatten_up_to(child, subtree, subtrees)


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
    children: Sequence[str] = [_text(child) for child in spec.children_specs]
    if spec.type is list:
        return f"[{', '.join(children)}]"
    if spec.type is tuple:
        return f"({', '.join(children)}{',' if len(children) == 1 else ''})"
    if _is_named_tuple(spec.type):
        fields: Any = spec.type
        named = ", ".join(f"{name}={child}" for name, child in zip(fields._fields, children, strict=True))
        return f"{spec.type.__name__}({named})"
    if spec.type not in _DICTS:
        return f"{spec.type.__name__}({', '.join(children)})"
    keys = spec.context[1] if spec.type is defaultdict else spec.context
    inner = "{" + ", ".join(f"{key!r}: {child}" for key, child in zip(keys, children, strict=True)) + "}"
    return inner if spec.type is dict else f"{spec.type.__name__}({inner})"

"""Trees of Python containers, under PyTorch's path (`torch.utils._pytree`).

A tree is any nesting of nodes: tuples, lists, named tuples, dicts, OrderedDicts, defaultdicts, deques and instances of
registered classes. All else is a leaf. What functions of tensors take and return is flattened so by `tt.vmap`,
`tt.func` and `tt.func.make_graph` too: a class that is registered here is a node there.

PyTorch's names for specs as JSON (`treespec_dumps`, `treespec_loads`) serve `torch.export`, and are not here.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Any, TypeAlias

from ..dispatch.layers.pytree import (
    LEAF,
    NodeType,
    TreeSpec,
    register_node,
    registered,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)

__all__ = [
    "Context",
    "FlattenFn",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "LeafSpec",
    "MappingKey",
    "PyTree",
    "SequenceKey",
    "TreeSpec",
    "UnflattenFn",
    "arg_tree_leaves",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "key_get",
    "keystr",
    "map_only",
    "register_constant",
    "register_dataclass",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
    "treespec_dict",
    "treespec_leaf",
    "treespec_pprint",
    "treespec_tuple",
]

PyTree: TypeAlias = Any
Context: TypeAlias = Any
FlattenFn: TypeAlias = Callable[[Any], tuple[Iterable[Any], Any]]
UnflattenFn: TypeAlias = Callable[[Iterable[Any], Any], Any]
_Chosen: TypeAlias = type | tuple[type, ...] | UnionType | Callable[[Any], bool]
_IsLeaf: TypeAlias = Callable[[Any], bool] | None

_lock = threading.Lock()


class _LeafSpecs(type):
    """What is a leaf's spec is known by itself: there is one."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TreeSpec) and instance.is_leaf()


class LeafSpec(metaclass=_LeafSpecs):
    """The class of a leaf's spec. Calling it gives the one that there is."""

    def __new__(cls) -> TreeSpec:  # type: ignore[misc]
        return LEAF


def treespec_leaf() -> TreeSpec:
    """The spec of a leaf."""
    return LEAF


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The spec of a tuple of such trees. Raises ValueError for what is no spec."""
    children = tuple(iterable)
    if not all(isinstance(child, TreeSpec) for child in children):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {children!r}.")
    return TreeSpec(tuple, None, children)


def treespec_dict(
    mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (), /, **kwargs: TreeSpec
) -> TreeSpec:
    """The spec of a dict of such trees. Raises ValueError for what is no spec."""
    given = dict(mapping, **kwargs)
    if not all(isinstance(child, TreeSpec) for child in given.values()):
        raise ValueError(f"Expected a dictionary of TreeSpec values, got: {given!r}.")
    return TreeSpec(dict, tuple(given), tuple(given.values()))


class _Star:
    """A leaf's place."""

    def __repr__(self) -> str:
        return "*"


_STAR = _Star()


def treespec_pprint(treespec: TreeSpec) -> str:
    """A spec as the containers are written, with ``*`` for each leaf.

    Example:
        >>> from triten.utils._pytree import tree_structure, treespec_pprint
        >>> treespec_pprint(tree_structure({"a": [1, 2], "b": (3,)}))
        "{'a': [*, *], 'b': (*,)}"
    """
    return repr(tree_unflatten([_STAR] * treespec.num_leaves, treespec))


@dataclasses.dataclass(frozen=True, slots=True)
class SequenceKey:
    """The place of a child in a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Sequence[Any]) -> Any:
        """The child."""
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True, slots=True)
class MappingKey:
    """The key of a child in a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Mapping[Any, Any]) -> Any:
        """The child."""
        return mapping[self.key]


@dataclasses.dataclass(frozen=True, slots=True)
class GetAttrKey:
    """The name of a child among an object's attributes."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The child."""
        return getattr(obj, self.name)


KeyEntry: TypeAlias = Any
KeyPath: TypeAlias = tuple[KeyEntry, ...]


def keystr(kp: KeyPath) -> str:
    """A path as one would write it behind a tree's name: ``['a'][0].x``."""
    return "".join([str(key) for key in kp])


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What stands at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def register_pytree_node(
    cls: type,
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Make the instances of a class nodes, here and for `tt.vmap`, `tt.func` and graphs.

    Args:
        cls: the class; its subclasses are no nodes.
        flatten_fn: an instance to its children and a context, which is compared where structures are.
        unflatten_fn: children and context to an instance.
        serialized_type_name, to_dumpable_context, from_dumpable_context: for specs as JSON, which are not written here.
        flatten_with_keys_fn: an instance to pairs of a key and a child, and the context; for the functions with paths.

    Raises ValueError for a class that is a node already.

    Example:
        >>> from triten.utils import _pytree
        >>> class Pair:
        ...     def __init__(self, a, b):
        ...         self.a, self.b = a, b
        >>> _pytree.register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda c, _: Pair(*c))
        >>> _pytree.tree_map(lambda x: x + 1, Pair(1, [2])).b
        [3]
    """
    with _lock:
        register_node(cls, NodeType(flatten_fn, unflatten_fn, flatten_with_keys_fn))


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Make the instances of a dataclass nodes, whose children are its fields.

    Args:
        cls: a dataclass, or a class that is made from its fields by name; for that one `field_names` are needed.
        field_names: the fields that are children.
        drop_field_names: fields that are lost when a tree is taken apart.
        serialized_type_name: for specs as JSON, which are not written here.

    Raises ValueError for a class whose fields are unknown, or are not those of the dataclass.
    """
    dropped = drop_field_names or []
    fields = {f.name for f in dataclasses.fields(cls) if f.init} if dataclasses.is_dataclass(cls) else None
    if field_names is None:
        if fields is None:
            raise ValueError(f"field_names must be specified with a list of all fields of {cls}")
        names = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in dropped]
    else:
        names = list(field_names)
        if fields is not None and set(names) != fields - set(dropped):
            raise ValueError(
                f"register_dataclass(): field_names and drop_field_names must be all fields of {cls}: expected "
                f"{sorted(fields - set(dropped))}, got {sorted(names)}"
            )

    def flatten(value: Any) -> tuple[list[Any], Any]:
        present = [name for name in names if getattr(value, name, None) is not None]
        return [getattr(value, name) for name in present], (
            tuple(present),
            tuple([name for name in names if name not in present]),
        )

    def flatten_with_keys(value: Any) -> tuple[list[tuple[Any, Any]], Any]:
        children, context = flatten(value)
        return [(GetAttrKey(name), child) for name, child in zip(context[0], children, strict=True)], context

    def unflatten(children: Iterable[Any], context: Any) -> Any:
        present, absent = context
        return cls(**dict(zip(present, children, strict=True)), **dict.fromkeys(absent))

    register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=flatten_with_keys)


def register_constant(cls: type) -> None:
    """Make the instances of a class nodes without children: they belong to the structure.

    The class must define ``__eq__`` and ``__hash__``; raises TypeError otherwise.
    """
    own: Any = cls
    if own.__eq__ is object.__eq__ or own.__hash__ is None or own.__hash__ is object.__hash__:
        raise TypeError(
            f"register_constant(cls) expects `cls` to have `__eq__` and `__hash__` implementations, got {cls}"
        )
    register_pytree_node(
        cls,
        lambda value: ((), value),
        lambda _, value: value,
        flatten_with_keys_fn=lambda value: ((), value),
    )


def _deregister_pytree_node(cls: type) -> None:
    """Make the instances of a class leaves again. Raises ValueError for one that nobody registered."""
    with _lock:
        if cls not in registered:
            raise ValueError(f"{cls} is not registered as pytree node.")
        del registered[cls]


def is_namedtuple(obj: object) -> bool:
    """Whether this is a named tuple, or a class of such."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_class(cls: type) -> bool:
    """Whether this is a class of named tuples."""
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(fields, tuple)
        and all(type(field) is str for field in fields)
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple_instance(obj: object) -> bool:
    """Whether this is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_structseq(obj: object) -> bool:
    """Whether this is a struct sequence of CPython's, such as `time.struct_time`, or a class of such."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: type) -> bool:
    """Whether this is a class of CPython's struct sequences."""
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(
            isinstance(getattr(cls, f"n_{name}", None), int)
            for name in ("fields", "sequence_fields", "unnamed_fields")
        )
    )


def is_structseq_instance(obj: object) -> bool:
    """Whether this is a struct sequence of CPython's."""
    return is_structseq_class(type(obj))


def tree_is_leaf(tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    """Whether a tree is one leaf.

    Example:
        >>> from triten.utils._pytree import tree_is_leaf
        >>> tree_is_leaf(1), tree_is_leaf(None), tree_is_leaf([1]), tree_is_leaf([1], is_leaf=lambda x: True)
        (True, True, False, True)
    """
    if is_leaf is not None and is_leaf(tree):
        return True
    return tree_structure(tree, lambda part: part is not tree).is_leaf()


def tree_iter(tree: PyTree, is_leaf: _IsLeaf = None) -> Iterator[Any]:
    """The leaves of a tree one after another."""
    yield from tree_leaves(tree, is_leaf)


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of a call's arguments, positional ones first."""
    return [leaf for tree in (*args, *kwargs.values()) for leaf in tree_leaves(tree)]


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: _IsLeaf = None) -> PyTree:
    """Call `func` with the leaves at each place, as `tree_map`, and give back the first tree as it is."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for row in zip(leaves, *[spec.flatten_up_to(rest) for rest in rests], strict=True):
        func(*row)
    return tree


def _predicate(chosen: _Chosen) -> Callable[[Any], bool]:
    if isinstance(chosen, type | tuple | UnionType):
        return lambda value: isinstance(value, chosen)
    if callable(chosen):
        return chosen
    raise TypeError(f"Argument must be a type, a tuple of types, or a callable, got {type(chosen).__name__}")


def map_only(type_or_types_or_pred: _Chosen, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A decorator of functions of a leaf, that leaves alone what is of other types, or fails a predicate."""
    applies = _predicate(type_or_types_or_pred)

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda leaf: func(leaf) if applies(leaf) else leaf

    return decorate


def tree_map_only(
    type_or_types_or_pred: _Chosen, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: _IsLeaf = None
) -> PyTree:
    """`tree_map` of the leaves of some types alone, or for which a predicate holds.

    Example:
        >>> from triten.utils._pytree import tree_map_only
        >>> tree_map_only(int, lambda x: x + 1, [1, "a", (2.0, 3)])
        [2, 'a', (2.0, 4)]
    """
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: _Chosen, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: _IsLeaf = None
) -> PyTree:
    """`tree_map_` of the leaves of some types alone, or for which a predicate holds."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    """Whether a predicate holds for every leaf."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    """Whether a predicate holds for some leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: _Chosen, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None
) -> bool:
    """Whether a predicate holds for every leaf of some types."""
    applies = _predicate(type_or_types)
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if applies(leaf))


def tree_any_only(
    type_or_types: _Chosen, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None
) -> bool:
    """Whether a predicate holds for some leaf of some types."""
    applies = _predicate(type_or_types)
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if applies(leaf))


def _with_keys(tree: Any) -> list[tuple[KeyEntry, Any]] | None:
    """The children of a node with their keys; None for a leaf. Raises ValueError for a class registered without."""
    cls = type(tree)
    if cls in (tuple, list, deque):
        return [(SequenceKey(i), child) for i, child in enumerate(tree)]
    if cls in (dict, OrderedDict, defaultdict):
        return [(MappingKey(key), child) for key, child in tree.items()]
    node_type = registered.get(cls)
    if node_type is not None:
        if node_type.flatten_with_keys is None:
            raise ValueError(
                f"Did not find a flatten_with_keys_fn for type: {cls}. Please pass a flatten_with_keys_fn argument to "
                "register_pytree_node."
            )
        return list(node_type.flatten_with_keys(tree)[0])
    if tree_is_leaf(tree):
        return None
    return [(GetAttrKey(name), child) for name, child in zip(cls._fields, tree, strict=True)]


def _paths(path: KeyPath, tree: Any, is_leaf: _IsLeaf) -> Iterator[tuple[KeyPath, Any]]:
    children = None if is_leaf is not None and is_leaf(tree) else _with_keys(tree)
    if children is None:
        yield path, tree
        return
    for key, child in children:
        yield from _paths((*path, key), child, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: _IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Each leaf with the path that leads to it.

    Example:
        >>> from triten.utils._pytree import keystr, tree_leaves_with_path
        >>> [(keystr(path), leaf) for path, leaf in tree_leaves_with_path({"a": [1, (2,)]})]
        [("['a'][0]", 1), ("['a'][1][0]", 2)]
    """
    return list(_paths((), tree, is_leaf))


def tree_flatten_with_path(
    tree: PyTree, is_leaf: _IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Each leaf with the path that leads to it, and what is needed to build the tree again."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: _IsLeaf = None
) -> PyTree:
    """`tree_map` whose function gets a leaf's path first."""
    leaves, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [spec.flatten_up_to(rest) for rest in rests]
    made = [func(path, leaf, *others) for (path, leaf), *others in zip(leaves, *columns, strict=True)]
    return tree_unflatten(made, spec)


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: _IsLeaf = None) -> list[Any] | None:
    """The leaves of a tree, each as often as the spec has leaves below its place; None where they do not fit."""
    leaves, prefix = tree_flatten(tree, is_leaf)
    try:
        below = prefix.flatten_up_to(tree_unflatten([0] * treespec.num_leaves, treespec))
    except ValueError:
        return None
    return [
        leaf
        for leaf, subtree in zip(leaves, below, strict=True)
        for _ in range(tree_structure(subtree).num_leaves)
    ]

"""Trees of Python containers: flattened to their leaves and built again. `tt.utils._pytree` makes them public.

A node is an object of a class in `NODES`: tuple, list, dict, OrderedDict, defaultdict, deque, every named tuple, and
what programs register. Everything else is a leaf, None and subclasses such as `tt.Size` included.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ...runtime.fork_lock import forkable
from ...runtime.record import Record
from ..core import result_types

type_of = type


class KeyEntry(Protocol):
    """One step of a key path: from a node to one of its children."""

    def get(self, parent: Any, /) -> Any:
        """Return the child."""


class SequenceKey(Record):
    """The step to an element of a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Sequence[Any], /) -> Any:
        """Return the element."""
        return sequence[self.idx]


class MappingKey(Record):
    """The step to a value of a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Mapping[Any, Any], /) -> Any:
        """Return the value."""
        return mapping[self.key]


class GetAttrKey(Record):
    """The step to an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any, /) -> Any:
        """Return the attribute."""
        return getattr(obj, self.name)


Flatten = Callable[[Any], tuple[Iterable[Any], Any]]
Unflatten = Callable[[Iterable[Any], Any], Any]
FlattenWithKeys = Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]]


class NodeDef(NamedTuple):
    """Functions that flatten and unflatten objects of a class. `flatten_fn` returns the children and a context, from
    which `unflatten_fn` rebuilds an object; `flatten_with_keys_fn` returns each child with its `KeyEntry`.
    """

    type: type[Any]
    flatten_fn: Flatten
    unflatten_fn: Unflatten
    flatten_with_keys_fn: FlattenWithKeys | None


class Serialization(NamedTuple):
    """Serialized form of a class in a spec: its name, and its context as JSON."""

    type: type[Any]
    name: str
    to_dumpable_context: Callable[[Any], Any] | None
    from_dumpable_context: Callable[[Any], Any] | None


UNNAMED = "NO_SERIALIZED_TYPE_NAME_FOUND"
NODES: dict[Any, NodeDef] = {}
SERIALIZATIONS: dict[Any, Serialization] = {}
NAMED_TYPES: dict[str, Any] = {}
"""The classes by their names in texts."""

_lock = forkable(threading.RLock())


def register(
    cls: Any,
    flatten_fn: Flatten,
    unflatten_fn: Unflatten,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: FlattenWithKeys | None = None,
) -> None:
    """Register a node class. Warns if it is already registered."""
    with _lock:
        if (to_dumpable_context is None) != (from_dumpable_context is None):
            raise ValueError(
                f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered."
            )
        if cls in NODES:
            warnings.warn(
                f"{cls} is already registered as pytree node. Overwriting the previous registration.",
                stacklevel=3,
            )
        NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
        name = serialized_type_name or UNNAMED
        SERIALIZATIONS[cls] = Serialization(cls, name, to_dumpable_context, from_dumpable_context)
        NAMED_TYPES[name] = cls


def register_pytree_node(
    cls: type[Any],
    flatten_fn: Flatten,
    unflatten_fn: Unflatten,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: FlattenWithKeys | None = None,
) -> None:
    """Register a class as a node of trees, for `tt.vmap`, `tt.func` and graphs
    (`torch.utils._pytree.register_pytree_node`).

    Args:
        cls: The class. Its subclasses remain leaves.
        flatten_fn: Function from an object to its list of children and a context.
        unflatten_fn: Function from children and a context to the object.
        serialized_type_name: Name of the class in `treespec_dumps`.
        to_dumpable_context, from_dumpable_context: Functions from the context to JSON, and back; both or neither.
        flatten_with_keys_fn: Function like `flatten_fn` that returns pairs of a `KeyEntry` and a child, for functions
            with paths.

    Raises:
        ValueError: the class is a node already, or one of two functions for contexts is missing.

    Example:
        >>> from triten.utils import _pytree as pytree
        >>> class Pair:
        ...     def __init__(self, a, b):
        ...         self.a, self.b = a, b
        >>> pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda children, _: Pair(*children))
        >>> pytree.tree_leaves({"x": Pair(1, [2, 3])})
        [1, 2, 3]
    """
    with _lock:
        if cls in NODES:
            raise ValueError(f"{cls} is already registered as pytree node.")
        register(
            cls,
            flatten_fn,
            unflatten_fn,
            serialized_type_name=serialized_type_name,
            to_dumpable_context=to_dumpable_context,
            from_dumpable_context=from_dumpable_context,
            flatten_with_keys_fn=flatten_with_keys_fn,
        )


def deregister(cls: type[Any]) -> None:
    """Unregister a node class. Raises KeyError for a class that is not a node."""
    with _lock:
        del NODES[cls]
        NAMED_TYPES.pop(SERIALIZATIONS.pop(cls).name, None)


def is_namedtuple_class(cls: Any) -> bool:
    """Return True if a class is a named tuple or a subclass of one."""
    return (
        isinstance(cls, type_of)
        and issubclass(cls, tuple)
        and cls is not tuple
        and isinstance(getattr(cls, "_fields", None), tuple)
        and all(field.__class__ is str for field in cls._fields)  # type: ignore[attr-defined]
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def node_type(tree: Any) -> Any:
    """Return the node class of an object, `collections.namedtuple` for all named tuples."""
    cls = type_of(tree)
    if cls is tuple or cls is list or cls is dict or not issubclass(cls, tuple):
        return cls
    return namedtuple if is_namedtuple_class(cls) else cls


class TreeSpec:
    """A tree without its leaves.

    `type` is the node's class (`collections.namedtuple` for all named tuples), None for a leaf; the context is the
    other data of its `NodeDef`, such as the keys of a dict. Callers must not change its lists.
    """

    __slots__ = ("_children", "_context", "num_children", "num_leaves", "num_nodes", "type")

    type: Any
    num_children: int
    num_leaves: int
    num_nodes: int

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type = type
        self._context = context
        self._children = children_specs
        if type is None:
            if context is not None or children_specs:
                raise AssertionError("leaf node should have neither a context nor children")
            self.num_nodes = self.num_leaves = 1
        else:
            self.num_nodes = 1 + sum([child.num_nodes for child in children_specs])
            self.num_leaves = sum([child.num_leaves for child in children_specs])
        self.num_children = len(children_specs)

    @property
    def context(self) -> Any:
        """Data from which the node is built in addition to its children."""
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        """Deprecated for `children`."""
        warnings.warn(
            "`treespec.children_specs` is deprecated. Use `treespec.child(index)` to access a single child, or "
            "`treespec.children()` to get all children.",
            FutureWarning,
            stacklevel=2,
        )
        return self._children

    def is_leaf(self) -> bool:
        """Return True if the tree is one leaf."""
        return self.num_nodes == 1 and self.num_leaves == 1

    def children(self) -> list[TreeSpec]:
        """Return the specs of the root's children."""
        return self._children.copy()

    def child(self, index: int) -> TreeSpec:
        """Return the spec of one child."""
        return self._children[index]

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return the subtrees of a tree at the positions of this spec's leaves.

        A dict may stand for an OrderedDict or defaultdict of the same keys, and a deque for one of another length.

        Raises:
            ValueError: a node is of another class, has other children, keys or another context.
        """
        subtrees: list[Any] = []
        _flatten_up_to(self, tree, subtrees)
        return subtrees

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the tree of these leaves. Raises ValueError for a wrong number of leaves."""
        leaf_list = leaves if isinstance(leaves, list | tuple) else list(leaves)
        if len(leaf_list) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaf_list)} but the spec refers to a pytree "
                f"that holds {self.num_leaves} items ({self})."
            )
        return _built(iter(leaf_list), self)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec) or other.__class__ is not self.__class__:
            return NotImplemented
        return bool(
            self.type is other.type and self._context == other._context and self._children == other._children
        )

    def __hash__(self) -> int:
        context = self._context
        if self.type is dict or self.type is OrderedDict:
            context = tuple(context)
        elif self.type is defaultdict:
            context = (context[0], tuple(context[1]))
        elif self.type not in _BUILTIN and not isinstance(context, ConstantNode):
            context = None  # a program's contexts may not be hashable
        return hash((self.type, context, tuple(self._children)))

    def __repr__(self, indent: int = 0) -> str:
        if self.type is None:
            return "*"
        indent += 2
        children = (",\n" + " " * indent).join(child.__repr__(indent) for child in self._children)
        return f"TreeSpec({self.type.__name__}, {self._context}, [{children}])"

    def __reduce__(self) -> tuple[Any, ...]:
        fields: Any = self._context
        if self.type is namedtuple and fields.__module__ == result_types.MODULE:
            # Classes of operators' results are made as they are needed, and found by their fields.
            return _of_results, (fields.__name__, fields._fields, self._children)
        return self.__class__, (self.type, self._context, self._children)


class LeafSpec(TreeSpec):
    """Spec of a leaf. Deprecated in favor of `TreeSpec.is_leaf`; `treespec_leaf` returns one."""

    __slots__ = ()

    def __init__(self) -> None:
        warnings.warn(
            "`isinstance(treespec, LeafSpec)` is deprecated, use `isinstance(treespec, TreeSpec) and "
            "treespec.is_leaf()` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(None, None, [])

    def __reduce__(self) -> tuple[Any, ...]:
        return treespec_leaf, ()


LEAF: LeafSpec = LeafSpec.__new__(LeafSpec)
TreeSpec.__init__(LEAF, None, None, [])


def treespec_leaf() -> LeafSpec:
    """Return the spec of a leaf."""
    return LEAF


def _of_results(base: str, names: tuple[str, ...], children: list[TreeSpec]) -> TreeSpec:
    return TreeSpec(namedtuple, result_types.named_results(base, names), children)


class ConstantNode(Record):
    """The context of an object that is a node without children: the object itself."""

    value: Any


def children_of(tree: Any) -> tuple[Any, Any, list[Any]]:
    """Return a node's class (None for a leaf), the context that rebuilds it, and its children in order."""
    kind = node_type(tree)
    node = NODES.get(kind)
    if node is None:
        return None, None, []
    children, context = node.flatten_fn(tree)
    return kind, context, list(children)


def tree_is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Return True if a tree is one leaf (`torch.utils._pytree.tree_is_leaf`)."""
    return (is_leaf is not None and is_leaf(tree)) or node_type(tree) not in NODES


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of a tree, in order, and the spec that rebuilds it (`torch.utils._pytree.tree_flatten`).

    Args:
        tree: Any nesting of containers.
        is_leaf: Function of a container; if it returns true, the container is a leaf.

    Example:
        >>> from triten.utils._pytree import tree_flatten, tree_unflatten
        >>> leaves, spec = tree_flatten({"a": (1, 2), "b": [3]})
        >>> leaves
        [1, 2, 3]
        >>> tree_unflatten([10, 20, 30], spec)
        {'a': (10, 20), 'b': [30]}
    """
    leaves: list[Any] = []
    return leaves, _flatten_into(tree, leaves, is_leaf)


def _flatten_into(tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None) -> TreeSpec:
    kind = node_type(tree)
    node = NODES.get(kind)
    if node is None or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return LEAF
    children, context = node.flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten_into(child, leaves, is_leaf) for child in children])


def _broadcast_to_and_flatten(
    tree: Any, treespec: TreeSpec, is_leaf: Callable[[Any], bool] | None = None
) -> list[Any] | None:
    """Return a tree's leaves, each repeated for the spec's leaves at its position; None if it is not a prefix.

    Source: torch.utils._pytree._broadcast_to_and_flatten.
    """
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    try:
        leaves, own = tree_flatten(tree, is_leaf)
        parts = own.flatten_up_to(treespec.unflatten(range(treespec.num_leaves)))
    except ValueError:
        return None
    return [
        leaf for leaf, part in zip(leaves, parts, strict=True) for _ in range(len(tree_leaves(part, is_leaf)))
    ]


def _flatten_up_to(spec: TreeSpec, tree: Any, subtrees: list[Any]) -> None:
    if spec.is_leaf():
        subtrees.append(tree)
        return
    kind, want = node_type(tree), spec.type
    both_dicts = kind in _DICTS and want in _DICTS
    if kind is not want and not both_dicts:
        noun = "Node type" if want in _BUILTIN else "Type"
        raise ValueError(f"{noun} mismatch; expected {want!r}, but got {kind!r}.")
    children, context = NODES[kind].flatten_fn(tree)
    children = list(children)
    if len(children) != spec.num_children:
        raise ValueError(f"Node arity mismatch; expected {spec.num_children}, but got {len(children)}.")
    if both_dicts:
        keys = spec._context[1] if want is defaultdict else spec._context
        missing, extra = set(keys).difference(tree), set(tree).difference(keys)
        if missing or extra:
            named = (f"; missing key(s): {missing}" if missing else "") + (
                f"; extra key(s): {extra}" if extra else ""
            )
            raise ValueError(f"Node keys mismatch{named}.")
        children = [tree[key] for key in keys]
    elif kind is not deque and context != spec._context:
        if want not in _BUILTIN:
            raise ValueError(f"Node context mismatch for custom node type {want!r}.")
        raise ValueError(
            f"Node context mismatch for node type {want!r}; expected {spec._context!r}, but got {context!r}."
        )
    for child, inner in zip(children, spec._children, strict=True):
        _flatten_up_to(inner, child, subtrees)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Return the tree of these leaves (`torch.utils._pytree.tree_unflatten`).

    Raises:
        TypeError: `treespec` is not a spec.
        ValueError: the number of leaves differs from the tree's.
    """
    if not isinstance(treespec, TreeSpec):
        if not isinstance(leaves, TreeSpec):
            raise TypeError(
                f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type_of(treespec)}."
            )
        leaves, treespec = treespec, leaves
    return treespec.unflatten(leaves)


def _built(leaves: Any, spec: TreeSpec) -> Any:
    if spec.type is None:
        return next(leaves)
    return NODES[spec.type].unflatten_fn([_built(leaves, child) for child in spec._children], spec._context)


def tree_map(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Apply `func` to the leaves of a tree and of `rests` at the same positions (`torch.utils._pytree.tree_map`).

    Args:
        func: Function of a leaf, and of a leaf or a subtree of each of `rests`.
        tree: The tree that determines the result's structure.
        rests: Trees of this structure, which may have subtrees instead of its leaves.
        is_leaf: Function of a container; if it returns true, the container is a leaf.

    Raises:
        ValueError: the trees differ in structure.

    Example:
        >>> from triten.utils._pytree import tree_map
        >>> tree_map(lambda a, b: a + b, {"x": 1, "y": (2,)}, {"x": 10, "y": (20,)})
        {'x': 11, 'y': (22,)}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests]))


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves of a tree, in order (`torch.utils._pytree.tree_leaves`)."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """Return the tree without its leaves (`torch.utils._pytree.tree_structure`)."""
    return tree_flatten(tree, is_leaf)[1]


# Classes that are nodes by default.


def _numbered(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    _, context, children = children_of(tree)
    return [(SequenceKey(i), child) for i, child in enumerate(children)], context


def _keyed(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    return [(MappingKey(key), child) for key, child in tree.items()], children_of(tree)[1]


def _named(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    if type_of(tree).__module__ == result_types.MODULE:
        # PyTorch's results of operators have numbers for steps.
        return [(SequenceKey(i), child) for i, child in enumerate(tree)], type_of(tree)
    return [(GetAttrKey(name), child) for name, child in zip(tree._fields, tree, strict=True)], tree.__class__


def _named_tuple_of(children: Iterable[Any], cls: Any) -> Any:
    return cls._make(children) if cls.__module__ == result_types.MODULE else cls(*children)


def _factory_name(context: Any) -> dict[str, Any]:
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _named_factory(dumped: Any) -> list[Any]:
    from importlib import import_module

    expected = {"default_factory_module", "default_factory_name", "dict_context"}
    if not isinstance(dumped, dict) or set(dumped) != expected:
        raise AssertionError(
            f"dumpable_context of a defaultdict must have the keys {expected}, got {dumped!r}"
        )
    factory = getattr(import_module(dumped["default_factory_module"]), dumped["default_factory_name"])
    return [factory, dumped["dict_context"]]


def _named_tuple_name(cls: Any) -> str:
    serialization = SERIALIZATIONS.get(cls)
    if serialization is None or serialization.name == UNNAMED:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {cls} because we didn't register a serializated_type_name. "
            "Please register using `_register_namedtuple`."
        )
    return serialization.name


def _named_tuple_class(name: Any) -> Any:
    if name not in NAMED_TYPES:
        raise NotImplementedError(
            f"Can't deserialize TreeSpec of namedtuple class {name} because we couldn't find a serializated name."
        )
    return NAMED_TYPES[name]


def register_named_tuple(cls: type[Any], *, serialized_type_name: str) -> None:
    """Set the name of a named tuple in serialized specs; a named tuple is a node without it."""
    register(
        cls,
        NODES[namedtuple].flatten_fn,
        _named_tuple_of,
        serialized_type_name=serialized_type_name,
        to_dumpable_context=_named_tuple_name,
        from_dumpable_context=_named_tuple_class,
        flatten_with_keys_fn=_named,
    )


register(
    tuple,
    lambda t: (t, None),
    lambda children, _: tuple(children),
    serialized_type_name="builtins.tuple",
    flatten_with_keys_fn=_numbered,
)
register(
    list,
    lambda t: (t, None),
    lambda children, _: list(children),
    serialized_type_name="builtins.list",
    flatten_with_keys_fn=_numbered,
)
register(
    dict,
    lambda t: (list(t.values()), list(t)),
    lambda children, keys: dict(zip(keys, children, strict=True)),
    serialized_type_name="builtins.dict",
    flatten_with_keys_fn=_keyed,
)
register(
    namedtuple,
    lambda t: (list(t), type_of(t)),
    _named_tuple_of,
    serialized_type_name="collections.namedtuple",
    to_dumpable_context=_named_tuple_name,
    from_dumpable_context=_named_tuple_class,
    flatten_with_keys_fn=_named,
)
register(
    OrderedDict,
    lambda t: (list(t.values()), list(t)),
    lambda children, keys: OrderedDict(zip(keys, children, strict=True)),
    serialized_type_name="collections.OrderedDict",
    flatten_with_keys_fn=_keyed,
)
register(
    defaultdict,
    lambda t: (list(t.values()), [t.default_factory, list(t)]),
    lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
    serialized_type_name="collections.defaultdict",
    to_dumpable_context=_factory_name,
    from_dumpable_context=_named_factory,
    flatten_with_keys_fn=_keyed,
)
register(
    deque,
    lambda t: (list(t), t.maxlen),
    lambda children, maxlen: deque(children, maxlen=maxlen),
    serialized_type_name="collections.deque",
    flatten_with_keys_fn=_numbered,
)

_DICTS = frozenset({dict, OrderedDict, defaultdict})
_BUILTIN: frozenset[Any] = frozenset(NODES) | {None}

"""Trees of Python containers (`torch.utils._pytree`): the trees that `tt.vmap`, `tt.func` and graphs take.

The mechanism, and what is a node, is `dispatch/layers/pytree.py`; here is what stands on top of it: paths to leaves,
functions over some leaves only, and specs as text. A class that is registered here is a node everywhere.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from importlib import import_module
from types import UnionType
from typing import Any

from ..dispatch.layers.pytree import LEAF as _LEAF_SPEC
from ..dispatch.layers.pytree import (
    NAMED_TYPES,
    NODES,
    SERIALIZATIONS,
    UNNAMED,
    ConstantNode,
    Flatten,
    FlattenWithKeys,
    GetAttrKey,
    KeyEntry,
    LeafSpec,
    MappingKey,
    SequenceKey,
    TreeSpec,
    Unflatten,
    _broadcast_to_and_flatten,  # noqa: F401 - other packages import it here
    is_namedtuple_class,
    node_type,
    register_pytree_node,
    tree_flatten,
    tree_is_leaf,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)
from ..dispatch.layers.pytree import deregister as _deregister_node
from ..dispatch.layers.pytree import register as _private_register_pytree_node

__all__ = [
    "Context",
    "DumpableContext",
    "FlattenFn",
    "FromDumpableContextFn",
    "LeafSpec",
    "MappingKey",
    "PyTree",
    "PyTreeSpec",
    "SequenceKey",
    "ToDumpableContextFn",
    "TreeSpec",
    "UnflattenFn",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "key_get",
    "keystr",
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
    "treespec_dumps",
    "treespec_loads",
    "treespec_pprint",
]

Context = Any
PyTree = Any
DumpableContext = Any
FlattenFn = Flatten
UnflattenFn = Unflatten
FlattenWithKeysFn = FlattenWithKeys
FlattenFunc = Flatten
UnflattenFunc = Unflatten
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]
KeyPath = tuple[KeyEntry, ...]
PyTreeSpec = TreeSpec
SUPPORTED_NODES = NODES

# Classes that are lists or dicts are registered with the functions of those, by these names.
_list_flatten, _list_unflatten = NODES[list].flatten_fn, NODES[list].unflatten_fn
_list_flatten_with_keys = NODES[list].flatten_with_keys_fn
_dict_flatten, _dict_unflatten = NODES[dict].flatten_fn, NODES[dict].unflatten_fn
_dict_flatten_with_keys = NODES[dict].flatten_with_keys_fn
SUPPORTED_SERIALIZED_TYPES = SERIALIZATIONS
SERIALIZED_TYPE_TO_PYTHON_TYPE = NAMED_TYPES
NO_SERIALIZED_TYPE_NAME_FOUND = UNNAMED
BUILTIN_TYPES: frozenset[Any] = frozenset(NODES)
CONSTANT_NODES: set[type] = set()
"""The classes that `register_constant` was given."""

DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1

IsLeaf = Callable[[Any], bool] | None
_get_node_type = node_type


def _register_pytree_node(
    cls: type[Any], flatten_fn: FlattenFn, unflatten_fn: UnflattenFn, **kwargs: Any
) -> None:
    """Call `register_pytree_node`, but only warn for a class that is registered already. Deprecated."""
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, **kwargs)


def _deregister_pytree_node(cls: type[Any]) -> None:
    """Make a class a leaf again."""
    _deregister_node(cls)
    CONSTANT_NODES.discard(cls)


def register_dataclass(
    cls: type[Any],
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Make a dataclass, or a class that is built from its fields, a node (`torch.utils._pytree.register_dataclass`).

    A field that is None is no child.

    Args:
        cls: the class.
        field_names: the fields that are children; those of a dataclass's ``__init__`` by default.
        drop_field_names: fields of a dataclass that stand outside the tree.
        serialized_type_name: the class's name in `treespec_dumps`.

    Raises:
        ValueError: a field of the dataclass is in neither list, or `field_names` has others.

    Example:
        >>> from dataclasses import dataclass
        >>> from triten.utils import _pytree as pytree
        >>> @dataclass
        ... class Point:
        ...     x: float
        ...     y: float
        >>> pytree.register_dataclass(Point)
        >>> pytree.tree_map(lambda v: v + 1, Point(1, 2))
        Point(x=2, y=3)
    """
    if dataclasses.is_dataclass(cls):
        own = [field.name for field in dataclasses.fields(cls) if field.init]
        if field_names is None:
            field_names = own
        else:
            expected = set(own).difference(drop_field_names or ())
            missing, unexpected = expected - set(field_names), set(field_names) - expected
            if missing or unexpected:
                raise ValueError(
                    "field_names does not include all dataclass fields.\n"
                    + (
                        f"Missing fields in `field_names`: {missing}. Add them there to have them in the pytree, or "
                        "else to `drop_field_names`.\n"
                        if missing
                        else ""
                    )
                    + (
                        f"Unexpected fields in `field_names`: {unexpected}. Remove them, or add them to "
                        "`drop_field_names`.\n"
                        if unexpected
                        else ""
                    )
                )
    elif field_names is None:
        raise ValueError(
            f"field_names must be specified with a list of all fields used to initialize {cls}, as it is not a "
            "dataclass."
        )
    names = field_names

    def flattened(obj: Any) -> tuple[list[Any], Any]:
        values = {name: getattr(obj, name) for name in names}
        present = [name for name, value in values.items() if value is not None]
        return [values[name] for name in present], [present, [name for name in names if name not in present]]

    def built(children: Iterable[Any], context: Any) -> Any:
        present, empty = context
        return cls(**dict(zip(present, children, strict=True)), **dict.fromkeys(empty))

    def flattened_with_keys(obj: Any) -> tuple[list[tuple[Any, Any]], Any]:
        children, context = flattened(obj)
        return [(GetAttrKey(name), child) for name, child in zip(context[0], children, strict=True)], context

    _private_register_pytree_node(
        cls,
        flattened,
        built,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flattened_with_keys,
    )


def register_constant(cls: type[Any]) -> None:
    """Make a class a node without children: its objects are part of the structure (`register_constant`).

    Raises TypeError for a class that does not define both ``__eq__`` and ``__hash__``.
    """
    if cls.__eq__ is object.__eq__:  # type: ignore[comparison-overlap]
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__eq__` implementation.")
    if cls.__hash__ is None:
        raise TypeError(
            "register_constant(cls) expects `cls` to have a non-default `__hash__` implementation."
        )
    _private_register_pytree_node(
        cls,
        lambda obj: ([], ConstantNode(obj)),
        lambda _, context: context.value,
        flatten_with_keys_fn=lambda obj: ([], ConstantNode(obj)),
    )
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: type[Any]) -> bool:
    """Return whether a class was registered by `register_constant`."""
    return isinstance(cls, type) and cls in CONSTANT_NODES


def is_namedtuple(obj: object) -> bool:
    """Return whether an object is a named tuple or a named tuple class."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_instance(obj: object) -> bool:
    """Return whether an object is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_structseq_class(cls: type[Any]) -> bool:
    """Return whether a class is a CPython struct sequence, such as `time.struct_time`."""
    subclassable = 1 << 10  # CPython's Py_TPFLAGS_BASETYPE
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(
            isinstance(getattr(cls, name, None), int)
            for name in ("n_fields", "n_sequence_fields", "n_unnamed_fields")
        )
        and not cls.__flags__ & subclassable
    )


def is_structseq(obj: object) -> bool:
    """Return whether an object is a struct sequence or a struct sequence class."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_instance(obj: object) -> bool:
    """Return whether an object is a struct sequence."""
    return is_structseq_class(type(obj))


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """Return the spec of a tuple of trees with these specs.

    Raises:
        ValueError: An element is not a `TreeSpec`.
    """
    children = list(iterable)
    if not all(isinstance(child, TreeSpec) for child in children):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {children!r}.")
    return TreeSpec(tuple, None, children)


def treespec_dict(
    mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (), /, **kwargs: TreeSpec
) -> TreeSpec:
    """Return the spec of a dict of trees with these specs.

    Raises:
        ValueError: A value is not a `TreeSpec`.
    """
    children = dict(mapping, **kwargs)
    if not all(isinstance(child, TreeSpec) for child in children.values()):
        raise ValueError(f"Expected a dictionary of TreeSpec values, got: {children!r}.")
    return TreeSpec(dict, list(children), list(children.values()))


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """Yield the leaves of a tree in order."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for child in NODES[node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """Return the leaves of a call's arguments."""
    return [leaf for value in (*args, *kwargs.values()) for leaf in tree_iter(value)]


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Call `func` on each leaf, as `tree_map` does, for what it does to them; the result is `tree` itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    deque(map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests]), maxlen=0)
    return tree


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Return a decorator that applies a function to leaves of some types, or to those that satisfy a predicate.

    Other leaves stay unchanged.

    Raises:
        TypeError: The argument is neither a type, nor a tuple or union of types, nor callable.
    """
    if isinstance(type_or_types_or_pred, type | tuple | UnionType):

        def chosen(leaf: Any) -> bool:
            return isinstance(leaf, type_or_types_or_pred)

    elif callable(type_or_types_or_pred):
        chosen = type_or_types_or_pred
    else:
        raise TypeError("Argument must be a type, a tuple of types, or a callable.")

    def decorator(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(func)
        def mapped(leaf: Any) -> Any:
            return func(leaf) if chosen(leaf) else leaf

        return mapped

    return decorator


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Apply a function to leaves of some types, or to those that satisfy a predicate; keep other leaves.

    Example:
        >>> from triten.utils._pytree import tree_map_only
        >>> tree_map_only(int, lambda v: v * 2, [1, "a", (2.5, 3)])
        [2, 'a', (2.5, 6)]
    """
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Call a function for leaves of some types, or those that satisfy a predicate, like `tree_map_`."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Return whether a predicate holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Return whether a predicate holds for any leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Return whether a predicate holds for all leaves of some types."""
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_any_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Return whether a predicate holds for any leaf of some types."""
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


# Paths


def _with_paths(tree: PyTree, is_leaf: IsLeaf, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    kind = node_type(tree)
    with_keys = NODES[kind].flatten_with_keys_fn
    if with_keys is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a flatten_with_keys_fn argument to "
            "register_pytree_node."
        )
    for key, child in with_keys(tree)[0]:
        yield from _with_paths(child, is_leaf, (*path, key))


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Return the pairs of path and leaf of a tree (`torch.utils._pytree.tree_leaves_with_path`).

    Raises:
        ValueError: A node's class was registered without `flatten_with_keys_fn`.
    """
    return list(_with_paths(tree, is_leaf, ()))


def tree_flatten_with_path(
    tree: PyTree, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Return the leaves with their paths, and the tree's spec.

    Example:
        >>> from triten.utils._pytree import keystr, tree_flatten_with_path
        >>> found, _ = tree_flatten_with_path({"a": [1, 2]})
        >>> [(keystr(path), leaf) for path, leaf in found]
        [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Map a tree by a function that takes a leaf's path first, like `tree_map`."""
    entries, spec = tree_flatten_with_path(tree, is_leaf)
    other_leaves = (
        zip(*[spec.flatten_up_to(rest) for rest in rests], strict=True) if rests else [()] * len(entries)
    )
    return spec.unflatten(
        [func(path, leaf, *rest) for (path, leaf), rest in zip(entries, other_leaves, strict=True)]
    )


def keystr(kp: KeyPath) -> str:
    """Format a key path as Python source: ``['a'][0].x``."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """Return the value at a key path in an object."""
    for key in kp:
        obj = key.get(obj)
    return obj


# Specs as text


class EnumEncoder(json.JSONEncoder):
    """JSON with members of enumerations by their names."""

    def default(self, o: object) -> Any:
        """Encode an enum member as a dictionary."""
        if isinstance(o, Enum):
            return {
                "__enum__": True,
                "fqn": f"{type(o).__module__}:{type(o).__qualname__}",
                "name": o.name,
            }
        return super().default(o)


def enum_object_hook(obj: dict[str, Any]) -> Any:
    """Decode an enum member that `EnumEncoder` wrote."""
    if "__enum__" not in obj:
        return obj
    module, _, name = obj["fqn"].partition(":")
    cls: Any = functools.reduce(getattr, name.split("."), import_module(module))
    return cls[obj["name"]]


def _described(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    entry = SERIALIZATIONS.get(spec.type)
    if entry is None:
        raise NotImplementedError(f"Serializing {spec.type} in pytree is not registered.")
    if entry.name == UNNAMED:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please update your _register_pytree_node call "
            "with a `serialized_type_name` kwarg."
        )
    if entry.to_dumpable_context is not None:
        context = entry.to_dumpable_context(spec.context)
    else:
        try:
            context = json.dumps(spec.context, cls=EnumEncoder)
        except TypeError as error:
            raise TypeError(
                "Unable to serialize context. Please make the context json dump-able, or register a custom serializer "
                "using _register_pytree_node."
            ) from error
    return {
        "type": entry.name,
        "context": context,
        "children_spec": [_described(child) for child in spec.children()],
    }


def _of_description(described: Any) -> TreeSpec:
    name, context, children = described["type"], described["context"], described["children_spec"]
    if name is None and context is None and not children:
        return _LEAF_SPEC
    if name not in NAMED_TYPES:
        raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")
    entry = SERIALIZATIONS[NAMED_TYPES[name]]
    if entry.from_dumpable_context is not None:
        context = entry.from_dumpable_context(context)
    else:
        context = json.loads(context, object_hook=enum_object_hook)
    return TreeSpec(entry.type, context, [_of_description(child) for child in children])


def _check_protocol(protocol: Any) -> None:
    if protocol != DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL:
        raise ValueError(
            f"Unknown protocol {protocol}. Available protocols: {[DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL]}"
        )


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """Serialize a spec to JSON that PyTorch can read (`torch.utils._pytree.treespec_dumps`).

    Raises:
        TypeError: `treespec` is no spec, or a context cannot be written.
        NotImplementedError: a class has no name in texts.
        ValueError: there is no such protocol.

    Example:
        >>> from triten.utils._pytree import tree_structure, treespec_dumps, treespec_loads
        >>> spec = tree_structure({"a": (1, 2)})
        >>> treespec_loads(treespec_dumps(spec)) == spec
        True
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}."
        )
    protocol = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    _check_protocol(protocol)
    return json.dumps((protocol, _described(treespec)), cls=EnumEncoder)


@functools.lru_cache
def treespec_loads(serialized: str) -> TreeSpec:
    """Deserialize a spec written by `treespec_dumps`, triten's or PyTorch's.

    Raises:
        ValueError: The protocol is unknown.
    """
    protocol, described = json.loads(serialized)
    _check_protocol(protocol)
    return _of_description(described)


class _Asterisk:
    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """Format a spec as Python prints a tree, with ``*`` for leaves."""
    return repr(treespec.unflatten([_Asterisk()] * treespec.num_leaves))

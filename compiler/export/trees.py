"""Structures of arguments and results as JSON, which is read without running anything that it names.

Classes that programs register (`tt.export.register_dataclass`, `register_pytree_node`) are identified by their
registered names; a program must register them before it loads an archive.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

from ...dispatch.core import result_types
from ...dispatch.layers.pytree import LEAF, NAMED_TYPES, SERIALIZATIONS, UNNAMED, TreeSpec

SEQUENCES = {"tuple": tuple, "list": list}
MAPPINGS = {"dict": dict, "OrderedDict": OrderedDict}
FACTORIES = {each.__name__: each for each in (dict, float, int, list, set, str, tuple)}
"""Default factories that a loaded `defaultdict` may have."""
KEYS = (str, int, float, bool, type(None))


class UnregisteredClassError(ValueError):
    """Error: a program takes or returns objects of an unregistered class."""


def tree_to_json(spec: TreeSpec) -> Any:
    """Return a structure as JSON. Raise NotImplementedError for a class without a name, or a key that JSON does not
    support."""
    if spec.is_leaf():
        return "*"
    children = [tree_to_json(child) for child in spec.children()]
    kind = spec.type
    for name, known in SEQUENCES.items():
        if kind is known:
            return {name: children}
    for name, known in MAPPINGS.items():
        if kind is known:
            return {name: children, "keys": _keys(spec.context)}
    if kind is defaultdict:
        factory, keys = spec.context
        named = next((name for name, each in FACTORIES.items() if each is factory), None)
        if named is None and factory is not None:
            raise NotImplementedError(f"a defaultdict of {factory!r} cannot be saved")
        return {"defaultdict": children, "keys": _keys(keys), "factory": named}
    if kind is deque:
        return {"deque": children, "maxlen": spec.context}
    if kind is namedtuple:
        cls = spec.context
        if cls.__module__ == result_types.MODULE:
            return {"result": children, "name": cls.__name__, "fields": list(cls._fields)}
        return {"namedtuple": children, "name": _name_of(cls)}
    entry = SERIALIZATIONS[kind]
    context = spec.context if entry.to_dumpable_context is None else entry.to_dumpable_context(spec.context)
    return {"registered": children, "name": _name_of(kind), "context": context}


def _keys(keys: list[Any]) -> list[Any]:
    for key in keys:
        if type(key) not in KEYS:
            raise NotImplementedError(f"a dict with the key {key!r}, a {type(key).__name__}, cannot be saved")
    return list(keys)


def _name_of(cls: Any) -> str:
    entry = SERIALIZATIONS.get(cls)
    if entry is None or entry.name == UNNAMED:
        raise NotImplementedError(
            f"{cls.__name__} has no name to be saved under: register it with serialized_type_name="
        )
    return entry.name


def tree_from_json(value: Any) -> TreeSpec:
    """Return the structure of JSON.

    Raise ValueError, KeyError or TypeError for invalid JSON, and `UnregisteredClassError` for an unknown class.
    """
    if value == "*":
        return LEAF
    for name, known in SEQUENCES.items():
        if name in value:
            return TreeSpec(known, None, _children(value[name]))
    for name, kind in MAPPINGS.items():
        if name in value:
            return TreeSpec(kind, _distinct(value["keys"], value[name]), _children(value[name]))
    if "defaultdict" in value:
        factory = None if value["factory"] is None else FACTORIES[value["factory"]]
        children = value["defaultdict"]
        return TreeSpec(defaultdict, [factory, _distinct(value["keys"], children)], _children(children))
    if "deque" in value:
        return TreeSpec(deque, value["maxlen"], _children(value["deque"]))
    if "result" in value:
        cls = result_types.named_results(value["name"], tuple(value["fields"]))
        return TreeSpec(namedtuple, cls, _children(value["result"]))
    cls = NAMED_TYPES.get(value["name"])
    if cls is None or value["name"] == UNNAMED:
        raise UnregisteredClassError(
            f"the program takes or gives objects of the class '{value['name']}', which is not registered here: "
            "register it as it was where the program was exported"
        )
    if "namedtuple" in value:
        return TreeSpec(namedtuple, cls, _children(value["namedtuple"]))
    entry, context = SERIALIZATIONS[cls], value["context"]
    if entry.from_dumpable_context is not None:
        context = entry.from_dumpable_context(context)
    return TreeSpec(cls, context, _children(value["registered"]))


def _children(values: list[Any]) -> list[TreeSpec]:
    return [tree_from_json(each) for each in values]


def _distinct(keys: list[Any], children: list[Any]) -> list[Any]:
    if len(set(keys)) != len(keys) or len(keys) != len(children):
        raise ValueError(f"{len(children)} values of a dict have the keys {keys}")
    return keys

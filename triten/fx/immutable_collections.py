"""Immutable lists and dicts for the arguments of nodes (torch/fx/immutable_collections.py).

A node keeps account of the nodes among its arguments, which a change in place would escape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from ..dispatch.layers.pytree import MappingKey, SequenceKey, register_pytree_node

__all__ = ["immutable_dict", "immutable_list"]

Element = TypeVar("Element")
Key = TypeVar("Key")
Value = TypeVar("Value")

HINT = (
    "If you are attempting to modify the kwargs or args of a torch.fx.Node object, instead create a new copy of it and "
    "assign the copy to the node: node.args = new_args, or use node.update_arg(index, value)."
)


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__!r} object does not support mutation. {HINT} Got a call of {name}."
        )

    refuse.__name__ = name
    return refuse


class immutable_list(list[Element]):
    """A list that cannot be changed, and so can be hashed.

    Example:
        >>> from triten.fx.immutable_collections import immutable_list
        >>> immutable_list([1, 2]) == [1, 2], hash(immutable_list([1])) == hash((1,))
        (True, True)
    """

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self),)


class immutable_dict(dict[Key, Value]):
    """A dict that cannot be changed, and so can be hashed.

    Example:
        >>> from triten.fx.immutable_collections import immutable_dict
        >>> immutable_dict(dim=1) == {"dim": 1}
        True
    """

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self.items()),)


_CHANGING: dict[type, str] = {
    immutable_list: (
        "__delitem__ __iadd__ __imul__ __setitem__ append clear extend insert pop remove reverse sort"
    ),
    immutable_dict: "__delitem__ __ior__ __setitem__ clear pop popitem setdefault update",
}
for _class, _names in _CHANGING.items():
    for _name in _names.split():
        setattr(_class, _name, _refusing(_name))

register_pytree_node(
    immutable_list,
    lambda tree: (list(tree), None),
    lambda children, _: immutable_list(children),
    serialized_type_name="torch.fx.immutable_collections.immutable_list",
    flatten_with_keys_fn=lambda tree: ([(SequenceKey(i), each) for i, each in enumerate(tree)], None),
)
register_pytree_node(
    immutable_dict,
    lambda tree: (list(tree.values()), list(tree)),
    lambda children, keys: immutable_dict(zip(keys, children, strict=True)),
    serialized_type_name="torch.fx.immutable_collections.immutable_dict",
    flatten_with_keys_fn=lambda tree: ([(MappingKey(key), each) for key, each in tree.items()], list(tree)),
)

"""Nested states as flat ones with dotted names, and back.

Dicts are followed, and lists that have dicts or tensors in them. All else is one object. Empty dicts leave nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from ...dispatch.tensor import Tensor

__all__ = ["flatten_state_dict", "set_element", "unflatten_state_dict"]

Path = tuple[Any, ...]


def _is_followed(value: Any) -> bool:
    if isinstance(value, list):
        return any(isinstance(each, Tensor) or _is_followed(each) for each in value)
    return isinstance(value, Mapping)


def _leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _leaves((*path, key), each)
    elif _is_followed(value):
        for number, each in enumerate(value):
            yield from _leaves((*path, number), each)
    else:
        yield path, value


def flatten_state_dict(state_dict: Mapping[Any, Any]) -> tuple[dict[str, Any], dict[str, Path]]:
    """Flatten a nested state, and return the path of keys for each name.

    Args:
        state_dict: dicts and lists of tensors and objects.

    Raises:
        ValueError: two values have the same dotted name.

    Example:
        >>> from triten.distributed.checkpoint.nested_dict import flatten_state_dict
        >>> flatten_state_dict({"model": {"bias": 1}, "step": 2})
        ({'model.bias': 1, 'step': 2}, {'model.bias': ('model', 'bias'), 'step': ('step',)})
    """
    flat: dict[str, Any] = {}
    paths: dict[str, Path] = {}
    for path, value in _leaves((), state_dict):
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"duplicated flatten key {name}: {paths[name]} and {path}")
        flat[name], paths[name] = value, path
    return flat, paths


def set_element(root: dict[Any, Any], path: Path, value: Any) -> None:
    """Set the element at a path of keys; create dicts, and lists for integer keys, on the way.

    Example:
        >>> from triten.distributed.checkpoint.nested_dict import set_element
        >>> state = {}
        >>> set_element(state, ("layers", 1, "bias"), 3); state
        {'layers': [None, {'bias': 3}]}
    """
    container: Any = root
    for key, following in pairwise(path):
        made: Any = [] if type(following) is int else {}
        if isinstance(container, list):
            container += [None] * (key + 1 - len(container))
            container[key] = made if container[key] is None else container[key]
            container = container[key]
        else:
            container = container.setdefault(key, made)
    if isinstance(container, list):
        container += [None] * (path[-1] + 1 - len(container))
    container[path[-1]] = value


def unflatten_state_dict(flat: Mapping[str, Any], paths: Mapping[str, Path]) -> dict[Any, Any]:
    """Rebuild the nested state from a flat one."""
    nested: dict[Any, Any] = {}
    for name, value in flat.items():
        set_element(nested, paths[name], value)
    return nested


def stored_paths(paths: Mapping[str, Path], state_dict: Mapping[Any, Any]) -> dict[str, Path]:
    """Return the paths as a checkpoint stores them: list positions as numbers, dict keys as strings."""
    result = {}
    for name, path in paths.items():
        container: Any = state_dict
        stored: list[Any] = []
        for key in path:
            stored.append(key if isinstance(container, list) else str(key))
            container = container[key]
        result[name] = tuple(stored)
    return result

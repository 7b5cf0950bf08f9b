"""Tensors in arguments and results: in tuples, lists, dictionaries, dataclasses, and `pytree` nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ...dispatch.tensor import Tensor
from ...utils._pytree import tree_flatten, tree_unflatten

__all__ = ["map_tensors", "tensors_of"]


def _fields(leaf: Any) -> list[str]:
    """Return the dataclass fields that the constructor takes; an empty list for other objects."""
    if not dataclasses.is_dataclass(leaf) or isinstance(leaf, type):
        return []
    return [each.name for each in dataclasses.fields(leaf) if each.init]


def tensors_of(value: Any) -> list[Tensor]:
    """Collect all tensors in a nested value, in order."""
    if isinstance(value, Tensor):
        return [value]
    tensors: list[Tensor] = []
    for leaf in tree_flatten(value)[0]:
        if isinstance(leaf, Tensor):
            tensors.append(leaf)
        else:
            for name in _fields(leaf):
                tensors += tensors_of(getattr(leaf, name))
    return tensors


def map_tensors(function: Callable[[Tensor], Tensor], value: Any) -> Any:
    """Apply a function to each tensor in a nested value. Return the value itself if no tensor changes."""
    if isinstance(value, Tensor):
        return function(value)
    leaves, structure = tree_flatten(value)
    mapped = [_mapped(function, leaf) for leaf in leaves]
    if all(new is old for new, old in zip(mapped, leaves, strict=True)):
        return value
    return tree_unflatten(mapped, structure)


def _mapped(function: Callable[[Tensor], Tensor], leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return function(leaf)
    changed = {}
    for name in _fields(leaf):
        value = getattr(leaf, name)
        new = map_tensors(function, value)
        if new is not value:
            changed[name] = new
    return dataclasses.replace(leaf, **changed) if changed else leaf

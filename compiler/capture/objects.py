"""The objects in arguments and results: which containers they are, and which values are the same in every call."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from ...runtime.size import Size
from ...runtime.tensor_impl import TensorImpl

FIXED = (types.ModuleType, types.BuiltinFunctionType, Size)
"""Objects that never change while a process runs, or that compare equal between calls."""


def containers_in(value: Any) -> Iterator[Any]:
    """Yield the lists, dicts and deques in a nest."""
    if isinstance(value, list | dict | deque):
        yield value
    if isinstance(value, tuple | list | deque):
        for each in value:
            yield from containers_in(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from containers_in(each)


def has_hooks(tensor: TensorImpl) -> bool:
    """Return True if a tensor has gradient hooks."""
    edge = None if tensor._autograd is None else tensor._autograd.edge
    return edge is not None and edge[0].hooks is not None


class Identities:
    """A set of objects by identity."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._ids = {id(value) for value in values}

    def __contains__(self, value: object) -> bool:
        return id(value) in self._ids

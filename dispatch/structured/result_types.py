"""Named results: operators that return several tensors return a named tuple, as ``torch.return_types`` does."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..schema import FunctionSchema

_types: dict[tuple[str, tuple[str, ...]], Any] = {}


def result_type_of(schema: FunctionSchema) -> Callable[[Sequence[Any]], Any] | None:
    """What makes an operator's results from a sequence: a named tuple's making, `tuple`, or None for a single one.

    Named tuples' own `_make` counts the elements, which takes as long as the rest of it.
    """
    if len(schema.returns) < 2:
        return None
    names = tuple(r.name or "" for r in schema.returns)
    if not all(names):
        return tuple
    return partial(tuple.__new__, named_results(schema.operator_name.base_name, names))


def named_results(base: str, names: tuple[str, ...]) -> Any:
    """The one class of an operator's results."""
    key = (base, names)
    if key not in _types:
        _types[key] = namedtuple(base, names)
    return _types[key]

"""Named results: operators that return several tensors return a named tuple, as ``torch.return_types`` does."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from ...runtime import public_name
from ..schema import FunctionSchema

MODULE = f"{__package__.partition('.')[0]}.return_types"
"""The module that holds the classes by name, also for pickles: `rename` changes it."""

_types: dict[tuple[str, tuple[str, ...]], Any] = {}


def rename(module: str) -> None:
    """Set the name of the module that the classes name as their own."""
    global MODULE
    MODULE = module
    for each in _types.values():
        each.__module__ = module


def result_type_of(schema: FunctionSchema) -> Callable[[Sequence[Any]], Any] | None:
    """Return the constructor of an operator's results: a named tuple's, `tuple`, or None for a single result.

    It skips the `_make` of named tuples, whose length check takes as long as the rest of the construction.
    """
    if len(schema.returns) < 2:
        return None
    result_class = class_of_results(schema)
    return tuple if result_class is None else partial(tuple.__new__, result_class)


def class_of_results(schema: FunctionSchema) -> Any:
    """Return the named tuple class of an operator's results; None for a single result or an unnamed one."""
    names = tuple(r.name or "" for r in schema.returns)
    return named_results(schema.operator_name.base_name, names) if len(names) > 1 and all(names) else None


def named_results(base: str, names: tuple[str, ...]) -> Any:
    """Return the one named tuple class of an operator's results."""
    key = (base, names)
    if key not in _types:
        body = {
            "__slots__": (),
            "__module__": MODULE,
            "__new__": _of_sequence,
            "__reduce__": _reduced,
            "__repr__": _printed,
        }
        _types[key] = type(base, (namedtuple(base, names),), body)
    return _types[key]


def _of_sequence(cls: Any, sequence: Iterable[Any]) -> Any:
    values = tuple(sequence)
    if len(values) != len(cls._fields):
        raise TypeError(
            f"{MODULE}.{cls.__name__}() takes a sequence of {len(cls._fields)} elements, but got {len(values)}"
        )
    return tuple.__new__(cls, values)


def _reduced(self: Any) -> tuple[Any, ...]:
    return type(self), (tuple(self),)


def _printed(self: Any) -> str:
    fields = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"{public_name.shown}.return_types.{type(self).__name__}(\n{fields})"

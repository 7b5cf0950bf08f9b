"""`Record`: immutable values with named fields, like frozen dataclasses, for classes that every import creates.

`dataclasses` compiles six methods for each class, which costs half a millisecond of every start. Here all classes
share the methods. Modules that are imported later use dataclasses.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Self, dataclass_transform


@dataclass_transform(frozen_default=True)
class Record:
    """Base of a class whose annotations are its fields, in the order of the constructor's arguments.

    A value in the class is a field's default. `uncompared`, without an annotation, names fields that equality ignores.
    ``_check`` is called at the end of construction.

    Raises:
        TypeError: At construction, for missing or unknown fields.
        AttributeError: If a field is set or deleted.

    Example:
        >>> from triten.runtime.record import Record
        >>> class Point(Record):
        ...     x: int
        ...     y: int = 0
        >>> Point(1), Point(1) == Point(1, y=0), Point(1).replaced(y=2)
        (Point(x=1, y=0), True, Point(x=1, y=2))
    """

    uncompared: ClassVar[frozenset[str]] = frozenset()
    _fields: ClassVar[tuple[str, ...]] = ()
    _compared: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        annotations = inspect.get_annotations(cls)
        cls._fields = tuple(name for name in annotations if not name.startswith("_"))
        cls._compared = tuple(name for name in cls._fields if name not in cls.uncompared)
        cls._defaults = {name: cls.__dict__[name] for name in cls._fields if name in cls.__dict__}

    def __init__(self, *args: Any, **named: Any) -> None:
        own, fields = self.__dict__, self._fields
        if self._defaults:
            own.update(self._defaults)
        own.update(zip(fields, args, strict=False))
        own.update(named)
        if (
            len(own) != len(fields)
            or len(args) > len(fields)
            or not named.keys().isdisjoint(fields[: len(args)])
        ):
            raise TypeError(
                f"{type(self).__name__}: expected {', '.join(fields)}, got {len(args)} by position"
                f"{' and ' + ', '.join(named) if named else ''}"
            )
        self._check()

    def _check(self) -> None:
        """Raise for fields that are inconsistent with each other."""

    def replaced(self, **changes: Any) -> Self:
        """Return a copy with other values of some fields."""
        own = self.__dict__
        return type(self)(**{name: own[name] for name in self._fields} | changes)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        mine, theirs = self.__dict__, other.__dict__
        return all(mine[name] == theirs[name] for name in self._compared)

    def __hash__(self) -> int:
        own = self.__dict__
        return hash(tuple([own[name] for name in self._compared]))

    def __repr__(self) -> str:
        own = self.__dict__
        return f"{type(self).__qualname__}({', '.join(f'{name}={own[name]!r}' for name in self._fields)})"

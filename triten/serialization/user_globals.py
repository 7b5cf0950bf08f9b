"""Classes and functions that the user allows files to name (`add_safe_globals`), and those of this package that are
known once their modules are imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..runtime import public_name

_PACKAGE = __name__.partition(".")[0]

_allowed: dict[str, tuple[Any, Any]] = {}
"""The user's: by the full name the object, and the entry as it was given."""
_of_package: dict[str, Any] = {}
"""Those of modules of this package, which the user neither sees nor forgets."""


def _named(entry: Any) -> tuple[str, Any]:
    if not isinstance(entry, tuple):
        return f"{entry.__module__}.{entry.__qualname__}", entry
    if len(entry) != 2:
        raise ValueError(
            f"Expected tuple of length 2 (global, str of callable full path), but got tuple of length: {len(entry)}"
        )
    obj, name = entry
    if type(name) is not str:
        raise TypeError(
            f"Expected second item in tuple to be str of callable full path, but got: {type(name)}"
        )
    return name, obj


def allow_of_package(*objects: Any) -> None:
    """Allow `load` to use classes and functions of a module that is imported lazily."""
    _of_package.update(map(_named, objects))


def allowed_by_user() -> dict[str, Any]:
    """Return the objects that `add_safe_globals` and `allow_of_package` added, by their full names.

    Those of this package's modules have PyTorch's names too, which its files and those of `as_torch` have.
    """
    named = _of_package | {name: obj for name, (obj, _) in _allowed.items()}
    paths = {public_name.path_below(name): obj for name, obj in named.items()}
    paths.pop(None, None)
    both = {f"{root}.{path}": obj for path, obj in paths.items() for root in (_PACKAGE, "torch")}
    return both | named


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Allow `load` to use these classes and functions with ``weights_only`` (`torch.serialization`).

    A file can then call the functions with arguments of its choice and build objects of the classes. It can set their
    state by ``__setstate__`` if the class has one, else by setting attributes.

    Args:
        safe_globals: Classes and functions, or pairs of one and the full name that files have it under.

    Raises:
        ValueError: A tuple is no pair.
        TypeError: A name is no string.

    Example:
        >>> import triten as tt
        >>> from fractions import Fraction
        >>> tt.serialization.add_safe_globals([Fraction])
        >>> tt.serialization.get_safe_globals()
        [<class 'fractions.Fraction'>]
        >>> tt.serialization.clear_safe_globals()
    """
    for name, obj, entry in [(*_named(entry), entry) for entry in safe_globals]:
        _allowed[name] = obj, entry


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` added."""
    _allowed.clear()


def get_safe_globals() -> list[Any]:
    """Return the entries that `add_safe_globals` added, as given."""
    return [entry for _, entry in _allowed.values()]


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """Apply `add_safe_globals` inside a block.

    Example:
        >>> import triten as tt
        >>> from fractions import Fraction
        >>> with tt.serialization.safe_globals([Fraction]):
        ...     tt.serialization.get_safe_globals()
        [<class 'fractions.Fraction'>]
    """
    before = {name: _allowed.get(name) for name, _ in map(_named, safe_globals)}
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        for name, entry in before.items():
            if entry is None:
                _allowed.pop(name, None)
            else:
                _allowed[name] = entry

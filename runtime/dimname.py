"""Dimension names: validity, lookup, and matching of two lists.

A name is a str, or None, the wildcard, which matches every name. Source: ATen/core/Dimname.h,
ATen/NamedTensorUtils.h.
"""

from __future__ import annotations

from collections.abc import Sequence

Names = tuple[str | None, ...]

WILDCARD = "*"
"""The wildcard as a str, as in PyTorch."""


def is_valid_identifier(name: str) -> bool:
    """Return True for a valid name: ASCII letters, digits and underscores, no digit first.

    >>> is_valid_identifier("out_channels"), is_valid_identifier("2d")
    (True, False)
    """
    return name.isascii() and name.isidentifier()


def describe(names: Sequence[str | None]) -> str:
    """Format a list of names as in PyTorch's messages.

    >>> describe(("N", None))
    "['N', None]"
    """
    return f"[{', '.join(repr(name) for name in names)}]"


def checked_name(name: str | None) -> str | None:
    """Return a name, or None for the wildcard. Raise RuntimeError for an invalid identifier."""
    if name is None or name == WILDCARD:
        return None
    if not is_valid_identifier(name):
        raise RuntimeError(
            "Invalid name: a valid identifier contains only digits, alphabetical characters, and/or underscore and "
            f"starts with a non-digit. got: '{name}'."
        )
    return name


def checked_names(names: Sequence[str | None], ndim: int) -> Names:
    """Return the names of a tensor with `ndim` dimensions.

    Raises RuntimeError for an invalid name, for a wrong number of names, and for a duplicate.
    """
    made = tuple([checked_name(name) for name in names])
    if len(made) != ndim:
        raise RuntimeError(
            f"Number of names ({len(made)}) and number of dimensions in tensor ({ndim}) do not match. Attempted to "
            f"create a tensor with names {describe(made)}"
        )
    check_unique(made)
    return made


def check_unique(names: Names) -> None:
    """Raise RuntimeError for a duplicate name; the wildcard may repeat."""
    labels = [name for name in names if name is not None]
    if len(set(labels)) != len(labels):
        raise RuntimeError(f"Cannot construct a tensor with duplicate names. Got names: {describe(names)}.")


def position_of(name: str, names: Names) -> int:
    """Return the dimension with a name. Raise RuntimeError if there is none.

    >>> position_of("C", ("N", "C"))
    1
    """
    label = checked_name(name)
    if label is None:
        raise RuntimeError("Please look up dimensions by name, got: name = None.")
    if label not in names:
        raise RuntimeError(f"Name '{label}' not found in Tensor{describe(names)}.")
    return names.index(label)


def unify_from_right(names: Names, other: Names, action: str = "broadcast") -> Names:
    """Return the names of the result of two tensors, matched from the last dimension on.

    Raises:
        RuntimeError: If two names at one position differ, or if a name of one list meets a wildcard but is at another
            position in the other list.

    >>> unify_from_right(("N", None), ("B", None, "C"))
    ('B', 'N', 'C')
    """
    made: list[str | None] = []
    for back in range(1, max(len(names), len(other)) + 1):
        mine = names[-back] if back <= len(names) else None
        theirs = other[-back] if back <= len(other) else None
        if mine is not None and theirs is not None and mine != theirs:
            raise RuntimeError(
                f"Error when attempting to {action} dims {describe(names)} and dims {describe(other)}: dim {mine!r} "
                f"and dim {theirs!r} are at the same position from the right but do not match."
            )
        if theirs is None and mine is not None:
            _check_aligned(mine, names, other, action)
        if mine is None and theirs is not None:
            _check_aligned(theirs, other, names, action)
        made.append(theirs if mine is None else mine)
    return tuple(reversed(made))


def _check_aligned(name: str, names: Names, other: Names, action: str) -> None:
    if name in other:
        raise RuntimeError(
            f"Misaligned dims when attempting to {action} dims {describe(names)} and dims {describe(other)}: dim "
            f"{name!r} appears in a different position from the right across both lists."
        )

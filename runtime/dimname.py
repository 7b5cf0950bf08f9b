"""Names of dimensions: which are valid, where one stands, how two lists of them match.

A name is a str, or None, the wildcard, which matches every name. Source: ATen/core/Dimname.h,
ATen/NamedTensorUtils.h.
"""

from __future__ import annotations

from collections.abc import Sequence

Names = tuple[str | None, ...]

WILDCARD = "*"
"""How PyTorch lets a wildcard be written as a str."""


def is_valid_identifier(name: str) -> bool:
    """Whether a str can name a dimension: ASCII letters, digits and underscores, no digit first.

    >>> is_valid_identifier("out_channels"), is_valid_identifier("2d")
    (True, False)
    """
    return name.isascii() and name.isidentifier()


def describe(names: Sequence[str | None]) -> str:
    """A list of names as PyTorch's messages have it.

    >>> describe(("N", None))
    "['N', None]"
    """
    return f"[{', '.join(repr(name) for name in names)}]"


def checked_name(name: str | None) -> str | None:
    """One name with the wildcard as None. Raises RuntimeError for what is no identifier."""
    if name is None or name == WILDCARD:
        return None
    if not is_valid_identifier(name):
        raise RuntimeError(
            "Invalid name: a valid identifier contains only digits, alphabetical characters, and/or underscore and "
            f"starts with a non-digit. got: '{name}'."
        )
    return name


def checked_names(names: Sequence[str | None], ndim: int) -> Names:
    """The names of a tensor of `ndim` dimensions.

    Raises RuntimeError for a name that is no identifier, for a wrong number of them and for one that stands twice.
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
    """Raise RuntimeError where a name stands twice; the wildcard may."""
    given = [name for name in names if name is not None]
    if len(set(given)) != len(given):
        raise RuntimeError(f"Cannot construct a tensor with duplicate names. Got names: {describe(names)}.")


def position_of(name: str, names: Names) -> int:
    """Which dimension has a name. Raises RuntimeError where none has it.

    >>> position_of("C", ("N", "C"))
    1
    """
    found = checked_name(name)
    if found is None:
        raise RuntimeError("Please look up dimensions by name, got: name = None.")
    if found not in names:
        raise RuntimeError(f"Name '{found}' not found in Tensor{describe(names)}.")
    return names.index(found)


def unify_from_right(names: Names, other: Names, action: str = "broadcast") -> Names:
    """The names of what two tensors give together, matched from the last dimension on.

    Raises:
        RuntimeError: where two names at one position differ, and where a name of one list meets a wildcard but
            stands elsewhere in the other.

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

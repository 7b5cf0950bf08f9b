"""The package's name in the text of dtypes, sizes and others: `triten`, or the name it was imported under."""

from __future__ import annotations

shown = __name__.partition(".")[0]
"""Prefix before the dot in ``triten.float32``; "torch" in programs of `triten.as_torch`."""
_PACKAGE = shown


def path_below(module: str | None) -> str | None:
    """Return a module's path below this package, by the name that its classes have; None for another package's.

    Example:
        >>> from triten.runtime.public_name import path_below
        >>> path_below("triten.nn.functional"), path_below("triten"), path_below("numpy.linalg")
        ('nn.functional', '', None)
    """
    root, _, path = (module or "").partition(".")
    return path if root in (_PACKAGE, shown) else None

"""Reductions of losses by name, and by the two flags that names replaced."""

from __future__ import annotations

import warnings

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
"""Names of reductions, and what operators call them."""


WRAPPED = 4
"""The ``stacklevel`` of a warning, from a function that one with `overridable` calls."""


def reduction_of(
    reduction: str, size_average: bool | None = None, reduce: bool | None = None, stacklevel: int = WRAPPED
) -> int:
    """An operator's reduction from its name, or from the two flags that PyTorch deprecated for it.

    Raises ValueError for an unknown name.

    Example:
        >>> from triten.nn.reductions import reduction_of
        >>> reduction_of("sum")
        2
    """
    if size_average is not None or reduce is not None:
        average = True if size_average is None else size_average
        reduction = "none" if reduce is False else "mean" if average else "sum"
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
            stacklevel=stacklevel,
        )
    if not isinstance(reduction, str) or reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return REDUCTIONS[reduction]

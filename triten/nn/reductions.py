"""Reductions of losses by name, and by the two flags that names replaced."""

from __future__ import annotations

import warnings

from ..runtime.user_frame import levels_to_user

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
"""Names of reductions, and what operators call them."""


def get_enum(reduction: str) -> int:
    """Return what operators call a reduction: 0 for ``none``, 1 for ``mean``, 2 for ``sum``.

    Raises:
        ValueError: `reduction` is another name.

    Source: torch.nn._reduction.get_enum.
    """
    if reduction == "elementwise_mean":
        warnings.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.",
            stacklevel=levels_to_user(),
        )
        reduction = "mean"
    if not isinstance(reduction, str) or reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return REDUCTIONS[reduction]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """Return the name of the reduction that two deprecated flags stand for (`torch.nn._reduction`).

    Args:
        size_average: False sums losses; True and None average them.
        reduce: False leaves losses as they are.
        emit_warning: If True, warn of the deprecation.

    Example:
        >>> from triten.nn.reductions import legacy_get_string
        >>> legacy_get_string(False, None, emit_warning=False)
        'sum'
    """
    average = True if size_average is None else size_average
    reduction = "none" if reduce is not None and not reduce else "mean" if average else "sum"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
            stacklevel=levels_to_user(),
        )
    return reduction


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """Return what operators call the reduction that two deprecated flags stand for (`torch.nn._reduction`)."""
    return REDUCTIONS[legacy_get_string(size_average, reduce, emit_warning)]


def reduction_of(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> int:
    """Return an operator's reduction enum from its name, or from PyTorch's two deprecated flags.

    Raises:
        ValueError: The name is unknown.

    Example:
        >>> from triten.nn.reductions import reduction_of
        >>> reduction_of("sum")
        2
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    if not isinstance(reduction, str) or reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return REDUCTIONS[reduction]

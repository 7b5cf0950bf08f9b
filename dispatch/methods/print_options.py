"""Print options of tensors, set by the user and read by `printing` (torch/_tensor_str.py)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class PrintOptions:
    """Print options, shared by all threads."""

    __slots__ = ("edgeitems", "linewidth", "precision", "sci_mode", "threshold")
    precision: int
    threshold: float
    edgeitems: int
    linewidth: int
    sci_mode: bool | None


options = PrintOptions()
PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed, in every thread (`torch.set_printoptions`).

    Args:
        precision: Digits after the decimal point. Initially: 4.
        threshold: Tensors with more elements are printed abridged. Initially: 1000.
        edgeitems: Number of elements shown at either end of each dimension of an abridged output. Initially: 3.
        linewidth: Characters of a line. Initially: 80.
        profile: ``"default"``, ``"short"`` or ``"full"``, applied before the other options.
        sci_mode: If True, print exponents; None decides by the numbers. Initially: None.

    Raises ValueError for another profile.

    Example:
        >>> import triten as tt
        >>> tt.set_printoptions(precision=2, threshold=5, edgeitems=1)
        >>> tt.arange(9) / 3
        tensor([0.00,  ..., 2.67])
        >>> tt.set_printoptions(profile="default")
        >>> tt.arange(3) / 3
        tensor([0.0000, 0.3333, 0.6667])
    """
    if profile is not None and profile not in PROFILES:
        raise ValueError(f"set_printoptions: expected a profile of {sorted(PROFILES)}, but got {profile!r}")
    overrides = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    chosen = {} if profile is None else PROFILES[profile]
    for name, value in (*chosen.items(), *overrides.items()):
        if value is not None:
            setattr(options, name, value)
    options.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """Return the options by name, as `set_printoptions` takes them (`torch._tensor_str.get_printoptions`)."""
    return {name: getattr(options, name) for name in PrintOptions.__slots__}


@contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """Set how tensors are printed in the block (`torch._tensor_str.printoptions`).

    Args:
        **kwargs: The arguments of `set_printoptions`.

    Example:
        >>> import triten as tt
        >>> from triten.dispatch.methods.print_options import printoptions
        >>> with printoptions(precision=2):
        ...     print(tt.ones(2) / 3)
        tensor([0.33, 0.33])
    """
    before = get_printoptions()
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        set_printoptions(**before)


set_printoptions(profile="default")

"""Comparison of a program's results under two libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .program import GRADIENT_TOLERANCE, LOSS_TOLERANCE

# The share of the largest gradient below which one is rounding: that of a bias before a batch norm is zero but for it.
NEGLIGIBLE = 1e-3

# How many times as far as one rounding of the weights moves a result another library's may lie: it rounds everywhere.
AMPLIFIED = 4.0

Results = Mapping[str, np.ndarray[Any, Any]]


def disagreements(
    actual: Results, expected: Results, tolerance: float, moved: Sequence[Results] = ()
) -> list[str]:
    """List the differences between two results; empty if they agree.

    Every element of the forward pass must be within `tolerance` of the largest in its tensor. Integers and
    bools must be equal. Each parameter's gradient, as a norm and a sketch (`worker.sketch`), must be within
    1e-3 of its norm, or of a thousandth of the largest norm if that is more. The losses of the steps must be
    within 1e-3 of their size.

    `moved` are PyTorch's results with every weight changed by its last bit. If they are further from
    `expected` than accepted, the program amplifies rounding. Then `AMPLIFIED` times their distance is
    accepted.
    """
    if actual.keys() != expected.keys():
        missing, more = sorted(expected.keys() - actual.keys()), sorted(actual.keys() - expected.keys())
        return [f"results differ in kind: missing {missing[:3]}, more {more[:3]}"]
    largest = max((array[0] for name, array in expected.items() if name.startswith("gradient")), default=0.0)
    lines = []
    for name, theirs in expected.items():
        ours = actual[name]
        if ours.shape != theirs.shape:
            lines.append(f"{name}: shape {list(ours.shape)}, PyTorch's {list(theirs.shape)}")
            continue
        if theirs.size == 0:
            continue
        if theirs.dtype.kind not in "fc":
            if not np.array_equal(ours, theirs):
                lines.append(f"{name}: {np.mean(ours != theirs):.2%} of the elements differ")
            continue
        measure = distance if name.startswith("gradient") else difference
        if name == "losses":
            scale, limit = max(float(np.nanmax(np.abs(theirs))), 1e-3), LOSS_TOLERANCE
        elif name.startswith("gradient"):
            scale, limit = max(theirs[0], NEGLIGIBLE * largest), GRADIENT_TOLERANCE
        else:
            finite = np.abs(theirs[np.isfinite(theirs)])
            scale, limit = max(float(finite.max(initial=0.0)), 1e-6), tolerance
        error = measure(ours, theirs)
        spread = max((measure(each[name], theirs) for each in moved if name in each), default=0.0)
        limit = max(limit, AMPLIFIED * spread / scale if np.isfinite(spread) else 0.0)
        if not error <= limit * scale:
            lines.append(f"{name}: differs by {error / scale:.1e} of its size, {limit:.0e} is accepted")
    return lines


def distance(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> float:
    """Return the distance of two gradients by their sketches.

    A kink of an activation moves all elements of a gradient a little: single elements say little of it, and differ
    from one rounding to the next.

    Example:
        >>> import numpy as np
        >>> from triten.perf.programs.comparison import distance
        >>> distance(np.array([5.0, 3.0, 4.0]), np.array([5.0, 0.0, 0.0]))
        5.0
    """
    return float(np.linalg.norm(_apart(ours[1:], theirs[1:])))


def difference(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> float:
    """Return the largest difference; equal infinities, and nan against nan, count as zero.

    Example:
        >>> import numpy as np
        >>> from triten.perf.programs.comparison import difference
        >>> difference(np.array([1.0, np.nan, np.inf]), np.array([1.5, np.nan, np.inf]))
        0.5
    """
    return float(np.max(_apart(ours, theirs), initial=0.0))


def _apart(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return how far elements are apart.

    Equal infinities and nan beside nan are 0 apart, nan and a number infinitely far.
    """
    with np.errstate(invalid="ignore"):
        apart = np.abs(ours - theirs)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))

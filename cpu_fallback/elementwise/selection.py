"""Choosing between two arrays by a mask, without branches.

`np.where` decides at each element; where the mask has no pattern the processor guesses wrong every other time, which
costs more than the arithmetic around it.
"""

from __future__ import annotations

from typing import Any

from ..plain_numpy import np

SMALL = 2048
"""Limit below which the calls cost more than mispredicted branches."""

_BITS = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


def selected(mask: Any, a: Any, b: Any) -> Any:
    """Return `a` where the mask holds, else `b`, as a new array; elements not selected may be NaN or infinite.

    Example:
        >>> import numpy as np
        >>> x = np.arange(-3, 3)
        >>> selected(x < 0, -x, x).tolist()
        [3, 2, 1, 0, 1, 2]
    """
    dtype = a.dtype
    bits = _BITS.get(dtype.itemsize)
    if bits is None or mask.size <= SMALL or dtype != b.dtype:
        return np.where(mask, a, b)
    b = b.view(bits)
    # A product with 0 or 1: a mask of bits would have to be made from the bools first.
    made = np.multiply(np.bitwise_xor(a.view(bits), b), mask)
    return np.bitwise_xor(made, b, made).view(dtype)

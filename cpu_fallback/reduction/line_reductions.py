"""Reductions of lines whose elements lie side by side, in vectors where ``ufunc.reduce`` takes a few at a time."""

from __future__ import annotations

from typing import Any

from numpy._core.multiarray import c_einsum  # np.einsum without its planning

from ..plain_numpy import np
from .line_loops import EXTREMA, LINE_SQUARE_SUMS, LINE_SUMS, LONGEST, RUN_SUMS

Array = np.ndarray[Any, Any]

RUN = 512
"""Elements that are added into the lanes of a few vectors before their sums are added as a line of their own."""
DIRECT = 2 * RUN
"""The longest line that is added at once."""
LONG_PRODUCT = 256
"""Numbers of the shortest lines that are worth more calls than one."""
SHORT_LINE = 1 << 12
"""The longest line of which the place of the extremum is found sooner than the extremum: np.maximum begins slowly."""
SIXTEEN = 16
"""Numbers that NumPy's einsum adds at a time."""
LOCATED: dict[np.ufunc, Any] = {np.maximum: np.ndarray.argmax, np.minimum: np.ndarray.argmin}
"""Functions that find the index of a maximum or minimum, NaN before all others."""
FEW_LINES = 8
"""Lines from which threads share whole lines rather than the runs of one line."""
_HIGH_HALF = np.uint32(0xFFFF0000)
_HALF = np.uint32(16)


def line_sums(array: Any) -> Any:
    """Sum real floats along the last axis.

    A run's error is that of some tens of sequential additions. Runs of runs make the error grow with the
    logarithm of the length, as in pairwise summation (The accuracy of floating point summation, Higham,
    1993).

    Example:
        >>> import numpy as np
        >>> line_sums(np.full((2, 10000), 0.5, np.float32))
        array([5000., 5000.], dtype=float32)
    """
    length = array.shape[-1]
    if length <= DIRECT:
        return run_sums(array)
    if array.size >= FEW_LINES * length:
        result = LINE_SUMS.reduced(array) if length <= LONGEST else None
        if result is not None:
            return result
    elif array.ndim == 2 and len(array) > 1 and length % RUN:
        return np.array([line_sums(line) for line in array])  # The runs of one line are contiguous.
    runs = length // RUN
    head = array[..., : runs * RUN].reshape(*array.shape[:-1], runs, RUN)
    total = line_sums(run_sums(head))
    if runs * RUN < length:
        total = total + c_einsum("...i->...", array[..., runs * RUN :])
    return total


def run_sums(array: Any, out: Any = None) -> Any:
    """Sum along the last axis with einsum's loop, or with a compiled loop whose results are bitwise identical."""
    result = RUN_SUMS.reduced(array, out)
    if result is not None:
        return result
    return c_einsum("...i->...", array) if out is None else c_einsum("...i->...", array, out=out)


def line_square_sums(array: Array) -> Any:
    """Sum the squares of real floats along the last axis, as `line_sums` adds them.

    Example:
        >>> import numpy as np
        >>> line_square_sums(np.full((2, 10000), 0.5, np.float32))
        array([2500., 2500.], dtype=float32)
    """
    result = LINE_SQUARE_SUMS.reduced(array) if array.shape[-1] <= LONGEST else None
    return line_sums(np.square(array)) if result is None else result


def adds_lines(array: Any, axis: int, np_dtype: Any) -> bool:
    """Return True if `line_sums` sums an array along this axis in this dtype."""
    return bool(
        array.dtype == np_dtype
        and np_dtype.kind == "f"
        and axis == array.ndim - 1
        and array.strides[axis] == array.itemsize
        and np_dtype.itemsize >= 4
    )


def bfloat16_line_sums(array: Any) -> Any:
    """`line_sums` in float32 of contiguous bfloat16, an even number in each line.

    Two neighbours are one word, whose halves are brought to float32 apart: in whole vectors, and without the GIL.
    """
    words = array.view(np.uint32)
    wide = np.empty((2, *words.shape), np.uint32)
    np.left_shift(words, _HALF, wide[0])
    np.bitwise_and(words, _HIGH_HALF, wide[1])
    first, second = line_sums(wide.view(np.float32))
    return first + second


def line_extrema(array: Any, locate: Any, starts: Any, out: Any = None) -> Any:
    """Return the elements that ``locate(array, axis)`` finds in a contiguous matrix whose lines begin at
    `starts`, or those of a compiled loop, which are bitwise identical.
    """
    result = EXTREMA[locate].reduced(array, out)
    if result is not None:
        return result
    flat_indices = locate(array, 1)
    flat_indices += starts
    return array.reshape(-1).take(flat_indices, None, out, "clip")


def line_extremum(line: Any, locate: Any) -> Any:
    """Return the element that ``locate(array)`` finds in a contiguous line."""
    whole = line.size // SHORT_LINE * SHORT_LINE
    extrema = EXTREMA[locate].reduced(line[:whole].reshape(-1, SHORT_LINE)) if whole else None
    if extrema is None:
        return line[locate(line)]
    if whole < line.size:
        extrema = np.append(extrema, line[whole:])
    return extrema[locate(extrema)]

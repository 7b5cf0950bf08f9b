"""NumPy views of operands in iteration order, and the loop that passes them on in 1-D and 2-D batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .dim_counter import DimCounter

if TYPE_CHECKING:
    from numpy.typing import NDArray

Loop = Callable[..., object]
"""``loop(*arrays)``: called with a view of each operand, outputs first, all of one rank."""


class _Window:
    """Array interface over strided memory of an array, which it keeps alive."""

    __slots__ = ("__array_interface__", "array")

    def __init__(
        self, array: NDArray[Any], shape: tuple[int, ...], strides: tuple[int, ...], offset: int
    ) -> None:
        self.array = array
        address, read_only = array.__array_interface__["data"]
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "strides": strides,
            # ml_dtypes' dtypes have no typestr, or one that NumPy cannot read: use raw bytes of their size.
            "typestr": array.dtype.str if array.dtype.isbuiltin == 1 else f"|V{array.itemsize}",
            "data": (address + offset, read_only),
        }


def strided_view(
    array: NDArray[Any], shape: Sequence[int], stride_bytes: Sequence[int], offset: int = 0
) -> NDArray[Any]:
    """Return a view of `array`'s memory from dimensions given fastest first; the view's last dimension is the
    fastest.

    Without dimensions, return a 1-D view of one element.

    >>> strided_view(np.arange(6), (2, 3), (24, 8))
    array([[0, 3],
           [1, 4],
           [2, 5]])
    """
    sizes, strides = (tuple(shape[::-1]), tuple(stride_bytes[::-1])) if len(shape) else ((1,), (0,))
    if 0 in sizes:
        return np.empty(sizes, array.dtype)
    view = np.asarray(_Window(array, sizes, strides, offset))
    return view if view.dtype == array.dtype else view.view(array.dtype)


def serial_for_each(shape: Sequence[int], views: Sequence[Any], loop: Loop, begin: int, end: int) -> None:
    """Call `loop` over a range of linear indices in batches of at most two dimensions.

    Args:
        shape: Sizes, fastest first.
        views: One view for each operand, from `strided_view`; size 1 along dimensions that a reduction's output
            lacks.
    """
    if end <= begin:
        return
    rank = len(shape)
    whole = begin == 0 and all(view.ndim <= 2 for view in views) and DimCounter(shape).end == end
    if whole:
        loop(*views)
        return
    if rank == 1:
        loop(*[view if view.shape[0] == 1 and shape[0] != 1 else view[begin:end] for view in views])
        return
    counter = DimCounter(shape, begin, end)
    fixed = [[view.shape[rank - 1 - dim] == 1 for dim in range(rank)] for view in views]
    while not counter.is_done():
        step = counter.max_2d_step()
        values = counter.values
        batch = []
        for view, is_fixed in zip(views, fixed, strict=True):
            index: list[int | slice] = [0 if is_fixed[dim] else values[dim] for dim in range(rank - 1, 1, -1)]
            for dim in (1, 0):
                start = values[dim]
                index.append(slice(0, 1) if is_fixed[dim] else slice(start, start + step[dim]))
            batch.append(view[tuple(index)])
        loop(*batch)
        counter.increment(step)

"""Which elements of a line each window over it has, and what follows for windows over several dimensions.

Small arrays are pooled by tables made of this: there each call of NumPy costs more than the elements that it is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..dispatch.structured.stub import PlannedKernel
from ..runtime.tensor_spec import TensorSpec
from .plain_numpy import np
from .windows import Window

Array = np.ndarray[Any, Any]

MAX_TABLE_ELEMENTS = 1 << 12
"""Maximum number of elements of all windows for which a table is faster than one tap after another."""


class LineTaps(NamedTuple):
    """Along one dimension of `n` elements: the place of each tap of each window, and whether it is inside."""

    n: int
    at: Array
    there: Array

    @property
    def matrix(self) -> Array:
        """(n, windows): how often each window has each element."""
        made = np.zeros((self.n, len(self.at)))
        columns = np.broadcast_to(np.arange(len(self.at))[:, None], self.at.shape)
        np.add.at(made, (self.at[self.there], columns[self.there]), 1)
        return made


def window_taps(window: Window) -> list[LineTaps]:
    """Return the taps of sliding windows; taps in the padding are masked out."""
    lines = []
    for n, k, s, p, d, out in zip(
        window.spatial, window.kernel, window.stride, window.padding, window.dilation, window.out, strict=True
    ):
        at = (np.arange(out) * s - p)[:, None] + np.arange(k) * d
        lines.append(LineTaps(n, at, (at >= 0) & (at < n)))
    return lines


def even_taps(spatial: Sequence[int], out: Sequence[int]) -> list[LineTaps]:
    """Return the taps of adaptive windows, none of them empty."""
    lines = []
    for n, size in zip(spatial, out, strict=True):
        o = np.arange(size)
        start, end = o * n // size, -(-(o + 1) * n // size)
        at = start[:, None] + np.arange(int((end - start).max()))
        lines.append(LineTaps(n, at, at < end[:, None]))
    return lines


def joined_taps(lines: Sequence[LineTaps]) -> tuple[Array, Array]:
    """(windows, taps) of all dimensions, the last one fastest: the number of each in its plane, and whether it is."""
    flat, there = np.zeros((1, 1), np.int64), np.ones((1, 1), np.bool_)
    for line in lines:
        windows, taps = len(flat) * len(line.at), flat.shape[1] * line.at.shape[1]
        flat = (flat[:, None, :, None] * line.n + line.at[None, :, None, :]).reshape(windows, taps)
        there = (there[:, None, :, None] & line.there[None, :, None, :]).reshape(windows, taps)
    return flat, there


def maxima_by_table(
    spec: TensorSpec,
    outputs: Sequence[TensorSpec],
    lines: Sequence[LineTaps],
    np_dtype: np.dtype[Any],
    general: Callable[[Any, Any, Any], None],
) -> PlannedKernel | None:
    """Return the max-pool kernel of a small array, which gathers all taps of all windows into one array.

    A missing tap repeats its window's first tap. `general` serves inputs with a NaN. Return None if there are
    too many taps, or a window without any.
    """
    rank = len(lines)
    planes = math.prod(spec.sizes[:-rank])
    area = math.prod(line.n for line in lines)
    count = planes * math.prod(line.at.size for line in lines)
    if not 0 < count <= MAX_TABLE_ELEMENTS:
        return None
    index, there = joined_taps(lines)
    if not there.any(1).all():
        return None
    local = np.where(there, index, np.take_along_axis(index, there.argmax(1)[:, None], 1))
    table = (np.arange(planes)[:, None, None] * area + local).reshape(-1, local.shape[1])
    places = np.ascontiguousarray(np.broadcast_to(local, (planes, *local.shape))).reshape(-1)
    starts = np.arange(0, table.size, table.shape[1])
    sizes, out_np = outputs[0].sizes, outputs[0].np_dtype
    widens, is_float = spec.np_dtype != np_dtype, np_dtype.kind == "f"
    flat_indices = outputs[1].is_contiguous

    def found(array: Any) -> tuple[Any, Any] | None:
        candidates = array.take(table)
        if widens:
            candidates = candidates.astype(np_dtype)
        at = candidates.argmax(1)
        at += starts
        best = candidates.take(at)
        # The product of a line with itself is NaN only where there is one.
        if is_float and (square := best.dot(best)) != square:
            return None
        return best.astype(out_np) if widens else best, at

    def into(values: Any, indices: Any, array: Any) -> None:
        made = found(array)
        if made is None:
            general(values, indices, array)
            return
        best, at = made
        values[...] = best.reshape(sizes)
        if flat_indices:
            places.take(at, None, indices.reshape(-1), "clip")
        else:
            indices[...] = places.take(at).reshape(sizes)

    def first(array: Any) -> Any:
        made = found(array)
        if made is not None:
            return made[0].reshape(sizes)
        values = np.empty(sizes, out_np)
        general(values, np.empty(sizes, np.int64), array)
        return values

    return PlannedKernel(into, quiet=True, first=first)

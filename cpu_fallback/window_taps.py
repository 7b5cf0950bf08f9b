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
    """Along one dimension of `n` elements: the position of each tap of each window, and whether it is inside."""

    n: int
    positions: Array
    is_valid: Array

    @property
    def matrix(self) -> Array:
        """(n, windows): how often each window has each element."""
        made = np.zeros((self.n, len(self.positions)))
        columns = np.broadcast_to(np.arange(len(self.positions))[:, None], self.positions.shape)
        np.add.at(made, (self.positions[self.is_valid], columns[self.is_valid]), 1)
        return made


def window_taps(window: Window) -> list[LineTaps]:
    """Return the taps of sliding windows; taps in the padding are masked out."""
    lines = []
    for n, k, s, p, d, out in zip(
        window.spatial, window.kernel, window.stride, window.padding, window.dilation, window.out, strict=True
    ):
        positions = (np.arange(out) * s - p)[:, None] + np.arange(k) * d
        lines.append(LineTaps(n, positions, (positions >= 0) & (positions < n)))
    return lines


def even_taps(spatial: Sequence[int], out: Sequence[int]) -> list[LineTaps]:
    """Return the taps of adaptive windows, none of them empty."""
    lines = []
    for n, size in zip(spatial, out, strict=True):
        o = np.arange(size)
        start, end = o * n // size, -(-(o + 1) * n // size)
        positions = start[:, None] + np.arange(int((end - start).max()))
        lines.append(LineTaps(n, positions, positions < end[:, None]))
    return lines


def joined_taps(lines: Sequence[LineTaps]) -> tuple[Array, Array]:
    """(windows, taps) of all dimensions, the last one fastest: the number of each in its plane, and whether it is."""
    flat, is_valid = np.zeros((1, 1), np.int64), np.ones((1, 1), np.bool_)
    for line in lines:
        windows, taps = len(flat) * len(line.positions), flat.shape[1] * line.positions.shape[1]
        flat = (flat[:, None, :, None] * line.n + line.positions[None, :, None, :]).reshape(windows, taps)
        is_valid = (is_valid[:, None, :, None] & line.is_valid[None, :, None, :]).reshape(windows, taps)
    return flat, is_valid


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
    count = planes * math.prod(line.positions.size for line in lines)
    if not 0 < count <= MAX_TABLE_ELEMENTS:
        return None
    index, is_valid = joined_taps(lines)
    if not is_valid.any(1).all():
        return None
    local = np.where(is_valid, index, np.take_along_axis(index, is_valid.argmax(1)[:, None], 1))
    table = (np.arange(planes)[:, None, None] * area + local).reshape(-1, local.shape[1])
    positions = np.ascontiguousarray(np.broadcast_to(local, (planes, *local.shape))).reshape(-1)
    starts = np.arange(0, table.size, table.shape[1])
    sizes, out_np = outputs[0].sizes, outputs[0].np_dtype
    widens, is_float = spec.np_dtype != np_dtype, np_dtype.kind == "f"
    flat_indices = outputs[1].is_contiguous

    def found(array: Any) -> tuple[Any, Any] | None:
        candidates = array.take(table)
        if widens:
            candidates = candidates.astype(np_dtype)
        best_indices = candidates.argmax(1)
        best_indices += starts
        best = candidates.take(best_indices)
        # The product of a line with itself is NaN only where there is one.
        if is_float and (square := best.dot(best)) != square:
            return None
        return best.astype(out_np) if widens else best, best_indices

    def into(values: Any, indices: Any, array: Any) -> None:
        made = found(array)
        if made is None:
            general(values, indices, array)
            return
        best, best_indices = made
        values[...] = best.reshape(sizes)
        if flat_indices:
            positions.take(best_indices, None, indices.reshape(-1), "clip")
        else:
            indices[...] = positions.take(best_indices).reshape(sizes)

    def first(array: Any) -> Any:
        made = found(array)
        if made is not None:
            return made[0].reshape(sizes)
        values = np.empty(sizes, out_np)
        general(values, np.empty(sizes, np.int64), array)
        return values

    return PlannedKernel(into, quiet=True, first=first)

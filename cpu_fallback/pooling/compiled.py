"""Pooling of contiguous and channels-last tensors by compiled loops (`pool_loop.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel
from ...runtime.cpu.loop_requests import Loop, Sharing, loop_now, shared_loop
from ...runtime.memory_format import channels_last, channels_last_3d
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..window_taps import LineTaps, joined_taps

Array = np.ndarray[Any, Any]
Kernel = Callable[..., None]

COMPILE_THRESHOLD = 1 << 14
"""Elements from which a loop is compiled; NumPy takes some 50 us for them."""
SHARED_FROM, WAKING_FROM = 1 << 15, 1 << 18
"""Elements of all windows from which threads share a loop, and from which sleeping threads are woken for it."""
PARTS = 16
"""Parts of a loop, which threads take one by one."""
LINE = 16
"""Channels of a part at least: a cache line of float32."""
MAX_TAPS = 1 << 20
"""Maximum number of taps in a table."""
MAX_KNOWN = 8
"""Maximum width of a window whose columns are known when its loop is compiled."""


class Columns(NamedTuple):
    """Columns of windows, known when a loop is compiled.

    Attributes:
        count: Columns of a complete window; 0 if windows differ. Default: 0.
        stride: Columns between complete windows. Default: 1.
        dilation: Columns between elements of a window. Default: 1.
        is_direct: If True, windows have one row, so there is no first stage. Default: False.
    """

    count: int = 0
    stride: int = 1
    dilation: int = 1
    is_direct: bool = False


def _pool_loop(kind: str, dtype: str, *options: Columns | bool) -> Loop | None:
    from .pool_loop import pool_loop

    return loop_now(pool_loop, kind, dtype, *options)


def is_large(spec: TensorSpec) -> bool:
    """Return True if a tensor has a dtype of loops, enough elements, and fewer than an index of 32 bits can tell."""
    return spec.dtype.name in ("float32", "float64") and COMPILE_THRESHOLD <= spec.numel < 1 << 31


def planned(kernel: Kernel, spec: TensorSpec) -> PlannedKernel:
    """Return the planned kernel of a compiled loop over a tensor."""
    chosen("a compiled loop", "{} elements are at least {}", spec.numel, COMPILE_THRESHOLD)
    return PlannedKernel(kernel, quiet=True)


def is_channels_last(spec: TensorSpec, rank: int) -> bool | None:
    """Return whether a tensor is channels-last or contiguous; None if it is neither."""
    if spec.is_contiguous:
        return False
    dense = spec.ndim == rank + 2 and spec.suggest_memory_format() in (channels_last, channels_last_3d)
    return True if dense and spec.is_dense() else None


class Tables:
    """Table of a loop, and numbers of its parts.

    Args:
        lines: Taps of the windows along each dimension.
        planes: Number of planes.
        channels: Channels of a position of channels-last tensors; 0 for contiguous ones.
        spreads: If True, columns are summed before rows.
    """

    def __init__(self, lines: Sequence[LineTaps], planes: int, channels: int, spreads: bool = False) -> None:
        self.is_last = channels > 0
        self.planes = planes
        flat, is_valid = joined_taps(lines if self.is_last else lines[:-1])
        counts = is_valid.sum(1)
        last = lines[-1]
        column_counts = last.is_valid.sum(1)
        self.has_empty = not counts.all() or (not self.is_last and not column_counts.all())
        self.rows = len(flat)
        indices = flat[is_valid]
        area = math.prod(line.n for line in lines)
        self.columns: Columns | None = None
        low = high = 0
        if self.is_last:
            self.width = width = channels
            offsets, parts = indices * channels, []
            area *= channels
        else:
            self.width, width = last.n, len(last.positions)
            indices, offsets = indices * last.n, indices * (width if spreads else last.n)
            starts = last.positions[np.arange(width), last.is_valid.argmax(1)] if width else column_counts
            parts = [starts, column_counts]
            step = int(last.positions[0, 1] - last.positions[0, 0]) if last.positions.shape[1] > 1 else 1
            self.columns, low, high = _complete(last, step)
            self.columns = self.columns._replace(is_direct=not spreads and bool((counts == 1).all()))
        self.taps = len(indices) * self.width
        self.spreads = spreads
        self.workspace = area // max(last.n, 1) * width if spreads else self.width
        self.table = np.concatenate([[0], np.cumsum(counts), offsets, indices, *parts]).astype(np.int64)
        self.numbers = [self.rows, self.width, width, area, len(indices), low, high]

    def run(
        self, kind: str, dtype: np.dtype[Any], item: int, options: tuple[bool, ...], position: int
    ) -> Kernel | None:
        """Return a loop over all rows of results; None if there is no loop.

        Args:
            kind: Kind of the loop.
            dtype: NumPy's dtype.
            item: Bytes of an element of the workspace.
            options: Options of the loop after its dtype and columns.
            position: Position of the workspace among the loop's arrays.
        """
        loop = _pool_loop(kind, dtype.name, self.columns, *options)
        if loop is None:
            return None
        total, work = self.planes * (1 if self.spreads else self.rows), self.planes * self.taps
        sharing = Sharing.of(work, SHARED_FROM, WAKING_FROM)
        size = -(-total // PARTS) if sharing else total
        parts = [
            np.array([first, min(first + size, total), *self.numbers], np.int64)
            for first in range(0, total, size)
        ]
        return shared_loop(loop, parts, sharing, (position, item * self.workspace))


def _complete(line: LineTaps, step: int) -> tuple[Columns, int, int]:
    """Return the columns of complete windows and their range; of none if they are not at a stride."""
    complete = line.is_valid.all(1).nonzero()[0]
    count = line.positions.shape[1]
    if len(complete) < 2 or not 0 < count <= MAX_KNOWN or len(complete) != complete[-1] - complete[0] + 1:
        return Columns(dilation=step), 0, 0
    strides = np.diff(line.positions[complete, 0])
    if (strides != strides[0]).any():
        return Columns(dilation=step), 0, 0
    return Columns(count, int(strides[0]), step), int(complete[0]), int(complete[-1]) + 1


def transposed(line: LineTaps) -> LineTaps:
    """Return, for each element of a dimension as a window, the windows that have it as its elements."""
    contains = line.matrix > 0
    counts = contains.sum(1)
    positions = np.argsort(~contains, 1, "stable")[:, : int(counts.max(initial=0))]
    return LineTaps(len(line.positions), positions, np.arange(positions.shape[1]) < counts[:, None])


def _in_order(arrays: Sequence[Array], rank: int, is_last: bool) -> list[Array] | None:
    """Return arrays in the order of memory; None if one has another layout, or shares memory with the first."""
    if is_last:
        order = (0, *range(2, rank + 2), 1)
        arrays = [a.transpose(order) for a in arrays]
    if not all(a.flags.c_contiguous for a in arrays):
        return None
    return None if any(np.may_share_memory(arrays[0], a) for a in arrays[1:]) else list(arrays)


def _planes_of(spec: TensorSpec, rank: int, is_last: bool) -> tuple[int, int]:
    """Return the number of planes, and the channels of a position or 0."""
    return (spec.sizes[0], spec.sizes[1]) if is_last else (math.prod(spec.sizes[:-rank]), 0)


def _whole(lines: Sequence[LineTaps]) -> Sequence[LineTaps]:
    """Return lines, or one line of all elements if the only window has them, or each window has the only element."""
    area, count = math.prod(line.n for line in lines), math.prod(len(line.positions) for line in lines)
    if not all(line.is_valid.all() and line.positions.size == line.n * len(line.positions) for line in lines):
        return lines
    if count == 1:
        positions = np.arange(area)[None]
    elif area == 1:
        positions = np.zeros((count, 1), np.int64)
    else:
        return lines
    one = np.zeros((1, 1), np.int64)
    return [LineTaps(1, one, one == 0), LineTaps(area, positions, positions >= 0)]


def _tables(
    spec: TensorSpec, lines: Callable[[], Sequence[LineTaps]], spreads: bool | None = None
) -> tuple[Tables, int, bool] | None:
    """Return the tables, the number of spatial dimensions, and whether tensors are channels-last; None without loops.

    `spreads` is None for maxima, else whether columns of contiguous tensors are summed first.
    """
    if _pool_loop("scatter", "float32", False) is None:
        return None
    windows = lines()
    rank = len(windows)
    is_last = is_channels_last(spec, rank)
    if is_last is None or not all(line.positions.size for line in windows):
        return None
    planes = _planes_of(spec, rank, is_last)
    if not is_last:
        windows = _whole(windows)
    if math.prod(line.positions.size for line in (windows if is_last else windows[:-1])) > MAX_TAPS:
        return None
    return Tables(windows, *planes, bool(spreads) and not is_last), rank, is_last


def maxima(spec: TensorSpec, lines: Callable[[], Sequence[LineTaps]], general: Kernel) -> Kernel | None:
    """Return the kernel of maxima and their indices, ``kernel(values, indices, x)``; None if there is no loop.

    Args:
        spec: The input.
        lines: Function that returns the taps of the windows along each dimension.
        general: Kernel for outputs of other layouts.
    """
    made = _tables(spec, lines) if is_large(spec) else None
    if made is None or made[0].has_empty:
        return None
    tables, rank, is_last = made
    run = tables.run("maxima", spec.np_dtype, spec.itemsize + 4, (), 2)
    if run is None:
        return None

    def into(values: Array, indices: Array, x: Array) -> None:
        arrays = _in_order((values, indices, x), rank, is_last)
        if arrays is None:
            general(values, indices, x)
        else:
            run(tables.table, arrays[2], arrays[0], arrays[1])

    return into


def averages(
    spec: TensorSpec, lines: Callable[[], Sequence[LineTaps]], divisors: Array, general: Kernel
) -> Kernel | None:
    """Return the kernel of sums over divisors, ``kernel(out, x)``; None if there is no loop.

    Args:
        spec: The input.
        lines: Function that returns the taps of the windows along each dimension.
        divisors: Divisor of each result of a plane.
        general: Kernel for outputs of other layouts.
    """
    made = _tables(spec, lines, False) if is_large(spec) else None
    if made is None:
        return None
    tables, rank, is_last = made
    run = tables.run("sums", spec.np_dtype, spec.itemsize, (True,), 3)
    if run is None:
        return None
    flat = np.ascontiguousarray(divisors, spec.np_dtype)

    def into(out: Array, x: Array) -> None:
        arrays = _in_order((out, x), rank, is_last)
        if arrays is None:
            general(out, x)
        else:
            run(tables.table, flat, arrays[1], arrays[0])

    return into


def averages_backward(
    spec: TensorSpec,
    grad: TensorSpec,
    lines: Callable[[], Sequence[LineTaps]],
    divisors: Array,
    general: Kernel,
) -> Kernel | None:
    """Return the kernel of the gradient of averages, ``kernel(out, grad, x)``; None if there is no loop.

    Args:
        spec: The input of the averages.
        grad: The gradient of their values.
        lines: Function that returns the taps of the windows along each dimension.
        divisors: Divisor of each result of a plane.
        general: Kernel for other layouts.
    """

    def windows_of_elements() -> list[LineTaps]:
        return [transposed(line) for line in lines()]

    if not is_large(spec) or grad.np_dtype != spec.np_dtype:
        return None
    made = _tables(spec, windows_of_elements, True)
    if made is None:
        return None
    tables, rank, is_last = made
    if is_last:
        run = tables.run("sums", spec.np_dtype, spec.itemsize, (False,), 3)
    else:
        run = tables.run("spread", spec.np_dtype, spec.itemsize, (), 2)
    if run is None:
        return None
    none = [divisors] if is_last else []
    along = divisors[..., None] if is_last else divisors

    def into(out: Array, grad: Array, x: Array) -> None:
        arrays = _in_order((out, grad), rank, is_last)
        if arrays is None:
            general(out, grad, x)
        else:
            run(tables.table, *none, arrays[1] / along, arrays[0])

    return into


def scatter(spec: TensorSpec, grad: TensorSpec, rank: int, general: Kernel) -> Kernel | None:
    """Return the kernel of the gradient of maxima, ``kernel(out, grad, x, indices)``; None if there is no loop.

    Args:
        spec: The input of the maxima.
        grad: The gradient of their values.
        rank: The number of spatial dimensions.
        general: Kernel for other layouts, and for indices out of range.
    """
    is_last = is_channels_last(spec, rank)
    if not is_large(spec) or is_last is None or grad.np_dtype != spec.np_dtype:
        return None
    loop = _pool_loop("scatter", spec.dtype.name, is_last)
    if loop is None:
        return None
    planes, channels = _planes_of(spec, rank, is_last)
    area, count = (math.prod(each.sizes[-rank:]) for each in (spec, grad))
    sharing = Sharing.of(spec.numel, SHARED_FROM, WAKING_FROM)
    each = -(-planes // PARTS) if sharing else planes
    channels = max(channels, 1)
    wide = channels if not sharing or planes >= PARTS else max(-(-channels * planes // PARTS), LINE)
    ranges = [
        (first, min(first + each, planes), begin, min(begin + wide, channels))
        for first in range(0, planes, each)
        for begin in range(0, channels, wide)
    ]
    sizes = [channels, area, count]
    parts = [np.array([*part, *sizes, slot], np.int64) for slot, part in enumerate(ranges)]
    run = shared_loop(loop, parts, sharing, None)

    def into(out: Array, grad: Array, x: Array, indices: Array) -> None:
        arrays = _in_order((out, grad, indices), rank, is_last)
        if arrays is not None:
            flags = np.zeros(len(parts), np.int64)
            run(arrays[1], arrays[2], flags, arrays[0])
            if not flags.any():
                return
        general(out, grad, x, indices)

    return into

"""im2col for convolutions: columns of the input elements under each kernel tap, for a few images or rows at a
time.

The size of a part depends on shapes alone, so results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...dispatch.structured.meta.convolution import for_each_dimension
from ...dispatch.structured.stub import StructuredCall
from ...runtime.blas_threads import ONE_THREAD_WORK, on_one_thread
from ...runtime.cpu.workspace import borrow, give_back
from ...runtime.memory_format import contiguous_strides
from ...runtime.parallel import parallel_for
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..products.integer_matmul import integer_matmul
from ..widen import compute_np
from ..windows import MAX_WASTE, Padding, Window
from . import rows as convolution_rows

COLUMN_BYTES = 1 << 20
"""Columns that are made at a time: they stay in the second-level cache until the product has read them."""
GROUPED_BYTES = 2 << 20
"""The same of several groups, whose products take so little time that threads would wait for each other's Python."""
MIN_POSITIONS = 512
"""Positions of a product, where there are so many: with fewer it is bound by reading the weight."""
MIN_PRODUCTS = 1 << 24
"""Multiplications of a matmul whose columns stay below `MAX_BYTES`: 300 us without the GIL."""
MAX_BYTES = 4 << 20
SUMMED_POSITIONS, SUMMED_BYTES = 2048, 16 << 20
"""Positions of a matmul that is one term of the weight's gradient, and the limit of its columns' bytes. Adding a
large weight's matmul to a sum costs as much as some hundred positions.
"""
LARGE_WEIGHT = 1 << 17
ROOM_BYTES = 1 << 17
"""Columns from which memory that is kept is borrowed for one part too: it is in a cache, as fresh memory is not."""

Array = np.ndarray[Any, Any]


class Part(NamedTuple):
    """Some images, of those some groups and rows of windows: what one product takes. An index of all there is, is None.

    Everything that follows from the geometry is in it, so that a call looks nothing up.
    """

    images: slice | None
    groups: slice | None
    outputs: slice | None
    channels: slice | None
    rows: slice | None
    target: tuple[slice, ...] | None
    first_row: int
    count: int
    """Number of images."""
    view: tuple[int, ...]
    """Windows as a view over the padded images: (channels, *kernel, and the positions), from the byte `start`."""
    start: int
    strides: tuple[int, ...]
    columns: tuple[int, ...]
    """(groups, depth, positions of all images)."""
    made: tuple[int, ...]
    """(outputs, images, rows, ...), the positions that mean something."""
    between: tuple[int, ...]
    """Bytes between these in a product, which has gaps where windows have runs."""


def _even(n: int, most: int) -> int:
    """Return the images of a block, at most `most`; the number of blocks is a power of two for even sharing."""
    count = 1 << (-(-n // most) - 1).bit_length()
    return -(-n // count)


def _shares_border(window: Window) -> bool:
    """Return True if rows can share their padding: no window of stride 1 reads past one border beyond a row."""
    return any(window.padding) and all(
        p <= (k - 1) * d and padded == n + 2 * p
        for n, k, p, d, padded in zip(
            window.spatial, window.kernel, window.padding, window.dilation, window.padded, strict=True
        )
    )


def at(array: Array, index: Any) -> Array:
    """Return `array[index]`, or the array itself for None, since even a full slice takes time."""
    return array if index is None else array[index]


class Convolution:
    """Geometry of one convolution, for each of its three kernels.

    Columns are (groups, depth, images * run): the input elements under the taps at each position. With
    strides of 1 the positions of an image are a run of its padded plane, with meaningless elements between
    the rows of windows. `positions` and `spread` convert between this layout and (images, outputs, *out).
    Columns are made for a few images, or for a block of one image at a time.

    If possible, the border is `shared`: the padding that ends one row begins the next, and the rows of all
    images are adjacent: (channels, first dimension, images, other dimensions). Then a tap reads all images of
    a channel in one run, with 9 positions for 8 useful ones in rows of 8 with a border of 1.
    """

    def __init__(
        self,
        call: StructuredCall,
        input: tuple[int, ...],
        weight: tuple[int, ...],
        out: tuple[int, ...],
        is_summed: bool = False,
    ) -> None:
        args = call.args
        spec: TensorSpec = args["input"] if "input" in args else args["grad_output"]
        if spec.dtype.name == "bool":
            raise NotImplementedError(f"\"slow_conv2d_cpu\" not implemented for '{spec.dtype.scalar_name}'")
        rank = len(weight) - 2
        stride, padding, dilation = (
            for_each_dimension(args[name], rank) for name in ("stride", "padding", "dilation")
        )
        self.window = Window.of(input[2:], weight[2:], stride, padding, dilation, out[2:])
        self.n, self.channels = input[:2]
        self.outputs = weight[0]
        self.groups: int = args["groups"]
        self.is_summed = is_summed
        self.rank = len(self.window.out)
        self.dtype = compute_np(spec.dtype)
        self.multiply = integer_matmul if spec.dtype.is_integral else np.matmul
        taps = math.prod(self.window.kernel)
        self.depth = self.channels // self.groups * taps
        self.is_empty = 0 in (self.n, self.outputs, self.depth, *self.window.out)
        of_rows = not self.is_empty and self.groups == 1 and self.multiply is np.matmul
        self.by_rows = (
            (self.n, self.channels, self.outputs, self.window, self.dtype)
            if of_rows and not self.window.is_pointwise and convolution_rows.has_rows(self.n, self.window)
            else None
        )
        self.has_runs = not self.is_empty and all(s == 1 for s in stride)
        self.dense = math.prod(self.window.out)
        self._lay_out(has_shared_border=self.has_runs and _shares_border(self.window))
        if self.is_shared and self.run > MAX_WASTE * self.dense:
            self._lay_out(has_shared_border=False)
        if not self.is_shared and self.has_runs:
            run = 1 + sum((o - 1) * p for o, p in zip(self.window.out, self.pitches(1), strict=True))
            self.has_runs = run <= MAX_WASTE * self.dense
            if self.has_runs:
                self.run = run
        self.is_dense = self.run == self.dense
        self.pad = self._pad_shared if self.is_shared else Padding(self.window, self.dtype)
        self.batches = [] if self.is_empty else self._batches()
        parts = [part for batch in self.batches for part in batch]
        self.has_pool = self.is_pooled(max((part.columns[2] for part in parts), default=0))
        room = max((math.prod(part.view) for part in parts), default=0)
        self.room = room if len(parts) > 1 or room * self.dtype.itemsize >= ROOM_BYTES else 0

    def _lay_out(self, has_shared_border: bool) -> None:
        window = self.window
        self.is_shared = has_shared_border
        self.lead = 1 if has_shared_border and self.rank > 1 else 0
        box = window.padded
        if has_shared_border:
            box = tuple(n + p for n, p in zip(window.spatial, window.padding, strict=True))[self.lead :]
        self.inner = contiguous_strides(box)
        self.plane = math.prod(box)
        self.rows = window.padded[0] if self.lead else 1
        self.run = math.prod(window.out[: self.lead]) * self.plane if has_shared_border else self.dense
        taps = zip(window.kernel[self.lead :], window.dilation[self.lead :], self.inner, strict=True)
        self.tail = sum((k - 1) * d * p for k, d, p in taps)

    def pitches(self, images: int) -> tuple[int, ...]:
        """Return the stride in elements of each spatial dimension, in the padded planes of `images` images."""
        return (images * self.plane, *self.inner) if self.lead else self.inner

    def _batches(self) -> list[list[Part]]:
        """Return all parts, grouped by the images that they read."""
        most = self.most_positions()
        out = self.window.out
        groups, rows, step = 1, out[0], 1
        if self.run <= most:
            groups = min(self.groups, most // self.run)
            if groups == self.groups:
                step = max(1, min(self.n, most // (self.run * groups)))
                is_pooled = self.is_pooled(self.run * step)
                step = _even(self.n, step) if is_pooled else -(-self.n // -(-self.n // step))
        else:
            rows = max(1, most // (self.run // out[0]))
        return [
            [
                self._part(
                    slice(n, min(n + step, self.n)),
                    slice(g, min(g + groups, self.groups)),
                    slice(row, min(row + rows, out[0])),
                )
                for g in range(0, self.groups, groups)
                for row in range(0, out[0], rows)
            ]
            for n in range(0, self.n, step)
        ]

    def _part(self, images: slice, groups: slice, rows: slice) -> Part:
        out, window = self.window.out, self.window
        each, of_group = self.channels // self.groups, self.outputs // self.groups
        m, g, r = (s.stop - s.start for s in (images, groups, rows))
        outputs = slice(groups.start * of_group, groups.stop * of_group)
        channels = slice(groups.start * each, groups.stop * each)
        size = self.dtype.itemsize
        pitch = self.pitches(m)
        down = [p * d for p, d in zip(pitch, window.dilation, strict=True)]
        shape: tuple[int, ...]
        if self.is_shared:
            of_channel, of_image = self.line(m), self.plane
            whole = r * m * self.plane if self.lead else m * self.plane - (out[0] - r) * pitch[0]
            shape, along = (whole,), (1,)
        else:
            of_channel, of_image = self.plane, self.channels * self.plane
            if self.has_runs:
                shape, along = (m, self.run - (out[0] - r) * pitch[0]), (of_image, 1)
            else:
                steps = (p * s for p, s in zip(pitch, window.stride, strict=True))
                shape, along = (m, r, *out[1:]), (of_image, *steps)
        positions = math.prod(shape)
        start = groups.start * each * of_channel + rows.start * pitch[0] * window.stride[0]
        between = contiguous_strides((g * of_group, m, r, *out[1:]))
        if self.has_runs:
            between = (positions, self.plane if self.is_shared else shape[1], *pitch)

        def unless_all(part: slice, whole: int) -> slice | None:
            return None if part.stop - part.start == whole else part

        is_whole = (m, g, r) == (self.n, self.groups, out[0])
        return Part(
            unless_all(images, self.n),
            unless_all(groups, self.groups),
            unless_all(outputs, self.outputs),
            unless_all(channels, self.channels),
            unless_all(rows, out[0]),
            None if is_whole else (images, outputs, rows),
            rows.start,
            m,
            (g * each, *window.kernel, *shape),
            start * size,
            tuple(size * n for n in (of_channel, *down, *along)),
            (g, self.depth, positions),
            (g * of_group, m, r, *out[1:]),
            tuple(size * n for n in between),
        )

    def line(self, images: int) -> int:
        """Elements of a channel of so many images, where they share their border, and of what the last taps meet."""
        return self.rows * images * self.plane + self.tail

    def inside(self, planes: Array, images: int) -> Array:
        """Return the view (images, channels, *spatial) of an array (channels, line) with a shared border."""
        line, size, pitch = self.line(images), self.dtype.itemsize, self.pitches(images)
        first = sum(p * n for p, n in zip(self.window.padding, pitch, strict=True))
        strides = tuple(size * n for n in (self.plane, line, *pitch))
        return np.ndarray(
            (images, len(planes), *self.window.spatial), self.dtype, planes, first * size, strides
        )

    def _pad_shared(self, array: Array) -> Array:
        made = np.zeros((self.channels, self.line(len(array))), self.dtype)
        np.copyto(self.inside(made, len(array)), array, casting="unsafe")
        return made

    def most_positions(self) -> int:
        """Return the number of positions in a block."""
        each = self.depth * self.dtype.itemsize
        many = MIN_PRODUCTS // (self.depth * self.outputs) if self.groups == 1 else 0
        size = COLUMN_BYTES if self.groups == 1 else GROUPED_BYTES
        if self.is_summed and self.depth * self.outputs >= LARGE_WEIGHT:
            many = max(many, min(SUMMED_POSITIONS, SUMMED_BYTES // each))
            return max(MIN_POSITIONS, size // each, many)
        return max(MIN_POSITIONS, size // each, min(many, MAX_BYTES // each))

    def over(self, batches: int, some: Callable[[int, int, Array | None], None]) -> None:
        """``some(first, last, room)`` over batches on several threads, each with room for the columns of any part.

        The room is None where a small part is all there is.
        """

        def with_room(first: int, last: int) -> None:
            room = borrow(self.room * self.dtype.itemsize) if self.room else None
            try:
                some(first, last, room)
            finally:
                if room is not None:
                    give_back(room)

        if self.has_pool:
            parallel_for(0, batches, 1, on_one_thread(with_room))
        else:
            with_room(0, batches)

    def is_pooled(self, positions: int) -> bool:
        """Return True if triten's pool shares the work, because one BLAS thread computes a matmul as quickly as
        several.

        BLAS's threads start sooner when one matmul follows another, but both pools at once compete for cores.
        """
        return positions * self.depth * (self.outputs // self.groups) <= ONE_THREAD_WORK

    def columns(self, padded: Array, part: Part, room: Array | None) -> Array:
        """Return the columns of a part, given the padded planes of its images."""
        view: Array = np.ndarray(part.view, self.dtype, padded, part.start, part.strides)
        if room is None:
            return np.ascontiguousarray(view).reshape(part.columns)
        made: Array = np.ndarray(part.view, self.dtype, room)
        np.copyto(made, view)
        return made.reshape(part.columns)

    def positions(self, made: Array, part: Part) -> Array:
        """Return a matmul's result (groups, outputs of a group, positions) as a view (images, outputs, rows,
        ...).
        """
        return np.ndarray(part.made, made.dtype, made, 0, part.between).swapaxes(0, 1)

    def without_gaps(self, made: Array, part: Part) -> Array:
        """Columns with zeros at the positions that mean nothing, where they may be NaN: an infinite number times 0."""
        if self.is_dense or not self.has_runs:
            return made
        shape = (made.size // part.columns[2], *part.made[1:])
        clean = np.zeros(made.shape, self.dtype)
        source: Array = np.ndarray(shape, self.dtype, made, 0, part.between)
        target: Array = np.ndarray(shape, self.dtype, clean, 0, part.between)
        target[...] = source
        return clean

    def spread(self, grad: Array, part: Part) -> Array:
        """Return a part's gradients as (groups, outputs of a group, positions), with zeros in between."""
        grad = at(grad, part.target)
        groups, _, positions = part.columns
        if self.is_dense and not (self.lead and part.count > 1):
            rows = grad.swapaxes(0, 1).astype(self.dtype, copy=False)
            return rows.reshape(groups, -1, positions)
        made = np.zeros((groups, self.outputs // self.groups, positions), self.dtype)
        self.positions(made, part)[...] = grad
        return made

    def matrix(self, weight: Array) -> Array:
        """Return the weight as (groups, outputs of a group, depth)."""
        return weight.astype(self.dtype, copy=False).reshape(self.groups, -1, self.depth)

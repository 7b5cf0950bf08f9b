"""Pooling: the taps of the window one after another, over blocks of images for maxima."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ...runtime.memory_format import channels_last, channels_last_3d, contiguous_strides
from ...runtime.parallel import parallel_for
from ...runtime.tensor_spec import TensorSpec
from ..indexing.index_bounds import is_within
from ..plain_numpy import np
from ..resampling.dense_maps import SMALL, mapped
from ..widen import compute_np
from ..window_taps import maxima_by_table, window_taps
from ..windows import Padding, Window
from . import compiled
from .tiles import TileMaxima, tiles

BLOCK = 1 << 15
"""Windows of a block: with its other arrays it stays in a core's second-level cache."""
GRAIN = 1 << 20
"""Taps that a thread looks at at least."""


def window_of(call: StructuredCall) -> Window:
    """Return the call's window over its input."""
    pool = call.extra["pool"]
    spatial = call.args["self"].sizes[-len(pool.out) :]
    return Window.of(spatial, pool.kernel, pool.stride, pool.padding, pool.dilation, pool.out)


def batched(array: Any, window: Window) -> Any:
    """View (C, *spatial) as a batch of one."""
    return array if array.ndim == len(window.out) + 2 else array[None]


def _is_channels_last(spec: TensorSpec) -> bool:
    """Return True if the tensor is channels-last."""
    return spec.suggest_memory_format() in (channels_last, channels_last_3d)


def _lowest(np_dtype: Any) -> Any:
    return -math.inf if np_dtype.kind == "f" else np.iinfo(np_dtype).min


def _flat_indices(window: Window) -> tuple[Any, Any]:
    """For each position the index in its plane of the window's corner and of its first element in the plane."""
    corner: Any = 0
    first: Any = 0
    for n, s, p, d, out in zip(
        window.spatial, window.stride, window.padding, window.dilation, window.out, strict=True
    ):
        start = np.arange(out) * s - p
        inside = start + np.maximum(0, -(start // d)) * d
        corner = np.add.outer(corner * n, start)
        first = np.add.outer(first * n, np.where(start < 0, inside, start))
    return corner, first


def _without_elements(window: Window) -> Any:
    """Return a mask of the windows that cover padding alone, from `ceil_mode` or dilation, or None if there are
    none.
    """
    empty: Any = False
    for n, k, s, p, d, out in zip(
        window.spatial, window.kernel, window.stride, window.padding, window.dilation, window.out, strict=True
    ):
        start = np.arange(out) * s - p
        first = start + np.maximum(0, -(start // d)) * d
        empty = np.logical_or.outer(empty, (first >= n) | (first > start + (k - 1) * d))
    return empty if empty.any() else None


class Maxima:
    """The largest element under each window and its place; of equals the first, of NaNs the last, as in ATen's loop.

    Samples, channels and rows of windows are taken in blocks that stay in the cache. Along with the largest element
    goes the number of its tap, which only grows, so that it is a maximum too.
    """

    def __init__(self, window: Window, np_dtype: Any, last: bool) -> None:
        self.window, self.last = window, last
        self.is_float = np_dtype.kind == "f"
        self.lowest = np_dtype.type(_lowest(np_dtype))
        self.pad = Padding(window, np_dtype, self.lowest, last)
        self.taps = list(window.taps)
        self.number = np.dtype(np.uint8 if len(self.taps) < 256 else np.uint32)
        pitch = contiguous_strides(window.spatial)
        offsets = [
            sum(t * d * w for t, d, w in zip(tap, window.dilation, pitch, strict=True)) for tap in self.taps
        ]
        self.offsets = np.array([0, *offsets])
        self.corner, self.first = _flat_indices(window)
        self.bits = {4: np.int32, 8: np.int64}[np_dtype.itemsize] if self.is_float else None
        self._met: dict[tuple[int, int], list[tuple[slice, ...]]] = {}

    def __call__(self, values: Any, indices: Any, array: Any) -> None:
        """Compute the maxima of all of (N, C, ...)."""
        n, channels = array.shape[:2]
        window = self.window
        plane = math.prod(window.out)
        if self.last:
            values, indices = (np.moveaxis(a, 1, -1) for a in (values, indices))
            each, channels_each = max(1, BLOCK // max(plane * channels, 1)), channels
        else:
            each, channels_each = max(1, BLOCK // max(plane * channels, 1)), max(1, BLOCK // max(plane, 1))
        width = max(1, plane // max(window.out[0], 1) * (channels if self.last else 1))
        rows = max(1, BLOCK // width)
        blocks = [
            (slice(sample, min(sample + each, n)), slice(channel, min(channel + channels_each, channels)))
            for sample in range(0, n, each)
            for channel in range(0, channels, channels_each)
        ]

        def some(start: int, stop: int) -> None:
            for samples, among in blocks[start:stop]:
                padded = self.pad(array[samples, among])
                where = (samples, slice(None)) if self.last else (samples, among)
                has_nan = self.is_float and padded.size and bool(np.isnan(padded.max()))
                for row in range(0, window.out[0], rows):
                    end = min(row + rows, window.out[0])
                    at_rows = (where[0], slice(row, end)) if self.last else (*where, slice(row, end))
                    self._rows(values[at_rows], indices[at_rows], padded, row, end, has_nan)

        if len(blocks) == 1:
            some(0, 1)
            return
        parallel_for(
            0, len(blocks), max(1, GRAIN // max(each * channels_each * plane * len(self.taps), 1)), some
        )

    def _rows(self, values: Any, indices: Any, padded: Any, row: int, end: int, has_nan: bool) -> None:
        shape = values.shape
        best = np.full(shape, self.lowest, padded.dtype)
        number = np.zeros(shape, self.number)
        better, candidate = np.empty(shape, np.bool_), np.empty(shape, self.number)
        flags = better.view(np.uint8)
        room = np.empty(shape, padded.dtype) if self.window.stride[-1] > 1 and not self.last else None
        for k, index in enumerate(self._places(row, end), 1):
            candidates = padded[index]
            if room is not None:  # compared twice: what is strided takes five times as long as what is not
                np.copyto(room, candidates)
                candidates = room
            np.greater(candidates, best, better)
            if has_nan:
                better |= candidates != candidates
            np.maximum(best, candidates, out=best)
            np.multiply(flags, self.number.type(k), candidate)
            np.maximum(number, candidate, out=number)
        corner, first = (
            a[row:end, ..., None] if self.last else a[row:end] for a in (self.corner, self.first)
        )
        positions = self.offsets.take(number)
        positions += corner
        none = number == 0
        if none.any():
            positions = np.where(none, first, positions)
        indices[...] = positions
        np.copyto(values, best, casting="unsafe")
        if (
            self.bits is not None
            and not best.all()
            and (padded.view(self.bits) == np.iinfo(self.bits).min).any()
        ):
            self._signs(values, padded, number, row, end)

    def _signs(self, values: Any, padded: Any, number: Any, row: int, end: int) -> None:
        """Zeros as they are at their places: a maximum of zeros of both signs may be either."""
        for k, index in enumerate(self._places(row, end), 1):
            np.copyto(
                values,
                padded[index],
                where=(number == k) & (values == 0),
                casting="unsafe",
            )

    def _places(self, row: int, end: int) -> list[tuple[slice, ...]]:
        """Return the slices of a padded array that each tap reads for some rows of windows, cached after the
        first use.
        """
        met = self._met.get((row, end))
        if met is None:
            met = self._met[row, end] = [self._place(tap, row, end) for tap in self.taps]
        return met

    def _place(self, tap: Any, row: int, end: int) -> tuple[slice, ...]:
        first, *inner_slices = self.window.slices(tap)
        step = self.window.stride[0]
        start = first.start + row * step
        along = (slice(start, start + (end - row - 1) * step + 1, step), *inner_slices)
        return (slice(None), *along) if self.last else (slice(None), slice(None), *along)


def max_pool(call: StructuredCall) -> PlannedKernel:
    """Compute the maximum of each window, and its index."""
    spec = call.args["self"]
    if not (spec.dtype.is_floating_point or spec.dtype.name in call.extra.get("integers", ())):
        raise NotImplementedError(
            f"\"max_pool{len(call.extra['pool'].out)}d\" not implemented for '{spec.dtype.scalar_name}'"
        )
    window = window_of(call)
    general = quietly(maxima_of(spec, window))
    loop = compiled.maxima(spec, partial(window_taps, window), general)
    if loop is not None:
        return compiled.planned(loop, spec)
    table = maxima_by_table(spec, call.outputs, window_taps(window), compute_np(spec.dtype), general)
    if table is None:
        chosen("a pass for each tap", "{} elements are too many for a table, or have none", spec.numel)
        return PlannedKernel(general)
    chosen("a table of windows", "{} elements are few", spec.numel)
    return table


def maxima_of(spec: TensorSpec, window: Window) -> Callable[[Any, Any, Any], None]:
    """Return the kernel over (values, indices, input) for windows over tensors of this geometry."""
    dtype = compute_np(spec.dtype)
    maxima = Maxima(window, dtype, _is_channels_last(spec))

    def into(values: Any, indices: Any, array: Any) -> None:
        if values.size:
            maxima(*(batched(a, window) for a in (values, indices, array)))

    if not (tiles(window) and spec.is_contiguous and dtype == spec.np_dtype):
        return into
    of_tiles = TileMaxima(window, dtype)

    def into_tiles(values: Any, indices: Any, array: Any) -> None:
        is_dense = values.flags.c_contiguous and indices.flags.c_contiguous and array.flags.c_contiguous
        lines = [a.reshape(-1, *a.shape[-2:]) for a in (values, indices, array)] if is_dense else None
        if lines is None or not of_tiles(*lines):
            into(values, indices, array)

    return into_tiles


def max_pool_backward(call: StructuredCall) -> PlannedKernel:
    """Add each gradient to the element at its index, in the order of positions.

    Windows without elements are skipped, whatever their index, and so is index -1. Other indices outside of a
    plane raise an error.
    """
    spec = call.args["self"]
    window = window_of(call)
    rank = len(window.out)
    empty = None if call.extra["pool"].adaptive else _without_elements(window)
    area = math.prod(window.spatial)
    planes = math.prod(spec.sizes[:-rank])
    is_disjoint = not call.extra["pool"].adaptive and all(
        s > (k - 1) * d for s, k, d in zip(window.stride, window.kernel, window.dilation, strict=True)
    )
    is_disjoint = is_disjoint and empty is None
    if is_disjoint:
        chosen("stores", "windows of {} have no elements in common", window.kernel)
    else:
        chosen("sums by index", "windows overlap, or may")
    count = math.prod(window.out)
    each = max(1, BLOCK // max(area, 1))

    def into(out: Any, grad: Any, array: Any, indices: Any) -> None:
        if empty is not None:
            indices, grad = np.where(empty, 0, indices), np.where(empty, 0, grad)
        distinct = is_disjoint
        if area and not is_within(indices, area):
            none = indices == -1
            wrong = indices[~none & ((indices < 0) | (indices >= area))]
            if wrong.size:
                raise RuntimeError(f"{call.name}: expected indices in [0, {area}) or -1, but got {wrong[0]}")
            indices, grad, distinct = np.where(none, 0, indices), np.where(none, 0, grad), False
        grad, indices = grad.reshape(planes, count), indices.reshape(planes, count)
        is_whole = out.flags.c_contiguous
        full = out.reshape(planes, area) if is_whole else np.empty((planes, area), out.dtype)
        base = (np.arange(each) * area)[:, None]

        def some(start: int, stop: int) -> None:
            for first in range(start * each, min(stop * each, planes), each):
                part = slice(first, min(first + each, planes))
                g, target = grad[part], full[part]
                flat = (indices[part] + base[: len(g)]).reshape(-1)
                if distinct:
                    target.fill(0)
                    target.reshape(-1)[flat] = g.reshape(-1)
                else:
                    made = np.bincount(flat, g.astype(np.float64).reshape(-1), target.size)
                    np.copyto(target, made.reshape(target.shape), casting="unsafe")

        parallel_for(0, -(-planes // each), max(1, GRAIN // (8 * max(each * area, 1))), some)
        if not is_whole:
            np.copyto(out, full.reshape(out.shape))

    general = quietly(into)
    loop = None if empty is not None else compiled.scatter(spec, call.args["grad_output"], rank, general)
    return PlannedKernel(general) if loop is None else compiled.planned(loop, spec)


def _divisors(window: Window, count_include_pad: bool, divisor_override: int | None) -> Any:
    """Return each window's divisor: the count of its input elements, with or without padding, or the override."""
    if divisor_override is not None:
        return np.full(window.out, divisor_override, np.int64)
    counts: Any = 1
    for n, k, s, p, out in zip(
        window.spatial, window.kernel, window.stride, window.padding, window.out, strict=True
    ):
        start = np.arange(out) * s - p
        if count_include_pad:
            count = np.minimum(start + k, n + p) - start
        else:
            count = np.minimum(start + k, n) - np.maximum(start, 0)
        counts = np.multiply.outer(counts, count)
    return counts


def avg_pool(call: StructuredCall) -> PlannedKernel:
    """Compute the mean of each window; integers divide as in C."""
    spec = call.args["self"]
    window = window_of(call)
    if not (spec.dtype.is_floating_point or spec.dtype.name in call.extra["integers"]):
        name = "avg_pool2d" if len(window.out) == 2 else "avg_pool3d_out_frame"
        raise NotImplementedError(f"\"{name}\" not implemented for '{spec.dtype.scalar_name}'")
    np_dtype = compute_np(spec.dtype)
    last = _is_channels_last(spec)
    pad = Padding(window, np_dtype, 0, last)
    divisors = _divisors(window, call.args["count_include_pad"], call.args["divisor_override"])
    divide = np.divide if np_dtype.kind in "fc" else _divide_truncating
    divisors = divisors.astype(np_dtype)
    tap_slices = [(slice(None), slice(None), *window.slices(tap)) for tap in window.taps]

    def into(out: Any, array: Any) -> None:
        padded = pad(batched(array, window))
        if last:
            padded = np.moveaxis(padded, -1, 1)
        target = batched(out, window)
        total = np.zeros_like(target, np_dtype)
        for tap_slice in tap_slices:
            total += padded[tap_slice]
        np.copyto(target, divide(total, divisors), casting="unsafe")

    general = quietly(into)
    loop = compiled.averages(spec, partial(window_taps, window), divisors, general)
    if loop is not None:
        return compiled.planned(loop, spec)
    matrices = [line.matrix for line in window_taps(window)] if spec.numel <= SMALL else []
    small = mapped(spec, call.outputs[0], matrices, np_dtype, general, divisors, exact=True)
    if small is None:
        chosen(
            "a pass for each tap", "{} elements are more than {}, or not exact in products", spec.numel, SMALL
        )
        return PlannedKernel(general)
    chosen("products with matrices of windows", "{} elements are at most {}", spec.numel, SMALL)
    return small


def _divide_truncating(a: Any, b: Any) -> Any:
    return np.sign(a) * (np.abs(a) // np.abs(b)) * np.sign(b)


def avg_pool_backward(call: StructuredCall) -> PlannedKernel:
    """Divide each gradient by its window's divisor, and add it to every element of the window."""
    spec = call.args["self"]
    window = window_of(call)
    np_dtype = compute_np(spec.dtype)
    divisors = _divisors(window, call.args["count_include_pad"], call.args["divisor_override"]).astype(
        np_dtype
    )
    tap_slices = [(slice(None), slice(None), *window.slices(tap)) for tap in window.taps]
    inside = (slice(None), slice(None), *window.inside)

    def into(out: Any, grad: Any, array: Any) -> None:
        share = batched(grad, window) / divisors
        full = np.zeros((*share.shape[:2], *window.padded), np_dtype)
        for tap_slice in tap_slices:
            full[tap_slice] += share
        np.copyto(batched(out, window), full[inside], casting="unsafe")

    general = quietly(into)
    lines = partial(window_taps, window)
    loop = compiled.averages_backward(spec, call.args["grad_output"], lines, divisors, general)
    return PlannedKernel(general) if loop is None else compiled.planned(loop, spec)


for _rank in (2, 3):
    register_stub(f"max_pool{_rank}d_with_indices_stub", "cpu", max_pool)
    register_stub(f"max_pool{_rank}d_with_indices_backward_stub", "cpu", max_pool_backward)
    register_stub(f"adaptive_max_pool{_rank}d_backward_stub", "cpu", max_pool_backward)
    register_stub(f"avg_pool{_rank}d_stub", "cpu", avg_pool)
    register_stub(f"avg_pool{_rank}d_backward_stub", "cpu", avg_pool_backward)

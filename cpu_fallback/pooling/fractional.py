"""Maxima of windows that start at random places: the taps of the windows one after another."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ...runtime.memory_format import contiguous_strides
from ..plain_numpy import np
from ..widen import compute_np
from ..window_taps import MAX_TABLE_ELEMENTS

Array = np.ndarray[Any, Any]
REACH = 2.0**62
"""Bound from which values, and NaN, count as zero, on every device."""


def starts_in(
    n: int, kernel: int, out: int, tensor_dtype: np.dtype[Any], wide: np.dtype[Any]
) -> Callable[[Array], Array]:
    """Return the function from each line's random number to the start positions of its `out` windows.

    Every step is rounded to `tensor_dtype`, as in PyTorch. The last window ends with the line; positions
    outside, which no number in [0, 1) gives, are moved inside.
    """
    last = n - kernel
    same = tensor_dtype == wide

    def rounded(x: Array) -> Array:
        return x if same else x.astype(tensor_dtype).astype(wide)

    step = rounded(np.asarray(np.asarray(last, wide) / np.asarray(max(out - 1, 1), wide), wide))
    number_of = np.arange(out - 1, dtype=wide)

    def starts(samples: Array) -> Array:
        where = np.empty((*samples.shape, out), np.int64)
        where[..., -1:] = last
        if out <= 1 or not samples.size:
            return where
        numbers = samples[..., None]
        moved = rounded(np.add(number_of, numbers))
        moved = rounded(np.multiply(moved, step))
        first = rounded(np.multiply(numbers, step))
        # One comparison tells that all can be whole numbers: NaN fails it too.
        if not (
            np.maximum.reduce(np.abs(moved), None) < REACH and np.maximum.reduce(np.abs(first), None) < REACH
        ):
            moved, first = [np.where(np.abs(x) < REACH, x, 0) for x in (moved, first)]
        inner = where[..., :-1]
        np.subtract(moved.astype(np.int64), first.astype(np.int64), inner)
        np.maximum(inner, 0, out=inner)
        np.minimum(inner, last, out=inner)
        return where

    return starts


def fractional_max_pool(call: StructuredCall) -> PlannedKernel:
    """Compute the maximum of each window: the first of equal elements, the last of NaNs, as ATen's loop does."""
    spec, pool = call.args["self"], call.extra["pool"]
    rank = len(pool.out)
    if not spec.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"fractional_max_pool{rank}d_out_frame\" not implemented for '{spec.dtype.scalar_name}'"
        )
    tensor_dtype, wide = spec.dtype.np, compute_np(spec.dtype)
    spatial, lead = spec.sizes[-rank:], spec.sizes[:-rank]
    planes, volume = math.prod(lead), math.prod(spatial)
    batch = lead[0] if len(lead) == 2 else 1
    # Over planes the width's number is the first one; over volumes the depth's is.
    order = (1, 0) if rank == 2 else (0, 1, 2)
    line_starts = [
        starts_in(n, k, out, tensor_dtype, wide)
        for n, k, out in zip(spatial, pool.kernel, pool.out, strict=True)
    ]
    taps = list(itertools.product(*[range(k) for k in pool.kernel]))

    def into(values: Array, indices: Array, array: Array, samples: Array) -> None:
        flat = array.reshape(planes, volume).astype(wide, copy=False)
        numbers = samples[:batch].astype(wide).reshape(planes, rank)
        lines = [start(numbers[:, which]) for which, start in zip(order, line_starts, strict=True)]

        def places(tap: tuple[int, ...]) -> Array:
            flat_index: Any = 0
            for d, (start, n, t) in enumerate(zip(lines, spatial, tap, strict=True)):
                side = (start + t).reshape(planes, *(1,) * d, start.shape[1], *(1,) * (rank - 1 - d))
                flat_index = flat_index * n + side
            return np.reshape(flat_index, (planes, math.prod(pool.out)))

        where = places((0,) * rank)
        best = np.full(where.shape, -math.inf, wide)
        for tap in taps:
            positions_of_tap = places(tap)
            candidates = np.take_along_axis(flat, positions_of_tap, 1)
            better = (candidates > best) | (candidates != candidates)
            best, where = np.where(better, candidates, best), np.where(better, positions_of_tap, where)
        np.copyto(values, best.reshape(values.shape), casting="unsafe")
        np.copyto(indices, where.reshape(indices.shape))

    positions, count = math.prod(pool.out), planes * math.prod(pool.out) * len(taps)
    if not 0 < count <= MAX_TABLE_ELEMENTS:
        chosen(
            "a pass for each tap",
            "{} elements under windows are more than {}, or none",
            count,
            MAX_TABLE_ELEMENTS,
        )
        return PlannedKernel(quietly(into))
    chosen("all windows at once", "{} elements under windows are at most {}", count, MAX_TABLE_ELEMENTS)
    general = quietly(into)
    alike = len({*zip(spatial, pool.kernel, pool.out, strict=True)}) == 1
    plane_starts = np.repeat(np.arange(planes) * volume, positions)[:, None]
    pitch = contiguous_strides(spatial)
    offsets = np.array([sum(t * w for t, w in zip(tap, pitch, strict=True)) for tap in taps])
    rows = np.arange(0, planes * positions * len(taps), len(taps))
    shapes = [(planes, *(1,) * d, out, *(1,) * (rank - 1 - d)) for d, out in enumerate(pool.out)]

    def at_once(values: Array, indices: Array, array: Array, samples: Array) -> None:
        numbers = samples[:batch].astype(wide, copy=False).reshape(planes, rank)
        if alike:
            every = line_starts[0](numbers)
            lines = [every[:, which] for which in order]
        else:
            lines = [start(numbers[:, which]) for which, start in zip(order, line_starts, strict=True)]
        corner = lines[-1].reshape(shapes[-1])
        for d in range(rank - 1):
            corner = corner + (lines[d] * pitch[d]).reshape(shapes[d])
        local = corner.reshape(-1, 1) + offsets
        elements = array.take(local + plane_starts).astype(wide, copy=False)
        tap = elements.argmax(1)
        np.add(tap, rows, tap)
        best = elements.take(tap)
        if (square := best.dot(best)) != square:
            general(values, indices, array, samples)
            return
        values[...] = best.reshape(values.shape)
        indices[...] = local.take(tap).reshape(indices.shape)

    return PlannedKernel(at_once, quiet=True)


for _rank in (2, 3):
    register_stub(f"fractional_max_pool{_rank}d_stub", "cpu", fractional_max_pool)

"""Maxima of windows that start at random places: the taps of the windows one after another."""

from __future__ import annotations

import itertools
import math
from typing import Any

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from .error_state import quiet
from .undispatched import np
from .widen import compute_np

Array = np.ndarray[Any, Any]
REACH = 2.0**62
"""What is not below it, NaN among it, counts as zero, on every device."""


def starts(samples: Array, n: int, kernel: int, out: int, kept: np.dtype[Any]) -> Array:
    """Where the windows of `out` positions start in each of the lines that `samples` has a number for.

    Every step is rounded to `kept`, the dtype of the tensors, as in PyTorch. The last window ends with the line; places
    outside, which no number in [0, 1) gives, are moved inside.
    """
    wide = samples.dtype
    where = np.full((*samples.shape, out), n - kernel, np.int64)
    if out > 1:

        def rounded(x: Any) -> Array:
            return np.asarray(x, wide).astype(kept).astype(wide)

        def whole(x: Array) -> Array:
            return np.where(np.abs(x) < REACH, x, 0).astype(np.int64)

        step = rounded(np.asarray(n - kernel, wide) / np.asarray(out - 1, wide))
        moved = rounded(rounded(np.arange(out - 1).astype(wide) + samples[..., None]) * step)
        where[..., :-1] = whole(moved) - whole(rounded(samples[..., None] * step))
    return np.clip(where, 0, n - kernel)


def fractional_max_pool(call: StructuredCall) -> PlannedKernel:
    """The largest element of each window; of equals the first, of NaNs the last, as ATen's loop finds them."""
    spec, pool = call.args["self"], call.extra["pool"]
    rank = len(pool.out)
    if not spec.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"fractional_max_pool{rank}d_out_frame\" not implemented for '{spec.dtype.scalar_name}'"
        )
    kept, wide = spec.dtype.np, compute_np(spec.dtype)
    spatial, lead = spec.sizes[-rank:], spec.sizes[:-rank]
    planes, volume = math.prod(lead), math.prod(spatial)
    batch = lead[0] if len(lead) == 2 else 1
    # Over planes the width's number is the first one; over volumes the depth's is.
    order = (1, 0) if rank == 2 else (0, 1, 2)
    taps = list(itertools.product(*[range(k) for k in pool.kernel]))

    def into(values: Array, indices: Array, array: Array, samples: Array) -> None:
        flat = array.reshape(planes, volume).astype(wide, copy=False)
        numbers = samples[:batch].astype(wide).reshape(planes, rank)
        lines = [
            starts(numbers[:, which], n, k, out, kept)
            for which, n, k, out in zip(order, spatial, pool.kernel, pool.out, strict=True)
        ]

        def places(tap: tuple[int, ...]) -> Array:
            at: Any = 0
            for d, (start, n, t) in enumerate(zip(lines, spatial, tap, strict=True)):
                side = (start + t).reshape(planes, *(1,) * d, start.shape[1], *(1,) * (rank - 1 - d))
                at = at * n + side
            return np.reshape(at, (planes, math.prod(pool.out)))

        where = places((0,) * rank)
        best = np.full(where.shape, -math.inf, wide)
        for tap in taps:
            at = places(tap)
            found = np.take_along_axis(flat, at, 1)
            better = (found > best) | (found != found)
            best, where = np.where(better, found, best), np.where(better, at, where)
        np.copyto(values, best.reshape(values.shape), casting="unsafe")
        np.copyto(indices, where.reshape(indices.shape))

    return PlannedKernel(quiet(into))


for _rank in (2, 3):
    register_stub(f"fractional_max_pool{_rank}d_stub", "cpu", fractional_max_pool)

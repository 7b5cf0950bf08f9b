"""group_norm of contiguous tensors, each of whose groups is a row of at most a block."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...dispatch.iterator.parallel import parallel_for
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..widen import compute_np
from .moments import BLOCK, GRAIN, ones, row_dots

AROUND_ZERO = 1.0
"""Up to so many spreads from zero the squares themselves are summed, not those of the gaps from the mean: a variance
that is at least half of their mean loses one bit to the difference."""

Array = np.ndarray[Any, Any]


def group_norm(spec: TensorSpec, groups: int) -> Callable[..., None]:
    """The kernel of `channel_norm.group_norm` for tensors of this geometry."""
    n, c, *spatial = spec.sizes
    m, dtype = math.prod(spatial), compute_np(spec.dtype)
    rows, each, count = n * groups, c // groups, c // groups * m
    units = ones(count, dtype)
    step, grain = max(1, BLOCK // count), max(1, GRAIN // count)
    lines = (-1, m)

    def moments(a: Array, target: Array) -> tuple[Array, Array]:
        """Mean and variance of rows; `target` becomes a - mean."""
        mean = row_dots(a, units) / count
        pivot = mean.astype(a.dtype)
        np.subtract(a, pivot[:, None], target)
        squares = row_dots(target, target) - count * np.square(mean - pivot)
        return mean, np.maximum(squares, 0) / count

    def near_zero(
        a: Array,
        part: slice,
        made: Array,
        eps: float,
        means: Array,
        rstds: Array,
        scales: Array | None,
        shifts: Array | None,
    ) -> bool:
        """Normalise rows whose means are near zero, in two passes over them for the moments and two more."""
        mean = row_dots(a, units)
        mean /= count
        square = mean * mean
        variance = row_dots(a, a)
        variance /= count
        variance -= square
        if not (square <= AROUND_ZERO * variance).all():  # nor what is not finite
            return False
        rstd = 1 / np.sqrt(variance + eps)
        means[part], rstds[part] = mean, rstd
        scale = rstd[:, None] if scales is None else scales[part] * rstd[:, None]
        shift = mean[:, None] * -scale
        if shifts is not None:
            shift = shift + shifts[part]
        by_channel = scales is not None or shifts is not None
        shape = (len(a) * each, m) if by_channel else a.shape
        if by_channel and scales is None:
            scale = np.repeat(scale, each, 1)
        a, made = a.reshape(shape), made.reshape(shape)
        scale, shift = (values.astype(dtype).reshape(-1, 1) for values in (scale, shift))
        np.multiply(a, scale, made)
        made += shift
        return True

    def into(out: Any, means: Any, rstds: Any, x: Any, weight: Any, bias: Any, eps: Any) -> None:
        x, target = x.reshape(rows, count), out.reshape(rows, count)
        means, rstds = means.reshape(rows), rstds.reshape(rows)
        direct = out.dtype == dtype
        scales, shifts = (
            None if p is None else np.tile(p.reshape(groups, each).astype(dtype, copy=False), (n, 1))
            for p in (weight, bias)
        )

        def some(first: int, last: int) -> None:
            for start in range(first, last, step):
                part = slice(start, min(start + step, last))
                a = x[part].astype(dtype, copy=False)
                made = target[part] if direct else np.empty(a.shape, dtype)
                if near_zero(a, part, made, eps, means, rstds, scales, shifts):
                    if not direct:
                        np.copyto(target[part], made, casting="unsafe")
                    continue
                mean, variance = moments(a, made)
                if dtype != np.float64 and not np.isfinite(variance).all():
                    # Sums or squares may have overflowed.
                    wide = np.empty(a.shape, np.float64)
                    mean, variance = moments(a.astype(np.float64), wide)
                    np.copyto(made, wide, casting="same_kind")
                rstd = 1 / np.sqrt(variance + eps)
                means[part], rstds[part] = mean, rstd
                rstd = rstd[:, None]
                if scales is None:
                    made *= rstd.astype(dtype)
                else:
                    by_channel = made.reshape(lines)
                    by_channel *= (scales[part] * rstd).astype(dtype).reshape(-1, 1)
                if shifts is not None:
                    by_channel = made.reshape(lines)
                    by_channel += shifts[part].reshape(-1, 1)
                if not direct:
                    np.copyto(target[part], made, casting="unsafe")

        parallel_for(0, rows, grain, some)

    return into

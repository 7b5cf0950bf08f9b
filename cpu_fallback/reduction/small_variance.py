"""Variances of a few lines of float32: all of them at once in float64, in which no square overflows."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...runtime.scalar_type import float32
from ..plain_numpy import np

FEW = 1 << 12
"""Elements up to which the wider numbers cost less than a second pass."""
SHORT = 32
"""Elements of lines up to which a product lays means out along them, which is quicker than to repeat these."""

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def small_variance(call: StructuredCall, root: bool) -> PlannedKernel | None:
    """Return the kernel of the variance over the last dimensions, or of its root; None for other calls."""
    spec, out = call.args["self"], call.outputs[0]
    dims: tuple[int, ...] = call.extra["dims"]
    if spec.dtype is not float32 or not spec.is_contiguous or not 0 < spec.numel <= FEW or not dims:
        return None
    if dims[0] != spec.ndim - len(dims):
        return None
    count = math.prod(spec.sizes[dims[0] :])
    lines, sizes, fixed = (spec.numel // count, count), out.sizes, call.extra.get("correction", 1)
    means = _means_of_lines(count)
    vecdot, sqrt = np.vecdot, np.sqrt

    def spread(array: Any, correction: Any = None) -> Any:
        wide = array.astype(FLOAT64).reshape(lines)
        wide -= means(wide)
        made = vecdot(wide, wide)
        made /= max(count - (fixed if correction is None else correction), 0)
        if root:
            sqrt(made, made)
        return made.astype(FLOAT32).reshape(sizes)

    why = "{} elements are at most {}, in lines of {} side by side"
    chosen("lines at once in float64", why, spec.numel, FEW, count)
    into: Callable[..., Any] = lambda out, *args: np.copyto(out, spread(*args))  # noqa: E731
    return PlannedKernel(into, spread, quiet=True, number=spread)


@lru_cache(maxsize=2 * SHORT)
def _means_of_lines(count: int) -> Callable[[Any], Any]:
    """Return a function from lines of `count` elements to their means, which broadcast against them."""
    if count <= SHORT:
        average = np.full((count, count), 1 / count)
        return lambda lines: lines.dot(average)
    ones = np.ones(count)

    def means(lines: Any) -> Any:
        made = lines.dot(ones)
        made /= count
        return made[:, None]

    return means

"""Counts of integers: by NumPy, and by a compiled loop once NumPy has counted enough (`bincount_loop.py`)."""

from __future__ import annotations

import functools
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cpu.loop_requests import DeferredLoop, Loop
from ...runtime.float_errors import quietly
from ..plain_numpy import np

Array = np.ndarray[Any, Any]

MIN_ELEMENTS = 1 << 12
"""Elements from which a loop is looked for."""
COMPILE_THRESHOLD = 1 << 22
"""Compile a loop once NumPy has counted this many elements."""
BINS = 1 << 12
"""Bins of a loop that does not know the largest integer yet. If there are more, it counts a second time."""
MAX_BINS = 1 << 24
"""Most bins of these kernels: for more, the composite asks for the memory."""


def bincount(call: StructuredCall) -> PlannedKernel:
    """Count the integers of a vector, or add their weights in order; the results of both ways have the same bits.

    `PlannedKernel.fresh` takes the integers, the weights or None, and the least number of bins. It returns None for
    negative integers, and for more than `MAX_BINS` bins.
    """
    spec, weights = call.args["self"], call.args["weights"]
    sum_dtype = np.dtype(np.int64) if weights is None else weights.np_dtype
    deferred = _loop("" if weights is None else weights.dtype.name)

    @quietly
    def fresh(integers: Array, weight: Array | None, minlength: int) -> Array | None:
        integers = np.ascontiguousarray(integers, np.int64)
        loop = deferred.beside(integers.size) if spec.numel >= MIN_ELEMENTS else None
        if loop is None:
            integers = integers.copy()  # No other thread may change the integers after their check.
            bins = max(int(np.maximum.reduce(integers.view(np.uint64))) + 1, minlength)
            if bins > MAX_BINS:
                return None
            if weight is None:
                return np.bincount(integers, minlength=bins)
            sums = np.zeros(bins, sum_dtype)
            np.add.at(sums, integers, weight)
            return sums
        more = () if weight is None else (np.ascontiguousarray(weight),)
        bins, largest = max(minlength, BINS), np.zeros((), np.uint64)
        while bins <= MAX_BINS:
            sums = np.zeros(bins + 1, sum_dtype)
            loop(np.array((integers.size, bins)), sums, largest, integers, *more)
            needed = max(int(largest) + 1, minlength)
            if needed <= bins:
                return sums[:needed].copy()
            bins = needed
        return None

    return PlannedKernel(lambda *_: None, fresh)


@functools.cache
def _loop(weights: str) -> DeferredLoop:
    def make() -> Loop | None:
        from .bincount_loop import bincount_loop

        return bincount_loop(weights)

    return DeferredLoop(make, COMPILE_THRESHOLD)


register_stub("bincount_stub", "cpu", bincount)

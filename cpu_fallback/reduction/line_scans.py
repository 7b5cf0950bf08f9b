"""Scans of contiguous arrays by compiled loops, once NumPy has scanned enough elements (`scan_loop.py`)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import StructuredCall
from ...runtime.cpu.loop_requests import DeferredLoop, Loop, Sharing, eager_until_compiled, shared_loop
from ..plain_numpy import np

Array = np.ndarray[Any, Any]

COMPILE_THRESHOLD = 1 << 22
"""Compile a loop once NumPy has scanned this many elements."""
DTYPES = ("float32", "float64", "int64")
PARTS, MAX_PARTS = 16, 1 << 10
"""Parts of the lines that threads take one by one, and the most parts of lines that begin at adjacent elements."""
VECTOR = 16
"""Adjacent lines of a part are a multiple of this."""
SHARED_FROM, WAKING_FROM = 1 << 16, 1 << 20
"""Elements from which awake threads share a loop, and from which sleeping ones are woken for it."""


def by_loop(call: StructuredCall, ufunc: np.ufunc, eager: Callable[..., None]) -> Callable[..., None]:
    """Return ``into(*outs, array)``, which scans by a loop as soon as there is one, and by `eager` until then."""
    spec, dim = call.args["self"], call.extra["dim"]
    values = call.outputs[0]
    if not spec.numel or not spec.ndim or spec.dtype is not values.dtype or spec.dtype.name not in DTYPES:
        return eager
    if not all(each.is_contiguous for each in (spec, *call.outputs)):
        return eager
    length, inner = spec.sizes[dim], math.prod(spec.sizes[dim + 1 :])
    parts = _parts(spec.numel // (length * inner), length, inner)
    if parts is None:
        return eager
    sharing = Sharing.of(spec.numel, SHARED_FROM, WAKING_FROM)
    deferred = _loop(ufunc.__name__, spec.dtype.name, inner > 1)
    return eager_until_compiled(
        eager, deferred, spec.numel, lambda loop: shared_loop(loop, parts, sharing, None)
    )


def _parts(outer: int, length: int, inner: int) -> list[Array] | None:
    """Return the numbers of the parts of lines (outer, length, inner), or None where they would be too many."""
    is_shared = outer * length * inner >= SHARED_FROM
    if inner == 1:
        step = -(-outer // PARTS) if is_shared else outer
        return [np.array((min(step, outer - first), length, first, 1)) for first in range(0, outer, step)]
    step = -(-inner * outer // (PARTS * VECTOR)) * VECTOR if is_shared else inner
    if outer * -(-inner // step) > MAX_PARTS:
        return None
    return [
        np.array((min(step, inner - column), length, i * inner + column, inner))
        for i in range(outer)
        for column in range(0, inner, step)
    ]


@functools.cache
def _loop(name: str, dtype: str, adjacent: bool) -> DeferredLoop:
    def make() -> Loop | None:
        from .scan_loop import scan_loop

        return scan_loop(name, dtype, adjacent)

    return DeferredLoop(make, COMPILE_THRESHOLD)

"""Extrema of columns by a compiled loop, once NumPy has searched enough elements (`column_extremum_loop.py`)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ...runtime.cpu.loop_requests import DeferredLoop, Loop, Sharing, eager_until_compiled, shared_loop
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np

Array = np.ndarray[Any, Any]

MIN_ELEMENTS = 1 << 14
"""Elements from which a loop is looked for."""
COMPILE_THRESHOLD = 1 << 22
"""Compile a loop once NumPy has searched this many elements."""
DTYPES = ("float32", "float64", "int32", "int64")
PARTS = 16
"""Parts that threads take one by one."""
SHARED_FROM, WAKING_FROM = 1 << 17, 1 << 20
"""Elements from which awake threads share a loop, and from which sleeping ones are woken for it."""


def column_extrema(
    spec: TensorSpec, axis: int | None, method: str, eager: Callable[..., None]
) -> Callable[[Array, Array, Array], None] | None:
    """Return ``into(values, indices, array)``, which searches an outer dimension by a loop as soon as there is one.

    Args:
        spec: The tensor.
        axis: The dimension.
        method: ``argmax`` or ``argmin``.
        eager: The same function by NumPy.

    Returns:
        The function, or None for other tensors.
    """
    if axis is None or not spec.is_contiguous or spec.numel < MIN_ELEMENTS or spec.dtype.name not in DTYPES:
        return None
    inner = math.prod(spec.sizes[axis + 1 :])
    if inner < 2:
        return None
    outer, length = math.prod(spec.sizes[:axis]), spec.sizes[axis]

    def prepare(loop: Loop) -> Callable[[Array, Array, Array], None]:
        sharing = Sharing.of(spec.numel, SHARED_FROM, WAKING_FROM)
        run = shared_loop(loop, _parts(outer, length, inner), sharing, None)

        def into(values: Array, indices: Array, array: Array) -> None:
            if values.flags.c_contiguous and indices.flags.c_contiguous:
                run(values, indices, array)
            else:
                eager(values, indices, array)

        return into

    return eager_until_compiled(eager, _loop(method, spec.dtype.name), spec.numel, prepare)


def _parts(outer: int, length: int, inner: int) -> list[Array]:
    """Return the numbers of the parts: some of the outer dimension, or of the inner one if that is longer."""
    if outer >= PARTS:
        step = -(-outer // PARTS)
        ranges = [(i, min(i + step, outer), 0, inner) for i in range(0, outer, step)]
    else:
        step = -(-inner // PARTS)
        ranges = [(0, outer, i, min(i + step, inner)) for i in range(0, inner, step)]
    return [np.array((*each, length, inner)) for each in ranges]


@functools.cache
def _loop(method: str, dtype: str) -> DeferredLoop:
    def make() -> Loop | None:
        from .column_extremum_loop import column_extremum_loop

        return column_extremum_loop(method, dtype)

    return DeferredLoop(make, COMPILE_THRESHOLD)

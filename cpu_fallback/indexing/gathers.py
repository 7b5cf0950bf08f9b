"""Gathers of contiguous arrays by a compiled loop, once NumPy has gathered enough elements (`gather_loop.py`)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import StructuredCall
from ...runtime.cpu.loop_requests import DeferredLoop, Loop, Sharing, eager_until_compiled, shared_loop
from ..plain_numpy import np

Array = np.ndarray[Any, Any]

MIN_ELEMENTS = 1 << 12
"""Elements from which a loop is looked for."""
COMPILE_THRESHOLD = 1 << 22
"""Compile a loop once NumPy has gathered this many elements."""
PARTS = 16
"""Parts that threads take one by one."""
SHARED_FROM, WAKING_FROM = 1 << 16, 1 << 19
"""Elements from which awake threads share a loop, and from which sleeping ones are woken for it."""


def gather_by_loop(
    call: StructuredCall, eager: Callable[[Array, Array], Array]
) -> Callable[[Array, Array, Array], None] | None:
    """Return ``into(out, array, index)``, which gathers by a loop as soon as there is one; None for other calls.

    Args:
        call: A gather.
        eager: Function of an array and an index that returns the elements, or raises the error of an index out of
            bounds.
    """
    spec, index, out = call.args["self"], call.args["index"], call.outputs[0]
    dim: int = call.extra["dim"]
    if index.numel < MIN_ELEMENTS or not spec.ndim or out.itemsize not in (1, 2, 4, 8):
        return None
    if not all(each.is_contiguous for each in (spec, index, out)) or index.dtype.name != "int64":
        return None
    if any(a != b for d, (a, b) in enumerate(zip(spec.sizes, index.sizes, strict=True)) if d != dim):
        return None

    def by_numpy(target: Array, array: Array, places: Array) -> None:
        np.copyto(target, eager(array, places))

    def prepare(loop: Loop) -> Callable[[Array, Array, Array], None]:
        outer, inner = math.prod(spec.sizes[:dim]), math.prod(spec.sizes[dim + 1 :])
        parts = _parts(outer, index.sizes[dim], spec.sizes[dim], inner)
        run = shared_loop(loop, parts, Sharing.of(index.numel, SHARED_FROM, WAKING_FROM), None)

        def into(target: Array, array: Array, places: Array) -> None:
            if not np.may_share_memory(target, array):
                run(target, array, places, failed := np.zeros((), np.int64))
                if not failed:
                    return
            by_numpy(target, array, places)  # It raises the error of an index out of bounds.

        return into

    return eager_until_compiled(by_numpy, _loop(8 * out.itemsize), index.numel, prepare)


def _parts(outer: int, picked: int, size: int, inner: int) -> list[Array]:
    """Return the numbers of the parts: some of the outer dimension, or of the inner one if that is longer."""
    if outer >= inner:
        step = -(-outer // PARTS)
        ranges = [(i, min(i + step, outer), 0, inner) for i in range(0, outer, step)]
    else:
        step = -(-inner // PARTS)
        ranges = [(0, outer, i, min(i + step, inner)) for i in range(0, inner, step)]
    return [np.array((*each, picked, size, inner)) for each in ranges]


@functools.cache
def _loop(bits: int) -> DeferredLoop:
    def make() -> Loop | None:
        from .gather_loop import gather_loop

        return gather_loop(bits)

    return DeferredLoop(make, COMPILE_THRESHOLD)

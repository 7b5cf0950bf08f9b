"""Distances between rows and their gradients by compiled loops (`distance_loop.py`), of order 1, 2 or infinity."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ...runtime.cpu.loop_requests import Loop, Sharing, has_compiler, loop_now, shared_loop
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np

Array = np.ndarray[Any, Any]

COMPILE_THRESHOLD = 1 << 14
"""Compile a loop for calls of more than this many differences; NumPy takes some 100 us for them."""
SHARED_FROM, WAKING_FROM = 1 << 16, 1 << 18
"""Differences from which threads share a loop, and from which sleeping threads are woken for it."""
PARTS = 16
"""Parts of a loop, which threads take one by one."""
ORDERS = (1.0, 2.0, math.inf)
"""Orders with loops."""


class RowLoops:
    """Loops over the distances of the rows of two matrices, or of the pairs of rows of one, by order.

    Args:
        x1: The matrix, or batch of matrices, whose rows the parts share.
        x2: The other one.
        is_pairs: True for the pairs of the rows of one matrix, in the order of `pdist`.
    """

    def __init__(self, x1: TensorSpec, x2: TensorSpec, is_pairs: bool) -> None:
        (rows, columns), others = x1.sizes[-2:], x2.sizes[-2]
        count = x1.numel // columns
        work = count * others * columns // (2 if is_pairs else 1)
        self.dtype, self.columns, self.is_pairs = x1.dtype.name, columns, is_pairs
        self.is_served = work > COMPILE_THRESHOLD and has_compiler()
        self.sharing = Sharing.of(work, SHARED_FROM, WAKING_FROM)
        step = -(-count // PARTS) if self.sharing else count
        self.parts = [
            np.array([first, min(first + step, count), rows, others, columns], np.int64)
            for first in range(0, count, step)
        ]
        self.find = functools.cache(self._find)

    def _find(self, order: float, is_backward: bool) -> Loop | None:
        from .distance_loop import ORDERS as NAMES
        from .distance_loop import distance_loop

        loop = loop_now(distance_loop, NAMES[order], self.dtype, self.is_pairs, is_backward)
        workspace = (4, 8 * self.columns) if is_backward else None
        return None if loop is None else shared_loop(loop, self.parts, self.sharing, workspace)

    def fill(self, out: Array, order: float, *operands: Array) -> bool:
        """Compute distances of two matrices, or gradients of the first one from gradients and distances.

        Returns:
            False if no loop serves the call.
        """
        loop = self.find(float(order), len(operands) > 2) if self.is_served and order in ORDERS else None
        if loop is None:
            return False
        loop(*[np.ascontiguousarray(each) for each in operands], out)
        return True


def filled(fill: Callable[..., bool], spec: TensorSpec) -> Callable[..., Array | None]:
    """Return a function of a new array, or of None if ``fill(out, ...)`` returns False."""

    def fresh(*arguments: Any) -> Array | None:
        out = np.empty(spec.sizes, spec.np_dtype)
        return out if fill(out, *arguments) else None

    return fresh

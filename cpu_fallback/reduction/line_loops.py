"""Compiled loops that reduce contiguous lines of float32, shared among threads (`line_loop_source.py`)."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...runtime.cpu.loop_requests import DeferredLoop, Loop, Sharing, shared_loop
from ..plain_numpy import np

MANY = 1 << 14
"""Elements from which a loop is looked for."""
COMPILE_THRESHOLD = 1 << 23
"""Compile a loop once NumPy has reduced this many elements."""
PARTS = 16
"""Parts of the lines at most, which threads take one by one."""
SHARED_FROM, WAKING_FROM = 1 << 19, 1 << 22
"""Bytes from which awake threads share a loop, and from which sleeping ones are woken for it."""
LONGEST = 1 << 19
"""The longest line of a loop that adds a line's runs."""
CACHE_SIZE = 64
"""Maximum number of cached partitions, by number and length of lines."""


class LineLoop:
    """Loop that reduces each line, whose results are bitwise identical to NumPy's passes.

    Args:
        name: Name of the function of a line.
    """

    __slots__ = ("deferred", "shared")

    def __init__(self, name: str) -> None:
        self.deferred = DeferredLoop(partial(_loop_of, name), COMPILE_THRESHOLD)
        self.shared: dict[tuple[int, int], Loop] = {}

    def reduced(self, lines: Any, out: Any = None) -> Any:
        """Reduce the last dimension; return None where NumPy is as quick, or there is no loop yet.

        Args:
            lines: Array.
            out: Array for the results. Default: a new one.
        """
        if lines.size < MANY or lines.dtype != np.float32 or not lines.flags.c_contiguous:
            return None
        if out is not None and not out.flags.c_contiguous:
            return None
        loop = self.deferred.beside(lines.size)
        if loop is None:
            return None
        length = lines.shape[-1]
        key = lines.size // length, length
        run = self.shared.get(key)
        if run is None:
            if len(self.shared) >= CACHE_SIZE:
                self.shared.clear()
            run = self.shared[key] = _in_parts(loop, *key)
        if out is None:
            out = np.empty(lines.shape[:-1], np.float32)
        run(out, lines)
        return out


def _loop_of(name: str) -> Loop | None:
    from .line_loop_source import line_loop

    return line_loop(name)


def _in_parts(loop: Loop, count: int, length: int) -> Loop:
    """Return a loop over lines as a function of the results and the lines."""
    sharing = Sharing.of(4 * count * length, SHARED_FROM, WAKING_FROM)
    step = -(-count // PARTS) if sharing else count
    parts = [np.array((min(step, count - first), length, first)) for first in range(0, count, step)]
    return shared_loop(loop, parts, sharing, None)


LINE_PRODUCTS, LINE_SQUARE_SUMS = LineLoop("line_product"), LineLoop("line_square_sum")
LINE_SUMS, RUN_SUMS, STREAMED_SUMS = (LineLoop(f"{name}_sum") for name in ("line", "run", "streamed"))
EXTREMA = {np.ndarray.argmax: LineLoop("maximum"), np.ndarray.argmin: LineLoop("minimum")}
"""By the function that finds the place of an extremum."""

"""`DimCounter`: iterates over a range of linear indices of several dimensions in 1-D and 2-D steps."""

from __future__ import annotations

import math
from collections.abc import Sequence


class DimCounter:
    """Counter for ``begin <= linear index < end`` of a shape whose first dimension is the fastest.

    Args:
        shape: Sizes, fastest first.
        begin, end: Linear indices; `end` defaults to the number of elements.

    Raises:
        IndexError: for a range outside the shape.

    Example:
        >>> counter = DimCounter((3, 4), 2, 10)
        >>> while not counter.is_done():
        ...     step = counter.max_2d_step()
        ...     print(counter.values, step)
        ...     counter.increment(step)
        [2, 0] (1, 1)
        [0, 1] (3, 2)
        [0, 3] (1, 1)
    """

    __slots__ = ("end", "offset", "shape", "values")

    def __init__(self, shape: Sequence[int], begin: int = 0, end: int | None = None) -> None:
        numel = math.prod(shape)
        self.shape = tuple(shape)
        self.end = numel if end is None else end
        if not 0 <= begin <= self.end <= numel:
            raise IndexError(f"DimCounter: range [{begin}, {self.end}) is not inside {numel} elements")
        self.offset = begin
        self.values = [0] * len(self.shape)
        for dim, size in enumerate(self.shape):
            if size:
                begin, self.values[dim] = divmod(begin, size)

    def is_done(self) -> bool:
        """Return whether the range is exhausted."""
        return self.offset >= self.end

    def max_2d_step(self) -> tuple[int, int]:
        """Return the largest step from here: some elements of a row, or several whole rows."""
        if not self.shape:
            return (1, 1)
        remaining = self.end - self.offset
        row = self.shape[0]
        first = min(row - self.values[0], remaining)
        if first == row and len(self.shape) > 1:
            return (first, min(self.shape[1] - self.values[1], remaining // row))
        return (first, 1)

    def increment(self, step: tuple[int, int]) -> None:
        """Advance by a step that `max_2d_step` allows."""
        self.offset += step[0] * step[1]
        dim, overflow = (0, step[0]) if step[1] == 1 else (1, step[1])
        while overflow and dim < len(self.shape):
            overflow, self.values[dim] = divmod(self.values[dim] + overflow, self.shape[dim])
            dim += 1

"""Steps of a recurrent layer in one call, whose rows threads share (`steps_loop.py`).

The first step, and the last one backward, read arrays that are not those of the layer's steps; callers compute them
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...runtime.cpu.loop_requests import Loop, Sharing, loop_now, shared_loop
from ..plain_numpy import np
from .compiled import SMALL_PRODUCT, Cell

Array = np.ndarray[Any, Any]

MIN_STEPS = 4
"""Steps from which packing the weight pays."""
MIN_ROWS, PARTS = 4, 8
"""Minimum number of rows of a part, which fill a tile of sums, and maximum number of parts."""


class StepArray(NamedTuple):
    """Array of several steps: the rows of the first step, and the stride in bytes from one step to the next.

    Attributes:
        array: Rows of the first step.
        stride: Bytes to the next step.
        alternates: If True, every second step has the same rows: two buffers alternate. Default: False.
    """

    array: Array
    stride: int
    alternates: bool = False


def steps_from(array: Array, first: int, direction: int = 1) -> StepArray:
    """Return the steps of an array from `first` on, in direction 1 or -1."""
    return StepArray(array[first], direction * array.strides[0])


class ManySteps:
    """Several steps of a layer.

    Args:
        cell: Arrays of the cell.
        rows: Number of sequences.
        width: Elements of a hidden state.
        terms: Columns of the state that the weight multiplies (the K dimension).
        columns: Columns of the product.
        state_row: Elements from a row of the state to the next one.
    """

    def __init__(self, cell: Cell, rows: int, width: int, terms: int, columns: int, state_row: int) -> None:
        from .recurrent_loop import recurrent_loop
        from .steps_loop import panel_width, steps_loop

        self.cell, self.rows, self.width, self.terms, self.columns = cell, rows, width, terms, columns
        self.state_row, self.panel = state_row, panel_width()
        self.cell_loop = loop_now(recurrent_loop, cell.name)
        self.loop = loop_now(steps_loop, len(cell.order))
        self.plans: dict[tuple[int, ...], Loop] = {}

    def packed(self, weight: Array) -> Array:
        """Return a weight (terms, columns) as panels."""
        panels = weight.reshape(self.terms, self.columns // self.panel, self.panel)
        return np.ascontiguousarray(panels.transpose(1, 0, 2))

    def run(
        self, steps: int, panels: Array, state: StepArray, product: Array, arrays: Sequence[StepArray]
    ) -> None:
        """Compute ``product = state @ weight`` and the cell for each step; `product` has contiguous rows."""
        if steps <= 0:
            return
        key = (steps, state.stride, *[each.stride for each in arrays])
        run = self.plans.get(key)
        if run is None:
            run = self.plans[key] = self._planned(steps, state, arrays)
        run(panels, state.array, product, *[arrays[i].array for i in self.cell.order])

    def _planned(self, steps: int, state: StepArray, arrays: Sequence[StepArray]) -> Loop:
        from ...runtime.cpu.object_code import part_address

        assert self.loop is not None and self.cell_loop is not None
        strides = []
        for i in self.cell.order:
            strides += [arrays[i].stride, 1 if arrays[i].alternates else -1]
        block = MIN_ROWS * -(-self.rows // (MIN_ROWS * PARTS))
        parts = []
        for first in range(0, self.rows, block):
            count = min(block, self.rows - first)
            numbers = [steps, count, self.terms, self.columns // self.panel]
            numbers += [first * self.state_row, self.state_row, state.stride // state.array.itemsize]
            numbers += [first * self.columns, self.columns, part_address(self.cell_loop)]
            numbers += [*strides, count, self.width]
            for offset, row in self.cell.layout:
                numbers += [4 * (offset + first * row), 4 * row, 4]
            parts.append(np.array(numbers, np.int64))
        return shared_loop(self.loop, parts, Sharing.WAKING, None)


def many_steps(
    cell: Cell, steps: int, rows: int, width: int, terms: int, columns: int, state_row: int
) -> ManySteps | None:
    """Return the loop of a layer's steps, or None if BLAS is better for their matmuls or no compiler is there."""
    if steps < MIN_STEPS or rows * terms * columns > SMALL_PRODUCT:
        return None
    made = ManySteps(cell, rows, width, terms, columns, state_row)
    is_whole = columns % made.panel == 0
    return made if is_whole and made.loop is not None and made.cell_loop is not None else None

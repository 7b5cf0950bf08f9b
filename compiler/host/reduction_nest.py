"""Loop nest of a reduction: the elements that each accumulator meets, and the parts of the index space.

The geometry alone determines both, so results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...cpu_fallback.blocks import block_indices
from ...runtime.memory_format import contiguous_strides
from .loops import PART, PARTS
from .partial_results import Dimensions

RUN = 32
"""Elements that an accumulator adds."""
LONG_RUN = 1 << 8
"""The same of variances and places, at most: to combine theirs takes several passes."""
LONGEST_RUN = 1 << 9
"""The longest run along the innermost dimension for accumulators that lose no significant precision: wider floats,
integers, minimum and maximum."""
NUM_ACCUMULATORS = 1 << 5
"""Adjacent accumulators of a sum along the innermost dimension: vectors of them are in registers for a run. Other
reductions need as many adjacent elements, since a loop takes them in vectors."""
MAX_ACCUMULATORS = 1 << 11
"""The most accumulators of a part that the loop visits repeatedly: they stay in the first-level cache."""
FEWEST_PARTS = 8
"""The least number of parts for threads if runs share an accumulator."""
SHARE = 8
"""Elements for each accumulator on the whole, at least: otherwise the reduction is worth less than its accumulators."""
STEP = 4
"""The number of steps of a run along the innermost dimension is a multiple of this, so that a loop may take several at
once."""

Index = tuple[slice, ...]
"""A part of a loop nest."""


class Nest(NamedTuple):
    """Loop nest over an index space: outer dimensions, runs of accumulators, and inner dimensions.

    Attributes:
        dimensions: The index space.
        split_dim: The dimension that is split into runs, each summed into one accumulator.
        runs: The number of runs, including a shorter one.
        run: The number of additions to an accumulator.
        inner: The sizes of the inner dimensions.
        lanes: The number of adjacent elements of the dimension in a run.
        is_shared: True if runs that differ in outer reduced dimensions share an accumulator.
    """

    dimensions: Dimensions
    split_dim: int
    runs: int
    run: int
    inner: tuple[int, ...]
    lanes: int
    is_shared: bool

    @property
    def outer(self) -> tuple[int, ...]:
        """The sizes of the dimensions outside."""
        return self.dimensions.sizes[: self.split_dim]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the loop nest."""
        return (*self.outer, self.runs, self.run, *self.inner)

    @property
    def partial_shape(self) -> tuple[int, ...]:
        """The sizes of the accumulators: [slots, kept elements, lanes]."""
        kept_sizes = self.dimensions.kept(self.dimensions.sizes)
        return (self.slots, *kept_sizes, *([self.lanes] if self.is_inner else []))

    @property
    def is_inner(self) -> bool:
        """True if the innermost dimension is reduced."""
        return self.split_dim == len(self.dimensions.sizes) - 1

    def counts(self) -> Any:
        """Return the number of elements that each accumulator meets, for each slot and lane."""
        n = self.dimensions.sizes[self.split_dim]
        firsts = np.arange(self.runs)[:, None] * (self.run * self.lanes) + np.arange(self.lanes)
        elements_met = np.clip(-(-(n - firsts) // self.lanes), 0, self.run)
        return np.tile(elements_met, (math.prod(self._apart), 1))

    @property
    def slots(self) -> int:
        """How many accumulators, or lanes of them, each result has."""
        return math.prod(self._apart) * self.runs

    @property
    def _apart(self) -> list[int]:
        """The sizes of the reduced dimensions outside that tell accumulators apart."""
        return [n for n, is_reduced in self._outer_kinds() if is_reduced and not self.is_shared]

    def _outer_kinds(self) -> list[tuple[int, bool]]:
        return list(zip(self.outer, self.dimensions.is_reduced, strict=False))

    def strides(self, own: Sequence[int]) -> tuple[int, ...]:
        """Return the strides of an array over the loop nest, from those over the dimensions."""
        step = own[self.split_dim] * self.lanes
        inner = own[self.split_dim :] if self.is_inner else own[self.split_dim + 1 :]
        return (*own[: self.split_dim], step * self.run, step, *inner)

    def table_strides(self) -> tuple[int, ...]:
        """Return the strides of a table with an entry for each step of a run."""
        return (*(0 for _ in self.outer), 0, 1, *(0 for _ in self.inner))

    def accumulator_strides(self) -> tuple[int, ...]:
        """Return the strides of the accumulators over the loop nest: zero along a run."""
        strides = list(contiguous_strides(self.partial_shape))
        slot, rest = strides[0] * self.runs, strides[1:]
        reversed_strides: list[int] = []
        for size, is_reduced in reversed(self._outer_kinds()):
            tells = is_reduced and not self.is_shared
            reversed_strides.append(slot if tells else 0)
            slot *= size if tells else 1
        outer = reversed_strides[::-1]
        for d, (_, is_reduced) in enumerate(self._outer_kinds()):
            if not is_reduced:
                outer[d] = rest.pop(0)
        return (*outer, strides[0], 0, *rest)

    def indices(self) -> list[list[Index]]:
        """Return parts of the loop nest, each with accumulators of its own; some are taken in two steps."""
        n = self.dimensions.sizes[self.split_dim]
        whole, rest = divmod(n, self.run * self.lanes)
        rows, lanes = divmod(rest, self.lanes)
        limit = max(PART, -(-math.prod(self.dimensions.sizes) // PARTS)) // self.run
        shared = [self.is_shared and is_reduced for _, is_reduced in self._outer_kinds()]
        limit = max(limit, self.lanes)  # lanes are never split
        limit //= math.prod(
            [size for size, is_shared_dim in zip(self.outer, shared, strict=True) if is_shared_dim]
        )
        if math.prod(self.inner) > MAX_ACCUMULATORS:
            limit = min(limit, MAX_ACCUMULATORS)
        outer = [1 if is_shared_dim else size for size, is_shared_dim in zip(self.outer, shared, strict=True)]
        split = len(outer)

        def of(index: tuple[slice, ...], runs: slice, run: slice, inner: tuple[slice, ...]) -> Index:
            head = [
                slice(0, size) if is_shared_dim else own
                for own, size, is_shared_dim in zip(index[:split], self.outer, shared, strict=True)
            ]
            return (*head, runs, run, *inner)

        parts = []
        for index in block_indices((*outer, whole, *self.inner), None, max(limit, 1)):
            runs = slice(index[split].start, min(index[split].stop, whole))
            parts.append([of(index, runs, slice(0, self.run), index[split + 1 :])])
        if not rest:
            return parts
        for index in block_indices((*outer, 1, *self.inner), None, max(limit, 1)):
            runs, inner = slice(whole, whole + 1), index[split + 1 :]
            steps = [of(index, runs, slice(0, rows), inner)] if rows else []
            if lanes:  # a run along the innermost dimension, whose lanes no block splits
                steps.append(of(index, runs, slice(rows, rows + 1), (slice(0, lanes),)))
            parts.append(steps)
        return parts


def nest_of(dimensions: Dimensions, tells_steps: bool = False, is_exact: bool = False) -> Nest | None:
    """Return a loop nest over an index space; None if accumulators would be nearly as many as elements.

    Args:
        dimensions: The index space.
        tells_steps: If True, an accumulator meets each step of one run, and runs are long. Default: False.
        is_exact: If True, an accumulator loses no significant precision in a long run. Default: False.
    """
    longest = LONG_RUN if tells_steps else RUN
    sizes, last = dimensions.sizes, len(dimensions.sizes) - 1
    split_dim = max(d for d, reduced in enumerate(dimensions.is_reduced) if reduced)
    n = sizes[split_dim]
    kept_sizes = [
        size for size, reduced in zip(sizes[:split_dim], dimensions.is_reduced, strict=False) if not reduced
    ]
    is_shared = math.prod(kept_sizes) >= FEWEST_PARTS and not tells_steps
    if split_dim == last:
        if n < NUM_ACCUMULATORS:
            return None
        longest = LONGEST_RUN if is_exact and not tells_steps else longest
        run = min(longest, max(n // NUM_ACCUMULATORS // STEP * STEP, STEP))
        made = Nest(
            dimensions,
            split_dim,
            -(-n // (run * NUM_ACCUMULATORS)),
            run,
            (NUM_ACCUMULATORS,),
            NUM_ACCUMULATORS,
            is_shared,
        )
    else:
        run = min(longest, n)
        made = Nest(dimensions, split_dim, -(-n // run), run, sizes[split_dim + 1 :], 1, is_shared)
        if sizes[-1] < NUM_ACCUMULATORS:
            return None
    return made if math.prod(made.partial_shape) * SHARE <= math.prod(sizes) else None

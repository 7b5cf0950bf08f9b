"""Accumulators of a loop's reductions, and the combination of their values into results.

A sum, a mean, a maximum or a minimum is one number, for each part too. A variance of float32 keeps the first element
of a part, and in float64 the sums of the deviations from it and of their squares. So one pass is as exact as eager's
two, and parts are combined by their means (Chan, Golub, LeVeque, 1983). An argmax keeps the maximum and the number of
the step that met it first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...dispatch.layers.graph.graph import Node
from ...runtime.cpu.element_program import ElementProgram, Value, kind_of
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import float32, float64, int32
from ..block_reductions import LARGEST, MOMENTS, PLACES, ReductionCall
from .partial_results import Partial, combination, partial_of

Combine = Callable[[Sequence[Any], Sequence[Any]], None]
"""Writes a reduction's results, from its accumulators."""


class Runs(NamedTuple):
    """Layout of accumulators, and the elements that each of them has met.

    Attributes:
        shape: Shape of the accumulators: the number for each result, then `kept_sizes`, then lanes if any.
        kept_sizes: The sizes of a result.
        has_lanes: True if the innermost dimension is reduced, by adjacent lanes.
        counts: The number of elements that each accumulator has met, for each slot and lane.
        run: The steps of a run; the last run may have fewer.
        device: Device of the accumulators.
    """

    shape: tuple[int, ...]
    kept_sizes: tuple[int, ...]
    has_lanes: bool
    counts: Any
    run: int
    device: Device

    def lines(self, array: Any) -> Any:
        """Return accumulators as a matrix, which has a column for each result."""
        slots, n, lanes = self._sizes
        return array.reshape(slots, n, lanes).transpose(0, 2, 1).reshape(slots * lanes, n)

    @property
    def _sizes(self) -> tuple[int, int, int]:
        return self.shape[0], math.prod(self.kept_sizes), self.shape[-1] if self.has_lanes else 1


class Accumulation(Protocol):
    """Reduction in a loop.

    Attributes:
        dtypes: Dtypes of its accumulators.
        starts: Initial values.
        table: Table read at each step of a run: ``steps``, their numbers, ``firsts``, which is the first, or nothing.
        tells_steps: True if each accumulator must meet all steps of one run and no others.
    """

    dtypes: tuple[ScalarType, ...]
    starts: tuple[Any, ...]
    table: str
    tells_steps: bool

    def added(
        self, program: ElementProgram, totals: list[Value], element: Value, entry: Value
    ) -> list[Value]:
        """Return accumulators after one more element; `entry` is its entry in the table, or the element itself."""

    def combination(self, runs: Runs) -> Combine:
        """Return the function that combines accumulators into the results."""


COMBINED: dict[str, Callable[[ElementProgram, Value, Value], Value]] = {
    "sum_stub": lambda program, a, b: program.arithmetic("add", a, b),
    "mean_stub": lambda program, a, b: program.arithmetic("add", a, b),
    "amax_stub": ElementProgram.maximum,
    "amin_stub": ElementProgram.minimum,
    "any_stub": lambda program, a, b: program.bitwise("or", a, b),
    "all_stub": lambda program, a, b: program.bitwise("and", a, b),
}
"""Update of a single-number accumulator by an element."""


class _One:
    """A sum, a mean, an extremum or a truth value; sums of floats are in float64."""

    table, tells_steps = "", False

    def __init__(self, call: ReductionCall) -> None:
        self.combined = COMBINED[call.stub]
        how = partial_of(call)
        if how.stub == "sum_stub" and how.dtype.is_floating_point:
            divisor = None if how.divisor is None else np.float64(how.divisor)
            how = Partial(how.stub, float64, divisor, how.order)
        self.how = how
        self.dtypes: tuple[ScalarType, ...] = (how.dtype,)
        if how.stub in ("amax_stub", "amin_stub"):
            self.starts = (lowest(how.dtype, how.stub == "amax_stub"),)
        else:
            self.starts = (how.dtype.np.type(how.stub == "all_stub"),)

    def added(
        self, program: ElementProgram, totals: list[Value], element: Value, entry: Value
    ) -> list[Value]:
        return [self.combined(program, totals[0], program.convert(element, self.how.dtype.name))]

    def combination(self, runs: Runs) -> Combine:
        combine = combination(self.how, runs.shape, runs.kept_sizes, runs.device, runs.has_lanes)
        return lambda outs, partials: combine(outs[0], partials[0])


class _Moments:
    """Variance or standard deviation, with or without the mean.

    The accumulators are the first element, and the sums of deviations from it and of their squares.
    """

    table, tells_steps = "firsts", True

    def __init__(self, call: ReductionCall) -> None:
        self.is_root = call.stub.startswith("std")
        arguments = call.arguments
        correction = arguments.get("correction", arguments.get("unbiased"))
        self.n = call.space.n
        self.freedom = np.float64(max(self.n - (1 if correction is None else correction), 0))
        self.result_indices = sorted(call.results)
        count = 4 if 1 in self.result_indices else 3  # the mean of non-finite elements comes from a sum
        self.dtypes: tuple[ScalarType, ...] = (float64,) * count
        self.starts: tuple[Any, ...] = (np.float64(0),) * count

    def added(
        self, program: ElementProgram, totals: list[Value], element: Value, entry: Value
    ) -> list[Value]:
        x = program.convert(element, "float64")
        first = program.select(entry, x, totals[0])
        above = program.arithmetic("sub", x, first)
        total = program.arithmetic("add", totals[1], above)
        squares = program.arithmetic("add", totals[2], program.arithmetic("mul", above, above))
        return [first, total, squares, *(program.arithmetic("add", each, x) for each in totals[3:])]

    def combination(self, runs: Runs) -> Combine:
        counts = runs.counts.reshape(-1, 1).astype(np.float64)
        is_met = counts[:, 0] > 0
        counts, n, freedom = counts[is_met], np.float64(self.n), self.freedom

        def combine(outs: Sequence[Any], partials: Sequence[Any]) -> None:
            firsts, totals, squares, *sums = (runs.lines(each)[is_met] for each in partials)
            # Means relative to the first element of all are as exact as deviations.
            above = totals / counts
            squares -= totals * above
            above += firsts - firsts[0]
            above -= (above * counts).sum(0) / n
            total = np.maximum(squares, 0).sum(0) + (np.square(above, above) * counts).sum(0)
            spread = total / freedom
            results = [np.sqrt(spread) if self.is_root else spread, *(each.sum(0) / n for each in sums)]
            for out, index in zip(outs, self.result_indices, strict=True):
                np.copyto(out.reshape(-1), results[index], casting="unsafe")

        return combine


class _Place:
    """Argmax or argmin of a column, with or without its value; the first among equal elements or NaNs.

    Exactly one dimension is reduced, not the innermost, and a slot is a run.
    """

    table, tells_steps = "steps", True

    def __init__(self, call: ReductionCall) -> None:
        self.is_largest = call.stub in LARGEST
        dtype = call.source.val.dtype
        self.dtype = float32 if dtype.is_floating_point and dtype.itemsize < 4 else dtype
        self.dtypes: tuple[ScalarType, ...] = (self.dtype, int32)
        self.starts = (lowest(self.dtype, self.is_largest), np.int32(0))
        self.result_indices = [1] if len(call.specs) == 1 else sorted(call.results)

    def added(
        self, program: ElementProgram, totals: list[Value], element: Value, entry: Value
    ) -> list[Value]:
        best, best_index = totals
        x = program.convert(element, self.dtype.name)
        is_better = program.compare("gt" if self.is_largest else "lt", x, best)
        if kind_of(x) == "f":
            is_first = program.bitwise("xor", program.is_nan(best), program.number(True, "bool"))
            is_nan = program.bitwise("and", program.is_nan(x), is_first)
            is_better = program.bitwise("or", is_better, is_nan)
        return [program.select(is_better, x, best), program.select(is_better, entry, best_index)]

    def combination(self, runs: Runs) -> Combine:
        starts = np.arange(0, runs.shape[0] * runs.run, runs.run)[:, None]
        past = np.iinfo(np.int64).max
        extremum = np.max if self.is_largest else np.min
        columns = np.arange(math.prod(runs.kept_sizes))

        def combine(outs: Sequence[Any], partials: Sequence[Any]) -> None:
            best, steps = (runs.lines(each) for each in partials)
            extreme = extremum(best, 0)
            is_extreme = best == extreme
            if extreme.dtype.kind == "f" and np.isnan(extreme).any():
                is_extreme |= np.isnan(best) & np.isnan(extreme)
            element_indices = np.where(is_extreme, steps + starts, past)
            lines = element_indices.argmin(0)
            results = best[lines, columns], element_indices[lines, columns]
            for out, index in zip(outs, self.result_indices, strict=True):
                np.copyto(out.reshape(-1), results[index], casting="unsafe")

        return combine


def lowest(dtype: ScalarType, is_largest: bool) -> Any:
    """Return the initial value of a maximum or minimum, which every element replaces or equals."""
    if dtype.is_floating_point:
        return dtype.np.type(-math.inf if is_largest else math.inf)
    limits = np.iinfo(dtype.np)
    return dtype.np.type(limits.min if is_largest else limits.max)


def accumulation_of(call: ReductionCall) -> Accumulation | None:
    """Return the accumulation of a reduction; None if loops do not support it."""
    if call.stub in COMBINED:
        return _One(call)
    if call.stub in MOMENTS:
        # For float64, one pass would lose the distance of the first element from the mean.
        is_wide = call.source.val.dtype is float64
        return None if is_wide or isinstance(call.arguments.get("correction"), Node) else _Moments(call)
    return _Place(call) if call.stub in PLACES else None

"""Reductions that blocks share, on the CPU as one compiled loop: it computes what is added, and adds it at once.

A sum of `RUN` elements is an accumulator, to which the loop adds one after another. Accumulators lie side by side where
the loop goes along the innermost dimension: for sums of columns they belong to neighbouring results, and for sums along
that dimension to `LANES` elements side by side. Those of floats are float64, and so is their sum, by its eager kernel:
the loop waits for memory longer than it adds. Which elements an accumulator adds follows from the geometry alone, and
so do the parts that threads share.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...cpu_fallback.blocks import block_indices
from ...dispatch.iterator.parallel import parallel_for
from ...dispatch.structured.allocation import allocator_of
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import float64
from ..schedule import FusedKernel, ReductionKernel
from .element_program import CannotLower, ElementProgram, Value
from .llvm_source import write_loop
from .loops import PART, PARTS, SHARED_FROM, Geometry, Kernel, Numbers
from .lowering import Lowered
from .object_code import loop_function, target
from .partial_results import Dimensions, Partial, combination, partial_of
from .stages import Loop, made_of

RUN = 32
"""Elements that an accumulator adds."""
LANES = 1 << 10
"""Accumulators side by side of a sum along the innermost dimension, at most; fewer of shorter ones."""
FEWEST_LANES = 1 << 5
"""The same, at least: a loop takes elements in vectors."""
MOST_ACCUMULATORS = 1 << 12
"""Accumulators that a part of the loop goes through again and again: they stay in the first-level cache."""
SHARE = 8
"""Elements for each accumulator on the whole, at least: otherwise the reduction is worth less than its accumulators."""


COMBINED: dict[str, Callable[[ElementProgram, Value, Value], Value]] = {
    "sum_stub": lambda program, a, b: program.arithmetic("add", a, b),
    "mean_stub": lambda program, a, b: program.arithmetic("add", a, b),
    "amax_stub": ElementProgram.maximum,
    "amin_stub": ElementProgram.minimum,
}
"""What a loop does with an accumulator and an element."""


def accumulator_of(how: Partial) -> Partial:
    """How a loop makes partial results: sums of floats in float64."""
    if how.stub != "sum_stub" or not how.dtype.is_floating_point:
        return how
    divisor = None if how.divisor is None else np.float64(how.divisor)
    return Partial(how.stub, float64, divisor)


def start_of(how: Partial) -> Any:
    """What an accumulator begins with."""
    if how.stub == "sum_stub":
        return how.dtype.np.type(0)
    sign = -1 if how.stub == "amax_stub" else 1
    if how.dtype.is_floating_point:
        return how.dtype.np.type(sign * math.inf)
    limits = np.iinfo(how.dtype.np)
    return how.dtype.np.type(limits.min if sign < 0 else limits.max)


class Nest(NamedTuple):
    """How a loop goes through an index space: dimensions outside, accumulators' runs, and what lies side by side.

    Attributes:
        dimensions: the index space.
        place: the dimension that is cut into runs, whose sums have an accumulator each.
        runs: how many runs there are, a shorter one included.
        run: how often an accumulator is added to.
        inner: the sizes of the dimensions within.
        lanes: how many elements of the dimension a run has side by side.
    """

    dimensions: Dimensions
    place: int
    runs: int
    run: int
    inner: tuple[int, ...]
    lanes: int

    @property
    def outer(self) -> tuple[int, ...]:
        """The sizes of the dimensions outside."""
        return self.dimensions.sizes[: self.place]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the loop nest."""
        return (*self.outer, self.runs, self.run, *self.inner)

    @property
    def partial_shape(self) -> tuple[int, ...]:
        """The sizes of the accumulators: [slots, kept elements, lanes]."""
        kept = self.dimensions.kept(self.dimensions.sizes)
        return (self.slots, *kept, *([self.lanes] if self.is_inner else []))

    @property
    def is_inner(self) -> bool:
        """Whether the innermost dimension is reduced."""
        return self.place == len(self.dimensions.sizes) - 1

    @property
    def slots(self) -> int:
        """How many accumulators, or lanes of them, each result has."""
        reduced = [n for n, is_reduced in self._outer_kinds() if is_reduced]
        return math.prod(reduced) * self.runs

    def _outer_kinds(self) -> list[tuple[int, bool]]:
        return list(zip(self.outer, self.dimensions.is_reduced, strict=False))

    def strides(self, own: Sequence[int]) -> tuple[int, ...]:
        """The strides of an array over the loop nest, from those over the dimensions."""
        step = own[self.place] * self.lanes
        inner = own[self.place :] if self.is_inner else own[self.place + 1 :]
        return (*own[: self.place], step * self.run, step, *inner)

    def accumulator_strides(self) -> tuple[int, ...]:
        """The strides of the accumulators over the loop nest: none along a run."""
        strides = list(contiguous_strides(self.partial_shape))
        slot, rest = strides[0] * self.runs, strides[1:]
        found: list[int] = []
        for size, is_reduced in reversed(self._outer_kinds()):
            found.append(slot if is_reduced else 0)
            slot *= size if is_reduced else 1
        outer = found[::-1]
        for d, (_, is_reduced) in enumerate(self._outer_kinds()):
            if not is_reduced:
                outer[d] = rest.pop(0)
        return (*outer, strides[0], 0, *rest)

    def indices(self) -> list[list[tuple[slice, ...]]]:
        """Parts of the loop nest, each of which has accumulators of its own; some are taken in two steps."""
        n = self.dimensions.sizes[self.place]
        whole, rest = divmod(n, self.run * self.lanes)
        rows, lanes = divmod(rest, self.lanes)
        limit = max(PART, -(-math.prod(self.dimensions.sizes) // PARTS)) // self.run
        if math.prod(self.inner) > MOST_ACCUMULATORS:
            limit = min(limit, MOST_ACCUMULATORS)
        split = len(self.outer) + 1
        found = [
            [
                (
                    *index[: split - 1],
                    slice(first.start, min(first.stop, whole)),
                    slice(0, self.run),
                    *index[split:],
                )
            ]
            for index in block_indices((*self.outer, whole, *self.inner), None, max(limit, 1))
            for first in index[split - 1 : split]
        ]
        if not rest:
            return found
        for index in block_indices((*self.outer, 1, *self.inner), None, max(limit, 1)):
            head, inner = (*index[: split - 1], slice(whole, whole + 1)), index[split:]
            steps = [(*head, slice(0, rows), *inner)] if rows else []
            if lanes:  # of a run along the innermost dimension, whose lanes no block cuts
                steps.append((*head, slice(rows, rows + 1), slice(0, lanes)))
            found.append(steps)
        return found


def nest_of(dimensions: Dimensions) -> Nest | None:
    """How a loop goes through an index space; None where accumulators would be nearly as many as elements."""
    sizes, last = dimensions.sizes, len(dimensions.sizes) - 1
    place = max(d for d, reduced in enumerate(dimensions.is_reduced) if reduced)
    n = sizes[place]
    if place == last:
        lanes = FEWEST_LANES
        while lanes < LANES and n >= 2 * lanes * RUN:
            lanes *= 2
        if n < lanes:
            return None
        made = Nest(dimensions, place, -(-n // (RUN * lanes)), RUN, (lanes,), lanes)
    else:
        run = min(RUN, n)
        made = Nest(dimensions, place, -(-n // run), run, sizes[place + 1 :], 1)
        if sizes[-1] < FEWEST_LANES:
            return None
    return made if math.prod(made.partial_shape) * SHARE <= math.prod(sizes) else None


def accumulating_loop(kernel: ReductionKernel) -> tuple[Loop, list[Partial]] | None:
    """The loop of a kernel, which writes its outputs and accumulators; None where NumPy computes some of it."""
    found = target()
    chain = kernel.chain
    if (
        found is None
        or chain is None
        or any(c.stub not in ("sum_stub", "mean_stub") for c in kernel.reductions)
    ):
        return None
    stored = [node for node in kernel.outputs if node in {call.node for call in chain.calls}]
    program = ElementProgram(found.converts_half, found.truncates)
    lowered = Lowered(FusedKernel(chain.calls, kernel.inputs, tuple(stored)), program)
    writes: list[tuple[Value, str]] = [(lowered.values[node], f"o{i}") for i, node in enumerate(stored)]
    partials = [accumulator_of(partial_of(call)) for call in kernel.reductions]
    try:
        for call, how in zip(kernel.reductions, partials, strict=True):
            accumulator = program.value("accumulator", how.dtype.name, detail=len(writes))
            added = program.convert(lowered.values[call.source], how.dtype.name)
            writes.append((COMBINED[call.stub](program, accumulator, added), f"o{len(writes)}"))
    except CannotLower:
        return None
    order = made_of([value for value, _ in writes])
    if any(value.by_numpy for value in order):
        return None
    reads = tuple([value for value in order if value.kind == "input"])
    return Loop(reads, tuple(writes)), partials


def is_one_loop(kernel: ReductionKernel) -> bool:
    """Whether a kernel of many elements is one loop."""
    return accumulating_loop(kernel) is not None and nest_of(_dimensions_of(kernel)) is not None


def _dimensions_of(kernel: ReductionKernel) -> Dimensions:
    nodes = [
        node for node in (*kernel.inputs, *kernel.outputs) if node not in {c.node for c in kernel.reductions}
    ]
    return Dimensions(kernel.space, [node.val for node in nodes])


def host_reduction_loop(kernel: ReductionKernel) -> Kernel | None:
    """A function from the arrays of a kernel's inputs to those of its outputs; None where no loop serves."""
    made = accumulating_loop(kernel)
    if made is None:
        return None
    loop, hows = made
    reduced = [call.node for call in kernel.reductions]
    stored = [node for node in kernel.outputs if node not in reduced]
    dimensions = _dimensions_of(kernel)
    nest = nest_of(dimensions)
    if nest is None:
        return None
    inputs = [value.detail for value in loop.reads]
    arrays = [node.val for node in stored], [kernel.inputs[place].val for place in inputs]
    strides = [nest.strides(dimensions.strides(spec)) for spec in arrays[0]]
    strides += [nest.accumulator_strides()] * len(hows)
    strides += [nest.strides(dimensions.strides(spec)) for spec in arrays[1]]
    itemsizes = [
        *(s.itemsize for s in arrays[0]), *(how.dtype.itemsize for how in hows), *(s.itemsize for s in arrays[1])
    ]  # fmt: skip
    in_bytes = [tuple([s * size for s in own]) for own, size in zip(strides, itemsizes, strict=True)]
    geometry = Geometry(nest.sizes, in_bytes, itemsizes)
    parts: list[list[Numbers]] = [[geometry.numbers(index) for index in steps] for steps in nest.indices()]
    run = loop_function(write_loop(loop, geometry.steps, len(geometry.sizes)))
    numel = math.prod(dimensions.sizes)
    work = max(sum(s.nbytes for s in itertools.chain(*arrays)), 2 * numel * len(loop.instructions))
    grain = 1 if work >= SHARED_FROM else len(parts)
    allocators = [allocator_of(node.val) for node in kernel.outputs]
    at_stored = [kernel.outputs.index(node) for node in stored]
    at_reduced = [kernel.outputs.index(node) for node in reduced]
    shape, kept = nest.partial_shape, dimensions.kept(dimensions.sizes)
    starts = [start_of(how) for how in hows]
    device = kernel.device
    combine = [combination(how, shape, kept, device, nest.is_inner) for how in hows]

    def compute(*given: Any) -> tuple[Any, ...]:
        outs = tuple([new() for new in allocators])
        partials = [np.full(shape, start) for start in starts]
        operands = [*[outs[i] for i in at_stored], *partials, *[given[i] for i in inputs]]

        def part(first: int, last: int) -> None:
            for steps in parts[first:last]:
                for numbers in steps:
                    run(numbers, *operands)

        parallel_for(0, len(parts), grain, part)
        for into, i, each in zip(combine, at_reduced, partials, strict=True):
            into(outs[i], each)
        return outs

    return compute

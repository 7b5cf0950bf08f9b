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
from ...dispatch.layers.graph.graph import Node
from ...dispatch.structured.allocation import allocator_of
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import float64
from ..schedule import FusedKernel, ReductionKernel
from .element_program import CannotLower, ElementProgram, Value
from .llvm_source import write_loop
from .loops import PART, PARTS, Geometry, Kernel, Numbers
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
MOST_ACCUMULATORS = 1 << 11
"""Accumulators that a part of the loop goes through again and again: they stay in the first-level cache."""
TOGETHER = 4
"""Elements that the loop adds to an accumulator between a load and a store of it, where a run has as many."""
MOST_INSTRUCTIONS = 8
"""Of an element, for which that is worth the registers."""
LONG_LINE = 1 << 9
"""Elements side by side from which it is: shorter lines are read more quickly one by one."""
SHARED_FROM = 1 << 25
"""Bytes of a kernel's arrays, or twice its instructions, from which threads share it: a millisecond's work, since parts
go through Python."""
FEWEST_PARTS = 8
"""Parts that threads have at least where runs share an accumulator."""
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
    return Partial(how.stub, float64, divisor, how.order)


def start_of(how: Partial) -> Any:
    """What an accumulator begins with."""
    if how.stub == "sum_stub":
        return how.dtype.np.type(0)
    sign = -1 if how.stub == "amax_stub" else 1
    if how.dtype.is_floating_point:
        return how.dtype.np.type(sign * math.inf)
    limits = np.iinfo(how.dtype.np)
    return how.dtype.np.type(limits.min if sign < 0 else limits.max)


Index = tuple[slice, ...]
"""A part of a loop nest."""


class Nest(NamedTuple):
    """How a loop goes through an index space: dimensions outside, accumulators' runs, and what lies side by side.

    Attributes:
        dimensions: the index space.
        place: the dimension that is cut into runs, whose sums have an accumulator each.
        runs: how many runs there are, a shorter one included.
        run: how often an accumulator is added to.
        inner: the sizes of the dimensions within.
        lanes: how many elements of the dimension a run has side by side.
        is_shared: whether runs that differ in reduced dimensions outside have the same accumulator.
    """

    dimensions: Dimensions
    place: int
    runs: int
    run: int
    inner: tuple[int, ...]
    lanes: int
    is_shared: bool

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
        return math.prod(self._apart) * self.runs

    @property
    def _apart(self) -> list[int]:
        """The sizes of the reduced dimensions outside that tell accumulators apart."""
        return [n for n, is_reduced in self._outer_kinds() if is_reduced and not self.is_shared]

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
            tells = is_reduced and not self.is_shared
            found.append(slot if tells else 0)
            slot *= size if tells else 1
        outer = found[::-1]
        for d, (_, is_reduced) in enumerate(self._outer_kinds()):
            if not is_reduced:
                outer[d] = rest.pop(0)
        return (*outer, strides[0], 0, *rest)

    def indices(self) -> list[list[Index]]:
        """Parts of the loop nest, each of which has accumulators of its own; some are taken in two steps."""
        n = self.dimensions.sizes[self.place]
        whole, rest = divmod(n, self.run * self.lanes)
        rows, lanes = divmod(rest, self.lanes)
        limit = max(PART, -(-math.prod(self.dimensions.sizes) // PARTS)) // self.run
        shared = [self.is_shared and is_reduced for _, is_reduced in self._outer_kinds()]
        limit //= math.prod([size for size, one in zip(self.outer, shared, strict=True) if one])
        if math.prod(self.inner) > MOST_ACCUMULATORS:
            limit = min(limit, MOST_ACCUMULATORS)
        outer = [1 if one else size for size, one in zip(self.outer, shared, strict=True)]
        split = len(outer)

        def of(index: tuple[slice, ...], runs: slice, run: slice, inner: tuple[slice, ...]) -> Index:
            head = [
                slice(0, size) if one else own
                for own, size, one in zip(index[:split], self.outer, shared, strict=True)
            ]
            return (*head, runs, run, *inner)

        found = []
        for index in block_indices((*outer, whole, *self.inner), None, max(limit, 1)):
            runs = slice(index[split].start, min(index[split].stop, whole))
            found.append([of(index, runs, slice(0, self.run), index[split + 1 :])])
        if not rest:
            return found
        for index in block_indices((*outer, 1, *self.inner), None, max(limit, 1)):
            runs, inner = slice(whole, whole + 1), index[split + 1 :]
            steps = [of(index, runs, slice(0, rows), inner)] if rows else []
            if lanes:  # of a run along the innermost dimension, whose lanes no block cuts
                steps.append(of(index, runs, slice(rows, rows + 1), (slice(0, lanes),)))
            found.append(steps)
        return found


def nest_of(dimensions: Dimensions) -> Nest | None:
    """How a loop goes through an index space; None where accumulators would be nearly as many as elements."""
    sizes, last = dimensions.sizes, len(dimensions.sizes) - 1
    place = max(d for d, reduced in enumerate(dimensions.is_reduced) if reduced)
    n = sizes[place]
    kept = [size for size, reduced in zip(sizes[:place], dimensions.is_reduced, strict=False) if not reduced]
    is_shared = math.prod(kept) >= FEWEST_PARTS
    if place == last:
        lanes = FEWEST_LANES
        while lanes < LANES and n >= lanes * RUN:
            lanes *= 2
        if n < lanes:
            return None
        run = min(RUN, max(n // lanes // TOGETHER * TOGETHER, TOGETHER))
        made = Nest(dimensions, place, -(-n // (run * lanes)), run, (lanes,), lanes, is_shared)
    else:
        run = min(RUN, n)
        made = Nest(dimensions, place, -(-n // run), run, sizes[place + 1 :], 1, is_shared)
        if sizes[-1] < FEWEST_LANES:
            return None
    return made if math.prod(made.partial_shape) * SHARE <= math.prod(sizes) else None


class Accumulating(NamedTuple):
    """A loop that adds to accumulators, and how its arrays are seen.

    Attributes:
        loop: writes outputs, for each of the elements that it takes together, and then accumulators.
        hows: what the accumulators are.
        stored: the outputs that have all elements.
        together: how many elements of a run it takes at once.
    """

    loop: Loop
    hows: list[Partial]
    stored: list[Node]
    together: int


def accumulating_loop(kernel: ReductionKernel, together: int = 1) -> Accumulating | None:
    """The loop of a kernel; None where NumPy computes some of it."""
    found = target()
    chain = kernel.chain
    if found is None or chain is None or any(call.stub not in COMBINED for call in kernel.reductions):
        return None
    stored = [node for node in kernel.outputs if node in {call.node for call in chain.calls}]
    program = ElementProgram(found.converts_half, found.truncates)
    fused = FusedKernel(chain.calls, kernel.inputs, tuple(stored))
    elements = [Lowered(fused, program, u * len(kernel.inputs)).values for u in range(together)]
    writes = [(values[node], f"o{i}") for i, (values, node) in enumerate(itertools.product(elements, stored))]
    hows = [accumulator_of(partial_of(call)) for call in kernel.reductions]
    try:
        for call, how in zip(kernel.reductions, hows, strict=True):
            total = program.value("accumulator", how.dtype.name, detail=len(writes))
            for values in elements:
                element = program.convert(values[call.source], how.dtype.name)
                total = COMBINED[call.stub](program, total, element)
            writes.append((total, f"o{len(writes)}"))
    except CannotLower:
        return None
    order = made_of([value for value, _ in writes])
    if any(value.by_numpy for value in order):
        return None
    reads = tuple([value for value in order if value.kind == "input"])
    return Accumulating(Loop(reads, tuple(writes)), hows, stored, together)


def is_one_loop(kernel: ReductionKernel) -> bool:
    """Whether a kernel of many elements is one loop."""
    return accumulating_loop(kernel) is not None and nest_of(_dimensions_of(kernel)) is not None


def _dimensions_of(kernel: ReductionKernel) -> Dimensions:
    reduced = {call.node for call in kernel.reductions}
    nodes = [node for node in (*kernel.inputs, *kernel.outputs) if node not in reduced]
    return Dimensions(kernel.space, [node.val for node in nodes])


class _Compiled:
    """A loop over a nest: its function, and the places of its arrays among outputs, accumulators and inputs."""

    def __init__(self, kernel: ReductionKernel, nest: Nest, made: Accumulating) -> None:
        self.together = made.together
        stored, count = len(made.stored), len(kernel.inputs)
        axis = len(nest.outer) + 1
        arrays: list[tuple[tuple[int, ...], int]] = []
        self.places: list[int] = []
        elements: list[int] = []

        def add(place: int, strides: tuple[int, ...], itemsize: int, element: int = 0) -> None:
            self.places.append(place)
            elements.append(element)
            arrays.append((strides, itemsize))

        for element, (i, node) in itertools.product(range(made.together), enumerate(made.stored)):
            add(i, nest.strides(nest.dimensions.strides(node.val)), node.val.itemsize, element)
        for i, how in enumerate(made.hows):
            add(stored + i, nest.accumulator_strides(), how.dtype.itemsize)
        for value in made.loop.reads:
            element, i = divmod(value.detail, count)
            spec = kernel.inputs[i].val
            strides = nest.strides(nest.dimensions.strides(spec))
            add(stored + len(made.hows) + i, strides, spec.itemsize, element)
        self._starts = [
            element * own[axis] * size for element, (own, size) in zip(elements, arrays, strict=True)
        ]
        in_bytes = [
            tuple([s * size * (made.together if d == axis else 1) for d, s in enumerate(own)])
            for own, size in arrays
        ]
        sizes = list(nest.sizes)
        sizes[axis] //= made.together
        self._axis = axis
        self._geometry = Geometry(sizes, in_bytes, [size for _, size in arrays])
        self.run = loop_function(write_loop(made.loop, self._geometry.steps, len(sizes)))

    def numbers(self, index: Sequence[slice]) -> Numbers:
        """A part of the nest, of runs that this loop takes whole."""
        along = index[self._axis]
        own = slice(along.start, along.start + (along.stop - along.start) // self.together)
        numbers = self._geometry.numbers([*index[: self._axis], own, *index[self._axis + 1 :]])
        rank = len(self._geometry.sizes)
        for j, start in enumerate(self._starts):
            numbers[rank + j * (rank + 1)] += start
        return numbers


def host_reduction_loop(kernel: ReductionKernel) -> Kernel | None:
    """A function from the arrays of a kernel's inputs to those of its outputs; None where no loop serves."""
    made = accumulating_loop(kernel)
    nest = None if made is None else nest_of(_dimensions_of(kernel))
    if made is None or nest is None:
        return None
    indices = nest.indices()
    loops = [_Compiled(kernel, nest, made)]
    is_worth = nest.inner[-1] >= LONG_LINE and len(made.loop.instructions) <= MOST_INSTRUCTIONS
    if is_worth and nest.run % TOGETHER == 0:
        several = accumulating_loop(kernel, TOGETHER)
        loops += [] if several is None else [_Compiled(kernel, nest, several)]
    axis = len(nest.outer) + 1
    parts: list[list[tuple[int, Numbers]]] = []
    for steps in indices:
        which = [-1 if (index[axis].start, index[axis].stop) == (0, nest.run) else 0 for index in steps]
        parts.append([(k, loops[k].numbers(index)) for k, index in zip(which, steps, strict=True)])
    specs = [node.val for node in (*kernel.inputs, *made.stored)]
    numel = math.prod(nest.dimensions.sizes)
    work = max(sum(spec.nbytes for spec in specs), 2 * numel * len(made.loop.instructions))
    grain = 1 if work >= SHARED_FROM else len(parts)
    allocators = [allocator_of(node.val) for node in kernel.outputs]
    at_stored = [kernel.outputs.index(node) for node in made.stored]
    at_reduced = [kernel.outputs.index(call.node) for call in kernel.reductions]
    shape, kept = nest.partial_shape, nest.dimensions.kept(nest.dimensions.sizes)
    starts = [start_of(how) for how in made.hows]
    combine = [combination(how, shape, kept, kernel.device, nest.is_inner) for how in made.hows]

    def compute(*inputs: Any) -> tuple[Any, ...]:
        outs = tuple([new() for new in allocators])
        partials = [np.full(shape, start) for start in starts]
        arrays = [*[outs[i] for i in at_stored], *partials, *inputs]
        runs = [(loop.run, [arrays[place] for place in loop.places]) for loop in loops]

        def part(first: int, last: int) -> None:
            for steps in parts[first:last]:
                for k, numbers in steps:
                    run, own = runs[k]
                    run(numbers, *own)

        parallel_for(0, len(parts), grain, part)
        for into, i, each in zip(combine, at_reduced, partials, strict=True):
            into(outs[i], each)
        return outs

    return compute

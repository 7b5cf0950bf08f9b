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
from ...runtime.scalar_type import BY_NAME
from ...runtime.scalar_type import dtype as ScalarType
from ..schedule import FusedKernel, ReductionKernel
from .accumulators import Accumulation, Runs, accumulation_of
from .element_program import CannotLower, ElementProgram
from .llvm_source import write_loop
from .loops import PART, PARTS, Geometry, Kernel, Numbers
from .lowering import Lowered
from .object_code import loop_function, target
from .partial_results import Dimensions
from .stages import Loop, made_of

RUN = 32
"""Elements that an accumulator adds."""
LONG_RUN = 1 << 8
"""The same of variances and places, at most: to combine theirs takes several passes."""
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

    def counts(self) -> Any:
        """How many elements each accumulator meets, for each slot and lane."""
        n = self.dimensions.sizes[self.place]
        firsts = np.arange(self.runs)[:, None] * (self.run * self.lanes) + np.arange(self.lanes)
        found = np.clip(-(-(n - firsts) // self.lanes), 0, self.run)
        return np.tile(found, (math.prod(self._apart), 1))

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

    def table_strides(self) -> tuple[int, ...]:
        """The strides of a table of what there is for each step of a run."""
        return (*(0 for _ in self.outer), 0, 1, *(0 for _ in self.inner))

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
        limit = max(limit, self.lanes)  # Nothing cuts what lies side by side.
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


def nest_of(dimensions: Dimensions, tells_steps: bool = False) -> Nest | None:
    """How a loop goes through an index space; None where accumulators would be nearly as many as elements.

    With `tells_steps` an accumulator meets each step of one run, and runs are long.
    """
    longest = LONG_RUN if tells_steps else RUN
    sizes, last = dimensions.sizes, len(dimensions.sizes) - 1
    place = max(d for d, reduced in enumerate(dimensions.is_reduced) if reduced)
    n = sizes[place]
    kept = [size for size, reduced in zip(sizes[:place], dimensions.is_reduced, strict=False) if not reduced]
    is_shared = math.prod(kept) >= FEWEST_PARTS and not tells_steps
    if place == last:
        lanes = FEWEST_LANES
        while lanes < LANES and n >= lanes * RUN:
            lanes *= 2
        if n < lanes:
            return None
        run = min(longest, max(n // lanes // TOGETHER * TOGETHER, TOGETHER))
        made = Nest(dimensions, place, -(-n // (run * lanes)), run, (lanes,), lanes, is_shared)
    else:
        run = min(longest, n)
        made = Nest(dimensions, place, -(-n // run), run, sizes[place + 1 :], 1, is_shared)
        if sizes[-1] < FEWEST_LANES:
            return None
    return made if math.prod(made.partial_shape) * SHARE <= math.prod(sizes) else None


TABLES: dict[str, tuple[str, Callable[[int], Any]]] = {
    "steps": ("int32", lambda n: np.arange(n, dtype=np.int32)),
    "firsts": ("bool", lambda n: np.arange(n) == 0),
}
"""What accumulations read at each step of a run: the dtype, and the table of so many steps."""


class Accumulating(NamedTuple):
    """A loop that adds to accumulators, and how its arrays are seen.

    Attributes:
        loop: writes outputs, for each of the elements that it takes together, and then accumulators.
        hows: what the accumulators are of.
        stored: the outputs that have all elements.
        tables: the names of what is read at each step of a run, which come after a kernel's inputs.
        together: how many elements of a run it takes at once.
    """

    loop: Loop
    hows: list[Accumulation]
    stored: list[Node]
    tables: list[str]
    together: int

    @property
    def accumulators(self) -> list[tuple[ScalarType, Any]]:
        """The dtype of each accumulator, and what it begins with."""
        return [pair for how in self.hows for pair in zip(how.dtypes, how.starts, strict=True)]

    @property
    def tells_steps(self) -> bool:
        """Whether an accumulator has to meet each step of one run."""
        return any(how.tells_steps for how in self.hows)


def accumulating_loop(kernel: ReductionKernel, together: int = 1) -> Accumulating | None:
    """The loop of a kernel; None where NumPy computes some of it."""
    found = target()
    chain = kernel.chain
    hows = [how for call in kernel.reductions if (how := accumulation_of(call)) is not None]
    if found is None or len(hows) < len(kernel.reductions):
        return None
    steps = () if chain is None else chain.calls
    stored = [node for node in kernel.outputs if node in {call.node for call in steps}]
    program = ElementProgram(found.converts_half, found.truncates)
    fused = FusedKernel(steps, kernel.inputs, tuple(stored))
    tables = sorted({how.table for how in hows} - {""})
    given = len(kernel.inputs) + len(tables)
    elements = [Lowered(fused, program, u * given).values for u in range(together)]
    writes = [(values[node], f"o{i}") for i, (values, node) in enumerate(itertools.product(elements, stored))]
    try:
        for call, how in zip(kernel.reductions, hows, strict=True):
            totals = [
                program.value("accumulator", dtype.name, detail=len(writes) + i)
                for i, dtype in enumerate(how.dtypes)
            ]
            for u, values in enumerate(elements):
                at = element = values[call.source]
                if how.table:
                    place = u * given + len(kernel.inputs) + tables.index(how.table)
                    at = program.value("input", TABLES[how.table][0], detail=place)
                totals = how.added(program, totals, element, at)
            writes += [(total, f"o{len(writes) + i}") for i, total in enumerate(totals)]
    except CannotLower:
        return None
    order = made_of([value for value, _ in writes])
    if any(value.by_numpy for value in order):
        return None
    reads = tuple([value for value in order if value.kind == "input"])
    return Accumulating(Loop(reads, tuple(writes)), hows, stored, tables, together)


def is_one_loop(kernel: ReductionKernel) -> bool:
    """Whether a kernel of many elements is one loop."""
    made = accumulating_loop(kernel)
    return made is not None and nest_of(_dimensions_of(kernel), made.tells_steps) is not None


def _dimensions_of(kernel: ReductionKernel) -> Dimensions:
    reduced = {node for call in kernel.reductions for node in call.results.values()}
    nodes = [node for node in (*kernel.inputs, *kernel.outputs) if node not in reduced]
    return Dimensions(kernel.space, [node.val for node in nodes])


class _Compiled:
    """A loop over a nest: its function, and the places of its arrays among outputs, accumulators and inputs."""

    def __init__(self, kernel: ReductionKernel, nest: Nest, made: Accumulating) -> None:
        self.together = made.together
        stored, count = len(made.stored), len(kernel.inputs)
        given = count + len(made.tables)
        accumulators = [dtype for dtype, _ in made.accumulators]
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
        for i, dtype in enumerate(accumulators):
            add(stored + i, nest.accumulator_strides(), dtype.itemsize)
        for value in made.loop.reads:
            element, i = divmod(value.detail, given)
            if i < count:
                spec = kernel.inputs[i].val
                strides, itemsize = nest.strides(nest.dimensions.strides(spec)), spec.itemsize
            else:
                strides, itemsize = nest.table_strides(), BY_NAME[value.dtype].itemsize
            add(stored + len(accumulators) + i, strides, itemsize, element)
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
    nest = None if made is None else nest_of(_dimensions_of(kernel), made.tells_steps)
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
    at_reduced = [
        [kernel.outputs.index(node) for _, node in sorted(call.results.items())] for call in kernel.reductions
    ]
    shape, kept = nest.partial_shape, nest.dimensions.kept(nest.dimensions.sizes)
    starts = [start for _, start in made.accumulators]
    ends = list(itertools.accumulate(len(how.dtypes) for how in made.hows))
    spans = list(map(slice, [0, *ends], ends))
    runs = Runs(shape, kept, nest.is_inner, nest.counts(), nest.run, kernel.device)
    combine = [how.combination(runs) for how in made.hows]
    tables = [TABLES[name][1](nest.run) for name in made.tables]

    def compute(*inputs: Any) -> tuple[Any, ...]:
        outs = tuple([new() for new in allocators])
        partials = [np.full(shape, start) for start in starts]
        arrays = [*[outs[i] for i in at_stored], *partials, *inputs, *tables]
        calls = [(loop.run, [arrays[place] for place in loop.places]) for loop in loops]

        def part(first: int, last: int) -> None:
            for steps in parts[first:last]:
                for k, numbers in steps:
                    run, own = calls[k]
                    run(numbers, *own)

        parallel_for(0, len(parts), grain, part)
        for into, places, span in zip(combine, at_reduced, spans, strict=True):
            into([outs[i] for i in places], partials[span])
        return outs

    return compute

"""Reductions that blocks share on the CPU, as one compiled loop that computes the summands and adds them at once.

A sum of a run of elements is an accumulator, to which the loop adds in order. Accumulators are adjacent along the
innermost dimension: for sums of columns they belong to adjacent results. For sums along that dimension they belong to
`NUM_ACCUMULATORS` adjacent elements, few enough for registers. Float accumulators are float64, and so is their sum, by
its eager kernel: the loop is memory-bound. The geometry alone determines the elements of an accumulator, and the parts
that threads share.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.layers.graph.graph import Node
from ...dispatch.structured.allocation import allocator_of
from ...runtime.cpu.element_loop import Loop, made_of
from ...runtime.cpu.element_program import CannotLower, ElementProgram
from ...runtime.cpu.llvm_source import write_loop
from ...runtime.cpu.object_code import loop_function, target
from ...runtime.parallel import parallel_for
from ...runtime.scalar_type import BY_NAME, float64
from ...runtime.scalar_type import dtype as ScalarType
from ..schedule import FusedKernel, ReductionKernel
from .accumulators import Accumulation, Runs, accumulation_of
from .loops import Geometry, Kernel, Numbers
from .lowering import Lowered
from .partial_results import Dimensions
from .reduction_nest import Index, Nest, nest_of

TOGETHER = 4
"""Elements that the loop adds to an accumulator between a load and a store of it, if a run has as many."""
KEPT_TOGETHER = 2
"""The same of accumulators in registers, which are loaded and stored once for a run."""
MAX_INSTRUCTIONS = 8
"""The most instructions for an element for which several elements at once are worth the registers."""
LONG_LINE = 1 << 9
"""Adjacent elements from which this pays off: shorter lines are read faster one by one."""
SHARED_FROM = 1 << 25
"""Bytes of a kernel's arrays, or twice its instructions, from which threads share it: a millisecond of work, since
parts go through Python."""


TABLES: dict[str, tuple[str, Callable[[int], Any]]] = {
    "steps": ("int32", lambda n: np.arange(n, dtype=np.int32)),
    "firsts": ("bool", lambda n: np.arange(n) == 0),
}
"""Tables that accumulations read at each step of a run: the dtype, and a function from the number of steps."""


class Accumulating(NamedTuple):
    """Loop that adds to accumulators, and the layout of its arrays.

    Attributes:
        loop: Loop that writes outputs, for each of the elements that it takes together, and then accumulators.
        hows: The kinds of its accumulators.
        stored: The outputs that have all elements.
        tables: The names of the tables read at each step of a run, which come after a kernel's inputs.
        together: The number of elements of a run that it takes at once.
    """

    loop: Loop
    hows: list[Accumulation]
    stored: list[Node]
    tables: list[str]
    together: int

    @property
    def accumulators(self) -> list[tuple[ScalarType, Any]]:
        """Dtype and initial value of each accumulator."""
        return [pair for how in self.hows for pair in zip(how.dtypes, how.starts, strict=True)]

    @property
    def tells_steps(self) -> bool:
        """True if an accumulator must meet each step of one run."""
        return any(how.tells_steps for how in self.hows)


def accumulating_loop(kernel: ReductionKernel, together: int = 1) -> Accumulating | None:
    """Return the loop of a kernel; None if NumPy computes some of it."""
    loop_target = target()
    chain = kernel.chain
    hows = [how for call in kernel.reductions if (how := accumulation_of(call)) is not None]
    if loop_target is None or len(hows) < len(kernel.reductions):
        return None
    steps = () if chain is None else chain.calls
    stored = [node for node in kernel.outputs if node in {call.node for call in steps}]
    program = ElementProgram(loop_target.converts_half, loop_target.truncates)
    fused = FusedKernel(steps, kernel.inputs, tuple(stored))
    tables = sorted({how.table for how in hows} - {""})
    num_arrays = len(kernel.inputs) + len(tables)
    elements = [Lowered(fused, program, u * num_arrays).values for u in range(together)]
    writes = [(values[node], f"o{i}") for i, (values, node) in enumerate(itertools.product(elements, stored))]
    try:
        for call, how in zip(kernel.reductions, hows, strict=True):
            totals = [
                program.value("accumulator", dtype.name, detail=len(writes) + i)
                for i, dtype in enumerate(how.dtypes)
            ]
            for u, values in enumerate(elements):
                entry = element = values[call.source]
                if how.table:
                    array_index = u * num_arrays + len(kernel.inputs) + tables.index(how.table)
                    entry = program.value("input", TABLES[how.table][0], detail=array_index)
                totals = how.added(program, totals, element, entry)
            writes += [(total, f"o{len(writes) + i}") for i, total in enumerate(totals)]
    except CannotLower:
        return None
    order = made_of([value for value, _ in writes])
    if any(value.by_numpy for value in order):
        return None
    reads = tuple([value for value in order if value.kind == "input"])
    return Accumulating(Loop(reads, tuple(writes)), hows, stored, tables, together)


def is_one_loop(kernel: ReductionKernel) -> bool:
    """Return True if a large kernel is one loop."""
    made = accumulating_loop(kernel)
    return made is not None and _nest_of(kernel, made) is not None


def _nest_of(kernel: ReductionKernel, made: Accumulating) -> Nest | None:
    kinds = zip(kernel.reductions, made.hows, strict=True)
    is_exact = all(call.source.val.dtype is not float64 or how.dtypes != (float64,) for call, how in kinds)
    return nest_of(_dimensions_of(kernel), made.tells_steps, is_exact)


def _dimensions_of(kernel: ReductionKernel) -> Dimensions:
    reduced = {node for call in kernel.reductions for node in call.results.values()}
    nodes = [node for node in (*kernel.inputs, *kernel.outputs) if node not in reduced]
    return Dimensions(kernel.space, [node.val for node in nodes])


class _Compiled:
    """Loop over a nest: its function, and the indices of its arrays among outputs, accumulators and inputs.

    A loop that `keeps` accumulators takes all lanes of a run, whose accumulators stay in registers between steps.
    """

    def __init__(self, kernel: ReductionKernel, nest: Nest, made: Accumulating, keeps: bool = False) -> None:
        self.together = made.together
        stored, count = len(made.stored), len(kernel.inputs)
        num_arrays = count + len(made.tables)
        accumulators = [dtype for dtype, _ in made.accumulators]
        axis = len(nest.outer) + 1
        arrays: list[tuple[tuple[int, ...], int]] = []
        self.array_indices: list[int] = []
        elements: list[int] = []

        def add(array_index: int, strides: tuple[int, ...], itemsize: int, element: int = 0) -> None:
            self.array_indices.append(array_index)
            elements.append(element)
            arrays.append((strides, itemsize))

        for element, (i, node) in itertools.product(range(made.together), enumerate(made.stored)):
            add(i, nest.strides(nest.dimensions.strides(node.val)), node.val.itemsize, element)
        for i, dtype in enumerate(accumulators):
            add(stored + i, nest.accumulator_strides(), dtype.itemsize)
        for value in made.loop.reads:
            element, i = divmod(value.detail, num_arrays)
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
        known = {}
        if keeps:
            first = made.together * stored
            known = {f"s{first + i}_{axis}": 0 for i in range(len(accumulators))}
            known[f"n{len(sizes) - 1}"] = nest.lanes
        self.run = loop_function(write_loop(made.loop, self._geometry.steps, len(sizes), known))

    def numbers(self, index: Sequence[slice]) -> Numbers:
        """Return a part of the nest, with runs that this loop takes whole."""
        along = index[self._axis]
        own = slice(along.start, along.start + (along.stop - along.start) // self.together)
        numbers = self._geometry.numbers([*index[: self._axis], own, *index[self._axis + 1 :]])
        rank = len(self._geometry.sizes)
        for j, start in enumerate(self._starts):
            numbers[rank + j * (rank + 1)] += start
        return numbers


def _cut(index: Index, nest: Nest, together: int) -> list[tuple[int, Index]]:
    """Split a part of a nest into those for the last loop, and those only for the first loop."""
    axis = len(nest.outer) + 1
    along = index[axis]
    is_whole = index[-1] == slice(0, nest.lanes) if nest.is_inner else along == slice(0, nest.run)
    if not is_whole:
        return [(0, index)]
    middle = along.start + (along.stop - along.start) // together * together
    halves = [(-1, slice(along.start, middle)), (0, slice(middle, along.stop))]
    return [(k, (*index[:axis], own, *index[axis + 1 :])) for k, own in halves if own.start < own.stop]


def host_reduction_loop(kernel: ReductionKernel) -> Kernel | None:
    """Return a function from a kernel's input arrays to its output arrays; None if no loop supports it."""
    made = accumulating_loop(kernel)
    nest = None if made is None else _nest_of(kernel, made)
    if made is None or nest is None:
        return None
    loops = [_Compiled(kernel, nest, made)]
    is_long = nest.is_inner or nest.inner[-1] >= LONG_LINE
    together = KEPT_TOGETHER if nest.is_inner else TOGETHER
    is_worth = is_long and len(made.loop.instructions) <= MAX_INSTRUCTIONS and nest.run % together == 0
    several = accumulating_loop(kernel, together) if is_worth else None
    if several is not None or nest.is_inner:
        loops.append(_Compiled(kernel, nest, several or made, nest.is_inner))
    parts = [
        [(k, loops[k].numbers(own)) for index in steps for k, own in _cut(index, nest, loops[-1].together)]
        for steps in nest.indices()
    ]
    specs = [node.val for node in (*kernel.inputs, *made.stored)]
    numel = math.prod(nest.dimensions.sizes)
    work = max(sum(spec.nbytes for spec in specs), 2 * numel * len(made.loop.instructions))
    grain = 1 if work >= SHARED_FROM else len(parts)
    allocators = [allocator_of(node.val) for node in kernel.outputs]
    at_stored = [kernel.outputs.index(node) for node in made.stored]
    at_reduced = [
        [kernel.outputs.index(node) for _, node in sorted(call.results.items())] for call in kernel.reductions
    ]
    shape, kept_sizes = nest.partial_shape, nest.dimensions.kept(nest.dimensions.sizes)
    starts = [start for _, start in made.accumulators]
    ends = list(itertools.accumulate(len(how.dtypes) for how in made.hows))
    spans = list(map(slice, [0, *ends], ends))
    runs = Runs(shape, kept_sizes, nest.is_inner, nest.counts(), nest.run, kernel.device)
    combine = [how.combination(runs) for how in made.hows]
    tables = [TABLES[name][1](nest.run) for name in made.tables]

    def compute(*inputs: Any) -> tuple[Any, ...]:
        outs = tuple([new() for new in allocators])
        partials = [np.full(shape, start) for start in starts]
        arrays = [*[outs[i] for i in at_stored], *partials, *inputs, *tables]
        calls = [(loop.run, [arrays[index] for index in loop.array_indices]) for loop in loops]

        def part(first: int, last: int) -> None:
            for steps in parts[first:last]:
                for k, numbers in steps:
                    run, own = calls[k]
                    run(numbers, *own)

        parallel_for(0, len(parts), grain, part)
        for into, output_indices, span in zip(combine, at_reduced, spans, strict=True):
            into([outs[i] for i in output_indices], partials[span])
        return outs

    return compute

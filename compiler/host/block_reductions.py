"""CPU kernels of reductions that blocks share: a partial result for each block, combined in block order.

A small kernel computes each step whole, as an eager call does. A large kernel goes in blocks of about `BLOCK_BYTES`.
For each block it computes the pointwise steps, compiled if possible. The reductions' eager kernels then compute
partial results while the block is in the cache. If one loop computes the summed values, it also adds them
(`reduction_loops`). Threads of the pool share the blocks. The geometry alone determines the blocks, the places of
partial results, and their order of combination.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.layers.graph.graph import Node
from ...dispatch.structured.allocation import allocator_of
from ...runtime.cpu.object_code import is_possible
from ...runtime.cpu.workspace import borrow, give_back
from ...runtime.float_errors import unwrapped
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import float32
from ...runtime.tensor_spec import TensorSpec
from ...runtime.written_code import defined
from ..block_reductions import STUBS, ReductionCall, planned_reduction
from ..reductions import ResultOf
from ..schedule import FusedKernel, ReductionKernel
from . import pointwise
from .numpy_calls import call_text
from .partial_results import Dimensions, combination, partial_of
from .pointwise import Kernel, ProgramMaker, quietly, run_blocks

BLOCK_BYTES = 1 << 19
"""Bytes of the widest array of a block."""
SHARED_FROM = 1 << 20
"""Elements, times steps of the kernel, from which threads share blocks: each has several calls of NumPy, between which
they wait for each other's Python."""
MIN_REDUCED = 128
"""The least number of elements of a partial result, if there are as many: a block of a tensor with very long rows has
a part of each."""

Program = Callable[..., None]


def host_reduction_kernel(kernel: ReductionKernel) -> Kernel:
    """Return a function from a kernel's input arrays to its output arrays."""
    if is_whole(kernel):
        return quietly(_whole(kernel))
    if is_possible():
        from .reduction_loops import host_reduction_loop

        loop = host_reduction_loop(kernel)
        if loop is not None:
            return quietly(loop)
    if any(call.stub not in STUBS for call in kernel.reductions):
        return quietly(_apart(kernel))
    return quietly(_in_blocks(kernel))


def is_whole(kernel: ReductionKernel) -> bool:
    """Return True if a kernel is small enough for each step to be computed for all elements."""
    return math.prod(kernel.space.sizes) <= pointwise.WHOLE_UP_TO


def _whole(kernel: ReductionKernel) -> Kernel:
    """Return a kernel that computes every step over all elements, as eager calls do."""
    chain = kernel.chain
    return _followed(kernel, [] if chain is None else [(chain, pointwise.unquiet_kernel(chain)[0])])


def _apart(kernel: ReductionKernel) -> Kernel:
    """Return a kernel that computes shareable reductions in blocks, then the others as eager calls do."""
    shared = [call for call in kernel.calls if not isinstance(call, ReductionCall) or call.stub in STUBS]
    calls = tuple([call for call in shared if not isinstance(call, ResultOf)])
    made = {call.node for call in calls}
    needed = {call.source for call in kernel.reductions if call.stub not in STUBS} | {*kernel.outputs}
    outputs = tuple([call.node for call in calls if call.node in needed])
    if kernel.chain is None or not any(isinstance(call, ReductionCall) for call in calls):
        return _whole(kernel)
    read = {node for call in calls for node in call.node.all_input_nodes} - made
    inputs = tuple([node for node in kernel.inputs if node in read])
    first = ReductionKernel(calls, inputs, outputs, kernel.space)
    return _followed(kernel, [(first, host_reduction_kernel(first))])


def _followed(
    kernel: ReductionKernel, first: Sequence[tuple[FusedKernel | ReductionKernel, Kernel]]
) -> Kernel:
    """Return a kernel that runs an optional first kernel, then the reductions that it does not contain."""
    names = {node: f"a{i}" for i, node in enumerate(kernel.inputs)}
    globals_: dict[str, Any] = {}
    lines = [f"def compute({', '.join(names.values())}):"]
    for before, function in first:
        globals_["before"] = function
        arguments = ", ".join(names[node] for node in before.inputs)
        names |= {node: f"t{i}" for i, node in enumerate(before.outputs)}
        lines.append(f"    {''.join(f'{names[n]}, ' for n in before.outputs)} = before({arguments})")
    for i, call in enumerate(kernel.reductions):
        if call.node in names:
            continue
        planned = call.planned()
        outs = [f"r{i}_{index}" for index in range(len(call.specs))]
        names |= {node: outs[index] for index, node in call.results.items()}
        fresh = (planned.fresh if call.node.val.ndim else planned.number) if len(outs) == 1 else None
        if fresh is not None:
            lines.append(f"    {outs[0]} = {call_text(fresh, None, i, call.operands, names, globals_)}")
            continue
        for out, spec in zip(outs, call.specs, strict=True):
            globals_[f"new_{out}"] = allocator_of(spec)
            lines.append(f"    {out} = new_{out}()")
        arguments = call_text(planned.into, ", ".join(outs), i, call.operands, names, globals_)
        lines.append(f"    {arguments}")
    lines.append(f"    return ({''.join(f'{names[n]}, ' for n in kernel.outputs)})")
    made: Kernel = defined("compute", "\n".join(lines) + "\n", f"kernel {kernel.name}", globals_)
    return made


class Block(NamedTuple):
    """A block of an index space.

    Attributes:
        slices: Its part of each dimension.
        shape: Its sizes.
        partial_index: The index of its partial results among those of the same kept elements.
    """

    slices: tuple[slice, ...]
    shape: tuple[int, ...]
    partial_index: int


def block_steps(dimensions: Dimensions, limit: int) -> list[int]:
    """Return the sizes of a block of about `limit` elements, with some reduced elements for each kept one."""
    sizes, is_reduced = dimensions.sizes, dimensions.is_reduced
    n = math.prod([n for n, reduced in zip(sizes, is_reduced, strict=True) if reduced])
    room = max(limit // min(n, MIN_REDUCED), 1)
    steps = [1] * len(sizes)
    taken, is_inside = 1, True
    for d in reversed(range(len(sizes))):
        if is_reduced[d] and is_inside:
            is_inside, room = False, max(limit // taken, 1)
        steps[d] = min(room, sizes[d])
        if is_reduced[d] and MIN_REDUCED < steps[d] < sizes[d]:
            steps[d] -= steps[d] % MIN_REDUCED  # Eager sums add that many rows at a time.
        taken *= steps[d]
        room = max(room // steps[d], 1)
    return steps


def blocks_of(dimensions: Dimensions, limit: int) -> tuple[list[Block], int]:
    """Return the blocks of an index space, and the number of partial results for each result."""
    steps = block_steps(dimensions, limit)
    ranges = [range(0, n, step) for n, step in zip(dimensions.sizes, steps, strict=True)]
    blocks = []
    for block_index in itertools.product(*(range(len(each)) for each in ranges)):
        starts = [each[i] for each, i in zip(ranges, block_index, strict=True)]
        stops = [min(s + step, n) for s, step, n in zip(starts, steps, dimensions.sizes, strict=True)]
        partial_index = 0
        for i, each, reduced in zip(block_index, ranges, dimensions.is_reduced, strict=True):
            partial_index = partial_index * len(each) + i if reduced else partial_index
        shape = tuple([b - a for a, b in zip(starts, stops, strict=True)])
        blocks.append(Block(tuple(map(slice, starts, stops)), shape, partial_index))
    counts = [len(each) for each, reduced in zip(ranges, dimensions.is_reduced, strict=True) if reduced]
    return blocks, math.prod(counts)


def chain_program(chain: FusedKernel) -> tuple[ProgramMaker, str]:
    """Return the maker of a block's pointwise steps, and a description of how they run."""
    if is_possible():
        from .loops import block_program, stages_of

        stages = stages_of(chain)
        if stages is not None:
            return partial(block_program, chain, stages), str(stages)
    return partial(pointwise.block_program, chain), f"{len(chain.calls)} passes of NumPy"


def execution_of_reductions(kernel: ReductionKernel) -> str:
    """Describe how a kernel runs."""
    chain = kernel.chain
    if is_possible() and not is_whole(kernel):
        from .reduction_loops import is_one_loop

        if is_one_loop(kernel):
            return "one compiled loop, which adds what it computes"
    description = (
        f"{len(kernel.reductions)} reductions of NumPy" if len(kernel.reductions) > 1 else "a reduction"
    )
    blocks = "" if is_whole(kernel) else " over blocks"
    return (
        f"{description}{blocks}" if chain is None else f"{chain_program(chain)[1]}, and {description}{blocks}"
    )


class _Writer:
    """Programs of a kernel's blocks, by their shapes.

    An output's block is written in place if it is contiguous there; other values go to a buffer of the thread.
    """

    def __init__(self, kernel: ReductionKernel) -> None:
        self.kernel = kernel
        self.chain = kernel.chain
        made = () if self.chain is None else self.chain.outputs
        self.inputs = kernel.inputs
        specs = [node.val for node in (*self.inputs, *made)]
        self.dimensions = Dimensions(kernel.space, specs)
        widest = max(spec.itemsize for spec in specs)
        self.blocks, self.count = blocks_of(self.dimensions, max(BLOCK_BYTES // widest, 1))
        self.make_chain = None if self.chain is None else chain_program(self.chain)[0]
        self.stored = [node for node in made if node in kernel.outputs]
        self.partials = [partial_of(call) for call in kernel.reductions]
        self.moves = {node: self.dimensions.moves(node.val) for node in self.inputs}

    def block_spec(self, node: Node, shape: tuple[int, ...]) -> TensorSpec:
        """Return the spec of a block of an input."""
        spec: TensorSpec = node.val
        own = [n if moves else 1 for n, moves in zip(shape, self.moves[node], strict=True)]
        return spec.replace(sizes=tuple(own), strides=self.dimensions.strides(spec))

    def is_run(self, shape: tuple[int, ...]) -> bool:
        """Return True if a block of a contiguous tensor is contiguous."""
        sizes = self.dimensions.sizes
        outer = next((d for d, n in enumerate(shape) if n != 1), len(shape))
        return shape[outer + 1 :] == sizes[outer + 1 :]

    def program(self, shape: tuple[int, ...]) -> Program:
        """Return a function of a block's partial results, its parts of outputs, and its parts of inputs."""
        chain, inputs = self.chain, self.inputs
        flat = TensorSpec.contiguous(shape, float32, self.kernel.device)
        strides = contiguous_strides(shape)
        reduced_dims = [d for d, reduced in enumerate(self.dimensions.is_reduced) if reduced]
        kept_sizes = self.dimensions.kept(shape)
        reducing, sources = [], []
        made = () if chain is None else chain.outputs
        for call, how in zip(self.kernel.reductions, self.partials, strict=True):
            source = call.source
            if source in made:
                spec = source.val.replace(sizes=shape, strides=strides)
            else:
                spec = self.block_spec(source, shape)
            out = flat.replace(sizes=kept_sizes, strides=contiguous_strides(kept_sizes), dtype=how.dtype)
            reducing.append(unwrapped(planned_reduction(how.stub, spec, out, reduced_dims, how.order).into))
            sources.append(made.index(source) if source in made else len(made) + inputs.index(source))
        if chain is None or self.make_chain is None:

            def reduce_only(partials: Sequence[Any], _: Sequence[Any], block_inputs: Sequence[Any]) -> None:
                for into, partial_, index in zip(reducing, partials, sources, strict=True):
                    into(partial_, block_inputs[index])

            return reduce_only
        run_chain = self.make_chain(shape, {node: self.block_spec(node, shape) for node in chain.inputs})
        own = [inputs.index(node) for node in chain.inputs]
        in_place = [node in self.stored and self.is_run(shape) for node in made]
        dtypes = [node.val.np_dtype for node in made]
        sizes = [
            0 if is_stored_directly else flat.numel * d.itemsize
            for is_stored_directly, d in zip(in_place, dtypes, strict=True)
        ]
        ends = list(itertools.accumulate(-(-size // 64) * 64 for size in sizes))
        starts = [0, *ends[:-1]]
        targets = [self.stored.index(node) if node in self.stored else None for node in made]

        def compute(partials: Sequence[Any], outs: Sequence[Any], block_inputs: Sequence[Any]) -> None:
            scratch = borrow(ends[-1])
            values = [
                outs[target]
                if is_stored_directly and target is not None
                else scratch[start : start + size].view(dtype).reshape(shape)
                for target, is_stored_directly, start, size, dtype in zip(
                    targets, in_place, starts, sizes, dtypes, strict=True
                )
            ]
            run_chain(*values, *[block_inputs[index] for index in own])
            for target, is_stored_directly, value in zip(targets, in_place, values, strict=True):
                if target is not None and not is_stored_directly:
                    np.copyto(outs[target], value)
            values += block_inputs
            for into, partial_, index in zip(reducing, partials, sources, strict=True):
                into(partial_, values[index])
            give_back(scratch)

        return compute


def _in_blocks(kernel: ReductionKernel) -> Kernel:
    """Return a kernel that computes all steps block by block and combines the partial results at the end."""
    writer = _Writer(kernel)
    dimensions = writer.dimensions
    programs: dict[tuple[int, ...], Program] = {}
    for block in writer.blocks:
        if block.shape not in programs:
            programs[block.shape] = writer.program(block.shape)
    whole = slice(None)
    work = [
        (
            programs[block.shape],
            (block.partial_index, *dimensions.kept(block.slices), ...),
            block.slices,
            [
                tuple(
                    [s if moves else whole for s, moves in zip(block.slices, writer.moves[node], strict=True)]
                )
                for node in writer.inputs
            ],
        )
        for block in writer.blocks
    ]
    in_shapes = [dimensions.shape(node.val) for node in writer.inputs]
    kept_sizes = dimensions.kept(dimensions.sizes)
    partial_shapes = [((writer.count, *kept_sizes), how.dtype.np) for how in writer.partials]
    combinations = [
        combination(how, (writer.count, *kept_sizes), kept_sizes, kernel.device) for how in writer.partials
    ]
    allocators = [allocator_of(node.val) for node in kernel.outputs]
    stored = [kernel.outputs.index(node) for node in writer.stored]
    reduced = [kernel.outputs.index(call.node) for call in kernel.reductions]
    sizes = dimensions.sizes
    shares = math.prod(sizes) * len(kernel.calls) >= SHARED_FROM

    def compute(*inputs: Any) -> tuple[Any, ...]:
        outs = tuple([new() for new in allocators])
        targets = [outs[index].reshape(sizes) for index in stored]
        views = [x.reshape(shape) for x, shape in zip(inputs, in_shapes, strict=True)]
        partials = [np.empty(shape, dtype) for shape, dtype in partial_shapes]

        def part(first: int, last: int) -> None:
            for program, partial_index, index, own in work[first:last]:
                program(
                    [each[partial_index] for each in partials],
                    [target[index] for target in targets],
                    [view[each] for view, each in zip(views, own, strict=True)],
                )

        run_blocks(part, len(work), shares)
        for combine, out, each in zip(combinations, reduced, partials, strict=True):
            combine(outs[out], each)
        return outs

    return compute

"""Compiled loops of a fused CPU kernel with `cat` (the extra ``triten[jit]``): one for each region.

The starts of all parts split a dimension into *regions*. In a region each `cat` is one of its parts, so the region is
a pointwise kernel with offset inputs. No element is compared with bounds, and no part is written first. The loops of
all regions are one module, and each part of its work names its region. Regions interleave, since they often read the
same lines.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...cpu_fallback.function_check import has_bits_of_eager
from ...dispatch.layers.graph.graph import Node
from ...dispatch.structured.allocation import allocator_of
from ...runtime.cpu.calling_convention import HEADER, loaded_number, python_call
from ...runtime.cpu.element_loop import Loop, made_of
from ...runtime.cpu.element_program import CannotLower, ElementProgram, Value
from ...runtime.cpu.llvm_source import declarations, loop_text
from ...runtime.cpu.object_code import loop_function, target
from ...runtime.memory_format import contiguous_strides
from ...triton_kernels.geometry import broadcast_strides
from ..concatenations import CatCall, Padding
from ..pointwise import PointwiseCall
from ..schedule import FusedKernel
from .loops import (
    Geometry,
    Kernel,
    Numbers,
    has_too_many_arrays,
    over_parts,
    part_limit_of,
    parts_of,
    sharing_of,
)
from .lowering import lowered_step


class Read(NamedTuple):
    """Input as a region reads it.

    Attributes:
        input_index: The index of the input.
        strides: Its strides over the region.
        start: The offset of its first element, in elements.
    """

    input_index: int
    strides: tuple[int, ...]
    start: int


class Region(NamedTuple):
    """Loop of one region.

    Attributes:
        first: Start of the region along the dimension.
        length: Its length.
        loop: The loop over `reads` and all outputs.
        reads: The inputs that it reads.
    """

    first: int
    length: int
    loop: Loop
    reads: tuple[Read, ...]


class _Lowered:
    """The values of a region."""

    def __init__(self, kernel: FusedKernel, dim: int, program: ElementProgram) -> None:
        self.kernel, self.dim, self.program = kernel, dim, program
        self.calls = {call.node: call for call in kernel.computed}
        self.index_of = {node: i for i, node in enumerate(kernel.inputs)}
        self.specs = {node: node.val for node in (*kernel.inputs, *self.calls)}
        self.reads: dict[Read, Value] = {}
        self.known: dict[tuple[Node, int], Value] = {}

    def value(self, node: Node, coordinate: int, sizes: Sequence[int]) -> Value:
        """Return a node's value at a coordinate along the dimension, as a reader of these sizes sees it. May raise
        CannotLower."""
        call = self.calls.get(node)
        if call is None:
            strides = broadcast_strides(node.val, sizes)
            read = Read(self.index_of[node], strides, coordinate * strides[self.dim])
            if read not in self.reads:
                name = node.val.dtype.name
                self.reads[read] = self.program.value("input", name, detail=len(self.reads))
            return self.reads[read]
        if (node, coordinate) not in self.known:
            self.known[node, coordinate] = self._made(call, coordinate)
        return self.known[node, coordinate]

    def _made(self, call: Any, coordinate: int) -> Value:
        sizes = call.node.val.sizes
        if isinstance(call, CatCall):
            k = next(k for k in reversed(range(len(call.parts))) if call.starts[k] <= coordinate)
            part = call.parts[k]
            if isinstance(part, Padding):
                spec = call.node.val
                return self.program.number(spec.dtype.np.type(part.value), spec.dtype.name)
            return self.value(part, coordinate - call.starts[k], part.val.sizes)
        if not isinstance(call, PointwiseCall):
            raise CannotLower(call.node.target.name())
        nodes = dict.fromkeys(operand for operand in call.operands if isinstance(operand, Node))
        values = {node: self.value(node, coordinate, sizes) for node in nodes}
        return lowered_step(self.program, call, self.specs, values)


def regions_of(kernel: FusedKernel) -> tuple[int, list[Region]] | None:
    """Return the dimension that is split, and its regions; None if NumPy computes some step."""
    loop_target = target()
    if loop_target is None or len({call.dim for call in kernel.joins}) != 1:
        return None
    dim = kernel.joins[0].dim
    starts = sorted({start for call in kernel.joins for start in call.starts})
    regions = []
    for first, end in itertools.pairwise(starts):
        program = ElementProgram(loop_target.converts_half, loop_target.truncates, has_bits_of_eager)
        lowered = _Lowered(kernel, dim, program)
        try:
            made = [lowered.value(node, first, kernel.domain.sizes) for node in kernel.outputs]
        except CannotLower:
            return None
        order = made_of(made)
        if any(value.by_numpy for value in order):
            return None
        used = {id(value) for value in order}
        reads = [(read, value) for read, value in lowered.reads.items() if id(value) in used]
        if has_too_many_arrays(len(reads), len(made)):
            return None
        loop = Loop(tuple([v for _, v in reads]), tuple([(v, f"o{i}") for i, v in enumerate(made)]))
        regions.append(Region(first, end - first, loop, tuple([read for read, _ in reads])))
    return dim, regions


def joined_loop(kernel: FusedKernel, dim: int, regions: Sequence[Region]) -> Kernel:
    """Return a function from a kernel's input arrays to its output arrays."""
    domain, count = kernel.domain, len(kernel.outputs)
    whole = contiguous_strides(domain.sizes)
    nbytes = sum(node.val.nbytes for node in (*kernel.inputs, *kernel.outputs))
    instructions = sum(region.length * len(region.loop.instructions) for region in regions)
    work = max(nbytes, 2 * (domain.numel // domain.sizes[dim]) * instructions)
    sharing = sharing_of(work)
    texts, arrays, ranks = [], [], []
    by_region: list[list[Numbers]] = []
    for k, region in enumerate(regions):
        sizes = [region.length if d == dim else n for d, n in enumerate(domain.sizes)]
        itemsizes = [
            *(node.val.itemsize for node in kernel.outputs),
            *(kernel.inputs[read.input_index].val.itemsize for read in region.reads),
        ]
        strides = [*(whole for _ in kernel.outputs), *(read.strides for read in region.reads)]
        starts = [
            *(region.first * whole[dim] for _ in kernel.outputs),
            *(read.start for read in region.reads),
        ]
        numel = domain.numel // domain.sizes[dim] * region.length
        geometry, parts = parts_of(
            Geometry.merged(sizes, strides, itemsizes), numel, part_limit_of(sharing, numel)
        )
        rank = len(geometry.sizes)
        for numbers in parts:
            for j, (start, size) in enumerate(zip(starts, itemsizes, strict=True)):
                numbers[rank + j * (rank + 1)] += start * size
        texts.append(loop_text(region.loop, geometry.steps, rank, f"region{k}"))
        arrays.append([*range(count), *(count + read.input_index for read in region.reads)])
        ranks.append(rank)
        by_region.append(parts)
    length = max(len(numbers) for parts in by_region for numbers in parts)
    work_list = [
        np.concatenate((numbers, np.zeros(length - len(numbers), np.int64), [k]))
        for turn in itertools.zip_longest(*by_region)
        for k, numbers in enumerate(turn)
        if numbers is not None
    ]
    total = count + len(kernel.inputs)
    instructions_of_all = [value for region in regions for value in region.loop.instructions]
    text = "\n".join(
        [
            HEADER + declarations(instructions_of_all),
            *texts,
            _dispatch(arrays, total, length),
            python_call(total, min(ranks)),
        ]
    )
    return over_parts(
        kernel, loop_function(text), work_list, range(count), range(len(kernel.inputs)), sharing
    )


def _dispatch(arrays: Sequence[Sequence[int]], total: int, index: int) -> str:
    """Return the function that dispatches a part to its region's loop."""
    pointers = ", ".join(f"ptr %p{j}" for j in range(total))
    lines = [
        f"define internal void @loop(ptr nocapture readonly %g, {pointers}) noinline {{",
        "entry:",
        *loaded_number("region", index),
        "  switch i64 %region, label %done [",
        *(f"    i64 {k}, label %to{k}" for k in range(len(arrays))),
        "  ]",
    ]
    for k, own in enumerate(arrays):
        arguments = ", ".join(["ptr %g", *(f"ptr %p{j}" for j in own)])
        lines += [f"to{k}:", f"  call void @region{k}({arguments})", "  br label %done"]
    return "\n".join([*lines, "done:", "  ret void", "}"]) + "\n"


def execution_of(regions: Sequence[Region]) -> str:
    """Describe how the loops run."""
    return f"one compiled loop for each of {len(regions)} regions"


def eager_join(call: CatCall) -> Callable[..., tuple[Any, ...]]:
    """Return a function from the arrays of a `cat`'s parts to its result."""
    spec, new = call.node.val, allocator_of(call.node.val)
    paddings: list[Any] = []
    for part in call.parts:
        if isinstance(part, Padding):
            sizes = [part.length if d == call.dim else n for d, n in enumerate(spec.sizes)]
            paddings.append(np.broadcast_to(np.array(part.value, spec.np_dtype), sizes))
        else:
            paddings.append(None)

    def join(*tensors: Any) -> tuple[Any, ...]:
        arrays, out = iter(tensors), new()
        np.concatenate([next(arrays) if each is None else each for each in paddings], call.dim, out)
        return (out,)

    return join

"""CUDA kernels of reductions that blocks share: one Triton program for each block, over all of its steps.

The program is the eager reduction's, with its tiles and order (`triton_kernels/reduction/reduction_kernels.py`),
except that it computes the reduced values instead of loading them. If few results reduce many elements, several
programs share a block of results. The last program to finish combines their partial results in order. So one launch
serves all reductions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...dispatch.layers.graph.graph import Node
from ...dispatch.structured.allocation import allocator_of
from ...dispatch.structured.stub import ElementFunction
from ...runtime.allocator import get_allocator
from ...runtime.cuda.driver import driver
from ...triton_kernels.conversion import type_name
from ...triton_kernels.elementwise.elementwise import HEAVY
from ...triton_kernels.geometry import broadcast_strides, coalesced
from ...triton_kernels.launch import ALIGNMENT, INT32_MAX, Launch, cdiv, interpreted
from ...triton_kernels.reduction.reduction import NORMS, REDUCTIONS, Reduction, itemsize_of
from ...triton_kernels.reduction.reduction_kernels import reduce
from ...triton_kernels.reduction.sides import (
    INTERPRETED_TILE,
    WARP_SIZE,
    Tile,
    asking,
    sides_of,
    tile_for,
)
from ...triton_kernels.reduction.stream_counters import counters_of
from ..block_reductions import NORM, ReductionCall, reduction_call_of
from ..pointwise import PointwiseCall
from ..schedule import ReductionKernel
from .pointwise import import_of, operands_of
from .row_statements import rounded, words_of
from .rows import offset_lines, offset_text
from .source_files import module_of
from .source_text import number_text, type_text

HEADER = '''"""{what}

Written by `tt.compile` for {device}; each step names the operator that it comes from.
"""

from triten.runtime.cuda.triton.lazy_triton import tl, triton
from triten.triton_kernels.conversion import convert
from triten.triton_kernels.reduction.last_program import is_last
{imports}


@triton.jit
def {name}_elements({pointers}, o, r, of_results, of_line, of_both, BLOCK_O: tl.constexpr, BLOCK_R: tl.constexpr):
{elements}


@triton.jit
def {name}({pointers}, {results}, BLOCK_O: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_P: tl.constexpr):
    o = tl.program_id(0).to({index_type}) * BLOCK_O + tl.arange(0, BLOCK_O)
    row_mask = o < {num_rows}
    mask = row_mask[:, None]
{body}
'''
MAX_WORDS = 128
"""The most registers of a lane for accumulators and a tile's values; more shrink the tile."""
MIN_TILE = 512
"""Elements of a tile that is made smaller, at least."""


class WrittenReductions(NamedTuple):
    """Source of a kernel, and the parameters of its launch.

    Attributes:
        name: The program's name.
        text: The module's source.
        tile: The tile for which it was written.
        accumulators: The types of partial results.
        num_rows: The number of results of each reduction.
        is_wide: True if offsets take 64 bits.
    """

    name: str
    text: str
    tile: Tile
    accumulators: list[Any]
    num_rows: int
    is_wide: bool


def device_reduction_kernel(kernel: ReductionKernel) -> Callable[..., tuple[Any, ...]]:
    """Return a function from the buffers of a kernel's inputs to those of its outputs."""
    written = write_reduction_kernel(kernel)
    tile, num_rows, device = written.tile, written.num_rows, kernel.device
    launch = plan_launch(kernel, written)
    grid = (cdiv(num_rows, tile.outputs), tile.splits, 1)
    outputs = outputs_of(kernel)
    allocators = [allocator_of(node.val) for node in outputs]
    order = [outputs.index(node) for node in kernel.outputs]
    enqueue = launch.enqueue
    if tile.splits == 1:

        def run(*inputs: Any) -> tuple[Any, ...]:
            outs = [new() for new in allocators]
            enqueue(grid, *[x.address for x in inputs], *[out.address for out in outs])
            return tuple([outs[i] for i in order])

        return run
    allocate, counters, blocks = get_allocator("cuda").allocate, counters_of(driver(), device), grid[0]
    sizes = [num_rows * tile.splits * max(t.primitive_bitwidth // 8, 1) for t in written.accumulators]

    def run_split(*inputs: Any) -> tuple[Any, ...]:
        outs = [new() for new in allocators]
        parts = [allocate(size, device) for size in sizes]
        counted = counters.current(blocks)
        enqueue(
            grid,
            *[x.address for x in inputs],
            *[out.address for out in outs],
            *[each.address for each in parts],
            counted.address,
            tile.chunk,
        )
        return tuple([outs[i] for i in order])

    return run_split


def outputs_of(kernel: ReductionKernel) -> list[Node]:
    """Return a kernel's outputs in the order of the program's parameters: whole tensors first, then all reductions."""
    reduced = [call.node for call in kernel.reductions]
    return [*(node for node in kernel.outputs if node not in reduced), *reduced]


def plan_launch(kernel: ReductionKernel, written: WrittenReductions) -> Launch:
    """Plan the launch of a written kernel."""
    specs = [node.val for node in (*kernel.inputs, *outputs_of(kernel))]
    whole = len(specs) - len(kernel.inputs) - len(kernel.reductions)
    names = [f"a{i}" for i in range(len(kernel.inputs))] + [f"b{i}" for i in range(whole)]
    names += [f"c{i}" for i in range(len(kernel.reductions))]
    signature = {name: f"*{spec.dtype.triton_name}" for name, spec in zip(names, specs, strict=True)}
    tile = written.tile
    if tile.splits > 1:
        signature |= {f"parts{i}": f"*{type_name(t)}" for i, t in enumerate(written.accumulators)}
        # As a constant it has ptxas unroll short loops, and spill registers for it.
        signature |= {"counters": "*i32", "chunk": "i64" if written.is_wide else "i32"}
    return Launch(
        kernel.device,
        getattr(module_of(written.text), written.name),
        signature,
        {"BLOCK_O": tile.outputs, "BLOCK_R": tile.reduced, "BLOCK_P": tile.parts},
        divisible=["chunk"] if tile.splits > 1 and tile.chunk % ALIGNMENT == 0 else [],
        elements=[name for name, spec in zip(names, specs, strict=True) if spec.numel == 1],
        num_warps=tile.warps,
    )


def reduction_of(call: ReductionCall) -> Reduction:
    """Return the combine functions of a reduction, those of its own kernel."""
    return NORMS[call.order] if call.stub == NORM else REDUCTIONS[call.stub]


def write_reduction_kernel(kernel: ReductionKernel) -> WrittenReductions:
    """Write the source of a kernel of reductions."""
    writer = _Writer(kernel)
    elements, body = writer.elements(), writer.body()
    tile = writer.tile
    results = [f"c{i}" for i in range(len(kernel.reductions))]
    if tile.splits > 1:
        results += [*(f"parts{i}" for i in range(len(kernel.reductions))), "counters", "chunk"]
    operators = ", ".join(call.node.target.name().removeprefix("aten::") for call in kernel.computed)
    space = kernel.space
    text = HEADER.format(
        what=f"{operators}: dimensions {list(space.dims)} of {list(space.sizes)}.",
        device=kernel.device.type,
        imports="\n".join(import_of(function, name) for function, name in writer.imports.items()),
        name=kernel.name,
        pointers=", ".join(writer.pointers),
        results=", ".join(results),
        elements="\n".join(f"    {line}" for line in elements),
        body="\n".join(f"    {line}" for line in body),
        num_rows=writer.num_rows,
        index_type="tl.int64" if writer.is_wide else "tl.int32",
    )
    return WrittenReductions(kernel.name, text, tile, writer.accumulators, writer.num_rows, writer.is_wide)


class _Writer:
    """Writes the programs of a kernel."""

    def __init__(self, kernel: ReductionKernel) -> None:
        self.kernel = kernel
        space = kernel.space
        self.rows = [reduction_of(call) for call in kernel.reductions]
        self.accumulators = [
            row.accumulate(call.source.val.dtype, call.node.val.dtype)
            for row, call in zip(self.rows, kernel.reductions, strict=True)
        ]
        self.whole = [node for node in outputs_of(kernel) if node.val.sizes == space.sizes]
        every = (*kernel.inputs, *self.whole)
        strides = [broadcast_strides(node.val, space.sizes) for node in every]
        kept_dims = [d for d in range(len(space.sizes)) if d not in space.dims]
        self.over_results = coalesced(
            [space.sizes[d] for d in kept_dims],
            [[own[d] for d in kept_dims] for own in strides],
            keep_order=True,
        )
        self.over_line = coalesced(
            [space.sizes[d] for d in space.dims],
            [[own[d] for d in space.dims] for own in strides],
            keep_order=True,
        )
        self.index_of = {node: i for i, node in enumerate(every)}
        names = [f"a{i}" for i in range(len(kernel.inputs))] + [f"b{i}" for i in range(len(self.whole))]
        self.pointers = names
        self.pointer = dict(zip(every, names, strict=True))
        self.n, self.num_rows = space.n, math.prod(space.kept)
        self.imports: dict[Any, str] = {}
        self.functions = self._functions()
        self.tile = self._tile()
        extent = self.over_results.extent() + self.over_line.extent()
        room = 2 * INTERPRETED_TILE + self.tile.chunk + self.tile.splits * self.num_rows
        self.is_wide = max(extent, self.n * self.num_rows) + room > INT32_MAX

    def _functions(self) -> dict[Node, ElementFunction]:
        """Return the scalar functions of the pointwise steps. Raise RuntimeError for a step without one."""
        calls = [call for call in self.kernel.calls if isinstance(call, PointwiseCall)]
        specs = {node: node.val for node in self.kernel.inputs} | {call.node: call.node.val for call in calls}
        functions = {}
        for call in calls:
            element = call.planned(specs)[1].element
            if element is None:
                raise RuntimeError(f"{call.node.target.name()} has no function of one element")
            functions[call.node] = element
        return functions

    def _tile(self) -> Tile:
        """Return the tile of the first reduction's own kernel, or a smaller one to limit register use."""
        call = self.kernel.reductions[0]
        spec, out = call.source.val, call.node.val
        sides = sides_of(spec, out, self.kernel.space.dims, False)
        tile = tile_for(
            sides.num_rows,
            sides.n,
            sides.reduced_is_inner,
            True,
            itemsize=itemsize_of(spec, self.accumulators[0]),
            ask=asking(
                reduce,
                reduction_call_of(call.stub, spec, out, self.kernel.space.dims, call.order),
                spec.dtype,
            ),
        )
        if interpreted():
            return tile
        words = sum(max(t.primitive_bitwidth // 32, 1) for t in self.accumulators) + self._max_live_words()
        if any(element.function in HEAVY for element in self.functions.values()):
            words *= 2
        outputs, reduced = tile.outputs, tile.reduced
        while (
            cdiv(outputs * reduced, WARP_SIZE * tile.warps) * words > MAX_WORDS
            and outputs * reduced > MIN_TILE
        ):
            if outputs > 1 and (not sides.reduced_is_inner or outputs >= reduced):
                if outputs <= WARP_SIZE and reduced > 1:
                    reduced //= 2
                else:
                    outputs //= 2
            else:
                reduced //= 2
        return Tile(outputs, reduced, tile.splits, tile.chunk, tile.warps)

    def _max_live_words(self) -> int:
        """Return the most registers that live values of an element take at once."""
        calls = self.kernel.computed
        last = {
            operand: i
            for i, call in enumerate(calls)
            for operand in call.operands
            if isinstance(operand, Node)
        }
        alive: set[Node] = set()
        max_words = 1
        for i, call in enumerate(calls):
            alive.update(operand for operand in call.operands if isinstance(operand, Node))
            if not isinstance(call, ReductionCall):
                alive.add(call.node)
            max_words = max(max_words, sum(words_of(node.val) for node in alive))
            alive = {node for node in alive if last.get(node, -1) > i}
        return max_words

    def function(self, made: Any) -> str:
        """Return the name of a function in the source."""
        return self.imports.setdefault(made, f"f_{made.__name__}_{len(self.imports)}")

    def at(self, node: Node) -> tuple[str, str]:
        """Return a pointer to a value's elements, and their mask."""
        index = self.index_of[node]
        texts = [
            offset_text(self.over_results, self.over_results.strides[index], "o", "o"),
            offset_text(self.over_line, self.over_line.strides[index], "r", "r"),
        ]
        mask = ["", "of_line", "of_results", "of_both"][2 * bool(texts[0]) + bool(texts[1])]
        return " + ".join([self.pointer[node], *(text for text in texts if text)]), mask

    def elements(self) -> list[str]:
        """Return the function that computes a tile of the values that the reductions combine."""
        lines = [*offset_lines(self.over_results, "o", "o"), *offset_lines(self.over_line, "r", "r")]
        values: dict[Node, str] = {}
        calls = [call for call in self.kernel.calls if isinstance(call, PointwiseCall)]
        for i, node in enumerate(self.kernel.inputs):
            values[node] = f"x{i}"
            address, mask = self.at(node)
            lines.append(f"x{i} = tl.load({address}{f', mask={mask}' if mask else ''})  # %{node.name}")
        for i, call in enumerate(calls):
            element = self.functions[call.node]
            values[call.node] = f"y{i}"
            arguments = operands_of(element, call.operands, values)
            lines.append(f"# {call.node.format_node()}")
            lines.append(
                f"y{i} = {rounded(f'{self.function(element.function)}({arguments})', call.node.val)}"
            )
            if call.node in self.whole:
                address, mask = self.at(call.node)
                lines.append(f"tl.store({address}, tl.broadcast_to(y{i}, (BLOCK_O, BLOCK_R)), mask={mask})")
        for i, (reduction, row, type_) in enumerate(
            zip(self.kernel.reductions, self.rows, self.accumulators, strict=True)
        ):
            accumulator_type = type_text(type_)
            value = f"{self.function(row.load)}(convert({values[reduction.source]}, {accumulator_type}))"
            lines.append(f"# {reduction.node.format_node()}")
            lines.append(f"z{i} = tl.broadcast_to(convert({value}, {accumulator_type}), (BLOCK_O, BLOCK_R))")
        return [*lines, f"return {', '.join(f'z{i}' for i in range(len(self.rows)))}"]

    def body(self) -> list[str]:
        """Return the program's body, after the indices of its outputs."""
        count, tile, n = len(self.rows), self.tile, self.n
        index = "tl.int64" if self.is_wide else "tl.int32"
        values = ", ".join(f"z{i}" for i in range(count))
        call = f"{self.kernel.name}_elements({', '.join(self.pointers)}, o[:, None], r[None, :], "
        is_split = tile.splits > 1
        lines = []
        for i, (row, type_) in enumerate(zip(self.rows, self.accumulators, strict=True)):
            number = number_text(row.start(type_))
            lines.append(f"total{i} = tl.full((BLOCK_O, BLOCK_R), {number}, {type_text(type_)})")
        if is_split:
            lines += [
                f"part = tl.program_id(1).to({index})",
                "first = part * chunk",
                f"last = tl.minimum(first + chunk, {n})",
                "whole = first + (last - first) // BLOCK_R * BLOCK_R",
            ]
        first, last, whole = (
            ("first", "last", "whole") if is_split else ("0", str(n), str(n // tile.reduced * tile.reduced))
        )
        columns = "tl.arange(0, BLOCK_R)" + (".to(tl.int64)" if self.is_wide else "")
        lines += [
            f"for base in range({first}, {whole}, BLOCK_R):",
            f"    r = base + {columns}",
            f"    {values} = {call}mask, None, mask, BLOCK_O, BLOCK_R)",
            *(
                f"    total{i} = {self.function(row.combine)}(total{i}, z{i})"
                for i, row in enumerate(self.rows)
            ),
        ]
        if n % tile.reduced:
            rest = [
                f"r = {whole} + {columns}",
                f"inside = (r < {last})[None, :]",
                f"{values} = {call}mask, inside, mask & inside, BLOCK_O, BLOCK_R)",
            ]
            for i, (row, type_) in enumerate(zip(self.rows, self.accumulators, strict=True)):
                start = f"tl.full((1, 1), {number_text(row.start(type_))}, {type_text(type_)})"
                rest.append(
                    f"total{i} = {self.function(row.combine)}(total{i}, tl.where(inside, z{i}, {start}))"
                )
            lines += [f"if {whole} < {last}:", *(f"    {line}" for line in rest)] if is_split else rest
        if not is_split:
            for i in range(count):
                lines += self.finished(i, f"total{i}")
            return lines
        for i, row in enumerate(self.rows):
            total = f"convert({self.function(row.across)}(total{i}), parts{i}.dtype.element_ty)"
            lines.append(f"tl.store(parts{i} + o + part * {self.num_rows}, {total}, mask=row_mask)")
        lines.append(f"if is_last(counters + tl.program_id(0), {tile.splits}):")
        for i, (row, type_) in enumerate(zip(self.rows, self.accumulators, strict=True)):
            number, text = number_text(row.start(type_)), type_text(type_)
            address = f"parts{i} + o[:, None] + p * {self.num_rows}"
            combined = [
                f"together{i} = tl.full((BLOCK_O, BLOCK_P), {number}, {text})",
                f"for base in range(0, {tile.splits}, BLOCK_P):",
                f"    p = (base + tl.arange(0, BLOCK_P)).to({index})[None, :]",
                f"    there = mask & (p < {tile.splits})",
                f"    value{i} = convert(tl.load({address}, mask=there, other=0), {text})",
                f"    value{i} = tl.where(there, value{i}, tl.full((1, 1), {number}, {text}))",
                f"    together{i} = {self.function(row.combine)}(together{i}, value{i})",
                *self.finished(i, f"together{i}"),
            ]
            lines += [f"    {line}" for line in combined]
        return lines

    def finished(self, i: int, name: str) -> list[str]:
        """Return the lines that store the results of a tile of accumulators."""
        row = self.rows[i]
        count = f"tl.full([], {self.n}, tl.int64)"
        result = f"{self.function(row.finish)}({self.function(row.across)}({name}), {count})"
        return [f"tl.store(c{i} + o, convert({result}, c{i}.dtype.element_ty), mask=row_mask)"]

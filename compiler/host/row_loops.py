"""A kernel over rows on the CPU as one compiled loop (the extra ``triten[jit]``), if its steps have instructions.

Rows are shared among the threads of the pool in parts, which follow from the geometry alone.
"""

from __future__ import annotations

from ...cpu_fallback.blocks import block_indices
from ...runtime.memory_format import contiguous_strides
from ...triton_kernels.geometry import coalesced
from ..schedule import RowsKernel
from . import loops
from .element_program import CannotLower, ElementProgram
from .function_check import dot_width, has_bits_of_eager
from .loops import Geometry, Kernel, over_parts
from .object_code import loop_function, target
from .reduction_source import BLAS
from .row_program import LoweredRows, strides_of
from .row_source import WORKSPACE_ITEM, RowLoop, write_rows


class RowKernel:
    """A kernel over rows as a loop.

    Attributes:
        lowered: what it computes.
        geometry: its index space with a row as the innermost dimension, and the strides of its arrays, outputs first.
        loop: its text.
    """

    def __init__(self, kernel: RowsKernel, lowered: LoweredRows) -> None:
        self.kernel, self.lowered = kernel, lowered
        space = kernel.space
        split = len(space.lead)
        over: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        for node in kernel.outputs:
            whole = contiguous_strides(space.sizes)
            if tuple(node.val.sizes) == space.sizes:
                over.append((whole[:split], whole[split:]))
            else:
                over.append((contiguous_strides(space.lead), (0,) * len(space.line)))
        over += [strides_of(view, space) for view in lowered.views]
        itemsizes = [node.val.itemsize for node in (*kernel.outputs, *(v.node for v in lowered.views))]
        lead = coalesced(space.lead, [a for a, _ in over], keep_order=True)
        line = coalesced(space.line, [b for _, b in over], keep_order=True)
        if len(line.sizes) != 1:
            raise CannotLower("rows of several strides")
        strides = [
            tuple(s * size for s in (*reversed(a), *b))
            for a, b, size in zip(lead.strides, line.strides, itemsizes, strict=True)
        ]
        self.geometry = Geometry((*lead.sizes[::-1], *line.sizes), strides, itemsizes)
        width = dot_width() if set(BLAS) & set(lowered.program.reductions) else 0
        self.loop: RowLoop = write_rows(
            lowered.program, self.geometry.steps, len(self.geometry.sizes), width or 16
        )


def row_kernel(kernel: RowsKernel) -> RowKernel | None:
    """A kernel over rows as a loop; None where there is none: llvmlite is missing, or a step is NumPy's."""
    found = target()
    if found is None:
        return None
    try:
        program = ElementProgram(found.converts_half, found.truncates, has_bits_of_eager)
        return RowKernel(kernel, LoweredRows(kernel, program))
    except CannotLower:
        return None


def host_row_loop(made: RowKernel) -> Kernel:
    """A function from the arrays of a kernel's inputs to those of its outputs."""
    kernel, geometry, loop = made.kernel, made.geometry, made.loop
    space, views = kernel.space, made.lowered.views
    lead, n = geometry.sizes[:-1], space.n
    specs = [node.val for node in (*kernel.outputs, *(view.node for view in views))]
    work = max(sum(spec.nbytes for spec in specs), 2 * space.rows * n * made.lowered.program.instructions)
    is_shared = work >= loops.SHARED_FROM
    limit = max(loops.PART // n, -(-space.rows // loops.PARTS), 1) if is_shared else space.rows
    parts = [geometry.numbers((*index, slice(0, n))) for index in block_indices(lead, None, limit)]
    places = [kernel.inputs.index(view.node) for view in views]
    outs = range(len(kernel.outputs))
    workspace = loop.workspace * n * WORKSPACE_ITEM
    return over_parts(kernel, loop_function(loop.text), parts, outs, places, is_shared, workspace)

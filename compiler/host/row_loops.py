"""A kernel over rows on the CPU as one compiled loop (the extra ``triten[jit]``), if its steps have instructions.

Rows are shared among the threads of the pool in parts, which follow from the geometry alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...cpu_fallback.blocks import block_indices
from ...cpu_fallback.function_check import dot_width, has_bits_of_eager
from ...cpu_fallback.normalization import compiled_gradients
from ...cpu_fallback.reduction.reduction_source import BLAS
from ...runtime.cpu.element_program import CannotLower, ElementProgram
from ...runtime.cpu.loop_requests import Sharing
from ...runtime.cpu.object_code import loop_function, target
from ...runtime.cpu.task_pool_source import MAX_POINTERS
from ...runtime.memory_format import contiguous_strides
from ...runtime.tensor_spec import TensorSpec
from ...triton_kernels.geometry import coalesced
from ..row_space import RowSpace, View
from ..schedule import RowsKernel
from . import loops
from .loops import Geometry, Kernel, Numbers, over_parts
from .picks import checked
from .row_program import LoweredRows, RowProgram, strides_of
from .row_source import WORKSPACE_ITEM, RowLoop, write_rows


class RowKernel:
    """Kernel over rows as a loop.

    Attributes:
        space: The rows.
        program: The row program.
        views: The view of each input of the program.
        geometry: The index space with a row as the innermost dimension, and the strides of the arrays, outputs first.
        loop: Its text.
    """

    def __init__(
        self, space: RowSpace, outputs: Sequence[TensorSpec], views: Sequence[View], program: RowProgram
    ) -> None:
        self.space, self.program, self.views = space, program, views
        self._specs = [*outputs, *(view.node.val for view in views)]
        split = len(space.lead)
        over: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        for spec in outputs:
            whole = contiguous_strides(space.sizes)
            if tuple(spec.sizes) == space.sizes:
                over.append((whole[:split], whole[split:]))
            else:
                over.append((contiguous_strides(space.lead), (0,) * len(space.line)))
        over += [strides_of(view, space) for view in views]
        itemsizes = [spec.itemsize for spec in self._specs]
        if program.draws:
            whole = contiguous_strides(space.sizes)
            over.append((whole[:split], whole[split:]))
            itemsizes.append(1)
        self.sums = len(over) if program.columns else None
        if program.columns:
            over.append(((0,) * split, contiguous_strides(space.line)))
            itemsizes.append(8)
        lead = coalesced(space.lead, [a for a, _ in over], keep_order=True)
        line = coalesced(space.line, [b for _, b in over], keep_order=True)
        if len(line.sizes) != 1:
            raise CannotLower("rows of several strides")
        strides = [
            tuple(s * size for s in (*reversed(a), *b))
            for a, b, size in zip(lead.strides, line.strides, itemsizes, strict=True)
        ]
        if len(strides) >= MAX_POINTERS:  # The workspace is a pointer, too.
            raise CannotLower("too many operands")
        self.geometry = Geometry((*lead.sizes[::-1], *line.sizes), strides, itemsizes)
        width = dot_width() if set(BLAS) & set(program.reductions) else 0
        self.loop: RowLoop = write_rows(program, self.geometry.steps, len(self.geometry.sizes), width or 16)

    @property
    def workspace(self) -> int:
        """Bytes that a thread works in."""
        return self.loop.workspace * self.space.n * WORKSPACE_ITEM

    def parts(self) -> tuple[list[Numbers], Sharing]:
        """Return the rows in parts, and how threads share them."""
        space, n, lead = self.space, self.space.n, self.geometry.sizes[:-1]
        work = max(sum(spec.nbytes for spec in self._specs), 2 * space.rows * n * self.program.instructions)
        sharing = loops.sharing_of(work)
        limit = max(loops.part_limit_of(sharing, space.rows * n) // n, 1)
        if self.sums is not None:
            limit = compiled_gradients.rows_of_part(space.rows, n)
        indices = block_indices(lead, None, limit)
        parts = [self.geometry.numbers((*index, slice(0, n))) for index in indices]
        if self.sums is not None:
            # Each part has sums of its own.
            rank = len(lead) + 1
            for i, part in enumerate(parts):
                part[rank + self.sums * (rank + 1)] += 8 * n * len(self.program.columns) * i
        return parts, sharing


def row_kernel(kernel: RowsKernel) -> RowKernel | None:
    """Return a kernel over rows as a loop; None if llvmlite is missing, or NumPy computes a step."""
    loop_target = target()
    if loop_target is None:
        return None
    try:
        program = ElementProgram(loop_target.converts_half, loop_target.truncates, has_bits_of_eager)
        lowered = LoweredRows(kernel, program)
        return RowKernel(kernel.space, lowered.outputs, lowered.views, lowered.program)
    except CannotLower:
        return None


def host_row_loop(kernel: RowsKernel, made: RowKernel) -> Kernel:
    """Return a function from a kernel's input arrays to its output arrays."""
    parts, sharing = made.parts()
    input_indices = [kernel.inputs.index(view.node) for view in made.views]
    summed = [j for j, node in enumerate(kernel.outputs) if node in kernel.column_sums]
    outs = [j for j in range(len(kernel.outputs)) if j not in summed]
    sums = ((len(parts), len(summed), made.space.n), summed) if summed else None
    loop = loop_function(made.loop.text)
    computed = over_parts(kernel, loop, parts, outs, input_indices, sharing, made.workspace, sums)
    return checked(kernel.calls, kernel.inputs, computed)

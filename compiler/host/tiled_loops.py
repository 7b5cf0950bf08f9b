"""Fused CPU kernel as one loop over tiles (the extra ``triten[jit]``), for random ops and NumPy's functions.

Values before and after a NumPy function go through a buffer of a tile's size, which stays in the first-level cache,
and NumPy's own loop is called in between. Random words are generated there, too. No Python runs inside.
"""

from __future__ import annotations

from ...cpu_fallback.function_check import has_bits_of_eager
from ...runtime.cpu.element_loop import made_of
from ...runtime.cpu.element_program import CannotLower, ElementProgram
from ...runtime.cpu.object_code import loop_function, target
from ..schedule import FusedKernel
from .loops import (
    TURNED_FROM,
    Kernel,
    has_too_many_arrays,
    over_parts,
    part_limit,
    sharing_of,
    whole_geometry,
    work_of,
)
from .lowering import Lowered
from .row_program import RowProgram
from .row_source import WORKSPACE_ITEM, write_rows

TILE = 1024
"""Elements of a tile."""
MIN_ROW = 128
"""The shortest innermost dimension for which calls of NumPy's loops pay off."""


def tiled_program(kernel: FusedKernel) -> RowProgram | None:
    """Return the program of a kernel for a tile; None if NumPy computes an operator, or tiles would be short.

    An array that is contiguous along another dimension is read in blocks by `loops`.
    """
    loop_target = target()
    if loop_target is None:
        return None
    try:
        lowered = Lowered(
            kernel, ElementProgram(loop_target.converts_half, loop_target.truncates, has_bits_of_eager)
        )
    except CannotLower:
        return None
    order = made_of(lowered.outputs)
    inputs = tuple(value for value in order if value.kind in ("input", "place"))
    seeds = tuple(value for value in order if value.kind == "seeds")
    outs = range(len(kernel.outputs))
    if has_too_many_arrays(len(inputs), len(outs)):
        return None
    geometry = whole_geometry(kernel, outs, inputs)
    is_turned = geometry.turned is not None and kernel.domain.numel >= TURNED_FROM
    if is_turned or geometry.sizes[-1] < MIN_ROW or "any" in geometry.steps[: len(outs)]:
        return None
    are_rows = (*(step != "zero" for step in geometry.steps[len(outs) :]), *(True for _ in outs))
    program = RowProgram(inputs + seeds, tuple(lowered.outputs), are_rows)
    if seeds and geometry.steps[-1] != "unit":
        return None
    try:
        return program if program.ufuncs or program.draws else None
    except CannotLower:
        return None


def tiled_loop(kernel: FusedKernel, program: RowProgram) -> Kernel:
    """Return a function from a kernel's input arrays to its output arrays."""
    outs = range(len(kernel.outputs))
    inputs = [value for value in program.inputs if value.kind != "seeds"]
    input_indices = [value.detail for value in inputs]
    geometry = whole_geometry(kernel, outs, inputs)
    work = work_of(kernel, input_indices, program.instructions)
    parts = geometry.parts(part_limit(work, kernel.domain.numel))
    loop = write_rows(program, geometry.steps, len(geometry.sizes), tile=TILE)
    workspace = loop.workspace * TILE * WORKSPACE_ITEM
    return over_parts(
        kernel, loop_function(loop.text), parts, outs, input_indices, sharing_of(work), workspace
    )

"""Norms of tensor lists: partial results of all tensors, then of each tensor, or of all of them together.

A program combines CHUNK elements of one tensor, lane by lane and then by a tree. The second kernel combines
the partial results in the order of tensors and elements. Results depend on sizes alone, not on scheduling.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..elementwise.pointwise_functions import reciprocal
from ..optimizers.table_kernels import column, row_of, whole_vectors


@triton.jit
def multi_tensor_norm_parts(
    base,
    table,
    rows,
    parts,
    COMBINE: tl.constexpr,
    ACROSS: tl.constexpr,
    LOAD: tl.constexpr,
    START: tl.constexpr,
    TYPE: tl.constexpr,
    V: tl.constexpr,
    BLOCK: tl.constexpr,
    STEPS: tl.constexpr,
):
    """Combine CHUNK = BLOCK * STEPS elements into one number."""
    program = tl.program_id(0)
    row = row_of(table, rows, program)
    start = (program - column(table, rows, row, 0)) * (BLOCK * STEPS)
    numel = column(table, rows, row, 1)
    x = column(table, rows, row, 2)
    index = tl.arange(0, BLOCK)
    total = tl.full((1, BLOCK), START, TYPE)
    if (start + BLOCK * STEPS <= numel) & (x % V == 0):
        at = base + start + index[None, :]
        for step in range(STEPS):
            value = tl.load(at + step * BLOCK + whole_vectors(x, V))
            total = COMBINE(total, LOAD(convert(value, TYPE)))
    else:
        at = base + start + index[None, :]
        for step in range(STEPS):
            inside = start + step * BLOCK + index[None, :] < numel
            value = tl.load(at + step * BLOCK + x, mask=inside, other=0.0)
            total = COMBINE(total, tl.where(inside, LOAD(convert(value, TYPE)), START))
    lane = tl.arange(0, 1)
    tl.store(parts + program + lane, convert(ACROSS(total), parts.dtype.element_ty))


@triton.jit
def combined(
    parts,
    first,
    count,
    COMBINE: tl.constexpr,
    ACROSS: tl.constexpr,
    START: tl.constexpr,
    FINISH: tl.constexpr,
    TYPE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Combine `count` partial results from `first` on, as a block of one element."""
    index = tl.arange(0, BLOCK)[None, :]
    total = tl.full((1, BLOCK), START, TYPE)
    for done in range(0, count, BLOCK):
        inside = done + index < count
        value = tl.load(parts + first + done + index, mask=inside, other=0.0)
        total = COMBINE(total, tl.where(inside, value.to(TYPE), START))
    return FINISH(ACROSS(total), count)


@triton.jit
def multi_tensor_norms(
    parts,
    base,
    table,
    rows,
    COMBINE: tl.constexpr,
    ACROSS: tl.constexpr,
    START: tl.constexpr,
    FINISH: tl.constexpr,
    LOAD: tl.constexpr,
    TYPE: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute the norm of each tensor; a single element is its own norm, even if its powers overflow."""
    row = tl.program_id(0)
    numel = column(table, rows, row, 1)
    first = column(table, rows, row, 0)
    count = ((numel + CHUNK - 1) // CHUNK).to(tl.int32)
    result = combined(parts, first, count, COMBINE, ACROSS, START, FINISH, TYPE, BLOCK)
    lane = tl.arange(0, 1)
    alone = tl.load(base + column(table, rows, row, 2) + lane)
    result = tl.where(numel == 1, tl.abs(convert(alone, TYPE)), result)
    tl.store(base + column(table, rows, row, 3) + lane, convert(result, base.dtype.element_ty))


@triton.jit
def multi_tensor_total_norm(
    parts,
    count,
    total,
    coefficient,
    most,
    COMBINE: tl.constexpr,
    ACROSS: tl.constexpr,
    START: tl.constexpr,
    FINISH: tl.constexpr,
    TYPE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute the norm of all tensors, and the coefficient that clips it to `most`.

    Each step rounds to the result's dtype, as ``(most / (total + 1e-6)).clamp(max=1)`` does.
    """
    stored = total.dtype.element_ty
    lane = tl.arange(0, 1)
    norm = combined(parts, 0, count, COMBINE, ACROSS, START, FINISH, TYPE, BLOCK)
    norm = convert(norm, stored)
    tl.store(total + lane, norm)
    raised = convert(convert(norm, TYPE) + 1e-6, stored)
    inverse = convert(reciprocal(convert(raised, TYPE)), stored)
    scale = convert(convert(inverse, TYPE) * most.to(TYPE), stored)
    scale = tl.minimum(convert(scale, TYPE), 1.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(coefficient + lane, convert(scale, stored))


WHY = "32 warps: each has two vectors of its tensor in flight, and a chunk's loads follow one another"

declare(
    multi_tensor_norm_parts,
    why=WHY,
    operand="base",
    tile=("BLOCK", "STEPS"),
    dtypes={
        ("fp32",): (Configuration((1024, 8), 4),),
        ("fp16", "bf16"): (Configuration((2048, 8), 4),),
        ("fp64",): (Configuration((512, 8), 4),),
    },
    operations="2 n",
    traffic="n itemsize",
    loads=("base",),
)

declare(
    multi_tensor_norms,
    why="one program a tensor, which waits for a few partial results: nothing is to be filled",
    operand="base",
    dtypes={("fp32", "fp64", "fp16", "bf16"): (Configuration((256,), 4),)},
    operations="one for each partial result",
    traffic="the partial results",
)

declare(
    multi_tensor_total_norm,
    why="one program in all, which reads one number for each chunk",
    operand="total",
    dtypes={("fp32", "fp64", "fp16", "bf16"): (Configuration((1024,), 4),)},
    operations="one for each partial result",
    traffic="the partial results",
)

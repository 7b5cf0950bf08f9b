"""The program of `tril` and `triu`."""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import MOVED, declare
from ..reduction.reduction_kernels import offset_of
from .picking_kernels import DEFAULT_TILE


@triton.jit
def triangle(
    source,
    out,
    n,
    rows,
    columns,
    diagonal,
    source_row,
    source_column,
    out_row,
    out_column,
    b0,
    b1,
    b2,
    sb0,
    sb1,
    sb2,
    sb3,
    ob0,
    ob1,
    ob2,
    ob3,
    LOWER: tl.constexpr,
    NDIM_B: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Copy the part of each matrix on one side of a diagonal; zero the other side."""
    t = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    mask = t < n
    column = t % columns
    row = (t // columns) % rows
    b = t // columns // rows
    if LOWER:
        kept = column - row <= diagonal
    else:
        kept = column - row >= diagonal
    at = offset_of(b, b0, b1, b2, sb0, sb1, sb2, sb3, NDIM_B) + row * source_row + column * source_column
    out_offset = offset_of(b, b0, b1, b2, ob0, ob1, ob2, ob3, NDIM_B) + row * out_row + column * out_column
    tl.store(out + out_offset, tl.load(source + at, mask=mask & kept, other=0), mask=mask)


declare(
    triangle,
    why="32 warps: lanes read and write in order, but scalars, since a matrix need not have whole vectors",
    dtypes=MOVED,
    configurations=DEFAULT_TILE,
    operations="an offset for each element",
    traffic="n itemsize and what is kept of n itemsize",
)

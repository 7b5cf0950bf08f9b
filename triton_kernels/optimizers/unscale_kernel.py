"""Gradients of many tensors without the scale of their loss, and whether all are finite, in one launch."""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import STREAMING, Configuration, declare
from ..conversion import convert
from .table_kernels import column, row_of, whole_vectors


@triton.jit
def unscale(
    base,
    table,
    rows,
    inverse,
    found_inf,
    TYPE: tl.constexpr,
    V: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Unscale gradients in place. Every program that finds a non-finite value writes the same 1, so their order does
    not matter.
    """
    stored = base.dtype.element_ty
    program = tl.program_id(0)
    row = row_of(table, rows, program)
    start = (program - column(table, rows, row, 0)) * BLOCK
    numel = column(table, rows, row, 1)
    g = column(table, rows, row, 2)
    factor = tl.load(inverse)
    index = tl.arange(0, BLOCK)
    at = base + start + index
    if (start + BLOCK <= numel) & (g % V == 0):
        value = convert(tl.load(at + whole_vectors(g, V)), TYPE)
        bad = tl.max((value - value != 0.0).to(tl.int32), 0)
        if factor != 1.0:
            tl.store(at + whole_vectors(g, V), convert(value * factor.to(TYPE), stored))
    else:
        inside = start + index < numel
        value = convert(tl.load(at + g, mask=inside, other=0.0), TYPE)
        bad = tl.max((value - value != 0.0).to(tl.int32), 0)
        tl.store(at + g, convert(value * factor.to(TYPE), stored), mask=inside & (factor != 1.0))
    if bad != 0:
        tl.store(found_inf, 1.0)


declare(
    unscale,
    why=STREAMING,
    operand="base",
    dtypes={
        ("fp32",): (Configuration((1024,), 4), Configuration((2048,), 8)),
        ("fp16", "bf16"): (Configuration((1024,), 4), Configuration((2048,), 8)),
        ("fp64",): (Configuration((512,), 4), Configuration((1024,), 8)),
    },
    operations="3 n",
    traffic="2 n itemsize",
    loads=("base",),
    stores=("base",),
)

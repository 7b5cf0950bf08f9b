"""A pointwise function over the tensors of lists; `optimizers/table_kernels.py` says how a program finds its row."""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import STREAMING, Configuration, declare
from ..conversion import convert
from ..elementwise.operands import apply
from ..elementwise.pointwise_functions import clamp
from ..optimizers.table_kernels import column, number, row_of, whole_vectors


@triton.jit
def filled(a, value):
    """Return one number for each element."""
    return tl.broadcast_to(value, a.shape)


@triton.jit
def clamped_within(a, bound):
    """Return the nearest elements between -bound and bound."""
    return clamp(a, -bound, bound)


@triton.jit
def copied(a, b):
    """Return the elements of another tensor."""
    return b


@triton.jit
def operand(at, mask, PRESENT: tl.constexpr, TYPE: tl.constexpr):
    """Load an operand's elements in the arithmetic type; an absent operand is not read."""
    if PRESENT:
        return convert(tl.load(at, mask=mask), TYPE)
    else:
        return 0


@triton.jit
def multi_tensor_pointwise(
    base,
    table,
    rows,
    last,
    FUNCTION: tl.constexpr,
    LISTS: tl.constexpr,
    LAST: tl.constexpr,
    INDIRECT: tl.constexpr,
    FIRST: tl.constexpr,
    TYPE: tl.constexpr,
    V: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Operands are LISTS tensors, the first of them in the column FIRST, and after them, if LAST, one number."""
    stored = base.dtype.element_ty
    program = tl.program_id(0)
    row = row_of(table, rows, program)
    start = (program - column(table, rows, row, 0)) * BLOCK
    numel = column(table, rows, row, 1)
    out = column(table, rows, row, 2)
    a = column(table, rows, row, FIRST)
    b = column(table, rows, row, FIRST + 1) if LISTS > 1 else a
    c = column(table, rows, row, FIRST + 2) if LISTS > 2 else a
    at = base + start + tl.arange(0, BLOCK)
    if (start + BLOCK <= numel) & ((out | a | b | c) % V == 0):
        x = operand(at + whole_vectors(a, V), None, True, TYPE)
        y = operand(at + whole_vectors(b, V), None, LISTS > 1, TYPE)
        z = operand(at + whole_vectors(c, V), None, LISTS > 2, TYPE)
        value = with_last(x, y, z, last, FUNCTION, LISTS, LAST, INDIRECT, TYPE)
        tl.store(at + whole_vectors(out, V), convert(value, stored))
    else:
        inside = start + tl.arange(0, BLOCK) < numel
        x = operand(at + a, inside, True, TYPE)
        y = operand(at + b, inside, LISTS > 1, TYPE)
        z = operand(at + c, inside, LISTS > 2, TYPE)
        value = with_last(x, y, z, last, FUNCTION, LISTS, LAST, INDIRECT, TYPE)
        tl.store(at + out, convert(value, stored), mask=inside)


@triton.jit
def with_last(
    x,
    y,
    z,
    last,
    FUNCTION: tl.constexpr,
    LISTS: tl.constexpr,
    LAST: tl.constexpr,
    INDIRECT: tl.constexpr,
    TYPE: tl.constexpr,
):
    """Return the function of the operands that exist."""
    if LAST:
        given = number(last, INDIRECT).to(TYPE)
        if LISTS == 1:
            return apply(FUNCTION, 2, x, given, 0, 0)
        elif LISTS == 2:
            return apply(FUNCTION, 3, x, y, given, 0)
        else:
            return apply(FUNCTION, 4, x, y, z, given)
    else:
        return apply(FUNCTION, LISTS, x, y, z, 0)


declare(
    multi_tensor_pointwise,
    why=STREAMING,
    operand="base",
    dtypes={
        ("fp32",): (Configuration((1024,), 4), Configuration((2048,), 8)),
        ("fp16", "bf16"): (Configuration((1024,), 4), Configuration((2048,), 8)),
        ("fp64",): (Configuration((512,), 4), Configuration((1024,), 8)),
    },
    operations="n times the function's",
    traffic="n itemsize for the result and for each list of operands",
    loads=("base",),
    stores=("base",),
)

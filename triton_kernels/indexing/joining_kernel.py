"""Tensors one after another in one launch; `optimizers/table_kernels.py` says how a program finds its tensor.

Elements go in units of V, which lie beside each other on both sides. A tensor's index space, in such units, has NDIM
dimensions, the inner one first.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import FLOATS, STREAMING, Configuration, declare
from ..conversion import convert
from ..optimizers.table_kernels import column, row_of

FEW = 4
"""Tensors whose addresses are given at launch, so that the table need not be moved again for others."""


@triton.jit
def given_address(row, x0, x1, x2, x3):
    """Return the address of a row, out of at most five."""
    return tl.where(row == 0, x0, tl.where(row == 1, x1, tl.where(row == 2, x2, x3)))


@triton.jit
def join(
    base,
    out,
    table,
    rows,
    x0,
    x1,
    x2,
    x3,
    NDIM: tl.constexpr,
    GIVEN: tl.constexpr,
    ITEMSIZE: tl.constexpr,
    V: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Columns: where the tensor begins in `out`, NDIM - 1 sizes, NDIM strides of the tensor, as many of `out`.

    The last column is the tensor's address, unless it is GIVEN at launch. All but sizes are in units.
    """
    units: tl.constexpr = BLOCK // V
    program = tl.program_id(0)
    row = row_of(table, rows, program)
    rest = (program - column(table, rows, row, 0)) * units + tl.arange(0, units)
    inside = rest < column(table, rows, row, 1)
    rest = rest.to(INDEX)
    out_offset = column(table, rows, row, 2) + tl.zeros((units,), tl.int64)
    if GIVEN:
        start = given_address(row, x0, x1, x2, x3) // (ITEMSIZE * V)
    else:
        start = column(table, rows, row, 2 + 3 * NDIM)
    source = start + tl.zeros((units,), tl.int64)
    for d in tl.static_range(NDIM):
        place = rest
        if d < NDIM - 1:
            size = column(table, rows, row, 3 + d).to(INDEX)
            rest = rest // size
            place = place - rest * size
        source += place.to(tl.int64) * column(table, rows, row, 2 + NDIM + d)
        out_offset += place.to(tl.int64) * column(table, rows, row, 2 + 2 * NDIM + d)
    lane = tl.arange(0, V)[None, :]
    mask = inside[:, None]
    value = tl.load(base + (source[:, None] * V + lane), mask=mask)
    tl.store(out + (out_offset[:, None] * V + lane), convert(value, out.dtype.element_ty), mask=mask)


CONVERTED = (*FLOATS, "i32", "i64", "i8", "i16", "u8")
"""Types to which elements of other types are converted; the four as which elements are moved are among them."""


def tiles(itemsize: int) -> tuple[Configuration, ...]:
    """4 KiB of the output for each program, as elementwise kernels have; where each element has an address of its own,
    four elements a lane."""
    return (Configuration((4096 // itemsize,)), *[Configuration((512,))] * (itemsize < 8))


declare(
    join,
    why=STREAMING,
    dtypes={
        tuple(d for d in CONVERTED if d.endswith("64")): tiles(8),
        tuple(d for d in CONVERTED if d.endswith("32")): tiles(4),
        tuple(d for d in CONVERTED if d.endswith("16")): tiles(2),
        ("i8", "u8"): tiles(2),
    },
    operations="a division for each dimension but one",
    traffic="n itemsizes of both sides",
    loads=("base",),
    stores=("out",),
)

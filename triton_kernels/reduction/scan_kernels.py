"""The program of sums of prefixes."""

from ...runtime.cuda.lazy_triton import tl, triton
from ..budget import NUMBERS, Configuration, declare
from ..conversion import convert
from .reduction_kernels import offset_of, sum_across


@triton.jit
def prefix_sums(
    x,
    out,
    carry,
    splits,
    n_out,
    n,
    chunk,
    k0,
    k1,
    k2,
    xk0,
    xk1,
    xk2,
    xk3,
    ok0,
    ok1,
    ok2,
    ok3,
    xr0,
    or0,
    ACCUMULATOR: tl.constexpr,
    KEPT: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """Along lines, or along each line's parts; `carry` [lines, parts] then has the sums of whole parts."""
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    part = tl.program_id(1).to(INDEX)
    wanted = o < n_out
    rows = x + offset_of(o, k0, k1, k2, xk0, xk1, xk2, xk3, KEPT)[:, None]
    to = out + offset_of(o, k0, k1, k2, ok0, ok1, ok2, ok3, KEPT)[:, None]
    before = tl.zeros((BLOCK_O,), ACCUMULATOR)
    nothing = tl.zeros((1, 1), ACCUMULATOR)
    if ACCUMULATOR.is_floating():
        # -0.0, to which every number can be added without a change.
        before = before * -1.0
        nothing = nothing * -1.0
    if carry is not None:
        # The sum of the parts before this one is the carry that ends with the last of them.
        carried = tl.load(carry + o * splits + part - 1, mask=wanted & (part > 0), other=0)
        before = tl.where(part > 0, carried, before)
    first = part * chunk
    last = tl.minimum(first + chunk, n)
    for base in range(first, last, BLOCK_R):
        r = base + tl.arange(0, BLOCK_R).to(INDEX)
        mask = wanted[:, None] & (r < last)[None, :]
        value = convert(tl.load(rows + r[None, :] * xr0, mask=mask, other=0), ACCUMULATOR)
        value = tl.where(mask, value, nothing)
        sums = tl.cumsum(value, 1) + before[:, None]
        tl.store(to + r[None, :] * or0, convert(sums, out.dtype.element_ty), mask=mask)
        before = before + sum_across(value)


ROWS, COLUMNS = Configuration((1, 4096), 8), Configuration((64, 32))

declare(
    prefix_sums,
    warps=16,
    why="16 warps: a tile's 64-bit values, their masks and their sums are live at once, 16 elements for each lane",
    operand="x",
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes={
        ("fp32", "fp64", "i64"): (ROWS, COLUMNS),
        tuple(d for d in NUMBERS if d not in ("fp32", "fp64", "i64")): (ROWS,),
    },
    smaller=True,
    operations="n_out n",
    traffic="n_out n (itemsize of x + itemsize of out)",
)

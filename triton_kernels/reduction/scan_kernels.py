"""Kernels of scans with one accumulator, and with pairs, such as values with indices and complex numbers.

A program goes along its lines tile by tile and carries the combined value. The carry of a part combines the
parts before it, which `carry` [lines, parts] holds.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import NUMBERS, Configuration, declare
from ..conversion import convert
from ..elementwise.pointwise_functions import exp, log1p
from .joint_reduction_kernels import add_rounded, both_parts, multiply_pairs
from .reduction_kernels import offset_of


@triton.jit
def sums_along(tile):
    return tl.cumsum(tile, 1)


@triton.jit
def products_along(tile):
    return tl.cumprod(tile, 1)


@triton.jit
def add_exponents(a, b):
    """log(exp(a) + exp(b)). Equal infinities stay, as NaN does."""
    maximum = tl.where((a > b) | (a != a), a, b)
    low = tl.where((a > b) | (a != a), b, a)
    low = tl.where(low != low, low, tl.where(maximum - maximum == 0, low - maximum, low))
    return tl.where((low == maximum) & (maximum - maximum != 0), maximum, maximum + log1p(exp(low)))


@triton.jit
def exponents_across(tile):
    return tl.reduce(tile, 1, add_exponents)


@triton.jit
def exponents_along(tile):
    return tl.associative_scan(tile, 1, add_exponents)


@triton.jit
def prefix_scan(
    x,
    out,
    carry,
    splits,
    num_rows,
    n,
    chunk,
    kept_size0,
    kept_size1,
    kept_size2,
    x_kept_stride0,
    x_kept_stride1,
    x_kept_stride2,
    x_kept_stride3,
    out_kept_stride0,
    out_kept_stride1,
    out_kept_stride2,
    out_kept_stride3,
    x_reduced_stride0,
    out_reduced_stride0,
    COMBINE: tl.constexpr,
    ACROSS: tl.constexpr,
    ALONG: tl.constexpr,
    START: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    COMPENSATED: tl.constexpr,
    SINGLE: tl.constexpr,
    KEPT: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """Along lines, or along each line's parts. SINGLE tiles hold all that a program goes along.

    COMPENSATED a sum is carried with what rounding left over of it; both are one float where it is added to prefixes.
    """
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    part = tl.program_id(1).to(INDEX)
    row_mask = o < num_rows
    rows = (
        x
        + offset_of(
            o,
            kept_size0,
            kept_size1,
            kept_size2,
            x_kept_stride0,
            x_kept_stride1,
            x_kept_stride2,
            x_kept_stride3,
            KEPT,
        )[:, None]
    )
    out_ptrs = (
        out
        + offset_of(
            o,
            kept_size0,
            kept_size1,
            kept_size2,
            out_kept_stride0,
            out_kept_stride1,
            out_kept_stride2,
            out_kept_stride3,
            KEPT,
        )[:, None]
    )
    before = tl.full((BLOCK_O,), START, ACCUMULATOR)
    nothing = tl.full((1, 1), START, ACCUMULATOR)
    left = tl.zeros((BLOCK_O,), ACCUMULATOR)
    if carry is not None:
        # What the parts before this one have is the carry that ends with the last of them.
        carried = tl.load(carry + o * splits + part - 1, mask=row_mask & (part > 0), other=0)
        rounded = carried.to(ACCUMULATOR)
        before = tl.where(part > 0, rounded, before)
        if COMPENSATED and carried.dtype != ACCUMULATOR:
            left = (carried - rounded.to(carried.dtype)).to(ACCUMULATOR)
    first = part * chunk
    last = tl.minimum(first + chunk, n)
    for base in range(first, last, BLOCK_R):
        r = base + tl.arange(0, BLOCK_R).to(INDEX)
        mask = row_mask[:, None] & (r < last)[None, :]
        value = convert(tl.load(rows + r[None, :] * x_reduced_stride0, mask=mask, other=0), ACCUMULATOR)
        value = tl.where(mask, value, nothing)
        result = ALONG(value)
        if START == 0 and ACCUMULATOR.is_floating():
            result = result + 0.0  # PyTorch's sums begin at 0.0: those of nothing but -0.0 show it
        if carry is not None or not SINGLE:
            if COMPENSATED:
                result = both_parts(before, left)[:, None] + result
                before, left = add_rounded(before, left, ACROSS(value), tl.zeros_like(left))
            else:
                result = COMBINE(before[:, None], result)
                before = COMBINE(before, ACROSS(value))
        tl.store(
            out_ptrs + r[None, :] * out_reduced_stride0, convert(result, out.dtype.element_ty), mask=mask
        )


@triton.jit
def is_taken(a, i, b, j, beyond, equal):
    """Return True if (b, j) replaces the other: it is farther, equally far and later, or a later NaN.

    The indices decide, not the order of the operands, which a reduction does not keep.
    """
    later = j > i
    return tl.where(b != b, (a == a) | later, (a == a) & (beyond | (equal & later)))


@triton.jit
def later_larger(a, i, b, j):
    """Return the larger with its index; of equal elements, and of NaNs, the later one."""
    taken = is_taken(a, i, b, j, b > a, b == a)
    return tl.where(taken, b, a), tl.where(taken, j, i)


@triton.jit
def later_smaller(a, i, b, j):
    taken = is_taken(a, i, b, j, b < a, b == a)
    return tl.where(taken, b, a), tl.where(taken, j, i)


@triton.jit
def larger_along(value, index):
    return tl.associative_scan((value, index), 1, later_larger)


@triton.jit
def larger_across(value, index):
    return tl.reduce((value, index), 1, later_larger)


@triton.jit
def smaller_along(value, index):
    return tl.associative_scan((value, index), 1, later_smaller)


@triton.jit
def smaller_across(value, index):
    return tl.reduce((value, index), 1, later_smaller)


@triton.jit
def products_of_pairs_along(re, im):
    return tl.associative_scan((re, im), 1, multiply_pairs)


@triton.jit
def products_of_pairs_across(re, im):
    return tl.reduce((re, im), 1, multiply_pairs)


@triton.jit
def pair_scan(
    x,
    y,
    out,
    also,
    carry,
    also_carried,
    splits,
    num_rows,
    n,
    chunk,
    kept_size0,
    kept_size1,
    kept_size2,
    x_kept_stride0,
    x_kept_stride1,
    x_kept_stride2,
    x_kept_stride3,
    out_kept_stride0,
    out_kept_stride1,
    out_kept_stride2,
    out_kept_stride3,
    x_reduced_stride0,
    out_reduced_stride0,
    COMBINE: tl.constexpr,
    ACROSS: tl.constexpr,
    ALONG: tl.constexpr,
    TOTALS: tl.constexpr,
    START: tl.constexpr,
    TYPE: tl.constexpr,
    TYPE_OF_OTHER: tl.constexpr,
    SINGLE: tl.constexpr,
    KEPT: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    """Along lines, or along each line's parts; with TOTALS only each part's last result is stored.

    An accumulator is a pair: an element of `x` and one of `y`, which lies as `x` does; or its position where `y` is
    None. That of nothing is START and 0.
    """
    o = tl.program_id(0).to(INDEX) * BLOCK_O + tl.arange(0, BLOCK_O).to(INDEX)
    part = tl.program_id(1).to(INDEX)
    row_mask = o < num_rows
    rows = offset_of(
        o,
        kept_size0,
        kept_size1,
        kept_size2,
        x_kept_stride0,
        x_kept_stride1,
        x_kept_stride2,
        x_kept_stride3,
        KEPT,
    )[:, None]
    out_offset = offset_of(
        o,
        kept_size0,
        kept_size1,
        kept_size2,
        out_kept_stride0,
        out_kept_stride1,
        out_kept_stride2,
        out_kept_stride3,
        KEPT,
    )
    before = tl.full((BLOCK_O,), START, TYPE)
    other_before = tl.zeros((BLOCK_O,), TYPE_OF_OTHER)
    if carry is not None:
        mask = row_mask & (part > 0)
        end = o * splits + part - 1
        before = tl.where(part > 0, tl.load(carry + end, mask=mask, other=0), before)
        other_before = tl.where(part > 0, tl.load(also_carried + end, mask=mask, other=0), other_before)
    first = part * chunk
    last = tl.minimum(first + chunk, n)
    for base in range(first, last, BLOCK_R):
        r = base + tl.arange(0, BLOCK_R).to(INDEX)
        held = row_mask[:, None] & (r < last)[None, :]
        value = convert(tl.load(x + (rows + r[None, :] * x_reduced_stride0), mask=held, other=0), TYPE)
        value = tl.where(held, value, tl.full((1, 1), START, TYPE))
        if y is not None:
            other = convert(
                tl.load(y + (rows + r[None, :] * x_reduced_stride0), mask=held, other=0), TYPE_OF_OTHER
            )
            other = tl.where(held, other, tl.zeros_like(other))
        else:
            other = tl.broadcast_to(r.to(TYPE_OF_OTHER)[None, :], (BLOCK_O, BLOCK_R))
        if not TOTALS:
            result, also_result = ALONG(value, other)
            if carry is not None or not SINGLE:
                result, also_result = COMBINE(before[:, None], other_before[:, None], result, also_result)
            at = out_offset[:, None] + r[None, :] * out_reduced_stride0
            tl.store(out + at, convert(result, out.dtype.element_ty), mask=held)
            tl.store(also + at, convert(also_result, also.dtype.element_ty), mask=held)
        if TOTALS or not SINGLE:
            own, also_own = ACROSS(value, tl.where(held, other, 0))
            before, other_before = COMBINE(before, other_before, own, also_own)
    if TOTALS:
        tl.store(out + out_offset + part, before, mask=row_mask)
        tl.store(also + out_offset + part, other_before, mask=row_mask)


ROW_TILE = Configuration((1, 4096), 8)
# sm_100's compiler keeps four registers more of what a part carries than three blocks have.
FLOAT_ROWS = Configuration((1, 4096), 8, blocks={80: 3, 90: 3, 100: 2})
FLOAT_COLUMNS, FEW_ROWS = Configuration((64, 32), blocks=6), Configuration((1, 2048), blocks=4)
HALF_ROWS, HALF_COLUMNS = Configuration((1, 2048), 8), Configuration((32, 32))

WIDE = "64-bit values, their masks and their prefixes are live at once, 16 for each lane"

declare(
    prefix_scan,
    warps=16,
    why=f"24 warps of sums of floats: a tile's values, masks and prefixes are live at once, 16 for each lane, of which "
    f"64 bytes are in flight; 16 of all else: {WIDE}",
    operand="x",
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes={
        ("fp32",): (FLOAT_ROWS, FLOAT_COLUMNS, FEW_ROWS),
        ("fp16", "bf16"): (FLOAT_ROWS, FEW_ROWS),
        ("fp64", "i64"): (HALF_ROWS, HALF_COLUMNS),
        ("u64",): (HALF_ROWS,),
        tuple(d for d in NUMBERS if d not in ("fp32", "fp16", "bf16", "fp64", "i64", "u64")): (ROW_TILE,),
    },
    functions={
        "product": (16, WIDE),
        "add_exponents": (16, "two logarithms' worth of intermediate values for each of 8 elements a lane"),
    },
    local={
        "add_exponents": (
            16,
            "ptxas keeps to 64 registers, and puts by one or two 64-bit numbers once a tile",
        )
    },
    smaller=True,
    operations="num_rows n, times the combining function's",
    traffic="num_rows n (itemsize of x + itemsize of out)",
    loads=("x",),
)
declare(
    pair_scan,
    warps=16,
    why="16 warps: a tile's elements, their 64-bit others and both prefixes are live at once, 8 for each lane",
    operand="x",
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes={
        ("fp32",): (HALF_ROWS, HALF_COLUMNS),
        ("fp64", "i64"): (Configuration((1, 1024), 8), Configuration((16, 32))),
        ("u64",): (Configuration((1, 1024), 8),),
        tuple(d for d in NUMBERS if d not in ("fp32", "fp64", "i64", "u64")): (HALF_ROWS,),
    },
    smaller=True,
    operations="2 num_rows n of extremes, 6 num_rows n of products of complex numbers",
    traffic="num_rows n (2 itemsize of x + 8) of extremes, 4 num_rows n itemsize of x of complex numbers",
)

"""The programs of reductions: the skeletons, and the functions that they combine with."""

from typing import Any

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import INTEGERS, STREAMING, Configuration, declare
from ..conversion import convert
from .last_program import is_last


@triton.jit
def identity(a):
    return a


@triton.jit
def result_of(a, count):
    return a


@triton.jit
def sum_of(a, b):
    return a + b


@triton.jit
def sum_across(tile):
    return tl.reduce(tile, 1, sum_of)


@triton.jit
def sum_in_order(parts, programs, BLOCK: tl.constexpr):
    """Return the sum of the parts that all programs stored, in order."""
    lane = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), parts.dtype.element_ty)
    for base in range(0, programs, BLOCK):
        total += tl.load(parts + base + lane, mask=base + lane < programs, other=0)
    return tl.reduce(total, 0, sum_of)


@triton.jit
def mean_of(a, count):
    if a.dtype == tl.float32:
        return tl.div_rn(a, count.to(tl.float32))
    else:
        return a / count.to(tl.float64)


@triton.jit
def product(a, b):
    return a * b


@triton.jit
def product_across(tile):
    return tl.reduce(tile, 1, product)


@triton.jit
def largest(a, b):
    """Return the larger of two; NaN is larger than any number. For float32, it is one instruction."""
    if a.dtype == tl.float32:
        return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    else:
        return tl.where((a > b) | (a != a), a, b)


@triton.jit
def largest_across(tile):
    return tl.reduce(tile, 1, largest)


@triton.jit
def smallest(a, b):
    if a.dtype == tl.float32:
        return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
    else:
        return tl.where((a < b) | (a != a), a, b)


@triton.jit
def smallest_across(tile):
    return tl.reduce(tile, 1, smallest)


@triton.jit
def logical_or(a, b):
    return a | b


@triton.jit
def or_across(tile):
    return tl.reduce(tile, 1, logical_or)


@triton.jit
def logical_and(a, b):
    return a & b


@triton.jit
def and_across(tile):
    return tl.reduce(tile, 1, logical_and)


@triton.jit
def one_unless_zero(a):
    return tl.where(a != 0, 1.0, 0.0)


@triton.jit
def magnitude(a):
    return tl.abs(a)


@triton.jit
def squared(a):
    return a * a


@triton.jit
def root_of(a, count):
    if a.dtype == tl.float32:
        return tl.sqrt_rn(a)
    else:
        return tl.sqrt(a)


@triton.jit
def offset_of(i, n0, n1, n2, s0, s1, s2, s3, NDIM: tl.constexpr):
    """Return the offset of a linear index over up to four dimensions, the inner one first."""
    if NDIM == 0:
        return i * 0
    elif NDIM == 1:
        return i * s0
    elif NDIM == 2:
        return (i % n0) * s0 + (i // n0) * s1
    elif NDIM == 3:
        return (i % n0) * s0 + ((i // n0) % n1) * s1 + (i // n0 // n1) * s2
    else:
        rest = i // n0 // n1
        return (i % n0) * s0 + ((i // n0) % n1) * s1 + (rest % n2) * s2 + (rest // n2) * s3


@triton.jit
def edge_positions(start, end, V: tl.constexpr, INDEX: tl.constexpr):
    """Return the positions of the runs [start, end) that begin and end within vectors of `V` elements.

    Gives the first whole vector of each run, and the up to 2 V - 2 positions outside of whole vectors, as
    [runs, 2 V], with their mask.
    """
    lane = tl.arange(0, 2 * V).to(INDEX)[None, :]
    first = (start + (V - 1)) // V * V
    after = tl.maximum(end // V * V, first)
    at = tl.where(lane < V, start[:, None] + lane, after[:, None] + (lane - V))
    mask = (at < tl.where(lane < V, tl.minimum(first, end)[:, None], end[:, None])) & (at >= start[:, None])
    return first, at, mask


@triton.jit
def reduce(
    x,
    out,
    parts,
    counters,
    num_rows,
    n,
    count,
    chunk,
    part_stride,
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
    reduced_size0,
    reduced_size1,
    reduced_size2,
    x_reduced_stride0,
    x_reduced_stride1,
    x_reduced_stride2,
    x_reduced_stride3,
    COMBINE: tl.constexpr,
    ACROSS: tl.constexpr,
    LOAD: tl.constexpr,
    FINISH: tl.constexpr,
    START: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    KEPT: tl.constexpr,
    REDUCED: tl.constexpr,
    INDEX: tl.constexpr,
    VECTOR: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_P: tl.constexpr,
):
    """Reduce each line, or each part of it.

    With `parts`, which are [parts, num_rows], the last program of a block of outputs reduces those of its lines,
    BLOCK_P at a time; `counters` has one counter for each block. Without `parts`, `out` has a result for each part,
    `part_stride` apart.

    Whole tiles are not masked along a line; what remains is. With VECTOR the reduced elements are runs of memory
    that may begin and end within a vector of that many: whole vectors are loaded as such, the elements at both ends
    apart from them.
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
    )
    start = tl.full((1, 1), START, ACCUMULATOR)
    total = tl.full((BLOCK_O, BLOCK_R), START, ACCUMULATOR)
    first = part * chunk
    last = tl.minimum(first + chunk, n)
    if VECTOR > 0:
        begin, at, at_edge = edge_positions(rows + first, rows + last, VECTOR, INDEX)
        at_edge = at_edge & row_mask[:, None]
        edge = convert(tl.load(x + at, mask=at_edge, other=0), ACCUMULATOR)
        edges = tl.where(at_edge, convert(LOAD(edge), ACCUMULATOR), start)
        lane = tl.arange(0, BLOCK_R).to(INDEX)[None, :]
        room = tl.where(row_mask, rows + last - begin, 0)[:, None]
        for base in range(0, last - first, BLOCK_R):
            mask = lane // VECTOR * VECTOR + VECTOR <= room - base
            value = tl.load(x + (begin[:, None] + (base + lane)), mask=mask, other=0)
            value = convert(LOAD(convert(value, ACCUMULATOR)), ACCUMULATOR)
            total = COMBINE(total, tl.where(mask, value, start))
        result = COMBINE(ACROSS(total), ACROSS(edges))
    else:
        whole = first + (last - first) // BLOCK_R * BLOCK_R
        for base in range(first, whole, BLOCK_R):
            r = base + tl.arange(0, BLOCK_R).to(INDEX)
            columns = offset_of(
                r,
                reduced_size0,
                reduced_size1,
                reduced_size2,
                x_reduced_stride0,
                x_reduced_stride1,
                x_reduced_stride2,
                x_reduced_stride3,
                REDUCED,
            )[None, :]
            # What lanes without an output combine is stored nowhere.
            value = tl.load(x + (rows[:, None] + columns), mask=row_mask[:, None], other=0)
            total = COMBINE(total, convert(LOAD(convert(value, ACCUMULATOR)), ACCUMULATOR))
        if whole < last:
            r = whole + tl.arange(0, BLOCK_R).to(INDEX)
            mask = row_mask[:, None] & (r < last)[None, :]
            columns = offset_of(
                r,
                reduced_size0,
                reduced_size1,
                reduced_size2,
                x_reduced_stride0,
                x_reduced_stride1,
                x_reduced_stride2,
                x_reduced_stride3,
                REDUCED,
            )[None, :]
            value = tl.load(x + (rows[:, None] + columns), mask=mask, other=0)
            value = convert(LOAD(convert(value, ACCUMULATOR)), ACCUMULATOR)
            total = COMBINE(total, tl.where(mask, value, start))
        result = ACROSS(total)
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
    if parts is None:
        result = convert(FINISH(result, count), out.dtype.element_ty)
        tl.store(out + out_offset + part * part_stride, result, mask=row_mask)
    else:
        own = parts + o
        tl.store(own + part * part_stride, convert(result, parts.dtype.element_ty), mask=row_mask)
        splits = tl.num_programs(1)
        if is_last(counters + tl.program_id(0), splits):
            together = tl.full((BLOCK_O, BLOCK_P), START, ACCUMULATOR)
            for base in range(0, splits, BLOCK_P):
                p = (base + tl.arange(0, BLOCK_P)).to(INDEX)[None, :]
                mask = row_mask[:, None] & (p < splits)
                value = convert(tl.load(own[:, None] + p * part_stride, mask=mask, other=0), ACCUMULATOR)
                together = COMBINE(together, tl.where(mask, value, start))
            final = convert(FINISH(ACROSS(together), count), out.dtype.element_ty)
            tl.store(out + out_offset, final, mask=row_mask)


def tiles(size: int, columns: int, **options: Any) -> tuple[Configuration, ...]:
    """Return a row of `size` elements, short rows and columns of half as many, and other candidates to time."""
    return (
        Configuration((1, size), 8, **options),
        Configuration((size // 128, 64)),
        Configuration((columns, size // 2 // columns)),
        Configuration((1, size // 2)),
        Configuration((2 * columns, size // 2 // columns), 8),
    )


declare(
    reduce,
    why=STREAMING,
    operand="x",
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes={
        ("fp32",): tiles(4096, 64),
        ("fp16", "bf16"): tiles(8192, 128),
        ("fp64", "i64"): tiles(2048, 32),
        ("i32",): (Configuration((1, 4096), 8), Configuration((64, 32))),
        ("u64",): (Configuration((1, 2048), 8),),
        tuple(d for d in (*INTEGERS, "i1") if d not in ("i32", "i64", "u64")): (Configuration((1, 4096), 8),),
    },
    smaller=True,
    operations="n for each output",
    traffic="num_rows (n itemsize of x + itemsize of out)",
    loads=("x",),
)

"""Kernel of argmax and argmin.

A lane keeps the extremum so far and its index. Later elements must be strictly better, so that the first of
equals stays. At the end, indices are compared once among the lanes that hold the extremum.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import STREAMING, Configuration, declare
from ..conversion import convert
from .last_program import is_last
from .reduction_kernels import edge_positions, largest, largest_across, offset_of, smallest, smallest_across


@triton.jit
def beats(a, b, LARGEST: tl.constexpr):
    """Return True if `a` replaces `b`, which came first; NaN beats every number, and nothing beats NaN."""
    if a.dtype.is_floating():
        # Of two comparisons the first is also true where either is NaN.
        if LARGEST:
            better = (a <= b) == 0
        else:
            better = (a >= b) == 0
        return better & (b == b)
    elif LARGEST:
        return a > b
    else:
        return a < b


@triton.jit
def extreme_across(best, LARGEST: tl.constexpr):
    if LARGEST:
        return largest_across(best)
    else:
        return smallest_across(best)


@triton.jit
def first_index(best, extreme, index, NONE: tl.constexpr):
    """Return the least index of the extreme; if that is NaN, the least index of a NaN."""
    found = (best == extreme[:, None]) | (best != best)
    return smallest_across(tl.where(found, index, NONE))


@triton.jit
def extreme_with_index(
    x,
    out,
    at_out,
    parts,
    at_parts,
    counters,
    num_rows,
    n,
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
    LARGEST: tl.constexpr,
    START: tl.constexpr,
    TYPE: tl.constexpr,
    NONE: tl.constexpr,
    POSITION: tl.constexpr,
    KEPT: tl.constexpr,
    REDUCED: tl.constexpr,
    INDEX: tl.constexpr,
    VECTOR: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_P: tl.constexpr,
):
    """Compute the extreme of each line and its index; with `parts` and `at_parts`, first of parts of lines, then of
    the parts.

    The last program of a block of outputs combines the parts, as in `reduce`. With VECTOR, the reduced elements are
    contiguous runs, as in `reduce`.
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
    best = tl.full((BLOCK_O, BLOCK_R), START, TYPE)
    # Where a lane's element stood in the first tile is where the extreme stands, if nothing has beaten it.
    where = tl.zeros((BLOCK_O, BLOCK_R), POSITION)
    first = part * chunk
    last = tl.minimum(first + chunk, n)
    lane = tl.arange(0, BLOCK_R).to(INDEX)[None, :]
    if VECTOR > 0:
        begin, at, at_edge = edge_positions(rows + first, rows + last, VECTOR, INDEX)
        at_edge = at_edge & row_mask[:, None]
        edge = tl.load(x + at, mask=at_edge, other=0)
        edge = tl.where(at_edge, convert(edge, TYPE), tl.full((1, 1), START, TYPE))
        edge_index = tl.where(at_edge, (at - rows[:, None]).to(POSITION), NONE)
        room = tl.where(row_mask, rows + last - begin, 0)[:, None]
        held = lane // VECTOR * VECTOR + VECTOR <= room
        start = lane + (begin - rows)[:, None]
        for base in range(0, last - first, BLOCK_R):
            mask = lane // VECTOR * VECTOR + VECTOR <= room - base
            value = convert(tl.load(x + (begin[:, None] + (base + lane)), mask=mask, other=0), TYPE)
            better = beats(value, best, LARGEST) & mask
            best = tl.where(better, value, best)
            where = tl.where(better, (tl.zeros((1, 1), INDEX) + base).to(POSITION), where)
        extreme = extreme_across(best, LARGEST)
        beyond = extreme_across(edge, LARGEST)
        if LARGEST:
            extreme = largest(extreme, beyond)
        else:
            extreme = smallest(extreme, beyond)
        index = tl.where(held, where + start.to(POSITION), NONE)
        index = smallest(
            first_index(best, extreme, index, NONE), first_index(edge, extreme, edge_index, NONE)
        )
    else:
        start = first + lane
        held = start < last
        whole = first + (last - first) // BLOCK_R * BLOCK_R
        for base in range(first, whole, BLOCK_R):
            at = rows[:, None] + offset_of(
                base + lane,
                reduced_size0,
                reduced_size1,
                reduced_size2,
                x_reduced_stride0,
                x_reduced_stride1,
                x_reduced_stride2,
                x_reduced_stride3,
                REDUCED,
            )
            value = convert(tl.load(x + at, mask=row_mask[:, None], other=0), TYPE)
            better = beats(value, best, LARGEST)
            best = tl.where(better, value, best)
            where = tl.where(better, (base - first).to(POSITION), where)
        if whole < last:
            mask = row_mask[:, None] & (whole + lane < last)
            at = rows[:, None] + offset_of(
                whole + lane,
                reduced_size0,
                reduced_size1,
                reduced_size2,
                x_reduced_stride0,
                x_reduced_stride1,
                x_reduced_stride2,
                x_reduced_stride3,
                REDUCED,
            )
            value = convert(tl.load(x + at, mask=mask, other=0), TYPE)
            better = beats(value, best, LARGEST) & mask
            best = tl.where(better, value, best)
            where = tl.where(better, (whole - first).to(POSITION), where)
        extreme = extreme_across(best, LARGEST)
        where += start.to(POSITION)
        index = first_index(best, extreme, tl.where(held, where, NONE), NONE)
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
        if out is not None:
            tl.store(out + out_offset, convert(extreme, out.dtype.element_ty), mask=row_mask)
        tl.store(at_out + out_offset, index.to(at_out.dtype.element_ty), mask=row_mask)
    else:
        own = o + part * part_stride
        tl.store(parts + own, convert(extreme, parts.dtype.element_ty), mask=row_mask)
        tl.store(at_parts + own, index, mask=row_mask)
        splits = tl.num_programs(1)
        if is_last(counters + tl.program_id(0), splits):
            best_part = tl.full((BLOCK_O, BLOCK_P), START, TYPE)
            its_index = tl.full((BLOCK_O, BLOCK_P), NONE, POSITION)
            for base_part in range(0, splits, BLOCK_P):
                p = (base_part + tl.arange(0, BLOCK_P)).to(INDEX)[None, :]
                inside = row_mask[:, None] & (p < splits)
                from_part = o[:, None] + p * part_stride
                value = convert(tl.load(parts + from_part, mask=inside, other=0), TYPE)
                better = (beats(value, best_part, LARGEST) | (base_part == 0)) & inside
                best_part = tl.where(better, value, best_part)
                its_index = tl.where(better, tl.load(at_parts + from_part, mask=inside, other=0), its_index)
            final = extreme_across(best_part, LARGEST)
            final_index = first_index(best_part, final, its_index, NONE)
            if out is not None:
                tl.store(out + out_offset, convert(final, out.dtype.element_ty), mask=row_mask)
            tl.store(at_out + out_offset, final_index.to(at_out.dtype.element_ty), mask=row_mask)


ROW_TILE, COLUMN_TILE = (
    Configuration((1, 4096), 8, all_registers=True),
    Configuration((64, 32), all_registers=True),
)
DOUBLE = Configuration((1, 2048), 8, all_registers=True), Configuration((32, 32), all_registers=True)
HALF_ROWS = Configuration((1, 2048), all_registers=True)
"""Worth timing: as much for each lane of half as many."""

declare(
    extreme_with_index,
    warps=24,
    why=f"24 warps, since a lane holds 16 extremes and their indices beside the 64 bytes that it loads. {STREAMING}",
    operand="x",
    tile=("BLOCK_O", "BLOCK_R"),
    dtypes={
        ("fp32", "i32", "u32", "bf16", "fp16", "i16", "u16", "i8", "u8", "i1"): (
            ROW_TILE,
            COLUMN_TILE,
            HALF_ROWS,
        ),
        ("fp64", "i64", "u64"): DOUBLE,
    },
    smaller=True,
    operations="2 n for each output",
    traffic="num_rows (n itemsize of x + itemsize of out + 8)",
    loads=("x",),
)

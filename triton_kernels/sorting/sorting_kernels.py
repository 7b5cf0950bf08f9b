"""The programs of a stable radix sort of integers, least significant digit first, and of a prefix sum."""

from ...runtime.cuda.lazy_triton import tl, triton
from ..budget import NUMBERS, Configuration, declare


@triton.jit
def digits_of(keys, i, n, shift, BUCKETS: tl.constexpr, BLOCK: tl.constexpr):
    """Keys, their digits, and a row for each with a one in the digit's column; nothing beyond `n`."""
    mask = i < n
    key = tl.load(keys + i, mask=mask, other=0)
    digit = ((key >> shift) & (BUCKETS - 1)).to(tl.int32)
    hot = ((digit[:, None] == tl.arange(0, BUCKETS)[None, :]) & mask[:, None]).to(tl.int32)
    return key, digit, hot, mask


@triton.jit
def count_digits(
    keys, counts, n, programs, shift, BUCKETS: tl.constexpr, INDEX: tl.constexpr, BLOCK: tl.constexpr
):
    """counts[digit, program]: how often each digit occurs in the program's block."""
    program = tl.program_id(0).to(INDEX)
    i = program * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    _key, _digit, hot, _mask = digits_of(keys, i, n, shift, BUCKETS, BLOCK)
    total = tl.sum(hot, 0)
    tl.store(counts + tl.arange(0, BUCKETS) * programs + program, total.to(counts.dtype.element_ty))


@triton.jit
def move_by_digit(
    keys,
    order,
    sorted_keys,
    sorted_order,
    starts,
    n,
    programs,
    shift,
    BUCKETS: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Keys, and the places they came from, to where their digit's turn is; without `order` places count up."""
    program = tl.program_id(0).to(INDEX)
    i = program * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    key, digit, hot, mask = digits_of(keys, i, n, shift, BUCKETS, BLOCK)
    before = tl.sum((tl.cumsum(hot, 0) - hot) * hot, 1)
    to = tl.load(starts + digit.to(INDEX) * programs + program, mask=mask, other=0) + before
    if order is None:
        place = i
    else:
        place = tl.load(order + i, mask=mask, other=0)
    tl.store(sorted_keys + to, key, mask=mask)
    tl.store(sorted_order + to, place.to(sorted_order.dtype.element_ty), mask=mask)


@triton.jit
def running_total(x, n, BLOCK: tl.constexpr):
    """x[i] = the sum of what stood before i, for i up to and with n, in one program."""
    carry = tl.load(x) * 0
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        value = tl.load(x + i, mask=i < n, other=0)
        tl.store(x + i, tl.cumsum(value, 0) - value + carry, mask=i < n)
        carry += tl.sum(value, 0)
    tl.store(x + n, carry)


@triton.jit
def count_nonzero(x, counts, n, TYPE: tl.constexpr, INDEX: tl.constexpr, BLOCK: tl.constexpr):
    """counts[program]: how many elements of the program's block are not zero."""
    i = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    hot = (tl.load(x + i, mask=i < n).to(TYPE) != 0) & (i < n)
    total = tl.sum(hot.to(tl.int32), 0)
    tl.store(counts + tl.program_id(0), total.to(counts.dtype.element_ty))


@triton.jit
def write_nonzero(
    x,
    starts,
    out,
    n,
    divisor,
    size,
    TYPE: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One coordinate, ``i // divisor % size``, of each element that is not zero, in order."""
    i = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    hot = ((tl.load(x + i, mask=i < n).to(TYPE) != 0) & (i < n)).to(tl.int32)
    to = tl.load(starts + tl.program_id(0)).to(INDEX) + tl.cumsum(hot, 0) - hot
    tl.store(out + to, (i // divisor % size).to(tl.int64), mask=hot != 0)


ONE_PROGRAM = "one program, whose steps follow from each other: a block on one multiprocessor is all there is"
HISTOGRAM = "32 warps: a block's sums over lanes end in barriers, and other blocks run meanwhile"

declare(
    count_digits,
    why=HISTOGRAM,
    operand="keys",
    tile=("BUCKETS", "BLOCK"),
    dtypes=("i32", "i64"),
    configurations=(Configuration((16, 512), 8),),
    smaller=True,
    operations="16 n",
    traffic="n itemsize of keys",
)
declare(
    move_by_digit,
    warps=16,
    why="16 warps in two blocks, of which one runs while the other waits at a barrier: a row of 16 counts for each key "
    "lives through their prefix sum, 32 numbers and their sums for each lane",
    operand="keys",
    tile=("BUCKETS", "BLOCK"),
    dtypes=("i32", "i64"),
    configurations=(Configuration((16, 512), 8),),
    smaller=True,
    operations="32 n, a prefix sum for each of 16 digits",
    traffic="3 n itemsize of keys, 4 where places are moved too; scattered stores cost a sector of 32 bytes",
)
declare(
    running_total,
    why=ONE_PROGRAM,
    operand="x",
    dtypes=("i32", "i64"),
    configurations=(Configuration((4096,), 8, blocks=1),),
    smaller=True,
    operations="2 n",
    traffic="2 n itemsize",
)
for _kernel, _warps, _traffic in (
    (count_nonzero, 4, "n itemsize"),
    (write_nonzero, 8, "n itemsize, and 8 for each place found"),
):
    declare(
        _kernel,
        why=HISTOGRAM,
        operand="x",
        dtypes=NUMBERS,
        configurations=(Configuration((1024,), _warps),),
        operations="n, and a sum over lanes",
        traffic=_traffic,
    )

"""The programs of a prefix sum, and of the places that it gives to elements that are not zero."""

from ...runtime.cuda.lazy_triton import tl, triton
from ..budget import NUMBERS, Configuration, declare


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

"""The program of search in sorted sequences."""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import FLOATS, INTEGERS, Configuration, declare
from ..conversion import convert
from ..reduction.reduction_kernels import offset_of


@triton.jit
def bisect(
    values,
    sequence,
    sorter,
    out,
    n,
    length,
    rounds,
    step,
    sorter_step,
    d0,
    d1,
    d2,
    vd0,
    vd1,
    vd2,
    vd3,
    qd0,
    qd1,
    qd2,
    qd3,
    rd0,
    rd1,
    rd2,
    rd3,
    od0,
    od1,
    od2,
    od3,
    RIGHT: tl.constexpr,
    COMMON: tl.constexpr,
    TYPE: tl.constexpr,
    NDIM_D: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """out[d] = how many of the `length` elements of sequence[d] stand before values[d], by halving in `rounds`.

    An element stands before a value unless it is greater, or equal if not RIGHT: NaN has everything before it, and
    stands itself before everything.
    """
    d = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    mask = d < n
    value = tl.load(values + offset_of(d, d0, d1, d2, vd0, vd1, vd2, vd3, NDIM_D), mask=mask, other=0)
    value = convert(convert(value, COMMON), TYPE)
    row = sequence + offset_of(d, d0, d1, d2, qd0, qd1, qd2, qd3, NDIM_D)
    if sorter is not None:
        places = sorter + offset_of(d, d0, d1, d2, rd0, rd1, rd2, rd3, NDIM_D)
    low = tl.zeros_like(d)
    high = tl.where(mask, tl.zeros_like(d) + length, 0)
    for _ in range(rounds):
        active = low < high
        middle = low + (high - low) // 2
        at = middle
        if sorter is not None:
            # What is no place of the sequence was reported by the check before; nothing outside of it is read.
            at = tl.load(places + middle * sorter_step, mask=active, other=0)
            at = tl.minimum(tl.maximum(at, 0), length - 1).to(INDEX)
        element = convert(convert(tl.load(row + at * step, mask=active, other=0), COMMON), TYPE)
        if RIGHT:
            behind = element > value
        else:
            behind = element >= value
        high = tl.where(active & behind, middle, high)
        low = tl.where(active & (behind == 0), middle + 1, low)
    out_ptrs = out + offset_of(d, d0, d1, d2, od0, od1, od2, od3, NDIM_D)
    tl.store(out_ptrs, low.to(out.dtype.element_ty), mask=mask)


declare(
    bisect,
    why="32 warps: each round of a lane waits for an element of the sequence for each of its four values",
    operand="sequence",
    dtypes=(*FLOATS, *INTEGERS),
    configurations=(Configuration((512,)),),
    operations="n log2(length)",
    traffic="n (itemsize + 8), and a sector of 32 bytes for each round that finds no cache line",
)

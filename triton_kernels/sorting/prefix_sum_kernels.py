"""The program of a prefix sum."""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare


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


ONE_PROGRAM = "one program, whose steps follow from each other: a block on one multiprocessor is all there is"

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

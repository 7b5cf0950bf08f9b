"""Device functions that map a program of one multi-tensor launch to its elements.

A table in device memory has a row for each tensor with elements, and a column for each of its properties. The
first column counts the programs of all previous tensors. A program finds its row by bisection of that column,
which stays in the L1, so the host makes and copies no list of chunks. The other columns are the number of
elements and, for each operand, its start in elements from address 0.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton


@triton.jit
def row_of(table, rows, program):
    """Return the last row whose tensor begins at this program or before it."""
    low, high = 0, rows
    while high - low > 1:
        middle = (low + high) // 2
        before = tl.load(table + middle) <= program
        low = tl.where(before, middle, low)
        high = tl.where(before, high, middle)
    return low


@triton.jit
def column(table, rows, row, INDEX: tl.constexpr):
    """Load the 64-bit entry of a row in a table's column."""
    return tl.load(table + INDEX * rows.to(tl.int64) + row)


@triton.jit
def whole_vectors(place, V: tl.constexpr):
    """Return an offset that is a multiple of V, in a form from which the compiler infers divisibility."""
    return place // V * V


@triton.jit
def unscaled(gradient, scale):
    """Return the gradient divided by the loss scale; a scale of None changes nothing."""
    if scale is not None:
        return divided(gradient, tl.load(scale).to(gradient.dtype))
    else:
        return gradient


@triton.jit
def divided(a, b):
    """Compute a / b with IEEE 754 rounding."""
    b = b + tl.zeros_like(a)
    if a.dtype == tl.float32:
        return tl.div_rn(a, b)
    else:
        return a / b


@triton.jit
def root_of(a):
    """Return the correctly rounded square root."""
    if a.dtype == tl.float32:
        return tl.sqrt_rn(a)
    else:
        return tl.sqrt(a)


@triton.jit
def number(given, INDIRECT: tl.constexpr):
    """Return a number in float64, passed by value or by address."""
    if INDIRECT:
        return tl.load(given).to(tl.float64)
    else:
        return given.to(tl.float64)

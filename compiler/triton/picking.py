"""Scalar functions that compiled kernels read with: the row of a table, and an element, at a number that was loaded.

A number that is out of bounds raises a flag, and reads 0.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton


@triton.jit
def table_row(table, index, r, flag, rows, width, is_row, is_element, WRAPS: tl.constexpr):
    """Load the elements at `r` from the rows of a table with `rows` rows of `width` elements."""
    index = index.to(tl.int64)
    if WRAPS:
        index = tl.where(index < 0, index + rows, index)
    is_wrong = is_row & ((index < 0) | (index >= rows))
    tl.store(flag + tl.zeros_like(is_wrong.to(tl.int32)), 1, mask=is_wrong)
    found = tl.where(is_wrong, 0, index)
    return tl.load(table + found * width + r, mask=is_element & (is_wrong == 0), other=0)


@triton.jit
def picked(source, number, size, step, flag, mask):
    """Load the elements `number` steps after those of `source`."""
    number = number.to(tl.int64)
    is_wrong = (number < 0) | (number >= size)
    inside = is_wrong == 0
    if mask is not None:
        is_wrong = is_wrong & mask
        inside = inside & mask
    tl.store(flag + tl.zeros_like(is_wrong.to(tl.int32)), 1, mask=is_wrong)
    return tl.load(source + tl.where(inside, number, 0) * step, mask=inside, other=0)

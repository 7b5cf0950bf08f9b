"""Device functions that attention kernels share: the rows of a program, its tile of scores, and dropout.

Scores are in units of log 2, so that a probability is one `exp2`. A *line* is one query of one head, numbered
in the C order of (batch, head, query). Line numbers index the softmax statistics and dropout's random
numbers.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..random import random_functions as f
from ..random.random import draws


@triton.jit
def product_of_tiles(a, b):
    """Compute a @ b in float32, with IEEE 754 arithmetic for float32 tiles."""
    return tl.dot(a, b, input_precision="ieee", out_dtype=tl.float32)


@triton.jit
def load_tile(
    base, rows, columns, row_stride, n_rows, WIDTH: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr
):
    """Elements (rows, columns) of a matrix with unit inner stride; zero where either is outside.

    `rows` and `columns` are broadcast against each other, in whichever order the tile is wanted. Without MASKED all
    rows are inside; a WIDTH of BLOCK is whole.
    """
    where = base + rows * row_stride + columns
    if MASKED:
        if WIDTH == BLOCK:
            return tl.load(where, mask=rows < n_rows, other=0)
        else:
            return tl.load(where, mask=(rows < n_rows) & (columns < WIDTH), other=0)
    else:
        if WIDTH == BLOCK:
            return tl.load(where)
        else:
            return tl.load(where, mask=columns < WIDTH, other=0)


@triton.jit
def with_bias(scores, bias, offsets, inside, TRANSPOSED: tl.constexpr):
    """Scores with what stands at `offsets` of the mask: a False is minus infinity, a number is added.

    TRANSPOSED scores are (keys, queries), and offsets (queries, keys) nevertheless, as a mask lies in memory.
    """
    if inside is None:
        given = tl.load(bias + offsets)
    else:
        given = tl.load(bias + offsets, mask=inside, other=0)
    if TRANSPOSED:
        given = tl.trans(given)
    if bias.dtype.element_ty == tl.int1:
        return tl.where(given, scores, float("-inf"))
    else:
        return scores + given.to(tl.float32) * 1.4426950408889634


@triton.jit
def kept(seed, first, lines, start, quads, limit, BLOCK_N: tl.constexpr):
    """Return a mask (BLOCK_M, BLOCK_N) of the weights (lines, keys from `start` on) that dropout keeps.

    Each weight takes one 32-bit random number. Those of a line begin at 4 * quads * line, as `native_dropout`
    numbers the elements of a tensor whose rows have 4 * quads elements.
    """
    counters = first + lines[:, None] * quads + (start // 4 + tl.arange(0, BLOCK_N // 4))[None, :]
    return draws(seed, counters, limit, None, None, None, f.bernoulli, False, False, tl.int1, 0)

"""The programs that put elements at keys: the vote for the last of several, and the writes."""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import MOVED, declare
from ..reduction.reduction_kernels import offset_of
from .dense_tiles import dense_tile
from .picking_kernels import DEFAULT_TILE, GATHERING


@triton.jit
def elect(keys, winner, n, INDEX: tl.constexpr, BLOCK: tl.constexpr):
    """winner[key] = the last j with that key: a maximum of integers, whatever the order."""
    start = tl.program_id(0).to(INDEX) * BLOCK
    j = start + tl.arange(0, BLOCK).to(INDEX)
    key = dense_tile(keys, start, n, BLOCK)
    tl.atomic_max(winner + key, j.to(winner.dtype.element_ty), mask=j < n)


@triton.jit
def place(
    values,
    keys,
    winner,
    out,
    n,
    width,
    step,
    j0,
    j1,
    j2,
    vj0,
    vj1,
    vj2,
    vj3,
    c0,
    c1,
    c2,
    vc0,
    vc1,
    vc2,
    vc3,
    oc0,
    oc1,
    oc2,
    oc3,
    DENSE: tl.constexpr,
    NDIM_J: tl.constexpr,
    NDIM_C: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """out[keys[j] * step, c] = values[j, c], where j is its key's winner if there are winners.

    DENSE says that there is one column, and that values have no gaps and the order of j.
    """
    start = tl.program_id(0).to(INDEX) * BLOCK
    t = start + tl.arange(0, BLOCK).to(INDEX)
    mask = t < n
    if DENSE:
        j = t
        c = t * 0
        key = dense_tile(keys, start, n, BLOCK)
        value = dense_tile(values, start, n, BLOCK)
    else:
        j = t // width
        c = t % width
        key = tl.load(keys + j, mask=mask, other=0)
    if winner is not None:
        mask = mask & (tl.load(winner + key, mask=mask, other=-1) == j)
    if not DENSE:
        at = offset_of(j, j0, j1, j2, vj0, vj1, vj2, vj3, NDIM_J)
        at += offset_of(c, c0, c1, c2, vc0, vc1, vc2, vc3, NDIM_C)
        value = tl.load(values + at, mask=mask)
    out_offset = key.to(INDEX) * step + offset_of(c, c0, c1, c2, oc0, oc1, oc2, oc3, NDIM_C)
    tl.store(out + out_offset, value, mask=mask)


declare(
    elect,
    why=GATHERING,
    operand="keys",
    dtypes=("i32", "i64"),
    configurations=DEFAULT_TILE,
    operations="n atomic maxima",
    traffic="n (itemsize of keys + 32)",
    loads=("keys",),
)

declare(
    place,
    why=GATHERING,
    dtypes=MOVED,
    configurations=DEFAULT_TILE,
    operations="an offset for each element",
    traffic="n (2 itemsize) + rows (itemsize of keys)",
    loads=("keys", "values"),
)

"""The programs that read at indices: picked elements, picked runs, and the places that several indices mean."""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..reduction.reduction_kernels import offset_of
from .dense_tiles import dense_tile


@triton.jit
def checked(i, size, flag, mask, WRAPS: tl.constexpr):
    """Return the position of an index; an index out of bounds raises the flag and becomes negative."""
    i = i.to(tl.int64)
    if WRAPS:
        wrong = mask & ((i >= size) | (i < -size))
        i = tl.where(i < 0, i + size, i)
    else:
        wrong = mask & ((i >= size) | (i < 0))
    tl.store(flag + tl.zeros_like(i), 1, mask=wrong)
    return tl.where(wrong, -1, i)


@triton.jit
def pick(
    source,
    index,
    out,
    flag,
    n,
    step,
    size,
    d0,
    d1,
    d2,
    sd0,
    sd1,
    sd2,
    sd3,
    id0,
    id1,
    id2,
    id3,
    od0,
    od1,
    od2,
    od3,
    DENSE: tl.constexpr,
    CHECKED: tl.constexpr,
    WRAPS: tl.constexpr,
    NDIM_D: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """out[d] = source[d, index[d]], 0 where the index is wrong; `step` is the source's stride along what it counts.

    DENSE says that index and output have no gaps and the order of d.
    """
    start = tl.program_id(0).to(INDEX) * BLOCK
    d = start + tl.arange(0, BLOCK).to(INDEX)
    inside = d < n
    mask = inside
    if DENSE:
        i = dense_tile(index, start, n, BLOCK)
    else:
        i = tl.load(index + offset_of(d, d0, d1, d2, id0, id1, id2, id3, NDIM_D), mask=mask, other=0)
    if CHECKED:
        i = checked(i, size, flag, mask, WRAPS)
        mask = mask & (i >= 0)
    at = offset_of(d, d0, d1, d2, sd0, sd1, sd2, sd3, NDIM_D) + i.to(INDEX) * step
    found = tl.load(source + at, mask=mask, other=0)
    if DENSE:
        if start + BLOCK <= n:
            tl.store(out + d, found)
        else:
            tl.store(out + d, found, mask=inside)
    else:
        out_ptrs = out + offset_of(d, d0, d1, d2, od0, od1, od2, od3, NDIM_D)
        tl.store(out_ptrs, found, mask=inside)


@triton.jit
def pick_runs(
    source,
    index,
    out,
    flag,
    n,
    width,
    step,
    size,
    d0,
    d1,
    d2,
    sd0,
    sd1,
    sd2,
    sd3,
    id0,
    id1,
    id2,
    id3,
    od0,
    od1,
    od2,
    od3,
    CHECKED: tl.constexpr,
    WRAPS: tl.constexpr,
    NDIM_D: tl.constexpr,
    INDEX: tl.constexpr,
    RUNS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Copy out[d, c] = source[d, index[d], c], where the `width` elements of c are contiguous in both.

    If an index is invalid, they are 0.
    """
    d = tl.program_id(0).to(INDEX) * RUNS + tl.arange(0, RUNS).to(INDEX)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = d < n
    i = tl.load(index + offset_of(d, d0, d1, d2, id0, id1, id2, id3, NDIM_D), mask=mask, other=0)
    if CHECKED:
        i = checked(i, size, flag, mask, WRAPS)
        mask = mask & (i >= 0)
    at = offset_of(d, d0, d1, d2, sd0, sd1, sd2, sd3, NDIM_D) + i.to(INDEX) * step
    out_offset = offset_of(d, d0, d1, d2, od0, od1, od2, od3, NDIM_D)
    across = (c < width)[None, :]
    value = tl.load(source + at[:, None] + c[None, :], mask=mask[:, None] & across, other=0)
    tl.store(out + out_offset[:, None] + c[None, :], value, mask=(d < n)[:, None] & across)


@triton.jit
def locate(
    index,
    keys,
    flag,
    n,
    start,
    step,
    size,
    j0,
    j1,
    j2,
    ij0,
    ij1,
    ij2,
    ij3,
    bj0,
    bj1,
    bj2,
    bj3,
    kj0,
    kj1,
    kj2,
    kj3,
    DENSE: tl.constexpr,
    ADDS: tl.constexpr,
    WRAPS: tl.constexpr,
    NDIM_J: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """keys[j] = start + base of j + index[j] * step, added to what is there if ADDS.

    DENSE says that index and keys have no gaps and the order of j.
    """
    first = tl.program_id(0).to(INDEX) * BLOCK
    j = first + tl.arange(0, BLOCK).to(INDEX)
    mask = j < n
    if DENSE:
        i = dense_tile(index, first, n, BLOCK)
    else:
        i = tl.load(index + offset_of(j, j0, j1, j2, ij0, ij1, ij2, ij3, NDIM_J), mask=mask, other=0)
    i = tl.maximum(checked(i, size, flag, mask, WRAPS), 0)
    key = start + offset_of(j, j0, j1, j2, bj0, bj1, bj2, bj3, NDIM_J) + i.to(INDEX) * step
    if DENSE:
        if ADDS:
            key += dense_tile(keys, first, n, BLOCK).to(INDEX)
        key = key.to(keys.dtype.element_ty)
        if first + BLOCK <= n:
            tl.store(keys + j, key)
        else:
            tl.store(keys + j, key, mask=mask)
    else:
        out_ptrs = keys + offset_of(j, j0, j1, j2, kj0, kj1, kj2, kj3, NDIM_J)
        if ADDS:
            key += tl.load(out_ptrs, mask=mask, other=0).to(INDEX)
        tl.store(out_ptrs, key.to(keys.dtype.element_ty), mask=mask)


GATHERING = (
    "32 warps: each lane waits for an index, then for the element that it names, and other warps hide that"
)
DEFAULT_TILE = (Configuration((1024,)),)

declare(
    pick,
    why=f"{GATHERING}; of bytes 20, since a vector of 128 bits takes 16 indices",
    dtypes={("i32", "i64", "i16"): DEFAULT_TILE, ("i8",): (Configuration((2048,), blocks=5),)},
    operations="an offset for each element",
    traffic="n (8 + 2 itemsize); where rows are short, a sector of 32 bytes for each of them",
    loads=("index",),
    stores=("out",),
)

declare(
    pick_runs,
    why="32 warps: a program waits for its indices, then for runs that it loads 128 bits at a time; others hide that",
    tile=("RUNS", "BLOCK"),
    dtypes={
        ("i32", "i64"): (Configuration((1, 1024)), Configuration((16, 64))),
        ("i16",): (Configuration((1, 2048)), Configuration((32, 64))),
        ("i8",): (Configuration((1, 4096)), Configuration((64, 64))),
    },
    smaller=True,
    operations="an offset for each run",
    traffic="n (8 + 2 width itemsize)",
    loads=("source",),
    stores=("out",),
)

declare(
    locate,
    why=GATHERING,
    operand="index",
    dtypes=("i64", "i32"),
    configurations=DEFAULT_TILE,
    operations="an offset for each index",
    traffic="n (itemsize of index + itemsize of keys)",
    loads=("index",),
    stores=("keys",),
)

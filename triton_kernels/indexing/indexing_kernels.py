"""The programs of indexing: elements picked, placed and combined by numbers that lie in memory."""

from ...runtime.cuda.lazy_triton import tl, triton
from ..budget import MOVED, NUMBERS, Configuration, declare
from ..conversion import convert
from ..reduction.reduction_kernels import offset_of


@triton.jit
def checked(i, size, flag, mask, WRAPS: tl.constexpr):
    """The place that an index means; one out of bounds raises the flag and becomes negative."""
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
    CHECKED: tl.constexpr,
    WRAPS: tl.constexpr,
    NDIM_D: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """out[d] = source[d, index[d]]; `step` is the source's stride along what the index counts."""
    d = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    mask = d < n
    i = tl.load(index + offset_of(d, d0, d1, d2, id0, id1, id2, id3, NDIM_D), mask=mask, other=0)
    if CHECKED:
        i = checked(i, size, flag, mask, WRAPS)
        mask = mask & (i >= 0)
    at = offset_of(d, d0, d1, d2, sd0, sd1, sd2, sd3, NDIM_D) + i.to(INDEX) * step
    value = tl.load(source + at, mask=mask)
    tl.store(out + offset_of(d, d0, d1, d2, od0, od1, od2, od3, NDIM_D), value, mask=mask)


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
    """out[d, c] = source[d, index[d], c], where the `width` elements of c lie side by side in both."""
    d = tl.program_id(0).to(INDEX) * RUNS + tl.arange(0, RUNS).to(INDEX)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = d < n
    i = tl.load(index + offset_of(d, d0, d1, d2, id0, id1, id2, id3, NDIM_D), mask=mask, other=0)
    if CHECKED:
        i = checked(i, size, flag, mask, WRAPS)
        mask = mask & (i >= 0)
    at = offset_of(d, d0, d1, d2, sd0, sd1, sd2, sd3, NDIM_D) + i.to(INDEX) * step
    to = offset_of(d, d0, d1, d2, od0, od1, od2, od3, NDIM_D)
    inside = mask[:, None] & (c < width)[None, :]
    value = tl.load(source + at[:, None] + c[None, :], mask=inside)
    tl.store(out + to[:, None] + c[None, :], value, mask=inside)


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
    ADDS: tl.constexpr,
    WRAPS: tl.constexpr,
    NDIM_J: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """keys[j] = start + base of j + index[j] * step, added to what is there if ADDS."""
    j = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    mask = j < n
    i = tl.load(index + offset_of(j, j0, j1, j2, ij0, ij1, ij2, ij3, NDIM_J), mask=mask, other=0)
    i = tl.maximum(checked(i, size, flag, mask, WRAPS), 0)
    key = start + offset_of(j, j0, j1, j2, bj0, bj1, bj2, bj3, NDIM_J) + i.to(INDEX) * step
    to = keys + offset_of(j, j0, j1, j2, kj0, kj1, kj2, kj3, NDIM_J)
    if ADDS:
        key += tl.load(to, mask=mask, other=0).to(INDEX)
    tl.store(to, key.to(keys.dtype.element_ty), mask=mask)


@triton.jit
def elect(keys, winner, n, INDEX: tl.constexpr, BLOCK: tl.constexpr):
    """winner[key] = the last j with that key: a maximum of integers, whatever the order."""
    j = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    mask = j < n
    key = tl.load(keys + j, mask=mask, other=0)
    tl.atomic_max(winner + key, j.to(winner.dtype.element_ty), mask=mask)


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
    NDIM_J: tl.constexpr,
    NDIM_C: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """out[keys[j] * step, c] = values[j, c], where j is its key's winner if there are winners."""
    t = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    mask = t < n
    j = t // width
    c = t % width
    key = tl.load(keys + j, mask=mask, other=0)
    if winner is not None:
        mask = mask & (tl.load(winner + key, mask=mask, other=-1) == j)
    at = offset_of(j, j0, j1, j2, vj0, vj1, vj2, vj3, NDIM_J)
    at += offset_of(c, c0, c1, c2, vc0, vc1, vc2, vc3, NDIM_C)
    to = key.to(INDEX) * step + offset_of(c, c0, c1, c2, oc0, oc1, oc2, oc3, NDIM_C)
    tl.store(out + to, tl.load(values + at, mask=mask), mask=mask)


@triton.jit
def add(a, b):
    if a.dtype == tl.int1:
        return a | b
    else:
        return a + b


@triton.jit
def multiply(a, b):
    if a.dtype == tl.int1:
        return a & b
    else:
        return a * b


@triton.jit
def larger(a, b):
    """The larger of two, or the first that is NaN."""
    if a.dtype == tl.int1:
        return a | b
    else:
        return tl.where((a > b) | (a != a), a, b)


@triton.jit
def smaller(a, b):
    """The smaller of two, or the first that is NaN."""
    if a.dtype == tl.int1:
        return a & b
    else:
        return tl.where((a < b) | (a != a), a, b)


@triton.jit
def mean_of(total, count):
    """A sum over how many it was made of; integers are rounded down."""
    if total.dtype == tl.float64:
        return total / count.to(tl.float64)
    elif total.dtype.is_floating():
        return tl.div_rn(total, count.to(tl.float32))
    else:
        wide = total.to(tl.int64)
        number = count.to(tl.int64)
        return wide // number - ((wide % number != 0) & (wide < 0)).to(tl.int64)


@triton.jit
def run_length(keys, first, key, n, active):
    """How many keys from `first` on equal `key`."""
    at = first
    count = tl.zeros_like(first)
    while tl.max(active.to(tl.int32), 0) > 0:
        count += active.to(count.dtype)
        at += 1
        active = active & (at < n)
        active = active & (tl.load(keys + at, mask=active, other=-1) == key)
    return count


@triton.jit
def combine_runs(
    values,
    keys,
    order,
    out,
    alpha,
    n,
    rows,
    width,
    step,
    skip,
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
    COMBINE: tl.constexpr,
    AVERAGED: tl.constexpr,
    INCLUDES: tl.constexpr,
    MEAN: tl.constexpr,
    TYPE: tl.constexpr,
    NDIM_J: tl.constexpr,
    NDIM_C: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """out[key * step, c] combined with values[order[s], c] for the run of each key but `skip`, in order.

    The lane at a run's first key walks through the run; values are scaled by `alpha` if there is one, and
    divided by the run's length if AVERAGED. What is there already counts if it INCLUDES that; a MEAN divides the
    sum by how many count.
    """
    t = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    s = t // width
    c = t % width
    mask = t < n
    key = tl.load(keys + s, mask=mask, other=-1)
    before = tl.load(keys + s - 1, mask=mask & (s > 0), other=-1)
    head = mask & (key != before) & (key != skip)
    to = out + key.to(INDEX) * step + offset_of(c, c0, c1, c2, oc0, oc1, oc2, oc3, NDIM_C)
    total = convert(tl.load(to, mask=head), TYPE)
    column = values + offset_of(c, c0, c1, c2, vc0, vc1, vc2, vc3, NDIM_C)
    if AVERAGED or MEAN:
        count = run_length(keys, s, key, rows, head)
    active = head
    at = s
    while tl.max(active.to(tl.int32), 0) > 0:
        j = tl.load(order + at, mask=active, other=0).to(INDEX)
        value = tl.load(column + offset_of(j, j0, j1, j2, vj0, vj1, vj2, vj3, NDIM_J), mask=active)
        value = convert(value, TYPE)
        if alpha is not None:
            value = multiply(value, convert(alpha, TYPE))
        if AVERAGED:
            if value.dtype == tl.float64:
                value = value / count.to(tl.float64)
            else:
                value = tl.div_rn(value, tl.maximum(count, 1).to(tl.float32))
        combined = COMBINE(total, value)
        if not INCLUDES:
            combined = tl.where(at == s, value, combined)
        total = tl.where(active, combined, total)
        at += 1
        active = active & (at < rows)
        active = active & (tl.load(keys + at, mask=active, other=-1) == key)
    if MEAN:
        total = mean_of(total, tl.maximum(count + INCLUDES, 1))
    tl.store(to, convert(total, out.dtype.element_ty), mask=head)


@triton.jit
def triangle(
    source,
    out,
    n,
    rows,
    columns,
    diagonal,
    source_row,
    source_column,
    out_row,
    out_column,
    b0,
    b1,
    b2,
    sb0,
    sb1,
    sb2,
    sb3,
    ob0,
    ob1,
    ob2,
    ob3,
    LOWER: tl.constexpr,
    NDIM_B: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The part of each matrix on one side of a diagonal; zero on the other."""
    t = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    mask = t < n
    column = t % columns
    row = (t // columns) % rows
    b = t // columns // rows
    if LOWER:
        kept = column - row <= diagonal
    else:
        kept = column - row >= diagonal
    at = offset_of(b, b0, b1, b2, sb0, sb1, sb2, sb3, NDIM_B) + row * source_row + column * source_column
    to = offset_of(b, b0, b1, b2, ob0, ob1, ob2, ob3, NDIM_B) + row * out_row + column * out_column
    tl.store(out + to, tl.load(source + at, mask=mask & kept, other=0), mask=mask)


GATHERING = (
    "32 warps: each lane waits for an index, then for the element that it names, and other warps hide that"
)
LANES = (Configuration((1024,)),)

declare(
    pick,
    why=GATHERING,
    dtypes=MOVED,
    configurations=LANES,
    operations="an offset for each element",
    traffic="n (8 + 2 itemsize); where rows are short, a sector of 32 bytes for each of them",
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
    configurations=LANES,
    operations="an offset for each index",
    traffic="n (itemsize of index + itemsize of keys)",
)
declare(
    elect,
    why=GATHERING,
    operand="keys",
    dtypes=("i32", "i64"),
    configurations=LANES,
    operations="n atomic maxima",
    traffic="n (itemsize of keys + 32)",
)
declare(
    place,
    why=GATHERING,
    dtypes=MOVED,
    configurations=LANES,
    operations="an offset for each element",
    traffic="n (2 itemsize) + rows (itemsize of keys)",
)
declare(
    combine_runs,
    why=GATHERING,
    dtypes=NUMBERS,
    configurations=(Configuration((128,)),),
    operations="n, twice as many with alpha",
    traffic="n itemsize, and the output's elements twice",
)
declare(
    triangle,
    why="32 warps: lanes read and write in order, but scalars, since a matrix need not have whole vectors",
    dtypes=MOVED,
    configurations=LANES,
    operations="an offset for each element",
    traffic="n itemsize and what is kept of n itemsize",
)

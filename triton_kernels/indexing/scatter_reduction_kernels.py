"""The program that combines elements at equal keys, in their order, and what it combines them by."""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import NUMBERS, Configuration, declare
from ..conversion import convert
from ..programmatic import wait_for_earlier
from ..reduction.reduction_kernels import offset_of
from .picking_kernels import GATHERING


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
    """Return the larger of two, or the first that is NaN."""
    if a.dtype == tl.int1:
        return a | b
    else:
        return tl.where((a > b) | (a != a), a, b)


@triton.jit
def smaller(a, b):
    """Return the smaller of two, or the first that is NaN."""
    if a.dtype == tl.int1:
        return a & b
    else:
        return tl.where((a < b) | (a != a), a, b)


@triton.jit
def mean_of(total, count):
    """Return a sum over how many it was made of; integers are rounded down."""
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
    """Return the number of keys from `first` on that equal `key`."""
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
    CLEARED: tl.constexpr,
    TYPE: tl.constexpr,
    NDIM_J: tl.constexpr,
    NDIM_C: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAPS: tl.constexpr,
):
    """Combine out[key * step, c] with values[order[s], c] over the run of each key except `skip`, in order.

    The lane at a run's first key iterates over the run. Values are scaled by `alpha` if it is given, and divided by
    the run's length if AVERAGED. CLEARED starts from zeros. INCLUDES counts the existing element; MEAN divides by
    the number of values.
    """
    wait_for_earlier(OVERLAPS)
    t = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    s = t // width
    c = t % width
    mask = t < n
    key = tl.load(keys + s, mask=mask, other=-1)
    before = tl.load(keys + s - 1, mask=mask & (s > 0), other=-1)
    head = mask & (key != before) & (key != skip)
    out_ptrs = out + key.to(INDEX) * step + offset_of(c, c0, c1, c2, oc0, oc1, oc2, oc3, NDIM_C)
    if CLEARED:
        total = tl.zeros((BLOCK,), TYPE)
    else:
        total = convert(tl.load(out_ptrs, mask=head), TYPE)
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
    tl.store(out_ptrs, convert(total, out.dtype.element_ty), mask=head)


declare(
    combine_runs,
    why=GATHERING,
    dtypes=NUMBERS,
    configurations=(Configuration((128,)),),
    operations="n, twice as many with alpha",
    traffic="n itemsize, and the output's elements twice",
)

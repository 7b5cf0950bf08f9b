"""The programs of pooling: forwards each output looks at its window, backwards each input at its windows.

A program has a block of elements, numbered with the width or (LAST) the channels fastest. Indices within a
plane count rows of `w` elements.
"""

from ...runtime.cuda.lazy_triton import tl, triton
from ..budget import FLOATS, INTEGERS, Configuration, declare
from ..conversion import convert


@triton.jit
def place_of(i, channels, h, w, LAST: tl.constexpr):
    """Image, channel, row and column of a linear index."""
    if LAST:
        rest = i // channels
        return rest // w // h, i % channels, (rest // w) % h, rest % w
    else:
        rest = i // w
        return rest // h // channels, (rest // h) % channels, rest % h, i % w


@triton.jit
def quotient(total, divisor):
    if total.dtype == tl.float32:
        return tl.div_rn(total, divisor.to(tl.float32))
    elif total.dtype == tl.float64:
        return total / divisor.to(tl.float64)
    else:
        return total // divisor.to(total.dtype)


@triton.jit
def window_size(position, n, STEP: tl.constexpr, PAD: tl.constexpr, K: tl.constexpr, WITH_PAD: tl.constexpr):
    """How many elements the window at a position has along a dimension."""
    start = position * STEP - PAD
    if WITH_PAD:
        return tl.minimum(start + K, n + PAD) - start
    else:
        return tl.minimum(start + K, n) - tl.maximum(start, 0)


@triton.jit
def max_pool(
    x,
    out,
    index,
    n,
    channels,
    h,
    w,
    oh,
    ow,
    xn,
    xc,
    xh,
    xw,
    yn,
    yc,
    yh,
    yw,
    sn,
    sc,
    sh,
    sw,
    LOWEST: tl.constexpr,
    TYPE: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DH: tl.constexpr,
    DW: tl.constexpr,
    INDEX: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    i = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    inside = i < n
    image, channel, line, column = place_of(i, channels, oh, ow, LAST)
    top, left = line * SH - PH, column * SW - PW
    first_row = tl.where(top < 0, top + (tl.maximum(0 - top, 0) + DH - 1) // DH * DH, top)
    first_column = tl.where(left < 0, left + (tl.maximum(0 - left, 0) + DW - 1) // DW * DW, left)
    best = tl.full((BLOCK,), LOWEST, TYPE)
    where = first_row * w + first_column
    plane = x + image * xn + channel * xc
    for tap in range(KH * KW):
        row, col = top + tap // KW * DH, left + tap % KW * DW
        there = inside & (row >= 0) & (row < h) & (col >= 0) & (col < w)
        value = convert(tl.load(plane + row * xh + col * xw, mask=there, other=0), TYPE)
        better = there & ((value > best) | (value != value))
        best = tl.where(better, value, best)
        where = tl.where(better, row * w + col, where)
    to = image * yn + channel * yc + line * yh + column * yw
    tl.store(out + to, convert(best, out.dtype.element_ty), mask=inside)
    to_index = image * sn + channel * sc + line * sh + column * sw
    tl.store(index + to_index, where.to(tl.int64), mask=inside)


@triton.jit
def max_pool_backward(
    g,
    index,
    out,
    n,
    channels,
    h,
    w,
    oh,
    ow,
    gn,
    gc,
    gh,
    gw,
    sn,
    sc,
    sh,
    sw,
    yn,
    yc,
    yh,
    yw,
    TYPE: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DH: tl.constexpr,
    DW: tl.constexpr,
    INDEX: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    i = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    inside = i < n
    image, channel, line, column = place_of(i, channels, h, w, LAST)
    own = (line * w + column).to(tl.int64)
    total = tl.zeros((BLOCK,), TYPE)
    for back in range(KH * KW):
        # The last tap first: windows in the order of their positions.
        tap = KH * KW - 1 - back
        row, col = line + PH - tap // KW * DH, column + PW - tap % KW * DW
        there = inside & (row >= 0) & (col >= 0)
        row, col = tl.maximum(row, 0), tl.maximum(col, 0)
        there = there & (row % SH == 0) & (col % SW == 0) & (row // SH < oh) & (col // SW < ow)
        row, col = row // SH, col // SW
        to_index = image * sn + channel * sc + row * sh + col * sw
        there = there & (tl.load(index + to_index, mask=there, other=-1) == own)
        to_gradient = image * gn + channel * gc + row * gh + col * gw
        total += convert(tl.load(g + to_gradient, mask=there, other=0), TYPE)
    to = image * yn + channel * yc + line * yh + column * yw
    tl.store(out + to, convert(total, out.dtype.element_ty), mask=inside)


@triton.jit
def average_pool(
    x,
    out,
    n,
    channels,
    h,
    w,
    oh,
    ow,
    xn,
    xc,
    xh,
    xw,
    yn,
    yc,
    yh,
    yw,
    divisor,
    TYPE: tl.constexpr,
    WITH_PAD: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DH: tl.constexpr,
    DW: tl.constexpr,
    INDEX: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    i = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    inside = i < n
    image, channel, line, column = place_of(i, channels, oh, ow, LAST)
    total = tl.zeros((BLOCK,), TYPE)
    plane = x + image * xn + channel * xc
    for tap in range(KH * KW):
        row, col = line * SH - PH + tap // KW, column * SW - PW + tap % KW
        there = inside & (row >= 0) & (row < h) & (col >= 0) & (col < w)
        total += convert(tl.load(plane + row * xh + col * xw, mask=there, other=0), TYPE)
    if divisor is None:
        size = window_size(line, h, SH, PH, KH, WITH_PAD) * window_size(column, w, SW, PW, KW, WITH_PAD)
    else:
        size = divisor + line * 0
    # Lanes beyond the end may have windows of no size.
    result = quotient(total, tl.where(inside, size, 1))
    to = image * yn + channel * yc + line * yh + column * yw
    tl.store(out + to, convert(result, out.dtype.element_ty), mask=inside)


@triton.jit
def average_pool_backward(
    g,
    out,
    n,
    channels,
    h,
    w,
    oh,
    ow,
    gn,
    gc,
    gh,
    gw,
    yn,
    yc,
    yh,
    yw,
    divisor,
    TYPE: tl.constexpr,
    WITH_PAD: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DH: tl.constexpr,
    DW: tl.constexpr,
    INDEX: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    i = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    inside = i < n
    image, channel, line, column = place_of(i, channels, h, w, LAST)
    total = tl.zeros((BLOCK,), TYPE)
    for tap in range(KH * KW):
        row, col = line + PH - tap // KW, column + PW - tap % KW
        there = inside & (row >= 0) & (col >= 0)
        row, col = tl.maximum(row, 0), tl.maximum(col, 0)
        there = there & (row % SH == 0) & (col % SW == 0) & (row // SH < oh) & (col // SW < ow)
        row, col = row // SH, col // SW
        to_gradient = image * gn + channel * gc + row * gh + col * gw
        value = convert(tl.load(g + to_gradient, mask=there, other=0), TYPE)
        if divisor is None:
            size = window_size(row, h, SH, PH, KH, WITH_PAD) * window_size(col, w, SW, PW, KW, WITH_PAD)
        else:
            size = divisor + row * 0
        total += quotient(value, tl.where(there, size, 1))
    to = image * yn + channel * yc + line * yh + column * yw
    tl.store(out + to, convert(total, out.dtype.element_ty), mask=inside)


GATHERING = "32 warps: each lane waits for one element of a window after the other, and other warps hide that"

for _kernel, _operand, _dtypes, _operations in (
    (max_pool, "x", (*FLOATS, *INTEGERS), "a comparison for each tap"),
    (average_pool, "x", (*FLOATS, *INTEGERS), "an addition for each tap"),
    (max_pool_backward, "g", FLOATS, "a comparison and an addition for each tap"),
    (average_pool_backward, "g", FLOATS, "a division and an addition for each tap"),
):
    declare(
        _kernel,
        why=GATHERING,
        operand=_operand,
        dtypes=_dtypes,
        configurations=(Configuration((256,)),),
        operations=_operations,
        traffic="each input and output once; elements of several windows again where their line has left L1",
    )

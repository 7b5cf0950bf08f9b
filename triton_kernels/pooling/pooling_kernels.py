"""Kernels of pooling: in forward each output reads its window, in backward each input reads its windows'
gradients.

A program has a tile of positions by channels. Without LAST the channel is part of the position, and the width
is the fastest dimension. With LAST, channels are the fastest dimension and a tile's second one. Planes have
up to three dimensions; indices within a plane count lines of `w` elements. ADAPTIVE windows divide a
dimension evenly: output i has the elements from floor(i n / out) to ceil((i + 1) n / out), so the same rule
finds an input's windows.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..folded_grid import place_in_grid


@triton.jit
def place_of(
    n,
    channels,
    d,
    h,
    w,
    INDEX: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Image, channel, plane, line and column of a tile's elements, of `n` positions, and which of them there are."""
    if LAST:
        down, across = place_in_grid(tl.cdiv(n, BLOCK_P))
    else:
        down, across = tl.program_id(0), 0
    i = (down.to(INDEX) * BLOCK_P + tl.arange(0, BLOCK_P).to(INDEX))[:, None]
    inside = i < n
    rest = i // w
    column, line = i % w, rest % h
    rest = rest // h
    plane, rest = rest % d, rest // d
    if LAST:
        channel = (across.to(INDEX) * BLOCK_C + tl.arange(0, BLOCK_C).to(INDEX))[None, :]
        return rest, channel, plane, line, column, inside & (channel < channels)
    else:
        return rest // channels, rest % channels, plane, line, column, inside


@triton.jit
def element_under(
    o, tap, n, out, STEP: tl.constexpr, PAD: tl.constexpr, SPREAD: tl.constexpr, ADAPTIVE: tl.constexpr
):
    """Return the position of a tap of output `o`'s window, and whether it is in the input."""
    if ADAPTIVE:
        at = o * n // out + tap
        return at, at < ((o + 1) * n + out - 1) // out
    else:
        at = o * STEP - PAD + tap * SPREAD
        return at, (at >= 0) & (at < n)


@triton.jit
def window_over(
    p,
    back,
    n,
    out,
    K: tl.constexpr,
    STEP: tl.constexpr,
    PAD: tl.constexpr,
    SPREAD: tl.constexpr,
    BACK: tl.constexpr,
    ADAPTIVE: tl.constexpr,
):
    """Return the output of one of at most BACK windows that contain position `p`, in order, and whether it exists."""
    if ADAPTIVE:
        o = p * out // n + back
        return o, o < ((p + 1) * out + n - 1) // n
    else:
        o = (p + PAD) // STEP - (BACK - 1 - back)
        tap = p + PAD - o * STEP
        there = (o >= 0) & (o < out) & (tap <= (K - 1) * SPREAD)
        if SPREAD > 1:
            there = there & (tap % SPREAD == 0)
        return o, there


@triton.jit
def quotient(total, divisor):
    if total.dtype == tl.float32:
        return tl.div_rn(total, tl.broadcast_to(divisor.to(tl.float32), total.shape))
    elif total.dtype == tl.float64:
        return total / divisor.to(tl.float64)
    else:
        return total // divisor.to(total.dtype)


@triton.jit
def window_size(
    o,
    n,
    out,
    STEP: tl.constexpr,
    PAD: tl.constexpr,
    K: tl.constexpr,
    WITH_PAD: tl.constexpr,
    ADAPTIVE: tl.constexpr,
):
    """Return the number of elements in output `o`'s window along a dimension."""
    start = o * STEP - PAD
    if ADAPTIVE:
        return ((o + 1) * n + out - 1) // out - o * n // out
    elif WITH_PAD:
        return tl.minimum(start + K, n + PAD) - start
    else:
        return tl.minimum(start + K, n) - tl.maximum(start, 0)


@triton.jit
def first_inside(
    o, n, out, STEP: tl.constexpr, PAD: tl.constexpr, SPREAD: tl.constexpr, ADAPTIVE: tl.constexpr
):
    """Return the first element of a window that lies in the input."""
    if ADAPTIVE:
        return o * n // out
    else:
        start = o * STEP - PAD
        return tl.where(start < 0, start + (tl.maximum(0 - start, 0) + SPREAD - 1) // SPREAD * SPREAD, start)


@triton.jit
def max_pool(
    x,
    out,
    index,
    n,
    channels,
    d,
    h,
    w,
    od,
    oh,
    ow,
    xn,
    xc,
    xd,
    xh,
    xw,
    yn,
    yc,
    yd,
    yh,
    yw,
    sn,
    sc,
    sd,
    sh,
    sw,
    LOWEST: tl.constexpr,
    TYPE: tl.constexpr,
    KD: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    SD: tl.constexpr,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PD: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DD: tl.constexpr,
    DH: tl.constexpr,
    DW: tl.constexpr,
    ADAPTIVE: tl.constexpr,
    INDEX: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    image, channel, plane, line, column, inside = place_of(
        n, channels, od, oh, ow, INDEX, LAST, BLOCK_P, BLOCK_C
    )
    start = first_inside(plane, d, od, SD, PD, DD, ADAPTIVE) * h + first_inside(
        line, h, oh, SH, PH, DH, ADAPTIVE
    )
    start = start * w + first_inside(column, w, ow, SW, PW, DW, ADAPTIVE)
    best = tl.full((BLOCK_P, BLOCK_C), LOWEST, TYPE)
    where = tl.zeros((BLOCK_P, BLOCK_C), INDEX) + start
    images = x + (image * xn + channel * xc)
    for tap in range(KD * KH * KW):
        z, deep = element_under(plane, tap // (KH * KW), d, od, SD, PD, DD, ADAPTIVE)
        row, high = element_under(line, tap // KW % KH, h, oh, SH, PH, DH, ADAPTIVE)
        col, wide = element_under(column, tap % KW, w, ow, SW, PW, DW, ADAPTIVE)
        there = inside & (deep & high & wide)
        value = convert(tl.load(images + (z * xd + row * xh + col * xw), mask=there, other=0), TYPE)
        better = there & ((value > best) | (value != value))
        best = tl.where(better, value, best)
        where = tl.where(better, (z * h + row) * w + col, where)
    out_offset = image * yn + channel * yc + (plane * yd + line * yh + column * yw)
    tl.store(out + out_offset, convert(best, out.dtype.element_ty), mask=inside)
    to_index = image * sn + channel * sc + (plane * sd + line * sh + column * sw)
    tl.store(index + to_index, where.to(tl.int64), mask=inside)


@triton.jit
def max_pool_backward(
    g,
    index,
    out,
    n,
    channels,
    d,
    h,
    w,
    od,
    oh,
    ow,
    gn,
    gc,
    gd,
    gh,
    gw,
    sn,
    sc,
    sd,
    sh,
    sw,
    yn,
    yc,
    yd,
    yh,
    yw,
    TYPE: tl.constexpr,
    KD: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    SD: tl.constexpr,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PD: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DD: tl.constexpr,
    DH: tl.constexpr,
    DW: tl.constexpr,
    BD: tl.constexpr,
    BH: tl.constexpr,
    BW: tl.constexpr,
    ADAPTIVE: tl.constexpr,
    INDEX: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    image, channel, plane, line, column, inside = place_of(
        n, channels, d, h, w, INDEX, LAST, BLOCK_P, BLOCK_C
    )
    own = ((plane * h + line) * w + column).to(tl.int64)
    total = tl.zeros((BLOCK_P, BLOCK_C), TYPE)
    gradients = g + (image * gn + channel * gc)
    indices = index + (image * sn + channel * sc)
    for back in range(BD * BH * BW):
        z, deep = window_over(plane, back // (BH * BW), d, od, KD, SD, PD, DD, BD, ADAPTIVE)
        row, high = window_over(line, back // BW % BH, h, oh, KH, SH, PH, DH, BH, ADAPTIVE)
        col, wide = window_over(column, back % BW, w, ow, KW, SW, PW, DW, BW, ADAPTIVE)
        there = inside & (deep & high & wide)
        named = there & (tl.load(indices + (z * sd + row * sh + col * sw), mask=there, other=-1) == own)
        # A mask that the indices decide would split vectors.
        value = tl.load(gradients + (z * gd + row * gh + col * gw), mask=there, other=0)
        total += tl.where(named, convert(value, TYPE), tl.zeros_like(total))
    out_offset = image * yn + channel * yc + (plane * yd + line * yh + column * yw)
    tl.store(out + out_offset, convert(total, out.dtype.element_ty), mask=inside)


@triton.jit
def average_pool(
    x,
    out,
    n,
    channels,
    d,
    h,
    w,
    od,
    oh,
    ow,
    xn,
    xc,
    xd,
    xh,
    xw,
    yn,
    yc,
    yd,
    yh,
    yw,
    divisor,
    TYPE: tl.constexpr,
    WITH_PAD: tl.constexpr,
    KD: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    SD: tl.constexpr,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PD: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DD: tl.constexpr,
    DH: tl.constexpr,
    DW: tl.constexpr,
    ADAPTIVE: tl.constexpr,
    INDEX: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    image, channel, plane, line, column, inside = place_of(
        n, channels, od, oh, ow, INDEX, LAST, BLOCK_P, BLOCK_C
    )
    total = tl.zeros((BLOCK_P, BLOCK_C), TYPE)
    images = x + (image * xn + channel * xc)
    for tap in range(KD * KH * KW):
        z, deep = element_under(plane, tap // (KH * KW), d, od, SD, PD, DD, ADAPTIVE)
        row, high = element_under(line, tap // KW % KH, h, oh, SH, PH, DH, ADAPTIVE)
        col, wide = element_under(column, tap % KW, w, ow, SW, PW, DW, ADAPTIVE)
        there = inside & (deep & high & wide)
        total += convert(tl.load(images + (z * xd + row * xh + col * xw), mask=there, other=0), TYPE)
    if divisor is None:
        size = window_size(line, h, oh, SH, PH, KH, WITH_PAD, ADAPTIVE)
        size = size * window_size(column, w, ow, SW, PW, KW, WITH_PAD, ADAPTIVE)
        size = size * window_size(plane, d, od, SD, PD, KD, WITH_PAD, ADAPTIVE)
    else:
        size = divisor + line * 0
    # Lanes beyond the end may have windows of no size.
    result = quotient(total, tl.where(inside, size, 1))
    out_offset = image * yn + channel * yc + (plane * yd + line * yh + column * yw)
    tl.store(out + out_offset, convert(result, out.dtype.element_ty), mask=inside)


@triton.jit
def average_pool_backward(
    g,
    out,
    n,
    channels,
    d,
    h,
    w,
    od,
    oh,
    ow,
    gn,
    gc,
    gd,
    gh,
    gw,
    yn,
    yc,
    yd,
    yh,
    yw,
    divisor,
    TYPE: tl.constexpr,
    WITH_PAD: tl.constexpr,
    KD: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    SD: tl.constexpr,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PD: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DD: tl.constexpr,
    DH: tl.constexpr,
    DW: tl.constexpr,
    BD: tl.constexpr,
    BH: tl.constexpr,
    BW: tl.constexpr,
    ADAPTIVE: tl.constexpr,
    INDEX: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    image, channel, plane, line, column, inside = place_of(
        n, channels, d, h, w, INDEX, LAST, BLOCK_P, BLOCK_C
    )
    total = tl.zeros((BLOCK_P, BLOCK_C), TYPE)
    gradients = g + (image * gn + channel * gc)
    for back in range(BD * BH * BW):
        z, deep = window_over(plane, back // (BH * BW), d, od, KD, SD, PD, DD, BD, ADAPTIVE)
        row, high = window_over(line, back // BW % BH, h, oh, KH, SH, PH, DH, BH, ADAPTIVE)
        col, wide = window_over(column, back % BW, w, ow, KW, SW, PW, DW, BW, ADAPTIVE)
        there = inside & (deep & high & wide)
        value = convert(tl.load(gradients + (z * gd + row * gh + col * gw), mask=there, other=0), TYPE)
        if divisor is None:
            size = window_size(row, h, oh, SH, PH, KH, WITH_PAD, ADAPTIVE)
            size = size * window_size(col, w, ow, SW, PW, KW, WITH_PAD, ADAPTIVE)
            size = size * window_size(z, d, od, SD, PD, KD, WITH_PAD, ADAPTIVE)
        else:
            size = divisor + row * 0
        total += quotient(value, tl.where(there, size, 1))
    out_offset = image * yn + channel * yc + (plane * yd + line * yh + column * yw)
    tl.store(out + out_offset, convert(total, out.dtype.element_ty), mask=inside)


GATHERING = "24 warps: each lane waits for one element of a window after the other, and other warps hide that"
PLANES = Configuration((256, 1))
WIDE = Configuration((8, 64))
# Windows of different sizes keep their bounds with the 16 elements of a lane: 16 warps.
WIDER = Configuration((16, 64), blocks=4)
"""Channels last: 16 bytes of each position for a lane."""

for _kernel, _operand, _integers, _operations in (
    (max_pool, "x", ("u8", "i8", "i16", "i32", "i64"), "a comparison for each tap"),
    (average_pool, "x", ("i64",), "an addition for each tap"),
    (max_pool_backward, "g", (), "a comparison and an addition for each window"),
    (average_pool_backward, "g", (), "a division and an addition for each window"),
):
    declare(
        _kernel,
        warps=24,
        why=GATHERING,
        operand=_operand,
        tile=("BLOCK_P", "BLOCK_C"),
        dtypes={
            ("fp32",): (PLANES, WIDE),
            ("fp16", "bf16"): (PLANES, WIDER),
            ("fp64",): (PLANES,),
            **({_integers: (PLANES,)} if _integers else {}),
        },
        smaller=True,
        operations=_operations,
        traffic="each input and output once; elements of several windows again where their line has left L1",
        loads=(_operand,),
    )

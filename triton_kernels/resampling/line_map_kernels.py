"""Kernels of padding and interpolation: in forward each result reads its taps.

In backward each element gathers from the results that it is a tap of, which the forward rule itself finds. A
program has a tile of lines by columns. A column is an element of the fastest dimension of memory: of the
width, or with LAST of the channels, and then the width is part of the line. Positions, taps and weights are
computed once for lines and columns, so an element costs only additions. Kinds of maps are those of
`dispatch/structured/meta/line_maps.py`, as numbers.
"""

from ...dispatch.structured.meta.line_maps import Kind
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert

KEEP = tl.constexpr(int(Kind.KEEP))
CONSTANT = tl.constexpr(int(Kind.CONSTANT))
REFLECT = tl.constexpr(int(Kind.REFLECT))
REPLICATE = tl.constexpr(int(Kind.REPLICATE))
NEAREST = tl.constexpr(int(Kind.NEAREST))
NEAREST_EXACT = tl.constexpr(int(Kind.NEAREST_EXACT))
LINEAR = tl.constexpr(int(Kind.LINEAR))
CUBIC = tl.constexpr(int(Kind.CUBIC))
LINEAR_ANTIALIASED = tl.constexpr(int(Kind.LINEAR_ANTIALIASED))
CUBIC_ANTIALIASED = tl.constexpr(int(Kind.CUBIC_ANTIALIASED))


@triton.jit
def quotient(a, b):
    if a.dtype == tl.float32:
        return tl.div_rn(a, b)
    else:
        return a / b


@triton.jit
def keys(x, a):
    """Keys' cubic convolution kernel at a distance of at least 0."""
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    far = ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    return tl.where(x <= 1.0, near, tl.where(x < 2.0, far, 0.0))


@triton.jit
def source_of(o, n, out, scale, KIND: tl.constexpr, ALIGN: tl.constexpr):
    """Return the input position of output position `o` of an interpolation, in `scale`'s dtype."""
    at = o.to(scale.dtype)
    if ALIGN:
        at = at * scale
    else:
        at = scale * (at + 0.5) - 0.5
    if KIND == LINEAR:
        at = tl.maximum(tl.where(out == n, o.to(scale.dtype), at), 0.0)
    return at


@triton.jit
def antialiased_reach(o, n, scale, KIND: tl.constexpr):
    """Return the center, the first tap and the number of taps of an antialiased position."""
    widened = tl.maximum(scale, 1.0)
    support = widened if KIND == LINEAR_ANTIALIASED else widened * 2.0
    center = scale * (o.to(scale.dtype) + 0.5)
    first = tl.maximum((center - support + 0.5).to(o.dtype), 0)
    end = tl.minimum((center + support + 0.5).to(o.dtype), n)
    return center, first, tl.maximum(end - first, 0)


@triton.jit
def antialiased_weight(i, center, scale, KIND: tl.constexpr):
    """Return the unnormalized weight of element `i`."""
    x = tl.abs((i.to(scale.dtype) - center + 0.5) * (1.0 / tl.maximum(scale, 1.0)))
    if KIND == LINEAR_ANTIALIASED:
        return tl.maximum(1.0 - x, 0.0)
    else:
        return keys(x, -0.5)


@triton.jit
def antialiased_total(center, first, count, taps, scale, KIND: tl.constexpr):
    total = center * 0.0
    for k in range(taps):
        total += tl.where(k < count, antialiased_weight(first + k, center, scale, KIND), 0.0)
    return total


@triton.jit
def tap_of(o, k, n, out, pad, scale, taps, total, KIND: tl.constexpr, ALIGN: tl.constexpr):
    """Tap `k` of position `o`, -1 for none, and its weight. `total` is the sum of an antialiased one's weights."""
    if KIND == KEEP:
        return o, 1.0
    elif KIND == CONSTANT:
        i = o - pad
        return tl.where((i >= 0) & (i < n), i, -1), 1.0
    elif KIND == REFLECT:
        i = tl.abs(o - pad)
        return n - 1 - tl.abs(n - 1 - i), 1.0
    elif KIND == REPLICATE:
        return tl.minimum(tl.maximum(o - pad, 0), n - 1), 1.0
    elif KIND <= NEAREST_EXACT:
        at = o.to(scale.dtype)
        if KIND == NEAREST_EXACT:
            at += 0.5
        return tl.minimum((at * scale).to(tl.float32).to(o.dtype), n - 1), 1.0
    elif KIND == LINEAR:
        at = source_of(o, n, out, scale, KIND, ALIGN)
        first = tl.minimum(at.to(o.dtype), n - 1)
        part = tl.minimum(tl.maximum(at - first.to(scale.dtype), 0.0), 1.0)
        return tl.minimum(first + k, n - 1), tl.where(k == 0, 1.0 - part, part)
    elif KIND == CUBIC:
        at = source_of(o, n, out, scale, KIND, ALIGN)
        first = tl.minimum(tl.floor(at).to(o.dtype), n - 1)
        part = tl.minimum(tl.maximum(at - first.to(scale.dtype), 0.0), 1.0)
        return tl.minimum(tl.maximum(first + k - 1, 0), n - 1), keys(tl.abs(part - (k - 1)), -0.75)
    else:
        center, first, count = antialiased_reach(o, n, scale, KIND)
        weight = quotient(antialiased_weight(first + k, center, scale, KIND), total)
        return tl.where(k < count, first + k, -1), weight


@triton.jit
def total_of(o, n, taps, scale, KIND: tl.constexpr):
    if KIND >= LINEAR_ANTIALIASED:
        center, first, count = antialiased_reach(o, n, scale, KIND)
        return antialiased_total(center, first, count, taps, scale, KIND)
    else:
        return 1.0


@triton.jit
def ends_of(o, n, out, pad, scale, KIND: tl.constexpr, ALIGN: tl.constexpr):
    """Return the first and the last tap of position `o` of an interpolation, both of which grow with `o`."""
    if KIND <= NEAREST_EXACT:
        i, _ = tap_of(o, 0, n, out, pad, scale, 1, 1.0, KIND, ALIGN)
        return i, i
    elif KIND == LINEAR:
        first = tl.minimum(source_of(o, n, out, scale, KIND, ALIGN).to(o.dtype), n - 1)
        return first, tl.minimum(first + 1, n - 1)
    elif KIND == CUBIC:
        first = tl.minimum(tl.floor(source_of(o, n, out, scale, KIND, ALIGN)).to(o.dtype), n - 1)
        return tl.minimum(tl.maximum(first - 1, 0), n - 1), tl.minimum(tl.maximum(first + 2, 0), n - 1)
    else:
        _, first, count = antialiased_reach(o, n, scale, KIND)
        return first, first + count - 1


@triton.jit
def results_of(i, n, out, pad, scale, KIND: tl.constexpr, ALIGN: tl.constexpr):
    """Return the first output that may have element `i` as a tap, and the number of candidates from it; REFLECT has
    three in any order.
    """
    if KIND == KEEP:
        return i, i * 0 + 1
    elif KIND == REFLECT:
        return i, i * 0 + 3
    elif KIND == REPLICATE:
        first = tl.where(i == 0, 0, tl.maximum(i + pad, 0))
        last = tl.where(i == n - 1, out - 1, tl.minimum(i + pad, out - 1))
        return first, last - first + 1
    else:
        # A guess that is never too narrow, then steps to the very ends by the forward rule.
        radius = tl.maximum(scale, 1.0) * 2.0 + 1.0
        most = (out - 1).to(scale.dtype)
        at = i.to(scale.dtype)
        step = tl.maximum(scale, 1e-30)
        low = tl.minimum(tl.maximum((at - radius) / step - 2.0, 0.0), most)
        high = tl.minimum(tl.maximum((at + radius) / step + 2.0, 0.0), most)
        first = tl.where(i == 0, 0, low.to(i.dtype))
        last = tl.where(i == n - 1, out - 1, high.to(i.dtype))
        span = last - first
        # Halving: the smallest o whose last tap is not before i, and the largest whose first tap is not behind it.
        upper = last
        left = last
        right = first
        rounds = tl.max(tl.max(span, 1), 0)
        while rounds > 0:
            middle = (first + left) // 2
            _begin, end = ends_of(middle, n, out, pad, scale, KIND, ALIGN)
            left = tl.where((first < left) & (end >= i), middle, left)
            first = tl.where((first < left) & (end < i), middle + 1, first)
            middle = (right + upper + 1) // 2
            begin, _end = ends_of(middle, n, out, pad, scale, KIND, ALIGN)
            right = tl.where((right < upper) & (begin <= i), middle, right)
            upper = tl.where((right < upper) & (begin > i), middle - 1, upper)
            rounds = rounds // 2
        return first, upper - first + 1


@triton.jit
def most_of(count, KIND: tl.constexpr):
    """Return the largest number of candidates of a tile's elements."""
    if KIND == KEEP:
        return 1
    elif KIND == REFLECT:
        return 3
    else:
        return tl.max(tl.max(count, 1), 0)


@triton.jit
def result_of(first, b, i, n, pad, KIND: tl.constexpr):
    """Candidate `b` of `results_of`."""
    if KIND == REFLECT:
        return tl.where(b == 0, i + pad, tl.where(b == 1, pad - i, pad + 2 * (n - 1) - i))
    else:
        return first + b


@triton.jit
def weight_in(
    o,
    b,
    count,
    i,
    n,
    out,
    pad,
    scale,
    taps,
    K: tl.constexpr,
    KIND: tl.constexpr,
    ALIGN: tl.constexpr,
):
    """Return whether element `i` is a tap of output `o` (candidate `b` of `count`), and the sum of its weights."""
    inside = (b < count) & (o >= 0) & (o < out)
    if KIND == REFLECT:
        # At the ends two of the three are the same one.
        inside = inside & ((b == 0) | ((b == 1) & (i > 0)) | ((b == 2) & (i < n - 1)))
        return inside, 1.0
    elif KIND == KEEP:
        return inside, 1.0
    elif KIND <= NEAREST_EXACT:
        at, _ = tap_of(o, 0, n, out, pad, scale, taps, 1.0, KIND, ALIGN)
        return inside & (at == i), 1.0
    elif KIND <= CUBIC:
        weight = i.to(scale.dtype) * 0.0
        found = i < 0
        for k in tl.static_range(K):
            at, part = tap_of(o, k, n, out, pad, scale, taps, 1.0, KIND, ALIGN)
            weight += tl.where(at == i, part, 0.0)
            found = found | (at == i)
        return inside & found, weight
    else:
        center, first, number = antialiased_reach(o, n, scale, KIND)
        total = antialiased_total(center, first, number, taps, scale, KIND)
        there = (i >= first) & (i < first + number)
        return inside & there, quotient(antialiased_weight(i, center, scale, KIND), total)


@triton.jit
def lines_of(
    n_lines,
    columns,
    nb,
    nd,
    nh,
    nw,
    column_blocks,
    INDEX: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK_L: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Outer places, plane, line and column of a tile's elements, its columns, and which elements there are."""
    program = tl.program_id(0)
    line = (program // column_blocks).to(INDEX) * BLOCK_L + tl.arange(0, BLOCK_L).to(INDEX)[:, None]
    column = (program % column_blocks).to(INDEX) * BLOCK_C + tl.arange(0, BLOCK_C).to(INDEX)[None, :]
    inside = (line < n_lines) & (column < columns)
    if LAST:
        w = line % nw
        rest = line // nw
    else:
        w = column
        rest = line
    h = rest % nh
    rest = rest // nh
    d = rest % nd
    rest = rest // nd
    return rest // nb, rest % nb, d, h, w, column, inside


@triton.jit
def map_lines(
    x,
    out,
    value,
    n_lines,
    columns,
    column_blocks,
    nb,
    d,
    h,
    w,
    od,
    oh,
    ow,
    pd,
    ph,
    pw,
    sd,
    sh,
    sw,
    kd,
    kh,
    kw,
    xa,
    xb,
    xd,
    xh,
    xw,
    xc,
    ya,
    yb,
    yd,
    yh,
    yw,
    yc,
    KIND_D: tl.constexpr,
    KIND_H: tl.constexpr,
    KIND_W: tl.constexpr,
    ALIGN: tl.constexpr,
    MOVES: tl.constexpr,
    TYPE: tl.constexpr,
    INDEX: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK_L: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    a, b, z, row, col, column, inside = lines_of(
        n_lines, columns, nb, od, oh, ow, column_blocks, INDEX, LAST, BLOCK_L, BLOCK_C
    )
    source = x + (a * xa + b * xb)
    target = out + (a * ya + b * yb + z * yd + row * yh)
    if LAST:
        source += column * xc
        target += col * yw + column * yc
    else:
        target += col * yw
    if MOVES:
        iz, _wz = tap_of(z, 0, d, od, pd, sd, 1, 1.0, KIND_D, ALIGN)
        iy, _wy = tap_of(row, 0, h, oh, ph, sh, 1, 1.0, KIND_H, ALIGN)
        ix, _wx = tap_of(col, 0, w, ow, pw, sw, 1, 1.0, KIND_W, ALIGN)
        there = inside
        if KIND_D == CONSTANT or KIND_H == CONSTANT or KIND_W == CONSTANT:
            there = there & (iz >= 0) & (iy >= 0) & (ix >= 0)
        found = tl.load(source + (iz * xd + iy * xh + ix * xw), mask=there)
        if KIND_D == CONSTANT or KIND_H == CONSTANT or KIND_W == CONSTANT:
            found = tl.where(there, found, convert(value, out.dtype.element_ty))
        tl.store(target, found, mask=inside)
    else:
        total_d = total_of(z, d, kd, sd, KIND_D)
        total_h = total_of(row, h, kh, sh, KIND_H)
        total_w = total_of(col, w, kw, sw, KIND_W)
        total = tl.zeros([BLOCK_L, BLOCK_C], TYPE)
        for tap_d in range(kd):
            iz, wz = tap_of(z, tap_d, d, od, pd, sd, kd, total_d, KIND_D, ALIGN)
            for tap_h in range(kh):
                iy, wy = tap_of(row, tap_h, h, oh, ph, sh, kh, total_h, KIND_H, ALIGN)
                at = source + (iz * xd + iy * xh)
                weight = wz * wy
                for tap_w in range(kw):
                    ix, wx = tap_of(col, tap_w, w, ow, pw, sw, kw, total_w, KIND_W, ALIGN)
                    there = inside & (iz >= 0) & (iy >= 0) & (ix >= 0)
                    found = tl.load(at + ix * xw, mask=there, other=0).to(TYPE)
                    total += tl.where(there, found * (weight * wx), 0.0)
        tl.store(target, convert(total, out.dtype.element_ty), mask=inside)


@triton.jit
def map_lines_backward(
    g,
    out,
    n_lines,
    columns,
    column_blocks,
    nb,
    d,
    h,
    w,
    od,
    oh,
    ow,
    pd,
    ph,
    pw,
    sd,
    sh,
    sw,
    kd,
    kh,
    kw,
    xa,
    xb,
    xd,
    xh,
    xw,
    xc,
    ya,
    yb,
    yd,
    yh,
    yw,
    yc,
    KIND_D: tl.constexpr,
    KIND_H: tl.constexpr,
    KIND_W: tl.constexpr,
    ALIGN: tl.constexpr,
    K: tl.constexpr,
    TYPE: tl.constexpr,
    INDEX: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK_L: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Compute the gradient of the input, of size (d, h, w), from that of the output `g`, of size (od, oh, ow)."""
    a, b, z, row, col, column, inside = lines_of(
        n_lines, columns, nb, d, h, w, column_blocks, INDEX, LAST, BLOCK_L, BLOCK_C
    )
    source = g + (a * xa + b * xb)
    target = out + (a * ya + b * yb + z * yd + row * yh)
    if LAST:
        source += column * xc
        target += col * yw + column * yc
    else:
        target += col * yw
    first_d, count_d = results_of(z, d, od, pd, sd, KIND_D, ALIGN)
    first_h, count_h = results_of(row, h, oh, ph, sh, KIND_H, ALIGN)
    first_w, count_w = results_of(col, w, ow, pw, sw, KIND_W, ALIGN)
    most_h, most_w = most_of(count_h, KIND_H), most_of(count_w, KIND_W)
    total = tl.zeros([BLOCK_L, BLOCK_C], TYPE)
    for back_d in range(most_of(count_d, KIND_D)):
        oz = result_of(first_d, back_d, z, d, pd, KIND_D)
        in_d, wz = weight_in(oz, back_d, count_d, z, d, od, pd, sd, kd, K, KIND_D, ALIGN)
        for back_h in range(most_h):
            oy = result_of(first_h, back_h, row, h, ph, KIND_H)
            in_h, wy = weight_in(oy, back_h, count_h, row, h, oh, ph, sh, kh, K, KIND_H, ALIGN)
            at = source + (oz * xd + oy * xh)
            for back_w in range(most_w):
                ox = result_of(first_w, back_w, col, w, pw, KIND_W)
                in_w, wx = weight_in(ox, back_w, count_w, col, w, ow, pw, sw, kw, K, KIND_W, ALIGN)
                there = inside & in_d & in_h & in_w
                found = tl.load(at + ox * xw, mask=there, other=0).to(TYPE)
                total += tl.where(there, found * (wz * wy * wx), 0.0)
    tl.store(target, convert(total, out.dtype.element_ty), mask=inside)


GATHERING = (
    "16 warps: taps and weights of three dimensions stand in registers; loads of one tap after the other hide behind "
    "those of other warps"
)

declare(
    map_lines,
    warps=16,
    why=GATHERING,
    operand="x",
    tile=("BLOCK_L", "BLOCK_C"),
    dtypes={
        ("fp32", "i32", "u32"): (Configuration((2, 256)),),
        ("fp64", "i64", "u64"): (Configuration((1, 256)),),
        ("bf16", "fp16", "i16", "u16"): (Configuration((4, 256)),),
        ("i8", "u8", "i1", "fp8e5", "fp8e4nv"): (Configuration((4, 256)),),
    },
    smaller=True,
    operations="a multiplication and an addition for each tap; of moves none",
    traffic="each input and output once; elements that are taps of several results again where their line has left L1",
    loads=("x",),
    stores=("out",),
)
declare(
    map_lines_backward,
    warps=16,
    why=GATHERING,
    operand="g",
    tile=("BLOCK_L", "BLOCK_C"),
    dtypes={
        ("fp32",): (Configuration((2, 256), all_registers=True),),
        ("fp64",): (Configuration((1, 256), all_registers=True),),
        ("bf16", "fp16"): (Configuration((2, 256), all_registers=True),),
        ("u8",): (Configuration((2, 256), all_registers=True),),
    },
    smaller=True,
    operations="a multiplication and an addition for each result that has the element as a tap",
    traffic="each gradient and output once; gradients of several elements again where their line has left L1",
)

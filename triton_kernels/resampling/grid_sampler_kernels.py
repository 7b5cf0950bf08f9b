"""The programs of sampling at given places. A program has places, whose taps it finds once for several channels.

A dimension's taps are numbered from 0: one of NEAREST, two of BILINEAR, four of BICUBIC; the grid's coordinates are
x, y, z. A tap outside the input counts as absent where ZEROS pads, and what is no number lies outside everything.
"""

from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..folded_grid import place_in_grid
from .line_map_kernels import keys, quotient

BILINEAR, NEAREST, BICUBIC = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
ZEROS, BORDER, REFLECTION = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)


@triton.jit
def safe(x):
    """`x`, or a place outside everything where no integer is near."""
    return tl.where(tl.abs(x) < 2147483646.0, x, -100.0)


@triton.jit
def reflected(x, n, ALIGN: tl.constexpr):
    """Reflect a position at the edges until it lies between them; return it with the sign of its derivative."""
    if ALIGN:
        least = 0.0
        span = (n - 1).to(x.dtype)
    else:
        least = -0.5
        span = n.to(x.dtype)
    beyond = x - least
    sign = tl.where(beyond < 0.0, -1.0, 1.0)
    beyond = tl.abs(beyond)
    width = tl.maximum(span, 1.0) + beyond * 0.0
    extra = libdevice.fmod(beyond, width)
    turns = tl.floor(quotient(beyond, width))
    odd = turns - 2.0 * tl.floor(turns * 0.5)
    at = tl.where(odd == 0.0, extra + least, span - extra + least)
    moves = tl.where(odd == 0.0, sign, -sign)
    return tl.where(span > 0.0, at, 0.0), tl.where(span > 0.0, moves, 0.0)


@triton.jit
def clipped(x, n):
    """Clip a position to [0, n - 1], NaN to 0; return it with whether it moves."""
    last = (n - 1).to(x.dtype)
    moving = (x > 0.0) & (x < last)
    return tl.where(x > 0.0, tl.where(x < last, x, last), 0.0), tl.where(moving, 1.0, 0.0)


@triton.jit
def place_in(coordinate, n, MODE: tl.constexpr, PADDING: tl.constexpr, ALIGN: tl.constexpr):
    """Return the position of a coordinate in a dimension, and its derivative by the coordinate."""
    if ALIGN:
        at = (coordinate + 1.0) * 0.5 * (n - 1).to(coordinate.dtype)
        speed = 0.5 * (n - 1).to(coordinate.dtype)
    else:
        at = ((coordinate + 1.0) * n.to(coordinate.dtype) - 1.0) * 0.5
        speed = 0.5 * n.to(coordinate.dtype)
    if MODE == BICUBIC or PADDING == ZEROS:
        return safe(at), speed + coordinate * 0.0
    elif PADDING == BORDER:
        at, moving = clipped(at, n)
        return at, moving * speed
    else:
        at, sign = reflected(at, n, ALIGN)
        at, moving = clipped(at, n)
        return at, sign * moving * speed


@triton.jit
def nearest_even(x):
    """Round to the nearest integer, halves to even."""
    low = tl.floor(x)
    part = x - low
    odd = low - 2.0 * tl.floor(low * 0.5)
    return tl.where((part > 0.5) | ((part == 0.5) & (odd != 0.0)), low + 1.0, low)


@triton.jit
def tap_of(at, k, n, MODE: tl.constexpr, PADDING: tl.constexpr, ALIGN: tl.constexpr):
    """Tap `k` of a place: its element, -1 for none, its weight, and how fast that moves with the place."""
    if MODE == NEAREST:
        i = nearest_even(at)
        weight = at * 0.0 + 1.0
        slope = at * 0.0
    elif MODE == BILINEAR:
        first = tl.floor(at)
        part = at - first
        i = first + k
        weight = tl.where(k == 0, 1.0 - part, part)
        slope = at * 0.0 + tl.where(k == 0, -1.0, 1.0)
    else:
        first = tl.floor(at)
        distance = at - first - (k - 1)
        far = tl.abs(distance)
        weight = keys(far, -0.75)
        near_slope = (3.75 * far - 4.5) * far
        far_slope = (-2.25 * far + 7.5) * far - 6.0
        slope = tl.where(far <= 1.0, near_slope, far_slope)
        slope = tl.where(distance < 0.0, -slope, slope)
        i = first + (k - 1)
        if PADDING == BORDER:
            i, _ = clipped(i, n)
        elif PADDING == REFLECTION:
            i, _ = reflected(i, n, ALIGN)
            i, _ = clipped(i, n)
        i = safe(i)
    index = i.to(tl.int32)
    return tl.where((index >= 0) & (index < n), index, -1), weight, slope


@triton.jit
def places_of(
    block, grid, n_places, places, gn, gp, g1, d, h, w,
    RANK: tl.constexpr, MODE: tl.constexpr, PADDING: tl.constexpr, ALIGN: tl.constexpr, TYPE: tl.constexpr,
    INDEX: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Return a block's images and positions, their mask, and each dimension's position and derivative."""
    i = block.to(INDEX) * BLOCK + tl.arange(0, BLOCK).to(INDEX)
    inside = i < n_places
    image, place = i // places, i % places
    at = grid + (image * gn + place * gp)
    x, speed_x = place_in(tl.load(at, mask=inside, other=0).to(TYPE), w, MODE, PADDING, ALIGN)
    y, speed_y = place_in(tl.load(at + g1, mask=inside, other=0).to(TYPE), h, MODE, PADDING, ALIGN)
    if RANK == 3:
        z, speed_z = place_in(tl.load(at + 2 * g1, mask=inside, other=0).to(TYPE), d, MODE, PADDING, ALIGN)
    else:
        z, speed_z = x * 0.0, x * 0.0
    return image, place, inside, z, y, x, speed_z, speed_y, speed_x


@triton.jit
def plane_tap(z, k, d, RANK: tl.constexpr, MODE: tl.constexpr, PADDING: tl.constexpr, ALIGN: tl.constexpr):
    """`tap_of` of the outermost dimension, which images have not."""
    if RANK == 3:
        return tap_of(z, k, d, MODE, PADDING, ALIGN)
    else:
        return (z * 0.0).to(tl.int32), z * 0.0 + 1.0, z * 0.0


@triton.jit
def sample(
    x, grid, out, n_places, places, channels, d, h, w, gn, gp, g1, xn, xc, xd, xh, xw, yn, yc,
    RANK: tl.constexpr, MODE: tl.constexpr, PADDING: tl.constexpr, ALIGN: tl.constexpr, K: tl.constexpr,
    TYPE: tl.constexpr, INDEX: tl.constexpr, BLOCK: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    down, across = place_in_grid(tl.cdiv(n_places, BLOCK))
    image, place, inside, pz, py, px, _sz, _sy, _sx = places_of(
        down, grid, n_places, places, gn, gp, g1, d, h, w, RANK, MODE, PADDING, ALIGN, TYPE, INDEX, BLOCK
    )
    channel = (across * BLOCK_C + tl.arange(0, BLOCK_C)).to(INDEX)[None, :]
    image, place = image[:, None], place[:, None]
    inside = inside[:, None] & (channel < channels)
    pz, py, px = pz[:, None], py[:, None], px[:, None]
    source = x + (image * xn + channel * xc)
    total = tl.zeros([BLOCK, BLOCK_C], TYPE)
    for kz in range(K if RANK == 3 else 1):
        iz, wz, _mz = plane_tap(pz, kz, d, RANK, MODE, PADDING, ALIGN)
        for ky in range(K):
            iy, wy, _my = tap_of(py, ky, h, MODE, PADDING, ALIGN)
            for kx in range(K):
                ix, wx, _mx = tap_of(px, kx, w, MODE, PADDING, ALIGN)
                there = inside & (iz >= 0) & (iy >= 0) & (ix >= 0)
                offset = iz.to(INDEX) * xd + iy.to(INDEX) * xh + ix.to(INDEX) * xw
                found = tl.load(source + offset, mask=there, other=0).to(TYPE)
                total += tl.where(there, found * (wz * wy * wx), 0.0)
    out_ptrs = out + (image * yn + channel * yc + place)
    tl.store(out_ptrs, convert(total, out.dtype.element_ty), mask=inside)


@triton.jit
def sample_taps(
    grid, index, weight, n_places, places, d, h, w, gn, gp, g1,
    RANK: tl.constexpr, MODE: tl.constexpr, PADDING: tl.constexpr, ALIGN: tl.constexpr, K: tl.constexpr,
    TYPE: tl.constexpr, INDEX: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Store each position's elements by their index in a plane (its size if there is none), and their weights."""
    image, place, inside, pz, py, px, _sz, _sy, _sx = places_of(
        tl.program_id(0),
        grid,
        n_places,
        places,
        gn,
        gp,
        g1,
        d,
        h,
        w,
        RANK,
        MODE,
        PADDING,
        ALIGN,
        TYPE,
        INDEX,
        BLOCK,
    )
    KZ: tl.constexpr = K if RANK == 3 else 1
    first = (image * places + place) * (KZ * K * K)
    area = (tl.zeros([1], tl.int64) + d) * h * w
    for kz in range(KZ):
        iz, wz, _mz = plane_tap(pz, kz, d, RANK, MODE, PADDING, ALIGN)
        for ky in range(K):
            iy, wy, _my = tap_of(py, ky, h, MODE, PADDING, ALIGN)
            for kx in range(K):
                ix, wx, _mx = tap_of(px, kx, w, MODE, PADDING, ALIGN)
                there = (iz >= 0) & (iy >= 0) & (ix >= 0)
                flat = (iz.to(tl.int64) * h + iy) * w + ix
                out_offset = first + ((kz * K + ky) * K + kx)
                tl.store(index + out_offset, tl.where(there, flat, area), mask=inside)
                tl.store(weight + out_offset, convert(wz * wy * wx, weight.dtype.element_ty), mask=inside)


@triton.jit
def sample_grid_backward(
    g, x, grid, out, n_places, places, channels, d, h, w, gn, gp, g1, xn, xc, xd, xh, xw, dn, dc,
    RANK: tl.constexpr, MODE: tl.constexpr, PADDING: tl.constexpr, ALIGN: tl.constexpr, K: tl.constexpr,
    TYPE: tl.constexpr, INDEX: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of each coordinate; channels and taps are added in order."""
    image, place, inside, pz, py, px, speed_z, speed_y, speed_x = places_of(
        tl.program_id(0),
        grid,
        n_places,
        places,
        gn,
        gp,
        g1,
        d,
        h,
        w,
        RANK,
        MODE,
        PADDING,
        ALIGN,
        TYPE,
        INDEX,
        BLOCK,
    )
    along_x = tl.zeros([BLOCK], TYPE)
    along_y = tl.zeros([BLOCK], TYPE)
    along_z = tl.zeros([BLOCK], TYPE)
    for kz in range(K if RANK == 3 else 1):
        iz, wz, mz = plane_tap(pz, kz, d, RANK, MODE, PADDING, ALIGN)
        for ky in range(K):
            iy, wy, my = tap_of(py, ky, h, MODE, PADDING, ALIGN)
            for kx in range(K):
                ix, wx, mx = tap_of(px, kx, w, MODE, PADDING, ALIGN)
                there = inside & (iz >= 0) & (iy >= 0) & (ix >= 0)
                source = x + (image * xn + iz.to(INDEX) * xd + iy.to(INDEX) * xh + ix.to(INDEX) * xw)
                grad = g + (image * dn + place)
                share = tl.zeros([BLOCK], TYPE)
                for _ in range(channels):
                    found = tl.load(source, mask=there, other=0).to(TYPE)
                    share += found * tl.load(grad, mask=there, other=0).to(TYPE)
                    source += xc
                    grad += dc
                share = tl.where(there, share, 0.0)
                along_x += share * (wz * wy * mx)
                along_y += share * (wz * my * wx)
                along_z += share * (mz * wy * wx)
    out_ptrs = out + (image * places + place) * RANK
    tl.store(out_ptrs, convert(along_x * speed_x, out.dtype.element_ty), mask=inside)
    tl.store(out_ptrs + 1, convert(along_y * speed_y, out.dtype.element_ty), mask=inside)
    if RANK == 3:
        tl.store(out_ptrs + 2, convert(along_z * speed_z, out.dtype.element_ty), mask=inside)


SCATTERED = (
    "16 warps: places are anywhere in the image, so that each load waits for memory; other warps hide that"
)

WIDENED, FLOATS = ("fp32",), ("fp32", "bf16", "fp16")
"""Operands that are always widened, and others."""

for _kernel, _operand, _dtypes, _tile, _configuration, _blocks_of_double, _operations in (
    (
        sample,
        "x",
        FLOATS,
        ("BLOCK", "BLOCK_C"),
        Configuration((64, 8)),
        2,
        "a multiplication and an addition for each tap and channel, and some 20 for each tap's weight",
    ),
    (sample_taps, "weight", WIDENED, ("BLOCK",), Configuration((128,)), 4, "some 20 for each tap"),
    (
        sample_grid_backward,
        "x",
        FLOATS,
        ("BLOCK",),
        Configuration((128,)),
        4,
        "2 for each tap and channel, and some 30 for each tap",
    ),
):
    declare(
        _kernel,
        warps=16,
        why=SCATTERED,
        operand=_operand,
        tile=_tile,
        dtypes={
            _dtypes: (_configuration,),
            # Weights and places of two registers each.
            ("fp64",): (Configuration(_configuration.tile, blocks=_blocks_of_double, all_registers=True),),
        },
        smaller=True,
        operations=_operations,
        traffic="the grid and the output once; of the image each tap's sector for each channel",
    )

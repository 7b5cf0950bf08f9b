"""Convolutions with strides, and their input gradients, by tensor descriptors.

A strided convolution reads its source folded by the strides: (images, lines, phases, pixels, phases by
channels). The pixels that a tap reads for a tile of positions are one block of that map, as without strides
(`bulk_kernels`). The input gradient has phases too: positions of one phase meet the same taps, and are a
convolution of the gradient with a stride of one. Its output is folded. A phase without taps is stored as
zeros, so that every position is written once.
"""

from __future__ import annotations

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..products.product import tile_of
from .bulk_kernels import store_pixels
from .convolution_kernels import phase_taps


@triton.jit
def load_tap(x, image, line, pixel, channel, tap, pitch, S: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
             START_H: tl.constexpr, START_W: tl.constexpr, STEP_H: tl.constexpr, STEP_W: tl.constexpr,
             LIFT_H: tl.constexpr, LIFT_W: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """Return the block of a picture, folded by the strides, that a tap reads for a tile of positions.

    LIFT is a number of folds that makes every tap's offset positive, since a quotient rounds to zero.
    """
    down, right = START_H + LIFT_H * SH + tap // S * STEP_H, START_W + LIFT_W * SW + tap % S * STEP_W
    at = [
        image,
        line - LIFT_H + down // SH,
        down % SH,
        pixel - LIFT_W + right // SW,
        right % SW * pitch + channel,
    ]
    return x.load(at).reshape(BLOCK_M, BLOCK_K)


@triton.jit
def convolve_bulk_strided(
    x,
    w,
    bias,
    out,
    images,
    lines,
    pixels,
    columns,
    channels,
    pitch,
    yn,
    yc,
    yh,
    bs,
    R: tl.constexpr,
    S: tl.constexpr,
    SH: tl.constexpr,
    SW: tl.constexpr,
    START_H: tl.constexpr,
    START_W: tl.constexpr,
    STEP_H: tl.constexpr,
    STEP_W: tl.constexpr,
    LIFT_H: tl.constexpr,
    LIFT_W: tl.constexpr,
    INNER: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_I: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_W: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    HALVES: tl.constexpr,
    PLANES: tl.constexpr,
    Y_UNIT: tl.constexpr,
    WIDTH_UNIT: tl.constexpr,
    operands=None,
    EPILOGUE: tl.constexpr = None,
):
    """Compute `convolve_bulk` with strides SH and SW; `pitch` is the source's stride from pixel to pixel."""
    pixels = pixels * WIDTH_UNIT
    tiles_h, tiles_w = tl.cdiv(lines, BLOCK_H), tl.cdiv(pixels, BLOCK_W)
    tiles_m, tiles_n = tl.cdiv(images, BLOCK_I) * tiles_h * tiles_w, tl.cdiv(columns, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, 8)
        pixel, line = tile_m % tiles_w * BLOCK_W, tile_m // tiles_w % tiles_h * BLOCK_H
        image, column = tile_m // (tiles_w * tiles_h) * BLOCK_I, tile_n * BLOCK_N
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(tl.cdiv(channels, BLOCK_K) * (R * S)):
            tap, channel = step % (R * S), step // (R * S) * BLOCK_K
            a = load_tap(x, image, line, pixel, channel, tap, pitch, S, SH, SW, START_H, START_W, STEP_H, STEP_W,
                         LIFT_H, LIFT_W, BLOCK_M, BLOCK_K)  # fmt: skip
            if INNER:
                b = w.load([column, tap, channel]).reshape(BLOCK_N, BLOCK_K).T
            else:
                b = w.load([channel, tap, column]).reshape(BLOCK_K, BLOCK_N)
            total = tl.dot(a, b, total, input_precision=PRECISION)
        if HALVES:
            half: tl.constexpr = BLOCK_N // 2
            left, right = tl.split(tl.permute(tl.reshape(total, (BLOCK_M, 2, half)), (0, 2, 1)))
            store_pixels(left, bias, out, image, line, pixel, column, columns, bs, images, lines, pixels, yn, yc, yh,
                         BLOCK_I, BLOCK_H, BLOCK_W, half, PLANES, Y_UNIT, operands, EPILOGUE)  # fmt: skip
            store_pixels(right, bias, out, image, line, pixel, column + half, columns, bs, images, lines, pixels, yn,
                         yc, yh, BLOCK_I, BLOCK_H, BLOCK_W, half, PLANES, Y_UNIT, operands, EPILOGUE)  # fmt: skip
        else:
            store_pixels(total, bias, out, image, line, pixel, column, columns, bs, images, lines, pixels, yn, yc, yh,
                         BLOCK_I, BLOCK_H, BLOCK_W, BLOCK_N, PLANES, Y_UNIT, operands, EPILOGUE)  # fmt: skip


@triton.jit
def store_phase(total, bias, out, image, line, phase_h, pixel, inner, column, columns, bs, BLOCK_I: tl.constexpr,
                BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr, COLUMNS: tl.constexpr):  # fmt: skip
    """Add the bias to the sums of a tile's pixels and store them at a phase of a folded output."""
    if bias is not None:
        at = column + tl.arange(0, COLUMNS)
        total += tl.load(bias + at * bs, mask=at < columns, other=0).to(tl.float32)[None, :]
    made = convert(total, out.dtype).reshape(BLOCK_I, BLOCK_H, 1, BLOCK_W, COLUMNS)
    out.store([image, line, phase_h, pixel, inner + column], made)


@triton.jit
def convolve_bulk_phases(
    x,
    w,
    bias,
    out,
    images,
    lines,
    pixels,
    columns,
    channels,
    pitch,
    bs,
    R: tl.constexpr,
    S: tl.constexpr,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DH: tl.constexpr,
    DW: tl.constexpr,
    LEAP_H: tl.constexpr,
    LEAP_W: tl.constexpr,
    INNER: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_I: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_W: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    HALVES: tl.constexpr,
):
    """Compute a tile of a phase of a transposed convolution with strides SH and SW.

    `lines` and `pixels` are those of a phase, `pitch` the stride from one phase of a pixel to the next. Tiles
    of columns are whole: past the last column is the next phase.
    """
    tiles_h, tiles_w = tl.cdiv(lines, BLOCK_H), tl.cdiv(pixels, BLOCK_W)
    tiles_m, tiles_n = tl.cdiv(images, BLOCK_I) * tiles_h * tiles_w, tl.cdiv(columns, BLOCK_N)
    each = tiles_m * tiles_n
    # The last phases first: with less padding than taps, they have the most taps.
    for tile in tl.range(tl.program_id(0), each * (SH * SW), tl.num_programs(0), flatten=True):
        phase = SH * SW - 1 - tile // each
        phase_h, phase_w = phase // SW, phase % SW
        first_r, taps_r, top = phase_taps(phase_h, SH, PH, DH, R, LEAP_H)
        first_s, taps_s, left = phase_taps(phase_w, SW, PW, DW, S, LEAP_W)
        tile_m, tile_n = tile_of(tile % each, tiles_m, tiles_n, 8)
        pixel, line = tile_m % tiles_w * BLOCK_W, tile_m // tiles_w % tiles_h * BLOCK_H
        image, column = tile_m // (tiles_w * tiles_h) * BLOCK_I, tile_n * BLOCK_N
        taps = taps_r * taps_s
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(tl.cdiv(channels, BLOCK_K) * taps):
            tap, channel = step % taps, step // taps * BLOCK_K
            r, s = tap // taps_s, tap % taps_s
            i, j = line + top - r * (DH * LEAP_H // SH), pixel + left - s * (DW * LEAP_W // SW)
            a = x.load([image, i, j, channel]).reshape(BLOCK_M, BLOCK_K)
            at = (first_r + r * LEAP_H) * S + first_s + s * LEAP_W
            if INNER:
                b = w.load([column, at, channel]).reshape(BLOCK_N, BLOCK_K).T
            else:
                b = w.load([channel, at, column]).reshape(BLOCK_K, BLOCK_N)
            total = tl.dot(a, b, total, input_precision=PRECISION)
        inner = phase_w * pitch
        if HALVES:
            half: tl.constexpr = BLOCK_N // 2
            one, other = tl.split(tl.permute(tl.reshape(total, (BLOCK_M, 2, half)), (0, 2, 1)))
            store_phase(one, bias, out, image, line, phase_h, pixel, inner, column, columns, bs,
                        BLOCK_I, BLOCK_H, BLOCK_W, half)  # fmt: skip
            store_phase(other, bias, out, image, line, phase_h, pixel, inner, column + half, columns, bs,
                        BLOCK_I, BLOCK_H, BLOCK_W, half)  # fmt: skip
        else:
            store_phase(total, bias, out, image, line, phase_h, pixel, inner, column, columns, bs,
                        BLOCK_I, BLOCK_H, BLOCK_W, BLOCK_N)  # fmt: skip


# As of `convolve_bulk`: shared memory holds the stages and a half of the output.
NARROW = (
    Configuration((128, 256, 64), 8, 4, {90: 1, 100: 1}),
    Configuration((256, 128, 64), 8, 4, {90: 1, 100: 1}),
    Configuration((128, 128, 64), 4, 3, {90: 2, 100: 2}),
    Configuration((128, 64, 64), 4, 4, {90: 2, 100: 2}),
    Configuration((64, 64, 64), 4, 4, {90: 2, 100: 2}, all_registers=True),
)
TF32 = (
    Configuration((128, 128, 32), 8, 3, {90: 1, 100: 1}, all_registers=(100,)),
    Configuration((64, 64, 32), 4, 3, {90: 2, 100: 2}),
)
WHY = (
    "see each configuration; shared memory has room for as many blocks, and a tile's sums need the registers"
)

declare(
    convolve_bulk_strided,
    why=WHY,
    operand="x",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={("bf16", "fp16"): NARROW, ("fp32",): TF32},
    smaller=True,
    operations="2 n oh ow o c r s",
    traffic="the pixels of x that a tap reads, w and out once each; a pixel again for each tap and tile of columns",
    loads=("x", "w"),
    stores=("out",),
    tensor_cores=("bf16", "fp16", "fp32"),
)
declare(
    convolve_bulk_phases,
    why=WHY,
    operand="x",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={("bf16", "fp16"): NARROW, ("fp32",): TF32},
    smaller=True,
    operations="2 n h w o c r s: those of the gradient's pixels",
    traffic="x, w and out once each; a pixel again for each tap and each tile of columns that finds it not in L2",
    loads=("x", "w"),
    stores=("out",),
    tensor_cores=("bf16", "fp16", "fp32"),
)

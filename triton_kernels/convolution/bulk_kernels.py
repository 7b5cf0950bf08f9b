"""Convolutions with tensor descriptors: an input's pixels, shifted by a tap, are one block of a tensor map.

With strides of one, the source pixels of a tile of positions are themselves a tile, shifted by the tap;
out-of-bounds pixels read as zero. No thread computes an address or a mask: operands and results go through
the tensor memory accelerator. A program is persistent and goes from tile to tile, as matmuls with descriptors
do (`products/persistent.py`). A tile's positions are images by lines by columns of pixels, so that few lie
outside a small picture.
"""

from __future__ import annotations

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..products.product import tile_of


@triton.jit
def places_of(image, line, pixel, BLOCK_I: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr):
    """Return the images, lines and pixels of a tile's rows."""
    rows = tl.arange(0, BLOCK_I * BLOCK_H * BLOCK_W)
    return image + rows // (BLOCK_H * BLOCK_W), line + rows // BLOCK_W % BLOCK_H, pixel + rows % BLOCK_W


@triton.jit
def store_pixels(total, bias, out, image, line, pixel, column, columns, bs, images, lines, pixels, yn, yc, yh,
                 BLOCK_I: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr, COLUMNS: tl.constexpr,
                 PLANES: tl.constexpr, Y_UNIT: tl.constexpr, operands, EPILOGUE: tl.constexpr):  # fmt: skip
    """Add the bias to the sums of a tile's pixels and store them.

    If PLANES, `out` points to an output whose pixels are contiguous and whose planes are `yc` apart.
    """
    if bias is not None:
        at = column + tl.arange(0, COLUMNS)
        total += tl.load(bias + at * bs, mask=at < columns, other=0).to(tl.float32)[None, :]
    if EPILOGUE is not None:
        c = column + tl.arange(0, COLUMNS)
        i, h, w = places_of(image, line, pixel, BLOCK_I, BLOCK_H, BLOCK_W)
        inside = (i < images) & (h < lines) & (w < pixels)
        if PLANES:
            at = h * (yh * Y_UNIT) + w
            EPILOGUE(
                total, operands, out, i, c, at, None, inside, c < columns, yn * Y_UNIT, yc * Y_UNIT, None
            )
        else:
            at, pitch = (i * lines + h) * pixels + w, yc * Y_UNIT
            EPILOGUE(total, operands, out, None, c, None, at, inside, c < pitch, None, None, pitch)
    elif PLANES:
        made = tl.trans(convert(total, out.dtype.element_ty))
        i, h, w = places_of(image, line, pixel, BLOCK_I, BLOCK_H, BLOCK_W)
        c = column + tl.arange(0, COLUMNS)
        inside = (i < images) & (h < lines) & (w < pixels)
        target = i.to(tl.int64) * (yn * Y_UNIT) + h * (yh * Y_UNIT) + w
        tl.store(
            out + ((c.to(tl.int64) * (yc * Y_UNIT))[:, None] + target[None, :]),
            made,
            mask=(c < columns)[:, None] & inside[None, :],
        )
    else:
        made = convert(total, out.dtype).reshape(BLOCK_I, BLOCK_H, BLOCK_W, COLUMNS)
        out.store([image, line, pixel, column], made)


@triton.jit
def convolve_bulk(
    x,
    w,
    bias,
    out,
    images,
    lines,
    pixels,
    columns,
    channels,
    yn,
    yc,
    yh,
    bs,
    R: tl.constexpr,
    S: tl.constexpr,
    START_H: tl.constexpr,
    START_W: tl.constexpr,
    STEP_H: tl.constexpr,
    STEP_W: tl.constexpr,
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
    """Compute a tile of a convolution whose operands arrive by tensor descriptors.

    The tap (r, s) of position (line, pixel) reads the source at ``(line + START_H + r STEP_H, pixel + START_W + s
    STEP_W)``. If INNER, `w` is (columns, taps, channels), with the channels summed; else (channels, taps, columns).
    If the output's pixels are contiguous, its strides and `pixels` are divided by their units.
    """
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
            i, j = line + START_H + tap // S * STEP_H, pixel + START_W + tap % S * STEP_W
            a = x.load([image, i, j, channel]).reshape(BLOCK_M, BLOCK_K)
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


# Shared memory holds the stages and a half of the output; 128 registers of sums for each lane of the first two.
NARROW = (
    Configuration((128, 256, 64), 8, 4, {90: 1, 100: 1}),
    Configuration((256, 128, 64), 8, 4, {90: 1, 100: 1}),
    Configuration((128, 128, 64), 4, 3, {90: 2, 100: 2}),
    Configuration((128, 64, 64), 4, 4, {90: 2, 100: 2}),
    Configuration((64, 64, 64), 4, 4, {90: 2, 100: 2}, all_registers=True),
)
CROWDED = (Configuration((128, 128, 64), 8, 3, {90: 1, 100: 1}), *NARROW[3:])
"""Tiles for an epilogue that reads another tile, or stores element by element: 64 registers of sums for each lane."""
TF32 = (
    # For sm_100 the compiler would rather spill than use them all, where planes are stored.
    Configuration((128, 128, 32), 8, 3, {90: 1, 100: 1}, all_registers=(100,)),
    Configuration((64, 64, 32), 4, 3, {90: 2, 100: 2}),
)

declare(
    convolve_bulk,
    why="see each configuration; shared memory has room for as many blocks, and a tile's sums need the registers",
    operand="x",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={("bf16", "fp16"): NARROW, ("fp32",): TF32},
    smaller=True,
    operations="2 n oh ow o c r s",
    traffic="x, w and out once each; a pixel again for each tap and each tile of columns that finds it not in L2",
    loads=("x", "w"),
    stores=("out",),
    tensor_cores=("bf16", "fp16", "fp32"),
)

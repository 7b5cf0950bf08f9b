"""Gradient of a convolution's weight with tensor descriptors: gradient pixels by pixels that a tap has shifted.

The K dimension is pixels: a block of them is images by lines by pixels, and the source's block is shifted by
the tap. Both operands are channels-last. Alternatively pixels are contiguous in both (planes), which serves
one tap, and then a plane is one line. Otherwise the lines and pixels of a block divide those of the gradient.
Every position of a block is therefore a gradient position, or one that neither operand has. A source value
never meets a zero outside the gradient, which would make NaN of an infinity.
"""

from __future__ import annotations

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..products.product import tile_of


@triton.jit
def convolve_backward_weight_bulk(
    g,
    x,
    out,
    blocks,
    chunk,
    tiles_h,
    tiles_w,
    outputs,
    channels,
    pitch,
    wo,
    wc,
    wr,
    ws,
    part,
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
    BLOCK_I: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_W: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PLANES: tl.constexpr,
):
    """Compute the gradient of one tap over `chunk` blocks of pixels, for a tile of outputs by channels of a group.

    `out` is (outputs, channels, R, S) by its strides, and once for each part, `part` elements apart. With strides, `x`
    is folded as for `convolve_bulk_strided`, and `pitch` is its stride from pixel to pixel.
    """
    tiles_m, tiles_n = tl.cdiv(outputs, BLOCK_M), tl.cdiv(channels, BLOCK_N) * (R * S)
    group = tl.program_id(0) // (tiles_m * tiles_n)
    tile_m, tile_n = tile_of(tl.program_id(0) % (tiles_m * tiles_n), tiles_m, tiles_n, 8)
    tap, row, column = tile_n % (R * S), tile_m * BLOCK_M, tile_n // (R * S) * BLOCK_N
    down, right = START_H + LIFT_H * SH + tap // S * STEP_H, START_W + LIFT_W * SW + tap % S * STEP_W
    # Folds and phases: without strides the offset of a tap, and zero.
    phase_h, phase_w = down % SH, right % SW
    down, right = down // SH - LIFT_H, right // SW - LIFT_W
    first_output, first_channel = group * outputs + row, group * channels + column
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    first = tl.program_id(1) * chunk
    for block in range(first, tl.minimum(first + chunk, blocks)):
        pixel, line = block % tiles_w * BLOCK_W, block // tiles_w % tiles_h * BLOCK_H
        image = block // (tiles_w * tiles_h) * BLOCK_I
        if PLANES:
            a = g.load([image, first_output, line, pixel]).reshape(BLOCK_M, BLOCK_K)
            b = x.load([image, first_channel, line + down, pixel + right]).reshape(BLOCK_N, BLOCK_K).T
        else:
            a = g.load([image, line, pixel, first_output]).reshape(BLOCK_K, BLOCK_M).T
            if SH * SW == 1:
                b = x.load([image, line + down, pixel + right, first_channel]).reshape(BLOCK_K, BLOCK_N)
            else:
                at = [image, line + down, phase_h, pixel + right, phase_w * pitch + first_channel]
                b = x.load(at).reshape(BLOCK_K, BLOCK_N)
        total = tl.dot(a, b, total)
    o, c = row + tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)
    out_offset = (group * outputs + o).to(tl.int64) * wo
    target = out + tl.program_id(1).to(tl.int64) * part + (tap // S * wr + tap % S * ws)
    tl.store(
        target + out_offset[:, None] + (c * wc)[None, :],
        convert(total, out.dtype.element_ty),
        mask=(o < outputs)[:, None] & (c < channels)[None, :],
    )


NARROW = (
    Configuration((128, 256, 64), 8, 3, {90: 1, 100: 1}),
    Configuration((128, 128, 64), 8, 3, {90: 2, 100: 2}),
    Configuration((128, 64, 64), 4, 4, {90: 2, 100: 2}),
    Configuration((64, 64, 64), 4, 4, {90: 2, 100: 2}),
)

declare(
    convolve_backward_weight_bulk,
    why="see each configuration; shared memory has room for as many blocks, and a tile's sums need the registers",
    operand="g",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={("bf16", "fp16"): NARROW},
    smaller=True,
    operations="2 n oh ow o c r s / groups",
    traffic="g and x once for each tile of the other and each tap; out once for each part of the pixels",
    loads=("g", "x"),
    tensor_cores=("bf16", "fp16"),
)

"""Convolutions by tensor descriptors in parts along K, for outputs with fewer tiles than multiprocessors.

A part is a range of the steps (a tap of a block of channels) of every tile. Its float32 sums go to a
workspace, and a second launch adds the parts in order, so results do not depend on which part finishes first.
"""

from __future__ import annotations

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..products.product import tile_of
from .strided_kernels import load_tap


@triton.jit
def convolve_bulk_parts(
    x,
    w,
    out,
    images,
    lines,
    pixels,
    columns,
    channels,
    pitch,
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
    BLOCK_I: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_W: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PARTS: tl.constexpr,
):
    """Compute one of PARTS parts of a tile's steps; `out` is (parts, images, lines, pixels, columns).

    The last part may have fewer steps, and parts without steps are not launched. With strides, `x` is
    folded as for `convolve_bulk_strided`.
    """
    tiles_h, tiles_w = tl.cdiv(lines, BLOCK_H), tl.cdiv(pixels, BLOCK_W)
    tiles_m, tiles_n = tl.cdiv(images, BLOCK_I) * tiles_h * tiles_w, tl.cdiv(columns, BLOCK_N)
    each = tiles_m * tiles_n
    every = tl.cdiv(channels, BLOCK_K) * (R * S)
    steps = tl.cdiv(every, PARTS)
    part, tile = tl.program_id(0) // each, tl.program_id(0) % each
    tile_m, tile_n = tile_of(tile, tiles_m, tiles_n, 8)
    pixel, line = tile_m % tiles_w * BLOCK_W, tile_m // tiles_w % tiles_h * BLOCK_H
    image, column = tile_m // (tiles_w * tiles_h) * BLOCK_I, tile_n * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(part * steps, tl.minimum(part * steps + steps, every)):
        tap, channel = step % (R * S), step // (R * S) * BLOCK_K
        if SH * SW == 1:
            i, j = line + START_H + tap // S * STEP_H, pixel + START_W + tap % S * STEP_W
            a = x.load([image, i, j, channel]).reshape(BLOCK_M, BLOCK_K)
        else:
            a = load_tap(x, image, line, pixel, channel, tap, pitch, S, SH, SW, START_H, START_W, STEP_H, STEP_W,
                         LIFT_H, LIFT_W, BLOCK_M, BLOCK_K)  # fmt: skip
        if INNER:
            b = w.load([column, tap, channel]).reshape(BLOCK_N, BLOCK_K).T
        else:
            b = w.load([channel, tap, column]).reshape(BLOCK_K, BLOCK_N)
        total = tl.dot(a, b, total)
    rows, c = tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)
    i, h, w_ = image + rows // (BLOCK_H * BLOCK_W), line + rows // BLOCK_W % BLOCK_H, pixel + rows % BLOCK_W
    inside = (i < images) & (h < lines) & (w_ < pixels)
    # Offsets of 32 bits within a part.
    out += part.to(tl.int64) * images * lines * pixels * columns
    at = ((i * lines + h) * pixels + w_) * columns
    tl.store(out + (at[:, None] + c[None, :]), total, mask=inside[:, None] & (c < columns)[None, :])


# The last number counts the parts. A multiprocessor has fewer blocks than it could hold, or there would be one part.
PARTS = (
    *(Configuration((128, 256, 64, parts), 8, 4, {90: 1, 100: 1}) for parts in (2, 4, 8, 16)),
    *(Configuration((128, 128, 64, parts), 4, 3, {90: 2, 100: 2}) for parts in (2, 4, 8, 16)),
    *(Configuration((64, 64, 64, parts), 4, 4, {90: 2, 100: 2}) for parts in (4, 8)),
)

declare(
    convolve_bulk_parts,
    why="see each configuration; shared memory has room for as many blocks, and a tile's sums need the registers",
    operand="x",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K", "PARTS"),
    dtypes={("bf16", "fp16"): PARTS},
    smaller=True,
    operations="2 n oh ow o c r s",
    traffic="x, w once each, and four bytes of the output for each part",
    loads=("x", "w"),
    tensor_cores=("bf16", "fp16"),
)

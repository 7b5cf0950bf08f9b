"""The program that brings the operands of a convolution to the layout of its kernels, all of them in one launch.

An operand is (rows, channels, pixels): images of an input, or filters whose taps are the pixels. It is written anew as
(rows, pixels, channels), zeros after the last channel and the last row where the kernel wants more of them.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import STREAMING, Configuration, declare


@triton.jit
def lay_tile(
    x,
    y,
    tile,
    rows,
    channels,
    pixels,
    pitch,
    xn,
    xc,
    xp,
    C_UNIT: tl.constexpr,
    P_UNIT: tl.constexpr,
    PITCH_UNIT: tl.constexpr,
    X_UNIT: tl.constexpr,
    C_INNER: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
    INDEX: tl.constexpr,
    operands,
    PROLOGUE: tl.constexpr,
):
    """Copy one tile of an operand. Sizes and strides are divided by their units; `pitch` channels are written.

    If C_INNER, the source's channels are contiguous; else its pixels are, or no dimension is.
    """
    channels, pixels, pitch = channels * C_UNIT, pixels * P_UNIT, pitch * PITCH_UNIT
    xn = xn * X_UNIT
    if C_INNER:
        xp = xp * X_UNIT
    else:
        xc = xc * X_UNIT
    tiles_c, tiles_p = tl.cdiv(pitch, BLOCK_C), tl.cdiv(pixels, BLOCK_P)
    c = tile % tiles_c * BLOCK_C + tl.arange(0, BLOCK_C)
    p = tile // tiles_c % tiles_p * BLOCK_P + tl.arange(0, BLOCK_P)
    row = (tile // tiles_c // tiles_p).to(tl.int64)
    x += row * xn
    y += row * pixels * pitch
    is_there, is_pixel = (c < channels) & (row < rows), p < pixels
    c, p = c.to(INDEX), p.to(INDEX)
    if C_INNER:
        at = (p * xp)[:, None] + (c * xc)[None, :]
        made = tl.load(x + at, mask=is_pixel[:, None] & is_there[None, :], other=0)
    else:
        at = (c * xc)[:, None] + (p * xp)[None, :]
        made = tl.trans(tl.load(x + at, mask=is_there[:, None] & is_pixel[None, :], other=0))
    if PROLOGUE is not None:
        made = PROLOGUE(made, operands, row, p, c, is_pixel, is_there)
    tl.store(y + ((p * pitch)[:, None] + c[None, :]), made, mask=is_pixel[:, None] & (c < pitch)[None, :])


@triton.jit
def lay_out(
    x0, y0, tiles0, rows0, channels0, pixels0, pitch0, xn0, xc0, xp0,
    x1, y1, tiles1, rows1, channels1, pixels1, pitch1, xn1, xc1, xp1,
    x2, y2, tiles2, rows2, channels2, pixels2, pitch2, xn2, xc2, xp2,
    C_UNIT0: tl.constexpr, P_UNIT0: tl.constexpr, PITCH_UNIT0: tl.constexpr, X_UNIT0: tl.constexpr,
    C_INNER0: tl.constexpr, BLOCK_P0: tl.constexpr, BLOCK_C0: tl.constexpr, INDEX0: tl.constexpr,
    C_UNIT1: tl.constexpr, P_UNIT1: tl.constexpr, PITCH_UNIT1: tl.constexpr, X_UNIT1: tl.constexpr,
    C_INNER1: tl.constexpr, BLOCK_P1: tl.constexpr, BLOCK_C1: tl.constexpr, INDEX1: tl.constexpr,
    C_UNIT2: tl.constexpr, P_UNIT2: tl.constexpr, PITCH_UNIT2: tl.constexpr, X_UNIT2: tl.constexpr,
    C_INNER2: tl.constexpr, BLOCK_P2: tl.constexpr, BLOCK_C2: tl.constexpr, INDEX2: tl.constexpr,
    operands=None, PROLOGUE0: tl.constexpr = None, PROLOGUE1: tl.constexpr = None, PROLOGUE2: tl.constexpr = None,
):  # fmt: skip
    """Up to three operands, the programs of one after those of the other; those that are not there are None."""
    tile = tl.program_id(0)
    if tile < tiles0:
        lay_tile(x0, y0, tile, rows0, channels0, pixels0, pitch0, xn0, xc0, xp0,
                 C_UNIT0, P_UNIT0, PITCH_UNIT0, X_UNIT0, C_INNER0, BLOCK_P0, BLOCK_C0, INDEX0,
                 operands, PROLOGUE0)  # fmt: skip
    elif x1 is not None:
        tile -= tiles0
        if tile < tiles1:
            lay_tile(x1, y1, tile, rows1, channels1, pixels1, pitch1, xn1, xc1, xp1,
                     C_UNIT1, P_UNIT1, PITCH_UNIT1, X_UNIT1, C_INNER1, BLOCK_P1, BLOCK_C1, INDEX1,
                     operands, PROLOGUE1)  # fmt: skip
        elif x2 is not None:
            lay_tile(x2, y2, tile - tiles1, rows2, channels2, pixels2, pitch2, xn2, xc2, xp2,
                     C_UNIT2, P_UNIT2, PITCH_UNIT2, X_UNIT2, C_INNER2, BLOCK_P2, BLOCK_C2, INDEX2,
                     operands, PROLOGUE2)  # fmt: skip


TILES = {2: 4096, 4: 2048, 8: 1024}
"""Elements of a tile by itemsize: at least 64 bytes of a line on both sides where it is square."""

declare(
    lay_out,
    why=STREAMING,
    operand="x0",
    tile=("BLOCK_P0", "BLOCK_C0"),
    dtypes={
        ("bf16", "fp16"): (Configuration((64, 64)),),
        ("fp32",): (Configuration((32, 64)),),
        ("fp64",): (Configuration((32, 32)),),
    },
    smaller=True,
    operations="none",
    traffic="each operand once, read and written",
    loads=("x0",),
    stores=("y0",),
)

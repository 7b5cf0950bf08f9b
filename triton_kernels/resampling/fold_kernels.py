"""The programs of windows as columns: a column element looks at its image element, an image element at its columns."""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert


@triton.jit
def im2col(
    x,
    out,
    n_lines,
    columns,
    column_blocks,
    channels,
    h,
    w,
    oh,
    ow,
    xn,
    xc,
    xh,
    xw,
    yl,
    yw,
    KH: tl.constexpr,
    KW: tl.constexpr,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DH: tl.constexpr,
    DW: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_L: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Lines are an image's channels and taps, columns the windows."""
    program = tl.program_id(0)
    line = (program // column_blocks).to(INDEX) * BLOCK_L + tl.arange(0, BLOCK_L).to(INDEX)[:, None]
    place = (program % column_blocks).to(INDEX) * BLOCK_C + tl.arange(0, BLOCK_C).to(INDEX)[None, :]
    inside = (line < n_lines) & (place < columns)
    tap_x, rest = line % KW, line // KW
    tap_y, rest = rest % KH, rest // KH
    row = place // ow * SH - PH + tap_y * DH
    col = place % ow * SW - PW + tap_x * DW
    there = inside & (row >= 0) & (row < h) & (col >= 0) & (col < w)
    source = x + (rest // channels * xn + rest % channels * xc)
    found = tl.load(source + (row * xh + col * xw), mask=there, other=0)
    tl.store(out + (line * yl + place * yw), found, mask=inside)


@triton.jit
def col2im(
    x,
    out,
    n_lines,
    columns,
    column_blocks,
    channels,
    h,
    oh,
    ow,
    xn,
    xc,
    xl,
    yl,
    yw,
    KH: tl.constexpr,
    KW: tl.constexpr,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DH: tl.constexpr,
    DW: tl.constexpr,
    TYPE: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_L: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Lines are rows of images, columns their elements; taps are added up in their order.

    `xc` is the stride of an image's rows of taps, `xl` that of windows.
    """
    program = tl.program_id(0)
    line = (program // column_blocks).to(INDEX) * BLOCK_L + tl.arange(0, BLOCK_L).to(INDEX)[:, None]
    col = (program % column_blocks).to(INDEX) * BLOCK_C + tl.arange(0, BLOCK_C).to(INDEX)[None, :]
    inside = (line < n_lines) & (col < columns)
    row, plane = line % h, line // h
    source = x + (plane // channels * xn + plane % channels * (KH * KW) * xc)
    total = tl.zeros([BLOCK_L, BLOCK_C], TYPE)
    for tap_y in range(KH):
        up = row + PH - tap_y * DH
        y = up // SH
        in_rows = (up >= 0) & (up % SH == 0) & (y < oh)
        for tap_x in range(KW):
            along = col + PW - tap_x * DW
            x_ = along // SW
            there = inside & in_rows & (along >= 0) & (along % SW == 0) & (x_ < ow)
            at = source + ((tap_y * KW + tap_x) * xc + (y * ow + x_) * xl)
            total += tl.load(at, mask=there, other=0).to(TYPE)
    tl.store(out + (line * yl + col * yw), convert(total, out.dtype.element_ty), mask=inside)


WAITING = "24 warps: each element waits for one load after the other, and other warps hide that"

declare(
    im2col,
    warps=24,
    why=WAITING,
    operand="x",
    tile=("BLOCK_L", "BLOCK_C"),
    dtypes={("fp32", "fp64", "bf16", "fp16", "i1"): (Configuration((4, 128)),)},
    smaller=True,
    operations="none",
    traffic="the input once, and again where its lines have left L1 before the next tap; the output once",
)
declare(
    col2im,
    warps=24,
    why=WAITING,
    operand="x",
    tile=("BLOCK_L", "BLOCK_C"),
    dtypes={("fp32", "fp64", "bf16", "fp16", "i1"): (Configuration((4, 128)),)},
    smaller=True,
    operations="an addition for each tap of each element",
    traffic="each input and output once",
)

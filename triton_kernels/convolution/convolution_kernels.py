"""The programs of convolutions."""

from ...runtime.cuda.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert
from ..products.product import multiply_add, tile_of


@triton.jit
def convolve(
    x,
    w,
    bias,
    out,
    m,
    columns,
    channels,
    h,
    width,
    oh,
    ow,
    xn,
    xc,
    xh,
    xw,
    wo,
    wc,
    wr,
    ws,
    yn,
    yc,
    yh,
    yw,
    bs,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DH: tl.constexpr,
    DW: tl.constexpr,
    R: tl.constexpr,
    S: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    DOT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(columns, BLOCK_N)
    group = tl.program_id(0) // (tiles_m * tiles_n)
    tile_m, tile_n = tile_of(tl.program_id(0) % (tiles_m * tiles_n), tiles_m, tiles_n, 8)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    filters = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    column, line, image = rows % ow, (rows // ow) % oh, rows // (oh * ow)
    top, left = line * SH - PH, column * SW - PW
    pixels = x + image * xn + group * channels * xc
    weights = w + (group * columns + filters) * wo
    total = tl.zeros((BLOCK_M, BLOCK_N), ACCUMULATOR)
    for start in range(0, channels * R * S, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        c, r, s = k % channels, k // channels // S, (k // channels) % S
        inside = k < channels * R * S
        i, j = top[:, None] + (r * DH)[None, :], left[:, None] + (s * DW)[None, :]
        mask = (rows < m)[:, None] & inside[None, :] & (i >= 0) & (i < h) & (j >= 0) & (j < width)
        a = tl.load(pixels[:, None] + (c * xc)[None, :] + i * xh + j * xw, mask=mask, other=0)
        to_weight = (c * wc + r * wr + s * ws)[:, None]
        b = tl.load(
            weights[None, :] + to_weight, mask=inside[:, None] & (filters < columns)[None, :], other=0
        )
        total = multiply_add(total, a, b, DOT)
    if bias is not None:
        offset = tl.load(bias + (group * columns + filters) * bs, mask=filters < columns, other=0)
        total += offset.to(ACCUMULATOR)[None, :]
    to = image * yn + line * yh + column * yw
    target = out + to[:, None] + ((group * columns + filters) * yc)[None, :]
    tl.store(
        target, convert(total, out.dtype.element_ty), mask=(rows < m)[:, None] & (filters < columns)[None, :]
    )


@triton.jit
def convolve_backward_input(
    g,
    w,
    out,
    m,
    columns,
    outputs,
    h,
    width,
    oh,
    ow,
    gn,
    gc,
    gh,
    gw,
    wo,
    wc,
    wr,
    ws,
    xn,
    xc,
    xh,
    xw,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DH: tl.constexpr,
    DW: tl.constexpr,
    R: tl.constexpr,
    S: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    DOT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(columns, BLOCK_N)
    group = tl.program_id(0) // (tiles_m * tiles_n)
    tile_m, tile_n = tile_of(tl.program_id(0) % (tiles_m * tiles_n), tiles_m, tiles_n, 8)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    channel = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    column, line, image = rows % width, (rows // width) % h, rows // (h * width)
    gradients = g + image * gn + group * outputs * gc
    total = tl.zeros((BLOCK_M, BLOCK_N), ACCUMULATOR)
    for start in range(0, outputs * R * S, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        o, r, s = k % outputs, k // outputs // S, (k // outputs) % S
        inside = k < outputs * R * S
        # Non-negative, so that the remainder is one in Python's sense and in C's.
        i = tl.maximum((line + PH)[:, None] - (r * DH)[None, :], -1)
        j = tl.maximum((column + PW)[:, None] - (s * DW)[None, :], -1)
        mask = (rows < m)[:, None] & inside[None, :] & (i >= 0) & (j >= 0)
        i, j = tl.maximum(i, 0), tl.maximum(j, 0)
        mask &= (i % SH == 0) & (j % SW == 0) & (i // SH < oh) & (j // SW < ow)
        at = (o * gc)[None, :] + (i // SH) * gh + (j // SW) * gw
        a = tl.load(gradients[:, None] + at, mask=mask, other=0)
        to_weight = ((group * outputs + o) * wo + r * wr + s * ws)[:, None] + (channel * wc)[None, :]
        b = tl.load(w + to_weight, mask=inside[:, None] & (channel < columns)[None, :], other=0)
        total = multiply_add(total, a, b, DOT)
    to = image * xn + line * xh + column * xw
    target = out + to[:, None] + ((group * columns + channel) * xc)[None, :]
    tl.store(
        target, convert(total, out.dtype.element_ty), mask=(rows < m)[:, None] & (channel < columns)[None, :]
    )


@triton.jit
def convolve_backward_weight(
    g,
    x,
    out,
    pixels,
    chunk,
    outputs,
    channels,
    h,
    width,
    oh,
    ow,
    gn,
    gc,
    gh,
    gw,
    xn,
    xc,
    xh,
    xw,
    wo,
    wc,
    wr,
    ws,
    part,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DH: tl.constexpr,
    DW: tl.constexpr,
    R: tl.constexpr,
    S: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    DOT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    columns = channels * R * S
    tiles_m, tiles_n = tl.cdiv(outputs, BLOCK_M), tl.cdiv(columns, BLOCK_N)
    group = tl.program_id(0) // (tiles_m * tiles_n)
    tile_m, tile_n = tile_of(tl.program_id(0) % (tiles_m * tiles_n), tiles_m, tiles_n, 8)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    taps = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c, r, s = taps % channels, taps // channels // S, (taps // channels) % S
    gradients = g + (group * outputs + rows) * gc
    total = tl.zeros((BLOCK_M, BLOCK_N), ACCUMULATOR)
    first = tl.program_id(1) * chunk
    last = tl.minimum(first + chunk, pixels)
    for start in range(first, last, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        inside = k < last
        column, line, image = k % ow, (k // ow) % oh, k // (oh * ow)
        at = image * gn + line * gh + column * gw
        a = tl.load(
            gradients[:, None] + at[None, :], mask=(rows < outputs)[:, None] & inside[None, :], other=0
        )
        i = (line * SH - PH)[:, None] + (r * DH)[None, :]
        j = (column * SW - PW)[:, None] + (s * DW)[None, :]
        mask = inside[:, None] & (taps < columns)[None, :] & (i >= 0) & (i < h) & (j >= 0) & (j < width)
        to_pixel = (image * xn)[:, None] + ((group * channels + c) * xc)[None, :] + i * xh + j * xw
        b = tl.load(x + to_pixel, mask=mask, other=0)
        total = multiply_add(total, a, b, DOT)
    to = ((group * outputs + rows) * wo)[:, None] + (c * wc + r * wr + s * ws)[None, :]
    target = out + tl.program_id(1).to(tl.int64) * part + to
    tl.store(
        target,
        convert(total, out.dtype.element_ty),
        mask=(rows < outputs)[:, None] & (taps < columns)[None, :],
    )


# What bounds these is the gathered operand: each element has an address and a mask of its own, 16 of either for a lane
# of the large tiles, beside the sums; so one block of eight warps is resident, and stages hide latency instead.
HALF = (Configuration((128, 64, 32), 8, 3, 1), Configuration((64, 64, 32), 4, 3, 2))
SINGLE = (Configuration((128, 64, 16), 8, 3, 1), Configuration((64, 32, 16), 4, 3, 3))
DOUBLE = (Configuration((64, 64, 16), 4, 3, 2), Configuration((32, 32, 16), 4, 3, 4))

for _kernel, _operand, _traffic in (
    (convolve, "x", "x, w and out once each; a pixel again for each tap whose line has left L1"),
    (convolve_backward_input, "g", "g, w and out once each; a gradient again for each tap"),
    (
        convolve_backward_weight,
        "g",
        "g and x once for each tile of the other; out once for each part of the pixels",
    ),
):
    declare(
        _kernel,
        why="see each configuration; the addresses and masks of gathered elements bound it",
        operand=_operand,
        tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
        dtypes={("bf16", "fp16"): HALF, ("fp32",): SINGLE, ("fp64",): DOUBLE},
        smaller=True,
        operations="2 n oh ow o c r s / groups",
        traffic=_traffic,
        tensor_cores=("bf16", "fp16", "fp64"),
        exact=("fp32",),
    )

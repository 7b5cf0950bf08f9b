"""Kernel of convolutions and transposed convolutions: pixels by filters, summed over taps and channels.

A position of the output gathers from source positions ``start + tap * step`` in each spatial dimension. In a
convolution the source is the input. In the gradient of the input, which is also a transposed convolution, the
source is the gradient. The taps then go backwards, and strides above one split the positions into phases,
each with its own taps. A phase is a convolution with a stride of one, so no multiplication is by a zero of
the stride, and nothing is scattered.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import CARDS, Configuration, declare
from ..conversion import convert
from ..products.product import tile_of


@triton.jit
def phase_taps(phase, STRIDE: tl.constexpr, PADDING: tl.constexpr, DILATION: tl.constexpr,
               TAPS: tl.constexpr, LEAP: tl.constexpr):  # fmt: skip
    """Return the taps of the positions ``phase + q * STRIDE`` of a transposed convolution.

    The result is the first tap that meets them, their number, and the source position of the first tap at q = 0.
    The taps are LEAP apart.
    """
    if STRIDE == 1:
        return 0, TAPS, PADDING
    else:
        first = TAPS
        # From behind, so that the first one stays; a multiple of the stride more, so that nothing is negative.
        for i in tl.static_range(1, LEAP + 1):
            meets = (phase + PADDING + (LEAP - i) * DILATION * (STRIDE - 1)) % STRIDE == 0
            first = tl.where(meets & (LEAP - i < TAPS), LEAP - i, first)
        return first, (TAPS - first + LEAP - 1) // LEAP, (phase + PADDING - first * DILATION) // STRIDE


@triton.jit
def convolve(
    x,
    w,
    bias,
    out,
    images,
    columns,
    channels,
    d,
    h,
    width,
    od,
    oh,
    ow,
    xn,
    xd,
    xh,
    xw,
    xc,
    wg,
    wk,
    wn,
    wt,
    wr,
    ws,
    yn,
    yd,
    yh,
    yw,
    yc,
    bs,
    X_UNIT: tl.constexpr,
    W_UNIT: tl.constexpr,
    Y_UNIT: tl.constexpr,
    CHANNEL_UNIT: tl.constexpr,
    COLUMN_UNIT: tl.constexpr,
    W_INNER: tl.constexpr,
    PIXELS_INNER: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    FLAT: tl.constexpr,
    WHOLE: tl.constexpr,
    CHECK_D: tl.constexpr,
    CHECK_H: tl.constexpr,
    CHECK_W: tl.constexpr,
    INDEX: tl.constexpr,
    T: tl.constexpr,
    R: tl.constexpr,
    S: tl.constexpr,
    SD: tl.constexpr,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PD: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DD: tl.constexpr,
    DH: tl.constexpr,
    DW: tl.constexpr,
    LEAP_D: tl.constexpr,
    LEAP_H: tl.constexpr,
    LEAP_W: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    operands=None,
    EPILOGUE: tl.constexpr = None,
):
    """Compute a tile of a convolution. Sizes and strides are divided by their units, so that the compiler knows the
    vector widths.

    - FLAT: the K dimension runs over channels and taps together (`channels` is then constant), else one tap at a time.
    - WHOLE: the channels are full blocks.
    - W_INNER: the weight's contiguous dimension is the K dimension.
    - PIXELS_INNER: the output's contiguous dimension is the pixels.
    - CHECK: source positions may be out of bounds.
    """
    if not FLAT:
        channels = channels * CHANNEL_UNIT
    columns = columns * COLUMN_UNIT
    xn, xd, xh, xw = xn * X_UNIT, xd * X_UNIT, xh * X_UNIT, xw * X_UNIT
    yn, yd, yh, yw = yn * Y_UNIT, yd * Y_UNIT, yh * Y_UNIT, yw * Y_UNIT
    wg, wt, wr, ws = wg * W_UNIT, wt * W_UNIT, wr * W_UNIT, ws * W_UNIT
    if W_INNER:
        wn = wn * W_UNIT
    else:
        wk = wk * W_UNIT
    if TRANSPOSED:
        lines_d, lines_h, lines_w = tl.cdiv(od, SD), tl.cdiv(oh, SH), tl.cdiv(ow, SW)
        positions = images.to(INDEX) * lines_d * lines_h * lines_w
        if SD * SH * SW == 1:
            phase_w, phase_h, phase_d = 0, 0, 0
        else:
            tiles = tl.cdiv(positions, BLOCK_M) * tl.cdiv(columns, BLOCK_N)
            phase = (tl.program_id(0) // tiles % (SD * SH * SW)).to(tl.int32)
            phase_w, phase_h, phase_d = phase % SW, (phase // SW) % SH, phase // (SW * SH)
        t0, taps_t, front = phase_taps(phase_d, SD, PD, DD, T, LEAP_D)
        r0, taps_r, top = phase_taps(phase_h, SH, PH, DH, R, LEAP_H)
        s0, taps_s, left = phase_taps(phase_w, SW, PW, DW, S, LEAP_W)
        qd = tl.maximum(tl.cdiv(od - phase_d, SD), 1)
        qh = tl.maximum(tl.cdiv(oh - phase_h, SH), 1)
        qw = tl.maximum(tl.cdiv(ow - phase_w, SW), 1)
    else:
        taps_t, taps_r, taps_s = T, R, S
        qd, qh, qw = od, oh, ow
        positions = images.to(INDEX) * od * oh * ow
    tiles_m, tiles_n = tl.cdiv(positions, BLOCK_M), tl.cdiv(columns, BLOCK_N)
    pid = tl.program_id(0).to(INDEX)
    group = (pid // (tiles_m * tiles_n)).to(tl.int32)
    if TRANSPOSED:
        group = group // (SD * SH * SW)
    tile_m, tile_n = tile_of(pid % (tiles_m * tiles_n), tiles_m, tiles_n, 8)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    filters = (tile_n * BLOCK_N).to(tl.int32) + tl.arange(0, BLOCK_N)
    column, line = (rows % qw).to(tl.int32), (rows // qw % qh).to(tl.int32)
    plane, image = (rows // qw // qh % qd).to(tl.int32), (rows // qw // qh // qd).to(tl.int32)
    is_row, is_filter = image < images, filters < columns
    if TRANSPOSED:
        if SD * SH * SW > 1:
            is_row &= (plane * SD + phase_d < od) & (line * SH + phase_h < oh) & (column * SW + phase_w < ow)
        z, i, j = plane + front, line + top, column + left
    else:
        z, i, j = plane * SD - PD, line * SH - PH, column * SW - PW
    x += group * channels * xc
    w += group * wg
    # Offsets of 32 bits where they suffice: a pointer would take two registers for each row.
    source, weights = image * xn + z * xd + i * xh + j * xw, filters * wn
    taps = taps_t * taps_r * taps_s
    lanes = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), ACCUMULATOR)
    if FLAT:
        inner = taps * channels
    else:
        inner = tl.cdiv(channels, BLOCK_K) * taps * BLOCK_K
    for start in range(0, inner, BLOCK_K):
        if FLAT:
            k = start + lanes
            c, tap = k % channels, k // channels
        else:
            c, tap = (start // BLOCK_K) // taps * BLOCK_K + lanes, (start // BLOCK_K) % taps
        # Fewer scalars where a dimension has one tap: the compiler spills them before it runs out of registers.
        if T == 1:
            s, r, t = tap % taps_s, tap // taps_s, tap * 0
        else:
            s, r, t = tap % taps_s, tap // taps_s % taps_r, tap // (taps_s * taps_r)
        if TRANSPOSED:
            to_z, to_i, to_j = t * -(DD * LEAP_D // SD), r * -(DH * LEAP_H // SH), s * -(DW * LEAP_W // SW)
            filter_at = (t0 + t * LEAP_D) * wt + (r0 + r * LEAP_H) * wr + (s0 + s * LEAP_W) * ws
        else:
            to_z, to_i, to_j = t * DD, r * DH, s * DW
            filter_at = t * wt + r * wr + s * ws
        at = to_z * xd + to_i * xh + to_j * xw
        if FLAT:
            to_z, to_i, to_j, at = to_z[None, :], to_i[None, :], to_j[None, :], at[None, :]
            inside, is_k = is_row[:, None] & (k < inner)[None, :], k < inner
            if CHECK_D:
                inside &= (z[:, None] + to_z >= 0) & (z[:, None] + to_z < d)
            if CHECK_H:
                inside &= (i[:, None] + to_i >= 0) & (i[:, None] + to_i < h)
            if CHECK_W:
                inside &= (j[:, None] + to_j >= 0) & (j[:, None] + to_j < width)
            a = tl.load(x + (source[:, None] + at + (c * xc)[None, :]), mask=inside, other=0)
            b = tl.load(
                w + (weights[None, :] + (filter_at + c * wk)[:, None]),
                mask=is_k[:, None] & is_filter[None, :],
                other=0,
            )
        else:
            inside = is_row
            if CHECK_D:
                inside &= (z + to_z >= 0) & (z + to_z < d)
            if CHECK_H:
                inside &= (i + to_i >= 0) & (i + to_i < h)
            if CHECK_W:
                inside &= (j + to_j >= 0) & (j + to_j < width)
            if WHOLE:
                a = tl.load(x + ((source + at)[:, None] + (c * xc)[None, :]), mask=inside[:, None], other=0)
                b = tl.load(
                    w + ((weights + filter_at)[None, :] + (c * wk)[:, None]), mask=is_filter[None, :], other=0
                )
            else:
                is_k = c < channels
                a = tl.load(
                    x + ((source + at)[:, None] + (c * xc)[None, :]),
                    mask=inside[:, None] & is_k[None, :],
                    other=0,
                )
                b = tl.load(
                    w + ((weights + filter_at)[None, :] + (c * wk)[:, None]),
                    mask=is_k[:, None] & is_filter[None, :],
                    other=0,
                )
        total = tl.dot(a, b, total, input_precision=PRECISION, out_dtype=ACCUMULATOR)
    filters = group * columns + filters
    if bias is not None:
        total += tl.load(bias + filters * bs, mask=is_filter, other=0).to(ACCUMULATOR)[None, :]
    if TRANSPOSED:
        plane, line, column = plane * SD + phase_d, line * SH + phase_h, column * SW + phase_w
    if EPILOGUE is not None:
        EPILOGUE(
            total, operands, out, image, filters, (plane * oh + line) * ow + column,
            ((image.to(INDEX) * od + plane) * oh + line) * ow + column, is_row, is_filter, yn, yc, yw,
        )  # fmt: skip
    else:
        target = out + (image * yn + plane * yd + line * yh + column * yw)
        made = convert(total, out.dtype.element_ty)
        if PIXELS_INNER:
            made = tl.trans(made)
            tl.store(
                target[None, :] + (filters * yc)[:, None], made, mask=is_filter[:, None] & is_row[None, :]
            )
        else:
            tl.store(
                target[:, None] + (filters * yc)[None, :], made, mask=is_row[:, None] & is_filter[None, :]
            )


# Vectors of channels, with an address and a mask for each row of pixels. Sums of 64 registers for a lane, and as many
# again while they are converted and stored: one block of eight warps.
WIDE = Configuration((128, 256, 64), 8, 3, {90: 1, 100: 1})
HALF = (
    Configuration((128, 128, 64), 8, 3, {90: 1, 100: 1}),
    WIDE,
    Configuration((128, 64, 64), 4, 4, {90: 2, 100: 2}),
    Configuration((64, 64, 64), 4, 4, {90: 2, 100: 2}),
    # HMMA takes its operands from registers.
    Configuration((128, 128, 32), 8, 4, {80: 1}),
    Configuration((128, 64, 32), 4, 4, {80: 2}),
    Configuration((64, 64, 32), 4, 4, {80: 2}),
)
# Few or ragged channels: an address and a mask for each vector or element, which bound it; stages hide the latency.
FEW = (Configuration((128, 64, 32), 8, 3, 1), Configuration((64, 64, 32), 4, 3, 2))
TF32 = tuple(
    Configuration(*row, all_registers=True) for row in (((128, 128, 32), 8, 3, 1), ((64, 64, 32), 4, 3, 2))
)
# FFMA: both operands lie in registers beside the sums.
EXACT = (Configuration((64, 128, 16), 8, 3, 1), Configuration((64, 32, 16), 4, 3, 3))
DOUBLE = (Configuration((64, 64, 16), 8, 3, 2), Configuration((32, 32, 16), 4, 3, 4, all_registers=CARDS))

declare(
    convolve,
    why="see each configuration; a product is bound by arithmetic, and a tile's sums by registers",
    operand="x",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={("bf16", "fp16"): (*HALF, *FEW), ("fp32",): (*TF32, *EXACT), ("fp64",): DOUBLE},
    smaller=True,
    operations="2 n oh ow o c r s / groups",
    traffic="x, w and out once each; a pixel again for each tap and each tile of columns that finds it not in L2",
    loads=("x", "w"),
    stores=("out",),
    tensor_cores=("bf16", "fp16", "fp64"),
)

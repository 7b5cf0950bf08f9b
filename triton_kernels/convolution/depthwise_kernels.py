"""Kernels of depthwise convolutions: sums over taps, without matmuls.

They are memory-bound: each tap reads a pixel again, from L1. Channels-last accesses are vectors of channels.
With contiguous pixels a tap's shift breaks vector alignment, so neighboring lanes take neighboring pixels.
Sums are explicit fused multiply-adds, while pointwise code that a compiled graph fuses to them rounds at each
step.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import convert


@triton.jit
def convolve_depthwise(
    x,
    w,
    bias,
    out,
    images,
    outputs,
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
    wo,
    wi,
    wt,
    wr,
    ws,
    yn,
    yd,
    yh,
    yw,
    yc,
    bs,
    UNIT: tl.constexpr,
    W_UNIT: tl.constexpr,
    OUTPUT_UNIT: tl.constexpr,
    PIXELS_INNER: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    CHANNELS: tl.constexpr,
    COLUMNS: tl.constexpr,
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
    ACCUMULATOR: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
    operands=None,
    EPILOGUE: tl.constexpr = None,
):
    """Units as in `convolve`. CHANNELS of the source and COLUMNS of the output are in a group, one of them is 1.

    The weight is by output (`wo`) and by input (`wi`), both counted within the group where it is transposed.
    """
    outputs = outputs * OUTPUT_UNIT
    xn, xd, xh, xw = xn * UNIT, xd * UNIT, xh * UNIT, xw * UNIT
    yn, yd, yh, yw = yn * UNIT, yd * UNIT, yh * UNIT, yw * UNIT
    wt, wr, ws = wt * W_UNIT, wr * W_UNIT, ws * W_UNIT
    positions = images.to(INDEX) * od * oh * ow
    pid = tl.program_id(0).to(INDEX)
    if PIXELS_INNER:
        tiles_p = tl.cdiv(positions, BLOCK_P)
        tile_p, tile_c = pid % tiles_p, pid // tiles_p
    else:
        tiles_c = tl.cdiv(outputs, BLOCK_C)
        tile_p, tile_c = pid // tiles_c, pid % tiles_c
    rows = tile_p * BLOCK_P + tl.arange(0, BLOCK_P)
    o = (tile_c * BLOCK_C).to(tl.int32) + tl.arange(0, BLOCK_C)
    column, line = (rows % ow).to(tl.int32), (rows // ow % oh).to(tl.int32)
    plane, image = (rows // ow // oh % od).to(tl.int32), (rows // ow // oh // od).to(tl.int32)
    is_row, is_output = rows < positions, o < outputs
    group = o // COLUMNS
    if TRANSPOSED:
        z0, i0, j0 = plane + PD, line + PH, column + PW
        weights = w + group * CHANNELS * wo + (o % COLUMNS) * wi
    else:
        z0, i0, j0 = plane * SD - PD, line * SH - PH, column * SW - PW
        weights = w + o * wo
    source = x + image * xn
    total = tl.zeros((BLOCK_P, BLOCK_C), ACCUMULATOR)
    for channel in range(CHANNELS):
        inner = (group * CHANNELS + channel) * xc
        filters = weights + channel * wo if TRANSPOSED else weights + channel * wi
        for tap in range(T * R):
            t, r = tap // R, tap % R
            if TRANSPOSED:
                z, i = z0 - t * DD, i0 - r * DH
                is_line = is_row & (z >= 0) & (i >= 0) & (z % SD == 0) & (i % SH == 0)
                z, i = z // SD, i // SH
                is_line &= (z < d) & (i < h)
            else:
                z, i = z0 + t * DD, i0 + r * DH
                is_line = is_row
                if T > 1 or PD > 0:
                    is_line &= (z >= 0) & (z < d)
                if R > 1 or PH > 0:
                    is_line &= (i >= 0) & (i < h)
            at = source + z * xd + i * xh
            for s in tl.static_range(S):
                if TRANSPOSED:
                    j = j0 - s * DW
                    inside = is_line & (j >= 0) & (j % SW == 0)
                    j = j // SW
                    inside &= j < width
                else:
                    j = j0 + s * DW
                    inside = is_line
                    if S > 1 or PW > 0:
                        inside &= (j >= 0) & (j < width)
                a = tl.load(
                    (at + j * xw)[:, None] + inner[None, :],
                    mask=inside[:, None] & is_output[None, :],
                    other=0,
                )
                b = tl.load(filters + t * wt + r * wr + s * ws, mask=is_output, other=0)
                a, b = a.to(ACCUMULATOR), b.to(ACCUMULATOR)[None, :]
                if TRANSPOSED:
                    # Elements that a tap does not reach add nothing, even for an infinite weight; zeros of a border do.
                    total += tl.where(inside[:, None], a * b, 0.0)
                else:
                    total = tl.fma(a, b, total)
    if bias is not None:
        total += tl.load(bias + o * bs, mask=is_output, other=0).to(ACCUMULATOR)[None, :]
    if EPILOGUE is not None:
        EPILOGUE(
            total,
            operands,
            out,
            image,
            o,
            (plane * oh + line) * ow + column,
            rows,
            is_row,
            is_output,
            yn,
            yc,
            outputs,
        )
    else:
        target = out + image * yn + plane * yd + line * yh + column * yw
        tl.store(
            target[:, None] + (o * yc)[None, :],
            convert(total, out.dtype.element_ty),
            mask=is_row[:, None] & is_output[None, :],
        )


@triton.jit
def convolve_depthwise_backward_weight(
    g,
    x,
    out,
    pixels,
    chunk,
    pairs,
    od,
    oh,
    ow,
    d,
    h,
    width,
    gn,
    gd,
    gh,
    gw,
    gc,
    xn,
    xd,
    xh,
    xw,
    xc,
    UNIT: tl.constexpr,
    PAIR_UNIT: tl.constexpr,
    CHANNELS: tl.constexpr,
    COLUMNS: tl.constexpr,
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
    ACCUMULATOR: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Compute the gradient of one tap over a part of the pixels, for pairs of an output and an input.

    The programs for a part's taps run concurrently, so its pixels come from memory once and then from L2.
    """
    pairs = pairs * PAIR_UNIT
    gn, gd, gh, gw = gn * UNIT, gd * UNIT, gh * UNIT, gw * UNIT
    xn, xd, xh, xw = xn * UNIT, xd * UNIT, xh * UNIT, xw * UNIT
    taps: tl.constexpr = T * R * S
    tap, tile_c = tl.program_id(0) % taps, tl.program_id(0) // taps
    s, r, t = tap % S, tap // S % R, tap // (S * R)
    pair = tile_c * BLOCK_C + tl.arange(0, BLOCK_C)
    is_pair = pair < pairs
    o = pair // CHANNELS
    channel = o // COLUMNS * CHANNELS + pair % CHANNELS
    total = tl.zeros((BLOCK_P, BLOCK_C), ACCUMULATOR)
    first = tl.program_id(1).to(INDEX) * chunk
    last = tl.minimum(first + chunk, pixels)
    for start in range(first, last, BLOCK_P):
        rows = start + tl.arange(0, BLOCK_P)
        column, line = (rows % ow).to(tl.int32), (rows // ow % oh).to(tl.int32)
        plane, image = (rows // ow // oh % od).to(tl.int32), (rows // ow // oh // od).to(tl.int32)
        z, i, j = plane * SD + (t * DD - PD), line * SH + (r * DH - PH), column * SW + (s * DW - PW)
        inside = rows < last
        if T > 1 or PD > 0:
            inside &= (z >= 0) & (z < d)
        if R > 1 or PH > 0:
            inside &= (i >= 0) & (i < h)
        if S > 1 or PW > 0:
            inside &= (j >= 0) & (j < width)
        mask = inside[:, None] & is_pair[None, :]
        a = tl.load(
            (g + image * gn + plane * gd + line * gh + column * gw)[:, None] + (o * gc)[None, :],
            mask=mask,
            other=0,
        )
        b = tl.load(
            (x + image * xn + z * xd + i * xh + j * xw)[:, None] + (channel * xc)[None, :],
            mask=mask,
            other=0,
        )
        total += a.to(ACCUMULATOR) * b.to(ACCUMULATOR)
    made = tl.sum(total, 0)
    part = tl.program_id(1).to(tl.int64) * pairs * taps
    tl.store(out + part + (o * taps + tap) * CHANNELS + pair % CHANNELS, made, mask=is_pair)


# A tile of 2,048 elements: vectors of 128 bits of the narrow types, two rows of pixels for a lane.
LAST = {
    **dict.fromkeys(("bf16", "fp16"), Configuration((32, 64), 4, 3, 4)),
    "fp32": Configuration((32, 32), 4, 3, 4),
    "fp64": Configuration((16, 32), 4, 3, 4),
}
PLANES = {
    **dict.fromkeys(("bf16", "fp16"), Configuration((512, 1), 4, 3, 4)),
    "fp32": Configuration((512, 1), 4, 3, 4),
    "fp64": Configuration((256, 1), 4, 3, 4),
}

for _kernel, _operand, _traffic in (
    (convolve_depthwise, "x", "x and out once each, w once for each program, from L2"),
    (convolve_depthwise_backward_weight, "g", "g and x once, and again from L2 for each tap"),
):
    declare(
        _kernel,
        why="16 warps: each lane has several vectors, with masks and addresses of their own",
        operand=_operand,
        tile=("BLOCK_P", "BLOCK_C"),
        dtypes={(dtype,): (LAST[dtype], PLANES[dtype]) for dtype in LAST},
        smaller=True,
        operations="2 n oh ow o r s",
        traffic=_traffic,
        loads=("x",) if _kernel is convolve_depthwise else ("g", "x"),
        stores=("out",) if _kernel is convolve_depthwise else (),
    )

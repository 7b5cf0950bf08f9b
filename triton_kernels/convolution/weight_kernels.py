"""Kernels of the gradient of a convolution's weight: gradients by inputs, with split-K over pixels.

Rows of the GEMM are outputs. Its columns are the channels of one tap, or channels and taps together if
channels are few. The pixels are split into parts in float32 (float64 for float64), which a second launch adds
in order.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import CARDS, Configuration, declare
from ..conversion import convert
from ..products.product import tile_of


@triton.jit
def quotient(n, divisor, magic, shift, INDEX: tl.constexpr):
    """Compute n // divisor by a multiplication, for n below 2^31.

    Source: T. Granlund, P. L. Montgomery, Division by Invariant Integers using Multiplication, PLDI 1994.
    """
    if tl.int32 == INDEX:
        return ((n.to(tl.int64) * magic) >> shift).to(tl.int32)
    else:
        return n // divisor


@triton.jit
def convolve_backward_weight(
    g,
    x,
    out,
    pixels,
    chunk,
    outputs,
    channels,
    d,
    h,
    width,
    od,
    oh,
    ow,
    magic_d,
    magic_h,
    magic_w,
    shift_d,
    shift_h,
    shift_w,
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
    wo,
    wc,
    wt,
    wr,
    ws,
    part,
    G_UNIT: tl.constexpr,
    X_UNIT: tl.constexpr,
    OUTPUT_UNIT: tl.constexpr,
    CHANNEL_UNIT: tl.constexpr,
    ROWS: tl.constexpr,
    FLAT: tl.constexpr,
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
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Units as in `convolve`. ROWS: a gradient's pixels lie evenly, `gw` apart.

    FLAT: columns are channels and taps as one, and `channels` is a constant.
    """
    outputs = outputs * OUTPUT_UNIT
    gn, gd, gh, gw = gn * G_UNIT, gd * G_UNIT, gh * G_UNIT, gw * G_UNIT
    xn, xd, xh, xw = xn * X_UNIT, xd * X_UNIT, xh * X_UNIT, xw * X_UNIT
    taps: tl.constexpr = T * R * S
    if FLAT:
        tiles_n = tl.cdiv(channels * taps, BLOCK_N)
    else:
        channels = channels * CHANNEL_UNIT
        blocks = tl.cdiv(channels, BLOCK_N)
        tiles_n = blocks * taps
    tiles_m = tl.cdiv(outputs, BLOCK_M)
    group = tl.program_id(0) // (tiles_m * tiles_n)
    tile_m, tile_n = tile_of(tl.program_id(0) % (tiles_m * tiles_n), tiles_m, tiles_n, 8)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    if FLAT:
        lanes = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        c, tap, is_column = lanes % channels, lanes // channels, lanes < channels * taps
    else:
        c, tap = tile_n // taps * BLOCK_N + tl.arange(0, BLOCK_N), tile_n % taps
        is_column = c < channels
    s, r, t = tap % S, tap // S % R, tap // (S * R)
    is_output = rows < outputs
    gradients, source = (group * outputs + rows) * gc, (group * channels + c) * xc
    to_z, to_i, to_j = t * DD - PD, r * DH - PH, s * DW - PW
    total = tl.zeros((BLOCK_M, BLOCK_N), ACCUMULATOR)
    first = tl.program_id(1).to(INDEX) * chunk
    last = tl.minimum(first + chunk, pixels)
    for start in range(first, last, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        is_pixel = k < last
        above = quotient(k, ow, magic_w, shift_w, INDEX)
        column = (k - above * ow).to(tl.int32)
        higher = quotient(above, oh, magic_h, shift_h, INDEX)
        line = (above - higher * oh).to(tl.int32)
        image = quotient(higher, od, magic_d, shift_d, INDEX).to(tl.int32)
        plane = (higher - image * od).to(tl.int32)
        if ROWS:
            at = k * gw
        else:
            at = image * gn + plane * gd + line * gh + column * gw
        # As the source has it: outputs inner, so that its vectors are outputs'.
        a = tl.load(
            g + (gradients[None, :] + at[:, None]), mask=is_pixel[:, None] & is_output[None, :], other=0
        )
        z, i, j = plane * SD, line * SH, column * SW
        if FLAT:
            inside = is_pixel[:, None] & is_column[None, :]
            z, i, j = z[:, None] + to_z[None, :], i[:, None] + to_i[None, :], j[:, None] + to_j[None, :]
            if T > 1 or PD > 0:
                inside &= (z >= 0) & (z < d)
            if R > 1 or PH > 0:
                inside &= (i >= 0) & (i < h)
            if S > 1 or PW > 0:
                inside &= (j >= 0) & (j < width)
            b = tl.load(
                x + (source[None, :] + (image * xn)[:, None] + z * xd + i * xh + j * xw),
                mask=inside,
                other=0,
            )
        else:
            inside = is_pixel
            z, i, j = z + to_z, i + to_i, j + to_j
            if T > 1 or PD > 0:
                inside &= (z >= 0) & (z < d)
            if R > 1 or PH > 0:
                inside &= (i >= 0) & (i < h)
            if S > 1 or PW > 0:
                inside &= (j >= 0) & (j < width)
            b = tl.load(
                x + (source[None, :] + (image * xn + z * xd + i * xh + j * xw)[:, None]),
                mask=inside[:, None] & is_column[None, :],
                other=0,
            )
        total = tl.dot(tl.trans(a), b, total, input_precision=PRECISION, out_dtype=ACCUMULATOR)
    out_ptrs = ((group * outputs + rows) * wo)[:, None] + (c * wc + t * wt + r * wr + s * ws)[None, :]
    target = out + tl.program_id(1).to(tl.int64) * part + out_ptrs
    tl.store(target, convert(total, out.dtype.element_ty), mask=is_output[:, None] & is_column[None, :])


@triton.jit
def add_parts(
    parts,
    out,
    n,
    splits,
    channels,
    wo,
    wc,
    wt,
    wr,
    ws,
    T: tl.constexpr,
    R: tl.constexpr,
    S: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum (splits, outputs, T, R, S, channels) over the splits, in order, to (outputs, channels, T, R, S)."""
    start = tl.program_id(0).to(INDEX) * BLOCK
    index = start + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), parts.dtype.element_ty)
    for _ in range(splits):
        if start + BLOCK <= n:
            total += tl.load(parts + index)
        else:
            total += tl.load(parts + index, mask=index < n, other=0)
        parts += n
    c, tap = index % channels, index // channels
    s, r, t, o = tap % S, tap // S % R, tap // (S * R) % T, tap // (S * R * T)
    out_offset = o * wo + c * wc + t * wt + r * wr + s * ws
    tl.store(out + out_offset, convert(total, out.dtype.element_ty), mask=index < n)


HALF = (
    Configuration((128, 128, 64), 8, 3, {90: 1, 100: 1}),
    Configuration((64, 64, 64), 4, 3, {90: 2, 100: 2}),
    # HMMA takes its operands from registers.
    Configuration((128, 128, 32), 8, 3, {80: 1}),
    Configuration((64, 64, 32), 4, 4, {80: 2}),
)
# Few or ragged channels: an address and a mask for each vector or element.
FEW = (Configuration((128, 64, 32), 8, 3, 1), Configuration((64, 64, 32), 4, 3, 2))
TF32 = (Configuration((128, 128, 32), 8, 3, 1), Configuration((64, 64, 32), 4, 3, 2))
# FFMA: both operands lie in registers beside the sums. For sm_100 the compiler keeps eight warps of such a tile to 80
# registers, and spills.
EXACT = (Configuration((64, 64, 16), 4, 3, 3), Configuration((64, 32, 16), 4, 3, 3))
DOUBLE = (Configuration((64, 64, 16), 8, 3, 2, all_registers=CARDS), Configuration((32, 32, 16), 4, 3, 4))

declare(
    convolve_backward_weight,
    why="see each configuration; a product is bound by arithmetic, and a tile's sums by registers",
    operand="g",
    tile=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    dtypes={("bf16", "fp16"): (*HALF, *FEW), ("fp32",): (*TF32, *EXACT), ("fp64",): DOUBLE},
    smaller=True,
    operations="2 n oh ow o c r s / groups",
    traffic="g and x once for each tile of the other; out once for each part of the pixels",
    loads=("g", "x"),
    tensor_cores=("bf16", "fp16", "fp64"),
)
declare(
    add_parts,
    warps=16,
    why="16 warps: the divisions of an index take registers, and parts are read one after the other from L2",
    operand="parts",
    dtypes={("fp32",): (Configuration((1024,)),), ("fp64",): (Configuration((512,)),)},
    operations="splits n",
    traffic="splits n accumulators, and out once",
    loads=("parts",),
)

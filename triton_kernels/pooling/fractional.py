"""Maxima of windows that start at random places: each output finds its window from its number in the samples."""

from __future__ import annotations

import math
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ..budget import Configuration, declare
from ..conversion import compute_type, convert
from ..launch import ALIGNMENT, Launch, cdiv, integer_type, interpreted, launch_nothing, next_power_of_2
from .pooling import BLOCK, INTERPRETED_BLOCK, check_floating, three, with_batch
from .pooling_kernels import GATHERING, place_of


@triton.jit
def rounded(x, kept: tl.constexpr):
    """Round an intermediate value to the tensors' dtype."""
    return convert(convert(x, kept), x.dtype)


@triton.jit
def whole(x):
    """`x` without its fraction; what no int64 holds, NaN among it, counts as zero."""
    return tl.where(tl.abs(x) < 4611686018427387904.0, x, tl.zeros_like(x)).to(tl.int64)


@triton.jit
def window_start(position, sample, n, out, K: tl.constexpr):
    """Return the start of an output position's window along a dimension; the last window ends with the dimension.

    Every step is rounded to the tensors' dtype, as in PyTorch. Positions outside, which no sample in [0, 1) gives,
    are clamped.
    """
    kept = sample.dtype
    room, last = position * 0 + (n - K), position * 0 + (out - 1)
    if kept == tl.float64:
        number = sample
        step = room.to(tl.float64) / tl.maximum(last, 1).to(tl.float64)
    else:
        number = sample.to(tl.float32)
        step = tl.div_rn(room.to(tl.float32), tl.maximum(last, 1).to(tl.float32))
    step = rounded(step, kept)
    moved = rounded(rounded(position.to(number.dtype) + number, kept) * step, kept)
    start = whole(moved) - whole(rounded(number * step, kept))
    start = tl.where(position == last, room.to(tl.int64), start)
    return tl.minimum(tl.maximum(start, 0), room.to(tl.int64)).to(position.dtype)


@triton.jit
def fractional_max_pool(
    x,
    samples,
    out,
    index,
    n,
    channels,
    d,
    h,
    w,
    od,
    oh,
    ow,
    xn,
    xc,
    xd,
    xh,
    xw,
    yn,
    yc,
    yd,
    yh,
    yw,
    sn,
    sc,
    sd,
    sh,
    sw,
    rn,
    rc,
    rs,
    RANK: tl.constexpr,
    KD: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    TYPE: tl.constexpr,
    INDEX: tl.constexpr,
    BLOCK_P: tl.constexpr,
):
    image, channel, plane, line, column, inside = place_of(n, channels, od, oh, ow, INDEX, False, BLOCK_P, 1)
    numbers = samples + (image * rn + channel * rc)
    # Over planes the width's number is the first one; over volumes the depth's is.
    first = tl.load(numbers, mask=inside, other=0)
    second = tl.load(numbers + rs, mask=inside, other=0)
    if RANK == 2:
        z = plane * 0
        row = window_start(line, second, h, oh, KH)
        col = window_start(column, first, w, ow, KW)
    else:
        z = window_start(plane, first, d, od, KD)
        row = window_start(line, second, h, oh, KH)
        col = window_start(column, tl.load(numbers + 2 * rs, mask=inside, other=0), w, ow, KW)
    best = tl.full((BLOCK_P, 1), float("-inf"), TYPE)
    where = (z * h + row) * w + col
    corner = x + (image * xn + channel * xc) + (z * xd + row * xh + col * xw)
    corner_index = where
    for tap in range(KD * KH * KW):
        deep, high, wide = tap // (KH * KW), tap // KW % KH, tap % KW
        value = convert(tl.load(corner + (deep * xd + high * xh + wide * xw), mask=inside, other=0), TYPE)
        better = (value > best) | (value != value)
        best = tl.where(better, value, best)
        where = tl.where(better, corner_index + ((deep * h + high) * w + wide), where)
    out_offset = image * yn + channel * yc + (plane * yd + line * yh + column * yw)
    tl.store(out + out_offset, convert(best, out.dtype.element_ty), mask=inside)
    to_index = image * sn + channel * sc + (plane * sd + line * sh + column * sw)
    tl.store(index + to_index, where.to(tl.int64), mask=inside)


def fractional_max_pool_(call: StructuredCall) -> PlannedKernel:
    """Compute the maximum of each window: the first of equal elements, the last of NaNs."""
    spec, samples, pool = check_floating(call), call.args["random_samples"], call.extra["pool"]
    values, indices = call.outputs
    if values.numel == 0:
        return PlannedKernel(launch_nothing)
    rank, n = len(pool.out), values.numel
    block = min(max(next_power_of_2(n), 16), INTERPRETED_BLOCK if interpreted() else BLOCK)
    images = {
        letter: with_batch(image, rank) for letter, image in (("x", spec), ("y", values), ("s", indices))
    }
    strides = {
        letter + dim: stride
        for letter, image in images.items()
        for dim, stride in zip("ncdhw", image.strides, strict=True)
    }
    strides |= dict(zip(("rn", "rc", "rs"), samples.strides, strict=True))
    # A kernel's size that is negative takes nothing, but says where windows may start.
    reach = [n + block, 2 * math.prod(spec.sizes[-rank:]) - 2 * min(0, *pool.kernel)]
    for sizes, own in [(image.sizes, image.strides) for image in images.values()] + [
        (samples.sizes, samples.strides)
    ]:
        reach.append(2 * sum(s * (size + 64) for size, s in zip(sizes, own, strict=True)))
    kind = integer_type(max(reach))
    numbers: dict[str, Any] = {
        "n": n,
        "channels": images["x"].sizes[1],
        **dict(zip(("d", "h", "w"), images["x"].sizes[2:], strict=True)),
        **dict(zip(("od", "oh", "ow"), three(pool.out, 1), strict=True)),
        **strides,
    }
    fixed = {name: value for name, value in numbers.items() if name in strides and value in (0, 1)}
    if rank == 2:
        fixed |= {"d": 1, "od": 1}
    numbers = {name: value for name, value in numbers.items() if name not in fixed}
    pointers = {"x": spec, "samples": samples, "out": values, "index": indices}
    signature = {name: f"*{image.dtype.triton_name}" for name, image in pointers.items()}
    launch = Launch(
        call.device,
        fractional_max_pool,
        signature | dict.fromkeys(numbers, kind),
        {
            **fixed,
            **dict(zip(("KD", "KH", "KW"), three(pool.kernel, 1), strict=True)),
            "RANK": rank,
            "TYPE": compute_type(spec.dtype),
            "INDEX": tl.int32 if kind == "i32" else tl.int64,
            "BLOCK_P": block,
        },
        divisible=[name for name, value in numbers.items() if value % ALIGNMENT == 0],
    )
    grid = (cdiv(n, block), 1, 1)
    number_values = tuple(numbers.values())
    return PlannedKernel(
        lambda out, where, x, random: launch(
            grid, x.address, random.address, out.address, where.address, *number_values
        )
    )


for _rank in (2, 3):
    register_stub(f"fractional_max_pool{_rank}d_stub", "cuda", fractional_max_pool_)

declare(
    fractional_max_pool,
    warps=24,
    why=GATHERING,
    operand="x",
    tile=("BLOCK_P",),
    dtypes=("fp32", "fp16", "bf16", "fp64"),
    configurations=(Configuration((BLOCK,)),),
    smaller=True,
    operations="a comparison for each tap, and a multiplication for each dimension of a window",
    traffic="each input under a window once, the samples, each output once; what windows share once more where their "
    "line has left L1",
)

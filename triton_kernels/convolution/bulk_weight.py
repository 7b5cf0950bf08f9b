"""Plans of the gradient of a convolution's weight by tensor descriptors: which it serves, its blocks, its parts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured import choices
from ...dispatch.structured.stub import StructuredCall
from ...runtime.cuda.driver import driver
from ...runtime.cuda.tensor_map import DescribedTensor
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..launch import INT32_MAX, Launch, cdiv, integer_type, interpreted
from ..products.bulk import FIRST_DESIGN
from ..products.problem import multiprocessors
from ..products.tile_cost import cost, resident
from ..tuning.choice import configuration
from .bulk import INTERPRETED_TILE
from .bulk_weight_kernels import NARROW, convolve_backward_weight_bulk
from .layout_copies import pitch_of_pixels
from .maps import LONGEST_SIDE, blocks_over, described, picture, tap_constants
from .strided import folded
from .volume import Arguments, Triple, Window, bounded, reach

SHORTEST = 32
"""Pixels of a plane from which it is read as it lies: a block has 64."""
MAX_SPLITS = 64
STEPS = 8
"""The fewest blocks of pixels that a part is worth a program of its own."""
WASTED = 5 / 4
"""Limit of the ratio of the blocks' pixels to the image's, if images are no multiple of a block."""


def whole_block(positions: Triple, count: int) -> Triple | None:
    """`count` pixels as images by lines by pixels, whose lines and pixels divide those that there are.

    The one with the fewest blocks, that is with the fewest images that there are not; of those alike the longest
    lines. None where too many would be missing.

    Example:
        >>> from triten.triton_kernels.convolution.bulk_weight import whole_block
        >>> whole_block((32, 56, 56), 64), whole_block((32, 14, 14), 64), whole_block((2, 7, 7), 64)
        ((1, 8, 8), (16, 2, 2), None)
    """
    images, lines, pixels = positions
    sides = [1 << i for i in range(count.bit_length()) if 1 << i <= LONGEST_SIDE]
    blocks = [
        (count // (line * pixel), line, pixel)
        for line, pixel in itertools.product(sides, sides)
        if lines % line == pixels % pixel == 0 and line * pixel <= count
    ]
    blocks = [block for block in blocks if block[0] <= LONGEST_SIDE]
    if not blocks:
        return None
    best = min(blocks, key=lambda block: (blocks_over(positions, block), block[0], -block[2]))
    is_much = blocks_over(positions, best) * count > WASTED * images * lines * pixels
    return None if is_much else best


def refused(why: str) -> None:
    """Tell why tensor descriptors do not serve a gradient."""
    choices.chosen("no tensor descriptors", why)


def reason_against(call: StructuredCall, grad: TensorSpec, source: TensorSpec, window: Window) -> str | None:
    """Why tensor descriptors serve no gradient of a window over such tensors, however they lie; None if they may."""
    if grad.itemsize != 2:
        return "its dtype is wide"
    if driver().properties(call.device.resolved_index).design < FIRST_DESIGN:
        return "the device has none"
    if window.kernel[0] > 1 or window.padding[0] or window.stride[0] > 1 or source.sizes[2] > 1:
        return "it is over volumes"
    if max(grad.numel, source.numel) > INT32_MAX:
        return "there are more elements than 32 bits count"
    return None


def lines_of_planes(
    grad: TensorSpec, source: TensorSpec, window: Window
) -> tuple[DescribedTensor, DescribedTensor, Triple] | None:
    """Return both operands of a 1x1 convolution as (images, channels, 1, pixels), and the positions, or None.

    The last block of a plane may be partial: out-of-bounds pixels are zeros in both operands. With several
    taps, a block would have to start between two vectors, which descriptors do not support.
    """
    both = (grad, source)
    if not window.is_pointwise or all(channels_lie_innermost(spec) for spec in both):
        return None
    if not all(pitch_of_pixels(spec) == 1 for spec in both):
        return None
    pixels = math.prod(grad.sizes[2:])
    planes = [
        described((spec.sizes[0], spec.sizes[1], 1, pixels), (*spec.strides[:2], 0, 1), spec.itemsize)
        for spec in both
    ]
    if planes[0] is None or planes[1] is None or pixels < SHORTEST:
        return None
    return planes[0], planes[1], (grad.sizes[0], 1, pixels)


def channels_lie_innermost(spec: TensorSpec) -> bool:
    """Return True if a picture is channels-last."""
    return spec.strides[1] == 1 and spec.sizes[1] > 1


def plan_bulk_parts(
    call: StructuredCall,
    grad: TensorSpec,
    source: TensorSpec,
    out: TensorSpec,
    groups: int,
    window: Window,
) -> tuple[int, Callable[[Any, Any, Any], None]] | None:
    """Parts of float32 (splits, outputs, taps, channels), or the gradient itself where there is one: how many, and what
    writes them: ``run(parts, grad, source)`` over data at multiples of 16. None where there are none.

    Pictures of 16-bit floats, with channels innermost in both operands, or with pixels in both and one tap.
    """
    why = reason_against(call, grad, source, window)
    if why is not None:
        return refused(why)
    planes = lines_of_planes(grad, source, window)
    is_strided = window.stride != (1, 1, 1)
    gradients, pixels = picture(grad), folded(source, window) if is_strided else picture(source)
    positions: Triple = (grad.sizes[0], *grad.sizes[3:])
    if planes is not None:
        gradients, pixels, positions = planes
    elif gradients is None or pixels is None:
        return refused(
            "neither channels nor, of one tap, pixels lie side by side in whole vectors of 16 bytes, or lines are not "
            "whole strides"
        )
    outputs, channels = out.sizes[0] // groups, out.sizes[1]
    chosen = choose(call, grad, positions, outputs, channels, groups, window.taps)
    if planes is not None:
        block = (1, 1, chosen.tile[2])
    else:
        whole = whole_block(positions, chosen.tile[2])
        if whole is None:
            return refused("no block of pixels divides the gradient's lines and columns")
        block = whole
    block_m, block_n = chosen.tile[:2]
    programs = cdiv(outputs, block_m) * cdiv(channels, block_n) * window.taps * groups
    blocks = blocks_over(positions, block)
    if interpreted():
        splits = min(2, blocks)
    else:
        slots = 2 * multiprocessors(call.device) * resident(chosen)
        splits = max(1, min(cdiv(blocks, STEPS), slots // programs, MAX_SPLITS))
    chunk = cdiv(blocks, splits)
    splits = cdiv(blocks, chunk)
    _, r, s = window.kernel
    if splits == 1:
        strides = dict(zip(("wo", "wc", "wt", "wr", "ws"), out.strides, strict=True))
        del strides["wt"]
    else:
        strides = {"wo": r * s * channels, "wc": 1, "wr": s * channels if r > 1 else 0, "ws": channels}
    arguments = Arguments(integer_type(reach(out), splits * out.numel))
    arguments.wide("i32", {"blocks": blocks, "chunk": chunk})
    arguments.wide("i32", {"tiles_h": positions[1] // block[1], "tiles_w": cdiv(positions[2], block[2])})
    arguments.wide("i32", {"outputs": outputs, "channels": channels, "pitch": source.strides[4]})
    arguments.strides(1, "wc", strides)
    arguments.strides(1, None, {"part": 0 if splits == 1 else out.numel})

    def described_by(side: int, is_folded: bool = False) -> str:
        i, h, w = block
        box = (i, h, w, side) if planes is None else (i, side, h, w)
        if is_folded:
            box = (i, h, 1, w, side)
        return f"tensordesc<{grad.dtype.triton_name}[{', '.join(map(str, box))}]>"

    every = {
        "g": described_by(block_m),
        "x": described_by(block_n, is_strided),
        "out": f"*{out.dtype.triton_name if splits == 1 else 'fp32'}",
    } | arguments.signature
    kernel = convolve_backward_weight_bulk
    launch = Launch(
        call.device,
        kernel,
        {name: every[name] for name in kernel.arg_names if name in every},
        {
            **arguments.constants,
            **tap_constants(window),
            **dict(zip(("BLOCK_I", "BLOCK_H", "BLOCK_W"), block, strict=True)),
            **dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), chosen.tile, strict=True)),
            "PLANES": planes is not None,
        },
        divisible=[n for n in ("wo", "wr", "ws", "part") if arguments.values.get(n, 1) % 16 == 0],
        tensors=(gradients, pixels),
        num_warps=chosen.warps,
        num_stages=chosen.stages,
    )
    grid, numbers = (programs, splits, 1), arguments.in_order(kernel.arg_names)
    choices.chosen(
        "sums of pixels, by tensor descriptors",
        "{} lie innermost, and blocks are of {} by {} pixels",
        "channels" if planes is None else "pixels",
        block[1],
        block[2],
    )
    return splits, lambda parts, g, x: launch(grid, g.address, x.address, parts.address, *numbers)


def choose(
    call: StructuredCall,
    grad: TensorSpec,
    positions: Triple,
    outputs: int,
    channels: int,
    groups: int,
    taps: int,
) -> Configuration:
    """Return the tuned configuration, or the one whose whole waves of tiles cost least."""
    pixels = positions[0] * positions[1] * positions[2]
    if interpreted():
        tile = tuple(
            bounded(n, limit) for n, limit in zip((outputs, channels, pixels), INTERPRETED_TILE, strict=True)
        )
        return Configuration((tile[0], tile[1], min(tile[2], 16)), 4, 1, 1)
    num_multiprocessors = multiprocessors(call.device)

    def tiles(candidate: Configuration) -> int:
        return cdiv(outputs, candidate.tile[0]) * cdiv(channels, candidate.tile[1]) * taps * groups

    def spent(candidate: Configuration) -> float:
        # Parts fill the device where tiles do not.
        parts = max(1, min(2 * num_multiprocessors * resident(candidate) // tiles(candidate), MAX_SPLITS))
        return cost(candidate, tiles(candidate) * parts, cdiv(pixels, parts), num_multiprocessors)

    chosen = min(NARROW, key=spent)
    name = grad.dtype.triton_name
    assert name is not None
    return configuration(
        convolve_backward_weight_bulk, call.device, name, (outputs, channels * taps, pixels), chosen
    )

"""Plans of convolutions by tensor descriptors: which can be described, the tile and its picture, the launch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ...dispatch.structured import choices
from ...dispatch.structured.stub import StructuredCall
from ...runtime.cuda.driver import driver
from ...runtime.cuda.tensor_map import DescribedTensor
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..launch import ALIGNMENT, INT32_MAX, Launch, cdiv, integer_type, interpreted
from ..products.bulk import FIRST_DESIGN, MAX_PITCH, in_halves
from ..products.problem import FusedEpilogue, multiprocessors
from ..products.tile_cost import cost, resident
from ..tuning.choice import configuration
from .bulk_kernels import CROWDED, NARROW, TF32, convolve_bulk
from .problem import Problem
from .volume import Sums, Triple, bounded, unit_of

LONGEST_SIDE = 256
"""The most elements of a block along a dimension that a tensor map takes."""
INTERPRETED_TILE = (512, 128, 128)
"""Tile in the interpreter, where a program costs far more than its elements."""


def described(spec_sizes: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> DescribedTensor | None:
    """Return a tensor map's tensor, or None if elements are not contiguous or strides are not whole vectors.

    A dimension of size one takes the stride that the next inner dimension makes whole.
    """
    if strides[-1] != 1 and spec_sizes[-1] != 1:
        return None
    whole = ALIGNMENT // itemsize
    reached, pitches = cdiv(spec_sizes[-1], whole) * whole, [1]
    for size, stride in zip(spec_sizes[-2::-1], strides[-2::-1], strict=True):
        pitch = reached if size == 1 else stride
        if not 0 < pitch < MAX_PITCH // itemsize or pitch % whole:
            return None
        pitches.append(pitch)
        reached = max(reached, pitch * size)
    return DescribedTensor(spec_sizes, tuple(reversed(pitches)))


def picture(spec: TensorSpec) -> DescribedTensor | None:
    """Return a plane's pixels as (images, lines, pixels, channels)."""
    n, c, _, h, w = spec.sizes
    sn, sc, _, sh, sw = spec.strides
    return described((n, h, w, c), (sn, sh, sw, sc), spec.itemsize)


def filters(problem: Problem) -> tuple[DescribedTensor | None, bool]:
    """Return the weight as (columns, taps, channels), or (channels, taps, columns), and True for the first form."""
    weight = problem.weight
    k_stride, n_stride, _ = problem.weight_strides(weight)
    rows, taps = weight.sizes[3:]
    row, tap = weight.strides[3:]
    if taps == 1:
        tap = row
    elif rows > 1 and row != taps * tap:
        return None, False
    inner = k_stride == 1 or problem.channels == 1
    sizes = (problem.columns, rows * taps, problem.channels)
    strides = (n_stride, tap, k_stride)
    if not inner:
        sizes, strides = sizes[::-1], strides[::-1]
    return described(sizes, strides, weight.itemsize), inner


def block_of(positions: Triple, count: int) -> Triple:
    """Return `count` positions as images by lines by pixels, each a power of two, with the fewest blocks over
    all.

    Ties go to the block with the longest lines, since the taps of its positions share most pixels.

    Example:
        >>> from triten.triton_kernels.convolution.bulk import block_of
        >>> block_of((32, 56, 56), 128), block_of((32, 7, 7), 128), block_of((1, 64, 64), 128)
        ((2, 8, 8), (16, 1, 8), (1, 2, 64))
    """
    sides = [1 << i for i in range(count.bit_length()) if 1 << i <= LONGEST_SIDE]
    blocks = [
        (images, lines, count // (images * lines))
        for images, lines in itertools.product(sides, sides)
        if images * lines <= count and count // (images * lines) in sides
    ]
    return min(blocks, key=lambda block: (blocks_over(positions, block), -block[2], -block[1]))


def blocks_over(positions: Triple, block: Triple) -> int:
    """Return the number of blocks that cover images by lines by pixels."""
    images, lines, pixels = (cdiv(n, side) for n, side in zip(positions, block, strict=True))
    return images * lines * pixels


def is_crowded(problem: Problem, fused: FusedEpilogue) -> bool:
    """Return True if an epilogue needs so many registers that a large tile's accumulators do not fit beside it.

    This happens if it holds a second tile, or an address for each element.
    """
    has_vectors = unit_of(problem.columns) * problem.out.itemsize >= ALIGNMENT
    return fused.tiles > 1 or (fused.is_channels_last and not has_vectors)


def choose(problem: Problem, positions: Triple, is_narrow: bool) -> Configuration:
    """Return the tuned configuration, or the one whose whole waves of tiles cost least."""
    device, columns = problem.out.device, problem.columns
    inner = problem.channels * problem.window.taps
    if interpreted():
        tile = tuple(
            bounded(n, limit)
            for n, limit in zip((problem.positions, columns, problem.channels), INTERPRETED_TILE, strict=True)
        )
        return Configuration(tile, 4, 1, 1)
    candidates, num_multiprocessors = NARROW if is_narrow else TF32, multiprocessors(device)
    crowds = problem.fused is not None and is_crowded(problem, problem.fused)
    if crowds:
        candidates = CROWDED if is_narrow else TF32[1:]

    def over(candidate: Configuration) -> int:
        return blocks_over(positions, block_of(positions, candidate.tile[0])) * cdiv(
            columns, candidate.tile[1]
        )

    chosen = min(candidates, key=lambda one: cost(one, over(one), inner, num_multiprocessors))
    name = problem.source.dtype.triton_name
    assert name is not None
    if crowds:
        return chosen
    return configuration(convolve_bulk, device, name, (problem.positions, columns, inner), chosen)


def refused(why: str) -> None:
    """Tell why tensor descriptors do not serve a convolution."""
    choices.chosen("no tensor descriptors", why)


def plan_bulk(call: StructuredCall, problem: Problem, sums: Sums) -> Callable[..., None] | None:
    """Return ``run(out, source, weight, bias or None)`` over addresses that are multiples of 16, or None.

    It takes planes with strides of one, one group, and channels-last source and weight; of float32, those
    that round to TF32. If the output's pixels are contiguous, the kernel transposes a tile and stores it by
    address.
    """
    source, out, window = problem.source, problem.out, problem.window
    is_narrow = source.itemsize == 2
    if not (is_narrow or sums.precision == "tf32") or problem.groups > 1 or window.stride != (1, 1, 1):
        return refused("its dtype is exact, it has several groups, or strides are not 1")
    if driver().properties(out.device.resolved_index).design < FIRST_DESIGN:
        return refused("the device has none")
    if window.kernel[0] > 1 or window.padding[0] or source.sizes[2] > 1 or problem.channels == 0:
        return refused("it is over volumes, or there are no channels")
    if max(*source.sizes, problem.positions, problem.columns, problem.channels * window.taps) > INT32_MAX:
        return refused("a side is longer than 32 bits count")
    (weights, inner), pixels, results = filters(problem), picture(source), picture(out)
    if weights is None or pixels is None:
        return refused("channels do not lie innermost in whole vectors of 16 bytes")
    # A compiled graph's fused kernels store by address, but accumulate in the eager call's order.
    if results is None and out.strides[4] != 1 and out.sizes[4] != 1:
        return refused("neither channels nor pixels of the output lie side by side")
    fused = problem.fused
    planes = results is None if fused is None else not fused.is_channels_last
    positions = (out.sizes[0], *out.sizes[3:])
    chosen = choose(problem, positions, is_narrow)
    block_m, block_n, block_k = chosen.tile
    block = block_of(positions, block_m)
    halves = block_n >= 32 if interpreted() else in_halves(chosen)
    width = block_n // 2 if halves else block_n
    element, out_element = source.dtype.triton_name, out.dtype.triton_name
    sides = ", ".join(map(str, block))
    taps = f"{block_n}, 1, {block_k}" if inner else f"{block_k}, 1, {block_n}"
    yn, yc, _, yh, _ = out.strides
    strides = {"yn": yn, "yc": yc, "yh": yh} if planes else {} if fused is None else {"yc": problem.columns}
    y_unit, width_unit = unit_of(*strides.values()), unit_of(positions[2]) if planes else 1
    numbers = {
        "images": positions[0],
        "lines": positions[1],
        "pixels": positions[2] // width_unit,
        "columns": problem.columns,
        "channels": problem.channels,
    }
    kinds = dict.fromkeys(numbers, "i32")
    strides = {name: stride // y_unit for name, stride in strides.items()}
    numbers |= strides
    kinds |= {name: integer_type(stride) for name, stride in strides.items()}
    bias = problem.bias
    # An epilogue stores by addresses.
    by_address = planes or fused is not None
    kernel = convolve_bulk if fused is None else fused.kernel("convolve_bulk")
    signature = {
        "x": f"tensordesc<{element}[{sides}, {block_k}]>",
        "w": f"tensordesc<{element}[{taps}]>",
        **({} if bias is None else {"bias": f"*{bias.dtype.triton_name}"}),
        "out": f"*{out_element}" if by_address else f"tensordesc<{out_element}[{sides}, {width}]>",
        **({} if fused is None else fused.pointers),
        **kinds,
    }
    (_, up, left), (_, down, right) = window.padding, window.dilation
    sign = -1 if problem.transposed else 1
    launch = Launch(
        call.device,
        kernel,
        signature,
        {
            **({"bias": None} if bias is None else {}),
            "bs": 0 if bias is None else bias.strides[0],
            "R": window.kernel[1],
            "S": window.kernel[2],
            "START_H": -sign * up,
            "START_W": -sign * left,
            "STEP_H": sign * down,
            "STEP_W": sign * right,
            "INNER": inner,
            "PRECISION": sums.precision,
            **dict(zip(("BLOCK_I", "BLOCK_H", "BLOCK_W"), block, strict=True)),
            **dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), chosen.tile, strict=True)),
            "HALVES": halves,
            "PLANES": planes,
            "Y_UNIT": y_unit,
            "WIDTH_UNIT": width_unit,
            **{name: None for name in ("yn", "yc", "yh") if name not in strides},
        },
        elements=() if fused is None else fused.elements,
        tensors=(pixels, weights) if by_address or results is None else (pixels, weights, results),
        num_warps=chosen.warps,
        num_stages=chosen.stages,
    )
    tiles = blocks_over(positions, block) * cdiv(problem.columns, block_n)
    grid = (min(tiles, multiprocessors(out.device) * resident(chosen)), 1, 1)
    values = tuple(numbers.values())

    def run(out_data: Any, data: Any, weight: Any, offset: Any, *rest: int) -> None:
        if offset is None:
            launch(grid, data.address, weight.address, out_data.address, *rest, *values)
        else:
            launch(grid, data.address, weight.address, offset.address, out_data.address, *rest, *values)

    return run

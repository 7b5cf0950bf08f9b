"""Tensor maps of convolutions: what the driver can describe, blocks of positions, and how kernels find a tap."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from ...runtime.cuda.tensor_map import DescribedTensor
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..launch import ALIGNMENT, cdiv
from ..products.bulk import MAX_PITCH
from .problem import Problem
from .volume import Triple, Window

LONGEST_SIDE = 256
"""The most elements of a block along a dimension that a tensor map takes."""


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


def block_of(positions: Triple, count: int) -> Triple:
    """Return `count` positions as images by lines by pixels, each a power of two, with the fewest blocks over
    all.

    Ties go to the block with the longest lines, since the taps of its positions share most pixels.

    Example:
        >>> from triten.triton_kernels.convolution.maps import block_of
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


def tiles_over(positions: Triple, columns: int, candidate: Configuration) -> int:
    """Return the number of tiles that cover positions and columns."""
    return blocks_over(positions, block_of(positions, candidate.tile[0])) * cdiv(columns, candidate.tile[1])


class Maps(NamedTuple):
    """Tensors that a convolution's tensor maps describe.

    Args:
        pixels: the source, folded by the strides if there are any and the convolution is not transposed.
        weights: the weight.
        inner: If True, the weight's contiguous dimension is the channels that are summed.
        results: the output, folded if the convolution is transposed with strides; None if it is planes.
        positions: images, lines and pixels of the output, of one phase if it is folded.
    """

    pixels: DescribedTensor
    weights: DescribedTensor
    inner: bool
    results: DescribedTensor | None
    positions: Triple


def block_types(problem: Problem, maps: Maps, chosen: Configuration, block: Triple) -> dict[str, str]:
    """Return the signature's entries of the source and the weight."""
    element, (i, h, w) = problem.source.dtype.triton_name, block
    block_n, block_k = chosen.tile[1:3]
    is_folded = len(maps.pixels.sizes) == 5
    sides = (i, h, 1, w, block_k) if is_folded else (i, h, w, block_k)
    taps = (block_n, 1, block_k) if maps.inner else (block_k, 1, block_n)
    return {
        name: f"tensordesc<{element}[{', '.join(map(str, box))}]>"
        for name, box in (("x", sides), ("w", taps))
    }


def tap_constants(window: Window, backwards: bool = False) -> dict[str, object]:
    """Return the constants by which kernels find the pixels of a tap; in a transposed convolution it goes backwards."""
    _, *strides = window.stride
    sign = -1 if backwards else 1
    constants: dict[str, object] = {"R": window.kernel[1], "S": window.kernel[2]}
    for letter, stride, padding, dilation in zip(
        "HW", strides, window.padding[1:], window.dilation[1:], strict=True
    ):
        start = -sign * padding
        constants |= {f"START_{letter}": start, f"STEP_{letter}": sign * dilation}
        constants |= {f"S{letter}": stride, f"LIFT_{letter}": cdiv(max(-start, 0), stride)}
    return constants

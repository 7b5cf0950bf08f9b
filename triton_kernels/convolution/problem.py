"""Convolution problem as kernels see it: a source, a weight, and positions that gather from the source."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...runtime.tensor_spec import TensorSpec
from ..launch import cdiv
from ..products.problem import FusedEpilogue
from .volume import Triple, Window


@dataclass(frozen=True)
class Problem:
    """A convolution, or one that is transposed: the gradient of an input is one, its source the gradient.

    Args:
        source, weight, out: volumes (N, C, D, H, W); the weight is (outputs, inputs / groups, *kernel) as of the
            convolution that is transposed.
        bias: (columns * groups,), or None.
        groups: Number of channel groups.
        window: Window of the convolution, or of the one that is transposed.
        transposed: If True, the convolution is transposed.
        fused: what a compiled graph computes of the output before it is stored, or instead.
    """

    source: TensorSpec
    weight: TensorSpec
    bias: TensorSpec | None
    out: TensorSpec
    groups: int
    window: Window
    transposed: bool
    fused: FusedEpilogue | None = None

    @property
    def channels(self) -> int:
        """Channels of the source in a group, which are summed."""
        return self.source.sizes[1] // self.groups

    @property
    def columns(self) -> int:
        """Channels of the output in a group."""
        return self.out.sizes[1] // self.groups

    @property
    def positions(self) -> int:
        """Pixels of the output."""
        n, _, *spatial = self.out.sizes
        return n * math.prod(spatial)

    @property
    def products(self) -> int:
        """Multiplications; a tap of a transposed convolution meets one position in a stride."""
        every = self.positions * self.columns * self.groups * self.channels * self.window.taps
        return every // (math.prod(self.window.stride) if self.transposed else 1)

    @property
    def phases(self) -> int:
        """Number of classes of positions with taps of their own."""
        return math.prod(self.window.stride) if self.transposed else 1

    @property
    def positions_of_phase(self) -> int:
        """Positions of the largest phase."""
        if not self.transposed:
            return self.positions
        n, _, *spatial = self.out.sizes
        return n * math.prod(cdiv(size, s) for size, s in zip(spatial, self.window.stride, strict=True))

    @property
    def leaps(self) -> Triple:
        """Step between taps of the same phase."""
        depth, height, width = (
            s // math.gcd(s, d) for s, d in zip(self.window.stride, self.window.dilation, strict=True)
        )
        return depth, height, width

    @property
    def may_lie_outside(self) -> tuple[bool, bool, bool]:
        """For each dimension whether a tap of some position may lie outside the source."""
        window, source, out = self.window, self.source.sizes[2:], self.out.sizes[2:]
        depth, height, width = (
            padding > 0 or (self.transposed and (taps > 1 or have != want))
            for taps, padding, have, want in zip(window.kernel, window.padding, source, out, strict=True)
        )
        return depth, height, width

    def weight_strides(self, weight: TensorSpec) -> tuple[int, int, int]:
        """Return strides along the channels that are summed, along columns, and from group to group."""
        first, second = weight.strides[:2]
        if self.transposed:
            return first, second, first * (weight.sizes[0] // self.groups)
        return second, first, first * self.columns

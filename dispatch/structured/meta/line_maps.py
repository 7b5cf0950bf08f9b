"""Maps between positions along an input and an output dimension, shared by padding and interpolation.

An operator is a `LineMap` for each of its last dimensions. Along each dimension, element o of the result is a weighted
sum of a few input elements, the *taps* of o. The gradient of an input element gathers the gradients of the results that
have it as a tap.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..stub import StructuredCall

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ....runtime.data_ptr import DataPtr


class Kind(enum.IntEnum):
    """Taps of position o; `i` is o minus the left border."""

    KEEP = 0
    """o itself."""
    CONSTANT = 1
    """i, or no element at a constant border."""
    REFLECT = 2
    """i, mirrored at the first and at the last element."""
    REPLICATE = 3
    """i, or the nearest element."""
    NEAREST = 4
    """The element that contains scale o."""
    NEAREST_EXACT = 5
    """The element that contains scale (o + 1/2)."""
    LINEAR = 6
    """The two elements around the source of o."""
    CUBIC = 7
    """The four elements around it, weighted by Keys' kernel with a = -0.75 (R. G. Keys, 1981)."""
    LINEAR_ANTIALIASED = 8
    """All elements under a triangle as wide as the scale."""
    CUBIC_ANTIALIASED = 9
    """All elements under Keys' kernel with a = -0.5, as wide as the scale."""

    @property
    def moves(self) -> bool:
        """True if elements move unchanged: each has one tap of weight 1 or none."""
        return self <= Kind.NEAREST_EXACT

    @property
    def is_antialiased(self) -> bool:
        """True if the number of taps depends on the scale."""
        return self >= Kind.LINEAR_ANTIALIASED


class LineMap(NamedTuple):
    """Map from a dimension of `n` elements to one of `out`.

    `pad` is the left border; a negative one crops elements. `scale` is the number of input elements per result element;
    with `align_corners` the first and the last elements coincide.
    """

    kind: Kind
    n: int
    out: int
    pad: int = 0
    scale: float = 1.0
    align_corners: bool = False

    @property
    def taps(self) -> int:
        """How many taps a position has at most."""
        if self.kind is Kind.LINEAR:
            return 2
        if self.kind is Kind.CUBIC:
            return 4
        return 2 * math.ceil(self.support) + 1 if self.kind.is_antialiased else 1

    @property
    def support(self) -> float:
        """How far the kernel of an antialiased map reaches."""
        radius = 1.0 if self.kind is Kind.LINEAR_ANTIALIASED else 2.0
        return radius * max(self.scale, 1.0)


def source_scale(n: int, out: int, align_corners: bool, scale_factor: float | None) -> float:
    """Return the input elements per element of the result (ATen/native/UpSample.h, area_pixel_compute_scale)."""
    if align_corners:
        return (n - 1) / (out - 1) if out > 1 else 0.0
    return 1.0 / scale_factor if scale_factor is not None and scale_factor > 0 else n / out


Kernel = Callable[..., None]


def fixed_maps(call: StructuredCall) -> tuple[LineMap, ...] | None:
    """Return the maps for all calls of a plan; None if scale factors are arguments of each call."""
    maps: tuple[LineMap, ...] = call.extra["maps"]
    factors = [call.args[name] for name in call.runtime if name.startswith("scales")]
    if not factors:
        return maps
    if any(factor is not None for factor in factors):
        return None
    return tuple(
        [line._replace(scale=source_scale(line.n, line.out, line.align_corners, None)) for line in maps]
    )


def by_factors(call: StructuredCall, make: Callable[[tuple[LineMap, ...]], Kernel]) -> Kernel:
    """Return a kernel over (output, input, then the scale factors, which are numbers of the call).

    ``make(maps)`` gives a kernel over (output, input); recent factors are cached.
    """
    maps: tuple[LineMap, ...] = call.extra["maps"]
    count = sum(name.startswith("scales") for name in call.runtime)
    if count == 0:
        return make(maps)

    @functools.lru_cache(maxsize=32)
    def made(*factors: float | None) -> Kernel:
        return make(
            tuple(
                line._replace(scale=source_scale(line.n, line.out, line.align_corners, factor))
                for line, factor in zip(maps, factors, strict=True)
            )
        )

    def into(out: DataPtr | NDArray[Any], array: DataPtr | NDArray[Any], *factors: float | None) -> None:
        made(*factors)(out, array)

    return into

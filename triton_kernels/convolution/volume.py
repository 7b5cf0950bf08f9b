"""Convolutions of 1, 2 and 3 spatial dimensions as 3-D convolutions: missing dimensions have size one.

Kernels take strides divided by a unit that all of them share, so that the compiler knows the vector length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...dispatch.structured.meta.convolution import for_each_dimension
from ...dispatch.structured.stub import StructuredCall
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.float32_precision import convolution_allows_tf32
from ...runtime.memory_format import channels_last_strides
from ...runtime.tensor_spec import TensorSpec
from ..launch import interpreted, next_power_of_2

VECTOR = 16
"""The largest unit: what `Launch` calls divisible, and at least 128 bits of any dtype."""
BYTES = 16
"""A vector of the widest access."""
SMALLEST_SIDE = 16
"""The smallest side of a tile that `tl.dot` takes."""

Triple = tuple[int, int, int]


class Window(NamedTuple):
    """Taps and how they lie, for each of three dimensions."""

    kernel: Triple
    stride: Triple
    padding: Triple
    dilation: Triple

    @property
    def taps(self) -> int:
        """Number of taps."""
        return math.prod(self.kernel)

    @property
    def is_pointwise(self) -> bool:
        """True if each position reads only the source element at its own position."""
        return self.kernel == self.stride == (1, 1, 1) and self.padding == (0, 0, 0)

    def constants(self) -> dict[str, object]:
        """Return the kernels' constexprs."""
        rows = (
            (("T", "R", "S"), self.kernel),
            (("SD", "SH", "SW"), self.stride),
            (("PD", "PH", "PW"), self.padding),
            (("DD", "DH", "DW"), self.dilation),
        )
        return {name: value for names, values in rows for name, value in zip(names, values, strict=True)}


def window_of(call: StructuredCall, kernel: Sequence[int]) -> Window:
    """Return the window of a call's arguments over three dimensions."""

    def three(values: Sequence[int], neutral: int) -> Triple:
        values = for_each_dimension(values, len(kernel))
        depth, height, width = (neutral,) * (3 - len(values)) + tuple(values)
        return depth, height, width

    args = call.args
    return Window(
        three(kernel, 1), three(args["stride"], 1), three(args["padding"], 0), three(args["dilation"], 1)
    )


def as_volume(spec: TensorSpec) -> TensorSpec:
    """View (A, B, *spatial) as (A, B, D, H, W); dimensions of one element have a stride of 0."""
    missing = 5 - spec.ndim
    sizes = (*spec.sizes[:2], *(1,) * missing, *spec.sizes[2:])
    strides = (*spec.strides[:2], *(0,) * missing, *spec.strides[2:])
    folded = tuple(0 if n == 1 and i > 1 else s for i, (n, s) in enumerate(zip(sizes, strides, strict=True)))
    return spec.replace(sizes=sizes, strides=folded)


def channels_last(spec: TensorSpec, channels: int | None = None) -> TensorSpec:
    """Return a volume's sizes channels-last; `channels` above its own count adds padding."""
    n, c, *spatial = spec.sizes
    return as_volume(
        spec.replace(sizes=spec.sizes, strides=channels_last_strides((n, channels or c, *spatial)))
    )


def unit_of(*numbers: int) -> int:
    """Return the largest power of two, at most `VECTOR`, that divides all of them.

    Example:
        >>> from triten.triton_kernels.convolution.volume import unit_of
        >>> unit_of(64, 24), unit_of(0), unit_of(48, 3)
        (8, 16, 1)
    """
    return math.gcd(VECTOR, *numbers)


class Arguments:
    """A kernel's runtime numbers as they are collected: signature, constants and values by name."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.signature: dict[str, str] = {}
        self.constants: dict[str, object] = {}
        self.values: dict[str, int] = {}

    def sizes(self, unit: int = 1, **sizes: int) -> None:
        """Add element counts, divided by `unit`; spatial counts of 1 are constexprs."""
        for name, size in sizes.items():
            if size == 1 and name in ("d", "h", "od", "oh"):
                self.constants[name] = 1
            else:
                self.values[name] = size // unit
                self.signature[name] = "i32"

    def strides(self, unit: int, inner: str | None, strides: Mapping[str, int]) -> None:
        """Strides, divided by `unit` but for `inner`, which is 1 and a constant, as those of 0 are."""
        for name, stride in strides.items():
            if stride == 0 or (name == inner and stride == 1):
                self.constants[name] = stride
            else:
                self.values[name] = stride if name == inner else stride // unit
                self.signature[name] = self.kind

    def wide(self, kind: str, values: Mapping[str, int]) -> None:
        """Add numbers with a separate type."""
        self.values |= values
        self.signature |= dict.fromkeys(values, kind)

    def in_order(self, names: Iterable[str]) -> tuple[int, ...]:
        """Return the values in the order of the kernel's arguments."""
        return tuple(self.values[name] for name in names if name in self.values)


class Sums(NamedTuple):
    """How products add up: the accumulator, and how `tl.dot` multiplies float32."""

    type: Any
    precision: str
    is_exact: bool = False
    """True if operands are float32 and keep its precision, which needs separate tiles."""

    def constants(self) -> dict[str, object]:
        """Return the kernels' constexprs."""
        return {"ACCUMULATOR": self.type, "PRECISION": self.precision}


ROUNDED_INTERPRETED = False
"""If True, the interpreter rounds to TF32 if allowed. This makes nothing faster; tests of the rounding set it."""


def rounds_to_tf32() -> bool:
    """Return True if float32 convolutions round their operands to TF32: allowed, and on tensor cores."""
    return convolution_allows_tf32() and (ROUNDED_INTERPRETED or not interpreted())


def sums_of(call: StructuredCall, spec: TensorSpec) -> Sums:
    """In float32, float64 for itself. Refuses what is no float of 16 bits or more: convolutions have none."""
    name = spec.dtype.name
    if name == "float64":
        return Sums(tl.float64, "ieee")
    if name == "float32":
        return Sums(tl.float32, "tf32") if rounds_to_tf32() else Sums(tl.float32, "ieee", is_exact=True)
    if name in ("float16", "bfloat16"):
        return Sums(tl.float32, "ieee")
    raise call.refuse(spec)


def reach(*specs: TensorSpec) -> int:
    """Return a bound on the offsets within tensors, and of nearby masked lanes."""
    return 2 * max(sum(n * abs(s) for n, s in zip(spec.sizes, spec.strides, strict=True)) for spec in specs)


def bounded(size: int, limit: int) -> int:
    """Return a power of two that covers the size, within a tile's limits."""
    return min(max(next_power_of_2(size), SMALLEST_SIDE), limit)

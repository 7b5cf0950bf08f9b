"""Windows over quantized images: greatest elements, means, other sizes.

Means are sums of integers, multiplied by the inverse of their number in float32 and rounded
(ATen/native/quantized/cpu/AveragePool2d.cpp, AdaptiveAveragePooling.cpp, UpSampleBilinear2d.cpp).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....runtime.quantized_data import LIMITS
from ....runtime.scalar_type import float32, float64, qint32
from ...generated import functions as ops
from .pointwise import check_uniform
from .structure import rewrapped
from .table import find


def exact(self: Any) -> Any:
    """The integers in a floating dtype that holds them all, less the zero point."""
    quantizer = check_uniform("pooling", self)
    wide = float64 if self._spec.dtype is qint32 else float32
    return self._data.ints.to(wide) - quantizer.zero_point


def through_integers(name: str) -> Callable[..., Any]:
    """An operator that picks elements, such as the greatest one of a window."""
    entry = find(f"aten::{name}")

    def pick(self: Any, *rest: Any) -> Any:
        check_uniform(name, self)
        ints = self._data.ints
        wide = float64 if self._spec.dtype is qint32 else float32
        return rewrapped(self, entry.call(ints.to(wide), *rest).to(ints.dtype))

    pick.__module__ = __name__
    return pick


def means(self: Any, sums: Any, counts: Any) -> Any:
    """Sums of integers less their zero points, over numbers of elements, on the grid of the argument."""
    zero_point = self._data.quantizer.zero_point
    least, greatest = LIMITS[self._spec.dtype]
    inverse = counts.reciprocal() if hasattr(counts, "_spec") else float(np.float32(1) / np.float32(counts))
    steps = (sums.to(float32) * inverse + zero_point).round().to(float64).clamp(least, greatest)
    return rewrapped(self, steps.to(self._data.ints.dtype))


def avg_pool(name: str) -> Callable[..., Any]:
    """The means of windows."""
    entry = find(f"aten::{name}")

    def pool(
        self: Any,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Any:
        numbers = exact(self)
        sums = entry.call(numbers, kernel_size, stride, padding, ceil_mode, True, 1)
        if divisor_override is not None:
            return means(self, sums, divisor_override)
        if not any(padding) and not ceil_mode:
            return means(self, sums, math.prod(kernel_size))
        ones = ops.ones_like(numbers[:1, :1] if numbers._spec.ndim == len(kernel_size) + 2 else numbers[:1])
        filled = entry.call(ones, kernel_size, stride, padding, ceil_mode, True, 1)
        parts = entry.call(ones, kernel_size, stride, padding, ceil_mode, count_include_pad, None)
        return means(self, sums, (filled / parts).round())

    pool.__module__ = __name__
    return pool


def adaptive_avg_pool(name: str) -> Callable[..., Any]:
    """The means of as many windows as the output has elements."""
    entry = find(f"aten::{name}")

    def pool(self: Any, output_size: Sequence[int]) -> Any:
        numbers = exact(self)
        spatial = self._spec.sizes[-len(output_size) :]
        counts: Any = 1.0
        for position, (size, wanted) in enumerate(zip(spatial, output_size, strict=True)):
            lengths = [
                -(-(i + 1) * size // wanted) - i * size // wanted if wanted else 0 for i in range(wanted)
            ]
            shape = [wanted if d == position else 1 for d in range(len(output_size))]
            counts = ops.reshape(_on(numbers, lengths), shape) * counts
        averages = entry.call(numbers, output_size)
        return means(self, (averages * counts).round(), counts)

    pool.__module__ = __name__
    return pool


def _on(numbers: Any, values: Sequence[int]) -> Any:
    from ...tensor_data import tensor

    return tensor([float(v) for v in values], dtype=float32, device=numbers.device)


def upsample_bilinear2d(
    self: Any,
    output_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Any:
    """Elements between four others, on the same grid; each product and sum rounds to float32, columns first."""
    quantizer = check_uniform("upsample_bilinear2d", self)
    if self._spec.ndim != 4 or len(output_size) != 2 or min(output_size) < 1 or not self._spec.numel:
        # The floating operator names what is wrong.
        ops.upsample_bilinear2d(self._data.ints.to(float32), output_size, align_corners, scales_h, scales_w)
    numbers = self._data.ints.to(float32)
    height, width = self._spec.sizes[-2:]
    rows = _neighbours(numbers, height, output_size[0], align_corners, scales_h)
    columns = _neighbours(numbers, width, output_size[1], align_corners, scales_w)
    above, below = (_between(ops.index_select(numbers, 2, each), 3, columns) for each in rows[:2])
    found = _weighted(above, below, *(ops.unsqueeze(each, 1) for each in rows[2:]))
    zero_point = quantizer.zero_point
    ints = ops._quantize_affine(found - zero_point, 1.0, zero_point, self._spec.dtype)
    return rewrapped(self, ints)


Neighbours = tuple[Any, Any, Any, Any]
"""For each element of the output: two places in the input, and the weights of both."""


def _neighbours(like: Any, size: int, wanted: int, align_corners: bool, scale: float | None) -> Neighbours:
    """The neighbours along one dimension, computed in float32 (ATen/native/UpSample.h)."""
    from ...tensor_data import tensor

    places = np.arange(wanted, dtype=np.float32)
    if align_corners:
        step = np.float32(size - 1) / np.float32(wanted - 1) if wanted > 1 else np.float32(0)
        places = places * step
    else:
        step = np.float32(1 / scale) if scale else np.float32(size) / np.float32(wanted)
        places = np.maximum(step * (places + np.float32(0.5)) - np.float32(0.5), np.float32(0))
    first = np.minimum(places.astype(np.int64), size - 1)
    second = np.minimum(first + 1, size - 1)
    weight = places - first.astype(np.float32)
    made = (first, second, np.float32(1) - weight, weight)
    first, second, weight, other = (tensor(each, device=like.device) for each in made)
    return first, second, weight, other


def _between(numbers: Any, dim: int, neighbours: Neighbours) -> Any:
    first, second, *weights = neighbours
    pair = (ops.index_select(numbers, dim, each) for each in (first, second))
    return _weighted(*pair, *weights)


def _weighted(first: Any, second: Any, weight: Any, other: Any) -> Any:
    return first * weight + second * other


PICKED = (
    *("max_pool1d", "max_pool2d", "max_pool3d"),
    *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
    *("_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
)

KERNELS: dict[str, Callable[..., Any]] = {
    **{name: through_integers(name) for name in PICKED},
    **{f"quantized_max_pool{n}d": through_integers(f"max_pool{n}d") for n in (1, 2, 3)},
    "avg_pool2d": avg_pool("avg_pool2d"),
    "avg_pool3d": avg_pool("avg_pool3d"),
    "_adaptive_avg_pool2d": adaptive_avg_pool("_adaptive_avg_pool2d"),
    "_adaptive_avg_pool3d": adaptive_avg_pool("_adaptive_avg_pool3d"),
    "adaptive_avg_pool2d": adaptive_avg_pool("_adaptive_avg_pool2d"),
    "adaptive_avg_pool3d": adaptive_avg_pool("_adaptive_avg_pool3d"),
    "upsample_bilinear2d": upsample_bilinear2d,
}

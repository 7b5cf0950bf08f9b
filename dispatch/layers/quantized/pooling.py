"""Pooling and interpolation of quantized images.

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
from .pointwise import LANES, are_channels_last, check_uniform, require_quantized
from .structure import rewrapped
from .table import find

single = np.float32


def exact(self: Any) -> Any:
    """Return the integers minus the zero point, in a floating dtype that represents them exactly."""
    quantizer = check_uniform("pooling", self)
    wide = float64 if self._spec.dtype is qint32 else float32
    return self._data.ints.to(wide) - quantizer.zero_point


def through_integers(name: str) -> Callable[..., Any]:
    """Return an operator that selects elements, such as the maximum of a window."""
    entry = find(f"aten::{name}")

    def pick(self: Any, *rest: Any) -> Any:
        check_uniform(name, self)
        ints = self._data.ints
        wide = float64 if self._spec.dtype is qint32 else float32
        return rewrapped(self, entry.call(ints.to(wide), *rest).to(ints.dtype))

    pick.__module__ = __name__
    return pick


def means(self: Any, sums: Any, inverse: Any, offset: int) -> Any:
    """Multiply sums of integers by inverse counts and add a zero point, with the quantizer of the argument."""
    least, greatest = LIMITS[self._spec.dtype]
    steps = sums.to(float32) * inverse
    if offset:
        steps = steps + float(single(offset))
    return rewrapped(self, steps.round().to(float64).clamp(least, greatest).to(self._data.ints.dtype))


def means_of_channels_last(self: Any, sums: Any, counts: Any, is_adaptive: bool) -> Any:
    """Compute means as PyTorch's channels-last kernels do, which invert element counts three times.

    Vectors of 8-bit integers add the zero point to rounded means, or round the sum with it once if adaptive.
    """
    zero_point, dtype = self._data.quantizer.zero_point, self._spec.dtype
    inverse = inverse_of(counts)
    again = inverse_of(inverse_of(inverse))
    if dtype is qint32 or self._spec.sizes[1] < LANES:
        return means(self, sums, again, zero_point)
    if not is_adaptive:
        return rewrapped(self, ops._requantize(sums.to(float32), inverse, zero_point, dtype))
    steps = (sums.to(float64) * again + zero_point).to(float32)
    return rewrapped(self, ops._requantize(steps, 1.0, 0, dtype))


def inverse_of(counts: Any) -> Any:
    """Return one over a number or numbers in float32."""
    return counts.to(float32).reciprocal() if hasattr(counts, "_spec") else float(single(1) / single(counts))


def avg_pool(name: str) -> Callable[..., Any]:
    """Return the operator that computes the means of windows."""
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
        counts: Any = divisor_override
        if counts is None and not any(padding) and not ceil_mode:
            counts = math.prod(kernel_size)
        elif counts is None:
            batched = numbers._spec.ndim == len(kernel_size) + 2
            ones = ops.ones_like(numbers[:1, :1] if batched else numbers[:1])
            filled = entry.call(ones, kernel_size, stride, padding, ceil_mode, True, 1)
            parts = entry.call(ones, kernel_size, stride, padding, ceil_mode, count_include_pad, None)
            counts = (filled / parts).round()
        if are_channels_last(self) or name == "avg_pool3d":
            return means_of_channels_last(self, sums, counts, False)
        return means(self, sums, inverse_of(counts), self._data.quantizer.zero_point)

    pool.__module__ = __name__
    return pool


def adaptive_avg_pool(name: str) -> Callable[..., Any]:
    """Return the operator that averages one window for each output element, over the integers as they are."""
    entry = find(f"aten::{name}")

    def pool(self: Any, output_size: Sequence[int]) -> Any:
        require_quantized(name, self)
        numbers = exact(self)
        pooled = entry.call(numbers, output_size)  # it checks the sizes
        counts, inverse = window_sizes(self._spec.sizes[-len(output_size) :], output_size)
        sizes = _on(numbers, counts).to(numbers.dtype)
        sums = (pooled * sizes).round()
        if are_channels_last(self):
            return means_of_channels_last(self, sums, sizes, True)
        return means(self, sums + sizes * self._data.quantizer.zero_point, _on(numbers, inverse), 0)

    pool.__module__ = __name__
    return pool


def window_sizes(spatial: Sequence[int], output_size: Sequence[int]) -> tuple[Any, Any]:
    """Return the window sizes and their inverses, divided by one dimension after the other."""
    counts, inverse = np.ones((), single), np.ones((), single)
    for size, out_size in zip(spatial, output_size, strict=True):
        starts = np.arange(out_size) * size // max(out_size, 1)
        ends = -(-(np.arange(out_size) + 1) * size // max(out_size, 1))
        lengths = (ends - starts).astype(single)
        counts, inverse = counts[..., None] * lengths, inverse[..., None] / lengths
    return counts, inverse


def _on(numbers: Any, values: Any) -> Any:
    from ...tensor_data import tensor

    return tensor(values, device=numbers.device)


def upsample_bilinear2d(
    self: Any,
    output_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Any:
    """Interpolate bilinearly on the same grid, columns first.

    Products and sums round to float32 one by one; if channels-last, one of two products and the sum round once.
    """
    quantizer = check_uniform("upsample_bilinear2d", self)
    if self._spec.ndim != 4 or len(output_size) != 2 or min(output_size) < 1 or not self._spec.numel:
        # The floating-point operator raises the error.
        ops.upsample_bilinear2d(self._data.ints.to(float32), output_size, align_corners, scales_h, scales_w)
    height, width = self._spec.sizes[-2:]
    fuses = are_channels_last(self)
    if (height, width) == tuple(output_size) and not fuses:
        return rewrapped(self, self._data.ints.clone())
    numbers = self._data.ints.to(float32)
    rows = _neighbours(numbers, height, output_size[0], align_corners, scales_h, fuses)
    columns = _neighbours(numbers, width, output_size[1], align_corners, scales_w, fuses)
    weighted = _weighted
    if fuses:
        by_vectors = self._spec.dtype is not qint32 and self._spec.sizes[1] >= LANES
        weighted = _second_fused if by_vectors else _first_fused
    above, below = (_between(ops.index_select(numbers, 2, each), 3, columns, weighted) for each in rows[:2])
    interpolated = weighted(above, below, *(ops.unsqueeze(each, 1) for each in rows[2:]))
    zero_point = quantizer.zero_point
    ints = ops._quantize_affine(interpolated - zero_point, 1.0, zero_point, self._spec.dtype)
    return rewrapped(self, ints)


Neighbours = tuple[Any, Any, Any, Any]
"""Two input positions of each output element, with their weights."""


def _neighbours(
    like: Any, size: int, out_size: int, align_corners: bool, scale: float | None, fuses: bool
) -> Neighbours:
    """Return the neighbors along one dimension, computed in float32 (ATen/native/UpSample.h).

    With `fuses` the product with the distance of centers and the difference after it round once.
    """
    from ...tensor_data import tensor

    indices = np.arange(out_size, dtype=single)
    if align_corners:
        step = single(size - 1) / single(out_size - 1) if out_size > 1 else single(0)
        coordinates = step * indices
    else:
        step = single(1 / scale) if scale else single(size) / single(out_size)
        # Products of float32 are exact in float64.
        wide = np.float64 if fuses else single
        centers = wide(step) * (indices + single(0.5)) - wide(0.5)
        coordinates = np.maximum(centers.astype(single), single(0))
    first = np.minimum(coordinates.astype(np.int64), size - 1)
    second = np.minimum(first + 1, size - 1)
    weight = coordinates - first.astype(single)
    made = (first, second, single(1) - weight, weight)
    lower, upper, near, far = (tensor(each, device=like.device) for each in made)
    return lower, upper, near, far


def _between(numbers: Any, dim: int, neighbours: Neighbours, weighted: Callable[..., Any]) -> Any:
    first, second, *weights = neighbours
    pair = (ops.index_select(numbers, dim, each) for each in (first, second))
    return weighted(*pair, *weights)


def _weighted(first: Any, second: Any, weight: Any, other: Any) -> Any:
    return first * weight + second * other


def _first_fused(first: Any, second: Any, weight: Any, other: Any) -> Any:
    return (first.to(float64) * weight + second * other).to(float32)


def _second_fused(first: Any, second: Any, weight: Any, other: Any) -> Any:
    return _first_fused(second, first, other, weight)


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

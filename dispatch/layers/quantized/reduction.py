"""Means and deviations of quantized tensors (ATen/native/quantized/cpu/ReduceOps.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....runtime.quantized_data import LIMITS
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.scalar_type import float32, float64, int64
from ...composite.quantized import numbers_of, quantized_by
from ...generated import functions as ops
from .pointwise import check_uniform
from .structure import rewrapped


def mean_dim(self: Any, dim: int | Sequence[int] | None, keepdim: bool, dtype: ScalarType | None) -> Any:
    """Compute the mean of the values, with the quantizer of the argument."""
    quantizer = check_uniform("mean", self)
    if dtype is not None and dtype is not self._spec.dtype:
        raise RuntimeError(f"mean: expected the dtype {self._spec.dtype} of a quantized tensor, got {dtype}")
    if not self._data.ints.is_contiguous() or not are_innermost(dim, self._spec.ndim):
        return quantized_by(ops.mean(numbers_of(self), dim, keepdim), quantizer, self._spec.dtype)
    ints = self._data.ints
    sums = ops.sum(ints, dim, keepdim, dtype=int64)
    count = ints._spec.numel // max(sums._spec.numel, 1)
    steps = (sums.to(float32) / float(np.float32(count))).round()
    least, greatest = LIMITS[self._spec.dtype]
    return rewrapped(self, steps.to(float64).clamp(least, greatest).to(ints.dtype))


def are_innermost(dim: int | Sequence[int] | None, ndim: int) -> bool:
    """Return True if a reduction is over the last dimensions, whose integers PyTorch sums without dequantizing."""
    if dim is None or dim == () or not ndim:
        return True
    dims = {d % ndim for d in (dim if isinstance(dim, list | tuple) else (dim,))}
    return dims == set(range(ndim - len(dims), ndim))


def mean(self: Any, dtype: ScalarType | None) -> Any:
    return mean_dim(self, None, False, dtype)


def std_correction(self: Any, dim: int | Sequence[int] | None, correction: Any, keepdim: bool) -> Any:
    """Compute the standard deviation of the values, with the quantizer of the argument."""
    quantizer = check_uniform("std", self)
    deviation = ops.std(numbers_of(self), dim, correction=correction, keepdim=keepdim)
    return quantized_by(deviation, quantizer, self._spec.dtype)


def std(self: Any, unbiased: bool) -> Any:
    return std_correction(self, None, int(unbiased), False)


def std_dim(self: Any, dim: int | Sequence[int] | None, unbiased: bool, keepdim: bool) -> Any:
    return std_correction(self, dim, int(unbiased), keepdim)


KERNELS = {
    "mean.dim": mean_dim,
    "mean": mean,
    "std": std,
    "std.dim": std_dim,
    "std.correction": std_correction,
}

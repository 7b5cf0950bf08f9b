"""Sums and softmax of sparse tensors, as `tt.sparse` calls them (ATen/native/sparse/)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...runtime.scalar_type import bfloat16, float16, float32, int64
from ...runtime.scalar_type import dtype as ScalarType
from ..generated import functions as ops


def _sparse_sum(self: Any) -> Any:
    """Compute the sum of all elements; its gradient is sparse."""
    if not self._spec.ndim:
        return self.to_dense()
    total = ops._sparse_sum(self, tuple(range(self._spec.ndim)))
    return total if total.dtype.is_floating_point or total.dtype.is_complex else total.to(int64)


def _sparse_sum_dtype(self: Any, dtype: ScalarType) -> Any:
    """Compute the sum of all elements in another dtype."""
    return _sparse_sum(self.to(dtype))


def _sparse_sum_dim_dtype(self: Any, dim: Sequence[int], dtype: ScalarType) -> Any:
    """Compute the sum over dimensions in another dtype."""
    return ops._sparse_sum(self.to(dtype), dim)


def _sparse_softmax_int(self: Any, dim: int, dtype: ScalarType | None) -> Any:
    """Compute softmax, after a conversion to `dtype`."""
    return _converted(ops._sparse_softmax, self, dim, dtype)


def _sparse_log_softmax_int(self: Any, dim: int, dtype: ScalarType | None) -> Any:
    """Compute log-softmax, after a conversion to `dtype`."""
    return _converted(ops._sparse_log_softmax, self, dim, dtype)


def _converted(function: Any, self: Any, dim: int, dtype: ScalarType | None) -> Any:
    half_to_float = dtype is float32 and self.dtype in (float16, bfloat16) and self.is_cuda
    converted = self if dtype is None or half_to_float else self.to(dtype)
    return function(converted, dim, half_to_float)

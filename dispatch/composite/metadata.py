"""Sizes, strides and elements as numbers (ATen/native/TensorProperties.cpp, Scalar.cpp)."""

from __future__ import annotations

from typing import Any


def sym_size(self: Any, dim: int) -> int:
    """The size of a dimension."""
    size: int = self.size(dim)
    return size


def sym_stride(self: Any, dim: int) -> int:
    """The stride of a dimension, in elements."""
    stride: int = self.stride(dim)
    return stride


def sym_numel(self: Any) -> int:
    """The number of elements."""
    count: int = self.numel()
    return count


def sym_storage_offset(self: Any) -> int:
    """The first element's place in the storage, in elements."""
    offset: int = self.storage_offset()
    return offset


def _local_scalar_dense(self: Any) -> Any:
    """The first element as a number. Raises RuntimeError for a tensor without any."""
    if self.numel() == 0:
        raise RuntimeError("_local_scalar_dense: Empty tensor not supported")
    return self.reshape(-1)[0].item()

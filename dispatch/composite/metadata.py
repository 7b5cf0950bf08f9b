"""Sizes, strides and elements as numbers (ATen/native/TensorProperties.cpp, Scalar.cpp)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...runtime.scalar_type import Number
    from ..tensor import Tensor


def sym_size(self: Tensor, dim: int) -> int:
    """Return the size of a dimension."""
    size: int = self.size(dim)
    return size


def sym_stride(self: Tensor, dim: int) -> int:
    """Return the stride of a dimension, in elements."""
    stride: int = self.stride(dim)
    return stride


def sym_numel(self: Tensor) -> int:
    """Return the number of elements."""
    count: int = self.numel()
    return count


def sym_storage_offset(self: Tensor) -> int:
    """Return the first element's offset in the storage, in elements."""
    offset: int = self.storage_offset()
    return offset


def _local_scalar_dense(self: Tensor) -> Number:
    """Return the first element as a number. Raises RuntimeError for a tensor without elements."""
    if self.numel() == 0:
        raise RuntimeError("_local_scalar_dense: Empty tensor not supported")
    number: Number = self.reshape(-1)[0].item()
    return number


def item(self: Tensor) -> Number:
    """Return the one element as a number. Raises RuntimeError for a tensor of none or several."""
    number: Number = self.item()
    return number

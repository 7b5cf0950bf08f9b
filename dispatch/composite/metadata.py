"""Sizes, strides and elements as numbers (ATen/native/TensorProperties.cpp, Scalar.cpp)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...runtime.scalar_type import Number
    from ..tensor import Tensor


def sym_size(self: Tensor, dim: int) -> int:
    """The size of a dimension."""
    size: int = self.size(dim)
    return size


def sym_stride(self: Tensor, dim: int) -> int:
    """The stride of a dimension, in elements."""
    stride: int = self.stride(dim)
    return stride


def sym_numel(self: Tensor) -> int:
    """The number of elements."""
    count: int = self.numel()
    return count


def sym_storage_offset(self: Tensor) -> int:
    """The first element's place in the storage, in elements."""
    offset: int = self.storage_offset()
    return offset


def _local_scalar_dense(self: Tensor) -> Number:
    """The first element as a number. Raises RuntimeError for a tensor without any."""
    if self.numel() == 0:
        raise RuntimeError("_local_scalar_dense: Empty tensor not supported")
    number: Number = self.reshape(-1)[0].item()
    return number


def item(self: Tensor) -> Number:
    """The one element as a number. Raises RuntimeError for a tensor of none or several."""
    number: Number = self.item()
    return number

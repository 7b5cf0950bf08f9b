"""Sizes, strides and elements as numbers (ATen/native/TensorProperties.cpp, Scalar.cpp)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime import memory_format as mf

if TYPE_CHECKING:
    from ...runtime.scalar_type import Number
    from ..tensor import Tensor


def dim(self: Tensor) -> int:
    """Return the number of dimensions."""
    return self._spec.ndim


def sizes(self: Tensor) -> list[int]:
    """Return the sizes of all dimensions."""
    return list(self._spec.sizes)


def strides(self: Tensor) -> list[int]:
    """Return the strides of all dimensions, in elements."""
    return list(self._spec.strides)


def is_contiguous(self: Tensor, memory_format: mf.memory_format = mf.contiguous_format) -> bool:
    """Return True if the tensor is contiguous in a memory format."""
    return self._spec.is_contiguous_in(memory_format)


def is_strides_like_format(self: Tensor, memory_format: mf.memory_format) -> bool:
    """Return True if the strides have the order of a memory format."""
    return self._spec.is_strides_like(memory_format)


def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Return True if two tensors have the same sizes."""
    return bool(self.is_same_size(other))


def is_complex(self: Tensor) -> bool:
    """Return True if the dtype is complex."""
    return bool(self.is_complex())


def is_floating_point(self: Tensor) -> bool:
    """Return True if the dtype is floating."""
    return bool(self.is_floating_point())


def is_signed(self: Tensor) -> bool:
    """Return True if the dtype has negative values."""
    return bool(self.is_signed())


def is_inference(self: Tensor) -> bool:
    """Return True if the tensor was made in inference mode."""
    return bool(self.is_inference())


def is_nonzero(self: Tensor) -> bool:
    """Return True if the one element is not zero."""
    return bool(self.is_nonzero())


def is_coalesced(self: Tensor) -> bool:
    """Return True if a sparse tensor's indices are sorted and unique."""
    return bool(self.is_coalesced())


def _nnz(self: Tensor) -> int:
    """Return the number of a sparse tensor's specified elements."""
    return int(self._nnz())


def sparse_dim(self: Tensor) -> int:
    """Return the number of a sparse tensor's sparse dimensions."""
    return int(self.sparse_dim())


def dense_dim(self: Tensor) -> int:
    """Return the number of a sparse tensor's dense dimensions."""
    return int(self.dense_dim())


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

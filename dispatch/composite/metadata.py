"""Sizes, strides and elements as numbers (ATen/native/TensorProperties.cpp, Scalar.cpp)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...runtime import memory_format as mf
from ...runtime.device import CPU
from ...runtime.scalar_type import int64
from ..tensor_data import tensor

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


def shape_as_tensor(self: Tensor) -> Tensor:
    """Return the sizes of all dimensions as an int64 tensor on the CPU."""
    return tensor(self._spec.sizes, dtype=int64, device=CPU)


def is_contiguous(self: Tensor, memory_format: mf.memory_format = mf.contiguous_format) -> bool:
    """Return True if the tensor is contiguous in a memory format."""
    return self._spec.is_contiguous_in(memory_format)


def is_strides_like_format(self: Tensor, memory_format: mf.memory_format) -> bool:
    """Return True if the strides have the order of a memory format."""
    return self._spec.is_strides_like(memory_format)


def _answer_of(method: str, kind: type) -> Callable[..., Any]:
    """Return the operator that asks a method of the tensor."""

    def answer(self: Tensor, *args: Any) -> Any:
        return kind(getattr(self, method)(*args))

    answer.__name__ = answer.__qualname__ = method
    return answer


is_same_size = _answer_of("is_same_size", bool)
is_complex = _answer_of("is_complex", bool)
is_floating_point = _answer_of("is_floating_point", bool)
is_signed = _answer_of("is_signed", bool)
is_inference = _answer_of("is_inference", bool)
is_nonzero = _answer_of("is_nonzero", bool)
is_coalesced = _answer_of("is_coalesced", bool)
_nnz = _answer_of("_nnz", int)
sparse_dim = _answer_of("sparse_dim", int)
dense_dim = _answer_of("dense_dim", int)


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

"""Tensors over others' memory: the buffer protocol, and DLPack on the host (torch/utils/dlpack.py).

On CUDA arrays are exchanged by ``__cuda_array_interface__``, which `tt.as_tensor` and CuPy read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.errors import not_a_tensor
from ...runtime.quantized_data import QUANTIZED_BIT
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from ..core.tensor_function import overridable

if TYPE_CHECKING:
    from ..tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object

HOST = 1, 0
"""DLPack's CPU."""


class InterchangeMethods(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    def __dlpack__(self, **options: Any) -> Any:
        """A capsule over this tensor's memory (`torch.Tensor.__dlpack__`; options are those of the Array API).

        Raises BufferError for a tensor that requires grad, or that is not on the CPU, and for dtypes that DLPack, or
        NumPy, which makes the capsule, does not have.
        """
        if self._spec.requires_grad:
            raise BufferError(
                "Can't export tensors that require gradient, use tensor.detach(): the capsule would lose the history"
            )
        if self._spec.keys & QUANTIZED_BIT:
            raise BufferError(f"QUInt/QInt types are not supported by dlpack, got {self._spec.dtype}")
        self._check_host()
        tensor: Tensor = self  # type: ignore[assignment]
        return tensor.host_array().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's name of the CPU. Raises BufferError for other devices."""
        self._check_host()
        return HOST

    def _check_host(self) -> None:
        if self._spec.device.type != "cpu":
            raise BufferError(
                f"__dlpack__: expected a tensor on the CPU, but got one on {self._spec.device}; memory of CUDA is "
                "shown by __cuda_array_interface__"
            )


class _Consumable:
    """A bare capsule as NumPy wants it."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return HOST


@api_boundary
def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor over the memory of another library's array (`torch.from_dlpack`).

    Args:
        ext_tensor: An object with ``__dlpack__`` on the CPU, or a capsule; of a CUDA device one with
            ``__cuda_array_interface__``, such as CuPy's arrays.

    Returns:
        A tensor of the same shape and dtype; writes to one are seen in the other.

    Raises:
        TypeError: `ext_tensor` is anything else.
        BufferError: The array is on another device.

    Example:
        >>> import numpy as np, triten as tt
        >>> array = np.zeros(3)
        >>> tt.from_dlpack(array)[1] = 5
        >>> array
        array([0., 5., 0.])
    """
    from ..tensor_data import as_tensor, from_numpy, shows_device_memory

    if shows_device_memory(ext_tensor):
        return as_tensor(ext_tensor)
    if type(ext_tensor).__name__ == "PyCapsule":
        ext_tensor = _Consumable(ext_tensor)
    if not hasattr(ext_tensor, "__dlpack__"):
        raise TypeError(
            f"from_dlpack(): expected an object with __dlpack__ or a capsule, but got {type(ext_tensor).__name__}"
        )
    return from_numpy(np.from_dlpack(ext_tensor))


@overridable
def to_dlpack(tensor: Tensor) -> Any:
    """A capsule over a tensor's memory, which can be taken once (`torch.to_dlpack`).

    Args:
        tensor: A tensor that does not require grad.

    Returns:
        The capsule, for another library's ``from_dlpack``.

    Raises:
        BufferError: `tensor` requires grad.

    Example:
        >>> import triten as tt
        >>> tt.from_dlpack(tt.to_dlpack(tt.ones(2)))
        tensor([1., 1.])
    """
    if not isinstance(tensor, TensorImpl):
        raise not_a_tensor(tensor, "to_dlpack", "tensor")
    made: Any = tensor
    return made.__dlpack__()


@api_boundary
def frombuffer(
    buffer: Any, *, dtype: ScalarType, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A vector over an object's bytes (`torch.frombuffer`).

    Args:
        buffer: What has the buffer protocol: bytes, bytearray, array.array, memoryview, mmap. A read-only object
            gives a tensor that refuses writes.
        dtype: The dtype of the elements.
        count: How many elements; all of them for a negative number.
        offset: How many bytes are left out at the beginning.
        requires_grad: Whether autograd records operations on the result.

    Returns:
        A tensor of one dimension over the same memory.

    Raises:
        ValueError: `buffer` has no buffer protocol, `offset` is outside of it, or bytes are too few or left over.

    Example:
        >>> import triten as tt
        >>> tt.frombuffer(bytearray(b"abcd"), dtype=tt.uint8, offset=2)
        tensor([ 99, 100], dtype=triten.uint8)
    """
    from ..tensor_data import from_numpy

    try:
        view = memoryview(buffer)
    except TypeError as error:
        raise ValueError("object does not implement Python buffer protocol.") from error
    length, size = view.nbytes, dtype.itemsize
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    if count < 0 and (length - offset) % size:
        raise ValueError(
            f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element size "
            f"({size})"
        )
    elements = (length - offset) // size if count < 0 else count
    if offset + elements * size > length:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater than "
            f"actual buffer length ({length} bytes)"
        )
    made = from_numpy(np.frombuffer(buffer, dtype.np, elements, offset))
    return made.requires_grad_() if requires_grad else made

"""Arrays of others' objects: numbers, sequences, NumPy's arrays, DLPack and the buffer protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..dispatch import tensor_data
from ..dispatch.generated import functions
from ..dispatch.methods import interchange
from ..runtime.device import device as Device
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.tensor_impl import TensorImpl

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["asarray", "from_dlpack"]

Place: TypeAlias = Device | str | None


def asarray(
    obj: Any, /, *, dtype: ScalarType | None = None, device: Place = None, copy: bool | None = None
) -> Tensor:
    """Make an array from a number, a nested sequence, another array, or an object that exports its memory.

    Args:
        obj: A number, nested sequences of numbers or arrays, an array, a NumPy array, or an object with DLPack or the
            buffer protocol.
        dtype: Dtype of the result. Default: that of `obj`, or the default dtype of a Python number's kind.
        device: Device of the result. Default: that of `obj`, or the default device.
        copy: True always copies, False never does, None does if it must.

    Returns:
        An array.

    Raises:
        ValueError: `copy` is False and the result cannot share `obj`'s memory.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.asarray.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.asarray([[1, 2], [3, 4]])
        tensor([[1, 2],
                [3, 4]])
    """
    if isinstance(obj, TensorImpl):
        tensor: Tensor = obj  # type: ignore[assignment]
    elif isinstance(obj, bool | int | float | complex | list | tuple | range) and not isinstance(
        obj, np.generic
    ):
        if copy is False:
            raise ValueError(
                "asarray(): Python objects become an array only by a copy, which copy=False forbids"
            )
        return _of_python(obj, dtype, device)
    elif isinstance(obj, np.ndarray | np.generic):
        tensor = _of_numpy(np.asarray(obj), copy)
        device = functions.empty((0,)).device if device is None else device
    elif hasattr(obj, "__dlpack__"):
        tensor = interchange.from_dlpack(obj)
    else:
        tensor = _of_numpy(np.asarray(memoryview(obj)), copy)
        device = functions.empty((0,)).device if device is None else device
    dtype = tensor.dtype if dtype is None else dtype
    target_device = tensor.device if device is None else Device(device)
    if tensor.dtype is dtype and tensor.device == target_device:
        return tensor.clone() if copy else tensor
    if copy is False:
        raise ValueError(
            f"asarray(): {tensor.dtype} on {tensor.device} becomes {dtype} on {target_device} only by a copy, "
            "which copy=False forbids"
        )
    return tensor.to(device=target_device, dtype=dtype)


def _of_python(obj: Any, dtype: ScalarType | None, device: Place) -> Tensor:
    if isinstance(obj, list | tuple) and _holds_arrays(obj):
        return _stacked(obj, dtype, device)
    return tensor_data.tensor(list(obj) if isinstance(obj, range) else obj, dtype=dtype, device=device)


def _holds_arrays(obj: Any) -> bool:
    return isinstance(obj, TensorImpl) or (isinstance(obj, list | tuple) and any(map(_holds_arrays, obj)))


def _stacked(obj: Any, dtype: ScalarType | None, device: Place) -> Tensor:
    """Nested sequences with arrays among their elements."""
    from .manipulation_functions import stack

    parts = [asarray(each, dtype=dtype, device=device) for each in obj]
    return stack(parts)


def _of_numpy(array: np.ndarray[Any, Any], copy: bool | None) -> Tensor:
    """Return a tensor over an array's memory, or over a copy if PyTorch's tensors cannot have its strides."""
    contiguous = all(stride >= 0 for stride in array.strides) and array.flags.writeable
    if not contiguous or not array.dtype.isnative:
        if copy is False:
            raise ValueError(
                "asarray(): an array with negative strides, read-only memory or another byte order is only copied, "
                "which copy=False forbids"
            )
        array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    return tensor_data.from_numpy(array)


def from_dlpack(x: Any, /, *, device: Place = None, copy: bool | None = None) -> Tensor:
    """Make an array over the memory of another library's array.

    Args:
        x: An object with ``__dlpack__``.
        device: Device of the result. Default: that of `x`.
        copy: True always copies, False never does, None does if it must.

    Returns:
        An array.

    Raises:
        ValueError: `copy` is False and `device` is another one.
        BufferError: `x` is on a device whose memory cannot be shared.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.from_dlpack.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.from_dlpack(xp.ones(2))
        tensor([1., 1.])
    """
    if not isinstance(x, TensorImpl):
        return asarray(interchange.from_dlpack(x), device=device, copy=copy)
    own: Tensor = x  # type: ignore[assignment]
    return asarray(own.detach(), device=device, copy=copy)

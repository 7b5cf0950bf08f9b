"""Creation functions of the standard."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from ..dispatch import tensor_data
from ..dispatch.generated import functions
from ..dispatch.methods import interchange
from ..runtime import scalar_type as st
from ..runtime.device import device as Device
from ..runtime.scalar_type import Number
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.tensor_impl import TensorImpl

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

Shape: TypeAlias = int | Sequence[int]
Place: TypeAlias = Device | str | None


def _sizes(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def asarray(
    obj: Any, /, *, dtype: ScalarType | None = None, device: Place = None, copy: bool | None = None
) -> Tensor:
    """An array of a number, a nested sequence, another array, or whatever shows its memory.

    Args:
        obj: A number, nested sequences of numbers or arrays, an array, a NumPy array, or an object with DLPack or the
            buffer protocol.
        dtype: The dtype of the result; by default `obj`'s, for Python numbers the default one of their kind.
        device: The device of the result; by default `obj`'s, or the default device.
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
    place = tensor.device if device is None else Device(device)
    if tensor.dtype is dtype and tensor.device == place:
        return tensor.clone() if copy else tensor
    if copy is False:
        raise ValueError(
            f"asarray(): {tensor.dtype} on {tensor.device} becomes {dtype} on {place} only by a copy, "
            "which copy=False forbids"
        )
    return tensor.to(device=place, dtype=dtype)


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
    """A tensor over an array's memory, or over a copy's, where PyTorch's tensors cannot have its strides."""
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
    """An array over the memory of another library's.

    Args:
        x: An object with ``__dlpack__``.
        device: The device of the result; by default `x`'s.
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


def empty(shape: Shape, *, dtype: ScalarType | None = None, device: Place = None) -> Tensor:
    """An array without values of its own.

    Args:
        shape: Its sizes; an int for one dimension.
        dtype: Its dtype; by default the default floating dtype.
        device: Its device.

    Returns:
        An array.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.empty.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.empty((2, 3)).shape
        triten.Size([2, 3])
    """
    return functions.empty(_sizes(shape), dtype=dtype, device=device)


def zeros(shape: Shape, *, dtype: ScalarType | None = None, device: Place = None) -> Tensor:
    """An array of zeros.

    Args:
        shape: Its sizes; an int for one dimension.
        dtype: Its dtype; by default the default floating dtype.
        device: Its device.

    Returns:
        An array.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.zeros.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.zeros(2)
        tensor([0., 0.])
    """
    return functions.zeros(_sizes(shape), dtype=dtype, device=device)


def ones(shape: Shape, *, dtype: ScalarType | None = None, device: Place = None) -> Tensor:
    """An array of ones.

    Args:
        shape: Its sizes; an int for one dimension.
        dtype: Its dtype; by default the default floating dtype.
        device: Its device.

    Returns:
        An array.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.ones.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.ones(2, dtype=xp.int8)
        tensor([1, 1], dtype=triten.int8)
    """
    return functions.ones(_sizes(shape), dtype=dtype, device=device)


def full(
    shape: Shape, fill_value: Number, *, dtype: ScalarType | None = None, device: Place = None
) -> Tensor:
    """An array of one number.

    Args:
        shape: Its sizes; an int for one dimension.
        fill_value: The number, or an array without dimensions.
        dtype: Its dtype; by default the default one of the number's kind.
        device: Its device.

    Returns:
        An array.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.full.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.full(2, 7)
        tensor([7, 7])
    """
    if isinstance(fill_value, TensorImpl):
        value = asarray(fill_value, dtype=dtype, device=device)
        return value.expand(_sizes(shape)).clone()
    return functions.full(_sizes(shape), fill_value, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: ScalarType | None = None, device: Place = None) -> Tensor:
    """An array without values, of another one's shape.

    Args:
        x: An array.
        dtype: The dtype of the result; by default `x`'s.
        device: The device of the result; by default `x`'s.

    Returns:
        An array.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.empty_like.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.empty_like(xp.ones(3)).shape
        triten.Size([3])
    """
    return functions.empty_like(x, dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: ScalarType | None = None, device: Place = None) -> Tensor:
    """An array of zeros, of another one's shape.

    Args:
        x: An array.
        dtype: The dtype of the result; by default `x`'s.
        device: The device of the result; by default `x`'s.

    Returns:
        An array.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.zeros_like.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.zeros_like(xp.ones(3))
        tensor([0., 0., 0.])
    """
    return functions.zeros_like(x, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: ScalarType | None = None, device: Place = None) -> Tensor:
    """An array of ones, of another one's shape.

    Args:
        x: An array.
        dtype: The dtype of the result; by default `x`'s.
        device: The device of the result; by default `x`'s.

    Returns:
        An array.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.ones_like.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.ones_like(xp.zeros(3))
        tensor([1., 1., 1.])
    """
    return functions.ones_like(x, dtype=dtype, device=device)


def full_like(
    x: Tensor, /, fill_value: Number, *, dtype: ScalarType | None = None, device: Place = None
) -> Tensor:
    """An array of one number, of another one's shape.

    Args:
        x: An array.
        fill_value: The number.
        dtype: The dtype of the result; by default `x`'s.
        device: The device of the result; by default `x`'s.

    Returns:
        An array.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.full_like.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.full_like(xp.zeros(3), 2)
        tensor([2., 2., 2.])
    """
    return full(
        tuple(x.shape),
        fill_value,
        dtype=x.dtype if dtype is None else dtype,
        device=x.device if device is None else device,
    )


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: ScalarType | None = None,
    device: Place = None,
) -> Tensor:
    """Numbers at equal distances.

    Args:
        start: The first number; if `stop` is left out, where they end, and the first is 0.
        stop: Where they end; it is not among them.
        step: The distance; if it leads away from `stop`, the result is empty.
        dtype: Its dtype; by default int64 for ints, else the default floating dtype.
        device: Its device.

    Returns:
        An array of one dimension.

    Raises:
        ValueError: `step` is 0.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.arange.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.arange(5, 0, -2)
        tensor([5, 3, 1])
    """
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("arange(): step must not be 0")
    if dtype is None:
        integral = all(isinstance(each, int) for each in (start, stop, step))
        dtype = st.int64 if integral else st.get_default_dtype()
    if (stop - start) / step <= 0:
        return functions.empty((0,), dtype=dtype, device=device)
    return functions.arange(start, stop, step, dtype=dtype, device=device)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: ScalarType | None = None,
    device: Place = None,
    endpoint: bool = True,
) -> Tensor:
    """A number of numbers at equal distances.

    Args:
        start: The first number.
        stop: The last one, or the one after the last.
        num: How many.
        dtype: Its dtype; by default the default floating dtype, or its complex one.
        device: Its device.
        endpoint: Whether `stop` is among them.

    Returns:
        An array of one dimension.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.linspace.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.linspace(0, 1, 4, endpoint=False)
        tensor([0.0000, 0.2500, 0.5000, 0.7500])
    """
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    if dtype is None:
        dtype = st.get_default_dtype().to_complex() if is_complex else st.get_default_dtype()
    if not endpoint:
        return linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]
    if dtype.is_complex:
        first, last, part = complex(start), complex(stop), dtype.to_real()
        return functions.complex(
            functions.linspace(first.real, last.real, num, dtype=part, device=device),
            functions.linspace(first.imag, last.imag, num, dtype=part, device=device),
        )
    return functions.linspace(start, stop, num, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: ScalarType | None = None,
    device: Place = None,
) -> Tensor:
    """A matrix with ones on a diagonal and zeros elsewhere.

    Args:
        n_rows: The number of rows.
        n_cols: The number of columns; by default that of rows.
        k: The diagonal: 0 the main one, positive ones above it.
        dtype: Its dtype; by default the default floating dtype.
        device: Its device.

    Returns:
        An array of two dimensions.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.eye.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.eye(2, 3, k=1)
        tensor([[0., 1., 0.],
                [0., 0., 1.]])
    """
    n_cols = n_rows if n_cols is None else n_cols
    if k == 0:
        return functions.eye(n_rows, n_cols, dtype=dtype, device=device)
    out = functions.zeros((n_rows, n_cols), dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        functions.diagonal(out, k).fill_(1)
    return out


def meshgrid(*arrays: Tensor, indexing: Literal["xy", "ij"] = "xy") -> tuple[Tensor, ...]:
    """Coordinates of a grid.

    Args:
        *arrays: The coordinates along each axis, of one dimension.
        indexing: ``"xy"`` puts the second array first in the shape, ``"ij"`` keeps the order.

    Returns:
        As many arrays, each of the grid's shape.

    Raises:
        ValueError: There is no such indexing.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.meshgrid.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.meshgrid(xp.asarray([1, 2]), xp.asarray([3, 4]))[1]
        tensor([[3, 3],
                [4, 4]])
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid(): expected indexing 'xy' or 'ij', got {indexing!r}")
    rank = len(arrays)
    order = list(range(rank))
    if indexing == "xy" and rank > 1:
        order[:2] = 1, 0
    shape = [math.prod(arrays[each].shape) for each in order]
    grids = []
    for position, array in enumerate(arrays):
        sizes = [1] * rank
        sizes[order.index(position)] = -1
        grids.append(array.reshape(sizes).expand(shape))
    return tuple(grids)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The lower triangles of matrices; zeros elsewhere.

    Args:
        x: An array of at least two dimensions.
        k: The diagonal above which there are zeros.

    Returns:
        An array of `x`'s shape.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.tril.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.tril(xp.ones((2, 2)))
        tensor([[1., 0.],
                [1., 1.]])
    """
    return functions.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The upper triangles of matrices; zeros elsewhere.

    Args:
        x: An array of at least two dimensions.
        k: The diagonal below which there are zeros.

    Returns:
        An array of `x`'s shape.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.triu.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.triu(xp.ones((2, 2)))
        tensor([[1., 1.],
                [0., 1.]])
    """
    return functions.triu(x, k)

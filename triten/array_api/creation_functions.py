"""Creation functions of the standard, but for those that take others' objects (`conversion_functions`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..dispatch.generated import functions
from ..runtime import scalar_type as st
from ..runtime.scalar_type import Number
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.tensor_impl import TensorImpl
from .conversion_functions import Place, asarray

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = [
    "arange",
    "empty",
    "empty_like",
    "eye",
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


def _sizes(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def empty(shape: Shape, *, dtype: ScalarType | None = None, device: Place = None) -> Tensor:
    """Allocate an array with uninitialized values.

    Args:
        shape: Sizes of the array; an int means one dimension.
        dtype: Dtype of the array. Default: the default floating dtype.
        device: Device of the array. Default: the default device.

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
    """Make an array of zeros.

    Args:
        shape: Sizes of the array; an int means one dimension.
        dtype: Dtype of the array. Default: the default floating dtype.
        device: Device of the array. Default: the default device.

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
    """Make an array of ones.

    Args:
        shape: Sizes of the array; an int means one dimension.
        dtype: Dtype of the array. Default: the default floating dtype.
        device: Device of the array. Default: the default device.

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
    """Make an array filled with one number.

    Args:
        shape: Sizes of the array; an int means one dimension.
        fill_value: Number to fill in, or a 0-d array.
        dtype: Dtype of the array. Default: the default dtype of the number's kind.
        device: Device of the array. Default: the default device.

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
    """Allocate an array of another array's shape with uninitialized values.

    Args:
        x: An array.
        dtype: Dtype of the result. Default: that of `x`.
        device: Device of the result. Default: that of `x`.

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
    """Make an array of zeros with another array's shape.

    Args:
        x: An array.
        dtype: Dtype of the result. Default: that of `x`.
        device: Device of the result. Default: that of `x`.

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
    """Make an array of ones with another array's shape.

    Args:
        x: An array.
        dtype: Dtype of the result. Default: that of `x`.
        device: Device of the result. Default: that of `x`.

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
    """Make an array filled with one number, with another array's shape.

    Args:
        x: An array.
        fill_value: Number to fill in.
        dtype: Dtype of the result. Default: that of `x`.
        device: Device of the result. Default: that of `x`.

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
    """Return evenly spaced numbers with a given step.

    Args:
        start: First number; without `stop`, the excluded end, and the first number is 0.
        stop: End of the interval, which is excluded.
        step: Distance between numbers; if it leads away from `stop`, the result is empty. Default: 1.
        dtype: Dtype of the array. Default: int64 for ints, else the default floating dtype.
        device: Device of the array. Default: the default device.

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
    """Make an array of evenly spaced numbers.

    Args:
        start: First number.
        stop: Last number, or the one after the last without `endpoint`.
        num: Number of values.
        dtype: Dtype of the array. Default: the default floating dtype, or its complex counterpart.
        device: Device of the array. Default: the default device.
        endpoint: If True, include `stop`.

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
    """Make a matrix with ones on a diagonal and zeros elsewhere.

    Args:
        n_rows: Number of rows.
        n_cols: Number of columns. Default: `n_rows`.
        k: Diagonal of the ones: 0 is the main diagonal, positive ones are above it. Default: 0.
        dtype: Dtype of the array. Default: the default floating dtype.
        device: Device of the array. Default: the default device.

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
    """Return the coordinate arrays of a grid.

    Args:
        *arrays: The coordinates along each axis, of one dimension.
        indexing: ``"xy"`` puts the second array first in the shape, ``"ij"`` keeps the order.

    Returns:
        One array for each argument, of the grid's shape.

    Raises:
        ValueError: `indexing` is neither ``"xy"`` nor ``"ij"``.

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
    """Return the lower triangles of matrices, with zeros elsewhere.

    Args:
        x: An array of at least two dimensions.
        k: Diagonal above which elements are zero. Default: 0.

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
    """Return the upper triangles of matrices, with zeros elsewhere.

    Args:
        x: An array of at least two dimensions.
        k: Diagonal below which elements are zero. Default: 0.

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

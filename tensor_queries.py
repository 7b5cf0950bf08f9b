"""Questions about tensors as functions of the root, and coordinates made of shapes alone (`torch`).

The root re-exports them. What a tensor answers itself is its method of the same name.
"""

from __future__ import annotations

from typing import Any

from .dispatch.core.tensor_function import overridable
from .dispatch.generated import functions as _ops
from .dispatch.tensor import Tensor
from .runtime.scalar_type import bool_, int32, int64

__all__ = [
    "is_complex",
    "is_floating_point",
    "is_nonzero",
    "is_tensor",
    "numel",
    "tril_indices",
    "triu_indices",
    "unravel_index",
]


def is_tensor(obj: object, /) -> bool:
    """Whether an object is a tensor (`torch.is_tensor`).

    Example:
        >>> import triten as tt
        >>> tt.is_tensor(tt.ones(1)), tt.is_tensor(1.0)
        (True, False)
    """
    return isinstance(obj, Tensor)


@overridable
def numel(input: Any) -> int:
    """How many elements a tensor has (`torch.numel`).

    Example:
        >>> import triten as tt
        >>> tt.numel(tt.ones(2, 3))
        6
    """
    count: int = input.numel()
    return count


@overridable
def is_complex(input: Any) -> bool:
    """Whether a tensor's dtype is complex (`torch.is_complex`)."""
    return bool(input.is_complex())


@overridable
def is_floating_point(input: Any) -> bool:
    """Whether a tensor's dtype is a float (`torch.is_floating_point`)."""
    return bool(input.is_floating_point())


@overridable
def is_nonzero(input: Any) -> bool:
    """Whether a tensor's only element is not zero (`torch.is_nonzero`). Raises RuntimeError for several or none.

    Example:
        >>> import triten as tt
        >>> tt.is_nonzero(tt.tensor([2.0]))
        True
    """
    if input.numel() == 0:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
    if input.numel() > 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(input.item() != 0)


def _triangle(row: int, col: int, offset: int, dtype: Any, device: Any, upper: bool) -> Any:
    name = "triu_indices" if upper else "tril_indices"
    for side, size in (("row", row), ("col", col)):
        if size < 0:
            raise RuntimeError(f"{side} must be non-negative, got{size}")
    if dtype not in (int32, int64):
        raise NotImplementedError(f"\"{name}\" not implemented for '{dtype.scalar_name}'")
    ones = _ops.ones(row, col, dtype=bool_, device=device)
    inside = _ops.triu(ones, offset) if upper else _ops.tril(ones, offset)
    return inside.nonzero().t().contiguous().to(dtype)


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = int64, device: Any = None, layout: Any = None
) -> Any:
    """Rows and columns of a matrix' lower triangle, (2, n), row by row (`torch.tril_indices`).

    Args:
        row, col: the sizes of the matrix.
        offset: of the diagonal up to which elements count.

    Raises RuntimeError for negative sizes, NotImplementedError for dtypes but int32 and int64.

    Example:
        >>> import triten as tt
        >>> tt.tril_indices(2, 2).tolist()
        [[0, 1, 1], [0, 0, 1]]
    """
    return _triangle(row, col, offset, dtype, device, False)


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = int64, device: Any = None, layout: Any = None
) -> Any:
    """Rows and columns of a matrix' upper triangle, (2, n), row by row (`torch.triu_indices`).

    Example:
        >>> import triten as tt
        >>> tt.triu_indices(2, 2).tolist()
        [[0, 0, 1], [0, 1, 1]]
    """
    return _triangle(row, col, offset, dtype, device, True)


@overridable
def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """The coordinates, in an array of this shape, of positions in its flattened form (`torch.unravel_index`).

    Args:
        indices: integers; those that are no positions wrap around.
        shape: an integer, a sequence of them, or a vector.

    Raises TypeError for other indices and shapes, ValueError for negative sizes.

    Example:
        >>> import triten as tt
        >>> tt.unravel_index(tt.tensor([4, 2]), (3, 2))
        (tensor([2, 1]), tensor([0, 0]))
    """
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype is bool_:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if isinstance(shape, Tensor):
        shape = shape.tolist()
    if not isinstance(shape, int | list | tuple):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for size in sizes:
        if not isinstance(size, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(size)}")
    if any(size < 0 for size in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    indices, places = indices.to(int64), []
    step = 1
    for size in reversed(sizes):
        coordinate = _ops.floor_divide(indices, step)
        places.append(_ops.remainder(coordinate, size) if size else coordinate)
        step *= size
    return tuple(reversed(places))

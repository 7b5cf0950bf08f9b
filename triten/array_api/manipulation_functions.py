"""Manipulation functions of the standard: shapes, order, joining, repetition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..dispatch.generated import functions
from ..dispatch.iterator import broadcast
from ..runtime.tensor_impl import TensorImpl
from .axes import normalized, reduced
from .promotion import common_dtype

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = [
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """Broadcast arrays to their common shape, as views.

    Args:
        *arrays: Arrays whose shapes broadcast.

    Returns:
        A view of each array.

    Raises:
        ValueError: The shapes do not broadcast.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.broadcast_arrays.html

    Example:
        >>> import triten.array_api as xp
        >>> [x.shape for x in xp.broadcast_arrays(xp.ones(3), xp.ones((2, 1)))]
        [triten.Size([2, 3]), triten.Size([2, 3])]
    """
    shape = broadcast_shapes(*(array.shape for array in arrays))
    return tuple(array.expand(shape) for array in arrays)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which shapes broadcast.

    Args:
        *shapes: Shapes.

    Returns:
        A tuple of sizes; an empty tuple without arguments.

    Raises:
        ValueError: The shapes do not broadcast.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.broadcast_shapes.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.broadcast_shapes((2, 1), (3,))
        (2, 3)
    """
    try:
        return tuple(broadcast.broadcast_shapes(*shapes))
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """Broadcast an array to another shape, as a view.

    Args:
        x: An array.
        shape: Shape to which `x` broadcasts.

    Returns:
        A view.

    Raises:
        ValueError: `x`'s shape does not broadcast to it.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.broadcast_to.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.broadcast_to(xp.asarray([1, 2]), (2, 2))
        tensor([[1, 2],
                [1, 2]])
    """
    if broadcast_shapes(tuple(x.shape), tuple(shape)) != tuple(shape):
        raise ValueError(f"broadcast_to(): an array of shape {tuple(x.shape)} has no shape {tuple(shape)}")
    return x.expand(tuple(shape))


def _of_common_dtype(arrays: Sequence[Tensor]) -> list[Tensor]:
    dtype = common_dtype(list(arrays))
    return [array if dtype is None or array.dtype is dtype else array.to(dtype) for array in arrays]


def concat(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Concatenate arrays along an axis.

    Args:
        arrays: Arrays whose shapes are equal except in `axis`.
        axis: Axis to concatenate along; None flattens the arrays. Default: 0.

    Returns:
        An array of the promoted dtype.

    Raises:
        ValueError: The shapes differ outside `axis`.
        IndexError: `axis` is out of bounds.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.concat.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.concat([xp.asarray([1]), xp.asarray([2, 3])])
        tensor([1, 2, 3])
    """
    parts = _of_common_dtype(arrays)
    if axis is None:
        return functions.cat([part.reshape(-1) for part in parts], 0)
    # PyTorch's operator accepts an empty 1D tensor among others of any shape; the standard does not.
    for part in parts:
        axis_of_part = normalized(axis, part.ndim)
        rest = [size for d, size in enumerate(part.shape) if d != axis_of_part]
        if part.ndim != parts[0].ndim or rest != [
            size for d, size in enumerate(parts[0].shape) if d != axis_of_part
        ]:
            raise ValueError(
                f"concat(): expected equal shapes but for axis {axis}, got {[tuple(each.shape) for each in parts]}"
            )
    return functions.cat(parts, axis)


def stack(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int = 0) -> Tensor:
    """Stack arrays along a new axis.

    Args:
        arrays: Arrays of the same shape.
        axis: Position of the new axis in the result. Default: 0.

    Returns:
        An array of the promoted dtype.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.stack.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.stack([xp.asarray([1, 2]), xp.asarray([3, 4])], axis=1)
        tensor([[1, 3],
                [2, 4]])
    """
    return functions.stack(_of_common_dtype(arrays), axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices of an array along an axis, as views.

    Args:
        x: An array of at least one dimension.
        axis: The axis.

    Returns:
        A tuple of arrays without that axis.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.unstack.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.unstack(xp.asarray([[1, 2], [3, 4]]))
        (tensor([1, 2]), tensor([3, 4]))
    """
    return tuple(x.unbind(normalized(axis, x.ndim)))


def expand_dims(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """Insert new axes of size 1, as a view.

    Args:
        x: An array.
        axis: Position of the new axes in the result; a tuple for several.

    Returns:
        A view.

    Raises:
        IndexError: An axis is out of bounds.
        ValueError: An axis stands there twice.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.expand_dims.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.expand_dims(xp.ones(3), (0, -1)).shape
        triten.Size([1, 3, 1])
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    for each in sorted(reduced(axes, x.ndim + len(axes))):
        x = x.unsqueeze(each)
    return x


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """Remove axes of size 1, as a view.

    Args:
        x: An array.
        axis: The axes.

    Returns:
        A view.

    Raises:
        ValueError: An axis has another size.
        IndexError: An axis is out of bounds.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.squeeze.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.squeeze(xp.ones((1, 3, 1)), (0, 2)).shape
        triten.Size([3])
    """
    axes = reduced(axis, x.ndim)
    for each in axes:
        if x.shape[each] != 1:
            raise ValueError(f"squeeze(): axis {each} has size {x.shape[each]}, not 1")
    return x.squeeze(axes)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Return the elements in another shape.

    Args:
        x: An array.
        shape: Shape of the result; one size may be -1, which is inferred.
        copy: True always copies, False never does, None does if it must.

    Returns:
        An array.

    Raises:
        ValueError: `copy` is False and there is no such view.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.reshape.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.reshape(xp.asarray([1, 2, 3, 4]), (2, -1))
        tensor([[1, 2],
                [3, 4]])
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if copy is False:
        try:
            return x.view(sizes)
        except RuntimeError as error:
            raise ValueError(
                f"reshape(): copy=False forbids the copy that this shape needs: {error}"
            ) from None
    return x.clone().reshape(sizes) if copy else x.reshape(sizes)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Permute the axes of an array, as a view.

    Args:
        x: An array.
        axes: Order of the axes.

    Returns:
        A view.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.permute_dims.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.permute_dims(xp.ones((2, 3)), (1, 0)).shape
        triten.Size([3, 2])
    """
    return x.permute(tuple(axes))


def moveaxis(x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Tensor:
    """Move some axes of an array, as a view; the others keep their order.

    Args:
        x: An array.
        source: Axes to move.
        destination: Position of each axis in the result.

    Returns:
        A view.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.moveaxis.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.moveaxis(xp.ones((2, 3, 4)), 0, -1).shape
        triten.Size([3, 4, 2])
    """
    first = (source,) if isinstance(source, int) else source
    second = (destination,) if isinstance(destination, int) else destination
    return functions.movedim(x, first, second)


def flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Reverse the order of elements along axes, as a copy.

    Args:
        x: An array.
        axis: Axes to reverse. Default: all.

    Returns:
        An array of `x`'s shape.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.flip.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.flip(xp.asarray([1, 2, 3]))
        tensor([3, 2, 1])
    """
    return functions.flip(x, reduced(axis, x.ndim))


def roll(x: Tensor, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Roll elements along axes; elements beyond the last position reenter at the first.

    Args:
        x: An array.
        shift: The number of positions, for each axis.
        axis: Axes to roll along; None rolls the flattened array.

    Returns:
        An array of `x`'s shape.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.roll.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.roll(xp.asarray([1, 2, 3]), 1)
        tensor([3, 1, 2])
    """
    if axis is None:
        return functions.roll(x.reshape(-1), shift, 0).reshape(tuple(x.shape))
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    shifts = (shift,) * len(axes) if isinstance(shift, int) else tuple(shift)
    if not axes:
        return x.clone()
    return functions.roll(x, shifts, tuple(normalized(each, x.ndim) for each in axes))


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Repeat each element. On a GPU, an array of `repeats` synchronizes with the host.

    Args:
        x: An array.
        repeats: Number of repetitions, for all elements or for each.
        axis: Axis to repeat along; None flattens the array.

    Returns:
        An array of `x`'s dtype.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.repeat.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.repeat(xp.asarray([1, 2]), xp.asarray([1, 2]))
        tensor([1, 2, 2])
    """
    if axis is None:
        x, axis = x.reshape(-1), 0
    if isinstance(repeats, TensorImpl):
        counts = repeats.long()
        return functions.repeat_interleave(x, counts.expand(x.shape[axis]).contiguous(), axis)
    return functions.repeat_interleave(x, repeats, axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """Repeat a whole array along its axes.

    Args:
        x: An array.
        repetitions: Number of repetitions along each axis; missing axes are added in front, on either side.

    Returns:
        An array of `x`'s dtype.

    Source: https://data-apis.org/array-api/2025.12/API_specification/generated/array_api.tile.html

    Example:
        >>> import triten.array_api as xp
        >>> xp.tile(xp.asarray([1, 2]), (2, 1))
        tensor([[1, 2],
                [1, 2]])
    """
    return functions.tile(x, tuple(repetitions))

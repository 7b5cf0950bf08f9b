"""Broadcasting of shapes and of strides (ATen/ExpandUtils.cpp)."""

from __future__ import annotations

from collections.abc import Sequence

from ...runtime.size import Size
from ...runtime.traceback_filter import hide_inner_frames


def infer_size(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """Return the broadcast shape of two shapes; a size of 1 expands to any other size, even 0.

    Raises RuntimeError that names the last dimension whose sizes differ without either being 1.

    >>> infer_size((3, 1), (4,))
    (3, 4)
    """
    if len(a) < len(b):
        sizes, shorter = list(b), a
    else:
        sizes, shorter = list(a), b
    rank = len(sizes)
    for i in range(-1, -len(shorter) - 1, -1):
        size_a, size_b = a[i], b[i]
        if size_a == size_b:
            continue
        if size_a == 1:
            sizes[i] = size_b
        elif size_b == 1:
            sizes[i] = size_a
        else:
            raise RuntimeError(
                f"The size of tensor a ({size_a}) must match the size of tensor b ({size_b}) at non-singleton "
                f"dimension {rank + i}"
            )
    return tuple(sizes)


def broadcast_shapes(*sizes: Sequence[int] | int) -> Size:
    """Return the broadcast shape of all shapes (`torch.broadcast_shapes`).

    Args:
        *sizes: Shapes, as sequences of sizes; an integer is a shape of one dimension.

    Returns:
        The shape.

    Raises:
        RuntimeError: The shapes do not broadcast.
        ValueError: A size is negative.

    Example:
        >>> import triten as tt
        >>> tt.broadcast_shapes((2, 1), (3,), 1)
        triten.Size([2, 3])
    """
    try:
        return Size(broadcast_sizes(*sizes))
    except BaseException:
        hide_inner_frames()
        raise


def broadcast_sizes(*sizes: Sequence[int] | int) -> tuple[int, ...]:
    """Return what `broadcast_shapes` returns, as a tuple."""
    shapes = [(shape,) if isinstance(shape, int) else shape for shape in sizes if shape is not None]
    for shape in shapes:
        if not isinstance(shape, Sequence):
            raise RuntimeError(
                f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {shape}"
            )
    out = [1] * max(map(len, shapes), default=0)
    for number, shape in enumerate(shapes):
        for i in range(-1, -1 - len(shape), -1):
            size = shape[i]
            if size == out[i]:
                continue
            if out[i] == 1:
                if size < 0:
                    raise ValueError(
                        f"Attempting to broadcast a dimension with negative length! Got {size} in {list(shape)}"
                    )
                out[i] = size
            elif size != 1:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {size} at {i}! Mismatching argument at index "
                    f"{number} had {shape}; but expected shape should be broadcastable to {out}"
                )
    return tuple(out)


def expand_geometry(
    sizes: Sequence[int], strides: Sequence[int], target: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes and strides of a tensor expanded to `target`, where -1 keeps a size. Broadcast strides are 0.

    Raises RuntimeError if a size other than 1 would change, or `target` has too few dimensions.

    >>> expand_geometry((3, 1), (1, 1), (2, -1, 4))
    ((2, 3, 4), (0, 1, 0))
    """
    lead = len(target) - len(sizes)
    if lead < 0:
        raise RuntimeError(
            f"expand({list(sizes)}, size={list(target)}): the number of sizes provided ({len(target)}) must be "
            f"greater or equal to the number of dimensions in the tensor ({len(sizes)})"
        )
    out_sizes, out_strides = list(target), [0] * len(target)
    for i in range(len(target) - 1, -1, -1):
        if i < lead:
            if target[i] == -1:
                raise RuntimeError(
                    f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}"
                )
            # ATen gives a new dimension of size 1 the stride that a contiguous tensor would have there, unless the
            # tensor has no dimension.
            if sizes and target[i] == 1:
                out_strides[i] = out_sizes[i + 1] * out_strides[i + 1]
            continue
        size, stride = sizes[i - lead], strides[i - lead]
        if target[i] in (-1, size):
            out_sizes[i], out_strides[i] = size, stride
        elif size != 1:
            raise RuntimeError(
                f"The expanded size of the tensor ({target[i]}) must match the existing size ({size}) at "
                f"non-singleton dimension {i}.  Target sizes: {list(target)}.  Tensor sizes: {list(sizes)}"
            )
    return tuple(out_sizes), tuple(out_strides)


def expand_strides(sizes: Sequence[int], strides: Sequence[int], target: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a tensor expanded to `target`; see `expand_geometry`.

    >>> expand_strides((3, 1), (1, 1), (3, 4))
    (1, 0)
    """
    return expand_geometry(sizes, strides, target)[1]

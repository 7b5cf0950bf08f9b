"""Layout of a mesh's dimensions in the list of its ranks: sizes and strides, as of a tensor in memory.

A dimension flattened from non-adjacent dimensions has several sizes and strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from math import prod
from typing import Any

__all__ = [
    "Dimension",
    "Layout",
    "contiguous",
    "flattened",
    "offsets",
    "overlaps",
    "shape_and_ranks",
    "strides_ascend",
    "unflattened",
]

Dimension = tuple[tuple[int, int], ...]
"""Pairs of size and stride, the outermost first."""
Layout = tuple[Dimension, ...]


def contiguous(shape: Sequence[int]) -> Layout:
    """Return the row-major layout of a shape.

    Example:
        >>> from triten.distributed.mesh_layout import contiguous
        >>> contiguous((2, 4))
        (((2, 4),), ((4, 1),))
    """
    return tuple(((size, prod(shape[dim + 1 :])),) for dim, size in enumerate(shape))


def length(dimension: Dimension) -> int:
    """Return the number of ranks along a dimension."""
    return prod(size for size, _ in dimension)


def offsets(dimensions: Layout) -> list[int]:
    """Return the offsets of all ranks of some dimensions from the first rank, the last dimension fastest.

    Example:
        >>> from triten.distributed.mesh_layout import offsets
        >>> offsets((((2, 4),), ((2, 1),)))
        [0, 1, 4, 5]
    """
    pairs = [pair for dimension in dimensions for pair in dimension]
    return [sum(index) for index in product(*(range(0, size * stride, stride) for size, stride in pairs))]


def lines(dimension: Dimension, count: int) -> list[list[int]]:
    """Return the positions of the ranks of each group along a dimension, for `count` ranks in total.

    Example:
        >>> from triten.distributed.mesh_layout import lines
        >>> lines(((2, 2),), 4)
        [[0, 2], [1, 3]]
    """
    along = offsets((dimension,))
    covered: set[int] = set()
    groups = []
    for start in range(count):
        if start not in covered:
            line = [start + offset for offset in along]
            covered.update(line)
            groups.append(line)
    return groups


def coordinate(dimension: Dimension, position: int) -> int:
    """Return the coordinate along a dimension of the rank at a position of the list."""
    result = 0
    for size, stride in dimension:
        result = result * size + position // stride % size
    return result


def flattened(layout: Layout) -> Dimension:
    """Flatten all dimensions to one.

    Example:
        >>> from triten.distributed.mesh_layout import contiguous, flattened
        >>> flattened(contiguous((2, 4)))
        ((8, 1),)
    """
    made: list[tuple[int, int]] = []
    for dimension in layout:
        for size, stride in dimension:
            if size == 1:
                continue
            if made and made[-1][1] == size * stride:
                made[-1] = (made[-1][0] * size, stride)
            else:
                made.append((size, stride))
    return tuple(made) or ((1, 1),)


def unflattened(dimension: Dimension, sizes: Sequence[int]) -> Layout:
    """Split one dimension into several.

    Raises:
        ValueError: their sizes do not divide it.
    """
    left = list(flattened((dimension,)))
    made: list[Dimension] = []
    for size in reversed(sizes):
        taken: list[tuple[int, int]] = []
        while size > 1 and left:
            left_size, stride = left.pop()
            if left_size <= size and size % left_size == 0:
                taken.insert(0, (left_size, stride))
                size //= left_size
            elif left_size > size and left_size % size == 0:
                taken.insert(0, (size, stride))
                left.append((left_size // size, stride * size))
                size = 1
            else:
                break
        if size > 1:
            raise ValueError(
                f"a mesh dimension of layout {dimension} cannot be unflattened into sizes {tuple(sizes)}"
            )
        made.insert(0, tuple(taken) or ((1, 1),))
    if left and flattened((tuple(left),)) != ((1, 1),):
        raise ValueError(
            f"a mesh dimension of layout {dimension} cannot be unflattened into sizes {tuple(sizes)}"
        )
    return tuple(made)


def overlaps(layout: Layout) -> bool:
    """Return True if two coordinates of a layout map to the same rank."""
    pairs = sorted((stride, size) for size, stride in flattened(layout) if size > 1)
    return any(stride * size > above for (stride, size), (above, _) in pairwise(pairs))


def strides_ascend(layout: Layout) -> bool:
    """Return True if the strides of the dimensions are in descending order."""
    strides = [stride for size, stride in flattened(layout) if size > 1]
    return strides == sorted(strides, reverse=True)


def shape_and_ranks(mesh: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of a mesh and its ranks in order.

    Args:
        mesh: Nested sequences, an array or a tensor of integers.

    Raises:
        TypeError: there is something else in it.
    """
    import numpy as np

    array = np.asarray(mesh.tolist() if hasattr(mesh, "tolist") else mesh)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"DeviceMesh: expected integers for mesh, but got {mesh!r}")
    return array.shape, tuple(map(int, array.reshape(-1)))

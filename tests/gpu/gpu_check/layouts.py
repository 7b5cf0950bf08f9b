"""How an operand lies in device memory: the same values under several strides and offsets.

Operands are laid out on the host and cross as plain bytes, so that placing them runs no kernel; results come back
the same way. Gaps between elements hold a pattern, so that reading one shows.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import triten as tt

PATTERN = 0xFF
"""Fill of unwritten memory: NaN as any float, -1 or the largest value as an integer, an invalid bool."""

CONTIGUOUS, TRANSPOSED, SLICED, UNALIGNED = "contiguous", "transposed", "sliced", "unaligned"
EXPANDED, CHANNELS_LAST, ZERO_SIZE, NO_DIMENSION, SPECIAL = (
    "expanded", "channels_last", "zero-size", "0-d", "special values",
)  # fmt: skip
LAYOUTS = (
    CONTIGUOUS, TRANSPOSED, SLICED, UNALIGNED, EXPANDED, CHANNELS_LAST, ZERO_SIZE, NO_DIMENSION, SPECIAL,
)  # fmt: skip

Array = np.ndarray[Any, Any]


class Place(NamedTuple):
    """Memory layout in elements: strides, the first element's offset, and the memory's size."""

    strides: tuple[int, ...]
    offset: int
    count: int


def dense_strides(shape: tuple[int, ...], order: list[int]) -> tuple[int, ...]:
    """Strides without gaps; `order` names the dimensions from the slowest to the fastest.

    Example:
        >>> dense_strides((2, 3), [1, 0])
        (1, 2)
    """
    strides = [0] * len(shape)
    step = 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


def place_of(shape: tuple[int, ...], layout: str) -> Place:
    """Return the layout of a tensor of this shape; contiguous if `layout` does not apply to it."""
    order = list(range(len(shape)))
    count = math.prod(shape)
    if layout == TRANSPOSED and len(shape) >= 2:
        order[-2:] = reversed(order[-2:])
    elif layout == CHANNELS_LAST and len(shape) == 4:
        order = [0, 2, 3, 1]
    strides = dense_strides(shape, order)
    if layout == SLICED or (layout == TRANSPOSED and len(shape) == 1):
        return Place(tuple(2 * s for s in strides), 1, 2 * count + 2)
    if layout == UNALIGNED:
        return Place(strides, 1, count + 1)
    if layout == EXPANDED and shape:
        strides = (0, *dense_strides(shape[1:], list(range(len(shape) - 1))))
        return Place(strides, 0, max(math.prod(shape[1:]), 1))
    return Place(strides, 0, count)


def expanded_values(values: Array) -> Array:
    """Return the values that a tensor with stride 0 in its first dimension can hold."""
    return np.broadcast_to(values[:1], values.shape) if values.ndim and values.size else values


def strided(memory: Array, shape: tuple[int, ...], place: Place) -> Array:
    """Return a strided view of a flat array."""
    strides = tuple(s * memory.itemsize for s in place.strides)
    return np.ndarray(shape, memory.dtype, memory, place.offset * memory.itemsize, strides)


def put(values: Array, layout: str, device: str) -> tt.Tensor:
    """Copy the values to the device as a tensor of the given layout."""
    place = place_of(values.shape, layout)
    memory = np.full(place.count * values.itemsize, PATTERN, np.uint8).view(values.dtype)
    if values.size:
        strided(memory, values.shape, place)[...] = values
    moved = tt.from_numpy(memory).to(device)
    return moved if values.shape == moved.shape and not place.offset else moved.as_strided(
        values.shape, place.strides, place.offset
    )  # fmt: skip


def poisoned(shape: tuple[int, ...], dtype: tt.dtype, layout: str, device: str) -> tt.Tensor:
    """Return an output tensor whose bytes are all filled with the pattern."""
    place = place_of(shape, layout if layout != EXPANDED else CONTIGUOUS)
    memory = np.full(place.count * dtype.itemsize, PATTERN, np.uint8).view(dtype.np)
    return tt.from_numpy(memory).to(device).as_strided(shape, place.strides, place.offset)


def fetch(tensor: tt.Tensor) -> Array:
    """Return a tensor's elements, through a plain copy of the memory that they span."""
    tensor = tensor.detach().resolve_conj()
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    if 0 in shape:
        return np.empty(shape, tensor.dtype.np)
    span = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    memory = tensor.as_strided((span,), (1,), tensor.storage_offset()).cpu().numpy()
    return strided(memory, shape, Place(strides, 0, span)).copy()


class Poisoning(tt.library.Allocator):
    """Another allocator's memory, filled with the pattern each time it is handed out."""

    def __init__(self, source: tt.library.Allocator) -> None:
        self.source = source

    def allocate(self, nbytes: int, device: Any) -> Any:
        data = self.source.allocate(nbytes, device)
        if nbytes:
            cuda = tt.library.driver()
            index = data.device.index
            cuda.memset(data.address, PATTERN, nbytes, cuda.current_stream(index))
        return data

    def copy_data(self, dst: int, src: int, nbytes: int) -> None:
        self.source.copy_data(dst, src, nbytes)

    def raw_deleter(self) -> Any:
        return self.source.raw_deleter()

"""Memory formats: the stride orders that operators preserve (c10/core/MemoryFormat.h)."""

from __future__ import annotations

from collections.abc import Sequence

from . import public_name


class memory_format:
    """Memory format, such as ``tt.channels_last``; compared by identity."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{public_name.shown}.{self.name}"

    def __reduce__(self) -> str:
        return self.name


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

_CHANNELS_LAST_ORDER = {4: (1, 3, 2, 0), 5: (1, 4, 3, 2, 0)}
"""Dimensions from the fastest to the slowest, by rank."""


def contiguous_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a C-contiguous tensor of these sizes.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides = []
    running = 1
    for size in reversed(sizes):
        strides.append(running)
        if size:
            running *= size
    strides.reverse()
    return tuple(strides)


def channels_last_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of an NHWC (rank 4) or NDHWC (rank 5) tensor of these sizes, given in NCHW order.

    >>> channels_last_strides((2, 3, 4, 5))
    (60, 1, 15, 3)
    """
    strides = [0] * len(sizes)
    running = 1
    for i in _CHANNELS_LAST_ORDER[len(sizes)]:
        strides[i] = running
        running *= max(sizes[i], 1)
    return tuple(strides)


def is_contiguous(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return True for C-contiguous strides. Dimensions of size 1 are ignored; empty tensors are contiguous."""
    expected = 1
    for i in range(len(sizes) - 1, -1, -1):
        size = sizes[i]
        if size == 0:
            return True
        if size != 1:
            if strides[i] != expected:
                break
            expected *= size
    else:
        return True
    return 0 in sizes


def is_channels_last(sizes: Sequence[int], strides: Sequence[int], rank: int = 4) -> bool:
    """Return True for NHWC (or NDHWC) strides without gaps; strides of empty tensors are checked too."""
    if len(sizes) != rank:
        return False
    expected = 1
    for i in _CHANNELS_LAST_ORDER[rank]:
        if sizes[i] != 1:
            if strides[i] != expected:
                return False
            expected *= sizes[i]
    return True


def is_channels_last_strides(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return True if the stride *order* is channels-last, gaps allowed (c10's is_channels_last_strides_2d/3d).

    It decides the memory format that an operator suggests for its output.
    """
    rank = len(sizes)
    order = _CHANNELS_LAST_ORDER.get(rank)
    if order is None or strides[1] == 0:
        return False
    least = 0
    for i in order:
        if sizes[i] == 0 or strides[i] < least:
            return False
        if i == 0 and least == strides[1]:
            return False
        least = strides[i]
        if sizes[i] > 1:
            least *= sizes[i]
    return True


def is_non_overlapping_and_dense(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return True if the elements fill one block without gaps or overlap, in some order of dimensions."""
    expected = 1
    for stride, size in sorted((st, sz) for sz, st in zip(sizes, strides, strict=True) if sz != 1):
        if size == 0:
            return True
        if stride != expected:
            return 0 in sizes
        expected *= size
    return True


def dense_strides_like(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Return dense strides in the stride order of a tensor (ATen's infer_dense_strides).

    Ties and expanded dimensions keep their order. ``preserve_format`` uses it.
    """
    rank = len(sizes)
    perm = list(range(rank - 1, -1, -1))

    def should_swap(a: int, b: int) -> int:
        stride_a, stride_b = strides[a], strides[b]
        if stride_a == 0 or stride_b == 0:
            return 0
        if stride_a != stride_b:
            return -1 if stride_a < stride_b else 1
        return 1 if sizes[a] > sizes[b] else 0

    for i in range(1, rank):
        dim1 = i
        for dim0 in range(i - 1, -1, -1):
            comparison = should_swap(perm[dim0], perm[dim1])
            if comparison > 0:
                perm[dim0], perm[dim1] = perm[dim1], perm[dim0]
                dim1 = dim0
            elif comparison < 0:
                break
    out = [0] * rank
    running = 1
    for i in perm:
        out[i] = running
        running *= max(sizes[i], 1)
    return tuple(out)


def strides_for(
    fmt: memory_format, sizes: Sequence[int], like: tuple[Sequence[int], Sequence[int]] | None = None
) -> tuple[int, ...]:
    """Return the strides of a new tensor in a memory format; `like` gives sizes and strides to preserve.

    Raises RuntimeError if the rank does not fit the format, as PyTorch does.
    """
    if fmt is channels_last or fmt is channels_last_3d:
        rank = 4 if fmt is channels_last else 5
        if len(sizes) != rank:
            raise RuntimeError(
                f"required rank {rank} tensor to use {fmt.name} format, but got rank {len(sizes)}"
            )
        return channels_last_strides(sizes)
    if fmt is preserve_format and like is not None:
        old_sizes, old_strides = like
        if is_non_overlapping_and_dense(old_sizes, old_strides):
            return tuple(old_strides)
        return dense_strides_like(sizes, old_strides)
    return contiguous_strides(sizes)

"""Partial inverses of max pooling as `torch.nn.functional` has them; `nn.functional` re-exports these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..dispatch.core.tensor_function import overridable
from ..dispatch.generated import functions as ops
from ..dispatch.structured.meta.dims import wrap_dim

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["max_unpool1d", "max_unpool2d", "max_unpool3d"]

Size = int | Sequence[int]


def _sizes(rank: int, size: Size, name: str, least: int = 0) -> list[int]:
    """Return one size for each dimension, and check the given ones."""
    sizes = list(size) if isinstance(size, Iterable) and not isinstance(size, str) else [size] * rank
    if len(sizes) < least:
        raise IndexError(f"max_unpool{rank}d: expected {name} of {least} elements, got {len(sizes)}")
    for n in sizes:
        if not isinstance(n, int | np.integer):
            raise TypeError(
                f"max_unpool{rank}d(): argument '{name}' must be tuple of ints, not {type(n).__name__}"
            )
    return [int(n) for n in sizes]


def _output_size(
    input: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    output_size: Sequence[int] | None,
) -> list[int]:
    """Return the requested output sizes after checking that pooling can produce `input` from them.

    Without a request, return the smallest sizes.
    """
    rank = len(kernel_size)
    spatial = list(input.shape)[-rank:]
    # The operator rejects a wrong number of sizes.
    least = [
        (n - 1) * s + k - 2 * p for n, s, k, p in zip(spatial, stride, kernel_size, padding, strict=False)
    ]
    if output_size is None:
        sizes = least
    else:
        sizes = list(output_size)
        sizes = sizes[2:] if len(sizes) == rank + 2 else sizes
        if len(sizes) != rank:
            raise ValueError(
                f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it has a length of "
                f"'{len(sizes)}'"
            )
        for d, (n, usual, step) in enumerate(zip(sizes, least, stride, strict=False)):
            if not usual - step < n < usual + step:
                raise ValueError(
                    f'invalid output_size "{sizes}" (dim {d} must be between {usual - step} and {usual + step})'
                )
    for d, n in enumerate(sizes):
        if n < 0:
            raise ValueError(
                "max_unpooling: output_size must contain non-negative spatial dimensions, but got "
                f"output_size[{d}]={n}"
            )
    return sizes


def _window(
    rank: int,
    input: Tensor,
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    output_size: Sequence[int] | None,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    kernel = _sizes(rank, kernel_size, "kernel_size")
    steps = kernel if stride is None else _sizes(rank, stride, "stride", len(kernel))
    border = _sizes(rank, padding, "padding", len(kernel))
    wrap_dim(-len(kernel), len(input.shape), scalar_ok=False)
    sizes = _output_size(input, kernel, steps, border, output_size)
    return tuple(sizes), tuple(steps), tuple(border)


@overridable
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Invert `max_pool1d`: write the maxima to their indices, zeros elsewhere (`torch.nn.functional.max_unpool1d`).

    Args:
        input: The maxima, of shape (N, C, L) or (C, L).
        indices: The indices that ``max_pool1d(..., return_indices=True)`` returned; the last of duplicates wins.
        kernel_size: The size of the windows of pooling.
        stride: The distance between them; by default `kernel_size`.
        padding: The padding of pooling.
        output_size: The sizes of the result. Default: the smallest sizes that pooling can have come from.

    Returns:
        A tensor of the size of pooling's input.

    Raises:
        ValueError: Pooling cannot have come from `output_size`.
        RuntimeError: An index is out of range.

    Example:
        >>> import triten as tt
        >>> values, places = tt.nn.functional.max_pool1d(tt.tensor([[1.0, 3.0, 2.0, 0.0]]), 2, return_indices=True)
        >>> tt.nn.functional.max_unpool1d(values, places, 2).tolist()
        [[0.0, 3.0, 2.0, 0.0]]
    """
    sizes, _, _ = _window(1, input, kernel_size, stride, padding, output_size)
    return ops.max_unpool2d(ops.unsqueeze(input, -1), ops.unsqueeze(indices, -1), (*sizes, 1)).squeeze(-1)


@overridable
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Invert `max_pool2d`: write the maxima to their indices, zeros elsewhere (`torch.nn.functional.max_unpool2d`).

    Args:
        input: The maxima, of shape (N, C, H, W) or (C, H, W).
        indices: The indices that ``max_pool2d(..., return_indices=True)`` returned; the last of duplicates wins.
        kernel_size: The size of the windows of pooling.
        stride: The distance between them; by default `kernel_size`.
        padding: The padding of pooling.
        output_size: The sizes of the result. Default: the smallest sizes that pooling can have come from.

    Returns:
        A tensor of the size of pooling's input.

    Raises:
        ValueError: Pooling cannot have come from `output_size`.
        RuntimeError: An index is out of range.

    Example:
        >>> import triten as tt
        >>> values, places = tt.nn.functional.max_pool2d(tt.arange(4.0).view(1, 2, 2), 2, return_indices=True)
        >>> tt.nn.functional.max_unpool2d(values, places, 2).tolist()
        [[[0.0, 0.0], [0.0, 3.0]]]
    """
    sizes, _, _ = _window(2, input, kernel_size, stride, padding, output_size)
    return ops.max_unpool2d(input, indices, sizes)


@overridable
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Invert `max_pool3d`: write the maxima to their indices, zeros elsewhere (`torch.nn.functional.max_unpool3d`).

    Args:
        input: The maxima, of shape (N, C, D, H, W) or (C, D, H, W).
        indices: The indices that ``max_pool3d(..., return_indices=True)`` returned; the last of duplicates wins.
        kernel_size: The size of the windows of pooling.
        stride: The distance between them; by default `kernel_size`.
        padding: The padding of pooling.
        output_size: The sizes of the result. Default: the smallest sizes that pooling can have come from.

    Returns:
        A tensor of the size of pooling's input.

    Raises:
        ValueError: Pooling cannot have come from `output_size`.
        RuntimeError: An index is out of range.

    Example:
        >>> import triten as tt
        >>> values, places = tt.nn.functional.max_pool3d(tt.arange(8.0).view(1, 2, 2, 2), 2, return_indices=True)
        >>> tt.nn.functional.max_unpool3d(values, places, 2).tolist()
        [[[[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 7.0]]]]
    """
    sizes, steps, border = _window(3, input, kernel_size, stride, padding, output_size)
    return ops.max_unpool3d(input, indices, sizes, steps, border)

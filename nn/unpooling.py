"""Partial inverses of max pooling as `torch.nn.functional` has them; `nn.functional` re-exports these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..dispatch.core.tensor_function import overridable
from ..dispatch.generated import functions as ops

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["max_unpool1d", "max_unpool2d", "max_unpool3d"]

Size = int | Sequence[int]


def _sizes(rank: int, size: Size) -> list[int]:
    return [size] * rank if isinstance(size, int) else list(size)


def _output_size(
    input: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    output_size: Sequence[int] | None,
) -> list[int]:
    """The sizes asked for, which pooling must be able to have come from; without them the smallest likely ones."""
    rank = len(kernel_size)
    spatial = list(input.shape)[-rank:]
    least = [
        (n - 1) * s + k - 2 * p for n, s, k, p in zip(spatial, stride, kernel_size, padding, strict=True)
    ]
    if output_size is None:
        found = least
    else:
        found = list(output_size)
        found = found[2:] if len(found) == rank + 2 else found
        if len(found) != rank:
            raise ValueError(
                f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it has a length of "
                f"'{len(found)}'"
            )
        for d, (n, usual, step) in enumerate(zip(found, least, stride, strict=True)):
            if not usual - step < n < usual + step:
                raise ValueError(
                    f'invalid output_size "{found}" (dim {d} must be between {usual - step} and {usual + step})'
                )
    for d, n in enumerate(found):
        if n < 0:
            raise ValueError(
                "max_unpooling: output_size must contain non-negative spatial dimensions, but got "
                f"output_size[{d}]={n}"
            )
    return found


def _window(
    rank: int,
    input: Tensor,
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    output_size: Sequence[int] | None,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    kernel = _sizes(rank, kernel_size)
    steps = kernel if stride is None else _sizes(rank, stride)
    border = _sizes(rank, padding)
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
    """The maxima of `max_pool1d` where they were, zeros elsewhere (`torch.nn.functional.max_unpool1d`).

    Args:
        input: (N, C, L) or (C, L).
        indices: the places that ``max_pool1d(..., return_indices=True)`` gave; of several for one the last stays.
        output_size: of the line, where pooling may have come from several.

    Raises ValueError for an output size that pooling cannot have come from, RuntimeError for a place outside it.

    Example:
        >>> import triten as tt
        >>> values, places = tt.nn.functional.max_pool1d(tt.tensor([[1.0, 3.0, 2.0, 0.0]]), 2, return_indices=True)
        >>> tt.nn.functional.max_unpool1d(values, places, 2).tolist()
        [[0.0, 3.0, 2.0, 0.0]]
    """
    sizes, _, _ = _window(1, input, kernel_size, stride, padding, output_size)
    return ops.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), (*sizes, 1)).squeeze(-1)


@overridable
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """The same over planes (`torch.nn.functional.max_unpool2d`)."""
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
    """The same over volumes (`torch.nn.functional.max_unpool3d`)."""
    sizes, steps, border = _window(3, input, kernel_size, stride, padding, output_size)
    return ops.max_unpool3d(input, indices, sizes, steps, border)

"""Fractional max pooling as `torch.nn.functional` has it; `nn.functional` re-exports these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, overload

from ..dispatch.core.tensor_function import overridable
from ..dispatch.generated import functions as ops

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = [
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
]

Size = int | Sequence[int]
Ratio = float | Sequence[float]


def _pooled(
    rank: int,
    input: Tensor,
    kernel_size: Size,
    output_size: Size | None,
    output_ratio: Ratio | None,
    samples: Tensor | None,
) -> tuple[Tensor, Tensor]:
    name = f"fractional_max_pool{rank}d"
    sizes = tuple(input.shape)
    if output_size is None:
        if output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        ratios = [output_ratio] * rank if isinstance(output_ratio, (int, float)) else list(output_ratio)
        if len(ratios) != rank:
            raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
        output_size = tuple([int(n * ratio) for n, ratio in zip(sizes[-rank:], ratios, strict=True)])
    kernel_size = (kernel_size,) * rank if isinstance(kernel_size, int) else tuple(kernel_size)
    output_size = (output_size,) * rank if isinstance(output_size, int) else tuple(output_size)
    if samples is None:
        batch = 1 if len(sizes) == rank + 1 else sizes[0]
        samples = ops.rand((batch, sizes[-rank - 1], rank), dtype=input.dtype, device=input.device)
    pool = ops.fractional_max_pool2d if rank == 2 else ops.fractional_max_pool3d
    values, indices = pool(input, kernel_size, output_size, samples)
    return values, indices


@overridable
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Size,
    output_size: Size | None = None,
    output_ratio: Ratio | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`fractional_max_pool2d` with the places of the maxima in their flattened planes."""
    return _pooled(2, input, kernel_size, output_size, output_ratio, _random_samples)


@overridable
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Size,
    output_size: Size | None = None,
    output_ratio: Ratio | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`fractional_max_pool3d` with the places of the maxima in their flattened volumes."""
    return _pooled(3, input, kernel_size, output_size, output_ratio, _random_samples)


@overload
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Size,
    output_size: Size | None = None,
    output_ratio: Ratio | None = None,
    return_indices: Literal[False] = False,
    _random_samples: Tensor | None = None,
) -> Tensor: ...
@overload
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Size,
    output_size: Size | None = None,
    output_ratio: Ratio | None = None,
    *,
    return_indices: Literal[True],
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Size,
    output_size: Size | None = None,
    output_ratio: Ratio | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]: ...
@overridable
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Size,
    output_size: Size | None = None,
    output_ratio: Ratio | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest element of each of windows at random places (`torch.nn.functional.fractional_max_pool2d`).

    There are as many windows along a dimension as `output_size` says, or as the share `output_ratio` of the input's
    size; they start some one, some another number of places after each other, as `_random_samples` of (N, C, 2)
    numbers in [0, 1) tell, or numbers drawn from the default generator. The first number is the width's.

    Source: Benjamin Graham, Fractional Max-Pooling, 2014.

    Returns:
        The maxima, with `return_indices` a pair of them and their places in the flattened plane. Of several equal ones
        the first is named; NaN is larger than every number.

    Raises:
        ValueError: without output_size and output_ratio.
        RuntimeError: for windows that the input has no room for, or numbers of another shape or dtype.

    Example:
        >>> import triten as tt
        >>> x = tt.arange(16.0).view(1, 1, 4, 4)
        >>> halves = tt.full((1, 1, 2), 0.5)
        >>> tt.nn.functional.fractional_max_pool2d(x, 2, output_size=2, _random_samples=halves).tolist()
        [[[[5.0, 7.0], [13.0, 15.0]]]]
    """
    both = _pooled(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return both if return_indices else both[0]


@overload
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Size,
    output_size: Size | None = None,
    output_ratio: Ratio | None = None,
    return_indices: Literal[False] = False,
    _random_samples: Tensor | None = None,
) -> Tensor: ...
@overload
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Size,
    output_size: Size | None = None,
    output_ratio: Ratio | None = None,
    *,
    return_indices: Literal[True],
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Size,
    output_size: Size | None = None,
    output_ratio: Ratio | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]: ...
@overridable
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Size,
    output_size: Size | None = None,
    output_ratio: Ratio | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """`fractional_max_pool2d` over volumes (`torch.nn.functional.fractional_max_pool3d`).

    `_random_samples` are (N, C, 3), the first number the depth's.
    """
    both = _pooled(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return both if return_indices else both[0]

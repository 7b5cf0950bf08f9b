"""Fractional max pooling as `torch.nn.functional` has it; `nn.functional` re-exports these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, overload

from ..dispatch.core.tensor_function import overridable
from ..dispatch.generated import functions as ops
from ..dispatch.structured.meta.dims import wrap_dim
from ..runtime.tensor_impl import TensorImpl

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
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if not isinstance(input, TensorImpl):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    sizes = tuple(input.shape)
    wrap_dim(-rank, len(sizes))
    if output_size is None:
        assert output_ratio is not None
        ratios = [output_ratio] * rank if isinstance(output_ratio, (int, float)) else list(output_ratio)
        if len(ratios) != rank:
            kind = ValueError if len(ratios) > rank else IndexError
            raise kind(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
        output_size = tuple([int(n * ratio) for n, ratio in zip(sizes[-rank:], ratios, strict=True)])
    wrap_dim(-rank - 1, len(sizes))
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
    """Compute maxima over randomly placed windows, with their indices
    (`torch.nn.functional.fractional_max_pool2d_with_indices`).

    Args:
        input: A floating tensor of shape (N, C, H, W) or (C, H, W).
        kernel_size: The size of the windows, an int or a tuple of 2.
        output_size: The size of the result, a number or a tuple of 2.
        output_ratio: Instead of `output_size`: its ratio to the size of `input`, a number or a tuple of 2.
        return_indices: Ignored: the indices are always returned.
        _random_samples: Numbers in [0, 1) of shape (N, C, 2) that place the windows, width first. Default: random.

    Returns:
        A pair of the maxima and their places in the flattened plane of a channel, as int64. Of several equal ones the
        first is named; NaN is larger than every number.

    Raises:
        ValueError: Neither `output_size` nor `output_ratio` is given.
        RuntimeError: The input is too small for the windows, or the samples have another shape or dtype.

    References:
        Graham, Fractional max-pooling (2014).

    Example:
        >>> import triten as tt
        >>> x = tt.arange(16.0).view(1, 1, 4, 4)
        >>> halves = tt.full((1, 1, 2), 0.5)
        >>> values, places = tt.nn.functional.fractional_max_pool2d_with_indices(x, 2, 2, _random_samples=halves)
        >>> places.tolist()
        [[[[5, 7], [13, 15]]]]
    """
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
    """Compute maxima over randomly placed windows, with their indices
    (`torch.nn.functional.fractional_max_pool3d_with_indices`).

    Args:
        input: A floating tensor of shape (N, C, D, H, W) or (C, D, H, W).
        kernel_size: The size of the windows, an int or a tuple of 3.
        output_size: The size of the result, a number or a tuple of 3.
        output_ratio: Instead of `output_size`: its ratio to the size of `input`, a number or a tuple of 3.
        return_indices: Ignored: the indices are always returned.
        _random_samples: Numbers in [0, 1) of shape (N, C, 3) that place the windows, depth first. Default: random.

    Returns:
        A pair of the maxima and their places in the flattened volume of a channel, as int64. Of several equal ones
        the first is named; NaN is larger than every number.

    Raises:
        ValueError: Neither `output_size` nor `output_ratio` is given.
        RuntimeError: The input is too small for the windows, or the samples have another shape or dtype.

    References:
        Graham, Fractional max-pooling (2014).

    Example:
        >>> import triten as tt
        >>> x = tt.arange(8.0).view(1, 1, 2, 2, 2)
        >>> values, places = tt.nn.functional.fractional_max_pool3d_with_indices(x, 2, output_size=1)
        >>> values.item(), places.item()
        (7.0, 7)
    """
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
    """Compute maxima over randomly placed windows (`torch.nn.functional.fractional_max_pool2d`).

    Args:
        input: A floating tensor of shape (N, C, H, W) or (C, H, W).
        kernel_size: The size of the windows, an int or a tuple of 2.
        output_size: The size of the result, a number or a tuple of 2.
        output_ratio: Instead of `output_size`: its ratio to the size of `input`, a number or a tuple of 2.
        return_indices: If True, also return the indices of the maxima. Default: False.
        _random_samples: Numbers in [0, 1) of shape (N, C, 2) that place the windows, width first. Default: random.

    Returns:
        The maxima; with `return_indices` also their indices in the flattened plane of a channel, as int64.
        Ties go to the first index; NaN is larger than every number.

    Raises:
        ValueError: Neither `output_size` nor `output_ratio` is given.
        RuntimeError: The input is too small for the windows, or the samples have another shape or dtype.

    References:
        Graham, Fractional max-pooling (2014).

    Example:
        >>> import triten as tt
        >>> x = tt.arange(16.0).view(1, 1, 4, 4)
        >>> halves = tt.full((1, 1, 2), 0.5)
        >>> tt.nn.functional.fractional_max_pool2d(x, 2, output_size=2, _random_samples=halves).tolist()
        [[[[5.0, 7.0], [13.0, 15.0]]]]
    """
    with_indices = bool(return_indices)
    both = _pooled(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return both if with_indices else both[0]


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
    """Compute maxima over randomly placed windows (`torch.nn.functional.fractional_max_pool3d`).

    Args:
        input: A floating tensor of shape (N, C, D, H, W) or (C, D, H, W).
        kernel_size: The size of the windows, an int or a tuple of 3.
        output_size: The size of the result, a number or a tuple of 3.
        output_ratio: Instead of `output_size`: its ratio to the size of `input`, a number or a tuple of 3.
        return_indices: If True, also return the indices of the maxima. Default: False.
        _random_samples: Numbers in [0, 1) of shape (N, C, 3) that place the windows, depth first. Default: random.

    Returns:
        The maxima; with `return_indices` also their indices in the flattened volume of a channel, as int64.
        Ties go to the first index; NaN is larger than every number.

    Raises:
        ValueError: Neither `output_size` nor `output_ratio` is given.
        RuntimeError: The input is too small for the windows, or the samples have another shape or dtype.

    References:
        Graham, Fractional max-pooling (2014).

    Example:
        >>> import triten as tt
        >>> x = tt.arange(27.0).view(1, 1, 3, 3, 3)
        >>> tt.nn.functional.fractional_max_pool3d(x, 2, output_ratio=0.5).shape
        triten.Size([1, 1, 1, 1, 1])
    """
    with_indices = bool(return_indices)
    both = _pooled(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return both if with_indices else both[0]

"""Pooling as `torch.nn.functional` has it; `nn.functional` re-exports these.

Inputs are (N, C, *spatial) or (C, *spatial); a size that may be one number holds for every spatial dimension.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from ..dispatch.core.tensor_function import numpy_named, overridable
from ..dispatch.generated import functions as ops

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
]

Size = int | Sequence[int]
AdaptiveSize = int | Sequence[int | None] | None
"""A size, or None for the input's own, for each dimension or for all."""


def _steps(stride: Size | None) -> Size:
    return () if stride is None else stride


def _maxima(
    pool: Callable[..., Tensor],
    with_indices: Callable[..., tuple[Tensor, Tensor]],
    return_indices: bool,
    input: Tensor,
    *window: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    return with_indices(input, *window) if return_indices else pool(input, *window)


@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]: ...
@overridable
def max_pool1d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute the maximum of each window over the last dimension (`torch.nn.functional.max_pool1d`).

    The spatial sizes of the result are

        L_out = floor((L_in + 2 * padding - dilation * (kernel_size - 1) - 1) / stride + 1)

    Args:
        input: A tensor of real numbers of shape (N, C, L) or (C, L).
        kernel_size: The size of the windows, an int.
        stride: The stride of the windows, an int. Default: `kernel_size`.
        padding: Padding by -inf on both sides of each dimension, at most half of `kernel_size`.
        dilation: The spacing of a window's elements.
        ceil_mode: If True, keep a last window that starts inside the input or its padding. Default: False.
        return_indices: If True, also return the indices of the maxima. Default: False.

    Returns:
        The maxima; with `return_indices` also their indices in the flattened line of a channel, as int64.

    Raises:
        RuntimeError: `input` has the wrong number of dimensions, the padding is too large, or the result would be
            empty.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.max_pool1d(tt.tensor([[1.0, 3.0, 2.0, 0.0]]), 2).tolist()
        [[3.0, 2.0]]
    """
    window = (kernel_size, _steps(stride), padding, dilation, ceil_mode)
    return _maxima(ops.max_pool1d, ops.max_pool1d_with_indices, return_indices, input, *window)


@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]: ...
@overridable
def max_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute the maximum of each window over the last two dimensions (`torch.nn.functional.max_pool2d`).

    The spatial sizes of the result are

        H_out = floor((H_in + 2 * padding[0] - dilation[0] * (kernel_size[0] - 1) - 1) / stride[0] + 1);
        W_out = floor((W_in + 2 * padding[1] - dilation[1] * (kernel_size[1] - 1) - 1) / stride[1] + 1)

    Args:
        input: A tensor of real numbers of shape (N, C, H, W) or (C, H, W).
        kernel_size: The size of the windows, an int or a tuple of 2.
        stride: The stride of the windows, an int or a tuple of 2. Default: `kernel_size`.
        padding: Padding by -inf on both sides of each dimension, at most half of `kernel_size`.
        dilation: The spacing of a window's elements.
        ceil_mode: If True, keep a last window that starts inside the input or its padding. Default: False.
        return_indices: If True, also return the indices of the maxima. Default: False.

    Returns:
        The maxima; with `return_indices` also their indices in the flattened plane of a channel, as int64.

    Raises:
        RuntimeError: `input` has the wrong number of dimensions, the padding is too large, or the result would be
            empty.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.max_pool2d(tt.arange(16.0).view(1, 4, 4), 2, return_indices=True)[1].tolist()
        [[[5, 7], [13, 15]]]
    """
    window = (kernel_size, _steps(stride), padding, dilation, ceil_mode)
    return _maxima(ops.max_pool2d, ops.max_pool2d_with_indices, return_indices, input, *window)


@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]: ...
@overridable
def max_pool3d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute the maximum of each window over the last three dimensions (`torch.nn.functional.max_pool3d`).

    The spatial sizes of the result are

        D_out = floor((D_in + 2 * padding[0] - dilation[0] * (kernel_size[0] - 1) - 1) / stride[0] + 1);
        H_out = floor((H_in + 2 * padding[1] - dilation[1] * (kernel_size[1] - 1) - 1) / stride[1] + 1);
        W_out = floor((W_in + 2 * padding[2] - dilation[2] * (kernel_size[2] - 1) - 1) / stride[2] + 1)

    Args:
        input: A tensor of real numbers of shape (N, C, D, H, W) or (C, D, H, W).
        kernel_size: The size of the windows, an int or a tuple of 3.
        stride: The stride of the windows, an int or a tuple of 3. Default: `kernel_size`.
        padding: Padding by -inf on both sides of each dimension, at most half of `kernel_size`.
        dilation: The spacing of a window's elements.
        ceil_mode: If True, keep a last window that starts inside the input or its padding. Default: False.
        return_indices: If True, also return the indices of the maxima. Default: False.

    Returns:
        The maxima; with `return_indices` also their indices in the flattened volume of a channel, as int64.

    Raises:
        RuntimeError: `input` has the wrong number of dimensions, the padding is too large, or the result would be
            empty.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.max_pool3d(tt.arange(8.0).view(1, 2, 2, 2), 2)
        tensor([[[[7.]]]])
    """
    window = (kernel_size, _steps(stride), padding, dilation, ceil_mode)
    return _maxima(ops.max_pool3d, ops.max_pool3d_with_indices, return_indices, input, *window)


@numpy_named
@overridable
def avg_pool1d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Compute the mean of each window over the last dimension (`torch.nn.functional.avg_pool1d`).

    The spatial sizes of the result are

        L_out = floor((L_in + 2 * padding - kernel_size) / stride + 1)

    Args:
        input: A floating tensor of shape (N, C, L) or (C, L).
        kernel_size: The size of the windows, an int.
        stride: The stride of the windows, an int. Default: `kernel_size`.
        padding: Zero padding on both sides of each dimension, at most half of `kernel_size`.
        ceil_mode: If True, keep a last window that starts inside the input or its padding. Default: False.
        count_include_pad: If True, count padding zeros as elements of a window. Default: True.

    Returns:
        A tensor of the windows' means.

    Raises:
        RuntimeError: `input` has the wrong number of dimensions, the padding is too large, or the result would be
            empty.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.avg_pool1d(tt.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
        tensor([[2., 1.]])
    """
    return ops.avg_pool1d(input, kernel_size, _steps(stride), padding, ceil_mode, count_include_pad)


@numpy_named
@overridable
def avg_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Compute the mean of each window over the last two dimensions (`torch.nn.functional.avg_pool2d`).

    The spatial sizes of the result are

        H_out = floor((H_in + 2 * padding[0] - kernel_size[0]) / stride[0] + 1);
        W_out = floor((W_in + 2 * padding[1] - kernel_size[1]) / stride[1] + 1)

    Args:
        input: A floating tensor of shape (N, C, H, W) or (C, H, W).
        kernel_size: The size of the windows, an int or a tuple of 2.
        stride: The stride of the windows, an int or a tuple of 2. Default: `kernel_size`.
        padding: Zero padding on both sides of each dimension, at most half of `kernel_size`.
        ceil_mode: If True, keep a last window that starts inside the input or its padding. Default: False.
        count_include_pad: If True, count padding zeros as elements of a window. Default: True.
        divisor_override: The divisor that replaces the number of elements.
        out: The output tensor. Default: a new tensor.

    Returns:
        A tensor of the windows' means.

    Raises:
        RuntimeError: `input` has the wrong number of dimensions, the padding is too large, or the result would be
            empty.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.avg_pool2d(tt.arange(4.0).view(1, 2, 2), 2)
        tensor([[[1.5000]]])
    """
    return ops.avg_pool2d(  # type: ignore[misc]
        input,
        kernel_size,
        _steps(stride),
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
        out=out,  # type: ignore[arg-type]
    )


@numpy_named
@overridable
def avg_pool3d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Compute the mean of each window over the last three dimensions (`torch.nn.functional.avg_pool3d`).

    The spatial sizes of the result are

        D_out = floor((D_in + 2 * padding[0] - kernel_size[0]) / stride[0] + 1);
        H_out = floor((H_in + 2 * padding[1] - kernel_size[1]) / stride[1] + 1);
        W_out = floor((W_in + 2 * padding[2] - kernel_size[2]) / stride[2] + 1)

    Args:
        input: A floating tensor of shape (N, C, D, H, W) or (C, D, H, W).
        kernel_size: The size of the windows, an int or a tuple of 3.
        stride: The stride of the windows, an int or a tuple of 3. Default: `kernel_size`.
        padding: Zero padding on both sides of each dimension, at most half of `kernel_size`.
        ceil_mode: If True, keep a last window that starts inside the input or its padding. Default: False.
        count_include_pad: If True, count padding zeros as elements of a window. Default: True.
        divisor_override: The divisor that replaces the number of elements.
        out: The output tensor. Default: a new tensor.

    Returns:
        A tensor of the windows' means.

    Raises:
        RuntimeError: `input` has the wrong number of dimensions, the padding is too large, or the result would be
            empty.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.avg_pool3d(tt.arange(8.0).view(1, 2, 2, 2), 2)
        tensor([[[[3.5000]]]])
    """
    return ops.avg_pool3d(  # type: ignore[misc]
        input,
        kernel_size,
        _steps(stride),
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
        out=out,  # type: ignore[arg-type]
    )


def _sizes(input: Tensor, output_size: AdaptiveSize, rank: int) -> tuple[int, ...]:
    """Return one output size for each spatial dimension; None means the input's size."""
    if output_size is None:
        return tuple(input.shape[-rank:])
    if not isinstance(output_size, Iterable):
        return (output_size,) * rank
    if len(input.shape) <= len(output_size):
        raise ValueError(
            f"Input dimension should be at least {len(output_size) + 1}, but got {len(input.shape)}"
        )
    own = tuple(input.shape)[len(input.shape) - len(output_size) :]
    return tuple(n if size is None else size for size, n in zip(output_size, own, strict=True))


@numpy_named
@overridable
def adaptive_avg_pool1d(input: Tensor, output_size: Size) -> Tensor:
    """Compute means of adaptive windows over the last dimension (`torch.nn.functional.adaptive_avg_pool1d`).

    Args:
        input: A floating tensor of shape (N, C, L) or (C, L).
        output_size: The size of the result.

    Returns:
        The means, of size `output_size` in those dimensions.

    Raises:
        RuntimeError: `input` has the wrong number of dimensions.

    Note:
        Window i of n goes from floor(i * L / n) to ceil((i + 1) * L / n).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.adaptive_avg_pool1d(tt.arange(4.0).view(1, 4), 2)
        tensor([[0.5000, 2.5000]])
    """
    return ops.adaptive_avg_pool1d(input, output_size)


@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: Size, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: Size, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: Size, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]: ...
@overridable
def adaptive_max_pool1d(
    input: Tensor, output_size: Size, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute maxima of adaptive windows over the last dimension (`torch.nn.functional.adaptive_max_pool1d`).

    Args:
        input: A floating tensor of shape (N, C, L) or (C, L).
        output_size: The size of the result.
        return_indices: If True, also return the indices of the maxima. Default: False.

    Returns:
        The maxima; with `return_indices` also their indices in the flattened line of a channel, as int64.

    Raises:
        RuntimeError: `input` has the wrong number of dimensions.

    Note:
        Window i of n goes from floor(i * L / n) to ceil((i + 1) * L / n).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.adaptive_max_pool1d(tt.arange(4.0).view(1, 4), 2)
        tensor([[1., 3.]])
    """
    with_indices = bool(return_indices)
    both = ops.adaptive_max_pool1d(input, output_size)
    return both if with_indices else both[0]


@overridable
def adaptive_avg_pool2d(input: Tensor, output_size: AdaptiveSize) -> Tensor:
    """Compute means of adaptive windows over the last two dimensions (`torch.nn.functional.adaptive_avg_pool2d`).

    Args:
        input: A floating tensor of shape (N, C, H, W) or (C, H, W).
        output_size: The size of the result, a number or a tuple of 2, with None where it stays `input`'s.

    Returns:
        The means, of size `output_size` in those dimensions.

    Raises:
        RuntimeError: `input` has the wrong number of dimensions.

    Note:
        Window i of n goes from floor(i * L / n) to ceil((i + 1) * L / n).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.adaptive_avg_pool2d(tt.arange(4.0).view(1, 2, 2), 1)
        tensor([[[1.5000]]])
    """
    return ops.adaptive_avg_pool2d(input, _sizes(input, output_size, 2))


@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: AdaptiveSize, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: AdaptiveSize, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: AdaptiveSize, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]: ...
@overridable
def adaptive_max_pool2d(
    input: Tensor, output_size: AdaptiveSize, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute maxima of adaptive windows over the last two dimensions (`torch.nn.functional.adaptive_max_pool2d`).

    Args:
        input: A floating tensor of shape (N, C, H, W) or (C, H, W).
        output_size: The size of the result, a number or a tuple of 2, with None where it stays `input`'s.
        return_indices: If True, also return the indices of the maxima. Default: False.

    Returns:
        The maxima; with `return_indices` also their indices in the flattened plane of a channel, as int64.

    Raises:
        RuntimeError: `input` has the wrong number of dimensions.

    Note:
        Window i of n goes from floor(i * L / n) to ceil((i + 1) * L / n).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.adaptive_max_pool2d(tt.arange(4.0).view(1, 2, 2), 1)
        tensor([[[3.]]])
    """
    with_indices = bool(return_indices)
    both = ops.adaptive_max_pool2d(input, _sizes(input, output_size, 2))
    return both if with_indices else both[0]


@overridable
def adaptive_avg_pool3d(input: Tensor, output_size: AdaptiveSize) -> Tensor:
    """Compute means of adaptive windows over the last three dimensions (`torch.nn.functional.adaptive_avg_pool3d`).

    Args:
        input: A floating tensor of shape (N, C, D, H, W) or (C, D, H, W).
        output_size: The size of the result, a number or a tuple of 3, with None where it stays `input`'s.

    Returns:
        The means, of size `output_size` in those dimensions.

    Raises:
        RuntimeError: `input` has the wrong number of dimensions.

    Note:
        Window i of n goes from floor(i * L / n) to ceil((i + 1) * L / n).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.adaptive_avg_pool3d(tt.arange(8.0).view(1, 2, 2, 2), 1)
        tensor([[[[3.5000]]]])
    """
    return ops.adaptive_avg_pool3d(input, _sizes(input, output_size, 3))


@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: AdaptiveSize, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: AdaptiveSize, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: AdaptiveSize, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]: ...
@overridable
def adaptive_max_pool3d(
    input: Tensor, output_size: AdaptiveSize, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute maxima of adaptive windows over the last three dimensions (`torch.nn.functional.adaptive_max_pool3d`).

    Args:
        input: A floating tensor of shape (N, C, D, H, W) or (C, D, H, W).
        output_size: The size of the result, a number or a tuple of 3, with None where it stays `input`'s.
        return_indices: If True, also return the indices of the maxima. Default: False.

    Returns:
        The maxima; with `return_indices` also their indices in the flattened volume of a channel, as int64.

    Raises:
        RuntimeError: `input` has the wrong number of dimensions.

    Note:
        Window i of n goes from floor(i * L / n) to ceil((i + 1) * L / n).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.adaptive_max_pool3d(tt.arange(8.0).view(1, 2, 2, 2), 1)
        tensor([[[[7.]]]])
    """
    with_indices = bool(return_indices)
    both = ops.adaptive_max_pool3d(input, _sizes(input, output_size, 3))
    return both if with_indices else both[0]


def _power_average(averaged: Tensor, norm_type: float, count: int) -> Tensor:
    """Compute (sum of powers) ** (1 / norm_type) where the average is not negative."""
    return (ops.sign(averaged) * ops.relu(ops.abs(averaged))).mul(count).pow(1.0 / norm_type)


def _count(kernel_size: Size, rank: int) -> int:
    if not isinstance(kernel_size, Iterable):
        return int(kernel_size**rank)
    count = 1
    for size in kernel_size:
        count *= size
    return count


@overridable
def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False
) -> Tensor:
    """Compute the p-norm of each window over the last dimension (`torch.nn.functional.lp_pool1d`).

    Args:
        input: A floating tensor of shape (N, C, L) or (C, L).
        norm_type: The order p of the norm, not 0.
        kernel_size: The size of the windows, an int.
        stride: The stride of the windows, an int. Default: `kernel_size`.
        ceil_mode: If True, keep a last window that starts inside the input or its padding. Default: False.

    Returns:
        A tensor of the windows' norms.

    Note:
        Elements are raised to the power p without their absolute value, so that an odd p wants elements that are not
        negative.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.lp_pool1d(tt.tensor([[3.0, 4.0]]), 2, 2)
        tensor([[5.]])
    """
    averaged = ops.avg_pool1d(input.pow(norm_type), kernel_size, _steps(stride), 0, ceil_mode)
    return _power_average(averaged, norm_type, _count(kernel_size, 1))


@overridable
def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False
) -> Tensor:
    """Compute the p-norm of each window over the last two dimensions (`torch.nn.functional.lp_pool2d`).

    Args:
        input: A floating tensor of shape (N, C, H, W) or (C, H, W).
        norm_type: The order p of the norm, not 0.
        kernel_size: The size of the windows, an int or a tuple of 2.
        stride: The stride of the windows, an int or a tuple of 2. Default: `kernel_size`.
        ceil_mode: If True, keep a last window that starts inside the input or its padding. Default: False.

    Returns:
        A tensor of the windows' norms.

    Note:
        Elements are raised to the power p without their absolute value, so that an odd p wants elements that are not
        negative.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.lp_pool2d(tt.tensor([[[3.0, 4.0]]]), 2, (1, 2))
        tensor([[[5.]]])
    """
    averaged = ops.avg_pool2d(input.pow(norm_type), kernel_size, _steps(stride), 0, ceil_mode)
    return _power_average(averaged, norm_type, _count(kernel_size, 2))


@overridable
def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False
) -> Tensor:
    """Compute the p-norm of each window over the last three dimensions (`torch.nn.functional.lp_pool3d`).

    Args:
        input: A floating tensor of shape (N, C, D, H, W) or (C, D, H, W).
        norm_type: The order p of the norm, not 0.
        kernel_size: The size of the windows, an int or a tuple of 3.
        stride: The stride of the windows, an int or a tuple of 3. Default: `kernel_size`.
        ceil_mode: If True, keep a last window that starts inside the input or its padding. Default: False.

    Returns:
        A tensor of the windows' norms.

    Note:
        Elements are raised to the power p without their absolute value, so that an odd p wants elements that are not
        negative.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.lp_pool3d(tt.tensor([[[[3.0, 4.0]]]]), 2, (1, 1, 2))
        tensor([[[[5.]]]])
    """
    averaged = ops.avg_pool3d(input.pow(norm_type), kernel_size, _steps(stride), 0, ceil_mode)
    return _power_average(averaged, norm_type, _count(kernel_size, 3))


def _with_indices(pool: Callable[..., Any], example: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """Wrap a pooling function so that it always returns the pair of maxima and indices."""

    def pooled(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        bound = signature.bind(*args, **kwargs)
        bound.arguments["return_indices"] = True
        return pool(*bound.args, **bound.kwargs)  # type: ignore[no-any-return]

    signature = inspect.signature(pool)
    # Python 3.13 and later compile docstrings without their indentation.
    arguments = (
        inspect.cleandoc(pool.__doc__ or "").partition("Args:\n")[2].partition("    return_indices:")[0]
    )
    name = f"{pool.__name__}_with_indices"
    pooled.__name__ = pooled.__qualname__ = name
    pooled.__module__ = __name__
    pooled.__signature__ = signature.replace(return_annotation="tuple[Tensor, Tensor]")  # type: ignore[attr-defined]
    pooled.__doc__ = f"""`{pool.__name__}` with the places of the maxima (`torch.nn.functional.{name}`).

Args:
{arguments}    return_indices: Makes no difference.

Returns:
    The maxima, and their places as `{pool.__name__}` counts them, as int64.

Raises:
    RuntimeError: As `{pool.__name__}` says.

Example:
    >>> import triten as tt
    >>> tt.nn.functional.{name}({example})[1].item()
    3
"""
    return overridable(pooled)


max_pool1d_with_indices = _with_indices(max_pool1d, "tt.arange(4.0).view(1, 4), 4")
max_pool2d_with_indices = _with_indices(max_pool2d, "tt.arange(4.0).view(1, 2, 2), 2")
max_pool3d_with_indices = _with_indices(max_pool3d, "tt.arange(4.0).view(1, 1, 2, 2), (1, 2, 2)")
adaptive_max_pool1d_with_indices = _with_indices(adaptive_max_pool1d, "tt.arange(4.0).view(1, 4), 1")
adaptive_max_pool2d_with_indices = _with_indices(adaptive_max_pool2d, "tt.arange(4.0).view(1, 2, 2), 1")
adaptive_max_pool3d_with_indices = _with_indices(adaptive_max_pool3d, "tt.arange(4.0).view(1, 1, 2, 2), 1")

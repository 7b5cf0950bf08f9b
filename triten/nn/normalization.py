"""Normalizations with PyTorch's Python signatures; `functional` re-exports them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..dispatch.core.mode_stack import sees_whole
from ..dispatch.core.tensor_function import (
    handle_tensor_function,
    has_tensor_function,
    overridable,
    plain_classes,
)
from ..dispatch.generated import functions as _ops
from ..runtime.local_dispatch_key_set import modes
from ..runtime.traceback_filter import hide_inner_frames

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "rms_norm"]


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Compute (input - mean) / sqrt(variance + eps) over the last dimensions (`torch.nn.functional.layer_norm`).

    Args:
        input: A floating tensor.
        normalized_shape: The sizes of those dimensions.
        weight: What results are multiplied by, of that shape and of `input`'s dtype, or of float32 for float16 and
            bfloat16.
        bias: The shift, of the same shape and dtype.
        eps: Added to the variance to avoid division by zero.

    Returns:
        A tensor of `input`'s shape and dtype.

    Raises:
        RuntimeError: Shapes or dtypes do not fit.
        NotImplementedError: `input` is of integers.

    References:
        Ba et al., Layer normalization (2016).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.layer_norm(tt.tensor([1.0, 3.0]), [2], eps=0.0)
        tensor([-1.,  1.])
    """
    if (
        input.__class__ not in plain_classes
        or weight.__class__ not in plain_classes
        or bias.__class__ not in plain_classes
    ) and has_tensor_function((input, weight, bias)):
        return handle_tensor_function(  # type: ignore[no-any-return]
            layer_norm, (input, weight, bias), input, normalized_shape, weight=weight, bias=bias, eps=eps
        )
    try: return _ops.layer_norm(input, normalized_shape, weight, bias, eps, True)  # fmt: skip
    except BaseException:
        hide_inner_frames()
        raise


@overridable
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Compute input / sqrt(mean(input ** 2) + eps) over the last dimensions (`torch.nn.functional.rms_norm`).

    Args:
        input: A floating tensor.
        normalized_shape: The sizes of those dimensions.
        weight: The scale, of that shape. Default: None, no scaling.
        eps: Added to the mean; by default the precision of the dtype that is computed in, which for float16 and
            bfloat16 is float32.

    Returns:
        A tensor of `input`'s shape and dtype.

    Raises:
        RuntimeError: Shapes do not fit.
        NotImplementedError: `input` is of integers.

    References:
        Zhang and Sennrich, Root mean square layer normalization (2019).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.rms_norm(tt.tensor([1.0, 7.0]), [2])
        tensor([0.2000, 1.4000])
    """
    return _ops.rms_norm(input, normalized_shape, weight, eps)


def _check_batch(size: Sequence[int]) -> None:
    if math.prod([size[0], *size[2:]]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


@overridable
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize each channel of (N, C, ...) over the batch and positions (`torch.nn.functional.batch_norm`).

    Args:
        input: A floating tensor of shape (N, C, ...).
        running_mean: The means, of shape (C,), that channels are normalized by; in training they are brought up to
            date, and may be None.
        running_var: The variances, likewise.
        weight: The scale of each channel, of shape (C,). Default: None, no scaling.
        bias: The shift of each channel, of shape (C,). Default: None, no shift.
        training: If True, normalize by the batch's mean and variance. Default: False.
        momentum: The share of the new statistics: running = (1 - momentum) * running + momentum * new, with the
            unbiased variance.
        eps: Added to the variance to avoid division by zero.

    Returns:
        A tensor of `input`'s shape and dtype.

    Raises:
        ValueError: A channel has a single value in training, or `eps` is negative, or not positive in training.
        RuntimeError: Sizes or dtypes do not fit.

    References:
        Ioffe and Szegedy, Batch normalization (2015).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.batch_norm(tt.tensor([[1.0], [3.0]]), None, None, training=True, eps=1e-12)
        tensor([[-1.],
                [ 1.]])
    """
    if training:
        _check_batch(input.size())
    if training and eps <= 0.0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return _ops.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


@overridable
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize each group of channels of each sample of (N, C, ...) (`torch.nn.functional.group_norm`).

    Args:
        input: A floating tensor of shape (N, C, ...).
        num_groups: The number of groups of channels, a divisor of C.
        weight: The scale of each channel, of shape (C,). Default: None, no scaling.
        bias: The shift of each channel, of shape (C,). Default: None, no shift.
        eps: Added to the variance to avoid division by zero.

    Returns:
        A tensor of `input`'s shape and dtype.

    Raises:
        ValueError: A group has a single value.
        RuntimeError: `num_groups` does not divide C, or sizes or dtypes do not fit.

    References:
        Wu and He, Group normalization (2018).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.group_norm(tt.tensor([[1.0, 3.0]]), 1, eps=0.0)
        tensor([[-1.,  1.]])
    """
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    sizes = input._spec.sizes
    _check_batch([sizes[0] * sizes[1] // num_groups, num_groups, *sizes[2:]])
    return _ops.group_norm(input, num_groups, weight, bias, eps, True)


@overridable
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize each channel of each sample of (N, C, ...) (`torch.nn.functional.instance_norm`).

    Args:
        input: A floating tensor of shape (N, C, ...).
        running_mean: The means, of shape (C,), that are brought up to date with `use_input_stats`, and otherwise
            normalized by.
        running_var: The variances, likewise.
        weight: The scale of each channel, of shape (C,). Default: None, no scaling.
        bias: The shift of each channel, of shape (C,). Default: None, no shift.
        use_input_stats: If True, normalize by each channel's own mean and variance. Default: True.
        momentum: The share of the new statistics: running = (1 - momentum) * running + momentum * new, with the
            unbiased variance.
        eps: Added to the variance to avoid division by zero.

    Returns:
        A tensor of `input`'s shape and dtype.

    Raises:
        ValueError: A channel has a single value.
        RuntimeError: Sizes do not fit, or running statistics are missing where they are wanted.

    References:
        Ulyanov et al., Instance normalization (2016).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.instance_norm(tt.tensor([[[1.0, 3.0]]]), eps=1e-12)
        tensor([[[-1.,  1.]]])
    """
    if use_input_stats and math.prod(input.size()[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    return _ops.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


def _local_response_norm_of_pools(input: Tensor, size: int, alpha: float, beta: float, k: float) -> Tensor:
    """Compute `local_response_norm` by the operators that PyTorch dispatches."""
    squares = input.mul(input)
    if input.dim() == 3:
        padded = _ops.pad(squares.unsqueeze(1), (0, 0, size // 2, (size - 1) // 2))
        mean = _ops.avg_pool2d(padded, (size, 1), stride=1).squeeze(1)
    else:
        sizes = input.shape
        planes = squares.view((sizes[0], 1, sizes[1], sizes[2], -1))
        padded = _ops.pad(planes, (0, 0, 0, 0, size // 2, (size - 1) // 2))
        mean = _ops.avg_pool3d(padded, (size, 1, 1), stride=1).squeeze(1).view(sizes)
    return input / mean.mul(alpha).add(k).pow(beta)


@overridable
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Compute input / (k + alpha * mean of squares over nearby channels) ** beta
    (`torch.nn.functional.local_response_norm`).

    Args:
        input: A floating tensor of shape (N, C, ...), of at least three dimensions.
        size: The number of channels in the window, centered at the element's; channels outside are 0.
        alpha: The factor of the mean.
        beta: The power of the divisor.
        k: The constant added to the sum.

    Returns:
        A tensor of `input`'s shape and dtype.

    Raises:
        ValueError: `input` has fewer than three dimensions.

    References:
        Krizhevsky et al., ImageNet classification with deep convolutional neural networks (2012).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.local_response_norm(tt.ones(1, 1, 1), 1, alpha=3.0, beta=1.0)
        tensor([[[0.2500]]])
    """
    if input.dim() < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality                          input (got {input.dim()} dimensions)"
        )
    if input.numel() == 0:
        return input
    n, channels = input.shape[:2]
    if modes and sees_whole():
        return _local_response_norm_of_pools(input, size, alpha, beta, k)
    squares = (input * input).reshape((n, channels, -1))
    ahead = squares.new_zeros((n, size // 2, squares.shape[2]))
    after = squares.new_zeros((n, (size - 1) // 2, squares.shape[2]))
    padded = _ops.cat([ahead, squares, after], 1).unsqueeze(1)
    mean = _ops.avg_pool2d(padded, (size, 1), (1, 1)).squeeze(1)
    return input / (mean.view(input.shape) * alpha + k) ** beta

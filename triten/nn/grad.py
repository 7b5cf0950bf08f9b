"""Gradients of convolutions, by their operands (`torch.nn.grad`)."""

from __future__ import annotations

from collections.abc import Sequence

from ..dispatch.generated import functions as ops
from ..dispatch.tensor import Tensor

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]

Sizes = int | Sequence[int]


def _each(value: Sizes, dims: int) -> list[int]:
    return [value] * dims if isinstance(value, int) else list(value)


def _gradient(
    dims: int,
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
    of_input: bool,
) -> Tensor:
    gradients = ops.convolution_backward(
        grad_output,
        input,
        weight,
        None,
        _each(stride, dims),
        _each(padding, dims),
        _each(dilation, dims),
        False,
        [0] * dims,
        groups,
        (of_input, not of_input, False),
    )
    gradient: Tensor = gradients[0 if of_input else 1]
    return gradient


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv1d` by its input (`torch.nn.grad.conv1d_input`).

    Args:
        input_size: Shape of the input, (N, C_in, L).
        weight: Weight, (C_out, C_in / groups, kernel).
        grad_output: Gradient of the output, (N, C_out, L_out).
        stride, padding, dilation, groups: As for `tt.nn.functional.conv1d`.

    Returns:
        A tensor of shape `input_size`.

    Example:
        >>> import triten as tt
        >>> tt.nn.grad.conv1d_input((1, 1, 3), tt.ones(1, 1, 2), tt.ones(1, 1, 2))
        tensor([[[1., 2., 1.]]])
    """
    input = grad_output.new_empty(1).expand(input_size)
    return _gradient(1, grad_output, input, weight, stride, padding, dilation, groups, True)


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv1d` by its weight (`torch.nn.grad.conv1d_weight`).

    Args:
        input: Input, (N, C_in, L).
        weight_size: Shape of the weight, (C_out, C_in / groups, kernel).
        grad_output: Gradient of the output, (N, C_out, L_out).
        stride, padding, dilation, groups: As for `tt.nn.functional.conv1d`.

    Returns:
        A tensor of shape `weight_size`.

    Example:
        >>> import triten as tt
        >>> tt.nn.grad.conv1d_weight(tt.arange(3.0).view(1, 1, 3), (1, 1, 2), tt.ones(1, 1, 2))
        tensor([[[1., 3.]]])
    """
    weight = grad_output.new_empty(1).expand(weight_size)
    return _gradient(1, grad_output, input, weight, stride, padding, dilation, groups, False)


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv2d` by its input (`torch.nn.grad.conv2d_input`).

    Args:
        input_size: Shape of the input, (N, C_in, H, W).
        weight: Weight, (C_out, C_in / groups, *kernel).
        grad_output: Gradient of the output, (N, C_out, H_out, W_out).
        stride, padding, dilation, groups: As for `tt.nn.functional.conv2d`.

    Returns:
        A tensor of shape `input_size`.

    Example:
        >>> import triten as tt
        >>> tt.nn.grad.conv2d_input((1, 1, 1, 3), tt.ones(1, 1, 1, 2), tt.ones(1, 1, 1, 2))
        tensor([[[[1., 2., 1.]]]])
    """
    input = grad_output.new_empty(1).expand(input_size)
    return _gradient(2, grad_output, input, weight, stride, padding, dilation, groups, True)


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv2d` by its weight (`torch.nn.grad.conv2d_weight`).

    Args:
        input: Input, (N, C_in, H, W).
        weight_size: Shape of the weight, (C_out, C_in / groups, *kernel).
        grad_output: Gradient of the output, (N, C_out, H_out, W_out).
        stride, padding, dilation, groups: As for `tt.nn.functional.conv2d`.

    Returns:
        A tensor of shape `weight_size`.

    Example:
        >>> import triten as tt
        >>> tt.nn.grad.conv2d_weight(tt.ones(1, 1, 2, 2), (1, 1, 1, 2), tt.ones(1, 1, 2, 1))
        tensor([[[[2., 2.]]]])
    """
    weight = grad_output.new_empty(1).expand(weight_size)
    return _gradient(2, grad_output, input, weight, stride, padding, dilation, groups, False)


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv3d` by its input (`torch.nn.grad.conv3d_input`).

    Args:
        input_size: Shape of the input, (N, C_in, D, H, W).
        weight: Weight, (C_out, C_in / groups, *kernel).
        grad_output: Gradient of the output, (N, C_out, D_out, H_out, W_out).
        stride, padding, dilation, groups: As for `tt.nn.functional.conv3d`.

    Returns:
        A tensor of shape `input_size`.

    Example:
        >>> import triten as tt
        >>> tt.nn.grad.conv3d_input((1, 1, 1, 1, 2), tt.ones(1, 1, 1, 1, 2), tt.ones(1, 1, 1, 1, 1))
        tensor([[[[[1., 1.]]]]])
    """
    input = grad_output.new_empty(1).expand(input_size)
    return _gradient(3, grad_output, input, weight, stride, padding, dilation, groups, True)


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv3d` by its weight (`torch.nn.grad.conv3d_weight`).

    Args:
        input: Input, (N, C_in, D, H, W).
        weight_size: Shape of the weight, (C_out, C_in / groups, *kernel).
        grad_output: Gradient of the output, (N, C_out, D_out, H_out, W_out).
        stride, padding, dilation, groups: As for `tt.nn.functional.conv3d`.

    Returns:
        A tensor of shape `weight_size`.

    Example:
        >>> import triten as tt
        >>> tt.nn.grad.conv3d_weight(tt.ones(1, 1, 1, 1, 2), (1, 1, 1, 1, 2), tt.ones(1, 1, 1, 1, 1))
        tensor([[[[[1., 1.]]]]])
    """
    weight = grad_output.new_empty(1).expand(weight_size)
    return _gradient(3, grad_output, input, weight, stride, padding, dilation, groups, False)

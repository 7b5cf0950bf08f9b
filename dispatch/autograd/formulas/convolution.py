"""Formulas of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...generated import functions as ops

if TYPE_CHECKING:
    from ...tensor import Tensor


def convolution_of(
    input: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    sizes: Sequence[int],
) -> Tensor:
    """The forward convolution, without bias, cut to `sizes`: a transposed one may lack the last positions."""
    none = (0,) * len(stride)
    out = ops.convolution(input, weight, None, stride, padding, dilation, False, none, groups)
    for dim in range(2, len(sizes)):
        if out.shape[dim] != sizes[dim]:
            out = out.slice(dim, 0, sizes[dim])
    return out


def convolution_bias_backward(grad: Tensor) -> Tensor:
    """The sum over everything but channels."""
    return grad.sum((0, *range(2, grad.ndim)))


def convolution_input_gradient(
    grad: Tensor,
    weight: Tensor,
    sizes: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    groups: int,
) -> Tensor:
    """The gradient of a convolution's input, which has `sizes`; of a transposed one it is a convolution."""
    if transposed:
        return convolution_of(grad, weight, stride, padding, dilation, groups, sizes)
    return ops.convolution_backward_input(grad, weight, sizes, stride, padding, dilation, groups)


def convolution_weight_gradient(
    grad: Tensor,
    input: Tensor,
    sizes: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    groups: int,
) -> Tensor:
    """The gradient of a convolution's weight, which has `sizes`; of a transposed one the input is what gathers."""
    outer, inner = (input, grad) if transposed else (grad, input)
    return ops.convolution_backward_weight(outer, inner, sizes, stride, padding, dilation, groups)

"""Formulas of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...generated import functions as ops


def convolution_of(
    input: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int, sizes: Sequence[int]
) -> Any:
    """The forward convolution, without bias, cut to `sizes`: a transposed one may lack the last positions."""
    none = (0,) * len(stride)
    out = ops.convolution(input, weight, None, stride, padding, dilation, False, none, groups)
    for dim in range(2, len(sizes)):
        if out.shape[dim] != sizes[dim]:
            out = out.slice(dim, 0, sizes[dim])
    return out


def convolution_bias_backward(grad: Any) -> Any:
    """The sum over everything but channels."""
    return grad.sum((0, *range(2, grad.ndim)))


def convolution_input_gradient(
    grad: Any,
    weight: Any,
    sizes: Sequence[int],
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    groups: int,
) -> Any:
    """The gradient of a convolution's input, which has `sizes`; of a transposed one it is a convolution."""
    if transposed:
        return convolution_of(grad, weight, stride, padding, dilation, groups, sizes)
    return ops.convolution_backward_input(grad, weight, sizes, stride, padding, dilation, groups)


def convolution_weight_gradient(
    grad: Any,
    input: Any,
    sizes: Sequence[int],
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    groups: int,
) -> Any:
    """The gradient of a convolution's weight, which has `sizes`; of a transposed one the input is what gathers."""
    outer, inner = (input, grad) if transposed else (grad, input)
    return ops.convolution_backward_weight(outer, inner, sizes, stride, padding, dilation, groups)

"""Formulas of convolutions."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
    """Return the forward convolution without bias, cut to `sizes`: a transposed one may lack the last positions."""
    none = (0,) * len(stride)
    out = ops.convolution(input, weight, None, stride, padding, dilation, False, none, groups)
    for dim in range(2, len(sizes)):
        if out.shape[dim] != sizes[dim]:
            out = out.slice(dim, 0, sizes[dim])
    return out


def convolution_bias_backward(grad: Tensor) -> Tensor:
    """Return the sum over all dimensions except channels."""
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
    """Return the gradient of a convolution's input, of shape `sizes`. For a transposed one, this is a convolution."""
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
    """Return the gradient of a convolution's weight, of shape `sizes`. A transposed one swaps input and gradient."""
    outer, inner = (input, grad) if transposed else (grad, input)
    return ops.convolution_backward_weight(outer, inner, sizes, stride, padding, dilation, groups)


def convolution_gradients(
    grad: Tensor,
    input: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    groups: int,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of a convolution's input and weight. On a GPU, one operator computes both and converts
    layouts once.
    """
    if grad.is_cuda and not transposed:
        return ops._convolution_backward_both(grad, input, weight, stride, padding, dilation, groups)
    window = (stride, padding, dilation, transposed, groups)
    return (
        convolution_input_gradient(grad, weight, input.shape, *window),
        convolution_weight_gradient(grad, input, weight.shape, *window),
    )


def convolution_double_backward(
    grads: Sequence[Any],
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Differentiate both gradients of a convolution by the output's gradient, the input and the weight."""
    of_input, of_weight = grads
    window = (stride, padding, dilation, groups)
    terms = []
    outer = inner = filters = None
    if of_input is not None:
        terms.append(convolution_of(of_input, weight.conj(), *window, grad_output.shape))
        filters = ops.convolution_backward_weight(grad_output.conj(), of_input, weight.shape, *window)
    if of_weight is not None:
        terms.append(convolution_of(input.conj(), of_weight, *window, grad_output.shape))
        inner = ops.convolution_backward_input(grad_output.conj(), of_weight, input.shape, *window)
    if terms:
        outer = functools.reduce(ops.add, terms)
    return outer, inner, filters

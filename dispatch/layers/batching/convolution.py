"""Batching rules of convolutions: the examples become samples, channels or groups of one convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...generated import functions as ops
from .layout import Batch, Dims, Rule, apart, as_channels, folded, from_channels, front, outline, whole

if TYPE_CHECKING:
    from ...tensor import Tensor

Window = Sequence[int]


def convolution(
    batch: Batch,
    dims: Dims,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Window,
    padding: Window,
    dilation: Window,
    transposed: bool,
    output_padding: Window,
    groups: int,
) -> tuple[Any, Any]:
    """Run a convolution: a shared weight makes examples samples; mapped weights make each example a group."""
    size = batch.size
    if size == 0:
        rest = (stride, padding, dilation, transposed, output_padding, groups)
        return outline(batch, dims, input, weight, bias, *rest), 0

    def convolve(x: Tensor, w: Tensor, b: Tensor | None, g: int) -> Tensor:
        return ops.convolution(x, w, b, stride, padding, dilation, transposed, output_padding, g)

    shared_bias = bias if dims[2] is None else None
    if dims[1] is None and dims[0] is not None:
        out, out_dim = apart(convolve(folded(front(input, dims[0])), weight, shared_bias, groups), size), 0
        if bias is shared_bias:
            return out, out_dim
    elif dims[1] is None:
        out, out_dim = convolve(input, weight, None, groups).unsqueeze(0), 0
    elif dims[0] is None and groups == 1:
        weights = as_channels(weight, dims[1], size) if transposed else folded(front(weight, dims[1]))
        out, out_dim = from_channels(convolve(input, weights, None, 1), size), 1
    else:
        channels = as_channels(input, dims[0], size)
        out = from_channels(convolve(channels, folded(front(weight, dims[1])), None, size * groups), size)
        out_dim = 1
    out = front(out, out_dim)
    if bias is not None:
        rows = whole(bias, dims[2], size)
        out = out + rows.reshape((size, 1, rows._spec.sizes[1], *(1,) * (out._spec.ndim - 3)))
    return out, 0


def backward_input(
    batch: Batch,
    dims: Dims,
    grad: Tensor,
    weight: Tensor,
    input_size: Sequence[int],
    stride: Window,
    padding: Window,
    dilation: Window,
    groups: int,
) -> tuple[Any, Any]:
    """Compute the gradient of the input, also of a transposed convolution."""
    size = batch.size
    if size == 0:
        return outline(batch, dims, grad, weight, input_size, stride, padding, dilation, groups), 0
    n, channels, *spatial = input_size

    def backward(g: Tensor, w: Tensor, sizes: tuple[int, ...], count: int) -> Tensor:
        return ops.convolution_backward_input(g, w, sizes, stride, padding, dilation, count)

    if dims[1] is None:
        out = backward(folded(front(grad, dims[0])), weight, (size * n, channels, *spatial), groups)
        return apart(out, size), 0
    channelled = as_channels(grad, dims[0], size)
    out = backward(channelled, folded(front(weight, dims[1])), (n, size * channels, *spatial), size * groups)
    return from_channels(out, size), 1


def backward_weight(
    batch: Batch,
    dims: Dims,
    grad: Tensor,
    input: Tensor,
    weight_size: Sequence[int],
    stride: Window,
    padding: Window,
    dilation: Window,
    groups: int,
) -> tuple[Any, Any]:
    """Compute the gradient of the weight: one for each example."""
    size = batch.size
    if size == 0:
        return outline(batch, dims, grad, input, weight_size, stride, padding, dilation, groups), 0
    out_channels, channels, *kernel = weight_size

    def backward(g: Tensor, x: Tensor, sizes: tuple[int, ...], count: int) -> Tensor:
        return ops.convolution_backward_weight(g, x, sizes, stride, padding, dilation, count)

    grads = as_channels(grad, dims[0], size) if dims[0] is not None else grad
    if dims[1] is None and groups == 1:
        return apart(backward(grads, input, (size * out_channels, channels, *kernel), 1), size), 0
    inputs = as_channels(input, dims[1], size)
    if dims[0] is None:
        if groups == 1:
            out = backward(grad, inputs, (out_channels, size * channels, *kernel), 1)
            return from_channels(out, size), 1
        grads = as_channels(grad, None, size)
    sizes = (size * out_channels, channels, *kernel)
    return apart(backward(grads, inputs, sizes, size * groups), size), 0


def backward_both(
    batch: Batch,
    dims: Dims,
    grad: Tensor,
    input: Tensor,
    weight: Tensor,
    stride: Window,
    padding: Window,
    dilation: Window,
    groups: int,
) -> tuple[Any, Any]:
    """Compute both gradients, each by its own rule.

    A gradient without batched operands is the same for every example.
    """
    rest = (stride, padding, dilation, groups)
    shapes = []
    for tensor, dim in ((input, dims[1]), (weight, dims[2])):
        sizes = list(tensor._spec.sizes)
        if dim is not None:
            del sizes[dim]
        shapes.append(tuple(sizes))
    if batch.size == 0:
        return tuple([grad.new_empty((0, *sizes)) for sizes in shapes]), (0, 0)
    size = batch.size
    if dims[0] is None and dims[2] is None:
        first = repeated(ops.convolution_backward_input(grad, weight, shapes[0], *rest), size)
    else:
        first = backward_input(batch, (dims[0], dims[2]), grad, weight, shapes[0], *rest)
    if dims[0] is None and dims[1] is None:
        second = repeated(ops.convolution_backward_weight(grad, input, shapes[1], *rest), size)
    else:
        second = backward_weight(batch, (dims[0], dims[1]), grad, input, shapes[1], *rest)
    return (first[0], second[0]), (first[1], second[1])


def repeated(result: Tensor, size: int) -> tuple[Tensor, int]:
    """Expand a result that is the same for every example."""
    return result.unsqueeze(0).expand((size, *result._spec.sizes)), 0


RULES: dict[str, Rule] = {
    "convolution": convolution,
    "_convolution_backward_both": backward_both,
    "convolution_backward_input": backward_input,
    "convolution_backward_weight": backward_weight,
}

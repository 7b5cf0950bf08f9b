"""Rules of convolutions: the examples become samples, channels or groups of one convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...generated import functions as ops
from .layout import Batch, Dims, Rule, front, outline, whole

Window = Sequence[int]


def _folded(x: Any, dim: int | None) -> Any:
    """(batch, n, ...) as (batch * n, ...)."""
    x = front(x, dim)
    sizes = x._spec.sizes
    return x.reshape((sizes[0] * sizes[1], *sizes[2:]))


def _split(x: Any, size: int) -> Any:
    """(batch * n, ...) as (batch, n, ...)."""
    sizes = x._spec.sizes
    return x.reshape((size, sizes[0] // size, *sizes[1:]))


def _as_channels(x: Any, dim: int | None, size: int) -> Any:
    """(n, batch * channels, ...) from (batch, n, channels, ...)."""
    x = whole(x, dim, size)
    sizes = x._spec.sizes
    return x.transpose(0, 1).reshape((sizes[1], sizes[0] * sizes[2], *sizes[3:]))


def _from_channels(x: Any, size: int) -> Any:
    """(n, batch, channels, ...) from (n, batch * channels, ...)."""
    sizes = x._spec.sizes
    return x.reshape((sizes[0], size, sizes[1] // size, *sizes[2:]))


def convolution(
    batch: Batch,
    dims: Dims,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Window,
    padding: Window,
    dilation: Window,
    transposed: bool,
    output_padding: Window,
    groups: int,
) -> tuple[Any, Any]:
    """Inputs of one shared weight are samples; weights of their own make each example a group."""
    size = batch.size
    if size == 0:
        rest = (stride, padding, dilation, transposed, output_padding, groups)
        return outline(batch, dims, input, weight, bias, *rest), 0

    def convolve(x: Any, w: Any, b: Any, g: int) -> Any:
        return ops.convolution(x, w, b, stride, padding, dilation, transposed, output_padding, g)

    shared_bias = bias if dims[2] is None else None
    if dims[1] is None and dims[0] is not None:
        out, place = _split(convolve(_folded(input, dims[0]), weight, shared_bias, groups), size), 0
        if bias is shared_bias:
            return out, place
    elif dims[1] is None:
        out, place = convolve(input, weight, None, groups).unsqueeze(0), 0
    elif dims[0] is None and groups == 1:
        weights = _as_channels(weight, dims[1], size) if transposed else _folded(weight, dims[1])
        out, place = _from_channels(convolve(input, weights, None, 1), size), 1
    else:
        channels = _as_channels(input, dims[0], size)
        out = _from_channels(convolve(channels, _folded(weight, dims[1]), None, size * groups), size)
        place = 1
    out = front(out, place)
    if bias is not None:
        rows = whole(bias, dims[2], size)
        out = out + rows.reshape((size, 1, rows._spec.sizes[1], *(1,) * (out._spec.ndim - 3)))
    return out, 0


def backward_input(
    batch: Batch,
    dims: Dims,
    grad: Any,
    weight: Any,
    input_size: Sequence[int],
    stride: Window,
    padding: Window,
    dilation: Window,
    groups: int,
) -> tuple[Any, Any]:
    """The gradient of the input, which is also a transposed convolution."""
    size = batch.size
    if size == 0:
        return outline(batch, dims, grad, weight, input_size, stride, padding, dilation, groups), 0
    n, channels, *spatial = input_size

    def backward(g: Any, w: Any, sizes: tuple[int, ...], count: int) -> Any:
        return ops.convolution_backward_input(g, w, sizes, stride, padding, dilation, count)

    if dims[1] is None:
        out = backward(_folded(grad, dims[0]), weight, (size * n, channels, *spatial), groups)
        return _split(out, size), 0
    channelled = _as_channels(grad, dims[0], size)
    out = backward(channelled, _folded(weight, dims[1]), (n, size * channels, *spatial), size * groups)
    return _from_channels(out, size), 1


def backward_weight(
    batch: Batch,
    dims: Dims,
    grad: Any,
    input: Any,
    weight_size: Sequence[int],
    stride: Window,
    padding: Window,
    dilation: Window,
    groups: int,
) -> tuple[Any, Any]:
    """The gradient of the weight: one for each example."""
    size = batch.size
    if size == 0:
        return outline(batch, dims, grad, input, weight_size, stride, padding, dilation, groups), 0
    out_channels, channels, *kernel = weight_size

    def backward(g: Any, x: Any, sizes: tuple[int, ...], count: int) -> Any:
        return ops.convolution_backward_weight(g, x, sizes, stride, padding, dilation, count)

    grads = _as_channels(grad, dims[0], size) if dims[0] is not None else grad
    if dims[1] is None and groups == 1:
        return _split(backward(grads, input, (size * out_channels, channels, *kernel), 1), size), 0
    inputs = _as_channels(input, dims[1], size)
    if dims[0] is None:
        if groups == 1:
            out = backward(grad, inputs, (out_channels, size * channels, *kernel), 1)
            return _from_channels(out, size), 1
        grads = _as_channels(grad, None, size)
    sizes = (size * out_channels, channels, *kernel)
    return _split(backward(grads, inputs, sizes, size * groups), size), 0


RULES: dict[str, Rule] = {
    "convolution": convolution,
    "convolution_backward_input": backward_input,
    "convolution_backward_weight": backward_weight,
}

"""Convolution as im2col and one matrix product for each group, a few images at a time."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..runtime.memory_format import is_channels_last
from ..runtime.tensor_spec import TensorSpec
from .error_state import quiet
from .integer_matmul import integer_matmul
from .widen import compute_np
from .windows import Window, pad, windows

COLUMN_BYTES = 4 << 20
"""Columns that are made at a time; more of them only leave the cache."""


class Convolution(NamedTuple):
    """The numbers of one convolution, whichever of the three kernels asks."""

    n: int
    channels: int
    outputs: int
    groups: int
    spatial: tuple[int, ...]
    window: Window
    np_dtype: Any
    multiply: Any

    @property
    def depth(self) -> int:
        """Elements under a window of one group."""
        return self.channels // self.groups * math.prod(self.window.kernel)

    @property
    def positions(self) -> int:
        """Windows of one image."""
        return math.prod(self.window.out)

    @property
    def step(self) -> int:
        """Images whose columns are made at a time."""
        image = self.channels * math.prod(self.window.kernel) * self.positions * self.np_dtype.itemsize
        return max(1, min(self.n, COLUMN_BYTES // max(image, 1)))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to multiply."""
        return 0 in (self.n, self.outputs, self.depth, self.positions)


def of_call(call: StructuredCall, input: tuple[int, ...], weight: tuple[int, ...], out: tuple[int, ...]) -> Convolution:
    """The convolution of input, weight and output sizes. Refuses bool."""
    args = call.args
    spec: TensorSpec = args["input"] if "input" in args else args["grad_output"]
    if spec.dtype.name == "bool":
        raise NotImplementedError(f"\"slow_conv2d_cpu\" not implemented for '{spec.dtype.scalar_name}'")
    window = Window(weight[2:], args["stride"], args["padding"], args["dilation"], out[2:])
    multiply = integer_matmul if spec.dtype.is_integral else np.matmul
    return Convolution(
        input[0], input[1], weight[0], args["groups"], input[2:], window, compute_np(spec.dtype), multiply
    )


def columns(conv: Convolution, input: Any) -> Any:
    """The windows of some images as (groups, depth, images * positions)."""
    view = windows(pad(input, conv.window, conv.np_dtype), conv.window)
    rank = len(conv.spatial)
    order = (*range(1, rank + 2), 0, *range(rank + 2, 2 * rank + 2))
    return np.ascontiguousarray(view.transpose(order)).reshape(conv.groups, conv.depth, -1)


def channels_first(conv: Convolution, grad: Any) -> Any:
    """Gradients of some images as (groups, outputs of a group, images * positions)."""
    rows = grad.astype(conv.np_dtype, copy=False).swapaxes(0, 1)
    return rows.reshape(conv.groups, conv.outputs // conv.groups, -1)


def convolution(call: StructuredCall) -> PlannedKernel:
    """Forward: weight (O, depth) by columns (depth, images * positions), group by group."""
    input, weight, spec = call.args["input"], call.args["weight"], call.outputs[0]
    conv = of_call(call, input.sizes, weight.sizes, spec.sizes)
    if conv.is_empty:
        return PlannedKernel(_bias_alone)
    if conv.groups == 1 and conv.multiply is np.matmul and spec.ndim > 3 and _is_rows(spec):
        return PlannedKernel(quiet(_forward_channels_last(conv, spec)))
    step, tail = conv.step, (1,) * len(conv.spatial)
    direct = step == 1 and spec.is_contiguous and spec.np_dtype == conv.np_dtype and conv.multiply is np.matmul

    def into(out: Any, input: Any, weight: Any, bias: Any) -> None:
        matrix = weight.astype(conv.np_dtype, copy=False).reshape(conv.groups, -1, conv.depth)
        addend = None if bias is None else bias.astype(conv.np_dtype, copy=False).reshape(-1, *tail)
        for start in range(0, conv.n, step):
            made_of = columns(conv, input[start : start + step])
            target = out[start : start + step]
            if direct:
                np.matmul(matrix, made_of, out=target.reshape(conv.groups, -1, conv.positions))
                if addend is not None:
                    target += addend
                continue
            made = conv.multiply(matrix, made_of).reshape(conv.outputs, -1, *conv.window.out).swapaxes(0, 1)
            if addend is None:
                np.copyto(target, made, casting="unsafe")
            else:
                np.add(made, addend, out=target, casting="unsafe")

    return PlannedKernel(quiet(into))


def _is_rows(spec: TensorSpec) -> bool:
    """Whether an output is channels-last, so that its positions are the rows of one matrix."""
    return is_channels_last(spec.sizes, spec.strides, spec.ndim)


def _forward_channels_last(conv: Convolution, spec: TensorSpec) -> Any:
    """Forward into channels-last: windows (images * positions, depth) by weight (depth, O)."""
    step, rank = conv.step, len(conv.spatial)
    last = (0, *range(rank + 2, 2 * rank + 2), *range(2, rank + 2), 1)
    weight_order = (*range(2, rank + 2), 1, 0)
    same = spec.np_dtype == conv.np_dtype

    def into(out: Any, input: Any, weight: Any, bias: Any) -> None:
        matrix = weight.astype(conv.np_dtype, copy=False).transpose(weight_order).reshape(conv.depth, conv.outputs)
        rows_of_out = np.moveaxis(out, 1, -1)
        for start in range(0, conv.n, step):
            padded = pad(input[start : start + step], conv.window, conv.np_dtype, channels_last=True)
            view = windows(padded, conv.window).transpose(last)
            rows = np.ascontiguousarray(view).reshape(-1, conv.depth)
            target = rows_of_out[start : start + step].reshape(-1, conv.outputs)
            if same:
                np.dot(rows, matrix, target)
            else:
                np.copyto(target, np.dot(rows, matrix), casting="unsafe")
            if bias is not None:
                np.add(target, bias, out=target, casting="unsafe")

    return into


def _bias_alone(out: Any, input: Any, weight: Any, bias: Any) -> None:
    if bias is None:
        out.fill(0)
    else:
        out[...] = bias.reshape(-1, *(1,) * (out.ndim - 2))


def _zero(out: Any, *_: Any) -> None:
    out.fill(0)


def backward_input(call: StructuredCall) -> PlannedKernel:
    """Weight transposed by the gradient gives columns; each tap's are added where they came from."""
    grad, weight = call.args["grad_output"], call.args["weight"]
    conv = of_call(call, call.outputs[0].sizes, weight.sizes, grad.sizes)
    if conv.is_empty:
        return PlannedKernel(_zero)
    window, step = conv.window, conv.step
    padded = tuple(n + 2 * p for n, p in zip(conv.spatial, window.padding, strict=True))
    inside = (slice(None), slice(None), *window.inside(conv.spatial))
    taps = [(tap, (slice(None), slice(None), *window.slices(tap))) for tap in window.taps]

    def into(out: Any, grad: Any, weight: Any) -> None:
        matrix = weight.astype(conv.np_dtype, copy=False).reshape(conv.groups, -1, conv.depth).swapaxes(1, 2)
        for start in range(0, conv.n, step):
            target = out[start : start + step].swapaxes(0, 1)
            made = conv.multiply(matrix, channels_first(conv, grad[start : start + step]))
            made = made.reshape(conv.channels, *window.kernel, -1, *window.out)
            if window.is_pointwise:
                np.copyto(target, made.reshape(target.shape), casting="unsafe")
                continue
            full = np.zeros((*target.shape[:2], *padded), conv.np_dtype)
            for tap, where in taps:
                full[where] += made[(slice(None), *tap)]
            np.copyto(target, full[inside], casting="unsafe")

    return PlannedKernel(quiet(into))


def backward_weight(call: StructuredCall) -> PlannedKernel:
    """The gradient by the columns, summed over the images."""
    grad, input = call.args["grad_output"], call.args["input"]
    conv = of_call(call, input.sizes, call.outputs[0].sizes, grad.sizes)
    if conv.is_empty:
        return PlannedKernel(_zero)
    step = conv.step

    def into(out: Any, grad: Any, input: Any) -> None:
        total = None
        for start in range(0, conv.n, step):
            rows = channels_first(conv, grad[start : start + step])
            made = conv.multiply(rows, columns(conv, input[start : start + step]).swapaxes(1, 2))
            total = made if total is None else np.add(total, made, out=total)
        assert total is not None
        np.copyto(out, total.reshape(out.shape), casting="unsafe")

    return PlannedKernel(quiet(into))


register_stub("convolution_stub", "cpu", convolution)
register_stub("convolution_backward_input_stub", "cpu", backward_input)
register_stub("convolution_backward_weight_stub", "cpu", backward_weight)

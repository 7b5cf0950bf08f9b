"""Convolution as im2col and one matrix product for each group, a few images at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dispatch.structured.native.convolution import for_each_dimension
from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..runtime.memory_format import contiguous_strides, is_channels_last
from ..runtime.tensor_spec import TensorSpec
from .error_state import quiet
from .integer_matmul import integer_matmul
from .widen import compute_np
from .windows import Padding, Window

COLUMN_BYTES = 4 << 20
"""Columns that are made at a time; more of them only leave the cache."""


class Convolution:
    """The geometry of one convolution, for whichever of its three kernels.

    Columns are (groups, depth, images * run): what the taps meet at each position. With strides of 1 the
    positions of an image are a run of its padded plane, with elements between the rows of windows that mean
    nothing: `positions` and `spread` are the way between it and (outputs, images, *out).
    """

    def __init__(
        self, call: StructuredCall, input: tuple[int, ...], weight: tuple[int, ...], out: tuple[int, ...]
    ) -> None:
        args = call.args
        spec: TensorSpec = args["input"] if "input" in args else args["grad_output"]
        if spec.dtype.name == "bool":
            raise NotImplementedError(f"\"slow_conv2d_cpu\" not implemented for '{spec.dtype.scalar_name}'")
        rank = len(weight) - 2
        stride, padding, dilation = (
            for_each_dimension(args[name], rank) for name in ("stride", "padding", "dilation")
        )
        self.window = Window(input[2:], weight[2:], stride, padding, dilation, out[2:])
        self.n, self.channels = input[:2]
        self.outputs = weight[0]
        self.groups: int = args["groups"]
        self.rank = len(self.window.out)
        self.dtype = compute_np(spec.dtype)
        self.multiply = integer_matmul if spec.dtype.is_integral else np.matmul
        taps = math.prod(self.window.kernel)
        self.depth = self.channels // self.groups * taps
        self.is_empty = 0 in (self.n, self.outputs, self.depth, *self.window.out)
        run = None if self.is_empty else self.window.run
        self.shape = self.window.out if run is None else (run,)
        self.run = math.prod(self.shape)
        self.is_dense = self.run == math.prod(self.window.out)
        image = max(1, self.channels * taps * self.run * self.dtype.itemsize)
        self.step = max(1, min(self.n, COLUMN_BYTES // image))
        self.pad = Padding(self.window, self.dtype)
        self.pitch = contiguous_strides(self.window.padded)

    def columns(self, input: Any) -> Any:
        """The windows of some images."""
        padded = self.pad(input)
        m = len(padded)
        size = self.dtype.itemsize
        window = self.window
        plane = math.prod(window.padded)
        down = [p * d * size for p, d in zip(self.pitch, window.dilation, strict=True)]
        along = [p * s * size for p, s in zip(self.pitch, window.stride, strict=True)]
        if self.shape is not window.out:
            along = [size]
        shape = (self.channels, *window.kernel, m, *self.shape)
        strides = (plane * size, *down, self.channels * plane * size, *along)
        view = np.ndarray(shape, self.dtype, padded, 0, strides)
        return np.ascontiguousarray(view).reshape(self.groups, self.depth, -1)

    def positions(self, made: Any) -> Any:
        """A product (groups, outputs of a group, images * run) as (images, outputs, *out)."""
        if self.is_dense:
            return made.reshape(self.outputs, -1, *self.window.out).swapaxes(0, 1)
        return self._view(made).swapaxes(0, 1)

    def _view(self, made: Any) -> Any:
        size, m = self.dtype.itemsize, made.size // (self.outputs * self.run)
        strides = (m * self.run * size, self.run * size, *[p * size for p in self.pitch])
        return np.ndarray((self.outputs, m, *self.window.out), made.dtype, made, 0, strides)

    def spread(self, grad: Any) -> Any:
        """Gradients (images, outputs, *out) as (groups, outputs of a group, images * run), zero in between."""
        rows = grad.swapaxes(0, 1)
        if not self.is_dense:
            made = np.zeros((self.outputs, len(grad), self.run), self.dtype)
            self._view(made)[...] = rows
            rows = made
        return rows.astype(self.dtype, copy=False).reshape(self.groups, self.outputs // self.groups, -1)

    def matrix(self, weight: Any) -> Any:
        """The weight as (groups, outputs of a group, depth)."""
        return weight.astype(self.dtype, copy=False).reshape(self.groups, -1, self.depth)


def convolution(call: StructuredCall) -> PlannedKernel:
    """Forward: weight (outputs, depth) by columns (depth, images * run), group by group."""
    if call.args["transposed"]:
        return backward_input(call._replace(args={**call.args, "grad_output": call.args["input"]}))
    input, weight, spec = call.args["input"], call.args["weight"], call.outputs[0]
    conv = Convolution(call, input.sizes, weight.sizes, spec.sizes)
    if conv.is_empty:
        return PlannedKernel(_bias_alone)
    if conv.multiply is np.matmul and conv.groups == 1 and _is_rows(spec):
        return PlannedKernel(quiet(_forward_channels_last(conv, spec)))
    same = spec.np_dtype == conv.dtype and conv.multiply is np.matmul
    if same and conv.window.is_pointwise and spec.is_contiguous:
        return PlannedKernel(quiet(_forward_pointwise(conv)))
    direct = same and conv.is_dense and conv.step == 1 and spec.is_contiguous
    step = conv.step

    def into(out: Any, input: Any, weight: Any, bias: Any) -> None:
        matrix = conv.matrix(weight)
        addend = None if bias is None else bias.astype(conv.dtype, copy=False).reshape(conv.groups, -1, 1)
        for start in range(0, conv.n, step):
            target = out[start : start + step]
            columns = conv.columns(input[start : start + step])
            if direct:
                made = np.matmul(matrix, columns, out=target.reshape(conv.groups, -1, conv.run))
            else:
                made = conv.multiply(matrix, columns)
            if addend is not None:
                made += addend
            if not direct:
                np.copyto(target, conv.positions(made), casting="unsafe")

    return PlannedKernel(quiet(into))


def _is_rows(spec: TensorSpec) -> bool:
    """Whether an output is channels-last, so that its positions are the rows of one matrix."""
    return spec.ndim in (4, 5) and is_channels_last(spec.sizes, spec.strides, spec.ndim)


def _forward_pointwise(conv: Convolution) -> Any:
    """A kernel of one element: the images are the columns."""
    shape = (conv.n, conv.groups, -1, conv.run)

    def into(out: Any, input: Any, weight: Any, bias: Any) -> None:
        np.matmul(conv.matrix(weight), conv.pad(input).reshape(shape), out=out.reshape(shape))
        if bias is not None:
            out += bias.reshape(-1, *(1,) * conv.rank)

    return into


def _forward_channels_last(conv: Convolution, spec: TensorSpec) -> Any:
    """Forward into channels-last: windows (images * positions, depth) by weight (depth, outputs)."""
    step, rank, window, c = conv.step, conv.rank, conv.window, conv.channels
    pad = Padding(window, conv.dtype, last=True)
    size = conv.dtype.itemsize * c
    plane = math.prod(window.padded) * size
    down = [p * d * size for p, d in zip(conv.pitch, window.dilation, strict=True)]
    along = [p * s * size for p, s in zip(conv.pitch, window.stride, strict=True)]
    strides = (plane, *along, *down, conv.dtype.itemsize)
    weight_order = (*range(2, rank + 2), 1, 0)
    same = spec.np_dtype == conv.dtype

    def into(out: Any, input: Any, weight: Any, bias: Any) -> None:
        matrix = (
            weight.astype(conv.dtype, copy=False).transpose(weight_order).reshape(conv.depth, conv.outputs)
        )
        rows_of_out = np.moveaxis(out, 1, -1)
        for start in range(0, conv.n, step):
            padded = pad(input[start : start + step])
            view = np.ndarray((len(padded), *window.out, *window.kernel, c), conv.dtype, padded, 0, strides)
            rows = np.ascontiguousarray(view).reshape(-1, conv.depth)
            target = rows_of_out[start : start + step].reshape(-1, conv.outputs)
            if same:
                np.dot(rows, matrix, target)
                if bias is not None:
                    target += bias
            else:
                made = np.dot(rows, matrix)
                if bias is not None:
                    made += bias.astype(conv.dtype)
                np.copyto(target, made, casting="unsafe")

    return into


def _bias_alone(out: Any, input: Any, weight: Any, bias: Any = None) -> None:
    if bias is None:
        out.fill(0)
    else:
        out[...] = bias.reshape(-1, *(1,) * (out.ndim - 2))


def _zero(out: Any, *_: Any) -> None:
    out.fill(0)


def backward_input(call: StructuredCall) -> PlannedKernel:
    """Weight transposed by the gradient gives columns; each tap's are added where they came from.

    That is a transposed convolution too, which may have a bias.
    """
    grad, weight = call.args["grad_output"], call.args["weight"]
    conv = Convolution(call, call.outputs[0].sizes, weight.sizes, grad.sizes)
    if conv.is_empty:
        return PlannedKernel(_bias_alone)
    window, step = conv.window, conv.step
    planes = (conv.channels, -1, *window.padded)
    if conv.shape is window.out:
        flat = window.padded
        taps = [(tap, (slice(None), slice(None), *window.slices(tap))) for tap in window.taps]
    else:
        flat = (math.prod(window.padded),)
        offsets = [p * d for p, d in zip(conv.pitch, window.dilation, strict=True)]
        starts = [(tap, sum(t * o for t, o in zip(tap, offsets, strict=True))) for tap in window.taps]
        taps = [(tap, (slice(None), slice(None), slice(at, at + conv.run))) for tap, at in starts]
    places = [((slice(None), *tap), where) for tap, where in taps]
    inside = (slice(None), slice(None), *window.inside)

    def into(out: Any, grad: Any, weight: Any, bias: Any = None) -> None:
        matrix = conv.matrix(weight).swapaxes(1, 2)
        addend = (
            None if bias is None else bias.astype(conv.dtype, copy=False).reshape(-1, *(1,) * (1 + conv.rank))
        )
        for start in range(0, conv.n, step):
            target = out[start : start + step].swapaxes(0, 1)
            made = conv.multiply(matrix, conv.spread(grad[start : start + step]))
            if window.is_pointwise:
                made = made.reshape(target.shape)
                np.copyto(target, made if addend is None else made + addend, casting="unsafe")
                continue
            made = made.reshape(conv.channels, *window.kernel, -1, *conv.shape)
            full = np.zeros((*target.shape[:2], *flat), conv.dtype)
            for tap, where in places:
                full[where] += made[tap]
            full = full.reshape(planes)[inside]
            np.copyto(target, full if addend is None else np.add(full, addend, out=full), casting="unsafe")

    return PlannedKernel(quiet(into))


def backward_weight(call: StructuredCall) -> PlannedKernel:
    """The columns by the gradient, summed over the images."""
    grad, input = call.args["grad_output"], call.args["input"]
    conv = Convolution(call, input.sizes, call.outputs[0].sizes, grad.sizes)
    if conv.is_empty:
        return PlannedKernel(_zero)
    step = conv.step

    def into(out: Any, grad: Any, input: Any) -> None:
        total = None
        for start in range(0, conv.n, step):
            rows = conv.spread(grad[start : start + step])
            made = conv.multiply(conv.columns(input[start : start + step]), rows.swapaxes(1, 2))
            total = made if total is None else np.add(total, made, out=total)
        assert total is not None
        np.copyto(out, total.swapaxes(1, 2).reshape(out.shape), casting="unsafe")

    return PlannedKernel(quiet(into))


register_stub("convolution_stub", "cpu", convolution)
register_stub("convolution_backward_input_stub", "cpu", backward_input)
register_stub("convolution_backward_weight_stub", "cpu", backward_weight)

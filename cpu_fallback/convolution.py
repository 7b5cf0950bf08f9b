"""Convolution as im2col and one matrix product for each group, a few images at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..dispatch.structured.native.convolution import for_each_dimension
from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..runtime.memory_format import contiguous_strides, is_channels_last
from ..runtime.tensor_spec import TensorSpec
from .error_state import quiet
from .integer_matmul import integer_matmul
from .widen import compute_np
from .windows import Padding, Window

COLUMN_BYTES = 1 << 20
"""Columns that are made at a time: they stay in the second-level cache until the product has read them."""
LEAST_POSITIONS = 512
"""Positions of a product, where there are so many: with fewer it is bound by reading the weight."""
LEAST_PRODUCTS = 1 << 23
"""Multiplications of a product, where its columns stay below `MOST_BYTES`: BLAS has its threads wait for each other."""
MOST_BYTES = 4 << 20
FEW_POSITIONS = 1 << 10
"""Up to so many the gradient of the input is added tap by tap, which takes fewer calls."""

Array = np.ndarray[Any, Any]


class Block(NamedTuple):
    """Groups, and rows of windows: positions of the outermost spatial dimension."""

    groups: slice
    rows: slice


class Convolution:
    """The geometry of one convolution, for whichever of its three kernels.

    Columns are (groups, depth, images * run): what the taps meet at each position. With strides of 1 the
    positions of an image are a run of its padded plane, with elements between the rows of windows that mean
    nothing: `positions` and `spread` are the way between it and (images, outputs, *out). They are made for a few
    images, or for a block of one image at a time.
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
        self.has_runs = run is not None
        self.run = math.prod(self.window.out) if run is None else run
        self.is_dense = self.run == math.prod(self.window.out)
        self.pad = Padding(self.window, self.dtype)
        self.pitch = contiguous_strides(self.window.padded)
        self.step, self.blocks = (1, []) if self.is_empty else self._blocks()

    def _blocks(self) -> tuple[int, list[Block]]:
        """How many images are taken at a time, and the blocks of them."""
        most = self.most_positions()
        out = self.window.out
        groups, rows, step = 1, out[0], 1
        if self.run <= most:
            groups = min(self.groups, most // self.run)
            if groups == self.groups:
                step = max(1, min(self.n, most // (self.run * groups)))
        else:
            rows = max(1, most // (self.run // out[0]))
        return step, [
            Block(slice(g, min(g + groups, self.groups)), slice(row, min(row + rows, out[0])))
            for g in range(0, self.groups, groups)
            for row in range(0, out[0], rows)
        ]

    def most_positions(self) -> int:
        """How many positions a block has."""
        each = self.depth * self.dtype.itemsize
        many = LEAST_PRODUCTS // (self.depth * self.outputs) if self.groups == 1 else 0
        return max(LEAST_POSITIONS, COLUMN_BYTES // each, min(many, MOST_BYTES // each))

    def images(self) -> Iterator[slice]:
        """The images that are taken at a time."""
        return (slice(start, min(start + self.step, self.n)) for start in range(0, self.n, self.step))

    def shape(self, block: Block) -> tuple[int, ...]:
        """The positions of a block in an image."""
        rows, out = block.rows.stop - block.rows.start, self.window.out
        if not self.has_runs:
            return (rows, *out[1:])
        return (self.run - (out[0] - rows) * self.pitch[0],)

    def buffer(self) -> Array:
        """Room for the columns of any block."""
        most = max((b.groups.stop - b.groups.start) * math.prod(self.shape(b)) for b in self.blocks)
        return np.empty(most * self.depth * self.step, self.dtype)

    def columns(self, padded: Array, block: Block, buffer: Array) -> Array:
        """The windows of a block of some images, whose padded planes are given."""
        m = len(padded)
        size = self.dtype.itemsize
        window = self.window
        plane = math.prod(window.padded)
        each = self.channels // self.groups
        groups = block.groups.stop - block.groups.start
        down = [p * d * size for p, d in zip(self.pitch, window.dilation, strict=True)]
        along = [p * s * size for p, s in zip(self.pitch, window.stride, strict=True)]
        start = (
            block.groups.start * each * plane * size
            + block.rows.start * self.pitch[0] * window.stride[0] * size
        )
        shape = (groups * each, *window.kernel, m, *self.shape(block))
        strides = (plane * size, *down, self.channels * plane * size, *([size] if self.has_runs else along))
        view = np.ndarray(shape, self.dtype, padded, start, strides)
        made = buffer[: math.prod(shape)]
        np.copyto(made.reshape(shape), view)
        return made.reshape(groups, self.depth, -1)

    def outputs_of(self, block: Block) -> slice:
        """The output channels of a block's groups."""
        each = self.outputs // self.groups
        return slice(block.groups.start * each, block.groups.stop * each)

    def channels_of(self, block: Block) -> slice:
        """The input channels of a block's groups."""
        each = self.channels // self.groups
        return slice(block.groups.start * each, block.groups.stop * each)

    def positions(self, made: Array, block: Block, images: int) -> Array:
        """A product (groups, outputs of a group, images * positions) as (images, outputs, rows, ...), a view."""
        outputs, size = made.shape[0] * made.shape[1], self.dtype.itemsize
        shape = (outputs, images, block.rows.stop - block.rows.start, *self.window.out[1:])
        if not self.has_runs:
            return made.reshape(shape).swapaxes(0, 1)
        run = math.prod(self.shape(block))
        strides = (images * run * size, run * size, *[p * size for p in self.pitch])
        return np.ndarray(shape, made.dtype, made, 0, strides).swapaxes(0, 1)

    def spread(self, grad: Array, block: Block) -> Array:
        """Gradients of a block as (groups, outputs of a group, images * positions), zero in between."""
        part = grad[:, self.outputs_of(block), block.rows]
        groups = block.groups.stop - block.groups.start
        if self.is_dense:
            rows = part.swapaxes(0, 1).astype(self.dtype, copy=False)
            return rows.reshape(groups, self.outputs // self.groups, -1)
        positions = len(grad) * math.prod(self.shape(block))
        made = np.zeros((groups, self.outputs // self.groups, positions), self.dtype)
        self.positions(made, block, len(grad))[...] = part
        return made

    def matrix(self, weight: Array) -> Array:
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

    def into(out: Any, input: Any, weight: Any, bias: Any) -> None:
        matrix = conv.matrix(weight)
        addend = None if bias is None else bias.astype(conv.dtype, copy=False).reshape(conv.groups, -1, 1)
        buffer = conv.buffer()
        for images in conv.images():
            padded = conv.pad(input[images])
            for block in conv.blocks:
                columns = conv.columns(padded, block, buffer)
                groups = block.groups
                target = out[images, conv.outputs_of(block), block.rows]
                if direct:
                    whole = out[images].reshape(conv.groups, -1, conv.run)
                    at = block.rows.start * (conv.run // conv.window.out[0])
                    made = whole[groups, :, at : at + columns.shape[2]]
                    np.matmul(matrix[groups], columns, out=made)
                else:
                    made = conv.multiply(matrix[groups], columns)
                if addend is not None:
                    made += addend[groups]
                if not direct:
                    np.copyto(target, conv.positions(made, block, len(padded)), casting="unsafe")

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
    rank, window, c = conv.rank, conv.window, conv.channels
    pad = Padding(window, conv.dtype, last=True)
    size = conv.dtype.itemsize * c
    plane = math.prod(window.padded) * size
    down = [p * d * size for p, d in zip(conv.pitch, window.dilation, strict=True)]
    along = [p * s * size for p, s in zip(conv.pitch, window.stride, strict=True)]
    strides = (plane, *along, *down, conv.dtype.itemsize)
    weight_order = (*range(2, rank + 2), 1, 0)
    same = spec.np_dtype == conv.dtype
    inner = math.prod(window.out[1:])
    most = conv.most_positions()
    lines = min(window.out[0], max(1, most // inner))
    step = max(1, min(conv.n, most // (inner * lines))) if lines == window.out[0] else 1
    is_view = window.is_pointwise

    def into(out: Any, input: Any, weight: Any, bias: Any) -> None:
        matrix = (
            weight.astype(conv.dtype, copy=False).transpose(weight_order).reshape(conv.depth, conv.outputs)
        )
        rows_of_out = np.moveaxis(out, 1, -1)
        wide = None if bias is None else bias.astype(conv.dtype, copy=False)
        buffer = None if is_view else np.empty(step * lines * inner * conv.depth, conv.dtype)
        for start in range(0, conv.n, step):
            padded = pad(input[start : start + step])
            m = len(padded)
            for line in range(0, window.out[0], lines):
                count = min(lines, window.out[0] - line)
                shape = (m, count, *window.out[1:], *window.kernel, c)
                view = np.ndarray(shape, conv.dtype, padded, line * along[0], strides)
                if buffer is None:
                    rows = view.reshape(-1, conv.depth)
                else:
                    rows = buffer[: math.prod(shape)].reshape(-1, conv.depth)
                    np.copyto(rows.reshape(shape), view)
                target = rows_of_out[start : start + step, line : line + count].reshape(-1, conv.outputs)
                if same:
                    made = np.dot(rows, matrix, target)
                else:
                    made = np.dot(rows, matrix)
                if wide is not None:
                    made += wide
                if not same:
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
    window = conv.window
    if conv.n * conv.run > FEW_POSITIONS and not window.is_pointwise and _gathers(window):
        return PlannedKernel(_backward_by_gathering(call, conv))
    inside = (slice(None), slice(None), *window.inside)
    offsets = [p * d for p, d in zip(conv.pitch, window.dilation, strict=True)]
    starts = [(tap, sum(t * o for t, o in zip(tap, offsets, strict=True))) for tap in window.taps]

    def places(block: Block) -> list[tuple[Any, Any]]:
        """Each tap among the columns of a block, and the elements that it meets."""
        first = block.rows.start
        if conv.has_runs:
            run, at_row = math.prod(conv.shape(block)), first * conv.pitch[0]
            return [(tap, (slice(at_row + at, at_row + at + run),)) for tap, at in starts]
        step, rows = window.stride[0], block.rows.stop - first
        made = []
        for tap in window.taps:
            outermost, *others = window.slices(tap)
            start = outermost.start + first * step
            made.append((tap, (slice(start, start + (rows - 1) * step + 1, step), *others)))
        return made

    blocks = [(block, places(block)) for block in conv.blocks]

    def into(out: Any, grad: Any, weight: Any, bias: Any = None) -> None:
        matrix = conv.matrix(weight).swapaxes(1, 2)
        addend = (
            None if bias is None else bias.astype(conv.dtype, copy=False).reshape(-1, *(1,) * (1 + conv.rank))
        )
        for images in conv.images():
            target = out[images].swapaxes(0, 1)
            m = target.shape[1]
            full = np.zeros((conv.channels, m, *window.padded), conv.dtype)
            flat = full.reshape(conv.channels, m, -1) if conv.has_runs else full
            for block, taps in blocks:
                made = conv.multiply(matrix[block.groups], conv.spread(grad[images], block))
                made = made.reshape(-1, *window.kernel, m, *conv.shape(block))
                some = flat[conv.channels_of(block)]
                for tap, where in taps:
                    some[:, :, *where] += made[:, *tap]
            full = full[inside]
            np.copyto(target, full if addend is None else np.add(full, addend, out=full), casting="unsafe")

    def into_pointwise(out: Any, grad: Any, weight: Any, bias: Any = None) -> None:
        matrix = conv.matrix(weight).swapaxes(1, 2)
        for images in conv.images():
            target = out[images].swapaxes(0, 1)
            for block in conv.blocks:
                channels = conv.channels_of(block)
                made = conv.multiply(matrix[block.groups], conv.spread(grad[images], block))
                there = target[channels, :, block.rows]
                made = made.reshape(there.shape)
                if bias is not None:
                    made += bias[channels].astype(conv.dtype, copy=False).reshape(-1, *(1,) * (1 + conv.rank))
                np.copyto(there, made, casting="unsafe")

    return PlannedKernel(quiet(into_pointwise if window.is_pointwise else into))


def _gathers(window: Window) -> bool:
    """Whether the gradient of the input is a convolution too, which reads each element of it once."""
    return all(s == 1 for s in window.stride) and all(
        p <= (k - 1) * d for p, k, d in zip(window.padding, window.kernel, window.dilation, strict=True)
    )


def _backward_by_gathering(call: StructuredCall, conv: Convolution) -> Any:
    """With strides of 1: the gradient convolved with the weight, whose taps are reversed and channels exchanged."""
    grad, weight, window = call.args["grad_output"], call.args["weight"], conv.window
    each = (conv.outputs // conv.groups, conv.channels // conv.groups)
    sizes = (conv.channels, each[0], *window.kernel)
    args = {
        **call.args,
        "input": grad,
        "weight": TensorSpec.contiguous(sizes, weight.dtype, weight.device),
        "padding": tuple(
            (k - 1) * d - p for k, d, p in zip(window.kernel, window.dilation, window.padding, strict=True)
        ),
        "transposed": False,
    }
    forward = convolution(call._replace(args=args)).into
    backwards = (slice(None),) * 3 + (slice(None, None, -1),) * conv.rank

    def into(out: Any, grad: Any, weight: Any, bias: Any = None) -> None:
        reversed_taps = weight.reshape(conv.groups, *each, *window.kernel)[backwards].swapaxes(1, 2)
        forward(out, grad, np.ascontiguousarray(reversed_taps).reshape(sizes), bias)

    return into


def backward_weight(call: StructuredCall) -> PlannedKernel:
    """The columns by the gradient, summed over the blocks in float64."""
    grad, input = call.args["grad_output"], call.args["input"]
    conv = Convolution(call, input.sizes, call.outputs[0].sizes, grad.sizes)
    if conv.is_empty:
        return PlannedKernel(_zero)
    wide = np.dtype(np.float64) if conv.dtype == np.float32 else conv.dtype

    def into(out: Any, grad: Any, input: Any) -> None:
        total = np.zeros((conv.groups, conv.outputs // conv.groups, conv.depth), wide)
        buffer = conv.buffer()
        for images in conv.images():
            padded = conv.pad(input[images])
            for block in conv.blocks:
                rows = conv.spread(grad[images], block)
                total[block.groups] += conv.multiply(rows, conv.columns(padded, block, buffer).swapaxes(1, 2))
        np.copyto(out, total.reshape(out.shape), casting="unsafe")

    return PlannedKernel(quiet(into))


register_stub("convolution_stub", "cpu", convolution)
register_stub("convolution_backward_input_stub", "cpu", backward_input)
register_stub("convolution_backward_weight_stub", "cpu", backward_weight)

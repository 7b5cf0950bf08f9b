"""Convolution as im2col and one matrix product for each group, a few images at a time."""

from __future__ import annotations

import math
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


class Part(NamedTuple):
    """Some images, of those some groups and rows of windows: what one product takes. An index of all there is, is None.

    Everything that follows from the geometry is in it, so that a call looks nothing up.
    """

    images: slice | None
    groups: slice | None
    outputs: slice | None
    channels: slice | None
    rows: slice | None
    target: tuple[slice, ...] | None
    first_row: int
    count: int
    """How many images."""
    shape: tuple[int, ...]
    """The positions of an image."""
    view: tuple[int, ...]
    """Windows as a view over the padded images: (channels, *kernel, images, *shape), from the element `start`."""
    start: int
    columns: tuple[int, ...]
    """(groups, depth, images * positions)."""
    made: tuple[int, ...]
    """(outputs, images, rows, ...), the positions that mean something."""


def at(array: Array, index: Any) -> Array:
    """A part of an array; itself where that is all of it, since even such a slice takes its time."""
    return array if index is None else array[index]


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
        size = self.dtype.itemsize
        plane = math.prod(self.window.padded) * size
        down = [p * d * size for p, d in zip(self.pitch, dilation, strict=True)]
        along = [size] if self.has_runs else [p * s * size for p, s in zip(self.pitch, stride, strict=True)]
        self.strides = (plane, *down, self.channels * plane, *along)
        self.batches = [] if self.is_empty else self._batches()
        parts = [part for batch in self.batches for part in batch]
        self.room = 0 if len(parts) < 2 else max(math.prod(part.view) for part in parts)

    def _batches(self) -> list[list[Part]]:
        """All parts, those of the same images together."""
        most = self.most_positions()
        out = self.window.out
        groups, rows, step = 1, out[0], 1
        if self.run <= most:
            groups = min(self.groups, most // self.run)
            if groups == self.groups:
                step = max(1, min(self.n, most // (self.run * groups)))
        else:
            rows = max(1, most // (self.run // out[0]))
        return [
            [
                self._part(
                    slice(n, min(n + step, self.n)),
                    slice(g, min(g + groups, self.groups)),
                    slice(row, min(row + rows, out[0])),
                )
                for g in range(0, self.groups, groups)
                for row in range(0, out[0], rows)
            ]
            for n in range(0, self.n, step)
        ]

    def _part(self, images: slice, groups: slice, rows: slice) -> Part:
        out, window = self.window.out, self.window
        each, of_group = self.channels // self.groups, self.outputs // self.groups
        m, g, r = (s.stop - s.start for s in (images, groups, rows))
        shape = (self.run - (out[0] - r) * self.pitch[0],) if self.has_runs else (r, *out[1:])
        outputs = slice(groups.start * of_group, groups.stop * of_group)
        channels = slice(groups.start * each, groups.stop * each)
        plane, size = math.prod(window.padded), self.dtype.itemsize
        start = groups.start * each * plane + rows.start * self.pitch[0] * window.stride[0]

        def unless_all(part: slice, whole: int) -> slice | None:
            return None if part.stop - part.start == whole else part

        is_whole = (m, g, r) == (self.n, self.groups, out[0])
        return Part(
            unless_all(images, self.n),
            unless_all(groups, self.groups),
            unless_all(outputs, self.outputs),
            unless_all(channels, self.channels),
            unless_all(rows, out[0]),
            None if is_whole else (images, outputs, rows),
            rows.start,
            m,
            shape,
            (g * each, *window.kernel, m, *shape),
            start * size,
            (g, self.depth, m * math.prod(shape)),
            (g * of_group, m, r, *out[1:]),
        )

    def most_positions(self) -> int:
        """How many positions a block has."""
        each = self.depth * self.dtype.itemsize
        many = LEAST_PRODUCTS // (self.depth * self.outputs) if self.groups == 1 else 0
        return max(LEAST_POSITIONS, COLUMN_BYTES // each, min(many, MOST_BYTES // each))

    def buffer(self) -> Array | None:
        """Room for the columns of any part; None where one part is all there is."""
        return np.empty(self.room, self.dtype) if self.room else None

    def columns(self, padded: Array, part: Part, buffer: Array | None) -> Array:
        """The windows of a part, whose images' padded planes are given."""
        view: Array = np.ndarray(part.view, self.dtype, padded, part.start, self.strides)
        if buffer is None:
            return np.ascontiguousarray(view).reshape(part.columns)
        made = buffer[: view.size]
        np.copyto(made.reshape(part.view), view)
        return made.reshape(part.columns)

    def positions(self, made: Array, part: Part) -> Array:
        """A product (groups, outputs of a group, images * positions) as (images, outputs, rows, ...), a view."""
        if not self.has_runs:
            return made.reshape(part.made).swapaxes(0, 1)
        size = self.dtype.itemsize
        run = part.shape[0] * size
        strides = (part.count * run, run, *[p * size for p in self.pitch])
        return np.ndarray(part.made, made.dtype, made, 0, strides).swapaxes(0, 1)

    def spread(self, grad: Array, part: Part) -> Array:
        """Gradients of a part as (groups, outputs of a group, images * positions), zero in between."""
        grad = at(grad, part.target)
        groups, _, positions = part.columns
        if self.is_dense:
            rows = grad.swapaxes(0, 1).astype(self.dtype, copy=False)
            return rows.reshape(groups, -1, positions)
        made = np.zeros((groups, self.outputs // self.groups, positions), self.dtype)
        self.positions(made, part)[...] = grad
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
    direct = same and conv.is_dense and conv.batches[0][0].count == 1 and spec.is_contiguous

    def into(out: Any, input: Any, weight: Any, bias: Any) -> None:
        matrix = conv.matrix(weight)
        addend = None if bias is None else bias.astype(conv.dtype, copy=False).reshape(conv.groups, -1, 1)
        buffer = conv.buffer()
        for batch in conv.batches:
            images = batch[0].images
            padded = conv.pad(at(input, images))
            for part in batch:
                columns = conv.columns(padded, part, buffer)
                if direct:
                    made = at(at(out, images).reshape(conv.groups, -1, conv.run), part.groups)
                    if part.rows is not None:
                        first = part.first_row * (conv.run // conv.window.out[0])
                        made = made[:, :, first : first + part.columns[2]]
                    np.matmul(at(matrix, part.groups), columns, out=made)
                else:
                    made = conv.multiply(at(matrix, part.groups), columns)
                if addend is not None:
                    made += at(addend, part.groups)
                if not direct:
                    np.copyto(at(out, part.target), conv.positions(made, part), casting="unsafe")

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

    def places(part: Part) -> list[tuple[Any, Any]]:
        """Each tap among the columns of a part, and the elements that it meets."""
        first = part.first_row
        if conv.has_runs:
            run, at_row = part.shape[0], first * conv.pitch[0]
            return [(tap, (slice(at_row + s, at_row + s + run),)) for tap, s in starts]
        step, rows = window.stride[0], part.made[2]
        made = []
        for tap in window.taps:
            outermost, *others = window.slices(tap)
            start = outermost.start + first * step
            made.append((tap, (slice(start, start + (rows - 1) * step + 1, step), *others)))
        return made

    batches = [[(part, places(part)) for part in batch] for batch in conv.batches]

    def into(out: Any, grad: Any, weight: Any, bias: Any = None) -> None:
        matrix = conv.matrix(weight).swapaxes(1, 2)
        addend = (
            None if bias is None else bias.astype(conv.dtype, copy=False).reshape(-1, *(1,) * (1 + conv.rank))
        )
        for batch in batches:
            target = at(out, batch[0][0].images).swapaxes(0, 1)
            m = target.shape[1]
            full = np.zeros((conv.channels, m, *window.padded), conv.dtype)
            flat = full.reshape(conv.channels, m, -1) if conv.has_runs else full
            for part, taps in batch:
                made = conv.multiply(at(matrix, part.groups), conv.spread(grad, part))
                made = made.reshape(part.view)
                some = at(flat, part.channels)
                for tap, where in taps:
                    some[:, :, *where] += made[:, *tap]
            full = full[inside]
            np.copyto(target, full if addend is None else np.add(full, addend, out=full), casting="unsafe")

    def into_pointwise(out: Any, grad: Any, weight: Any, bias: Any = None) -> None:
        matrix = conv.matrix(weight).swapaxes(1, 2)
        for part in (part for batch in conv.batches for part in batch):
            target = at(out, part.images).swapaxes(0, 1)
            made = conv.multiply(at(matrix, part.groups), conv.spread(grad, part))
            there = at(target, part.channels)
            there = there if part.rows is None else there[:, :, part.rows]
            made = made.reshape(there.shape)
            if bias is not None:
                addend = at(bias, part.channels).astype(conv.dtype, copy=False)
                made += addend.reshape(-1, *(1,) * (1 + conv.rank))
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
        if not conv.room:
            ((part,),) = conv.batches
            made = conv.multiply(
                conv.spread(grad, part), conv.columns(conv.pad(input), part, None).swapaxes(1, 2)
            )
            np.copyto(out, made.reshape(out.shape), casting="unsafe")
            return
        total = np.zeros((conv.groups, conv.outputs // conv.groups, conv.depth), wide)
        buffer = conv.buffer()
        for batch in conv.batches:
            padded = conv.pad(at(input, batch[0].images))
            for part in batch:
                rows = conv.spread(grad, part)
                some = at(total, part.groups)
                some += conv.multiply(rows, conv.columns(padded, part, buffer).swapaxes(1, 2))
        np.copyto(out, total.reshape(out.shape), casting="unsafe")

    return PlannedKernel(quiet(into))


register_stub("convolution_stub", "cpu", convolution)
register_stub("convolution_backward_input_stub", "cpu", backward_input)
register_stub("convolution_backward_weight_stub", "cpu", backward_weight)

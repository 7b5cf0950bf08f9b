"""Convolution and the gradient of its input, each by the algorithm that the geometry allows.

- With llvmlite, compiled loops: `panels.py` for many channels and outputs, otherwise `tiles.py`.
- Images whose width stays the same are convolved by rows (`rows.py`), or by Winograd for three kernel rows
  (`winograd.py`).
- 1x1 convolutions are matmuls of images (`pointwise.py`).
- Depthwise convolutions of small planes are matmuls with matrices of taps (`small_planes.py`).
- The gradient of a weight of few taps is a matmul for each image (`few_taps.py`).
- All others are im2col and one matmul for each group, a few images at a time, on several threads
  (`columns.py`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.blas_threads import one_thread_if_small
from ...runtime.float_errors import quietly
from ...runtime.memory_format import contiguous_strides, is_channels_last
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..windows import Padding, Window
from . import panels, pointwise, small_planes, tiles, winograd
from . import rows as convolution_rows
from .columns import LARGE_WEIGHT, Convolution, Part, at
from .weight_gradient import backward_weight

FEW_POSITIONS = 1 << 10
"""Limit below which the input's gradient of a large weight is added tap by tap, without copying the weight."""
MORE_OUTPUTS = 2
"""Ratio of outputs to channels up to which the gradient gathers: columns are made of the outputs, and taps added to
channels.
"""
FEW_CHANNELS, FEW_TAPS = 32, 9
"""Fewer channels than outputs are rows of a product that are too few for the BLAS; that costs more than few taps do."""

Array = np.ndarray[Any, Any]


def convolution(call: StructuredCall) -> PlannedKernel:
    """Multiply the weight (outputs, depth) by columns (depth, images * run), group by group."""
    if call.args["transposed"]:
        return backward_input(call._replace(args={**call.args, "grad_output": call.args["input"]}))
    input, weight, spec = call.args["input"], call.args["weight"], call.outputs[0]
    conv = Convolution(call, input.sizes, weight.sizes, spec.sizes)
    if conv.is_empty:
        return PlannedKernel(_bias_alone)
    if tiles.applies(conv, spec):
        return _by_panels(conv) or PlannedKernel(quietly(_forward_tiled(conv)))
    if conv.multiply is np.matmul and conv.groups == 1 and _is_rows(spec):
        chosen(
            "channels-last columns",
            "the output is channels-last and there is one group, so that pixels are rows",
        )
        return PlannedKernel(quietly(_forward_channels_last(conv, spec)))
    if small_planes.applies(conv, spec):
        return small_planes.planned(call, conv, small_planes.forward, _convolution_by_columns)
    return _convolution_by_columns(call, conv)


def _convolution_by_columns(call: StructuredCall, conv: Convolution) -> PlannedKernel:
    spec = call.outputs[0]
    if conv.by_rows and winograd.is_worthwhile(*conv.by_rows):
        return _forward_winograd(conv.by_rows)
    if conv.by_rows:
        why = "there is one group, and the windows of {} images of {} pixels are read row by row"
        chosen("rows of the image", why, conv.n, conv.dense)
        return PlannedKernel(quietly(convolution_rows.forward(*conv.by_rows)))
    same = spec.np_dtype == conv.dtype and conv.multiply is np.matmul
    if same and conv.window.is_pointwise and spec.is_contiguous:
        chosen("one product", "the kernel has one element and a stride of 1, so that images are the columns")
        return PlannedKernel(quietly(_forward_pointwise(conv)))
    why = "the windows of {} elements are laid out as the columns of a product in {} blocks"
    chosen("columns", why, conv.depth, len(conv.batches))
    direct = same and conv.is_dense and conv.batches[0][0].count == 1 and spec.is_contiguous

    def into(out: Any, input: Any, weight: Any, bias: Any) -> None:
        matrix = conv.matrix(weight)
        addend = None if bias is None else bias.astype(conv.dtype, copy=False).reshape(conv.groups, -1, 1)

        def one(padded: Array, part: Part, room: Array | None) -> None:
            columns = conv.columns(padded, part, room)
            if direct:
                made = at(at(out, part.images).reshape(conv.groups, -1, conv.run), part.groups)
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

        def some(first: int, last: int, room: Array | None) -> None:
            for batch in conv.batches[first:last]:
                padded = conv.pad(at(input, batch[0].images))
                for part in batch:
                    one(padded, part, room)

        if len(conv.batches) > 1 or len(conv.batches[0]) == 1:
            conv.over(len(conv.batches), some)
            return
        parts, padded = conv.batches[0], conv.pad(input)

        def some_parts(first: int, last: int, room: Array | None) -> None:
            for part in parts[first:last]:
                one(padded, part, room)

        conv.over(len(parts), some_parts)

    return PlannedKernel(quietly(into))


def _forward_tiled(conv: Convolution) -> Any:
    """Return the kernel of compiled loops."""
    chosen("compiled tiles", "llvmlite is installed, and {} images of {} pixels are many", conv.n, conv.dense)
    tiled = tiles.TiledConvolution(conv, tiles.forward_geometry(conv))

    def into(out: Array, input: Array, weight: Array, bias: Array | None) -> None:
        tiled(out, np.ascontiguousarray(input), np.ascontiguousarray(weight), bias)

    return into


def _by_panels(conv: Convolution, *, is_backward: bool = False) -> PlannedKernel | None:
    """Return the kernel of panels of a convolution, or of the gradient of its input; None if it has few outputs."""
    if not panels.applies(
        conv, *((conv.outputs, conv.channels) if is_backward else (conv.channels, conv.outputs))
    ):
        return None
    chosen(
        "compiled panels",
        "llvmlite is installed, and {} channels and {} outputs are many",
        conv.channels,
        conv.outputs,
    )
    compute = panels.PanelConvolution(conv, is_backward=is_backward)

    def into(out: Array, source: Array, weight: Array, bias: Array | None = None) -> None:
        compute(out, np.ascontiguousarray(source), np.ascontiguousarray(weight), bias)

    return PlannedKernel(quietly(into))


def _forward_winograd(geometry: Sequence[Any]) -> PlannedKernel:
    chosen(
        "Winograd's F(2, 3) along columns", "the kernel has three rows, and positions and channels are many"
    )
    by_sums = quietly(winograd.forward(*geometry))
    otherwise = functools.cache(lambda: quietly(convolution_rows.forward(*geometry)))

    def into(out: Any, input: Any, weight: Any, bias: Any) -> None:
        if not by_sums(out, input, weight.transpose(2, 0, 3, 1), bias):
            otherwise()(out, input, weight, bias)

    return PlannedKernel(into)


def _is_rows(spec: TensorSpec) -> bool:
    """Return True if an output is channels-last, so that its positions are the rows of one matrix."""
    return spec.ndim in (4, 5) and is_channels_last(spec.sizes, spec.strides, spec.ndim)


def _forward_pointwise(conv: Convolution) -> Any:
    """Return the kernel of a 1x1 convolution: the images are the columns."""
    multiply = pointwise.multiply(conv.n, conv.groups, conv.dense, conv.dtype)

    def into(out: Any, input: Any, weight: Any, bias: Any) -> None:
        multiply(out, input, conv.matrix(weight), bias)

    return into


def _forward_channels_last(conv: Convolution, spec: TensorSpec) -> Any:
    """Multiply windows (images * positions, depth) by the weight (depth, outputs), into channels-last."""
    rank, window, c = conv.rank, conv.window, conv.channels
    pad = Padding(window, conv.dtype, last=True)
    size = conv.dtype.itemsize * c
    plane = math.prod(window.padded) * size
    pitch = contiguous_strides(window.padded)
    down = [p * d * size for p, d in zip(pitch, window.dilation, strict=True)]
    along = [p * s * size for p, s in zip(pitch, window.stride, strict=True)]
    strides = (plane, *along, *down, conv.dtype.itemsize)
    weight_order = (*range(2, rank + 2), 1, 0)
    same = spec.np_dtype == conv.dtype
    inner = math.prod(window.out[1:])
    most = conv.most_positions()
    lines = min(window.out[0], max(1, most // inner))
    step = max(1, min(conv.n, most // (inner * lines))) if lines == window.out[0] else 1
    is_view = window.is_pointwise
    dot = one_thread_if_small(np.dot, step * lines * inner * conv.depth * conv.outputs)

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
                    made = dot(rows, matrix, target)
                else:
                    made = dot(rows, matrix)
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


def backward_input(call: StructuredCall) -> PlannedKernel:
    """Compute the gradient of the input, or a transposed convolution, which may have a bias."""
    grad, weight = call.args["grad_output"], call.args["weight"]
    conv = Convolution(call, call.outputs[0].sizes, weight.sizes, grad.sizes)
    if conv.is_empty:
        return PlannedKernel(_bias_alone)
    if tiles.applies(conv, call.outputs[0]):
        return _by_panels(conv, is_backward=True) or _backward_tiled(call, conv)
    if small_planes.applies(conv, call.outputs[0]):
        return small_planes.planned(call, conv, small_planes.backward_input, _backward_by_taps)
    if conv.by_rows is None:
        return _backward_by_taps(call, conv)
    if winograd.is_worthwhile(*conv.by_rows):
        return _backward_winograd(call, conv)
    return _backward_by_rows(call, conv)


def _backward_tiled(call: StructuredCall, conv: Convolution) -> PlannedKernel:
    """Return the kernel of compiled loops; zeros of the border would multiply an infinite weight."""
    chosen(
        "compiled tiles, by taps if a weight is infinite",
        "llvmlite is installed, and {} images of {} pixels are many",
        *(conv.n, conv.dense),
    )
    tiled = tiles.TiledConvolution(conv, tiles.backward_geometry(conv))
    otherwise = functools.cache(lambda: _backward_by_taps(call, conv).into)

    def into(out: Array, grad: Array, weight: Array, bias: Array | None = None) -> None:
        if math.isfinite(np.vdot(weight, weight)) or np.isfinite(weight).all():
            tiled(out, np.ascontiguousarray(grad), np.ascontiguousarray(weight), bias)
        else:
            otherwise()(out, grad, weight, bias)

    return PlannedKernel(quietly(into))


def _backward_winograd(call: StructuredCall, conv: Convolution) -> PlannedKernel:
    assert conv.by_rows is not None
    chosen(
        "Winograd's F(2, 3) along columns", "the kernel has three rows, and positions and channels are many"
    )
    images, channels, outputs, window, dtype = conv.by_rows
    by_sums = quietly(winograd.forward(images, outputs, channels, convolution_rows.turned(window), dtype))
    otherwise = functools.cache(lambda: _backward_by_rows(call, conv).into)

    def into(out: Any, grad: Any, weight: Any, bias: Any = None) -> None:
        reversed_taps = weight[:, :, ::-1, ::-1].transpose(2, 1, 3, 0)
        if not by_sums(out, grad, reversed_taps, bias):
            otherwise()(out, grad, weight, bias)

    return PlannedKernel(into)


def _backward_by_rows(call: StructuredCall, conv: Convolution) -> PlannedKernel:
    assert conv.by_rows is not None
    why = "there is one group, and the windows of {} images of {} pixels are read row by row"
    chosen("rows of the image, by taps if a weight is infinite", why, conv.n, conv.dense)
    by_rows = quietly(convolution_rows.backward_input(*conv.by_rows))
    otherwise = functools.cache(lambda: _backward_by_taps(call, conv).into)

    def into(out: Any, grad: Any, weight: Any, bias: Any = None) -> None:
        kernel = by_rows if np.isfinite(weight).all() else otherwise()
        kernel(out, grad, weight, bias)

    return PlannedKernel(into)


def _backward_by_taps(call: StructuredCall, conv: Convolution, can_gather: bool = True) -> PlannedKernel:
    """Multiply the transposed weight by the gradient, and add each tap's columns to the elements that it read."""
    window = conv.window
    is_narrow = conv.outputs <= MORE_OUTPUTS * conv.channels
    if conv.channels < min(conv.outputs, FEW_CHANNELS) and math.prod(window.kernel) <= FEW_TAPS:
        is_narrow = False
    is_worth = conv.n * conv.run > FEW_POSITIONS or conv.depth * conv.outputs < LARGE_WEIGHT
    is_depthwise = conv.groups == conv.channels == conv.outputs
    can_gather = can_gather and (is_depthwise or all(s == 1 for s in window.stride))
    if can_gather and is_narrow and is_worth and not window.is_pointwise and _gathers(window):
        chosen(
            "gathering by a convolution, by taps if a weight is infinite",
            "strides are 1 or channels groups, and the {} outputs are no more than {} times the {} channels",
            *(conv.outputs, MORE_OUTPUTS, conv.channels),
        )
        return PlannedKernel(_backward_by_gathering(call, conv))
    if window.is_pointwise:
        chosen("one product", "the kernel has one element")
        spec = call.outputs[0]
        if conv.multiply is np.matmul and spec.np_dtype == conv.dtype and spec.is_contiguous:
            multiply = pointwise.multiply(conv.n, conv.groups, conv.dense, conv.dtype)

            def transposed(out: Any, grad: Any, weight: Any, bias: Any = None) -> None:
                multiply(out, grad, conv.matrix(weight).swapaxes(1, 2), bias)

            return PlannedKernel(quietly(transposed))
    else:
        chosen("taps", "each of the {} taps is added where it came from", math.prod(window.kernel))
    inside = (slice(None), slice(None), *window.inside)
    size = conv.dtype.itemsize

    def places(part: Part) -> list[tuple[Any, Any]]:
        """Return pairs for each tap: its index among a part's columns, and the index of the elements that it
        reads.
        """
        first = part.first_row
        if conv.has_runs:
            met, along, begin = part.view[conv.rank + 1 :], part.strides[conv.rank + 1 :], part.start
            line = part.strides[0]
            if not conv.is_shared:  # here channels come first
                line, along = part.count * conv.plane * size, (conv.plane * size, size)
                begin = (part.channels.start if part.channels else 0) * line + first * conv.inner[0] * size
            down = [p * d * size for p, d in zip(conv.pitches(part.count), window.dilation, strict=True)]
            shape, strides = (part.view[0], *met), (line, *along)
            return [
                (tap, (shape, begin + sum(t * d for t, d in zip(tap, down, strict=True)), strides))
                for tap in window.taps
            ]
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
        is_finite = bool(np.isfinite(matrix).all())

        def some(first: int, last: int, room: Array | None) -> None:
            for batch in batches[first:last]:
                target = at(out, batch[0][0].images).swapaxes(0, 1)
                m = target.shape[1]
                line = (conv.line(m),) if conv.is_shared else (m, *window.padded)
                full = np.zeros((conv.channels, *line), conv.dtype)
                for part, taps in batch:
                    made = conv.multiply(at(matrix, part.groups), conv.spread(grad, part))
                    if not is_finite:
                        made = conv.without_gaps(made, part)
                    made = made.reshape(part.view)
                    for tap, where in taps:
                        if conv.has_runs:
                            shape, start, strides = where
                            met: Array = np.ndarray(shape, conv.dtype, full, start, strides)
                        else:
                            met = at(full, part.channels)[:, :, *where]
                        met += made[:, *tap]
                full = conv.inside(full, m).swapaxes(0, 1) if conv.is_shared else full[inside]
                if addend is None:
                    np.copyto(target, full, casting="unsafe")
                else:
                    np.copyto(target, full + addend, casting="unsafe")

        conv.over(len(batches), some)

    def into_pointwise(out: Any, grad: Any, weight: Any, bias: Any = None) -> None:
        matrix = conv.matrix(weight).swapaxes(1, 2)

        def some(first: int, last: int, room: Array | None) -> None:
            for part in parts[first:last]:
                target = at(out, part.images).swapaxes(0, 1)
                made = conv.multiply(at(matrix, part.groups), conv.spread(grad, part))
                there = at(target, part.channels)
                there = there if part.rows is None else there[:, :, part.rows]
                made = made.reshape(there.shape)
                if bias is not None:
                    addend = at(bias, part.channels).astype(conv.dtype, copy=False)
                    made += addend.reshape(-1, *(1,) * (1 + conv.rank))
                np.copyto(there, made, casting="unsafe")

        conv.over(len(parts), some)

    parts = [part for batch in conv.batches for part in batch]
    return PlannedKernel(quietly(into_pointwise if window.is_pointwise else into))


def _gathers(window: Window) -> bool:
    """Return True if the gradient of the input is itself a convolution, which reads each element once."""
    return all(
        p <= (k - 1) * d for p, k, d in zip(window.padding, window.kernel, window.dilation, strict=True)
    )


def _backward_by_gathering(call: StructuredCall, conv: Convolution) -> Any:
    """Convolve the gradient with the flipped weight, whose input and output channels are exchanged.

    With strides above 1, zeros separate the gradient's elements.
    """
    grad, weight, window = call.args["grad_output"], call.args["weight"], conv.window
    each = (conv.outputs // conv.groups, conv.channels // conv.groups)
    sizes = (conv.channels, each[0], *window.kernel)
    spread = (
        conv.n,
        conv.outputs,
        *(
            n + 2 * p - (k - 1) * d
            for n, p, k, d in zip(window.spatial, window.padding, window.kernel, window.dilation, strict=True)
        ),
    )
    is_spread = any(s > 1 for s in window.stride)
    places = tuple(slice(0, (o - 1) * s + 1, s) for o, s in zip(window.out, window.stride, strict=True))
    args = {
        **call.args,
        "input": TensorSpec.contiguous(spread, grad.dtype, grad.device) if is_spread else grad,
        "stride": (1,) * conv.rank,
        "weight": TensorSpec.contiguous(sizes, weight.dtype, weight.device),
        "padding": tuple(
            (k - 1) * d - p for k, d, p in zip(window.kernel, window.dilation, window.padding, strict=True)
        ),
        "transposed": False,
    }
    forward = convolution(call._replace(args=args)).into
    by_taps = functools.cache(lambda: _backward_by_taps(call, conv, can_gather=False).into)
    backwards = (slice(None),) * 3 + (slice(None, None, -1),) * conv.rank

    def into(out: Any, grad: Any, weight: Any, bias: Any = None) -> None:
        if not np.isfinite(weight).all():  # it would meet the border's zeros
            by_taps()(out, grad, weight, bias)
            return
        if is_spread:
            grad, dense = np.zeros(spread, grad.dtype), grad
            grad[:, :, *places] = dense
        reversed_taps = weight.reshape(conv.groups, *each, *window.kernel)[backwards].swapaxes(1, 2)
        forward(out, grad, np.ascontiguousarray(reversed_taps).reshape(sizes), bias)

    return into


def backward_both(call: StructuredCall) -> PlannedKernel:
    """Compute the gradients of input and weight, one after the other."""
    args, (of_input, of_weight) = call.args, call.outputs
    sizes = {"input_size": args["input"].sizes, "weight_size": args["weight"].sizes}
    first, second = (
        kernel(call._replace(args={**args, **sizes}, outputs=(out,))).into
        for kernel, out in ((backward_input, of_input), (backward_weight, of_weight))
    )

    def into(to_input: Any, to_weight: Any, grad: Any, input: Any, weight: Any) -> None:
        first(to_input, grad, weight)
        second(to_weight, grad, input)

    return PlannedKernel(into)


register_stub("convolution_stub", "cpu", convolution)
register_stub("_convolution_backward_both_stub", "cpu", backward_both)
register_stub("convolution_backward_input_stub", "cpu", backward_input)
register_stub("convolution_backward_weight_stub", "cpu", backward_weight)

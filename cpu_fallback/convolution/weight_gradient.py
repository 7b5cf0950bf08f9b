"""The gradient of a convolution's weight, by the algorithm that the geometry allows."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...runtime.float_errors import quietly
from ..plain_numpy import np
from . import few_taps, panel_weight_gradient, pointwise, small_planes, tiles, winograd
from . import rows as convolution_rows
from .columns import Convolution, Part, at

TOTALS, TOTAL_BYTES = 8, 24 << 20
"""Number of accumulators of the weight's gradient that exist at once, and the limit of their bytes."""

Array = np.ndarray[Any, Any]


def _zero(out: Any, *_: Any) -> None:
    out.fill(0)


def backward_weight(call: StructuredCall) -> PlannedKernel:
    """Multiply the columns by the gradient, and accumulate blocks in float64."""
    grad, input = call.args["grad_output"], call.args["input"]
    conv = Convolution(call, input.sizes, call.outputs[0].sizes, grad.sizes, is_summed=True)
    if conv.is_empty:
        return PlannedKernel(_zero)
    if tiles.applies(conv, call.outputs[0]):
        return _by_panels(conv) if panel_weight_gradient.applies_to(conv) else _weight_tiled(call, conv)
    if small_planes.applies(conv, call.outputs[0]):
        return small_planes.planned(call, conv, small_planes.backward_weight, _weight_by_columns)
    return _weight_by_columns(call, conv)


def _by_panels(conv: Convolution) -> PlannedKernel:
    """Return the kernel of panels."""
    chosen(
        "compiled panels",
        "llvmlite is installed, and {} channels and {} outputs are many",
        conv.channels,
        conv.outputs,
    )
    sums = panel_weight_gradient.PanelSums(conv)

    def into(out: Array, grad: Array, input: Array) -> None:
        sums(out, np.ascontiguousarray(grad), np.ascontiguousarray(input))

    return PlannedKernel(quietly(into))


def _weight_tiled(call: StructuredCall, conv: Convolution) -> PlannedKernel:
    """Return the kernel of compiled loops; zeros between a gradient's rows would multiply infinite inputs."""
    chosen("compiled tiles", "llvmlite is installed, and {} images of {} pixels are many", conv.n, conv.dense)
    tiled = tiles.TiledSums(conv)
    otherwise = functools.cache(lambda: _weight_by_columns(call, conv).into)

    def into(out: Array, grad: Array, input: Array) -> None:
        tiled(out, np.ascontiguousarray(grad), np.ascontiguousarray(input))
        if not (math.isfinite(np.vdot(out, out)) or np.isfinite(out).all()):
            otherwise()(out, grad, input)

    return PlannedKernel(quietly(into))


def _weight_by_columns(call: StructuredCall, conv: Convolution) -> PlannedKernel:
    if conv.by_rows and winograd.sums_are_worthwhile(*conv.by_rows):
        return _weight_by_sums(call, conv)
    return _weight_by_products(call, conv)


def _weight_by_sums(call: StructuredCall, conv: Convolution) -> PlannedKernel:
    assert conv.by_rows is not None
    chosen("Winograd's F(2, 3) along columns", "the kernel has three rows, and positions are many")
    by_sums = quietly(winograd.backward_weight(*conv.by_rows, TOTALS))
    otherwise = functools.cache(lambda: _weight_by_products(call, conv).into)

    def into(out: Any, grad: Any, input: Any) -> None:
        if not by_sums(out, grad, input):
            otherwise()(out, grad, input)

    return PlannedKernel(into)


def _weight_by_products(call: StructuredCall, conv: Convolution) -> PlannedKernel:
    if call.outputs[0].is_contiguous and not conv.window.is_pointwise and few_taps.applies(conv):
        chosen("a product for each image", "windows have {} elements, which are few", conv.depth)
        return PlannedKernel(quietly(few_taps.weight_gradient(conv)))
    if conv.by_rows and convolution_rows.sums_by_rows(conv.channels, conv.outputs, conv.window):
        chosen("rows of the image", "{} channels and {} outputs are few", conv.channels, conv.outputs)
        return PlannedKernel(quietly(convolution_rows.backward_weight(*conv.by_rows, TOTALS)))
    spec = call.outputs[0]
    is_direct = conv.multiply is np.matmul and spec.np_dtype == conv.dtype and spec.is_contiguous
    geometry = (conv.n, conv.groups, conv.outputs, conv.channels, conv.dense, conv.dtype.itemsize)
    if is_direct and conv.window.is_pointwise and pointwise.is_summed_by_image(*geometry):
        chosen("one product for each image", "the kernel has one element, and its stride is 1")
        return PlannedKernel(quietly(pointwise.weight_gradient(conv.n, conv.groups, conv.dense, conv.dtype)))
    wide = np.dtype(np.float64) if conv.dtype == np.float32 else conv.dtype

    chosen("columns", "the windows of {} elements are laid out as the columns of a product", conv.depth)
    # The larger matrix first: the other way round the BLAS takes up to 1.5 times as long.
    is_turned = conv.depth >= conv.outputs // conv.groups
    sizes = (conv.groups, conv.outputs // conv.groups, conv.depth)
    kept = (sizes[0], sizes[2], sizes[1]) if is_turned else sizes

    def summed(grad: Any, input: Any, of_columns: Callable[[Array, Part], Array]) -> Array:
        totals = np.zeros((len(shares), *kept), wide)

        def some(first: int, last: int, room: Array | None) -> None:
            for share in range(first, last):
                for batch in shares[share]:
                    padded = conv.pad(at(input, batch[0].images))
                    for part in batch:
                        rows = conv.spread(grad, part)
                        columns = of_columns(conv.columns(padded, part, room), part)
                        some = at(totals[share], part.groups)
                        factors = (columns, rows) if is_turned else (rows, columns)
                        some += conv.multiply(factors[0], factors[1].swapaxes(1, 2))

        conv.over(len(shares), some)
        total: Array = totals[0]
        for more in totals[1:]:
            total += more
        return total

    def at_once(out: Any, grad: Any, input: Any) -> None:
        target = out.reshape(sizes)
        padded = conv.pad(input)

        def some(first: int, last: int, room: Array | None) -> None:
            for part in conv.batches[0][first:last]:
                rows, columns = conv.spread(grad, part), conv.columns(padded, part, room)
                np.matmul(rows, columns.swapaxes(1, 2), out=at(target, part.groups))

        conv.over(len(conv.batches[0]), some)
        if conv.has_runs and not conv.is_dense and not math.isfinite(np.vdot(out, out)):
            into(out, grad, input)

    def into(out: Any, grad: Any, input: Any) -> None:
        total = summed(grad, input, lambda columns, part: columns)
        if conv.has_runs and not conv.is_dense and not np.isfinite(total).all():
            total = summed(grad, input, conv.without_gaps)
        total = total.swapaxes(1, 2) if is_turned else total
        np.copyto(out, total.reshape(out.shape), casting="unsafe")

    count = len(conv.batches)
    maximum = max(1, min(TOTALS, TOTAL_BYTES // (conv.depth * conv.outputs * wide.itemsize)))
    step = -(-count // maximum)
    shares = [conv.batches[i : i + step] for i in range(0, count, step)]
    if is_direct and count == 1 and all(part.rows is None for part in conv.batches[0]):
        return PlannedKernel(quietly(at_once))
    return PlannedKernel(quietly(into))

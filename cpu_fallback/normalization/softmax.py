"""Softmax and log_softmax along one axis, shifted by the maximum; 16-bit floats compute in float32.

Large tensors are computed in cache-sized blocks of whole lines, on several threads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.compiled_loops import PASSES_LOOPED_FROM
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.parallel import parallel_for
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..reduction.sums import kept_sum, pairwise_sum
from ..widen import compute_np
from . import softmax_rows
from .compiled_softmax import compiled
from .softmax_rows import MIN_ROW, by_rows, exp_of_rows

ROW = 128
"""Length of a contiguous row up to which its sum is a matmul with ones, and its maximum the element at argmax."""

ONE_CALL = 1 << 13
"""Limit below which the kernel computes whole arrays."""
EXPANDED = 32
"""Row length up to which a matmul broadcasts a row's sum, which is faster than repeating it."""
UNSHIFTED = 64.0
"""The largest number whose exp is far from both ends of float32, even when a row of them is added."""

BLOCK = 1 << 16
"""Elements of a block."""
RUN = 512
"""Elements that a block has at least of what lies side by side across lines."""


def line_blocks(spec: TensorSpec, axis: int) -> Iterator[tuple[slice, ...]]:
    """Return indices of blocks that have whole lines along an axis, and lines that lie side by side."""
    sizes = spec.sizes
    order = sorted((d for d in range(spec.ndim) if d != axis), key=lambda d: -abs(spec.strides[d]))
    below = [sizes[axis] * math.prod(sizes[d] for d in order[i + 1 :]) for i in range(len(order))]
    steps = dict.fromkeys(range(spec.ndim), 1) | {axis: sizes[axis]}
    for d, rest in zip(order, below, strict=True):
        least = RUN if spec.strides[d] == 1 else 1
        steps[d] = min(max(BLOCK // rest, least), sizes[d])
    starts = [range(0, sizes[d], steps[d]) for d in range(spec.ndim)]
    for place in itertools.product(*starts):
        yield tuple(slice(start, start + steps[d]) for d, start in enumerate(place))


def _of_lines(
    spec: TensorSpec, axis: int, np_dtype: Any
) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return functions that compute the maximum and the sum of a block along an axis."""
    if spec.ndim == 2 and _is_short_row(spec, axis):
        n = spec.sizes[1]
        rows = TensorSpec.contiguous((max(BLOCK // n, 1), n), spec.dtype, spec.device)
        return _row_peak(rows, axis), _row_sum(rows, axis, np_dtype)

    def peak(array: Any) -> Any:
        return np.maximum.reduce(array, axis, None, None, True)

    def total(array: Any) -> Any:
        return pairwise_sum(array, (axis,), np_dtype)

    return peak, total


def _in_blocks(
    call: StructuredCall, spec: TensorSpec, compute: Any, axis: int, np_dtype: Any
) -> PlannedKernel:
    """Return the blocked kernel of a large tensor."""
    peak, total = _of_lines(spec, axis, np_dtype)

    def into(out: Any, *arrays: Any) -> None:
        every = list(line_blocks(spec, axis))

        def some(first: int, last: int) -> None:
            for place in every[first:last]:
                wide = [a[place].astype(np_dtype, copy=False) for a in arrays]
                np.copyto(out[place], compute(*wide, peak, total), casting="unsafe")

        parallel_for(0, len(every), 1, some)

    return PlannedKernel(into, quiet=True)


def _planned(call: StructuredCall, name: str, compute: Any, summed: str | None = None) -> PlannedKernel:
    """Return a kernel from ``compute(*arrays, peak, total)`` over arrays of at least one dimension.

    `peak` and `total` compute the maximum and the sum along the axis. Their array has the geometry of the
    argument `summed`, or is contiguous.
    """
    spec = call.args[name]
    axis = call.extra["dim"]
    if not spec.dtype.is_floating_point:
        last = "_lastdim" if axis >= spec.ndim - 1 else ""
        raise NotImplementedError(
            f"\"{call.name.strip('_')}{last}_kernel_impl\" not implemented for '{spec.dtype.scalar_name}'"
        )
    np_dtype = compute_np(spec.dtype)
    if spec.numel == 0:
        chosen("nothing", "there are no elements")
        return PlannedKernel(lambda out, *_: None)
    if spec.numel > ONE_CALL and _has_rows(call, axis):
        n = spec.sizes[axis]
        same = all(s.np_dtype == np_dtype for s in (*_tensors(call), call.outputs[0]))
        chosen(
            "rows in blocks",
            "{} elements are more than {}, and lie in rows of {} without gaps, no shorter than {}",
            *(spec.numel, ONE_CALL, n, MIN_ROW),
        )
        return by_rows(BY_ROWS[compute], spec.numel // n, n, np_dtype, same)
    loop = compiled(call, NAMES[compute], axis, EXPANDED + 1, ROW) if spec.ndim else None
    if loop is not None:
        return loop
    if spec.numel > 2 * BLOCK:
        chosen(
            "lines in blocks of the cache",
            "{} elements are more than {}, and the lines of {} along dimension {} have gaps, or are shorter than {}",
            *(spec.numel, 2 * BLOCK, spec.sizes[axis], axis, MIN_ROW),
        )
        return _in_blocks(call, spec, compute, axis, np_dtype)
    lift = spec.ndim == 0
    if summed is not None and not lift:
        geometry = call.args[summed]
    elif spec.is_contiguous and not lift:
        geometry = spec
    else:
        geometry = TensorSpec.contiguous(spec.sizes or (1,), spec.dtype, spec.device)
    is_own = spec.np_dtype == np_dtype == call.outputs[0].np_dtype and not lift
    small_of = _SMALL.get(compute)
    if small_of is not None and is_own and _is_short_row(geometry, axis) and spec.sizes[axis] <= EXPANDED:
        small = small_of(spec)
        chosen(
            "short rows by products",
            "rows of {} elements are contiguous and no longer than {}",
            spec.sizes[axis],
            EXPANDED,
        )
        return PlannedKernel(lambda out, *arrays: np.copyto(out, small(*arrays)), small, quiet=True)
    _tell_whole(spec, geometry, axis)
    total = _row_sum(geometry, axis, np_dtype)
    peak = _row_peak(geometry, axis)

    def into(out: Any, *arrays: Any) -> None:
        wide = [a.astype(np_dtype, copy=False) for a in arrays]
        if lift:
            wide = [a.reshape(1) for a in wide]
        np.copyto(out, compute(*wide, peak, total).reshape(out.shape), casting="unsafe")

    # A kernel without `fresh` gets a loop later.
    is_long = spec.ndim > 2 or spec.sizes[axis:] > (ROW,)
    is_looped = _is_row(geometry, axis) and is_long and spec.numel >= PASSES_LOOPED_FROM
    if is_own and not (is_looped and spec.np_dtype == np.float32):
        if summed is None and len(call.runtime) == 1:
            return PlannedKernel(into, lambda array: compute(array, peak, total), quiet=True)
        return PlannedKernel(into, lambda first, second: compute(first, second, peak, total), quiet=True)
    return PlannedKernel(into, quiet=True)


def _tell_whole(spec: TensorSpec, geometry: TensorSpec, axis: int) -> None:
    if _is_short_row(geometry, axis):
        why = "{} elements are few, and a sum of rows of {} is a product with ones up to {}"
        chosen("whole arrays of short rows", why, spec.numel, geometry.sizes[axis], ROW)
    else:
        why = "{} elements are at most {}, and dimension {} has no contiguous rows of at most {}"
        if _is_row(geometry, axis):
            why = "{} elements are at most {}, and dimension {} has rows longer than {}"
        most = ONE_CALL if _is_row(geometry, axis) else 2 * BLOCK
        chosen("whole arrays", why, spec.numel, most, axis, ROW)


def _is_row(geometry: TensorSpec, axis: int) -> bool:
    return geometry.is_contiguous and axis == geometry.ndim - 1


def _tensors(call: StructuredCall) -> list[TensorSpec]:
    return [a for a in call.args.values() if isinstance(a, TensorSpec)]


def _has_rows(call: StructuredCall, axis: int) -> bool:
    """Return True if all operands and the output are contiguous, with rows along the axis."""
    specs = (*_tensors(call), call.outputs[0])
    return specs[0].sizes[axis] >= MIN_ROW and all(
        s.is_contiguous and axis == s.ndim - 1 and s.sizes == specs[0].sizes for s in specs
    )


def _is_short_row(geometry: TensorSpec, axis: int) -> bool:
    return _is_row(geometry, axis) and geometry.sizes[axis] <= ROW


def _row_sum(geometry: TensorSpec, axis: int, np_dtype: Any) -> Callable[[Any], Any]:
    if not _is_short_row(geometry, axis) or geometry.ndim > 2:
        return kept_sum(geometry, (axis,), np_dtype)
    ones = np.ones((geometry.sizes[axis], 1) if geometry.ndim == 2 else geometry.sizes[axis], np_dtype)
    return lambda array: array.dot(ones)


def _row_peak(geometry: TensorSpec, axis: int) -> Callable[[Any], Any]:
    if not _is_short_row(geometry, axis):
        return lambda array: np.maximum.reduce(array, axis, None, None, True)
    kept = (*geometry.sizes[:-1], 1)
    starts = np.arange(0, geometry.numel, geometry.sizes[axis]).reshape(kept)

    def peak(array: Any) -> Any:
        index = array.argmax(axis, None, keepdims=True)
        index += starts[: len(index)]
        return array.take(index)

    return peak


def _softmax(a: Any, peak: Any, total: Any) -> Any:
    result = np.empty(a.shape, a.dtype)
    exp_of_rows(result, a, peak(a))
    return np.divide(result, total(result), result)


def _small_softmax(spec: TensorSpec) -> Callable[[Any], Any]:
    """Return the softmax of short contiguous rows, whose sums a matmul with ones broadcasts to their elements.

    If no element exceeds `UNSHIFTED`, exp neither overflows nor underflows. Subtracting the maximum would
    only add a rounding, so it is skipped. The sum of squares bounds the elements; infinities and NaN exceed
    every bound.
    """
    n = spec.sizes[-1]
    lines = (spec.numel // n, n)
    ones, bound = _square_of_ones(n, spec.np_dtype), _BOUNDS[spec.np_dtype]
    peaks: list[Callable[[Any], Any]] = []
    exp, divide, subtract, vdot = np.exp, np.divide, np.subtract, np.vdot

    def plain(a: Any) -> Any:
        if vdot(a, a) <= bound:
            result = exp(a)
        else:
            if not peaks:
                peaks.append(_row_peak(TensorSpec.contiguous(lines, spec.dtype, spec.device), 1))
            result = subtract(a, peaks[0](a))
            exp(result, result)
        return divide(result, result.dot(ones), result)

    if spec.ndim == 2 and spec.is_contiguous:
        return plain
    sizes = spec.sizes
    if spec.is_contiguous:
        return lambda a: plain(a.reshape(lines)).reshape(sizes)
    return lambda a: plain(np.ascontiguousarray(a).reshape(lines)).reshape(sizes)


_BOUNDS = {np.dtype(kind): kind(UNSHIFTED**2) for kind in (np.float32, np.float64)}


@lru_cache(maxsize=2 * EXPANDED)
def _square_of_ones(n: int, np_dtype: Any) -> Any:
    """Return an n by n matrix of ones, whose matmul broadcasts row sums; callers must not write to it."""
    return np.ones((n, n), np_dtype)


def _small_log_softmax(spec: TensorSpec) -> Callable[[Any], Any]:
    """Return the log_softmax of short contiguous rows, whose maxima and sums matmuls with ones broadcast."""
    n = spec.sizes[-1]
    lines = (spec.numel // n, n)
    starts = np.arange(0, spec.numel, n)
    ones, row = _square_of_ones(n, spec.np_dtype), np.ones((1, n), spec.np_dtype)

    exp, log, subtract = np.exp, np.log, np.subtract

    def plain(a: Any) -> Any:
        index = a.argmax(1)
        index += starts
        result = a.take(index).reshape(-1, 1).dot(row)
        subtract(a, result, result)
        total = exp(result).dot(ones)
        log(total, total)
        return subtract(result, total, result)

    return plain if spec.ndim == 2 else lambda a: plain(a.reshape(lines)).reshape(a.shape)


def _log_softmax(a: Any, peak: Any, total: Any) -> Any:
    result = np.subtract(a, peak(a), order="C")
    return np.subtract(result, np.log(total(np.exp(result))), result)


def _softmax_backward(grad: Any, output: Any, peak: Any, total: Any) -> Any:
    result = np.multiply(grad, output, order="C")
    np.subtract(grad, total(result), result)
    return np.multiply(result, output, result)


def _log_softmax_backward(grad: Any, output: Any, peak: Any, total: Any) -> Any:
    result = np.exp(output, order="C")
    np.multiply(result, total(grad), result)
    return np.subtract(grad, result, result)


def _small_log_softmax_backward(spec: TensorSpec) -> Callable[[Any, Any], Any]:
    """Return the gradient of log_softmax of short contiguous rows, whose sums a matmul with ones broadcasts."""
    n = spec.sizes[-1]
    lines = (spec.numel // n, n)
    ones = _square_of_ones(n, spec.np_dtype)
    exp, multiply, subtract = np.exp, np.multiply, np.subtract

    def plain(grad: Any, output: Any) -> Any:
        result = exp(output)
        multiply(result, grad.dot(ones), result)
        return subtract(grad, result, result)

    def lifted(grad: Any, output: Any) -> Any:
        flat = np.ascontiguousarray(output).reshape(lines)
        return plain(grad.reshape(lines), flat).reshape(output.shape)

    return plain if spec.ndim == 2 and spec.is_contiguous else lifted


_SMALL: dict[Callable[..., Any], Callable[[TensorSpec], Callable[..., Any]]] = {
    _softmax: _small_softmax,
    _log_softmax: _small_log_softmax,
    _log_softmax_backward: _small_log_softmax_backward,
}
"""The functions for a few short rows."""

NAMES = {
    _softmax: "softmax",
    _log_softmax: "log_softmax",
    _softmax_backward: "softmax_backward",
    _log_softmax_backward: "log_softmax_backward",
}
"""Names of the compiled loops."""

BY_ROWS = {
    _softmax: softmax_rows.softmax,
    _log_softmax: softmax_rows.log_softmax,
    _softmax_backward: softmax_rows.softmax_backward,
    _log_softmax_backward: softmax_rows.log_softmax_backward,
}


def softmax(call: StructuredCall) -> PlannedKernel:
    """Compute exp(self - max) over its sum; a row of -inf alone gives NaN."""
    return _planned(call, "self", _softmax)


def log_softmax(call: StructuredCall) -> PlannedKernel:
    """Compute self - max - log(sum(exp(self - max)))."""
    return _planned(call, "self", _log_softmax)


def softmax_backward(call: StructuredCall) -> PlannedKernel:
    """Compute (grad - sum(grad * output)) * output."""
    return _planned(call, "output", _softmax_backward)


def log_softmax_backward(call: StructuredCall) -> PlannedKernel:
    """Compute grad - exp(output) * sum(grad)."""
    return _planned(call, "output", _log_softmax_backward, "grad_output")


register_stub("softmax_stub", "cpu", softmax)
register_stub("log_softmax_stub", "cpu", log_softmax)
register_stub("softmax_backward_stub", "cpu", softmax_backward)
register_stub("log_softmax_backward_stub", "cpu", log_softmax_backward)

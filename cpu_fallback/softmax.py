"""Softmax and log_softmax along one axis, shifted by the maximum; narrow floats in float32."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..runtime.tensor_spec import TensorSpec
from .reduction import kept_sum
from .widen import compute_np

ROW = 128
"""Up to this length of a contiguous row its sum is a product with ones, and its maximum the element at argmax."""


def _planned(call: StructuredCall, name: str, compute: Any, summed: str | None = None) -> PlannedKernel:
    """A kernel from ``compute(*arrays, peak, total)`` over arrays of one dimension and more.

    `peak` and `total` are the maximum and the sum along the axis, of an array with the geometry of the argument
    `summed`, or of a contiguous one.
    """
    spec = call.args[name]
    if not spec.dtype.is_floating_point:
        raise call.refuse(spec)
    np_dtype = compute_np(spec.dtype)
    axis = call.extra["dim"]
    if spec.numel == 0:
        return PlannedKernel(lambda out, *_: None)
    lift = spec.ndim == 0
    geometry = TensorSpec.contiguous(spec.sizes or (1,), spec.dtype, spec.device)
    if summed is not None and not lift:
        geometry = call.args[summed]
    total = _row_sum(geometry, axis, np_dtype)
    peak = _row_peak(geometry, axis)

    def into(out: Any, *arrays: Any) -> None:
        wide = [a.astype(np_dtype, copy=False) for a in arrays]
        if lift:
            wide = [a.reshape(1) for a in wide]
        np.copyto(out, compute(*wide, peak, total).reshape(out.shape), casting="unsafe")

    if spec.np_dtype == np_dtype == call.outputs[0].np_dtype and not lift:
        if summed is None and len(call.runtime) == 1:
            return PlannedKernel(into, lambda array: compute(array, peak, total), quiet=True)
        return PlannedKernel(into, lambda first, second: compute(first, second, peak, total), quiet=True)
    return PlannedKernel(into, quiet=True)


def _is_short_row(geometry: TensorSpec, axis: int) -> bool:
    return geometry.is_contiguous and axis == geometry.ndim - 1 and geometry.sizes[axis] <= ROW


def _row_sum(geometry: TensorSpec, axis: int, np_dtype: Any) -> Callable[[Any], Any]:
    if not _is_short_row(geometry, axis) or geometry.ndim > 2:
        return kept_sum(geometry, (axis,), np_dtype)
    ones = np.ones((geometry.sizes[axis], 1) if geometry.ndim == 2 else geometry.sizes[axis], np_dtype)
    return operator.methodcaller("dot", ones)


def _row_peak(geometry: TensorSpec, axis: int) -> Callable[[Any], Any]:
    if not _is_short_row(geometry, axis):
        return lambda array: np.maximum.reduce(array, axis, None, None, True)
    kept = (*geometry.sizes[:-1], 1)
    starts = np.arange(0, geometry.numel, geometry.sizes[axis]).reshape(kept)

    def peak(array: Any) -> Any:
        index = array.argmax(axis, None, keepdims=True)
        index += starts
        return array.take(index)

    return peak


def _softmax(a: Any, peak: Any, total: Any) -> Any:
    result = np.subtract(a, peak(a), order="C")
    np.exp(result, result)
    return np.divide(result, total(result), result)


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


def softmax(call: StructuredCall) -> PlannedKernel:
    """exp(self - max) over its sum; a row of -inf alone gives NaN."""
    return _planned(call, "self", _softmax)


def log_softmax(call: StructuredCall) -> PlannedKernel:
    """self - max - log(sum(exp(self - max)))."""
    return _planned(call, "self", _log_softmax)


def softmax_backward(call: StructuredCall) -> PlannedKernel:
    """(grad - sum(grad * output)) * output."""
    return _planned(call, "output", _softmax_backward)


def log_softmax_backward(call: StructuredCall) -> PlannedKernel:
    """grad - exp(output) * sum(grad)."""
    return _planned(call, "output", _log_softmax_backward, "grad_output")


register_stub("softmax_stub", "cpu", softmax)
register_stub("log_softmax_stub", "cpu", log_softmax)
register_stub("softmax_backward_stub", "cpu", softmax_backward)
register_stub("log_softmax_backward_stub", "cpu", log_softmax_backward)

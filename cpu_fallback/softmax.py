"""Softmax and log_softmax along one axis, shifted by the maximum; narrow floats in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from .error_state import quiet
from .reduction import pairwise_sum
from .widen import compute_np


def _planned(call: StructuredCall, name: str, compute: Any) -> PlannedKernel:
    """A kernel from ``compute(*arrays, axis, np_dtype)`` over arrays of at least one dimension."""
    spec = call.args[name]
    if not spec.dtype.is_floating_point:
        raise call.refuse(spec)
    np_dtype = compute_np(spec.dtype)
    axis = call.extra["dim"]
    if spec.numel == 0:
        return PlannedKernel(lambda out, *_: None)
    lift = spec.ndim == 0

    def into(out: Any, *arrays: Any) -> None:
        wide = [a.astype(np_dtype, copy=False) for a in arrays]
        if lift:
            wide = [a.reshape(1) for a in wide]
        np.copyto(out, compute(*wide, axis, np_dtype).reshape(out.shape), casting="unsafe")

    if spec.np_dtype == np_dtype == call.outputs[0].np_dtype and not lift:
        return PlannedKernel(quiet(into), quiet(lambda *arrays: compute(*arrays, axis, np_dtype)))
    return PlannedKernel(quiet(into))


def _total(array: Any, axis: int, np_dtype: Any) -> Any:
    return pairwise_sum(array, (axis,), np_dtype)


def _softmax(a: Any, axis: int, np_dtype: Any) -> Any:
    result = np.subtract(a, np.maximum.reduce(a, axis, keepdims=True), order="C")
    np.exp(result, result)
    return np.divide(result, _total(result, axis, np_dtype), result)


def _log_softmax(a: Any, axis: int, np_dtype: Any) -> Any:
    result = np.subtract(a, np.maximum.reduce(a, axis, keepdims=True), order="C")
    return np.subtract(result, np.log(_total(np.exp(result), axis, np_dtype)), result)


def _softmax_backward(grad: Any, output: Any, axis: int, np_dtype: Any) -> Any:
    result = np.multiply(grad, output, order="C")
    np.subtract(grad, _total(result, axis, np_dtype), result)
    return np.multiply(result, output, result)


def _log_softmax_backward(grad: Any, output: Any, axis: int, np_dtype: Any) -> Any:
    result = np.exp(output, order="C")
    np.multiply(result, _total(grad, axis, np_dtype), result)
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
    return _planned(call, "output", _log_softmax_backward)


register_stub("softmax_stub", "cpu", softmax)
register_stub("log_softmax_stub", "cpu", log_softmax)
register_stub("softmax_backward_stub", "cpu", softmax_backward)
register_stub("log_softmax_backward_stub", "cpu", log_softmax_backward)

"""Softmax and log_softmax along one axis, shifted by the maximum; narrow floats in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..runtime.tensor_spec import TensorSpec
from .error_state import quiet
from .reduction import kept_sum
from .widen import compute_np


def _planned(call: StructuredCall, name: str, compute: Any, summed: str | None = None) -> PlannedKernel:
    """A kernel from ``compute(*arrays, axis, total)`` over arrays of one dimension and more.

    `total` sums along the axis an array with the geometry of the argument `summed`, or a contiguous one.
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
    total = kept_sum(geometry, (axis,), np_dtype)

    def into(out: Any, *arrays: Any) -> None:
        wide = [a.astype(np_dtype, copy=False) for a in arrays]
        if lift:
            wide = [a.reshape(1) for a in wide]
        np.copyto(out, compute(*wide, axis, total).reshape(out.shape), casting="unsafe")

    if spec.np_dtype == np_dtype == call.outputs[0].np_dtype and not lift:
        return PlannedKernel(quiet(into), quiet(lambda *arrays: compute(*arrays, axis, total)))
    return PlannedKernel(quiet(into))


def _softmax(a: Any, axis: int, total: Any) -> Any:
    result = np.subtract(a, np.maximum.reduce(a, axis, keepdims=True), order="C")
    np.exp(result, result)
    return np.divide(result, total(result), result)


def _log_softmax(a: Any, axis: int, total: Any) -> Any:
    result = np.subtract(a, np.maximum.reduce(a, axis, keepdims=True), order="C")
    return np.subtract(result, np.log(total(np.exp(result))), result)


def _softmax_backward(grad: Any, output: Any, axis: int, total: Any) -> Any:
    result = np.multiply(grad, output, order="C")
    np.subtract(grad, total(result), result)
    return np.multiply(result, output, result)


def _log_softmax_backward(grad: Any, output: Any, axis: int, total: Any) -> Any:
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

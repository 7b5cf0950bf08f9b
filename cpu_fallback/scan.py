"""Scans: prefixes along a dimension, combined one element after another in a wide dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..runtime.scalar_type import bool_
from .error_state import quiet
from .widen import compute_np

WIDE = {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}
"""What floats of any size accumulate in, so that the error does not grow along a line of float32."""


def at_least_1d(array: Any) -> Any:
    """A number as a line of one."""
    return array if array.ndim else array.reshape(1)


def accumulation(ufunc: Any) -> Callable[[StructuredCall], PlannedKernel]:
    """The factory of a ufunc's ``accumulate`` along ``call.extra["dim"]``."""

    def factory(call: StructuredCall) -> PlannedKernel:
        out_spec = call.outputs[0]
        if out_spec.dtype is bool_:
            raise call.refuse(out_spec)
        axis = call.extra["dim"]
        wide = WIDE.get(compute_np(out_spec.dtype).kind, out_spec.np_dtype)
        direct = wide == out_spec.np_dtype

        def into(out: Any, array: Any) -> None:
            array = at_least_1d(array)
            if wide.kind in "iu" and array.dtype.kind not in "iub":
                array = array.astype(wide)
            if direct:
                ufunc.accumulate(array, axis, wide, at_least_1d(out))
            else:
                np.copyto(out, ufunc.accumulate(array, axis, wide).reshape(out.shape), casting="unsafe")

        return PlannedKernel(quiet(into))

    return factory


def logcumsumexp(call: StructuredCall) -> PlannedKernel:
    """Logarithms of sums of exponentials. Refuses all but real floats."""
    spec = call.args["self"]
    if not spec.dtype.is_floating_point:
        raise call.refuse(spec)
    axis = call.extra["dim"]

    def into(out: Any, array: Any) -> None:
        wide = at_least_1d(array).astype(np.float64)
        np.copyto(out, np.logaddexp.accumulate(wide, axis).reshape(out.shape), casting="unsafe")

    return PlannedKernel(quiet(into))


def running_extremum(ufunc: Any) -> Callable[[StructuredCall], PlannedKernel]:
    """The factory of ``cummax`` and ``cummin``: of equals, and of NaNs, the last one's index."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec = call.args["self"]
        if spec.dtype.is_complex:
            raise call.refuse(spec)
        np_dtype = compute_np(spec.dtype)
        axis = call.extra["dim"]
        positions = np.arange(spec.sizes[axis] if spec.ndim else 1)
        positions = positions.reshape(-1, *(1,) * (max(spec.ndim, 1) - axis - 1))

        def into(values: Any, indices: Any, array: Any) -> None:
            wide = at_least_1d(array).astype(np_dtype, copy=False)
            running = ufunc.accumulate(wide, axis)
            attained = (wide == running) | (wide != wide)
            where = np.maximum.accumulate(np.where(attained, positions, 0), axis)
            values[...] = running.reshape(values.shape)
            indices[...] = where.reshape(indices.shape)

        return PlannedKernel(quiet(into))

    return factory


FACTORIES: dict[str, Callable[[StructuredCall], PlannedKernel]] = {
    "cumsum_stub": accumulation(np.add),
    "cumprod_stub": accumulation(np.multiply),
    "logcumsumexp_stub": logcumsumexp,
    "cummax_stub": running_extremum(np.maximum),
    "cummin_stub": running_extremum(np.minimum),
}

for _stub, _factory in FACTORIES.items():
    register_stub(_stub, "cpu", _factory)

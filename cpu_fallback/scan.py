"""Scans: prefixes along a dimension, combined one element after another in a wide dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..runtime.scalar_type import bool_
from .error_state import quiet
from .number_parts import logaddexp
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
    """Logarithms of sums of exponentials. Refuses integers."""
    spec = call.args["self"]
    if not (spec.dtype.is_floating_point or spec.dtype.is_complex):
        raise call.refuse(spec)
    axis = call.extra["dim"]
    kind = WIDE["c" if spec.dtype.is_complex else "f"]

    def into(out: Any, array: Any) -> None:
        if not out.size:
            return
        wide = at_least_1d(array).astype(kind)
        if kind.kind == "c":
            lines = np.moveaxis(wide, axis, 0)
            found = np.moveaxis(
                complex_exponents(lines.reshape(len(lines), -1)).reshape(lines.shape), 0, axis
            )
        else:
            found = np.logaddexp.accumulate(wide, axis)
        np.copyto(out, found.reshape(out.shape), casting="unsafe")

    return PlannedKernel(quiet(into))


REACH = 600.0
"""How far below a line's greatest exponent, in float64, the exponentials of what a sum begins with may lie."""


def complex_exponents(x: Any) -> Any:
    """log(cumsum(exp(x))) along the lines x[:, i] of complex128, the angles as a step after another gives them.

    A step adds to the one with the greater real part, the later of equals, a logarithm whose angle is less than half a
    turn. So an angle is that of the sum, brought next to the angle of the number added, or of the sum before it; whole
    turns are counted in one scan.
    """
    real = x.real
    top = np.maximum.accumulate(np.where(np.isnan(real), -np.inf, real), 0)
    highest, first = top[-1], np.where(np.isneginf(top), np.inf, top).min(0)
    plain = np.isfinite(x.imag).all(0) & (real < np.inf).all(0) & (highest - first < REACH)
    out = np.empty_like(x)
    if not plain.all():
        odd = x[:, ~plain]
        out[:, ~plain] = stepwise(odd)
        if not plain.any():
            return out
    x = x[:, plain]
    shift = highest[plain]
    sums = np.cumsum(np.exp(x - np.where(np.isneginf(shift), 0.0, shift)), 0)
    size, angle = np.log(np.abs(sums)) + shift, np.angle(sums)
    size[np.isneginf(top[:, plain])] = -np.inf
    before = np.concatenate([np.full_like(size[:1], -np.inf), size[:-1]])
    fresh = (x.real >= before) & ~np.isneginf(size)
    previous = np.concatenate([np.zeros_like(angle[:1]), angle[:-1]])
    turns = np.rint((np.where(fresh, x.imag, previous) - angle) / (2 * np.pi))
    # Turns since the last number that was greater than all before it together.
    counted = np.cumsum(turns, 0)
    places = np.maximum.accumulate(np.where(fresh, np.arange(len(x))[:, None], 0), 0)
    counted -= np.take_along_axis(counted - turns, places, 0)
    out[:, plain] = size + 1j * np.where(np.isneginf(size), 0.0, angle + 2 * np.pi * counted)
    return out


def stepwise(x: Any) -> Any:
    """`complex_exponents` one step after another, for lines with infinities or NaN, or of too wide a range."""
    out = np.empty_like(x)
    total = np.full(x.shape[1:], -np.inf + 0j)
    for row, line in zip(out, x, strict=True):
        empty = np.isneginf(line.real) & np.isneginf(total.real) & ~np.isnan(line.imag)
        total = np.where(empty, total, logaddexp(line, total))
        row[...] = total
    return out


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

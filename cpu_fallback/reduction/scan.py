"""Scans: prefixes along a dimension, combined one element after another in a wide dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ...runtime.scalar_type import bool_
from ..elementwise.number_representation import logaddexp
from ..plain_numpy import copyto, np
from ..widen import compute_np
from .line_scans import by_loop

WIDE = {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}
"""Accumulator dtypes of floats of any size, so that the error does not grow along a line of float32."""


def at_least_1d(array: Any) -> Any:
    """Return a 0-d array as a vector of one element."""
    return array if array.ndim else array.reshape(1)


BLOCK = 1 << 16
"""Elements of a block, whose wide copy stays in the second-level cache."""
SHARED_FROM = 1 << 17
"""Elements from which lines are shared among threads: a step waits for the one before it, some 3 ns."""
MIN_ROW = 32
"""Elements side by side that are combined in one step, at least, where the scan goes from row to row."""


def accumulation(ufunc: Any) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the factory of a ufunc's ``accumulate`` along ``call.extra["dim"]``."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec, out_spec = call.args["self"], call.outputs[0]
        if out_spec.dtype is bool_:
            raise call.refuse(out_spec)
        axis = call.extra["dim"] - max(spec.ndim, 1)
        wide = WIDE.get(compute_np(out_spec.dtype).kind, out_spec.np_dtype)
        direct = wide == out_spec.np_dtype

        # Torch's sums begin at 0.0: only those of nothing but -0.0 show it.
        begins = ufunc is np.add and wide.kind in "fc"

        def step(out: Any, array: Any) -> None:
            if wide.kind in "iu" and array.dtype.kind not in "iub":
                array = array.astype(wide)
            scanned = ufunc.accumulate(array, axis, wide, out if direct else None)
            if begins:
                np.add(scanned, 0.0, scanned)
            if not direct:
                np.copyto(out, scanned, casting="unsafe")

        by_lines = shared_lines(call, step)
        by_rows = shared_rows(call, ufunc, wide)

        def into(out: Any, array: Any) -> None:
            step(at_least_1d(out), at_least_1d(array))

        count = call.args["self"].numel
        if by_lines:
            chosen(
                "lines on several threads",
                "{} elements lie in contiguous lines and are many",
                call.args["self"].numel,
            )
        elif by_rows:
            chosen(
                "rows added to one another",
                "{} elements lie in rows across the dimension",
                call.args["self"].numel,
            )
        else:
            chosen("one call of NumPy", "{} elements are few, or have gaps", count)
        return PlannedKernel(by_loop(call, ufunc, quietly(by_lines or by_rows or into)))

    return factory


def shared_lines(call: StructuredCall, step: Callable[..., None]) -> Callable[..., None] | None:
    """``step(*out_lines, lines)`` over matrices of the lines of a call of `BLOCK` elements, whole blocks of them.

    None where the elements of a line lie apart.
    """
    spec, outs = call.args["self"], call.outputs
    if spec.numel < BLOCK or call.extra["dim"] != spec.ndim - 1:
        return None
    if not all(s.is_contiguous for s in (spec, *outs)):
        return None
    length = spec.sizes[-1]
    count = spec.numel // length
    some = max(BLOCK // length, 1)
    shares = spec.numel >= SHARED_FROM

    def run(*data: Any) -> None:
        matrices = [array.reshape(count, length, copy=False) for array in data]

        def part(first: int, last: int) -> None:
            step(*[matrix[first * some : last * some] for matrix in matrices])

        if shares:
            parallel_for(0, -(-count // some), 1, part)
        else:
            step(*matrices)

    return run


def shared_rows(call: StructuredCall, ufunc: Any, wide: Any) -> Callable[[Any, Any], None] | None:
    """Return a scan that adds whole adjacent rows one at a time, or None for other calls."""
    spec, axis = call.args["self"], call.extra["dim"]
    if spec.numel < BLOCK or not spec.is_contiguous or not call.outputs[0].is_contiguous:
        return None
    length, inner = spec.sizes[axis], math.prod(spec.sizes[axis + 1 :])
    if inner < MIN_ROW or (wide.kind in "iu" and spec.np_dtype.kind not in "iub"):
        return None
    outer = spec.numel // (length * inner)
    parts = [slice(start, start + BLOCK) for start in range(0, inner, BLOCK)]

    def run(out: Any, array: Any) -> None:
        source, target = (a.reshape(outer, length, inner, copy=False) for a in (array, out))
        for index in range(outer):
            for part in parts:
                some = max(BLOCK // min(inner, BLOCK), 1)
                last = None
                for start in range(0, length, some):
                    rows = source[index, start : start + some, part].astype(wide)
                    if last is not None:
                        ufunc(last, rows[0], out=rows[0])
                    elif ufunc is np.add:
                        ufunc(rows[0], 0, out=rows[0])  # -0.0 as in `accumulation`
                    for i in range(1, len(rows)):
                        ufunc(rows[i - 1], rows[i], out=rows[i])
                    last = rows[-1]
                    np.copyto(target[index, start : start + some, part], rows, casting="unsafe")

    return run


def logcumsumexp(call: StructuredCall) -> PlannedKernel:
    """Compute the cumulative logsumexp; raise for integers."""
    spec = call.args["self"]
    if not (spec.dtype.is_floating_point or spec.dtype.is_complex):
        raise call.refuse(spec)
    axis = call.extra["dim"]
    kind = WIDE["c" if spec.dtype.is_complex else "f"]

    def lines(out: Any, array: Any) -> None:
        np.copyto(out, np.logaddexp.accumulate(array.astype(kind), 1), casting="unsafe")

    def into(out: Any, array: Any) -> None:
        if not out.size:
            return
        wide = at_least_1d(array).astype(kind)
        if kind.kind == "c":
            lines = np.moveaxis(wide, axis, 0)
            scanned = np.moveaxis(
                complex_exponents(lines.reshape(len(lines), -1)).reshape(lines.shape), 0, axis
            )
        else:
            scanned = np.logaddexp.accumulate(wide, axis)
        np.copyto(out, scanned.reshape(out.shape), casting="unsafe")

    by_lines = shared_lines(call, lines) if kind.kind == "f" else None
    return PlannedKernel(quietly(by_lines or into))


REACH = 600.0
"""Limit, in float64, on how far below a line's greatest exponent the initial terms of a sum may be."""


def complex_exponents(x: Any) -> Any:
    """log(cumsum(exp(x))) along the lines x[:, i] of complex128, the angles as a step after another gives them.

    A step adds to the one with the greater real part, the later of equals, a logarithm whose angle is less than half a
    turn. So an angle is that of the sum, brought next to the angle of the number added, or of the sum before it; whole
    turns are counted in one scan.
    """
    real = x.real
    running_max = np.maximum.accumulate(np.where(np.isnan(real), -np.inf, real), 0)
    highest, first = running_max[-1], np.where(np.isneginf(running_max), np.inf, running_max).min(0)
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
    size[np.isneginf(running_max[:, plain])] = -np.inf
    before = np.concatenate([np.full_like(size[:1], -np.inf), size[:-1]])
    fresh = (x.real >= before) & ~np.isneginf(size)
    previous = np.concatenate([np.zeros_like(angle[:1]), angle[:-1]])
    turns = np.rint((np.where(fresh, x.imag, previous) - angle) / (2 * np.pi))
    # Turns since the last number that was greater than all before it together.
    counted = np.cumsum(turns, 0)
    last_fresh = np.maximum.accumulate(np.where(fresh, np.arange(len(x))[:, None], 0), 0)
    counted -= np.take_along_axis(counted - turns, last_fresh, 0)
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
    """Return the factory of ``cummax`` and ``cummin``: the last index of equals and of NaNs."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec = call.args["self"]
        if spec.dtype.is_complex:
            raise call.refuse(spec)
        np_dtype = compute_np(spec.dtype)
        axis = call.extra["dim"]
        positions = np.arange(spec.sizes[axis] if spec.ndim else 1)
        positions = positions.reshape(-1, *(1,) * (max(spec.ndim, 1) - axis - 1))

        def lines(values: Any, indices: Any, array: Any) -> None:
            wide = array.astype(np_dtype, copy=False)
            running = ufunc.accumulate(wide, 1)
            attained = wide == running
            attained |= wide != wide
            np.maximum.accumulate(attained * positions, 1, None, indices)
            np.copyto(values, running, casting="unsafe")

        accumulate, latest = ufunc.accumulate, np.maximum.accumulate
        floating = np_dtype.kind == "f"

        def into(values: Any, indices: Any, array: Any) -> None:
            wide = array if array.ndim else array.reshape(1)
            if wide.dtype != np_dtype:
                wide = wide.astype(np_dtype)
            running = accumulate(wide, axis)
            attained = np.equal(wide, running)
            if floating:
                attained |= np.not_equal(wide, wide)
            where = np.multiply(attained, positions)
            latest(where, axis, None, indices if indices.ndim else indices.reshape(1))
            copyto(values, running.reshape(values.shape), casting="unsafe")

        return PlannedKernel(by_loop(call, ufunc, quietly(shared_lines(call, lines) or into)))

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

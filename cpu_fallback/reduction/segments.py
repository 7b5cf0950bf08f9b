"""Reductions of segments over ndarrays: all segments of all rows at once, by ``ufunc.reduceat``."""

from __future__ import annotations

import math
from typing import Any

from ...dispatch.structured.meta.segments import DESCENDING, LONG, NEGATIVE, NOTHING, REDUCTIONS, UNEQUAL
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ..plain_numpy import np
from ..widen import compute_np

Array = np.ndarray[Any, Any]

UFUNCS = {"sum": np.add, "mean": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}


def _rows(array: Array) -> Array:
    """Flatten all but the last dimension."""
    return array.reshape(math.prod(array.shape[:-1]), array.shape[-1])


def bounds_of(lengths: Array | None, offsets: Array | None, size: int, dim: int, unsafe: bool) -> Array:
    """Return the segments' boundaries, [rows, segments + 1]. Raise RuntimeError for invalid lengths and offsets."""
    if offsets is not None:
        bounds: Array = _rows(offsets).astype(np.int64, copy=False)
        wrong = (bounds < 0) | (bounds > size)
        wrong[:, 1:] |= bounds[:, 1:] < bounds[:, :-1]
        if wrong.any():
            raise RuntimeError(DESCENDING.format(size=size, wrong=int(bounds[wrong][0])))
        return bounds
    assert lengths is not None
    counts = _rows(lengths)
    bounds = np.zeros((len(counts), counts.shape[1] + 1), np.int64)
    np.cumsum(counts, 1, out=bounds[:, 1:])
    if not unsafe and (counts < 0).any():
        raise RuntimeError(NEGATIVE)
    ends = bounds[:, -1]
    if not unsafe and (ends != size).any():
        raise RuntimeError(UNEQUAL)
    if (counts < 0).any() or (ends > size).any():
        raise RuntimeError(LONG.format(axis=dim, size=size, wrong=int(ends.max(initial=0))))
    return bounds


def reduced(ufunc: Any, rows: Array, begins: Array, ends: Array) -> Array:
    """`ufunc` over rows[begin:end] for each pair, of which none is empty and none overlaps another."""
    if not len(begins):
        return np.empty((0, rows.shape[1]), rows.dtype)
    if (begins[1:] == ends[:-1]).all():
        return ufunc.reduceat(rows[: ends[-1]], begins, 0)  # type: ignore[no-any-return]
    both = np.stack([begins, ends], 1).reshape(-1)
    return ufunc.reduceat(rows, both[:-1] if both[-1] == len(rows) else both, 0)[::2]  # type: ignore[no-any-return]


class Segments:
    """The segments of a plan that are not empty, over data as [rows of all outer dimensions, inner]."""

    def __init__(self, data: Array, bounds: Array, dim: int) -> None:
        size = data.shape[dim]
        self.rows = data.reshape(math.prod(data.shape[: dim + 1]), math.prod(data.shape[dim + 1 :]))
        base = np.arange(len(bounds))[:, None] * size
        begins, ends = (bounds[:, :-1] + base).reshape(-1), (bounds[:, 1:] + base).reshape(-1)
        self.lengths = ends - begins
        self.full = np.flatnonzero(self.lengths)
        self.begins, self.ends = begins[self.full], ends[self.full]

    def over(self, ufunc: Any, rows: Array) -> Array:
        """Reduce each nonempty segment with `ufunc`."""
        return reduced(ufunc, rows, self.begins, self.ends)

    def places(self) -> tuple[Array, Array]:
        """Return the row indices inside segments, and each row's segment number among the nonempty ones."""
        owner = np.repeat(np.arange(len(self.full)), self.lengths[self.full])
        first = np.cumsum(self.lengths[self.full]) - self.lengths[self.full]
        return np.arange(len(owner)) - first[owner] + self.begins[owner], owner


def segment_reduce(call: StructuredCall) -> PlannedKernel:
    """Compute each segment's sum, mean, max, min or product, starting from `initial`, in the accumulator dtype."""
    out_spec, dim, unsafe = call.outputs[0], call.extra["dim"], call.args["unsafe"]
    kind = REDUCTIONS[call.args["reduce"]]
    ufunc, names = UFUNCS[kind], call.runtime
    wide = accumulator(out_spec.dtype, kind)

    def into(out: Any, *args: Any) -> None:
        values = dict(zip(names, args, strict=True))
        data, initial = values["data"], values.get("initial")
        bounds = bounds_of(values.get("lengths"), values.get("offsets"), data.shape[dim], dim, unsafe)
        segments = Segments(data.astype(wide, copy=False), bounds, dim)
        total = np.full((len(segments.lengths), segments.rows.shape[1]), NOTHING[kind], wide)
        total[segments.full] = segments.over(ufunc, segments.rows)
        if initial is not None:
            ufunc(total, np.asarray(initial, wide), out=total)
        if kind == "mean":
            lengths = segments.lengths[:, None]
            empty = np.nan if initial is None else total
            total = np.where(lengths > 0, total / np.maximum(lengths, 1), empty)
        np.copyto(out, total.reshape(out.shape), casting="unsafe")

    return PlannedKernel(quietly(into))


def accumulator(dtype: Any, kind: str) -> Any:
    """Return the accumulator dtype: float64 for sums and products; for max and min, float32 if 16-bit, else the
    dtype.
    """
    return compute_np(dtype) if kind in ("max", "min") else np.dtype(np.float64)


def segment_reduce_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the gradient of each element; elements outside of segments get zero."""
    dim, names = call.extra["dim"], call.runtime
    kind = REDUCTIONS[call.args["reduce"]]
    wide = compute_np(call.outputs[0].dtype)

    def into(out: Any, *args: Any) -> None:
        values = dict(zip(names, args, strict=True))
        data, initial = values["data"].astype(wide, copy=False), values.get("initial")
        bounds = bounds_of(values.get("lengths"), values.get("offsets"), data.shape[dim], dim, True)
        segments = Segments(data, bounds, dim)
        positions, owner = segments.places()
        width = segments.rows.shape[1]
        of_segments = (
            values[name].astype(wide, copy=False).reshape(len(segments.lengths), width)
            for name in ("grad", "output")
        )
        grad, output = (each[segments.full] for each in of_segments)
        if kind == "mean":
            grad = grad / segments.lengths[segments.full, None]
        gradient = np.zeros(segments.rows.shape, wide)
        x = segments.rows[positions]
        if kind in ("sum", "mean"):
            gradient[positions] = grad[owner]
        elif kind == "prod":
            gradient[positions] = grad[owner] * of_others(segments, x, owner, initial)
        else:
            attains = np.zeros(segments.rows.shape, np.int64)
            attains[positions] = (x == output[owner]) | np.isnan(x)
            share = grad / np.maximum(segments.over(np.add, attains), 1)
            gradient[positions] = np.where(attains[positions] > 0, share[owner], 0)
        np.copyto(out, gradient.reshape(out.shape), casting="unsafe")

    return PlannedKernel(quietly(into))


def of_others(segments: Segments, x: Array, owner: Array, initial: Any) -> Array:
    """For each element the product of all others of its segment and the initial value, which needs no division."""
    rows = segments.rows.astype(np.float64)
    zero, none = rows == 0, np.isnan(rows)
    plain = np.where(zero | none, 1.0, rows)
    product = segments.over(np.multiply, plain)
    if initial is not None:
        product *= np.float64(initial)
    zeros, nones = (segments.over(np.add, each.astype(np.int64))[owner] for each in (zero, none))
    special = (x == 0) | np.isnan(x)
    products = np.where(special, product[owner], product[owner] / np.where(special, 1.0, x))
    products = np.where(zeros - (x == 0) > 0, products * 0.0, products)
    return np.where(nones - np.isnan(x) > 0, np.nan, products)


register_stub("segment_reduce_stub", "cpu", segment_reduce)
register_stub("_segment_reduce_backward_stub", "cpu", segment_reduce_backward)

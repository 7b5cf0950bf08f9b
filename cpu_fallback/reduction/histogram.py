"""Histograms and membership, compositions elsewhere, computed at once and to the same bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.factories import linspace
from ..error_state import quiet
from ..indexing.index_bounds import greatest
from ..indexing.searching import found_in

least = np.minimum.reduce


def histc(call: StructuredCall) -> PlannedKernel:
    """How many elements lie in each of `bins` equal shares of [min, max], which is the elements' if empty."""
    spec, bins = call.args["self"], call.args["bins"]
    number = spec.np_dtype.type
    shares, last = number(bins), bins - 1
    given = [None if name in call.runtime else float(call.args[name]) for name in ("min", "max")]

    def into(out: Any, array: Any, *bounds: Any) -> None:
        at = iter(bounds)
        low, high = [float(next(at)) if each is None else each for each in given]
        flat = array.reshape(-1)
        if low == high and len(flat):
            low, high = least(flat), greatest(flat)
        else:
            low, high = number(low), number(high)
        if not (math.isfinite(low) and math.isfinite(high)):
            raise RuntimeError(
                f"torch.histogram(): dimension 0's range [{float(low)}, {float(high)}] is not finite"
            )
        if low > high:
            raise RuntimeError("torch.histc: max must be larger than min")
        if low == high:
            low, high = low - number(1), high + number(1)
        inside = np.greater_equal(flat, low)
        inside &= np.less_equal(flat, high)
        share = flat[inside]
        share -= low
        share *= shares
        share /= high - low
        counts = np.bincount(share.astype(np.int64), minlength=bins + 1)
        counts[last] += counts[bins]
        np.copyto(out, counts[:bins], casting="unsafe")

    return PlannedKernel(quiet(into))


def isin(call: StructuredCall) -> PlannedKernel:
    """Whether each element equals one of those to test."""
    invert: bool = call.args["invert"]
    anywhere = np.logical_or.reduce

    def into(out: Any, elements: Any, tested: Any) -> None:
        found = anywhere(np.equal(elements.reshape(-1, 1), tested.reshape(-1)), 1, None, out.reshape(-1))
        if invert:
            np.logical_not(found, found)

    return PlannedKernel(into)


def outer_edges(low: float, high: float, dimension: int) -> tuple[float, float]:
    """The first and the last edge of a dimension, equal ones moved apart. Refuses those that are not finite."""
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(
            f"torch.histogramdd: dimension {dimension}'s range [{low:g}, {high:g}] is not finite"
        )
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _edges_of(call: StructuredCall) -> list[Any]:
    """For each dimension a function ``edges(out, first, last)`` that writes its bins' edges."""
    spec = call.outputs[0]
    numbers: dict[str, Any] = {"start": float, "end": float}
    made = []
    for count in call.extra["bins"]:
        out = TensorSpec.contiguous((count + 1,), spec.dtype, spec.device)
        part = call._replace(name="_linspace_", args=numbers, outputs=(out,), extra={})
        made.append(linspace(part).into)
    return made


def bins_of(line: Any, edges: Any) -> Any:
    """The bin of each element between edges, of which the last belongs to the last bin."""
    own = found_in(edges, line, "right")
    own -= 1
    own -= np.equal(line, edges[-1])
    return own


def histogram(call: StructuredCall) -> PlannedKernel:
    """How many elements lie in each of as many bins of one width between their extremes, and the bins' edges."""
    (count,) = call.extra["bins"]
    (make_edges,) = _edges_of(call)

    def into(out: Any, edges: Any, array: Any, *_: Any) -> None:
        line = array.reshape(-1)
        make_edges(edges, None, *outer_edges(float(least(line)), float(greatest(line)), 0))
        np.copyto(out, np.bincount(bins_of(line, edges), minlength=count), casting="unsafe")

    return PlannedKernel(quiet(into))


def histogramdd(call: StructuredCall) -> PlannedKernel:
    """How many points, the last dimension, lie in each box of bins of one width between their extremes."""
    counts: tuple[int, ...] = call.extra["bins"]
    makers = _edges_of(call)
    rank, np_dtype = len(counts), call.outputs[0].np_dtype

    def into(out: Any, array: Any, *_: Any) -> None:
        points = array.reshape(-1, rank)
        lows, highs = least(points, 0).tolist(), greatest(points, 0).tolist()
        ends = [outer_edges(low, high, d) for d, (low, high) in enumerate(zip(lows, highs, strict=True))]
        place: Any = None
        for d, (count, make) in enumerate(zip(counts, makers, strict=True)):
            edges = np.empty(count + 1, np_dtype)
            make(edges, None, *ends[d])
            own = bins_of(points[:, d], edges)
            place = own if place is None else place * count + own
        np.copyto(out, np.bincount(place, minlength=out.size).reshape(out.shape), casting="unsafe")

    return PlannedKernel(quiet(into))


register_stub("histogram_stub", "cpu", histogram)
register_stub("_histogramdd_from_bin_cts_stub", "cpu", histogramdd)
register_stub("histc_stub", "cpu", histc)
register_stub("isin_stub", "cpu", isin)

"""Histograms and membership, compositions elsewhere, computed at once and to the same bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..runtime.tensor_spec import TensorSpec
from .error_state import quiet
from .factories import linspace
from .index_bounds import greatest
from .searching import found_in

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


def outer_edges(least_and_most: tuple[float, float], dimension: int) -> tuple[float, float]:
    """The first and the last edge of a dimension, equal ones moved apart. Refuses those that are no range."""
    low, high = least_and_most
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(
            f"torch.histogramdd: dimension {dimension}'s range [{low:g}, {high:g}] is not finite"
        )
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension {dimension}"
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


def _range_of(call: StructuredCall) -> Callable[[Any], Any]:
    """A function from what a kernel is called with behind the elements to the outer edges that are asked for."""
    if "range" not in call.runtime:
        fixed = call.args["range"]
        return lambda _: fixed
    at = call.runtime.index("range") - 1
    return lambda others: others[at]


def bins_of(line: Any, edges: Any, ranged: bool) -> tuple[Any, Any]:
    """The bin of each element between edges, and where there is one; None where all of them have one."""
    count = len(edges) - 1
    own = found_in(edges, line, "right")
    last = np.equal(line, edges[count])
    own -= 1
    own -= last
    if not ranged:
        return own, None
    # Below the first edge the bin is -1, which is the largest number without a sign.
    return own, np.less(own.view(np.uint64), count)


def histogram(call: StructuredCall) -> PlannedKernel:
    """How many elements lie in each of as many bins of one width, and the bins' edges."""
    (count,) = call.extra["bins"]
    (make_edges,) = _edges_of(call)
    range_of = _range_of(call)

    def into(out: Any, edges: Any, array: Any, *others: Any) -> None:
        given = range_of(others)
        line = array.reshape(-1)
        ends = (float(least(line)), float(greatest(line))) if given is None else tuple(map(float, given))
        make_edges(edges, None, *outer_edges(ends, 0))
        own, inside = bins_of(line, edges, given is not None)
        if inside is not None:
            own = own[inside]
        np.copyto(out, np.bincount(own, minlength=count), casting="unsafe")

    return PlannedKernel(quiet(into))


def histogramdd(call: StructuredCall) -> PlannedKernel:
    """How many points, the last dimension, lie in each box of bins of one width."""
    counts: tuple[int, ...] = call.extra["bins"]
    makers = _edges_of(call)
    range_of = _range_of(call)
    rank, np_dtype = len(counts), call.outputs[0].np_dtype

    def into(out: Any, array: Any, *others: Any) -> None:
        given = range_of(others)
        points = array.reshape(-1, rank)
        if given is None:
            ends = list(zip(least(points, 0).tolist(), greatest(points, 0).tolist(), strict=True))
        else:
            ends = list(zip(map(float, given[::2]), map(float, given[1::2]), strict=True))
        place: Any = None
        inside: Any = None
        outer = [outer_edges(pair, d) for d, pair in enumerate(ends)]
        for d, (count, make) in enumerate(zip(counts, makers, strict=True)):
            edges = np.empty(count + 1, np_dtype)
            make(edges, None, *outer[d])
            own, within = bins_of(points[:, d], edges, given is not None)
            place = own if place is None else place * count + own
            if within is not None:
                inside = within if inside is None else inside & within
        if inside is not None:
            place = place[inside]
        np.copyto(out, np.bincount(place, minlength=out.size).reshape(out.shape), casting="unsafe")

    return PlannedKernel(quiet(into))


register_stub("histogram_stub", "cpu", histogram)
register_stub("_histogramdd_from_bin_cts_stub", "cpu", histogramdd)
register_stub("histc_stub", "cpu", histc)
register_stub("isin_stub", "cpu", isin)

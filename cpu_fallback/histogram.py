"""Histograms and membership, compositions elsewhere, computed at once and to the same bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from .error_state import quiet
from .index_bounds import greatest

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


register_stub("histc_stub", "cpu", histc)
register_stub("isin_stub", "cpu", isin)

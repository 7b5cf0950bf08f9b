"""Host kernels of histograms and of membership, which give what the composites give, to the bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dispatch.structured.stub import HostKernel, StructuredCall, by_arguments, register_stub
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import bool_
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.factories import linspace
from ..indexing.index_bounds import greatest
from ..indexing.searching import found_in
from ..widen import FULL_FLOATS

FEW = 1 << 12
"""Pairs up to which comparing all of them costs less than a search."""
least = np.minimum.reduce


def histc(call: StructuredCall) -> HostKernel | None:
    """Count the elements in each of `bins` equal bins of [min, max]; an empty range means the elements' own."""
    spec, bins = call.args["self"], call.args["bins"]
    if spec.dtype not in FULL_FLOATS or bins <= 0 or complex in (call.args["min"], call.args["max"]):
        return None
    number = spec.np_dtype.type
    shares, last = number(bins), bins - 1
    fixed_bounds = [None if name in call.runtime else float(call.args[name]) for name in ("min", "max")]

    def into(out: Any, array: Any, *bounds: Any) -> None:
        remaining = iter(bounds)
        low, high = [float(next(remaining)) if each is None else each for each in fixed_bounds]
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
            middle = low
            low, high = low - number(1), high + number(1)
            if low == high:  # one more is no other number: all that is there lies in the middle
                counts = np.zeros(bins, np.int64)
                counts[bins // 2] = np.count_nonzero(flat == middle)
                np.copyto(out, counts, casting="unsafe")
                return
        inside = np.greater_equal(flat, low)
        inside &= np.less_equal(flat, high)
        share = flat[inside]
        if (high - low) * shares < math.inf:
            share -= low
            share *= shares
            share /= high - low
        else:
            share = (share / 2 - low / 2) / (high / 2 - low / 2) * shares
        counts = np.bincount(share.astype(np.int64), minlength=bins + 1)
        counts[last] += counts[bins]
        np.copyto(out, counts[:bins], casting="unsafe")

    return HostKernel((TensorSpec.contiguous((bins,), spec.dtype, spec.device),), None, into)


def isin(
    elements: TensorSpec, test_elements: TensorSpec, assume_unique: bool, invert: bool
) -> HostKernel | None:
    """Return True for each of a few elements that equals one of the test elements."""
    dtype, sizes = elements.dtype, elements.sizes
    is_exact = dtype in FULL_FLOATS or (dtype.is_integral and dtype is not bool_)
    if not is_exact or test_elements.dtype is not dtype:
        return None
    if not 0 < elements.numel * test_elements.numel <= FEW:
        return None
    if elements.is_contiguous and elements.strides != contiguous_strides(sizes):
        return None
    anywhere = np.logical_or.reduce

    def into(out: Any, elements: Any, tested: Any) -> None:
        matches = anywhere(np.equal(elements.reshape(-1, 1), tested.reshape(-1)), 1, None, out.reshape(-1))
        if invert:
            np.logical_not(matches, matches)

    return HostKernel(
        (TensorSpec.contiguous(sizes, bool_, elements.device),), None, into, quiet=False, declines=False
    )


def outer_edges(low: float, high: float, dimension: int) -> tuple[float, float]:
    """Return the first and last edge of a dimension, moved apart if equal. Raise RuntimeError if not finite."""
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(
            f"torch.histogramdd: dimension {dimension}'s range [{low:g}, {high:g}] is not finite"
        )
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _edges_of(spec: TensorSpec, bins: Sequence[int]) -> list[Any]:
    """For each dimension a function ``edges(out, _, first, last)`` that writes its bins' edges."""
    numbers: dict[str, Any] = {"start": float, "end": float}
    made = []
    for count in bins:
        out = TensorSpec.contiguous((count + 1,), spec.dtype, spec.device)
        call = StructuredCall("_linspace_", numbers, (), (out,), None, spec.device, {})
        made.append(linspace(call).into)
    return made


def bins_of(line: Any, edges: Any) -> Any:
    """Return the bin of each element; the last edge belongs to the last bin."""
    own = found_in(edges, line, "right")
    own -= 1
    own -= np.equal(line, edges[-1])
    return own


def histogram(
    self: TensorSpec, bins: int, range: Sequence[float] | None, weight: TensorSpec | None, density: bool
) -> HostKernel | None:
    """Count the elements in each of equal bins between their minimum and maximum, and return the bins' edges."""
    if range is not None or weight is not None or density:
        return None
    if self.dtype not in FULL_FLOATS or bins <= 0 or not self.numel:
        return None
    (make_edges,) = _edges_of(self, [bins])

    def into(out: Any, edges: Any, array: Any, *_: Any) -> None:
        line = array.reshape(-1)
        make_edges(edges, None, *outer_edges(float(least(line)), float(greatest(line)), 0))
        np.copyto(out, np.bincount(bins_of(line, edges), minlength=bins), casting="unsafe")

    outputs = tuple([TensorSpec.contiguous((n,), self.dtype, self.device) for n in (bins, bins + 1)])
    return HostKernel(outputs, None, into)


def histogramdd(
    self: TensorSpec,
    bins: Sequence[int],
    range: Sequence[float] | None,
    weight: TensorSpec | None,
    density: bool,
) -> HostKernel | None:
    """Count the points (the last dimension) in each box of equal bins between minimum and maximum."""
    if range is not None or weight is not None or density:
        return None
    if self.dtype not in FULL_FLOATS or self.ndim < 2 or not self.numel:
        return None
    if len(bins) != self.sizes[-1] or min(bins) <= 0:
        return None
    makers = _edges_of(self, bins)
    rank, np_dtype = len(bins), self.np_dtype

    def into(out: Any, array: Any, *_: Any) -> None:
        points = array.reshape(-1, rank)
        lows, highs = least(points, 0).tolist(), greatest(points, 0).tolist()
        ends = [outer_edges(low, high, d) for d, (low, high) in enumerate(zip(lows, highs, strict=True))]
        box: Any = None
        for d, (count, make) in enumerate(zip(bins, makers, strict=True)):
            edges = np.empty(count + 1, np_dtype)
            make(edges, None, *ends[d])
            own = bins_of(points[:, d], edges)
            box = own if box is None else box * count + own
        np.copyto(out, np.bincount(box, minlength=out.size).reshape(out.shape), casting="unsafe")

    return HostKernel((TensorSpec.contiguous(tuple(bins), self.dtype, self.device),), None, into)


register_stub("_histogramdd_from_bin_cts_host_stub", "cpu", by_arguments(histogramdd))
register_stub("histc_host_stub", "cpu", histc)
register_stub("histogram_host_stub", "cpu", by_arguments(histogram))
register_stub("isin_host_stub", "cpu", by_arguments(isin))

"""Histograms with their edges, of one and of several dimensions (ATen/native/Histogram.cpp).

An element is in the bin whose left edge is the last one that does not exceed it; the last bin includes its right edge.
Elements outside the outer edges, and NaN, are in no bin. Bins are counted in integers and weights summed in float64, in
the order of elements, so that every device gives the same results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.scalar_type import bool_, float32, float64, int64
from ...runtime.scalar_type import dtype as ScalarType
from ..generated import functions as ops
from ..plans.host_kernel import host_kernel
from .forms import named, write_out

if TYPE_CHECKING:
    from ..tensor import Tensor

C_NAMES = {
    "float32": "float",
    "float64": "double",
    "int64": "long int",
    "int32": "int",
    "int16": "short int",
    "int8": "signed char",
    "uint8": "unsigned char",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}
"""What messages call a dtype."""


def _called(dtype: ScalarType) -> str:
    return C_NAMES.get(dtype.name, dtype.name)


def _check_dtype(self: Tensor) -> None:
    if self._spec.dtype not in (float32, float64):
        raise NotImplementedError(f"\"histogramdd\" not implemented for '{self._spec.dtype.scalar_name}'")


def _check_dims(self: Tensor) -> None:
    if self._spec.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")


def _check_inputs(self: Tensor, bins: Sequence[Any], weight: Tensor | None) -> None:
    """Check for edges of each of the last dimension's elements; edges and weights must have the input's dtype."""
    _check_dims(self)
    spec = self._spec
    n = spec.sizes[-1]
    if len(bins) != n:
        raise RuntimeError(
            f"torch.histogramdd: expected {n} sequences of bin edges for a {n}-dimensional histogram but got "
            f"{len(bins)}"
        )
    for d, edges in enumerate(bins):
        edge_spec = edges._spec
        if edge_spec.dtype is not spec.dtype:
            raise RuntimeError(
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype "
                f"{_called(spec.dtype)} and bins for dimension {d} with dtype {_called(edge_spec.dtype)}"
            )
        if edge_spec.ndim != 1:
            raise RuntimeError(
                f"torch.histogramdd: bins tensor should have one dimension, but got {edge_spec.ndim} dimensions in the "
                f"bins tensor for dimension {d}"
            )
        if not edge_spec.numel:
            raise RuntimeError(
                "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor "
                f"for dimension {d}"
            )
    _check_weight(self, weight)


def _check_weight(self: Tensor, weight: Tensor | None) -> None:
    if weight is None:
        return
    spec, own = self._spec, weight._spec
    if own.dtype is not spec.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same "
            f"dtype, but got input({_called(spec.dtype)}), and weight({_called(own.dtype)})"
        )
    if own.sizes != spec.sizes[:-1]:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
            f"excluding its innermost dimension, but got input with shape {list(spec.sizes)} and weight with shape "
            f"{list(own.sizes)}"
        )


def _check_counts(self: Tensor, counts: Sequence[int]) -> None:
    _check_dims(self)
    if len(counts) != self._spec.sizes[-1]:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    for d, count in enumerate(counts):
        if count <= 0:
            raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {count} for dimension {d}")


def _outer_edges(self: Tensor, range: Sequence[float] | None) -> list[tuple[float, float]]:
    """Return the first and last edge of each dimension: as given, else the minimum and maximum.

    Without elements, and on Meta without values, they are 0 and 1; equal ones are moved apart by one.
    """
    spec = self._spec
    n = spec.sizes[-1]
    if range is not None:
        if len(range) != 2 * n:
            raise RuntimeError(
                f"torch.histogramdd: for a {n}-dimensional histogram range should have {2 * n} elements, but got "
                f"{len(range)}"
            )
        pairs = list(zip(map(float, range[::2]), map(float, range[1::2]), strict=True))
    elif spec.numel and not spec.is_meta:
        lows, highs = ops.aminmax(self.detach().reshape((-1, n)), dim=0)
        pairs = list(zip(lows.tolist(), highs.tolist(), strict=True))
    else:
        pairs = [(0.0, 1.0)] * n
    for d, (low, high) in enumerate(pairs):
        if not (math.isfinite(low) and math.isfinite(high)):
            raise RuntimeError(f"torch.histogramdd: dimension {d}'s range [{low:g}, {high:g}] is not finite")
        if low > high:
            raise RuntimeError(
                f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension {d}"
            )
    return [(low - 0.5, high + 0.5) if low == high else (low, high) for low, high in pairs]


def _edges(self: Tensor, counts: Sequence[int], range: Sequence[float] | None) -> list[Tensor]:
    spec = self._spec
    return [
        ops.linspace(low, high, count + 1, dtype=spec.dtype, device=spec.device)
        for (low, high), count in zip(_outer_edges(self, range), counts, strict=True)
    ]


def _counted(self: Tensor, edges: Sequence[Tensor], weight: Tensor | None, density: bool) -> Tensor:
    """Return the count or weight of each bin; with `density`, the share of the total per unit of volume."""
    spec = self._spec
    sizes = [part._spec.sizes[0] - 1 for part in edges]
    for d, size in enumerate(sizes):
        if size <= 0:
            raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {size} for dimension {d}")
    _check_dtype(self)
    points = self.detach().reshape((-1, len(edges)) if edges else (0, 0))
    count = points._spec.sizes[0]
    bin_index = ops.zeros((count,), dtype=int64, device=spec.device)
    inside = ops.ones((count,), dtype=bool_, device=spec.device)
    for d, (part, size) in enumerate(zip(edges, sizes, strict=True)):
        line, part = points.select(1, d).contiguous(), part.detach()
        first, last = part.select(0, 0), part.select(0, size)
        inside = ops.logical_and(inside, ops.logical_and(ops.ge(line, first), ops.le(line, last)))
        own = ops.sub(ops.searchsorted(part.contiguous(), line, right=True), 1)
        bin_index = ops.add(ops.mul(bin_index, size), ops.clamp(own, 0, size - 1))
    bin_index = ops.where(inside, bin_index, 0)
    if weight is None:
        bins = ops.zeros((math.prod(sizes),), dtype=int64, device=spec.device)
        totals = ops.index_add(bins, 0, bin_index, inside.to(int64))
    else:
        bins = ops.zeros((math.prod(sizes),), dtype=float64, device=spec.device)
        # Elements outside are removed: their weight may be NaN.
        weights = ops.where(inside, weight.detach().reshape((-1,)), 0)
        totals = ops.index_add(bins, 0, bin_index, weights.to(float64))
    hist = totals.to(spec.dtype).reshape(tuple(sizes))
    if density:
        hist = ops.div(hist, ops.sum(hist))
        for d, part in enumerate(edges):
            lengths = ops.diff(part.detach()).reshape((-1, *(1,) * (len(sizes) - 1 - d)))
            hist = ops.div(hist, lengths)
    return hist


def _as_points(self: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor | None]:
    return self.reshape((-1, 1)), None if weight is None else weight.reshape((-1,))


def histogram_bins_tensor(
    self: Tensor, bins: Tensor, weight: Tensor | None, density: bool
) -> tuple[Tensor, Tensor]:
    """Compute `torch.histogram` over bins between given ascending edges."""
    points, weights = _as_points(self, weight)
    _check_inputs(points, [bins], weights)
    results: tuple[Tensor, Tensor] = named(
        "histogram", hist=_counted(points, [bins], weights, density), bin_edges=bins.clone()
    )
    return results


@host_kernel("histogram", "linspace", "searchsorted.Tensor")
def histogram_bin_ct(
    self: Tensor, bins: int, range: Sequence[float] | None, weight: Tensor | None, density: bool
) -> tuple[Tensor, Tensor]:
    """Compute `torch.histogram` over equal-width bins."""
    points, weights = _as_points(self, weight)
    _check_counts(points, [bins])
    _check_weight(points, weights)
    _check_dtype(self)
    edges = _edges(points, [bins], range)
    results: tuple[Tensor, Tensor] = named(
        "histogram", hist=_counted(points, edges, weights, density), bin_edges=edges[0]
    )
    return results


def _written(self: Tensor, results: Any, hist: Tensor, bin_edges: Tensor) -> tuple[Tensor, Tensor]:
    written: tuple[Tensor, Tensor] = named(
        "histogram",
        hist=write_out("histogram", hist, results.hist),
        bin_edges=write_out("histogram", bin_edges, results.bin_edges),
    )
    return written


def _check_outputs(self: Tensor, hist: Tensor, bin_edges: Tensor) -> None:
    for name, out, where in (("hist", hist, ""), ("bin_edges", bin_edges, " for dimension 0")):
        if out._spec.dtype is not self._spec.dtype:
            raise RuntimeError(
                f"torch.histogram: input tensor and {name} tensor should have the same dtype, but got input "
                f"{_called(self._spec.dtype)} and {name} {_called(out._spec.dtype)}{where}"
            )


def histogram_bins_tensor_out(
    self: Tensor, bins: Tensor, weight: Tensor | None, density: bool, hist: Tensor, bin_edges: Tensor
) -> tuple[Tensor, Tensor]:
    """Run `histogram` of given edges into `hist` and `bin_edges`."""
    _check_outputs(self, hist, bin_edges)
    return _written(self, histogram_bins_tensor(self, bins, weight, density), hist, bin_edges)


def histogram_bin_ct_out(
    self: Tensor,
    bins: int,
    range: Sequence[float] | None,
    weight: Tensor | None,
    density: bool,
    hist: Tensor,
    bin_edges: Tensor,
) -> tuple[Tensor, Tensor]:
    """Run `histogram` over equal-width bins into `hist` and `bin_edges`."""
    _check_outputs(self, hist, bin_edges)
    return _written(self, histogram_bin_ct(self, bins, range, weight, density), hist, bin_edges)


def _histogramdd_bin_edges(
    self: Tensor, bins: Sequence[int], range: Sequence[float] | None, weight: Tensor | None, density: bool
) -> list[Tensor]:
    """Return the edges of equal-width bins for each dimension."""
    _check_counts(self, bins)
    _check_weight(self, weight)
    _check_dtype(self)
    return _edges(self, bins, range)


@host_kernel("_histogramdd_from_bin_cts", "linspace", "searchsorted.Tensor")
def _histogramdd_from_bin_cts(
    self: Tensor, bins: Sequence[int], range: Sequence[float] | None, weight: Tensor | None, density: bool
) -> Tensor:
    """Compute the histogram of points, the last dimension of `self`, over equal-width bins."""
    return _counted(self, _histogramdd_bin_edges(self, bins, range, weight, density), weight, density)


def _histogramdd_from_bin_tensors(
    self: Tensor, bins: Sequence[Tensor], weight: Tensor | None, density: bool
) -> Tensor:
    """Compute the histogram of points over bins between given edges."""
    _check_inputs(self, bins, weight)
    return _counted(self, bins, weight, density)


def histogramdd(
    self: Tensor, bins: Sequence[int], range: Sequence[float] | None, weight: Tensor | None, density: bool
) -> tuple[Tensor, Sequence[Tensor]]:
    """Compute `torch.histogramdd` over equal-width bins for each dimension."""
    options: dict[str, Any] = {"range": range, "weight": weight, "density": density}
    hist = ops._histogramdd_from_bin_cts(self, bins, **options)
    results: tuple[Tensor, Sequence[Tensor]] = named(
        "histogramdd", hist=hist, bin_edges=tuple(ops._histogramdd_bin_edges(self, bins, **options))
    )
    return results


def histogramdd_int_bins(
    self: Tensor, bins: int, range: Sequence[float] | None, weight: Tensor | None, density: bool
) -> tuple[Tensor, Sequence[Tensor]]:
    """Compute `torch.histogramdd` with the same number of bins for each dimension."""
    _check_dims(self)
    return histogramdd(self, [bins] * self._spec.sizes[-1], range, weight, density)


def histogramdd_TensorList_bins(
    self: Tensor, bins: Sequence[Tensor], range: Sequence[float] | None, weight: Tensor | None, density: bool
) -> tuple[Tensor, Sequence[Tensor]]:
    """Compute `torch.histogramdd` over bins between given edges; `range` has no effect."""
    hist = ops._histogramdd_from_bin_tensors(self, bins, weight=weight, density=density)
    results: tuple[Tensor, Sequence[Tensor]] = named("histogramdd", hist=hist, bin_edges=tuple(bins))
    return results

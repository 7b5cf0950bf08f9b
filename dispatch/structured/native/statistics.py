"""Meta functions of statistics that the host computes at once (see `host_plans`); others are compositions' own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....runtime.memory_format import contiguous_strides
from ....runtime.scalar_type import bool_, float32, float64, int64
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.tensor_spec import TensorSpec
from ..host_plans import ComposedError
from ..meta_base import MetaBase
from .reduction import Dims, sum_dim

if TYPE_CHECKING:
    from ...iterator.type_promotion import PromotedOperand
    from ..meta_base import NumberKind

FULL = (float32, float64)
"""The dtypes in which nothing is rounded between the steps of a composition."""
FEW = 1 << 12
"""Elements up to which one array of all pairs, or of all lines, costs less than the steps of a composition."""


def nansum(meta: MetaBase, self: TensorSpec, dim: Dims, keepdim: bool, dtype: ScalarType | None) -> None:
    """`nansum` and `nanmean` of full floats in their own dtype."""
    if self.dtype not in FULL or dtype not in (None, self.dtype) or not self.numel:
        raise ComposedError
    sum_dim(meta, self, dim, keepdim, None)
    meta.rule = None


def count_nonzero(meta: MetaBase, self: TensorSpec, dim: Dims) -> None:
    """`count_nonzero` of everything, or of a few elements."""
    sum_dim(meta, self, dim, False, int64)
    meta.rule = None
    whole = len(meta.extra["dims"]) == self.ndim  # type: ignore[arg-type]
    if not (self.is_contiguous and (whole or self.numel <= FEW)):
        raise ComposedError


def histc(meta: MetaBase, self: TensorSpec, bins: int, min: NumberKind, max: NumberKind) -> None:
    """`histc` of full floats."""
    if self.dtype not in FULL or bins <= 0:
        raise ComposedError
    meta.set_output_contiguous(0, (bins,), dtype=self.dtype)


def isin(
    meta: MetaBase, elements: TensorSpec, test_elements: TensorSpec, assume_unique: bool, invert: bool
) -> None:
    """`isin` of a few elements, compared with each one to test."""
    dtype = elements.dtype
    plain = dtype in FULL or (dtype.is_integral and dtype is not bool_)
    pairs = elements.numel * test_elements.numel
    if not plain or test_elements.dtype is not dtype or not 0 < pairs <= FEW:
        raise ComposedError
    strides = elements.strides if elements.is_contiguous else contiguous_strides(elements.sizes)
    if strides != contiguous_strides(elements.sizes):
        raise ComposedError
    meta.set_output_contiguous(0, elements.sizes, dtype=bool_)


def bucketize(meta: MetaBase, self: TensorSpec, boundaries: TensorSpec, out_int32: bool, right: bool) -> None:
    """`bucketize` is `searchsorted` with its arguments the other way round."""
    from .searching import searchsorted

    if boundaries.ndim != 1:
        raise ComposedError
    searchsorted(meta, boundaries, self, out_int32, right, None, None)


def mode(meta: MetaBase, self: TensorSpec, dim: int, keepdim: bool) -> None:
    """`mode` of a few elements in lines."""
    d = dim + self.ndim if dim < 0 else dim
    if not 0 <= d < self.ndim or not 0 < self.numel <= FEW or self.dtype not in FULL:
        raise ComposedError
    kept = (1,) if keepdim else ()
    sizes = (*self.sizes[:d], *kept, *self.sizes[d + 1 :])
    meta.extra["dim"] = d
    meta.set_output_contiguous(0, sizes, dtype=self.dtype)
    meta.set_output_contiguous(1, sizes, dtype=int64)


def trace(meta: MetaBase, self: TensorSpec) -> None:
    """`trace` of full floats, the sum of what lies on the diagonal."""
    if self.ndim != 2 or self.dtype not in FULL or not self.numel or not self.is_contiguous:
        raise ComposedError
    meta.set_output_contiguous(0, (), dtype=self.dtype)


def quantile(
    meta: MetaBase, self: TensorSpec, q: PromotedOperand, dim: int | None, keepdim: bool, interpolation: str
) -> None:
    """`quantile` of a few full floats for one share."""
    rank = self.ndim
    d = None if dim is None or not rank else dim + rank if dim < 0 else dim
    outside = d is not None and not 0 <= d < rank
    number = q is float or q is int
    if self.dtype not in FULL or not 0 < self.numel <= FEW or not number or outside:
        raise ComposedError
    if interpolation != "linear" or not self.is_contiguous:
        raise ComposedError
    sizes: Sequence[int] = ()
    if keepdim:
        sizes = [1 if d is None or i == d else n for i, n in enumerate(self.sizes)]
    elif d is not None:
        sizes = (*self.sizes[:d], *self.sizes[d + 1 :])
    meta.extra["dim"] = d
    meta.set_output_contiguous(0, tuple(sizes), dtype=self.dtype)


def histogram(
    meta: MetaBase,
    self: TensorSpec,
    bins: int,
    range: Sequence[float] | None,
    weight: TensorSpec | None,
    density: bool,
) -> None:
    """`histogram` that counts, over bins of one width between the extremes."""
    plain = range is None and weight is None and not density
    if not plain or self.dtype not in FULL or bins <= 0 or not self.numel:
        raise ComposedError
    meta.extra["bins"] = (bins,)
    meta.set_output_contiguous(0, (bins,), dtype=self.dtype)
    meta.set_output_contiguous(1, (bins + 1,), dtype=self.dtype)


def histogramdd(
    meta: MetaBase,
    self: TensorSpec,
    bins: Sequence[int],
    range: Sequence[float] | None,
    weight: TensorSpec | None,
    density: bool,
) -> None:
    """`_histogramdd_from_bin_cts` that counts, over bins between the extremes."""
    plain = range is None and weight is None and not density
    if not plain or self.dtype not in FULL or self.ndim < 2 or not self.numel:
        raise ComposedError
    if len(bins) != self.sizes[-1] or min(bins) <= 0:
        raise ComposedError
    meta.extra["bins"] = tuple(bins)
    meta.set_output_contiguous(0, tuple(bins), dtype=self.dtype)

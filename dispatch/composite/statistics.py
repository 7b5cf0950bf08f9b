"""Sums and means without NaN, quantiles, histograms and renormalization (ATen/native/Sorting.cpp, SummaryOps.cpp)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.scalar_type import bool_, float32, float64, int64
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..core.kernel_function import Plan
from ..core.mode_stack import sees_whole
from ..core.operator_entry import OperatorEntry
from ..generated import functions as ops
from ..iterator.broadcast import broadcast_sizes
from ..plans.host_kernel import host_kernel, is_unseen
from ..plans.register import planned_by
from ..scalars import real
from ..structured.meta.dims import reduced_dims, wrap_dim
from ..structured.meta.indexing import DataDependentShapeError
from ..structured.stub import StructuredCall, find_kernel
from .forms import out_form

if TYPE_CHECKING:
    from ..tensor import Tensor


@host_kernel("nansum", "sum.dim_IntList", "isnan")
def nansum(self: Tensor, dim: Sequence[int] | int | None, keepdim: bool, dtype: ScalarType | None) -> Tensor:
    """Compute `sum` with NaN counted as zero. Raises RuntimeError for complex numbers on the CPU."""
    own_dtype = self._spec.dtype
    reduced_dims(dim, self._spec.ndim)  # checked before their dtype
    if own_dtype.is_complex and self._spec.device.type == "cpu":
        raise RuntimeError("nansum on CPU does not support complex inputs")
    if own_dtype.is_floating_point or own_dtype.is_complex:
        self = ops.where(ops.isnan(self), 0, self)
    return ops.sum(self, dim, keepdim, dtype=dtype)


def _summed_in(name: str, self: Tensor, dtype: ScalarType | None, out: Tensor) -> ScalarType:
    """Return the dtype that an ``out=`` form sums in: the output's real dtype."""
    out_dtype: ScalarType = out._spec.dtype
    if dtype is not None and dtype is not out_dtype:
        raise RuntimeError(
            f"{name}: provided dtype must match dtype of result. Got {out_dtype.scalar_name} and {dtype.scalar_name}."
        )
    if self._spec.dtype.is_floating_point and not out_dtype.is_floating_point:
        raise NotImplementedError(f"\"nansum_cpu\" not implemented for '{out_dtype.scalar_name}'")
    return out_dtype


def nansum_out(
    self: Tensor, dim: Sequence[int] | int | None, keepdim: bool, dtype: ScalarType | None, out: Tensor
) -> Tensor:
    """Compute ``nansum(out=)`` in the output's dtype."""
    reduced_dims(dim, self._spec.ndim)
    dtype = _summed_in("nansum", self, dtype, out)
    return out_form("nansum", nansum)(self, dim, keepdim, dtype, out)


def nanmean_out(
    self: Tensor, dim: Sequence[int] | int | None, keepdim: bool, dtype: ScalarType | None, out: Tensor
) -> Tensor:
    """Compute ``nanmean(out=)`` in the output's dtype."""
    reduced_dims(dim, self._spec.ndim)
    if self._spec.dtype.is_floating_point:
        dtype = _summed_in("nanmean", self, dtype, out)
    return out_form("nanmean", nanmean)(self, dim, keepdim, dtype, out)


@host_kernel("nanmean", "sum.dim_IntList", "isnan", "div.Tensor")
def nanmean(self: Tensor, dim: Sequence[int] | int | None, keepdim: bool, dtype: ScalarType | None) -> Tensor:
    """Compute `mean` without NaN. Raises RuntimeError for integers."""
    own_dtype = self._spec.dtype
    if not (own_dtype.is_floating_point or own_dtype.is_complex):
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {own_dtype.scalar_name}"
        )
    detached = self.detach()
    counted = ops.sum(ops.logical_not_(ops.ne(detached, detached)), dim, keepdim)
    return ops.div(ops.nansum(self, dim, keepdim, dtype=dtype), counted)


INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@host_kernel("quantile", "sort", "lerp.Tensor", "gather")
def quantile(self: Tensor, q: Tensor | float, dim: int | None, keepdim: bool, interpolation: str) -> Tensor:
    """Compute the quantiles `q` of the elements; NaN if there is a NaN."""
    return quantiles("quantile", self, q, dim, keepdim, interpolation, False)


def nanquantile(
    self: Tensor, q: Tensor | float, dim: int | None, keepdim: bool, interpolation: str
) -> Tensor:
    """Compute `quantile` without NaN."""
    return quantiles("nanquantile", self, q, dim, keepdim, interpolation, True)


def quantiles(
    name: str,
    self: Tensor,
    q: Tensor | float,
    dim: int | None,
    keepdim: bool,
    interpolation: str,
    ignore_nan: bool,
) -> Tensor:
    """Interpolate between sorted neighbors: at the rank q (n - 1) of n elements."""
    is_number = isinstance(q, int | float)
    if isinstance(q, int | float):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        q = ops.scalar_tensor(q, dtype=self._spec.dtype, device=self._spec.device)
    check_quantiles(name, self, q, interpolation, is_number)
    rank = self._spec.ndim
    wrapped_dim = None if dim is None else wrap_dim(dim, rank)
    values = self.reshape((-1,)) if wrapped_dim is None or not rank else ops.movedim(self, wrapped_dim, -1)
    ordered = ops.sort(values, -1)[0]
    last = ordered._spec.sizes[-1] - 1
    shares = q.reshape((-1,))
    if ignore_nan:
        counted = ops.sum(ops.logical_not(ops.isnan(ordered)), -1, True)
        ranks = ops.mul(shares, ops.clamp_min(ops.sub(counted, 1), 0).to(shares._spec.dtype))
    else:
        # NaN sorts last, so that every quantile is then NaN.
        scaled = ops.mul(shares, last)
        if sees_whole():
            has_nan = ops.any(ops.isnan(ordered), -1, True)
            scaled = scaled.expand(broadcast_sizes(scaled._spec.sizes, has_nan._spec.sizes))
        else:
            has_nan = ops.isnan(ops.narrow(ordered, -1, last, 1))
        ranks = ops.masked_fill(scaled, has_nan, last)
    result = interpolated(ordered, ranks, interpolation)
    if not q._spec.ndim and not keepdim:
        return result.squeeze_(-1)
    result = ops.movedim(result, -1, 0)
    if keepdim:
        sizes = list(result._spec.sizes[1:])
        if wrapped_dim is None:
            sizes = [1] * rank
        elif rank:
            sizes.insert(wrapped_dim, 1)
        result = result.reshape((result._spec.sizes[0], *sizes))
    return result if q._spec.ndim else ops.squeeze(result, 0)


def interpolated(ordered: Tensor, ranks: Tensor, interpolation: str) -> Tensor:
    """Interpolate sorted elements at fractional ranks."""
    if interpolation == "lower":
        ranks = ops.floor(ranks)
    elif interpolation == "higher":
        ranks = ops.ceil(ranks)
    elif interpolation == "nearest":
        ranks = ops.round(ranks)
    below = ranks.to(int64)
    values = ops.gather(ordered, -1, below)
    if interpolation not in ("linear", "midpoint"):
        return values
    weights = ops.full_like(ranks, 0.5) if interpolation == "midpoint" else ops.sub(ranks, below)
    above = ops.gather(ordered, -1, ranks.ceil_().to(int64))
    return values.lerp_(above, weights)


def check_quantiles(name: str, self: Tensor, q: Tensor, interpolation: str, is_number: bool) -> None:
    """Raise RuntimeError for empty or integral tensors, and for quantiles outside [0, 1], as PyTorch does."""
    if not self.numel():
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if q._spec.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    dtype = self._spec.dtype
    if dtype.name not in ("float32", "float64"):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if q._spec.dtype is not dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if q._spec.device is not self._spec.device:
        raise RuntimeError(f"{name}() q tensor must be on the same device as the input tensor")
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    if not is_number and q._spec.device.type == "cpu" and not bool(ops.all(ops.logical_and(q >= 0, q <= 1))):
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")


@host_kernel("histc", "sub.Tensor", "div.Tensor", "index_add")
def histc(self: Tensor, bins: int, min: float, max: float) -> Tensor:
    """Count the elements in each of `bins` equal parts of [min, max], which is the elements' range if empty.

    Integers are taken where PyTorch takes them, on CUDA; their shares are whole.
    """
    min, max = real(min), real(max)
    dtype = self._spec.dtype
    whole = self._spec.device.type == "cuda" and not dtype.is_complex and dtype is not bool_
    if not (dtype.is_floating_point or whole):
        raise NotImplementedError(
            f"\"histogram_{self._spec.device.type}\" not implemented for '{dtype.scalar_name}'"
        )
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    flat = self.detach().reshape((-1,))
    if dtype.is_floating_point:
        low, high = bounds(flat, float(min), float(max))
        extent = ops.sub(high, low)
        share = ops.div(ops.mul(ops.sub(flat, low), bins), extent)
        half, half_low = ops.sub(ops.mul(high, 0.5), ops.mul(low, 0.5)), ops.mul(low, 0.5)
        halved = ops.mul(ops.div(ops.sub(ops.mul(flat, 0.5), half_low), half), bins)
        share = ops.where(ops.isfinite(ops.mul(extent, bins)), share, halved)
    else:
        flat = flat.to(int64)
        low, high = bounds(flat, int(min), int(max))
        share = ops.div(ops.mul(ops.sub(flat, low), bins), ops.sub(high, low), rounding_mode="trunc")
    inside = ops.logical_and(flat >= low, flat <= high)
    bin_indices = ops.where(inside, share, 0).to(int64)
    bin_indices = ops.where(ops.eq(bin_indices, bins), bins - 1, bin_indices)
    counts = ops.zeros((bins,), dtype=int64, device=self._spec.device)
    return ops.index_add(counts, 0, bin_indices, inside.to(int64)).to(dtype)


def _plan_bincount(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    """Plan the counts of a vector on the CPU as one pass; other calls, and all errors, are the composite's."""
    spec, weight = args[0]._spec, None if args[1] is None else args[1]._spec
    device = spec.device
    if spec.ndim != 1 or not spec.numel or not spec.dtype.is_integral or spec.dtype is bool_ or args[2] < 0:
        return None
    if weight is not None and (weight.dtype not in (float32, float64) or weight.sizes != spec.sizes):
        return None
    if weight is not None and weight.device is not device:
        return None
    if not is_unseen(key_set, ("aten::amin", "aten::amax", "aten::zeros", "aten::ones", "aten::index_add")):
        return None
    call = StructuredCall(
        "bincount", {"self": spec, "weights": weight}, ("self", "weights", "minlength"), (), None, device, {}
    )
    count = find_kernel("bincount_stub", device.type, "bincount")(call).fresh
    assert count is not None

    from ..tensor import Tensor

    minlength: int = args[2]

    def plan(self: Tensor, weights: Tensor | None = None, _: int = 0) -> Tensor:
        sums = count(self._data, None if weights is None else weights._data, minlength)
        if sums is None:
            return bincount(self, weights, minlength)
        dtype = int64 if weight is None else weight.dtype
        return Tensor.from_data(sums, TensorSpec.contiguous(sums.shape, dtype, device))

    return plan


@planned_by(_plan_bincount)
def bincount(self: Tensor, weights: Tensor | None, minlength: int) -> Tensor:
    """Compute `torch.bincount`: the count of each integer from 0 on, or the sum of its weights.

    The host waits for the maximum, which determines the number of bins.
    """
    spec = self._spec
    if spec.dtype.is_floating_point or spec.dtype.is_complex or spec.dtype is bool_:
        raise NotImplementedError(
            f"\"bincount_{spec.device.type}\" not implemented for '{spec.dtype.scalar_name}'"
        )
    if minlength < 0:
        raise RuntimeError(f"minlength should be >= 0, but got {minlength}")
    if spec.sizes == (0,):
        return ops.zeros((minlength,), dtype=int64, device=spec.device)
    if spec.is_meta:
        raise DataDependentShapeError("bincount: the result's shape depends on data; Meta has none")
    if spec.ndim != 1 or int(ops.amin(self)) < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is None:
        added = ops.ones(spec.sizes, dtype=int64, device=spec.device)
    elif weights._spec.sizes != spec.sizes:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    else:
        added = weights if weights._spec.dtype is float32 else weights.to(float64)
    max_value = int(ops.amax(self))
    if max_value >= 2**63 - 1:
        raise RuntimeError(
            f"maximum value of input overflowed, it should be < 9223372036854775807 but got {max_value}"
        )
    bins = max(max_value + 1, minlength)
    sums = ops.zeros((bins,), dtype=added.dtype, device=spec.device)
    return ops.index_add(sums, 0, self.to(int64), added)


def bincount_out(self: Tensor, weights: Tensor | None, minlength: int, out: Tensor) -> Tensor:
    """Run `bincount` with an ``out=`` tensor of the result's dtype."""
    return out_form("bincount", ops.bincount, exact=True)(self, weights, minlength, out)


def bounds(flat: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Return the bounds of a histogram: the given ones, or the elements' if equal; equal bounds move apart by one."""
    dtype, device = flat._spec.dtype, flat._spec.device
    if low == high and flat.numel():
        lower, upper = ops.aminmax(flat)
    else:
        lower, upper = (ops.scalar_tensor(x, dtype=dtype, device=device) for x in (low, high))
    if device.type != "meta":
        limits = (lower.item(), upper.item())
        if not all(math.isfinite(x) for x in limits):
            raise RuntimeError(
                f"torch.histogram(): dimension 0's range [{limits[0]}, {limits[1]}] is not finite"
            )
        if limits[0] > limits[1]:
            raise RuntimeError("torch.histc: max must be larger than min")
    same = ops.eq(lower, upper).to(dtype)
    return ops.sub(lower, same), ops.add(upper, same)

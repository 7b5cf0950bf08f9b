"""Formulas of reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.scalar_type import bool_, complex128, float64
from ...core.mode_stack import sees_whole
from ...generated import functions as ops
from ...structured.meta.dims import reduced_dims, wrap_dim
from ..tangents import all_examples, is_differentiated

if TYPE_CHECKING:
    from ...tensor import Tensor


def restored(value: Tensor, rank: int, dim: Sequence[int] | int | None, keepdim: bool) -> Tensor:
    """Return a reduced tensor with the reduced dimensions restored, of size 1."""
    if not keepdim:
        for d in reduced_dims(dim, rank):
            value = value.unsqueeze(d)
    return value


def restored_at_once(value: Tensor, rank: int, dim: Sequence[int] | int | None, keepdim: bool) -> Tensor:
    """Return a reduced tensor with the reduced dimensions restored by one reshape."""
    if keepdim or not rank:
        return value
    sizes = list(value.shape)
    for d in reduced_dims(dim, rank):
        sizes.insert(d, 1)
    return value.reshape(sizes)


def unreduced(grad: Tensor, shape: Sequence[int], dim: Sequence[int] | None, keepdim: bool) -> Tensor:
    """Return the gradient of a sum, expanded over the summed dimensions."""
    return restored(grad, len(shape), dim, keepdim).expand(shape)


def reduced_count(shape: Sequence[int], dim: Sequence[int] | None) -> int:
    """Return the number of input elements per output element."""
    return math.prod(shape[d] for d in reduced_dims(dim, len(shape)))


def mean_backward(grad: Tensor, shape: Sequence[int], dim: Sequence[int] | None, keepdim: bool) -> Tensor:
    """Return the gradient of a mean, divided evenly among the elements.

    The division of the reduced gradient is the shorter one. A mode sees PyTorch's, of the expanded gradient.
    """
    count = max(reduced_count(shape, dim), 1)
    if sees_whole():
        return (unreduced(grad, shape, dim, keepdim) if dim else grad.expand(shape)) / count
    return unreduced(grad / count, shape, dim, keepdim)


def scale_by_ties(grad: Tensor, self: Tensor, result: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
    """Return the gradient of `max` or `min`, shared evenly by the elements that attain it; NaN attains NaN."""
    if not dim and sees_whole():
        both = ops.logical_and(ops.isnan(self), ops.isnan(result))
        attained = ops.eq(self, result).logical_or_(both)
        return grad / attained.sum() * attained
    whole = restored_at_once(result, self.dim(), dim, keepdim)
    attained = ops.logical_or(ops.eq(self, whole), ops.logical_and(ops.isnan(self), ops.isnan(whole)))
    return _shared(grad, attained, dim, keepdim)


def scale_by_equals(grad: Tensor, self: Tensor, result: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
    """Return the gradient of `amax` or `amin`, shared evenly by the elements that equal it; NaN if none does."""
    whole = restored_at_once(result, self.dim(), dim, keepdim)
    return _shared(grad, ops.eq(whole, self), dim, keepdim)


def _shared(grad: Tensor, attained: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
    rank = attained.dim()
    grad = restored_at_once(grad, rank, dim, keepdim)
    mask = attained if sees_whole() else attained.to(grad.dtype)
    count = ops.sum(mask, reduced_dims(dim, rank), keepdim=True) if rank else mask
    return grad / count * mask


def aminmax_backward(
    grads: Sequence[Any], self: Tensor, low: Tensor, high: Tensor, dim: int | None, keepdim: bool
) -> Tensor | None:
    """Return the gradients of both extrema."""
    dims = () if dim is None else (dim,)
    out = None
    for grad, result in zip(grads, (low, high), strict=True):
        if grad is not None:
            term = scale_by_equals(grad, self, result, dims, keepdim)
            out = term if out is None else out + term
    return out


def index_select_backward(
    grad: Tensor | None, dim: int, indices: Tensor, shape: Sequence[int], keepdim: bool
) -> Tensor | None:
    """Scatter the gradient to the index that `max` or `min` chose."""
    if grad is None:
        return None
    if not keepdim and len(shape):
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return ops.scatter(grad.new_zeros(tuple(shape)), dim, indices, grad)


def prod_backward(grad: Tensor, self: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    """Return the gradient of a product: for each element the product of all others, which handles zeros."""
    if dim is None:
        if self.dim() == 0:
            return grad
        flat = self.reshape(-1)
        return (grad * products_of_others(flat, 0)).reshape(self.shape)
    if self.dim() == 0:
        return grad
    return restored(grad, self.dim(), dim, keepdim) * products_of_others(self, wrap_dim(dim, self.dim()))


def products_of_others(self: Tensor, dim: int) -> Tensor:
    """Return for each element the product of all others along `dim`: the prefix times the suffix product.

    Computed in float64: a partial product of float32 values may overflow or underflow.
    """
    if self.shape[dim] <= 1:
        return ops.ones_like(self)
    wide = self.to(complex128 if self.is_complex() else float64)
    unit, rest = ops.ones_like(wide.narrow(dim, 0, 1)), self.shape[dim] - 1
    before = ops.cat([unit, wide.narrow(dim, 0, rest)], dim).cumprod(dim)
    behind = ops.cat([unit, wide.narrow(dim, 1, rest).flip((dim,))], dim).cumprod(dim).flip((dim,))
    products = (before * behind).to(self.dtype)
    return products.conj() if products.is_complex() else products


def var_backward(
    grad: Tensor, self: Tensor, dim: Sequence[int] | None, correction: float | None, keepdim: bool
) -> Tensor:
    """Return 2 / (n - correction) * grad * (self - mean)."""
    count = reduced_count(self.shape, dim)
    freedom = max(count - (1 if correction is None else correction), 0)
    rank = self.dim()
    scale = 2.0 / freedom if freedom else math.nan if count <= 1 else math.inf
    if not dim or not rank:
        deviation = self - self.mean()
        return grad * scale * deviation
    grad = restored(grad, rank, dim, keepdim)
    deviation = self - self.mean(dim, keepdim=True)
    return grad * scale * deviation


def std_backward(
    result: Tensor,
    grad: Tensor,
    self: Tensor,
    dim: Sequence[int] | None,
    correction: float | None,
    keepdim: bool,
) -> Tensor:
    """Return the variance's gradient over twice the deviation; 0 where the deviation is 0."""
    scaled = zeroed(grad / (result * 2), ops.eq(result, 0))
    return var_backward(scaled, self, dim, correction, keepdim)


def var_jvp(
    tangent: Tensor, self: Tensor, dim: Sequence[int] | None, correction: float | None, keepdim: bool
) -> Tensor:
    """Return the tangent of a variance: the gradient formula applied to the tangent, summed over the elements."""
    terms = var_backward(ops.conj(tangent), self, dim, correction, True)
    dims = reduced_dims(dim, self.dim())
    total = ops.sum(terms, dims, keepdim) if dims else terms
    return total.real if total.is_complex() else total


def std_jvp(
    tangent: Tensor,
    self: Tensor,
    dim: Sequence[int] | None,
    correction: float | None,
    keepdim: bool,
    result: Tensor,
) -> Tensor:
    """Return the tangent of a standard deviation; 0 where the deviation is 0."""
    variance = var_jvp(tangent, self, dim, correction, keepdim)
    return zeroed(variance / (result * 2), ops.eq(result, 0))


def zeroed(value: Tensor, mask: Tensor) -> Tensor:
    """Return zero where the mask is True: in place for a mode, as PyTorch does, since `value` is not held elsewhere."""
    return value.masked_fill_(mask, 0) if sees_whole() else ops.masked_fill(value, mask, 0)


def var_mean_backward(
    grads: Sequence[Any],
    self: Tensor,
    dim: Sequence[int] | None,
    correction: float | None,
    keepdim: bool,
    deviation: Tensor | None = None,
) -> Tensor | None:
    """Return the gradients of a variance (or of the standard deviation `deviation`) and a mean."""
    out = None
    if grads[0] is not None:
        if deviation is None:
            out = var_backward(grads[0], self, dim, correction, keepdim)
        else:
            out = std_backward(deviation, grads[0], self, dim, correction, keepdim)
    if grads[1] is not None:
        term = mean_backward(grads[1], self.shape, dim, keepdim)
        out = term if out is None else out + term
    return out


def logsumexp_backward(
    grad: Tensor, self: Tensor, result: Tensor, dim: Sequence[int], keepdim: bool
) -> Tensor:
    """Return grad * exp(self - result)."""
    rank = self.dim()
    grad = restored(grad, rank, dim, keepdim)
    share = ops.exp(self - restored(result, rank, dim, keepdim))
    return grad * (share.conj() if share.is_complex() else share)


def gathered(tangent: Tensor, dim: int, indices: Tensor) -> Tensor:
    """Return the tangents of the selected elements."""
    return ops.gather(tangent, dim, indices)


def cumprod_jvp(tangent: Tensor, self: Tensor, result: Tensor, dim: int) -> Tensor:
    """Return the tangent of `cumprod`. From a line's first zero on, only that zero's tangent counts."""
    if self.dim() == 0 or self.numel() == 0:
        return tangent
    tangent = tangent.to(result.dtype)
    zero = ops.eq(self, 0)
    if is_differentiated(tangent, self) and ops.any(all_examples(zero)).item():
        x, t = self.to(result.dtype).movedim(dim, -1), tangent.movedim(dim, -1)
        return ops.sum(prefix_products_without(x) * t.unsqueeze(-1), -2).movedim(-1, dim)
    zero_count = zero.cumsum(dim)
    first = ops.logical_and(zero, ops.eq(zero_count, 1))
    plain = result * (tangent / ops.masked_fill(self, zero, 1)).cumsum(dim)
    at_zero = ops.masked_fill(tangent, ops.logical_not(first), 0).cumsum(dim)
    prefix_products = ops.masked_fill(self, first, 1).cumprod(dim, dtype=result.dtype)
    return ops.where(ops.eq(zero_count, 0), plain, at_zero * prefix_products)


def prefix_products_without(x: Tensor) -> Tensor:
    """Return P of shape (..., n, n): P[j, i] is the product of x[..., : i + 1] without x[..., j], 0 where i < j."""
    n = x.shape[-1]
    own = ops.eye(n, dtype=bool_, device=x.device)
    products = ops.masked_fill(x.unsqueeze(-2).expand((*x.shape[:-1], n, n)), own, 1).cumprod(-1)
    return ops.where(ops.triu(ops.ones((n, n), dtype=bool_, device=x.device)), products, 0)


def _finite_below(result: Tensor) -> Tensor:
    """Return logarithms with 0 for -inf, so that its share is 0: exp(-inf - 0) is 0, exp(-inf - -inf) NaN."""
    return ops.masked_fill(result, ops.eq(result, -math.inf), 0)


def _prefix_shares(x: Tensor, result: Tensor) -> Tensor:
    """Return S of shape (..., n, n): S[j, i] = exp(x[j] - result[i]), the share of x[j] in result[i], 0 where i < j."""
    before = ops.tril(ops.ones((x.shape[-1],) * 2, dtype=bool_, device=x.device), -1)
    result = _finite_below(result)
    return ops.exp(ops.masked_fill(x.unsqueeze(-1) - result.unsqueeze(-2), before, -math.inf))


def _logarithms(factor: Tensor, sign: int, exponent: Tensor) -> Tensor:
    """Return log(factor) + exponent for factors of one sign, -inf for the others. NaN stays."""
    value = factor * sign
    other = ops.le(value, 0)
    return ops.masked_fill(ops.log(ops.masked_fill(value, other, 1)) + exponent, other, -math.inf)


def logcumsumexp_backward(grad: Tensor, self: Tensor, result: Tensor, dim: int) -> Tensor:
    """Return exp(self) times the suffix sums of grad / exp(result), in logarithms per sign to avoid overflow.

    The logarithm of zero has no derivative. If second derivatives are needed, every share is formed, in quadratic
    time and space.
    """
    if self.dim() == 0 or self.numel() == 0:
        return grad
    if self.is_complex():
        shares = ops.log(ops.conj(grad)) - result
        return ops.conj(ops.exp(shares.flip((dim,)).logcumsumexp(dim).flip((dim,)) + self))
    if is_differentiated(grad, self) and ops.any(all_examples(ops.eq(grad, 0))).item():
        x, r, g = (t.movedim(dim, -1) for t in (self, result, grad))
        return ops.sum(_prefix_shares(x, r) * g.unsqueeze(-2), -1).movedim(-1, dim)

    def part(sign: int) -> Tensor:
        shares = _logarithms(grad, sign, -result)
        return ops.exp(shares.flip((dim,)).logcumsumexp(dim).flip((dim,)) + self)

    return part(1) - part(-1)


def logcumsumexp_jvp(tangent: Tensor, self: Tensor, result: Tensor, dim: int) -> Tensor:
    """Return the mean of the tangents so far, weighted by exp(self)."""
    if self.dim() == 0 or self.numel() == 0:
        return tangent
    if self.is_complex():
        return ops.exp((ops.log(tangent) + self).logcumsumexp(dim) - result)
    result = _finite_below(result)
    if is_differentiated(tangent, self) and ops.any(all_examples(ops.eq(tangent, 0))).item():
        x, r, t = (each.movedim(dim, -1) for each in (self, result, tangent))
        return ops.sum(_prefix_shares(x, r) * t.unsqueeze(-1), -2).movedim(-1, dim)

    def part(sign: int) -> Tensor:
        return ops.exp(_logarithms(tangent, sign, self).logcumsumexp(dim) - result)

    return part(1) - part(-1)


def cumsum_backward(grad: Tensor, dim: int) -> Tensor:
    """Return the suffix sums of the gradient."""
    if grad.dim() == 0 or grad.numel() <= 1:
        return grad
    return grad.flip((dim,)).cumsum(dim).flip((dim,))

"""Reduction composites: the overloads with a second tensor, counts, and ``var`` by flag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..autograd.formulas.reduction import prefix_products_without
from ..autograd.tangents import all_examples, is_differentiated
from ..generated import functions as ops
from ..plans.host_kernel import host_kernel
from ..structured.meta.dims import wrap_dim
from .dimnames import by_name, refused

if TYPE_CHECKING:
    from ..tensor import Tensor


def max_other(self: Tensor, other: Tensor) -> Tensor:
    """Compute ``max(self, other)``, which is `maximum`."""
    return ops.maximum(self, other)


def max_other_out(self: Tensor, other: Tensor, out: Tensor) -> Tensor:
    """Run ``max(self, other, out=out)``."""
    return ops.maximum(self, other, out=out)


def min_other(self: Tensor, other: Tensor) -> Tensor:
    """Compute ``min(self, other)``, which is `minimum`."""
    return ops.minimum(self, other)


def min_other_out(self: Tensor, other: Tensor, out: Tensor) -> Tensor:
    """Run ``min(self, other, out=out)``."""
    return ops.minimum(self, other, out=out)


@host_kernel("count_nonzero", "ne.Scalar", "sum.dim_IntList")
def count_nonzero(self: Tensor, dim: Sequence[int] | int | None) -> Tensor:
    """Count the nonzero elements, over `dim` or everything."""
    return ops.sum(ops.ne(self, 0), dim)


def var_mean(self: Tensor, unbiased: bool) -> tuple[Tensor, Tensor]:
    """Compute the variance and mean of everything."""
    return ops.var_mean(self, None, correction=None if unbiased else 0, keepdim=False)


def var_mean_dim(
    self: Tensor, dim: Sequence[int] | int | None, unbiased: bool, keepdim: bool
) -> tuple[Tensor, Tensor]:
    """Compute the variance and mean over `dim`."""
    return ops.var_mean(self, dim, correction=int(unbiased), keepdim=keepdim)


def std_mean(self: Tensor, unbiased: bool) -> tuple[Tensor, Tensor]:
    """Compute the standard deviation and mean of everything."""
    return ops.std_mean(self, None, correction=None if unbiased else 0, keepdim=False)


def std_mean_dim(
    self: Tensor, dim: Sequence[int] | int | None, unbiased: bool, keepdim: bool
) -> tuple[Tensor, Tensor]:
    """Compute the standard deviation and mean over `dim`."""
    return ops.std_mean(self, dim, correction=int(unbiased), keepdim=keepdim)


def value_selecting_reduction_backward(
    grad: Tensor, dim: int, indices: Tensor, sizes: Sequence[int], keepdim: bool
) -> Tensor:
    """Return zeros of `sizes` with the gradient at the selected indices."""
    if not keepdim and len(sizes):
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return ops.scatter(grad.new_zeros(tuple(sizes)), dim, indices, grad)


def cummaxmin_backward(grad: Tensor, input: Tensor, indices: Tensor, dim: int) -> Tensor:
    """Sum the gradients at the positions of the running maxima or minima."""
    if input.numel() == 0:
        return input
    return ops.scatter_add(ops.zeros_like(input), dim, indices, grad)


def _suffix_sums(x: Tensor, dim: int) -> Tensor:
    return x.flip((dim,)).cumsum(dim).flip((dim,))


def cumprod_backward(grad: Tensor, input: Tensor, dim: int, output: Tensor) -> Tensor:
    """Compute the gradient of `cumprod` in linear time.

    The gradient is exact for zeros, because the first zero of a line is treated separately. A second derivative at
    zeros needs every product without one factor. If the gradient is differentiated itself and there are zeros, the
    function computes these products, in quadratic time and space.
    """
    if input.numel() <= 1 or input.dim() == 0:
        return grad
    dim = wrap_dim(dim, input.dim())
    if input.is_complex():
        input, output = input.conj(), output.conj()
    zero = ops.eq(input, 0)
    if is_differentiated(grad, input) and ops.any(all_examples(zero)).item():
        by_factors: Tensor = _cumprod_backward_by_factors(grad, input, dim)
        return by_factors
    zero_count = zero.cumsum(dim)
    between = ops.eq(zero_count, 1)  # from a line's first zero to the second
    first = ops.logical_and(zero, between)
    shares = ops.masked_fill(grad * output, ops.ne(zero_count, 0), 0)
    plain = ops.where(ops.eq(zero_count, 0), _suffix_sums(shares, dim) / ops.masked_fill(input, zero, 1), 0)
    products = ops.where(ops.logical_and(between, ops.ne(input, 0)), input, 1).cumprod(dim)
    before = ops.cat(
        [ops.ones_like(output.narrow(dim, 0, 1)), output.narrow(dim, 0, output.shape[dim] - 1)], dim
    )
    at_zero = _suffix_sums(ops.where(between, grad * products, 0), dim) * before
    return ops.where(first, at_zero, plain).to(grad.dtype)


def _cumprod_backward_by_factors(grad: Any, input: Any, dim: int) -> Any:
    """Return for each factor the prefix products without it, from its own position on, times the gradient."""
    x, g = input.movedim(dim, -1), grad.movedim(dim, -1)
    return ops.sum(prefix_products_without(x) * g.unsqueeze(-2), -1).movedim(-1, dim).to(grad.dtype)


sum_by_name = by_name("sum.dim_IntList")
sum_by_name_out = by_name("sum.IntList_out")
mean_by_name = by_name("mean.dim")
mean_by_name_out = by_name("mean.out")
prod_by_name = by_name("prod.dim_int")
prod_by_name_out = by_name("prod.int_out")
max_by_name = by_name("max.dim")
max_by_name_out = by_name("max.dim_max")
min_by_name = by_name("min.dim")
min_by_name_out = by_name("min.dim_min")
var_by_name = by_name("var.dim")
var_by_name_out = by_name("var.out")
var_correction_by_name = by_name("var.correction")
var_correction_by_name_out = by_name("var.correction_out")
var_mean_by_name = by_name("var_mean.dim")
var_mean_correction_by_name = by_name("var_mean.correction")
std_by_name = by_name("std.dim")
std_by_name_out = by_name("std.out")
std_correction_by_name = by_name("std.correction")
std_correction_by_name_out = by_name("std.correction_out")
std_mean_by_name = by_name("std_mean.dim")
std_mean_correction_by_name = by_name("std_mean.correction")
logsumexp_by_name = by_name("logsumexp")
logsumexp_by_name_out = by_name("logsumexp.out")
cumsum_by_name = by_name("cumsum")
cumsum__by_name = by_name("cumsum_")
cumsum_by_name_out = by_name("cumsum.out")
cumprod_by_name = by_name("cumprod")
cumprod__by_name = by_name("cumprod_")
cumprod_by_name_out = by_name("cumprod.out")
logcumsumexp_by_name = by_name("logcumsumexp")
logcumsumexp_by_name_out = by_name("logcumsumexp.out")
cummax_by_name = by_name("cummax")
cummax_by_name_out = by_name("cummax.out")
cummin_by_name = by_name("cummin")
cummin_by_name_out = by_name("cummin.out")
any_by_name = refused("any")
all_by_name = refused("all")

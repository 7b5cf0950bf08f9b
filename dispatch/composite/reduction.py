"""Reductions made of others: the overloads that take a second tensor, counts, ``var`` by flag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..generated import functions as ops
from .dimnames import by_name, refused


def max_other(self: Any, other: Any) -> Any:
    """``max(self, other)`` is `maximum`."""
    return ops.maximum(self, other)


def max_other_out(self: Any, other: Any, out: Any) -> Any:
    """``max(self, other, out=out)``."""
    return ops.maximum(self, other, out=out)


def min_other(self: Any, other: Any) -> Any:
    """``min(self, other)`` is `minimum`."""
    return ops.minimum(self, other)


def min_other_out(self: Any, other: Any, out: Any) -> Any:
    """``min(self, other, out=out)``."""
    return ops.minimum(self, other, out=out)


def count_nonzero(self: Any, dim: Sequence[int] | int | None) -> Any:
    """How many elements are not zero, over `dim` or everything."""
    return ops.sum(ops.ne(self, 0), dim)


def var_mean(self: Any, unbiased: bool) -> Any:
    """Variance and mean of everything."""
    return ops.var_mean(self, None, correction=int(unbiased), keepdim=False)


def var_mean_dim(self: Any, dim: Sequence[int] | int | None, unbiased: bool, keepdim: bool) -> Any:
    """Variance and mean over `dim`."""
    return ops.var_mean(self, dim, correction=int(unbiased), keepdim=keepdim)


def std_mean(self: Any, unbiased: bool) -> Any:
    """Standard deviation and mean of everything."""
    return ops.std_mean(self, None, correction=int(unbiased), keepdim=False)


def std_mean_dim(self: Any, dim: Sequence[int] | int | None, unbiased: bool, keepdim: bool) -> Any:
    """Standard deviation and mean over `dim`."""
    return ops.std_mean(self, dim, correction=int(unbiased), keepdim=keepdim)


def value_selecting_reduction_backward(
    grad: Any, dim: int, indices: Any, sizes: Sequence[int], keepdim: bool
) -> Any:
    """Zeros of `sizes` with the gradient at the selected indices."""
    if not keepdim and len(sizes):
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    zeros = ops.zeros(tuple(sizes), dtype=grad.dtype, device=grad.device)
    return ops.scatter(zeros, dim, indices, grad)


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
any_by_name = refused("any")
all_by_name = refused("all")

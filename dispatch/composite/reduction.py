"""Reductions made of others: the overloads that take a second tensor, counts, ``var`` by flag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..generated import functions as ops


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

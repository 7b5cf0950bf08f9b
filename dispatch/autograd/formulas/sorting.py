"""Derivatives of sorting and selection: each result comes from one element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...generated import functions as ops

if TYPE_CHECKING:
    from ...tensor import Tensor


def selected(x: Tensor, dim: int, indices: Tensor, keepdim: bool) -> Tensor:
    """Return the elements that a selection along `dim` chose, in the selection's output shape."""
    if keepdim or not x.dim():
        return ops.gather(x, dim, indices)
    return ops.gather(x, dim, indices.unsqueeze(dim)).squeeze(dim)


def selected_median(x: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """Return the tangent of the global median: the mean over the elements that attain it; NaN attains NaN."""
    attained = ops.logical_or(ops.eq(self, result), ops.logical_and(ops.isnan(self), ops.isnan(result)))
    return ops.sum(ops.where(attained, x, ops.zeros_like(x))) / ops.sum(attained)

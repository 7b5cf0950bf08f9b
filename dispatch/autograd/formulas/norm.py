"""Derivative of norms, with PyTorch's subgradients at nondifferentiable points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...generated import functions as ops
from ...structured.meta.dims import reduced_dims
from .reduction import restored, zeroed

if TYPE_CHECKING:
    from ....runtime.scalar_type import Number
    from ...tensor import Tensor


def vector_norm_backward(
    grad: Tensor, self: Tensor, ord: Number, result: Tensor, dim: Sequence[int] | None, keepdim: bool
) -> Tensor:
    """Return the gradient of a norm: 0 if the norm is 0; elements that attain an extremum share its gradient."""
    rank = self.dim()
    x = self if self.dtype is result.dtype or self.dtype.is_complex else self.to(result.dtype)
    norm = restored(result, rank, dim, keepdim) if dim else result
    grad = restored(grad, rank, dim, keepdim) if dim else grad
    if ord == 0:
        gradient = ops.zeros_like(x)
    elif ord == 1:
        gradient = _direction(x) * grad
    elif ord == 2:
        gradient = grad * zeroed(x / norm, ops.eq(norm, 0))
    elif abs(ord) == math.inf:
        size = ops.abs(x)
        attained = ops.logical_or(ops.eq(size, norm), ops.logical_and(ops.isnan(size), ops.isnan(norm)))
        mask = attained.to(norm.dtype)
        count = ops.sum(mask, reduced_dims(dim, rank), keepdim=True) if rank else mask
        gradient = _direction(x) * mask * (grad / count)
    else:
        powers = ops.masked_fill(ops.pow(ops.abs(x), ord - 1), ops.eq(x, 0), 0)
        # No division by 0, even under the mask: the quotient is differentiated again.
        nothing = ops.eq(norm, 0)
        scale = ops.masked_fill(grad / ops.pow(ops.masked_fill(norm, nothing, 1), ord - 1), nothing, 0)
        gradient = _direction(x) * powers * scale
    return gradient.to(self.dtype)


def _direction(x: Tensor) -> Tensor:
    """Return the sign of each element; 0 for 0."""
    if not x.dtype.is_complex:
        return ops.sgn(x)
    zero = ops.eq(x, 0)
    return ops.where(zero, 0.0, x / ops.where(zero, 1.0, ops.abs(x)))

"""Sums, norms and softmax of tensors of coordinates (ATen/native/sparse/SparseTensorMath.cpp, SoftMax.cpp).

A sum over all sparse dimensions is dense; over some of them it is sparse, and coalesced. Softmax is over specified
elements only: unspecified elements count as -inf, not as 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....runtime.layout import strided
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.scalar_type import float32, int64
from ...composite.sparse_coo import coo_tensor, flattened
from ...generated import functions as ops
from ...structured.operand_checks import check_sizes
from .coo_shapes import unsqueeze, wrapped
from .coo_structure import coalesced, parts_of, values_at


def sum_all(self: Any, dtype: ScalarType | None) -> Any:
    """Compute the sum of all elements."""
    return self._data.values.sum(dtype=dtype)


def sum_dims(self: Any, dim: Sequence[int] | None, keepdim: bool, dtype: ScalarType | None) -> Any:
    """Compute the sum over dimensions, over all if none is named."""
    ndim = self._spec.ndim
    dims = sorted({wrapped(d, ndim) for d in (dim or range(ndim))})
    if dtype is None and not (self.dtype.is_floating_point or self.dtype.is_complex):
        dtype = int64
    out = summed(self, dims, dtype)
    if keepdim:
        for d in dims:
            out = unsqueeze(out, d) if out._spec.layout is not strided else out.unsqueeze(d)
    return out


def summed(self: Any, dims: Sequence[int], dtype: ScalarType | None) -> Any:
    """Compute the sum over dimensions counted from the front."""
    sparse_dim, sizes = self._data.sparse_dim, self._spec.sizes
    indices, values = parts_of(self)
    dense = [d - sparse_dim + 1 for d in dims if d >= sparse_dim]
    kept_dims = [d for d in range(sparse_dim) if d not in dims]
    if not kept_dims:
        return values.sum((0, *dense), dtype=dtype)
    values = values.sum(dense, dtype=dtype) if dense else values.to(dtype or values.dtype)
    size = [n for d, n in enumerate(sizes) if d not in dims]
    if len(kept_dims) == sparse_dim:
        out = coo_tensor(indices, values, size, self._data.is_coalesced)
    else:
        out = coo_tensor(indices[kept_dims], values, size, False)
    return coalesced(out)


def _sparse_sum_dim(self: Any, dim: Sequence[int]) -> Any:
    """Run ``_sparse_sum.dim``; integers are not promoted."""
    if not dim:
        raise RuntimeError("sparse.sum: expected dim to name a dimension, got none")
    ndim = self._spec.ndim
    dims = [wrapped(d, ndim) for d in dim]
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"sparse.sum: dim {list(dim)} names a dimension twice")
    return summed(self, sorted(dims), self.dtype)


def _sparse_sum_backward(grad: Any, self: Any, dim: Sequence[int]) -> Any:
    """Compute the gradient of a sum at each index of the tensor."""
    self = coalesced(self)
    sparse_dim, sizes, ndim = self._data.sparse_dim, self._spec.sizes, self._spec.ndim
    dims = sorted({wrapped(d, ndim) for d in dim})
    if not dims:
        raise RuntimeError("_sparse_sum_backward: expected dim to name a dimension, got none")
    check_sizes("_sparse_sum_backward", "grad", grad._spec, [sizes[d] for d in range(ndim) if d not in dims])
    indices, values = parts_of(self)
    dense = [d for d in dims if d >= sparse_dim]
    kept_dims = [d for d in range(sparse_dim) if d not in dims]
    if not kept_dims:
        if grad._spec.layout is not strided:
            grad = grad.to_dense()
        for d in dense:
            grad = grad.unsqueeze(d - sparse_dim)
        picked = grad.expand(values._spec.sizes)
    else:
        rows = indices[kept_dims] if len(kept_dims) < sparse_dim else indices
        if grad._spec.layout is strided:
            inner = grad._spec.sizes[len(kept_dims) :]
            whole = grad.reshape((math.prod(grad._spec.sizes[: len(kept_dims)]), *inner))
            picked = whole.index_select(0, flattened(rows, grad._spec.sizes))
        else:
            picked = values_at(coalesced(grad), rows)
        for d in dense:
            picked = picked.unsqueeze(d - sparse_dim + 1)
        picked = picked.expand(values._spec.sizes)
    return coo_tensor(indices, picked, sizes, self._data.is_coalesced)


def any_(self: Any) -> Any:
    """Return whether any element is nonzero."""
    return coalesced(self)._data.values.any()


def norm(self: Any, p: Any) -> Any:
    """Compute the norm of all elements."""
    return ops.linalg_vector_norm(coalesced(self)._data.values, 2 if p is None else p)


def norm_dim(self: Any, p: Any, dim: Sequence[int], keepdim: bool, *dtype: Any) -> Any:
    """Compute the norm over all dimensions."""
    ndim = self._spec.ndim
    dims = {wrapped(d, ndim) for d in dim} if dim else set(range(ndim))
    if len(dims) < ndim:
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all "
            f"dimensions of the input: got {list(dim)} of {ndim}"
        )
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    if dtype and dtype[0] is not None:
        raise RuntimeError("norm_sparse currently does not support 'dtype' argument")
    return norm(self, p)


class _Groups:
    """Groups of values of a coalesced tensor that softmax normalizes together, by number."""

    def __init__(self, self_: Any, dim: int) -> None:
        indices, values = parts_of(self_)
        rows = [d for d in range(indices._spec.sizes[0]) if d != dim]
        sizes = self_._spec.sizes
        if rows:
            flat = flattened(indices[rows], [sizes[d] for d in rows])
            unequal, self.number, _ = ops._unique2(flat, sorted=True, return_inverse=True)
            self.count = unequal._spec.sizes[0]
        else:
            self.number = ops.zeros((values._spec.sizes[0],), dtype=int64, device=values.device)
            self.count = 1

    def summed(self, values: Any) -> Any:
        """Return for each value the sum of its group."""
        whole = ops.zeros((self.count, *values._spec.sizes[1:]), dtype=values.dtype, device=values.device)
        return whole.index_add_(0, self.number, values).index_select(0, self.number)

    def largest(self, values: Any) -> Any:
        """Return for each value the maximum of its group."""
        whole = ops.full(
            (self.count, *values._spec.sizes[1:]), -math.inf, dtype=values.dtype, device=values.device
        )
        return whole.index_reduce_(0, self.number, values, "amax").index_select(0, self.number)


def _widened(self: Any, half_to_float: bool) -> Any:
    values = self._data.values
    return values.to(float32) if half_to_float else values


def _sparse_softmax(self: Any, dim: int, half_to_float: bool) -> Any:
    """Compute softmax over a dimension's specified elements."""
    return _softmax(self, dim, half_to_float, log=False)


def _sparse_log_softmax(self: Any, dim: int, half_to_float: bool) -> Any:
    """Compute log-softmax."""
    return _softmax(self, dim, half_to_float, log=True)


def _softmax(self: Any, dim: int, half_to_float: bool, log: bool) -> Any:
    self = coalesced(self)
    wrapped_dim = wrapped(dim, self._spec.ndim)
    if not (self.dtype.is_floating_point or self.dtype.is_complex):
        raise NotImplementedError(f'"softmax" not implemented for {self.dtype.scalar_name!r}')
    indices, sparse_dim = self._data.indices, self._data.sparse_dim
    values = _widened(self, half_to_float)
    if not values._spec.numel:
        return coo_tensor(indices, values.clone(), self.shape, True)
    if wrapped_dim >= sparse_dim:
        function = ops.log_softmax if log else ops.softmax
        return coo_tensor(indices, function(values, wrapped_dim - sparse_dim + 1), self.shape, True)
    groups = _Groups(self, wrapped_dim)
    shifted = values - groups.largest(values)
    if log:
        out = shifted - groups.summed(shifted.exp()).log()
    else:
        powers = shifted.exp()
        out = powers / groups.summed(powers)
    return coo_tensor(indices, out, self.shape, True)


def _sparse_softmax_backward_data(grad_output: Any, output: Any, dim: int, self: Any) -> Any:
    """Compute the gradient of softmax, at the indices of its output."""
    return _softmax_backward(grad_output, output, dim, log=False)


def _sparse_log_softmax_backward_data(grad_output: Any, output: Any, dim: int, self: Any) -> Any:
    """Compute the gradient of log-softmax, at the indices of its output."""
    return _softmax_backward(grad_output, output, dim, log=True)


def _softmax_backward(grad: Any, output: Any, dim: int, log: bool) -> Any:
    output = coalesced(output)
    wrapped_dim = wrapped(dim, output._spec.ndim)
    indices, values = parts_of(output)
    sparse_dim = output._data.sparse_dim
    if not values._spec.numel:
        return coo_tensor(indices, values.clone(), output.shape, True)
    grads = (grad if grad._spec.layout is strided else coalesced(grad)).sparse_mask(output)._data.values
    if wrapped_dim >= sparse_dim:
        axis = wrapped_dim - sparse_dim + 1
        total = (grads if log else grads * values).sum(axis, keepdim=True)
    else:
        total = _Groups(output, wrapped_dim).summed(grads if log else grads * values)
    inner = grads - values.exp() * total if log else values * (grads - total)
    return coo_tensor(indices, inner, output.shape, True)


KERNELS = {
    "sum": sum_all,
    "sum.dim_IntList": sum_dims,
    "any": any_,
    "linalg_vector_norm": norm_dim,
    "native_norm": norm,
    "native_norm.ScalarOpt_dim_dtype": norm_dim,
    "norm.Scalar": norm,
    "norm.ScalarOpt_dim": norm_dim,
    "norm.ScalarOpt_dim_dtype": norm_dim,
    "_sparse_sum.dim": _sparse_sum_dim,
    "_sparse_sum_backward": _sparse_sum_backward,
    "_sparse_softmax": _sparse_softmax,
    "_sparse_softmax_backward_data": _sparse_softmax_backward_data,
    "_sparse_log_softmax": _sparse_log_softmax,
    "_sparse_log_softmax_backward_data": _sparse_log_softmax_backward_data,
}

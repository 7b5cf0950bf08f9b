"""Masks and masked reductions of sparse tensors: the mask decides which elements are specified.

A sparse mask selects its specified True elements; the values are the input's, or zero for elements that the input does
not specify. Reductions then combine the selected elements alone. Compressed rows are reduced as coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..dispatch.generated import functions as ops
from ..dispatch.tensor import Tensor
from ..runtime.layout import layout as Layout
from ..runtime.layout import sparse_coo, sparse_csr, strided
from ..runtime.scalar_type import bfloat16, bool_, float16, float32
from ..runtime.scalar_type import dtype as ScalarType
from .identities import reduction_identity

REDUCE: dict[str, str] = {"sum": "sum", "mean": "sum", "prod": "prod", "amax": "amax", "amin": "amin"}
"""The `reduce` argument of `scatter_reduce` for each masked reduction of sparse tensors."""


def mask_in_layout(mask: Tensor, input: Tensor) -> Tensor:
    """Return a mask as a bool tensor of the input's shape and layout; a sparse one is coalesced.

    Raises:
        ValueError: The input's layout is not strided, COO or CSR.
    """
    layout: Layout = input.layout
    if layout not in (strided, sparse_coo, sparse_csr):
        raise ValueError(f"_input_mask expects strided or sparse COO or sparse CSR tensor but got {layout}")
    if mask.shape != input.shape:
        if mask.layout is strided:
            mask = ops.broadcast_to(mask, input.shape)
        else:
            mask = ops._sparse_broadcast_to(mask.to_sparse_coo(), input.shape)
    if mask.layout is not layout or (layout is sparse_coo and mask.sparse_dim() != input.sparse_dim()):
        mask = mask.to_dense() if mask.layout is not strided else mask
        if layout is sparse_coo:
            mask = mask.to_sparse(input.sparse_dim())
        elif layout is sparse_csr:
            mask = mask.to_sparse_csr()
    if layout is sparse_coo:
        mask = mask.coalesce()
    return mask.to(dtype=bool_)


def specifies_same(first: Tensor, second: Tensor) -> bool:
    """Return True if two tensors of one shape and layout, coalesced if COO, specify the same elements."""
    if first.layout is strided:
        return True
    names = ("indices",) if first.layout is sparse_coo else ("crow_indices", "col_indices")
    pairs = [(getattr(first, name)(), getattr(second, name)()) for name in names]
    return all(a.shape == b.shape and bool((a == b).all()) for a, b in pairs)


def with_values(x: Tensor, values: Tensor) -> Tensor:
    """Return a tensor with the layout and indices of a COO or CSR tensor, and other values."""
    if x.layout is sparse_coo:
        return ops._sparse_coo_tensor_unsafe(x.indices(), values, tuple(x.shape), is_coalesced=True)
    return ops._sparse_csr_tensor_unsafe(x.crow_indices(), x.col_indices(), values, tuple(x.shape))


def sparse_where(mask: Tensor, input: Tensor, fill: Any) -> Tensor:
    """Return the elements of a sparse tensor that a sparse mask selects, specified also where they are zero.

    Args:
        mask: A bool tensor of the input's shape and layout, from `mask_in_layout`.
        input: A COO or CSR tensor.
        fill: The value of masked-out elements in the dense part of a hybrid tensor.
    """
    if input.layout is sparse_csr:
        return sparse_where(mask.to_sparse_coo(), input.to_sparse_coo(), fill).to_sparse_csr()
    input, mask = input.coalesce(), mask.coalesce()
    counted = mask.values()
    selected = counted.flatten(1).any(1) if counted.dim() > 1 else counted
    indices, counted = mask.indices()[:, selected], counted[selected]
    sizes = input.shape[: input.sparse_dim()]
    specified, requested = _flat(input.indices(), sizes), _flat(indices, sizes)
    values = input.values()
    if specified.numel():
        position = ops.searchsorted(specified, requested).clamp(max=specified.numel() - 1)
        is_specified = (specified[position] == requested).reshape(-1, *[1] * (values.dim() - 1))
        values = ops.where(is_specified, values[position], 0)
    else:
        values = values.new_zeros((requested.numel(), *values.shape[1:]))
    if values.dim() > 1:
        values = ops.where(counted, values, fill)
    return ops._sparse_coo_tensor_unsafe(indices, values, tuple(input.shape), is_coalesced=True)


def reduce_sparse(
    name: str, input: Tensor, mask: Tensor | None, dims: Sequence[int], keepdim: bool, dtype: ScalarType
) -> Tensor:
    """Return the reduction of a sparse tensor's selected elements, in its layout.

    Args:
        name: A key of `REDUCE`.
        input: A COO or CSR tensor.
        mask: The mask, of any layout. None for all elements, which only a sum takes.
        dims: The dimensions to reduce, from `canonical_dim`.
        keepdim: If True, keep the reduced dimensions with size 1. CSR tensors keep them.
        dtype: The dtype of the result.

    Raises:
        ValueError: There is no mask for another reduction than a sum.
        RuntimeError: A CSR tensor is to lose a dimension.
    """
    if name not in REDUCE or input.layout not in (sparse_coo, sparse_csr):
        raise ValueError(f"masked {name} expects strided tensor (got {input.layout} tensor)")
    if mask is None and name != "sum":
        raise ValueError(f"masked {name} expects explicit mask for {_kind(input)} tensor input")
    if input.layout is sparse_csr and not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    if mask is not None:
        fill = 0 if name == "mean" else reduction_identity(name, input)
        input = sparse_where(mask_in_layout(mask, input), input, fill)
    if input.layout is sparse_csr:
        return _reduce_coo(name, input.to_sparse_coo(), dims, keepdim, dtype).to_sparse_csr()
    return _reduce_coo(name, input, dims, keepdim, dtype)


def _kind(input: Tensor) -> str:
    return "sparse_csr" if input.layout is sparse_csr else "sparse_coo"


def _flat(indices: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the position of each column of indices in a contiguous tensor of these sizes."""
    strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    return (indices * indices.new_tensor(strides).unsqueeze(1)).sum(0)


def _reduce_coo(name: str, input: Tensor, dims: Sequence[int], keepdim: bool, dtype: ScalarType) -> Tensor:
    input = input.coalesce()
    num_sparse = input.sparse_dim()
    # 16-bit floats are added and multiplied in float32.
    values = input.values().to(float32 if dtype in (float16, bfloat16) else dtype)
    dense = [d - num_sparse + 1 for d in dims if num_sparse <= d < input.dim()]
    if dense:
        if name == "mean":
            raise ValueError("masked mean of a hybrid tensor reduces sparse dimensions only")
        values = _reduced(name, values, dense, keepdim)
    kept_dims = [d for d in range(num_sparse) if d not in dims]
    if not kept_dims:
        whole = _reduced(name, values, [0], False)
        if keepdim:
            whole = whole.reshape([1] * num_sparse + list(whole.shape))
        return whole.to(dtype).to_sparse()
    indices, sizes = input.indices()[kept_dims], [input.shape[d] for d in kept_dims]
    groups, group = _flat(indices, sizes).unique(return_inverse=True)
    count = groups.numel()
    new_indices = indices.new_zeros((num_sparse if keepdim else len(kept_dims), count))
    for row, each in zip(kept_dims if keepdim else range(len(kept_dims)), indices, strict=True):
        new_indices[row] = each.new_zeros(count).scatter(0, group, each)
    scatter_index = group.reshape(-1, *[1] * (values.dim() - 1)).expand(values.shape)
    made = values.new_zeros((count, *values.shape[1:]))
    made = made.scatter_reduce(0, scatter_index, values, REDUCE[name], include_self=False)
    if name == "mean":
        made = made / ops.bincount(group, minlength=count).reshape(-1, *[1] * (made.dim() - 1))
    shape = [1 if d in dims else size for d, size in enumerate(input.shape) if keepdim or d not in dims]
    return ops._sparse_coo_tensor_unsafe(new_indices, made.to(dtype), shape, is_coalesced=True)


def _reduced(name: str, values: Tensor, dims: Sequence[int], keepdim: bool) -> Tensor:
    """Reduce dimensions of a dense tensor, also where they are empty."""
    if name in ("sum", "mean"):
        return getattr(ops, name)(values, dims, keepdim)  # type: ignore[no-any-return]
    if name == "prod":
        for each in sorted(dims, reverse=True):
            values = values.prod(each, keepdim)
        return values
    if any(values.shape[d] == 0 for d in dims):
        shape = [1 if d in dims else size for d, size in enumerate(values.shape) if keepdim or d not in dims]
        return values.new_full(shape, reduction_identity(name, values))
    return getattr(ops, name)(values, dims, keepdim)  # type: ignore[no-any-return]

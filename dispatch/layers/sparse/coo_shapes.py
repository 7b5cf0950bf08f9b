"""Shape operators of sparse COO tensors: transpose, select, concatenate, broadcast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from ....runtime.layout import sparse_coo, strided
from ....runtime.scalar_type import bool_, int64
from ...composite.sparse_coo import coo_tensor
from ...generated import functions as ops
from ...iterator.type_promotion import promote_types
from .coo_structure import alias, coalesced, parts_of


def wrapped(dim: int, ndim: int) -> int:
    """Return a dimension counted from the front. Raises IndexError out of range."""
    if not -ndim <= dim < max(ndim, 1):
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-max(ndim, 1)}, {max(ndim, 1) - 1}], but got {dim})"
        )
    return dim % max(ndim, 1)


def permute(self: Any, dims: Sequence[int]) -> Any:
    """Permute sparse dimensions among themselves and dense ones among themselves."""
    ndim, sparse_dim = self._spec.ndim, self._data.sparse_dim
    if len(dims) != ndim:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {ndim} is not equal to len(dims) = {len(dims)}"
        )
    order = [wrapped(d, ndim) for d in dims]
    if sorted(order) != list(range(ndim)):
        raise RuntimeError("permute(sparse_coo): duplicate dims are not allowed.")
    if order == list(range(ndim)):
        return alias(self)
    if any(d >= sparse_dim for d in order[:sparse_dim]):
        raise RuntimeError(
            "permute(sparse_coo): transpositions between sparse and dense dimensions are not allowed.Only "
            "transpositions within sparse and dense dimensions are supported."
        )
    indices, values = parts_of(self)
    is_coalesced = self._data.is_coalesced
    if order[:sparse_dim] != list(range(sparse_dim)):
        indices = indices[order[:sparse_dim]]
        is_coalesced = is_coalesced and self._data.nnz < 2
    if order[sparse_dim:] != list(range(sparse_dim, ndim)):
        values = values.permute((0, *(d - sparse_dim + 1 for d in order[sparse_dim:])))
    size = tuple(self._spec.sizes[d] for d in order)
    return coo_tensor(indices, values, size, is_coalesced)


def transpose(self: Any, dim0: int, dim1: int) -> Any:
    """Swap two sparse dimensions."""
    ndim, sparse_dim = self._spec.ndim, self._data.sparse_dim
    first, second = wrapped(dim0, ndim), wrapped(dim1, ndim)
    if first == second:
        return alias(self)
    if first >= sparse_dim or second >= sparse_dim:
        raise RuntimeError(
            f"sparse transpose: transposed dimensions must be sparse Got sparse_dim: {sparse_dim}, d0: {first}, d1: "
            f"{second}"
        )
    order = list(range(ndim))
    order[first], order[second] = second, first
    return permute(self, order)


def t(self: Any) -> Any:
    """Return the transpose of a matrix."""
    sparse_dim, dense_dim = self._data.sparse_dim, self._data.dense_dim
    if sparse_dim > 2 or dense_dim:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {sparse_dim} sparse and "
            f"{dense_dim} dense dimensions"
        )
    return alias(self) if self._spec.ndim < 2 else transpose(self, 0, 1)


def unsqueeze(self: Any, dim: int) -> Any:
    """Insert a dimension of size 1, sparse or dense by its position."""
    ndim, sparse_dim = self._spec.ndim, self._data.sparse_dim
    position = wrapped(dim, ndim + 1)
    indices, values = parts_of(self)
    size = list(self._spec.sizes)
    size.insert(position, 1)
    if position <= sparse_dim:
        row = ops.zeros((1, indices._spec.sizes[1]), dtype=int64, device=indices.device)
        indices = ops.cat((indices[:position], row, indices[position:]), 0)
    else:
        values = values.unsqueeze(position - sparse_dim + 1)
    return coo_tensor(indices, values, size, self._data.is_coalesced)


def squeeze_dims(self: Any, dims: Sequence[int]) -> Any:
    """Remove those of the dimensions that have size 1."""
    ndim, sparse_dim, sizes = self._spec.ndim, self._data.sparse_dim, self._spec.sizes
    gone = {d for d in (wrapped(d, ndim) for d in dims) if ndim and sizes[d] == 1}
    if not gone:
        return alias(self)
    indices, values = parts_of(self)
    rows = [d for d in range(sparse_dim) if d not in gone]
    if len(rows) < sparse_dim:
        indices = indices[rows] if rows else indices[:0]
    values = values.reshape(
        (values._spec.sizes[0], *(sizes[d] for d in range(sparse_dim, ndim) if d not in gone))
    )
    return coo_tensor(
        indices, values, [n for d, n in enumerate(sizes) if d not in gone], self._data.is_coalesced
    )


def squeeze(self: Any) -> Any:
    """Remove the dimensions of size 1."""
    return squeeze_dims(self, range(self._spec.ndim))


def squeeze_dim(self: Any, dim: int) -> Any:
    """Remove a dimension if it has size 1."""
    return squeeze_dims(self, (dim,))


def select(self: Any, dim: int, index: int) -> Any:
    """Select one index of a dimension; return a dense tensor if no sparse dimension remains."""
    ndim, sparse_dim = self._spec.ndim, self._data.sparse_dim
    if not ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    position = wrapped(dim, ndim)
    length = self._spec.sizes[position]
    if not -length <= index < length:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(self._spec.sizes)} at dimension {position}"
        )
    index %= length
    indices, values = parts_of(self)
    size = [n for d, n in enumerate(self._spec.sizes) if d != position]
    if position >= sparse_dim:
        return coo_tensor(
            indices, values.select(position - sparse_dim + 1, index), size, self._data.is_coalesced
        )
    if self._spec.is_meta:
        empty_values = values[:0]
        return (
            empty_values.sum(0) if sparse_dim == 1 else coo_tensor(indices[1:, :0], empty_values, size, True)
        )
    entries = (indices[position] == index).nonzero().reshape(-1)
    values = values.index_select(0, entries)
    if sparse_dim == 1:
        return values.sum(0, dtype=values.dtype) if values.dtype is not bool_ else values.any(0)
    rows = [d for d in range(sparse_dim) if d != position]
    new_indices = indices.index_select(1, entries)[rows]
    return coo_tensor(new_indices, values, size, self._data.is_coalesced or len(entries) < 2)


def select_first(self: Any, index: int) -> Any:
    """Return ``self[index]``."""
    if not self._spec.ndim:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python to convert a 0-dim tensor to a number"
        )
    length = self._spec.sizes[0]
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of bounds for dimension 0 with size {length}")
    return select(self, 0, index)


def select_backward(grad: Any, input_sizes: Sequence[int], dim: int, index: int) -> Any:
    """Return a gradient at the selected index of the dimension."""
    position = wrapped(dim, len(input_sizes))
    indices, values = parts_of(grad)
    sparse_dim = grad._data.sparse_dim
    wrapped_index = index % input_sizes[position]
    if position <= sparse_dim:
        row = ops.full((1, indices._spec.sizes[1]), wrapped_index, dtype=int64, device=indices.device)
        indices = ops.cat((indices[:position], row, indices[position:]), 0)
        return coo_tensor(indices, values, input_sizes, grad._data.is_coalesced)
    sizes = (values._spec.sizes[0], *input_sizes[sparse_dim:])
    return coo_tensor(
        indices,
        ops.select_backward(values, sizes, position - sparse_dim + 1, wrapped_index),
        input_sizes,
        grad._data.is_coalesced,
    )


def index_select(self: Any, dim: int, index: Any) -> Any:
    """Select several indices of a dimension, in their order, with repetitions."""
    if self._spec.layout is not sparse_coo or index._spec.layout is not strided:
        raise RuntimeError(
            f"index_select(): expected a strided index, got {index._spec.layout} for a tensor of {self._spec.layout}"
        )
    ndim, sparse_dim = self._spec.ndim, self._data.sparse_dim
    if not ndim:
        raise IndexError("index_select() cannot be applied to a 0-dim tensor.")
    position = wrapped(dim, ndim)
    if index._spec.ndim > 1 or index._spec.dtype.name not in ("int32", "int64"):
        raise IndexError(
            f"index_select() argument index must be 1-D long-tensor, got {index._spec.ndim} dimensions of "
            f"{index._spec.dtype}"
        )
    index = index.reshape(-1).to(int64)
    length, count = self._spec.sizes[position], index._spec.sizes[0]
    size = (*self._spec.sizes[:position], count, *self._spec.sizes[position + 1 :])
    if not index._spec.is_meta and count:
        low, high = int(index.min()), int(index.max())
        if low < -length or high >= length:
            raise IndexError(
                f"index_select(): index contains {low if low < -length else high} that is out of range for tensor of "
                f"size {list(self._spec.sizes)} at dimension {position}"
            )
        index = ops.where(index < 0, index + length, index)
    indices, values = parts_of(self)
    if position >= sparse_dim:
        return coo_tensor(
            indices, values.index_select(position - sparse_dim + 1, index), size, self._data.is_coalesced
        )
    if self._spec.is_meta:
        return coo_tensor(indices[:, :0], values[:0], size, True)
    own, order = ops.sort(indices[position], stable=True, dim=0, descending=False)
    begins = ops.searchsorted(own, index)
    counts = ops.searchsorted(own, index, right=True) - begins
    ends = counts.cumsum(0)
    # Entry k of the result is `k - (where its index began)` after the first of that index.
    which = ops.repeat_interleave(ops.arange(count, device=index.device), counts)
    total = which._spec.sizes[0]
    offset = ops.arange(total, device=index.device) - (ends - counts).index_select(0, which)
    source = order.index_select(0, begins.index_select(0, which) + offset)
    new_indices = indices.index_select(1, source)
    new_indices[position] = which
    return coo_tensor(new_indices, values.index_select(0, source), size, False)


def narrow_copy(self: Any, dim: int, start: int, length: int) -> Any:
    """Return the range between two indices of a dimension."""
    ndim, sparse_dim = self._spec.ndim, self._data.sparse_dim
    position = wrapped(dim, ndim)
    whole = self._spec.sizes[position]
    begin = start + whole if start < 0 else start
    if length < 0 or begin < 0 or begin + length > whole:
        raise RuntimeError(
            f"Invalid range to narrow. range(start, start+length) = range({start}, {start + length}) must be a subset "
            f"of range(0, {whole})."
        )
    size = (*self._spec.sizes[:position], length, *self._spec.sizes[position + 1 :])
    indices, values = parts_of(self)
    if position >= sparse_dim:
        return coo_tensor(
            indices,
            values.narrow_copy(position - sparse_dim + 1, begin, length),
            size,
            self._data.is_coalesced,
        )
    if self._spec.is_meta:
        return coo_tensor(indices[:, :0], values[:0], size, True)
    row = indices[position]
    entries = ((row >= begin) & (row < begin + length)).nonzero().reshape(-1)
    new_indices = indices.index_select(1, entries)
    new_indices[position] -= begin
    return coo_tensor(new_indices, values.index_select(0, entries), size, self._data.is_coalesced)


def cat(tensors: Sequence[Any], dim: int) -> Any:
    """Concatenate sparse tensors along a sparse dimension, or along a dense one, padded with zeros."""
    for position, tensor in enumerate(tensors):
        if tensor._spec.layout is not sparse_coo:
            raise RuntimeError(
                f"Concatenating sparse tensors, but a dense tensor was found at position {position}."
            )
    first = tensors[0]
    cat_dim = wrapped(dim, first._spec.ndim)
    sparse_dim = first._data.sparse_dim
    total = 0
    index_parts, parts = [], []
    dtype = reduce(promote_types, (tensor._spec.dtype for tensor in tensors))
    length = sum(tensor._spec.sizes[cat_dim] for tensor in tensors)
    for position, tensor in enumerate(tensors):
        _check_joined(first, tensor, position, cat_dim)
        indices, values = parts_of(tensor)
        values = values.to(dtype)
        if cat_dim < sparse_dim:
            if total:
                indices = indices.clone()
                indices[cat_dim] += total
        else:
            axis = cat_dim - sparse_dim + 1
            sizes = list(values._spec.sizes)
            sizes[axis] = length
            whole = ops.zeros(sizes, dtype=dtype, device=values.device)
            whole.narrow(axis, total, values._spec.sizes[axis]).copy_(values)
            values = whole
        index_parts.append(indices)
        parts.append(values)
        total += tensor._spec.sizes[cat_dim]
    size = (*first._spec.sizes[:cat_dim], length, *first._spec.sizes[cat_dim + 1 :])
    ordered = cat_dim == 0 and sparse_dim > 0 and all(tensor._data.is_coalesced for tensor in tensors)
    return coo_tensor(ops.cat(index_parts, 1), ops.cat(parts, 0), size, ordered)


def _check_joined(first: Any, tensor: Any, position: int, dim: int) -> None:
    if (tensor._data.sparse_dim, tensor._data.dense_dim) != (first._data.sparse_dim, first._data.dense_dim):
        raise RuntimeError(
            f"All tensors must have the same number of sparse and dense dimensions, but tensor at position {position} "
            f"has {tensor._data.sparse_dim}, {tensor._data.dense_dim} rather than {first._data.sparse_dim}, "
            f"{first._data.dense_dim}"
        )
    for d, (expected, actual) in enumerate(zip(first._spec.sizes, tensor._spec.sizes, strict=True)):
        if d != dim and expected != actual:
            raise RuntimeError(
                "All tensors must have the same shape: "
                f"{list(first._spec.sizes)} (except in the concatenating dimension), but found shape: "
                f"{list(tensor._spec.sizes)} at position {position}"
            )


def broadcast_to(self: Any, size: Sequence[int]) -> Any:
    """Expand the tensor along dimensions of size 1 and along new leading dimensions."""
    old = self._spec.sizes
    added = len(size) - len(old)
    sparse_dim = self._data.sparse_dim
    if added < 0 or any(n != m and n != 1 for n, m in zip(old, size[added:], strict=True)):
        raise RuntimeError(f"The sizes {list(old)} cannot be broadcast to {list(size)}")
    if tuple(size) == old:
        return alias(self)
    indices, values = parts_of(self)
    nnz = values._spec.sizes[0]
    lengths = [size[d] if d < added or old[d - added] != size[d] else 1 for d in range(added + sparse_dim)]
    copies = math.prod(lengths)
    values = values.expand((nnz, *size[added + sparse_dim :]))
    if copies != 1 or added:
        number = ops.arange(copies * nnz, device=indices.device)
        repeated, source = number // max(nnz, 1), number % max(nnz, 1)
        rows = []
        step = copies
        for d, length in enumerate(lengths):
            step //= max(length, 1)
            own = repeated // max(step, 1) % max(length, 1)
            rows.append(own if d < added or length != 1 else indices[d - added].index_select(0, source))
        indices = ops.stack(rows) if rows else indices.new_zeros((0, copies * nnz))
        values = values.index_select(0, source)
    ordered = self._data.is_coalesced and all(n == 1 for n in lengths[added:])
    return coo_tensor(indices, values, size, ordered)


def refused_expand(self: Any, size: Sequence[int], implicit: bool) -> Any:
    """Refuse views that repeat elements: they have no sparse layout."""
    if list(size) == list(self._spec.sizes):
        return alias(self)
    raise RuntimeError(
        f"expand is unsupported for Sparse tensors: sizes {list(self._spec.sizes)} to {list(size)}"
    )


def view_as_real(self: Any) -> Any:
    """Return complex values as pairs, in another dense dimension."""
    indices, values = parts_of(self)
    return coo_tensor(indices, ops.view_as_real(values), (*self._spec.sizes, 2), self._data.is_coalesced)


def view_as_complex(self: Any) -> Any:
    """Return pairs of the last dense dimension as complex values."""
    indices, values = parts_of(self)
    return coo_tensor(indices, ops.view_as_complex(values), self._spec.sizes[:-1], self._data.is_coalesced)


def resize_(self: Any, size: Sequence[int], memory_format: Any) -> Any:
    raise NotImplementedError(
        "resize_: a sparse tensor is resized by sparse_resize_, which says how many dimensions are sparse"
    )


def unbind(self: Any, dim: int) -> list[Any]:
    """Return the slices at each index of a dimension."""
    own = coalesced(self) if wrapped(dim, self._spec.ndim) < self._data.sparse_dim else self
    return [select(own, dim, i) for i in range(self._spec.sizes[wrapped(dim, self._spec.ndim)])]


KERNELS = {
    "permute": permute,
    "transpose.int": transpose,
    "t": t,
    "unsqueeze": unsqueeze,
    "squeeze": squeeze,
    "squeeze.dim": squeeze_dim,
    "squeeze.dims": squeeze_dims,
    "select.int": select,
    "_select_first": select_first,
    "resize_": resize_,
    "select_backward": select_backward,
    "index_select": index_select,
    "narrow_copy": narrow_copy,
    "cat": cat,
    "expand": refused_expand,
    "view_as_real": view_as_real,
    "view_as_complex": view_as_complex,
    "unbind.int": unbind,
    "_sparse_broadcast_to": broadcast_to,
}

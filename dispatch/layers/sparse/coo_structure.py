"""Structure of sparse COO tensors: parts, coalescing, resizing, dense forms, copies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....runtime.device import device as Device
from ....runtime.layout import layout as Layout
from ....runtime.layout import sparse_coo, spoken, strided
from ....runtime.memory_format import memory_format as MemoryFormat
from ....runtime.scalar_type import bool_, int64
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.version_cell import share_version
from ...composite.sparse_compressed import converted
from ...composite.sparse_coo import check_dims, coo_tensor, empty_coo, flattened
from ...generated import functions as ops


def parts_of(self: Any) -> tuple[Any, Any]:
    """Return the indices and values."""
    data = self._data
    return data.indices, data.values


def alias(self: Any) -> Any:
    """Return another tensor over the same parts that is not a view, since in-place operators replace parts."""
    return coo_tensor(*parts_of(self), self.shape, self._data.is_coalesced)


def coalesced(self: Any) -> Any:
    """Return the tensor, coalesced if it is not; nothing is recorded. Raises RuntimeError for another layout."""
    if self._spec.layout is not sparse_coo:
        raise RuntimeError(f"expected a tensor of layout sparse_coo, but got {self._spec.layout}")
    return self if self._data.is_coalesced else _coalesce(self)


def _coalesce(self: Any) -> Any:
    """Run ``_coalesce``: sort the indices stably, then sum the values of each in their original order."""
    indices, values = parts_of(self)
    if self._data.is_coalesced:
        return alias(self)
    if indices._spec.is_meta or self._data.nnz < 2:
        return coo_tensor(indices, values, self.shape, True)
    flat = flattened(indices, self._spec.sizes)
    ordered, order = ops.sort(flat, stable=True, dim=0, descending=False)
    begins = ops.ones_like(ordered, dtype=bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    first = begins.nonzero().reshape(-1)
    count = first._spec.sizes[0]
    if count == ordered._spec.sizes[0]:
        return coo_tensor(indices.index_select(1, order), values.index_select(0, order), self.shape, True)
    unique_indices = indices.index_select(1, order.index_select(0, first))
    group = ops.empty_like(order)
    group[order] = begins.cumsum(0) - 1
    return coo_tensor(unique_indices, added_at(values, group, count), self.shape, True)


def added_at(values: Any, group: Any, count: int) -> Any:
    """Sum the rows of values of each of `count` groups, in their order; for bools, reduce by logical or."""
    size = (count, *values._spec.sizes[1:])
    if values._spec.dtype is bool_:
        return ops.zeros(size, dtype=int64, device=values.device).index_add_(0, group, values.to(int64)) != 0
    return ops.zeros(size, dtype=values.dtype, device=values.device).index_add_(0, group, values)


def _indices(self: Any) -> Any:
    return share_version(self._data.indices.detach(), self)


def _values(self: Any) -> Any:
    return share_version(self._data.values.detach(), self)


def _coalesced_(self: Any, coalesced: bool) -> Any:
    """Set the coalesced flag from the caller."""
    self._data = type(self._data)(self._data.indices, self._data.values, coalesced)
    return self


def _to_dense(self: Any, dtype: ScalarType | None, masked_grad: bool | None) -> Any:
    """Return a dense tensor with the values added at their indices."""
    indices, values = parts_of(self)
    if dtype is not None:
        values = values.to(dtype)
    out = ops.zeros(self._spec.sizes, dtype=values.dtype, device=values.device)
    return add_into(out, 1, indices, values)


def add_into(out: Any, alpha: Any, indices: Any, values: Any) -> Any:
    """Add alpha times the values to a contiguous dense tensor at their indices."""
    if not values._spec.numel or out._spec.is_meta:
        return out
    sparse_dim = indices._spec.sizes[0]
    if alpha != 1:
        values = values * alpha
    values = values.to(out.dtype)
    size = out._spec.sizes
    rows = math.prod(size[:sparse_dim])
    # One dimension of indices, whose range `index_add_` checks; coordinates beyond their own dimension are refused
    # too,
    # since `flattened` of them could fall on another element.
    check_range(indices, size)
    flat = flattened(indices, size)
    if out._spec.dtype is bool_:
        whole = added_at(values, flat, rows)
        return out.logical_or_(whole.reshape(size))
    out.view((rows, *size[sparse_dim:])).index_add_(0, flat, values)
    return out


def check_range(indices: Any, size: Sequence[int]) -> None:
    """Raise RuntimeError on the CPU for an out-of-range index; a GPU's kernels check themselves."""
    if indices._spec.device.type != "cpu" or not indices._spec.numel:
        return
    lows, highs = indices.amin(1).tolist(), indices.amax(1).tolist()
    for dim, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if low < 0 or high >= size[dim]:
            raise RuntimeError(
                f"sparse tensor: index {low if low < 0 else high} is out of range for dimension {dim} of size "
                f"{size[dim]}"
            )


def _to_sparse_sparse_dim(self: Any, sparse_dim: int) -> Any:
    return alias(self)


def _to_sparse(
    self: Any, layout: Layout | None, blocksize: Sequence[int] | None, dense_dim: int | None
) -> Any:
    if layout is None or layout is sparse_coo:
        return alias(self)
    return converted("sparse_coo_to_sparse", self, layout, blocksize, dense_dim)


def sparse_mask(self: Any, mask: Any) -> Any:
    """Return the values of a strided or sparse tensor at the indices of `mask`."""
    if self._spec.sizes != mask._spec.sizes:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self._spec.sizes)} but mask has "
            f"size {list(mask._spec.sizes)}"
        )
    if mask._spec.layout is not sparse_coo:
        raise NotImplementedError(f"sparse_mask(): expected a sparse mask, got layout {mask._spec.layout}")
    indices = mask._data.indices
    if self._spec.layout is strided:
        sparse_dim = indices._spec.sizes[0]
        size = self._spec.sizes
        check_range(indices, size)
        rows = self.reshape((math.prod(size[:sparse_dim]), *size[sparse_dim:]))
        values = rows.index_select(0, flattened(indices, size))
        return coo_tensor(indices, values, size, mask._data.is_coalesced)
    if self._data.sparse_dim != mask._data.sparse_dim:
        raise RuntimeError(
            f"sparse_mask(): the number of sparse dimensions of self ({self._data.sparse_dim}) and of mask "
            f"({mask._data.sparse_dim}) should match"
        )
    masked_values = values_at(coalesced(self), indices)
    return coo_tensor(indices, masked_values, mask.shape, mask._data.is_coalesced)


def values_at(self: Any, indices: Any) -> Any:
    """Return the values of a coalesced tensor at coordinates, zero where it has none."""
    own, values = parts_of(self)
    size = self._spec.sizes
    position, exists = places_among(flattened(own, size), flattened(indices, size))
    if not values._spec.sizes[0]:
        return ops.zeros(
            (indices._spec.sizes[1], *values._spec.sizes[1:]), dtype=values.dtype, device=values.device
        )
    picked = values.index_select(0, position)
    exists = exists.reshape((-1, *([1] * (values._spec.ndim - 1))))
    return ops.where(exists, picked, ops.zeros((), dtype=values.dtype, device=values.device))


def places_among(own: Any, searched: Any) -> tuple[Any, Any]:
    """Return for each searched number its position among sorted ones, clamped to the range, and True if it is found."""
    count = own._spec.sizes[0]
    if not count:
        return ops.zeros_like(searched), ops.zeros_like(searched, dtype=bool_)
    position = ops.searchsorted(own, searched).clamp(max=count - 1)
    return position, own.index_select(0, position) == searched


def clone(self: Any, memory_format: MemoryFormat | None) -> Any:
    indices, values = parts_of(self)
    return coo_tensor(indices.clone(), values.clone(), self.shape, self._data.is_coalesced)


def copy_(self: Any, src: Any, non_blocking: bool) -> Any:
    """Copy another sparse tensor, of any dtype and device; a strided tensor is refused, as in PyTorch."""
    if src._spec.layout is not sparse_coo or self._spec.layout is not sparse_coo:
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{_type_name(self)} and src type = {_type_name(src)}"
        )
    if self is src:
        return self
    if self._spec.sizes != src._spec.sizes:
        raise RuntimeError(
            f"copy_(): expected a source of shape {list(self._spec.sizes)}, got {list(src._spec.sizes)}"
        )
    indices, values = parts_of(src)
    self._data = type(src._data)(
        indices.to(self.device, copy=True),
        values.to(device=self.device, dtype=self.dtype, copy=True),
        src._data.is_coalesced,
    )
    return self


def _type_name(self: Any) -> str:
    return f"{self._spec.dtype.name} {self._spec.layout} {self._spec.device}"


def _to_copy(
    self: Any,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    non_blocking: bool,
    memory_format: MemoryFormat | None,
) -> Any:
    """Copy to another dtype or device."""
    if layout is not None and layout is not sparse_coo:
        return _to_dense(self, dtype, None) if layout is strided else self.to_sparse(layout=layout)
    indices, values = parts_of(self)
    where = self._spec.device if device is None else device
    if where.type == "meta" and not self._spec.is_meta:
        return empty_coo(self._data.sparse_dim, self._data.dense_dim, self.shape, dtype or self.dtype, where)
    values = values.to(device=where, dtype=dtype, non_blocking=non_blocking, copy=True)
    indices = indices.to(device=where, non_blocking=non_blocking, copy=True)
    return coo_tensor(indices, values, self.shape, self._data.is_coalesced)


def empty_like(
    self: Any,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    memory_format: MemoryFormat | None,
) -> Any:
    """Return a tensor without elements."""
    if layout is not None and layout is not sparse_coo:
        return ops.empty(
            self._spec.sizes, dtype=dtype or self.dtype, layout=layout, device=device or self.device
        )
    data = self._data
    return empty_coo(data.sparse_dim, data.dense_dim, self.shape, dtype or self.dtype, device or self.device)


def new_empty(
    self: Any,
    size: Sequence[int],
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> Any:
    """Return a sparse tensor of other sizes without elements, all of whose dimensions are sparse."""
    if layout is not None and layout is not sparse_coo:
        return ops.empty(tuple(size), dtype=dtype or self.dtype, layout=layout, device=device or self.device)
    return empty_coo(len(size), 0, tuple(size), dtype or self.dtype, device or self.device)


def new_zeros(
    self: Any,
    size: Sequence[int],
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> Any:
    """Return `new_empty`, or zeros of another layout."""
    if layout is not None and layout is not sparse_coo:
        return ops.zeros(tuple(size), dtype=dtype or self.dtype, layout=layout, device=device or self.device)
    return new_empty(self, size, dtype, layout, device, pin_memory)


def zeros_like(
    self: Any,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    memory_format: MemoryFormat | None,
) -> Any:
    """Return `empty_like`, or zeros of another layout."""
    if layout is not None and layout is not sparse_coo:
        return ops.zeros(
            self._spec.sizes, dtype=dtype or self.dtype, layout=layout, device=device or self.device
        )
    return empty_like(self, dtype, layout, device, pin_memory, memory_format)


def ones_like(
    self: Any,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    memory_format: MemoryFormat | None,
) -> Any:
    """Return ones of a strided layout; a sparse tensor is not filled."""
    where = device or self.device
    if layout is None:
        return empty_like(self, dtype, None, device, None, None).fill_(1)
    return ops.ones(self._spec.sizes, dtype=dtype or self.dtype, layout=layout, device=where)


def zero_(self: Any) -> Any:
    data = self._data
    self._data = empty_coo(data.sparse_dim, data.dense_dim, self.shape, self.dtype, self.device)._data
    return self


def sparse_resize_(self: Any, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Any:
    """Resize over the same elements, all of which must remain."""
    data = self._data
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = "
            f"{sparse_dim}, dense_dim = {dense_dim}"
        )
    indices, values = data.indices, data.values
    if data.nnz:
        old = self._spec.sizes
        for kind, had, new_dim in (
            ("sparse", data.sparse_dim, sparse_dim),
            ("dense", data.dense_dim, dense_dim),
        ):
            if had != new_dim:
                raise RuntimeError(
                    f"changing the number of {kind} dimensions (from {had} to {new_dim}) on a non-empty sparse tensor "
                    "is not supported"
                )
        for kind, before, after in (
            ("sparse", old[:sparse_dim], tuple(size[:sparse_dim])),
            ("dense", old[sparse_dim:], tuple(size[sparse_dim:])),
        ):
            if any(a < b for a, b in zip(after, before, strict=True)):
                raise RuntimeError(
                    f"shrinking the size of {kind} dimensions (from {list(before)} to {list(after)}) on a non-empty "
                    "sparse tensor is not supported"
                )
        check_dims(size, sparse_dim, dense_dim)
        if tuple(size[sparse_dim:]) != old[sparse_dim:]:
            grown = ops.zeros((data.nnz, *size[sparse_dim:]), dtype=self.dtype, device=self.device)
            grown[tuple([slice(0, n) for n in values._spec.sizes])] = values
            values = grown
        # Larger sizes keep the order of coordinates.
        self._data = type(data)(indices, values, data.is_coalesced)
    else:
        check_dims(size, sparse_dim, dense_dim)
        self._data = empty_coo(sparse_dim, dense_dim, tuple(size), self.dtype, self.device)._data
    self._spec = self._spec.replace(sizes=tuple(size))
    return self


def sparse_resize_and_clear_(self: Any, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Any:
    check_dims(size, sparse_dim, dense_dim)
    self._data = empty_coo(sparse_dim, dense_dim, tuple(size), self.dtype, self.device)._data
    self._spec = self._spec.replace(sizes=tuple(size))
    return self


def copy_sparse_to_sparse_(self: Any, src: Any, non_blocking: bool) -> Any:
    """Copy as `copy_`, from any sizes."""
    if src._spec.layout is not sparse_coo:
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self layout "
            f"{self._spec.layout} and src layout {src._spec.layout}"
        )
    if self is not src and self._spec.sizes != src._spec.sizes:
        sparse_resize_and_clear_(self, src._spec.sizes, src._data.sparse_dim, src._data.dense_dim)
    return copy_(self, src, non_blocking)


def resize_as_sparse_(self: Any, the_template: Any) -> Any:
    """Take the sizes of another COO tensor."""
    for argument, tensor in (("self", self), ("the_template", the_template)):
        if tensor._spec.layout is not sparse_coo:
            raise RuntimeError(
                f"resize_as_sparse_: expected {argument} of layout Sparse, got {spoken(tensor._spec.layout)}"
            )
    data = the_template._data
    return sparse_resize_(self, the_template._spec.sizes, data.sparse_dim, data.dense_dim)


KERNELS = {
    f.__name__: f
    for f in (
        *(
            _coalesce,
            _indices,
            _values,
            _coalesced_,
            _to_dense,
            _to_sparse,
            sparse_mask,
            clone,
            copy_,
            _to_copy,
        ),
        *(
            empty_like,
            zeros_like,
            ones_like,
            new_empty,
            new_zeros,
            zero_,
            sparse_resize_,
            sparse_resize_and_clear_,
            copy_sparse_to_sparse_,
        ),
        resize_as_sparse_,
    )
} | {"_to_sparse.sparse_dim": _to_sparse_sparse_dim}

"""Sparse COO tensors: construction from dense tensors, and conversion back (ATen/native/sparse/SparseTensor.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ...runtime.device import device as Device
from ...runtime.device import get_default_device
from ...runtime.layout import layout as Layout
from ...runtime.layout import sparse_coo, sparse_csc, sparse_csr, spoken, strided
from ...runtime.scalar_type import bool_, get_default_dtype, int64
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.sparse_data import COMPRESSED, SparseCoo, blocksize_of, sparse_spec
from ...runtime.version_cell import share_version
from ..core.mode_stack import sees_whole, without_modes
from ..generated import functions as ops
from ..structured.meta.dims import check_size
from ..tensor import Tensor

if TYPE_CHECKING:
    from ...runtime.size import Size

Sizes = Sequence[int]


def coo_tensor(indices: Tensor, values: Tensor, size: Sizes, is_coalesced: bool) -> Any:
    """Return a sparse tensor over dense tensors that match each other, without checks."""
    spec = sparse_spec(tuple(size), values._spec.dtype, values._spec.device, sparse_coo)
    return Tensor.from_data(SparseCoo(indices, values, is_coalesced), spec)


def empty_coo(
    sparse_dim: int, dense_dim: int, size: Sizes, dtype: ScalarType | None, device: Device | None
) -> Any:
    """Return a sparse tensor without elements."""
    where = get_default_device() if device is None else device
    indices = ops.empty((sparse_dim, 0), dtype=int64, device=where)
    values = ops.empty((0, *size[sparse_dim:]), dtype=dtype or get_default_dtype(), device=where)
    return coo_tensor(indices, values, size, True)


def check_dims(size: Sizes, sparse_dim: int, dense_dim: int) -> None:
    """Raise RuntimeError if the number of sizes is wrong, or the number of elements overflows."""
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = "
            f"{sparse_dim}, dense_dim = {dense_dim}"
        )
    count = 1
    for n in size:
        if n < 0:
            raise RuntimeError(f"sparse_coo_tensor(): negative size {n} in {list(size)}")
        count *= n
    if count >= 1 << 63:
        raise RuntimeError(f"numel: integer multiplication overflow: sizes {list(size)}")


def sparse_coo_tensor_size(
    size: Sizes,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> Any:
    """Return ``sparse_coo_tensor(size)``, without elements."""
    return _sparse_coo_tensor_with_dims(len(size), 0, size, dtype, layout, device, pin_memory)


def _sparse_coo_tensor_with_dims(
    sparse_dim: int,
    dense_dim: int,
    size: Sizes,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> Any:
    """Return a sparse tensor without elements, some of whose dimensions are dense."""
    check_dims(size, sparse_dim, dense_dim)
    return empty_coo(sparse_dim, dense_dim, size, dtype, device)


def _sparse_coo_tensor_with_dims_and_tensors(
    sparse_dim: int,
    dense_dim: int,
    size: Sizes,
    indices: Tensor,
    values: Tensor,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    is_coalesced: bool | None,
) -> Any:
    """Return a sparse tensor over the memory of dense tensors, which match each other."""
    check_dims(size, sparse_dim, dense_dim)
    _check_parts(indices, values, size)
    nnz = indices._spec.sizes[1]
    return coo_tensor(indices.detach(), values.detach(), size, bool(is_coalesced) or nnz < 2)


def _check_parts(indices: Tensor, values: Tensor, size: Sizes) -> None:
    """Raise RuntimeError if indices, values and sizes do not match. Device memory is not read."""
    if indices._spec.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices._spec.sizes)}")
    if indices._spec.dtype is not int64:
        raise RuntimeError(f"indices must be an int64 tensor, got {indices._spec.dtype.scalar_name}")
    for name, part in (("indices", indices), ("values", values)):
        if part._spec.layout is not strided:
            raise RuntimeError(f"expected {name} to be a dense tensor, but got layout {part._spec.layout}")
    if indices._spec.device is not values._spec.device:
        raise RuntimeError(
            f"device of indices ({indices._spec.device}) must match device of values ({values._spec.device})"
        )
    if not values._spec.ndim:
        raise RuntimeError("values must have at least one dimension, the number of specified elements")
    sparse_dim, nnz = indices._spec.sizes
    if values._spec.sizes[0] != nnz:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {nnz}, nnz from values: "
            f"{values._spec.sizes[0]}"
        )
    expected = [nnz, *size[sparse_dim:]]
    if expected != list(values._spec.sizes):
        raise RuntimeError(f"values has incorrect size, expected {expected}, got {list(values._spec.sizes)}")


def _validate_sparse_coo_tensor_args(
    indices: Tensor,
    values: Tensor,
    size: Sizes,
    is_coalesced: bool | None,
    check_pinning: bool | None,
) -> None:
    """Raise RuntimeError for invalid parts; on a GPU the host waits for the indices' range."""
    if indices._spec.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices._spec.sizes)}")
    sparse_dim = indices._spec.sizes[0]
    check_dims(size, sparse_dim, values._spec.ndim - 1)
    _check_parts(indices, values, size)
    if indices._spec.is_meta or not indices._spec.numel:
        return
    with without_modes() if sees_whole() else nullcontext():
        _check_indices(indices, size, is_coalesced)


def _check_indices(indices: Tensor, size: Sizes, is_coalesced: bool | None) -> None:
    """Raise RuntimeError for indices out of range, or, if `is_coalesced`, for unsorted ones.

    PyTorch checks them only on demand. A mode that records a program does not see the check.
    """
    lows, highs = indices.amin(1).tolist(), indices.amax(1).tolist()
    for dim, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if low < 0:
            raise RuntimeError(f"found negative index {low} for dim {dim}")
        if high >= size[dim]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {size[dim]} but found index {high}"
            )
    if is_coalesced and indices._spec.sizes[1] > 1:
        flat = flattened(indices, size)
        if bool((flat[1:] <= flat[:-1]).any().item()):
            raise RuntimeError(
                "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
            )


def flattened(indices: Tensor, size: Sizes) -> Any:
    """Return the flat row-major index of each column of indices, over the sparse dimensions."""
    sparse_dim = indices._spec.sizes[0]
    if sparse_dim == 1:
        return indices[0]
    if not sparse_dim:
        return ops.zeros((indices._spec.sizes[1],), dtype=int64, device=indices._spec.device)
    flat: Any = indices[0]
    for dim in range(1, sparse_dim):
        flat = flat * size[dim] + indices[dim]
    return flat


def inferred_size(indices: Tensor, values: Tensor) -> tuple[int, ...]:
    """Return the least sizes that hold all indices. On a GPU the host waits for them."""
    if indices._spec.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices._spec.sizes)}")
    dense = values._spec.sizes[1:]
    if not indices._spec.numel:
        return (*([0] * indices._spec.sizes[0]), *dense)
    for dim, low in enumerate(indices.amin(1).tolist()):
        if low < 0:
            raise RuntimeError(f"found negative index {low} for dim {dim}")
    size = (*(high + 1 for high in indices.amax(1).tolist()), *dense)
    check_size(size)
    return size


def sparse_coo_tensor_indices(
    indices: Tensor,
    values: Tensor,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    is_coalesced: bool | None,
) -> Any:
    """Return ``sparse_coo_tensor(indices, values)``, with the smallest sizes."""
    size = inferred_size(indices, _rows(values))
    return _sparse_coo_tensor_unsafe(indices, values, size, dtype, layout, device, pin_memory, is_coalesced)


def sparse_coo_tensor_indices_size(
    indices: Tensor,
    values: Tensor,
    size: Sizes,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    is_coalesced: bool | None,
) -> Any:
    """Return ``sparse_coo_tensor(indices, values, size)``."""
    return _sparse_coo_tensor_unsafe(indices, values, size, dtype, layout, device, pin_memory, is_coalesced)


def _sparse_coo_tensor_unsafe(
    indices: Tensor,
    values: Tensor,
    size: Sizes,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    is_coalesced: bool | None,
) -> Any:
    """Return a sparse tensor without checking its indices."""
    values = _rows(values)
    sparse_dim = indices._spec.sizes[0] if indices._spec.ndim else 0
    return ops._sparse_coo_tensor_with_dims_and_tensors(
        sparse_dim,
        values._spec.ndim - 1,
        size,
        indices,
        values,
        dtype=values._spec.dtype,
        layout=sparse_coo,
        device=values._spec.device,
        pin_memory=False,
        is_coalesced=is_coalesced,
    )


def _rows(values: Any) -> Any:
    """Return values with a leading dimension: a 0-d value counts as a vector of one."""
    return values if values._spec.ndim else values.expand((1,))


def _expected(self: Any, name: str) -> SparseCoo:
    """Return the parts of a sparse COO tensor. Raises RuntimeError for another tensor."""
    if self._spec.layout is not sparse_coo:
        raise RuntimeError(
            f"{name} expected sparse coordinate tensor layout but got {spoken(self._spec.layout)}"
        )
    data: SparseCoo = self._data
    return data


def indices(self: Any) -> Any:
    """Return ``indices``: a view of the coordinates."""
    parts = _expected(self, "indices")
    if not parts.is_coalesced:
        raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
    coordinates: Any = parts.indices
    return share_version(coordinates.detach(), self)


def values(self: Any) -> Any:
    """Return ``values``: a view of the specified elements."""
    layout = self._spec.layout
    if layout is sparse_coo:
        if not self._data.is_coalesced:
            raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
    elif layout not in COMPRESSED:
        raise RuntimeError(f"values expected sparse tensor layout but got {spoken(layout)}")
    return share_version(self._data.values.detach(), self)


def coalesce(self: Any) -> Any:
    """Run ``coalesce``: return the tensor itself if it is coalesced."""
    return self if _expected(self, "coalesce").is_coalesced else ops._coalesce(self)


def to_dense(self: Any, dtype: ScalarType | None, masked_grad: bool | None) -> Any:
    """Return ``to_dense``."""
    if self._spec.layout is strided:
        return self if dtype is None else self.to(dtype)
    return ops._to_dense(self, dtype, masked_grad)


def to_dense_backward(grad: Any, input: Any, masked_grad: bool | None) -> Any:
    """Return the gradient of a sparse tensor from that of its dense form: at its indices, or everywhere."""
    if masked_grad is not False:
        mask = input.coalesce() if input._spec.layout is sparse_coo else input
        return grad.sparse_mask(mask)
    if input._spec.layout is sparse_coo:
        return grad.to_sparse(input.sparse_dim())
    return grad.to_sparse(layout=input._spec.layout, blocksize=blocksize_of(input))


def to_sparse_sparse_dim(self: Any, sparse_dim: int) -> Any:
    """Return ``to_sparse(sparse_dim)``."""
    if self._spec.layout is sparse_coo:
        if sparse_dim != self._data.sparse_dim:
            raise RuntimeError(
                "to_sparse: conversion from Sparse to Sparse with sparse_dim argument !=self.sparse_dim() is not "
                f"supported: {sparse_dim} given, the tensor's is {self._data.sparse_dim}"
            )
        return self
    return ops._to_sparse(self, sparse_dim)


def to_sparse(self: Any, layout: Layout | None, blocksize: Sizes | None, dense_dim: int | None) -> Any:
    """Run ``to_sparse(layout=)``."""
    target = sparse_coo if layout is None else layout
    if self._spec.layout is target and (blocksize is None or target is sparse_coo):
        return self
    return ops._to_sparse(self, layout=layout, blocksize=blocksize, dense_dim=dense_dim)


def _to_sparse_sparse_dim(self: Any, sparse_dim: int) -> Any:
    """Return the nonzero elements of a strided tensor, or its nonzero blocks, as a sparse tensor."""
    ndim = self._spec.ndim
    if not 0 <= sparse_dim <= ndim:
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{ndim}] range, but {sparse_dim} is given"
        )
    if ndim and not sparse_dim:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    size: Size = self._spec.shape
    if not ndim:
        count = int(bool(self != 0)) if not self._spec.is_meta else 0
        coordinates = ops.zeros((0, 1), dtype=int64, device=self._spec.device)
        return coo_tensor(coordinates[:, :count], self.detach().reshape(1)[:count].clone(), size, True)
    if self._spec.is_meta:
        return empty_coo(sparse_dim, ndim - sparse_dim, size, self._spec.dtype, self._spec.device)
    filled: Any = self if self._spec.dtype is bool_ else self != 0
    if sparse_dim < ndim:
        filled = filled.reshape((*size[:sparse_dim], -1)).any(-1)
    coordinates = filled.nonzero().t().contiguous()
    return coo_tensor(coordinates, self.detach()[tuple(coordinates.unbind(0))], size, True)


def _to_sparse(self: Any, layout: Layout | None, blocksize: Sizes | None, dense_dim: int | None) -> Any:
    """Convert a strided tensor to a sparse layout."""
    if layout is None or layout is sparse_coo:
        if blocksize is not None:
            raise RuntimeError(
                f"to_sparse: Strided to Sparse conversion does not use specified blocksize: {list(blocksize)}"
            )
        return _to_sparse_sparse_dim(self, self._spec.ndim - (dense_dim or 0))
    from .sparse_compressed import converted

    if layout not in COMPRESSED:
        raise RuntimeError(f"to_sparse: layout {layout} is no sparse one")
    return converted("dense_to_sparse", self, layout, blocksize, dense_dim)


def _spdiags(diagonals: Any, offsets: Any, shape: Sizes, layout: Layout | None) -> Any:
    """Run ``_spdiags``: element j of a diagonal at offset k is in row j - k and column j."""
    if diagonals._spec.ndim == 1:
        diagonals = diagonals.unsqueeze(0)
    if not offsets._spec.ndim:
        offsets = offsets.unsqueeze(0)
    if diagonals._spec.ndim != 2:
        raise RuntimeError(f"Diagonals must be vector or matrix, got {diagonals._spec.ndim} dimensions")
    if len(shape) != 2:
        raise RuntimeError(f"Output shape must be 2d, got {list(shape)}")
    if offsets._spec.ndim != 1:
        raise RuntimeError(f"Offsets must be scalar or vector, got {offsets._spec.ndim} dimensions")
    if offsets._spec.dtype is not int64:
        raise RuntimeError(f"Offset Tensor must have dtype Long but got {offsets._spec.dtype.scalar_name}")
    count, length = diagonals._spec.sizes
    if offsets._spec.sizes[0] != count:
        raise RuntimeError(
            f"Number of diagonals ({count}) does not match the number of offsets ({offsets._spec.sizes[0]})"
        )
    if layout is not None and layout not in (sparse_coo, sparse_csr, sparse_csc):
        raise RuntimeError(
            f"Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {spoken(layout)}"
        )
    where = offsets.tolist()
    if len(set(where)) != count:
        raise RuntimeError("Offset tensor contains duplicate values")
    rows, columns = shape
    coordinates, parts = [], []
    for number, offset in enumerate(where):
        first, last = max(offset, 0), min(columns, rows + offset, length)
        column = ops.arange(first, max(first, last), device=diagonals._spec.device)
        coordinates.append(ops.stack((column - offset, column)))
        parts.append(diagonals[number, first : max(first, last)])
    if coordinates:
        made = coo_tensor(ops.cat(coordinates, 1), ops.cat(parts), shape, False)
    else:
        made = empty_coo(2, 0, shape, diagonals._spec.dtype, diagonals._spec.device)
    return made if layout is None or layout is sparse_coo else made.to_sparse(layout=layout)


def embedding_sparse_backward(
    grad: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    """Return the gradient of an embedding's rows, with one entry for each row that was looked up."""
    if scale_grad_by_freq:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    width = grad._spec.sizes[-1] if grad._spec.ndim else 1
    if grad._spec.numel != indices._spec.numel * width:
        raise RuntimeError(
            f"embedding_sparse_backward: expected a row of grad for each of the {indices._spec.numel} indices, but got "
            f"grad of shape {list(grad._spec.sizes)}"
        )
    size = (num_weights, width)
    indices = indices.reshape(-1).to(int64)
    rows = grad.reshape((indices._spec.sizes[0], size[1]))
    if padding_idx >= 0:
        kept_rows = (indices != padding_idx).nonzero().reshape(-1)
        indices, rows = indices.index_select(0, kept_rows), rows.index_select(0, kept_rows)
    # The caller may write to the indices later.
    return ops._sparse_coo_tensor_unsafe(indices.unsqueeze(0).clone(), rows, size)


def _gather_sparse_backward(grad: Any, input_sizes: Sizes, dim: int, index: Any) -> Any:
    """Return the gradient of the gathered tensor, with one entry for each element."""
    ndim = index._spec.ndim
    if not ndim or not input_sizes:
        # A scalar has no coordinates, and a scalar index stands for an index of one element.
        count = grad._spec.numel
        coordinates = (
            index.reshape(1, 1) if input_sizes else ops.empty((0, count), dtype=int64, device=grad.device)
        )
        return ops._sparse_coo_tensor_unsafe(coordinates, grad.reshape(count), input_sizes)
    rows = []
    for d, n in enumerate(index._spec.sizes):
        if d == dim % ndim:
            rows.append(index.reshape(-1))
        else:
            along = ops.arange(n, device=index.device).reshape([n if e == d else 1 for e in range(ndim)])
            rows.append(along.expand(index._spec.sizes).reshape(-1))
    return ops._sparse_coo_tensor_unsafe(ops.stack(rows), grad.reshape(-1), input_sizes)

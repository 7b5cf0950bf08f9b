"""Operators on compressed tensors by their indices: masks, intersections, slices, transposes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....runtime.layout import sparse_bsc, sparse_bsr, sparse_csc, sparse_csr, strided
from ....runtime.scalar_type import int64
from ....runtime.sparse_data import BLOCKED, ROW_COMPRESSED, blocksize_of
from ...composite.sparse_compressed import compressed_tensor, in_blocks
from ...composite.sparse_coo import coo_tensor
from ...generated import functions as ops
from ...structured.meta.dims import wrap_dim
from ...structured.meta.views import INTEGER, RANGE
from .compressed_structure import Lines, over, parts_of
from .coo_structure import places_among

TURNED = {
    sparse_csr: sparse_csc,
    sparse_csc: sparse_csr,
    sparse_bsr: sparse_bsc,
    sparse_bsc: sparse_bsr,
}
"""The layout of a transposed matrix over the same parts."""


def taken_at(self: Any, mask: Any) -> Any:
    """Return the values of a tensor at all indices of a compressed tensor of its shape, zero where it has none."""
    kind = self._spec.layout
    if kind is strided:
        each = Lines(mask)
        blocks = in_blocks(self, each.batch_dim, each.block, mask._spec.layout)
        cell = blocks._spec.sizes[3:]
        flat = blocks.reshape((each.batch * each.lines * each.length, *cell))
        picked = flat.index_select(0, each.line * each.length + each.plain)
        return over(mask, picked.reshape(mask._data.values._spec.sizes))
    target_layout, block = mask._spec.layout, blocksize_of(mask)
    if kind is not target_layout or blocksize_of(self) != block:
        if block is not None or kind in BLOCKED or self._spec.ndim != 2:
            return taken_at(self.to_dense(), mask)
        return taken_at(getattr(ops, f"_to_{target_layout.name}")(self), mask)
    if self._data.batch_dim != mask._data.batch_dim:
        return taken_at(self.to_dense(), mask)
    own, theirs = Lines(self), Lines(mask)
    position, exists = places_among(key_of(own), key_of(theirs))
    if not own.values._spec.sizes[0]:
        return over(mask, ops.zeros_like(mask._data.values, dtype=self.dtype))
    picked = own.values.index_select(0, position)
    exists = exists.reshape((-1, *([1] * (picked._spec.ndim - 1))))
    nothing = ops.zeros((), dtype=self.dtype, device=self._spec.device)
    return over(mask, ops.where(exists, picked, nothing).reshape(mask._data.values._spec.sizes))


def key_of(each: Lines) -> Any:
    """Return a number for each index, ascending."""
    return each.line * each.length + each.plain


def common(self: Any, other: Any) -> tuple[Any, Any, Any] | None:
    """Return which values of two tensors of one layout have the same indices, and the parts of a tensor there.

    Returns None if the matrices of a batch have different numbers of common indices.
    """
    own, theirs = Lines(self), Lines(other)
    key = key_of(own)
    position, exists = places_among(key_of(theirs), key)
    common_positions = exists.nonzero().reshape(-1)
    count = common_positions._spec.sizes[0]
    if own.batch > 1:
        each = exists.reshape((own.batch, -1)).sum(1)
        if count % own.batch or bool(each.ne(count // own.batch).any()):
            return None
    return common_positions, position.index_select(0, common_positions), own


def transpose(self: Any, dim0: int, dim1: int) -> Any:
    """Swap two dimensions of one kind, over the same memory if they are those of a matrix."""
    spec, data = self._spec, self._data
    dim0, dim1 = wrap_dim(dim0, spec.ndim), wrap_dim(dim1, spec.ndim)
    if dim0 == dim1:
        return self.clone()
    batch_dim = data.batch_dim
    if spec.ndim > batch_dim + 2:
        raise RuntimeError(
            "transpose(): hybrid sparse compressed tensors with dense dimensions are not supported"
        )
    kinds = ["Batch" if dim < batch_dim else "Sparse" for dim in (dim0, dim1)]
    if kinds[0] != kinds[1]:
        raise RuntimeError(
            "transpose(): can only transpose dimensions of the same type (Batch, Sparse, Dense), got "
            f"{dim0}({kinds[0]}) and {dim1}({kinds[1]})"
        )
    size = list(spec.sizes)
    size[dim0], size[dim1] = size[dim1], size[dim0]
    compressed, plain, values = parts_of(self)
    if kinds[0] == "Batch":
        compressed, plain, values = (part.transpose(dim0, dim1) for part in parts_of(self))
        return compressed_tensor(compressed, plain, values, size, spec.layout)
    if spec.layout in BLOCKED:
        values = values.transpose(batch_dim + 1, batch_dim + 2)
    return compressed_tensor(compressed, plain, values, size, TURNED[spec.layout])


def t(self: Any) -> Any:
    """Return the transpose of a matrix, over the same memory."""
    if self._spec.ndim != 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {self._spec.ndim}D")
    return transpose(self, 0, 1)


def select(self: Any, dim: int, index: int) -> Any:
    """Select a matrix of a batch or a slice of dense dimensions over the same memory, or a row or column as COO."""
    spec, data = self._spec, self._data
    dim = wrap_dim(dim, spec.ndim)
    size = spec.sizes[dim]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(spec.sizes)} at dimension {dim}"
        )
    index %= size
    rest = (*spec.sizes[:dim], *spec.sizes[dim + 1 :])
    batch_dim = data.batch_dim
    compressed, plain, values = parts_of(self)
    if dim < batch_dim:
        compressed, plain, values = (part.select(dim, index) for part in parts_of(self))
        return compressed_tensor(compressed, plain, values, rest, spec.layout)
    if dim >= batch_dim + 2:
        block_dim = 2 if spec.layout in BLOCKED else 0
        # One dimension of the values replaces the two of the matrix.
        return compressed_tensor(
            compressed, plain, values.select(dim - 1 + block_dim, index), rest, spec.layout
        )
    if batch_dim:
        raise RuntimeError(
            "select(): selecting sparse dimensions is not supported for batched sparse compressed tensors."
        )
    if spec.layout in BLOCKED:
        high, wide = blocksize_of(self) or (1, 1)
        inside = (high, wide)[dim]
        positions, blocks = _line(self, dim, index // inside)
        other = (wide, high)[dim]
        where = spec.device
        indices = (positions.reshape((-1, 1)) * other + ops.arange(other, device=where)).reshape((1, -1))
        chosen = blocks.select(1 + dim, index % inside)
        return coo_tensor(indices, chosen.reshape((-1, *chosen._spec.sizes[2:])), rest, True)
    positions, chosen = _line(self, dim, index)
    return coo_tensor(positions.reshape((1, -1)), chosen, rest, True)


def _line(self: Any, dim: int, index: int) -> tuple[Any, Any]:
    """Return the indices and values of one line along the compressed dimension, or across it.

    The host waits on a GPU.
    """
    compressed, plain, values = parts_of(self)
    along = (dim == 0) is (self._spec.layout in ROW_COMPRESSED)
    if self._spec.is_meta:
        return plain[:0].to(int64), values[:0]
    if along:
        begin, end = compressed[index : index + 2].tolist()
        return plain[begin:end].to(int64), values[begin:end]
    entries = plain.eq(index).nonzero().reshape(-1)
    return Lines(self).line.index_select(0, entries).to(int64), values.index_select(0, entries)


def select_copy(self: Any, dim: int, index: int) -> Any:
    return select(self, dim, index).clone()


def _select_first(self: Any, index: int) -> Any:
    """Return ``x[i]``."""
    size = self._spec.sizes[0]
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for dimension 0 with size {size}")
    return select(self, 0, index)


def _basic_index(self: Any, index: Sequence[int]) -> Any:
    """Return ``x[i, j]``: numbers, and full slices between them."""
    if len(index) % 4:
        raise RuntimeError(
            f"_basic_index: expected four numbers for each part of the index, but got {len(index)}"
        )
    out: Any = self
    dim = 0
    for position in range(0, len(index), 4):
        kind, start, stop, step = index[position : position + 4]
        if kind == INTEGER:
            out = out.select(dim, start)
        elif kind == RANGE and (start, stop, step) == (0, out._spec.sizes[dim], 1):
            dim += 1
        else:
            raise RuntimeError(
                f"Sparse tensors of layout {self._spec.layout} do not have strides: they are indexed with numbers and "
                "whole dimensions alone"
            )
    return out.detach() if out is self else out


KERNELS: dict[str, Callable[..., Any]] = {
    "transpose.int": transpose,
    "t": t,
    "select.int": select,
    "select_copy.int": select_copy,
    "_select_first": _select_first,
    "_basic_index": _basic_index,
}

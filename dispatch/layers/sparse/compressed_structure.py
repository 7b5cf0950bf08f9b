"""Tensors of compressed rows or columns themselves: dense forms, other layouts and sizes, copies.

Line numbers count over all matrices of a batch: line `b * lines + i` has index i in matrix b. Source of the checks:
aten/src/ATen/native/TensorConversions.cpp and native/sparse/SparseCsrTensor.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ....runtime.device import device as Device
from ....runtime.layout import layout as Layout
from ....runtime.layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, spoken, strided
from ....runtime.memory_format import memory_format as MemoryFormat
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.scalar_type import int64
from ....runtime.sparse_data import BLOCKED, COMPRESSED, ROW_COMPRESSED, blocksize_of
from ...composite.sparse_compressed import (
    begins_of,
    check_blocksize,
    compressed_tensor,
    converted,
    counts_of,
    naming,
)
from ...composite.sparse_coo import coo_tensor
from ...composite.sparse_lines import lines_of, other_lines
from ...core.op_overload import find_overload
from ...generated import functions as ops
from .coo_structure import add_into, coalesced


class Lines:
    """Values of a compressed tensor by lines, where a line is a row or a column.

    Attributes:
        batch, lines, length: Number of matrices, of lines per matrix, and of positions per line.
        line: the line of each value or block, ascending, [batch * nnz].
        plain: Position in the line.
        values: of shape [batch * nnz, *block sizes, *dense sizes].
    """

    def __init__(self, self_: Any) -> None:
        data, spec = self_._data, self_._spec
        self.layout = spec.layout
        self.batch_dim = batch_dim = data.batch_dim
        self.block = blocksize_of(self_) or (1, 1)
        self.batch = math.prod(spec.sizes[:batch_dim])
        self.lines, self.length = counts_of(spec.sizes, batch_dim, self.block, spec.layout)
        self.nnz = data.nnz
        total = self.batch * self.nnz
        self.line = lines_of(data.compressed, total, data.plain, self.length)
        self.plain = data.plain.reshape(-1)
        self.values = data.values.reshape((total, *data.values._spec.sizes[batch_dim + 1 :]))

    def coordinates(self) -> tuple[Any, Any, Any]:
        """Return the matrix, the row of blocks and the column of blocks of each value."""
        if self.batch == 1:
            matrix, inside = ops.zeros_like(self.line), self.line
        else:
            matrix = ops.floor_divide(self.line, max(self.lines, 1))
            inside = self.line - matrix * self.lines
        if self.layout in ROW_COMPRESSED:
            return matrix, inside, self.plain
        return matrix, self.plain, inside


def parts_of(self: Any) -> tuple[Any, Any, Any]:
    """Return compressed indices, plain ones, and values."""
    data = self._data
    return data.compressed, data.plain, data.values


def over(self: Any, values: Any) -> Any:
    """Return a tensor of the same indices with other values."""
    data = self._data
    return compressed_tensor(data.compressed, data.plain, values, self._spec.sizes, self._spec.layout)


def _to_dense(self: Any, dtype: ScalarType | None, masked_grad: bool | None) -> Any:
    """Return a dense tensor with the values added at their indices."""
    values = self._data.values if dtype is None else self._data.values.to(dtype)
    out = ops.zeros(self._spec.sizes, dtype=values.dtype, device=values.device)
    return add_to_dense(out, 1, over(self, values))


def add_to_dense(out: Any, alpha: Any, self: Any) -> Any:
    """Add alpha times a tensor to a contiguous dense one of its shape."""
    if out._spec.is_meta or not self._data.values._spec.numel:
        return out
    each = Lines(self)
    size = self._spec.sizes
    rows, columns = size[each.batch_dim : each.batch_dim + 2]
    dense = size[each.batch_dim + 2 :]
    indices = ops.stack([part.to(int64) for part in each.coordinates()], 0)
    if self._spec.layout not in BLOCKED:
        whole = out.view((each.batch, rows, columns, *dense))
        add_into(whole, alpha, indices, each.values)
        return out
    high, wide = each.block
    blocks = ops.zeros(
        (each.batch, rows // high, columns // wide, high, wide, *dense), dtype=out.dtype, device=out.device
    )
    add_into(blocks, alpha, indices, each.values)
    order = (0, 1, 3, 2, 4, *range(5, 5 + len(dense)))
    addend = blocks.permute(order).reshape(size)
    return (
        out.logical_or_(addend)
        if out.dtype is addend.dtype and out.dtype.name == "bool"
        else out.add_(addend)
    )


def to_coo(self: Any) -> Any:
    """Return the coordinates of every value, in rows of the whole tensor; a block gives those of all its elements."""
    each, spec = Lines(self), self._spec
    matrix, row, column = (part.to(int64) for part in each.coordinates())
    values = each.values
    if spec.layout in BLOCKED:
        high, wide = each.block
        where = spec.device
        down = ops.arange(high, device=where).reshape((1, high, 1))
        across = ops.arange(wide, device=where).reshape((1, 1, wide))
        shape = (row._spec.sizes[0], high, wide)
        row = (row.reshape((-1, 1, 1)) * high + down).expand(shape).reshape(-1)
        column = (column.reshape((-1, 1, 1)) * wide + across).expand(shape).reshape(-1)
        matrix = matrix.reshape((-1, 1, 1)).expand(shape).reshape(-1)
        values = values.reshape((-1, *values._spec.sizes[3:]))
    batch = []
    for n in reversed(spec.sizes[: each.batch_dim]):
        outer = ops.floor_divide(matrix, n)
        batch.append(matrix - outer * n)
        matrix = outer
    indices = ops.stack((*reversed(batch), row, column), 0)
    by_rows = spec.layout is sparse_csr
    made = coo_tensor(indices, values, spec.sizes, by_rows)
    return made if by_rows else coalesced(made)


def by_other_lines(self: Any, layout: Layout) -> Any:
    """Return the same values, or blocks, by columns instead of rows or vice versa."""
    if not self._data.batch_dim:
        compressed, plain, values = parts_of(self)
        block = blocksize_of(self) or (1, 1)
        _, length = counts_of(self._spec.sizes, 0, block, self._spec.layout)
        begins, line, order = other_lines(compressed, plain, length)
        return compressed_tensor(begins, line, values.index_select(0, order), self._spec.sizes, layout)
    each, spec = Lines(self), self._spec
    batch_sizes = spec.sizes[: each.batch_dim]
    matrix = ops.floor_divide(each.line, max(each.lines, 1))
    key = matrix * each.length + each.plain
    inside = each.line - matrix * each.lines
    if spec.is_meta:
        ordered, order = key, key
    else:
        ordered, order = ops.sort(key, stable=True, dim=0, descending=False)
    compressed = begins_of(ordered, each.batch, each.length, each.nnz)
    plain = inside.index_select(0, order)
    values = each.values.index_select(0, order)
    return compressed_tensor(
        compressed.reshape((*batch_sizes, each.length + 1)),
        plain.reshape((*batch_sizes, each.nnz)),
        values.reshape(self._data.values._spec.sizes),
        spec.sizes,
        layout,
    )


def _refuse_dense_dim(name: str, self: Any, layout: Layout, dense_dim: int | None) -> None:
    if dense_dim is not None:
        own_layout = self._spec.layout
        raise RuntimeError(
            f"{name}: conversion from {spoken(own_layout)} to {spoken(layout)} with dense_dim argument given is not "
            "supported"
        )


def _without_blocks(layout: Layout) -> Callable[..., Any]:
    name = f"to_{layout.name}"

    def convert(self: Any, dense_dim: int | None) -> Any:
        own_layout = self._spec.layout
        if own_layout is sparse_coo:
            _refuse_dense_dim(f"coo_{name}", self, layout, dense_dim)
            return _from_coo(f"coo_{name}", self, layout)
        _refuse_dense_dim(f"sparse_compressed_{name}", self, layout, dense_dim)
        if own_layout is layout:
            return self.detach()
        if own_layout in BLOCKED:
            raise RuntimeError(
                f"sparse_compressed_{name}: expected SparseCsr or SparseCsc layout but got {spoken(own_layout)}"
            )
        return by_other_lines(self, layout)

    return convert


def _from_coo(name: str, self: Any, layout: Layout) -> Any:
    """Return compressed rows or columns from coordinates."""
    if self._data.sparse_dim != 2:
        raise RuntimeError(
            f"{name}: conversion from Sparse to {spoken(layout)} for input tensors with sparse_dim()!=2 is not "
            "supported"
        )
    self = coalesced(self)
    (row, column), values = self._data.indices.unbind(0), self._data.values
    rows, columns = self._spec.sizes[:2]
    if layout is sparse_csr or self._spec.is_meta:
        line, plain, lines = (row, column, rows) if layout is sparse_csr else (column, row, columns)
    else:
        line, order = ops.sort(column, stable=True, dim=0, descending=False)
        plain, values, lines = row.index_select(0, order), values.index_select(0, order), columns
    compressed = begins_of(line.contiguous(), 1, lines, self._data.nnz).reshape((lines + 1,))
    return compressed_tensor(compressed, plain.contiguous(), values, self._spec.sizes, layout)


def _with_blocks(layout: Layout) -> Callable[..., Any]:
    name = f"to_{layout.name}"

    def convert(self: Any, blocksize: Sequence[int], dense_dim: int | None) -> Any:
        own_layout, own = self._spec.layout, blocksize_of(self)
        route = f"sparse_compressed_{name}: conversion from {spoken(own_layout)} to {spoken(layout)}"
        _refuse_dense_dim(
            f"coo_{name}" if own_layout is sparse_coo else route.partition(":")[0], self, layout, dense_dim
        )
        if own is not None:
            if own != tuple(blocksize):
                raise RuntimeError(
                    f"{route} with blocksize changed from {list(own)} to {list(blocksize)} is not supported"
                )
            return self.detach() if own_layout is layout else by_other_lines(self, layout)
        if own_layout in COMPRESSED and self._data.batch_dim:
            raise RuntimeError(f"{route} for batched inputs is not supported")
        if own_layout is not sparse_csr:
            self = ops._to_sparse_csr(self)
        check_blocksize(f"{spoken(own_layout)}_{name}", blocksize, self._spec.sizes[:2])
        return _gathered(self, blocksize, layout)

    return convert


def _gathered(self: Any, blocksize: Sequence[int], layout: Layout) -> Any:
    """Return the values of compressed rows in blocks: the nonzero blocks, in order, with zeros for missing elements."""
    each, spec = Lines(self), self._spec
    high, wide = blocksize
    row, column = each.line, each.plain
    across = spec.sizes[1] // wide
    down = spec.sizes[0] // high
    block_row, block_column = ops.floor_divide(row, high), ops.floor_divide(column, wide)
    line, plain = (block_row, block_column) if layout in ROW_COMPRESSED else (block_column, block_row)
    lines, length = (down, across) if layout in ROW_COMPRESSED else (across, down)
    key = line * length + plain
    if spec.is_meta:
        unique_keys, number = key[:0], key
    else:
        unique_keys, number = ops._unique2(key, sorted=True, return_inverse=True)[:2]
    count = unique_keys._spec.sizes[0]
    dense = each.values._spec.sizes[1:]
    values = ops.zeros((count * high * wide, *dense), dtype=spec.dtype, device=spec.device)
    inside = (row - block_row * high) * wide + (column - block_column * wide)
    if count:
        values.index_copy_(0, (number * (high * wide) + inside).to(int64), each.values)
    line = ops.floor_divide(unique_keys, max(length, 1))
    compressed = begins_of(line, 1, lines, count).reshape((lines + 1,))
    return compressed_tensor(
        compressed,
        unique_keys - line * length,
        values.reshape((count, high, wide, *dense)),
        spec.sizes,
        layout,
    )


def _to_sparse(
    self: Any, layout: Layout | None, blocksize: Sequence[int] | None, dense_dim: int | None
) -> Any:
    """Run ``_to_sparse(layout=)``."""
    own_layout, target_layout = self._spec.layout, sparse_coo if layout is None else layout
    name = "sparse_compressed_to_sparse"
    route = f"{name}: conversion from {spoken(own_layout)} to {spoken(target_layout)}"
    if target_layout is own_layout:
        if blocksize is not None and tuple(blocksize) == blocksize_of(self):
            return self.detach()
        with_it = "with" if own_layout not in BLOCKED else "without"
        raise RuntimeError(
            f"to_sparse: conversion from {spoken(own_layout)} to {spoken(target_layout)} {with_it} blocksize argument "
            "given is not supported"
        )
    if blocksize is not None and target_layout not in BLOCKED:
        raise RuntimeError(f"{route} with blocksize argument given is not supported")
    if target_layout is strided:
        return _to_dense(self, None, None)
    if target_layout is sparse_coo:
        _refuse_dense_dim(name, self, target_layout, dense_dim)
        return to_coo(self)
    return converted(name, self, target_layout, blocksize, dense_dim)


def _to_sparse_sparse_dim(self: Any, sparse_dim: int) -> Any:
    """Run ``_to_sparse(2)``."""
    if sparse_dim != 2 + self._data.batch_dim:
        raise RuntimeError(
            f"sparse_compressed_to_sparse: conversion from {spoken(self._spec.layout)} to Sparse with sparse_dim "
            f"argument !={2 + self._data.batch_dim} is not supported"
        )
    return to_coo(self)


def clone(self: Any, memory_format: MemoryFormat | None) -> Any:
    compressed, plain, values = parts_of(self)
    return compressed_tensor(
        compressed.clone(), plain.clone(), values.clone(), self._spec.sizes, self._spec.layout
    )


def copy_(self: Any, src: Any, non_blocking: bool) -> Any:
    """Copy the values and indices of a tensor of the same layout, sizes and number of values."""
    source_spec, own_spec = src._spec, self._spec
    if own_spec.layout not in COMPRESSED:
        raise RuntimeError(
            f"copy_sparse_compressed_ expected sparse compressed tensor layout but got {spoken(own_spec.layout)}"
        )
    name = "torch.copy_: copy of sparse compressed tensors having different"
    if source_spec.layout is not own_spec.layout:
        raise RuntimeError(
            f"{name} layouts is not supported. self layout is {spoken(own_spec.layout)} and src layout is "
            f"{spoken(source_spec.layout)}"
        )
    if self is src:
        return self
    if self._data.nnz != src._data.nnz:
        raise RuntimeError(
            "torch.copy_: only sparse compressed tensors with the same number of specified elements are supported. "
            f"self has {self._data.nnz} and src has {src._data.nnz}"
        )
    if own_spec.ndim != source_spec.ndim:
        raise RuntimeError(
            f"{name} numbers of dimensions is not supported. self has {list(own_spec.sizes)} and src has "
            f"{list(source_spec.sizes)}"
        )
    for dim, (own, source) in enumerate(zip(own_spec.sizes, source_spec.sizes, strict=True)):
        if own != source:
            raise RuntimeError(
                f"torch.copy_: expected shapes of self and src to match along dimension {dim} for "
                f"{spoken(own_spec.layout)} layout but the corresponding dimensions of self and src are {own} and "
                f"{source}, respectively."
            )
    own_block, block = blocksize_of(self), blocksize_of(src)
    if own_block is not None and block is not None and own_block != block:
        raise RuntimeError(
            f"{name} block sizes is not supported. self and src block sizes are {list(own_block)} and {list(block)}, "
            "respectively."
        )
    compressed, plain, values = parts_of(src)
    data, device = self._data, own_spec.device
    if same_places(self, src):
        data.values.copy_(values)
        return self
    data.assign(
        type(data)(
            compressed.to(device=device, dtype=data.compressed.dtype, copy=True),
            plain.to(device=device, dtype=data.plain.dtype, copy=True),
            values.to(device=device, dtype=own_spec.dtype, copy=True),
        )
    )
    return self


def same_places(self: Any, other: Any) -> bool:
    """Return True if two tensors are known to have the same indices, without waiting for a GPU."""
    a, b = self._data, other._data
    if a.compressed is b.compressed and a.plain is b.plain:
        return True
    if self._spec.device.type != "cpu" or a.plain._spec != b.plain._spec:
        return False
    return bool(a.compressed.equal(b.compressed) and a.plain.equal(b.plain))


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
    if layout is not None and layout is not self._spec.layout:
        raise RuntimeError(
            "to(options) doesn't support converting to a different layout, but got self.layout being "
            f"{spoken(self._spec.layout)} and options.layout set as {spoken(layout)}"
        )
    compressed, plain, values = parts_of(self)
    where = self._spec.device if device is None else device
    return compressed_tensor(
        compressed.to(where, non_blocking=non_blocking, copy=True),
        plain.to(where, non_blocking=non_blocking, copy=True),
        values.to(device=where, dtype=dtype, non_blocking=non_blocking, copy=True),
        self._spec.sizes,
        self._spec.layout,
    )


def _like(name: str, self: Any, dtype: Any, layout: Layout | None, device: Any) -> Any | None:
    """Return a tensor of another layout without elements; None if the layout is kept."""
    kind, spec = self._spec.layout, self._spec
    if layout is None or layout is kind:
        return None
    dtype, where = dtype or spec.dtype, device or spec.device
    if layout is sparse_coo and name == "zeros_like":
        return ops.empty(spec.sizes, dtype=dtype, layout=layout, device=where)
    if layout not in COMPRESSED or name == "empty_like":
        raise RuntimeError(
            f"{name} with different sparse layout is not supported (self is {spoken(kind)} but you requested "
            f"{spoken(layout)})"
        )
    block = blocksize_of(self) if layout in BLOCKED else ()
    return _empty(self, 0, block or (), dtype, layout, where)


def _empty(self: Any, nnz: int, block: Sequence[int], dtype: Any, layout: Layout, where: Any) -> Any:
    data = self._data
    dense_dim = self._spec.ndim - 2 - data.batch_dim
    make = find_overload("aten::_sparse_compressed_tensor_with_dims")
    return make(
        nnz, dense_dim, self._spec.sizes, block, data.plain.dtype, dtype=dtype, layout=layout, device=where
    )


def empty_like(
    self: Any,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    memory_format: MemoryFormat | None,
) -> Any:
    """Return the same indices with uninitialized values."""
    other = _like("empty_like", self, dtype, layout, device)
    if other is not None:
        return other
    compressed, plain, values = parts_of(self)
    where = device or self._spec.device
    return compressed_tensor(
        compressed.to(where, copy=True),
        plain.to(where, copy=True),
        ops.empty_like(values, dtype=dtype, device=device),
        self._spec.sizes,
        self._spec.layout,
    )


def zeros_like(
    self: Any,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    memory_format: MemoryFormat | None,
) -> Any:
    """Return a tensor without elements."""
    other = _like("zeros_like", self, dtype, layout, device)
    if other is not None:
        return other
    spec = self._spec
    return _empty(self, 0, blocksize_of(self) or (), dtype or spec.dtype, spec.layout, device or spec.device)


def zero_(self: Any) -> Any:
    spec = self._spec
    self._data.assign(_empty(self, 0, blocksize_of(self) or (), spec.dtype, spec.layout, spec.device)._data)
    return self


def resize_(self: Any, size: Sequence[int], memory_format: MemoryFormat | None) -> Any:
    """Resize over the same values: rows that are cut off lose them, columns are not cut off."""
    spec, data = self._spec, self._data
    if len(size) != spec.ndim or tuple(size[: data.batch_dim]) != spec.sizes[: data.batch_dim]:
        raise RuntimeError(
            f"torch.resize_: Only batched sparse CSR matrices are supported, but got size {list(size)}; the tensor's "
            f"batch and number of dimensions stay those of {list(spec.sizes)}"
        )
    row_dim = data.batch_dim
    if tuple(size[row_dim + 2 :]) != spec.sizes[row_dim + 2 :]:
        raise RuntimeError(
            f"torch.resize_: resizing dense dimensions of {list(spec.sizes)} to {list(size)} is not supported"
        )
    if size[row_dim + 1] < spec.sizes[row_dim + 1]:
        raise RuntimeError(
            "torch.resize_: Resizing columns of sparse CSR tensors to a smaller value is not supported. The original "
            f"number of columns is {spec.sizes[row_dim + 1]} while the requested new number of columns is "
            f"{size[row_dim + 1]}."
        )
    block = blocksize_of(self) or (1, 1)
    check_blocksize("torch.resize_", block, size[row_dim : row_dim + 2])
    by_rows = spec.layout in ROW_COMPRESSED
    if not by_rows and size[row_dim] < spec.sizes[row_dim]:
        raise RuntimeError(
            f"torch.resize_: cutting rows off a tensor of layout {spoken(spec.layout)}, from {spec.sizes[row_dim]} to "
            f"{size[row_dim]}, is not supported"
        )
    lines, _ = counts_of(size, row_dim, block, spec.layout)
    compressed, plain, values = parts_of(self)
    had = compressed._spec.sizes[-1] - 1
    if lines > had:
        last = compressed[..., -1:].expand((*compressed._spec.sizes[:-1], lines - had))
        compressed = ops.cat((compressed, last), -1)
    elif lines < had:
        if data.batch_dim:
            raise RuntimeError("torch.resize_: cutting rows off a batch of sparse matrices is not supported")
        compressed = compressed[: lines + 1].clone()
        num_kept = 0 if spec.is_meta else int(compressed[-1])
        if not 0 <= num_kept <= data.nnz:
            raise RuntimeError(
                f"torch.resize_: {naming(spec.layout).compressed} says {num_kept} of {data.nnz} values"
            )
        plain, values = plain[:num_kept].clone(), values[:num_kept].clone()
    self._data = type(data)(compressed, plain, values)
    self._spec = spec.replace(sizes=tuple(size))
    return self


def resize_as_sparse_(self: Any, the_template: Any) -> Any:
    """Take the sizes and indices of another tensor of the same layout, with uninitialized values."""
    if the_template._spec.layout is not self._spec.layout:
        raise RuntimeError(
            "resize_as_sparse_csr_tensor_: self and src must have the same layout, but got "
            f"{spoken(self._spec.layout)} and {spoken(the_template._spec.layout)}"
        )
    if self._spec.sizes != the_template._spec.sizes or self._data.nnz != the_template._data.nnz:
        like = empty_like(the_template, self._spec.dtype, None, self._spec.device, None, None)
        self._data, self._spec = like._data, self._spec.replace(sizes=the_template._spec.sizes)
    return self


def is_pinned(self: Any, device: Device | None) -> bool:
    return bool(self._data.values.is_pinned(device))


def sparse_mask(self: Any, mask: Any) -> Any:
    """Return the values of a tensor of any layout at the indices of `mask`."""
    from .compressed_places import taken_at

    kind = mask._spec.layout
    if self._spec.sizes != mask._spec.sizes:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self._spec.sizes)} but mask has "
            f"size {list(mask._spec.sizes)}"
        )
    if kind not in COMPRESSED:
        raise RuntimeError(
            f"sparse_mask_sparse_compressed expects mask to have sparse compressed layout, got {spoken(kind)}"
        )
    return taken_at(self, mask)


KERNELS: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        *(_to_dense, _to_sparse, clone, copy_, _to_copy, empty_like, zeros_like, zero_, resize_),
        *(resize_as_sparse_, is_pinned, sparse_mask),
    )
} | {
    "_to_sparse.sparse_dim": _to_sparse_sparse_dim,
    "_to_sparse_csr": _without_blocks(sparse_csr),
    "_to_sparse_csc": _without_blocks(sparse_csc),
    "_to_sparse_bsr": _with_blocks(sparse_bsr),
    "_to_sparse_bsc": _with_blocks(sparse_bsc),
}

FROM_COO = {name: KERNELS[name] for name in KERNELS if name.startswith("_to_sparse_")}

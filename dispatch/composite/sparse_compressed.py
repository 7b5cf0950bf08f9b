"""Sparse tensors of compressed rows or columns: construction from dense parts, and checks (ATen/native/sparse/).

The numbers of the invariants are those of PyTorch's `ValidateCompressedIndicesCommon.h`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...runtime.device import device as Device
from ...runtime.device import get_default_device
from ...runtime.layout import layout as Layout
from ...runtime.layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, spoken, strided
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import get_default_dtype, int32, int64
from ...runtime.sparse_data import (
    BLOCKED,
    COMPRESSED,
    ROW_COMPRESSED,
    SparseCompressed,
    blocksize_of,
    sparse_spec,
)
from ...runtime.version_cell import share_version
from ..generated import functions as ops
from ..scalars import truncated
from ..tensor import Tensor
from .sparse_lines import lines_of

if TYPE_CHECKING:
    from ...runtime.tensor_spec import TensorSpec

Sizes = Sequence[int]


class Naming(NamedTuple):
    """Names of the parts of a layout."""

    compressed: str
    plain: str
    compressed_dim: str
    plain_dim: str


_ROWS = Naming("crow_indices", "col_indices", "row", "col")
_COLUMNS = Naming("ccol_indices", "row_indices", "column", "row")


def naming(layout: Layout) -> Naming:
    """Return the names of a layout's parts."""
    return _ROWS if layout in ROW_COMPRESSED else _COLUMNS


def expect_compressed(name: str, layout: Layout | None) -> Layout:
    """Return the layout if it is compressed. Raises RuntimeError for another layout."""
    if layout is None or layout not in COMPRESSED:
        layout_name = "none" if layout is None else spoken(layout)
        raise RuntimeError(f"{name} expected sparse compressed tensor layout but got {layout_name}")
    return layout


def compressed_tensor(compressed: Any, plain: Any, values: Any, size: Sizes, layout: Layout) -> Any:
    """Return a sparse tensor over dense tensors that match each other, without checks.

    It has a version cell, since other tensors may hold its parts: in-place operators write to them, so a leaf copies a
    gradient that has one.
    """
    spec = sparse_spec(tuple(size), values._spec.dtype, values._spec.device, layout)
    out = Tensor.from_data(SparseCompressed(compressed, plain, values), spec)
    out._version_cell = None if out._spec.is_inference else [0]
    return out


def check_parts(compressed: Any, plain: Any, values: Any, size: Sizes, layout: Layout) -> None:
    """Raise RuntimeError if parts and sizes do not match; no element is read."""
    names = naming(layout)
    both = f"{names.compressed} and {names.plain}"
    specs: dict[str, TensorSpec] = {
        names.plain: plain._spec,
        names.compressed: compressed._spec,
        "values": values._spec,
    }
    for name, spec in specs.items():
        if spec.layout is not strided:
            raise RuntimeError(f"expected {name} to be a strided tensor but got {spoken(spec.layout)} tensor")
    outer, inner, filled = compressed._spec, plain._spec, values._spec
    batch_ndim = outer.ndim - 1
    block_ndim = 2 if layout in BLOCKED else 0
    dense_ndim = filled.ndim - batch_ndim - block_ndim - 1
    if batch_ndim < 0:
        raise RuntimeError(f"{names.compressed} must have dimensionality >= 1 but got {outer.ndim}")
    if outer.ndim != inner.ndim:
        raise RuntimeError(
            f"{both} dimensionalities must be equal but got {outer.ndim} and {inner.ndim}, respectively"
        )
    if dense_ndim < 0:
        raise RuntimeError(
            f"values must have dimensionality > sum of batch and block dimensionalities (={batch_ndim} + "
            f"{block_ndim}) but got {filled.ndim}"
        )
    if len(size) != batch_ndim + 2 + dense_ndim:
        raise RuntimeError(
            "tensor dimensionality must be sum of batch, base, and dense dimensionalities "
            f"(={batch_ndim} + 2 + {dense_ndim}) but got {len(size)}"
        )
    if any(n < 0 for n in size):
        raise RuntimeError(f"sparse_compressed_tensor: negative size {min(size)} in {list(size)}")
    if math.prod(size) >= 1 << 63:
        raise RuntimeError(f"numel: integer multiplication overflow: sizes {list(size)}")
    batch = [list(spec.sizes[:batch_ndim]) for spec in (outer, inner, filled)]
    if any(batch_sizes != list(size[:batch_ndim]) for batch_sizes in batch):
        raise RuntimeError(
            f"all batch dimensions of {names.compressed} (={batch[0]}), {names.plain} (={batch[1]}), and values "
            f"(={batch[2]}) must be equal to tensor batch dimensions (={list(size[:batch_ndim])})"
        )
    block = filled.sizes[batch_ndim + 1 : batch_ndim + 1 + block_ndim] or (1, 1)
    for i in range(2):
        if block[i] <= 0:
            raise RuntimeError(
                f"block sizes must be positive, but values of shape {list(filled.sizes)} have blocks of {list(block)}"
            )
        if size[batch_ndim + i] % block[i]:
            raise RuntimeError(
                f"tensor shape[{batch_ndim + i}] (={size[batch_ndim + i]}) must be divisible with blocksize[{i}] "
                f"(={block[i]}) as defined by values shape"
            )
    lines, _ = counts_of(size, batch_ndim, block, layout)
    if outer.sizes[-1] != lines + 1:
        kind = f"{names.compressed_dim} blocks" if layout in BLOCKED else f"{names.compressed_dim}s"
        raise RuntimeError(
            f"{names.compressed}.shape[-1] must be equal to the number of {kind} + 1 (={lines + 1}), but got "
            f"{outer.sizes[-1]}"
        )
    nnz = filled.sizes[batch_ndim]
    if inner.sizes[-1] != nnz:
        raise RuntimeError(
            f"{names.plain}.shape[-1] must be equal to nnz (={nnz}) as defined by values.shape[{batch_ndim}], but "
            f"got {inner.sizes[-1]}"
        )
    dense = list(size[batch_ndim + 2 :])
    if dense != list(filled.sizes[filled.ndim - dense_ndim :]):
        raise RuntimeError(
            f"values must have the tensor's dense dimensions {dense} last, but its shape is {list(filled.sizes)}"
        )
    for name, spec in ((names.compressed, outer), (names.plain, inner)):
        if spec.sizes[-1] > 1 and spec.strides[-1] != 1:
            raise RuntimeError(f"expected {name} to be a contiguous tensor per batch")
    if outer.dtype is not inner.dtype:
        raise RuntimeError(
            f"{both} must have the same dtype, but got {outer.dtype.scalar_name} and {inner.dtype.scalar_name}, "
            "respectively"
        )
    if outer.dtype is not int32 and outer.dtype is not int64:
        raise RuntimeError(f"{both} dtype must be Int or Long, but got {outer.dtype.scalar_name}")
    for name, spec in specs.items():
        if spec.device is not filled.device:
            raise RuntimeError(
                f"Values and {name} need to be on the same device, but they are on {filled.device} and {spec.device}."
            )


def counts_of(size: Sizes, batch_ndim: int, block: Sizes, layout: Layout) -> tuple[int, int]:
    """Return the number of compressed lines of blocks, and the number of blocks in each."""
    rows, columns = size[batch_ndim] // block[0], size[batch_ndim + 1] // block[1]
    return (rows, columns) if layout in ROW_COMPRESSED else (columns, rows)


def check_indices(compressed: Any, plain: Any, lines: int, length: int, layout: Layout) -> None:
    """Raise RuntimeError for indices that break an invariant; on a GPU the host synchronizes for each check.

    Args:
        compressed, plain: The parts of a sparse tensor, of matching shapes.
        lines: Number of compressed lines.
        length: Length of each line, in elements or blocks.
        layout: The layout, which determines names in messages.
    """
    if compressed._spec.is_meta or not compressed._spec.numel:
        return
    names, nnz = naming(layout), plain._spec.sizes[-1]
    outer = names.compressed
    if bool(compressed[..., 0].ne(0).any()):
        raise RuntimeError(f"`{outer}[..., 0] == 0` is not satisfied.")
    if bool(compressed[..., -1].ne(nnz).any()):
        raise RuntimeError(f"`{outer}[..., -1] == nnz` is not satisfied.")
    taken = compressed[..., 1:] - compressed[..., :-1]
    if lines and bool((taken.lt(0) | taken.gt(length)).any()):
        raise RuntimeError(
            f"`0 <= {outer}[..., 1:] - {outer}[..., :-1] <= n{names.plain_dim}s` is not satisfied."
        )
    if not plain._spec.numel:
        return
    min_index, max_index = int(plain.amin()), int(plain.amax())
    if min_index < 0 or max_index >= length:
        raise RuntimeError(f"`0 <= {names.plain} < n{names.plain_dim}s` is not satisfied.")
    if nnz > 1:
        lines_of = ops.repeat_interleave(taken.reshape(-1), output_size=plain._spec.numel).view(plain.shape)
        beside = lines_of[..., 1:].eq(lines_of[..., :-1])
        if bool((beside & plain[..., 1:].le(plain[..., :-1])).any()):
            raise RuntimeError(
                f"`{names.plain}[..., {outer}[..., i - 1]:{outer}[..., i]] for all i = 1, ..., "
                f"n{names.compressed_dim.removesuffix('umn')}s are sorted and distinct along the last dimension "
                "values` is not satisfied."
            )


def _validate_sparse_compressed_tensor_args(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Sizes,
    layout: Layout,
    check_pinning: bool | None,
) -> None:
    """Raise RuntimeError for parts that make no sparse tensor."""
    expect_compressed("validate_sparse_compressed_tensor_args", layout)
    check_parts(compressed_indices, plain_indices, values, size, layout)
    batch_ndim = compressed_indices._spec.ndim - 1
    block = values._spec.sizes[batch_ndim + 1 : batch_ndim + 3] if layout in BLOCKED else (1, 1)
    lines, length = counts_of(size, batch_ndim, block, layout)
    check_indices(compressed_indices, plain_indices, lines, length, layout)


def inferred_size(compressed: Any, plain: Any, values: Any, layout: Layout) -> tuple[int, ...]:
    """Return the least sizes that hold all indices. On a GPU the host waits for them."""
    batch_ndim = compressed._spec.ndim - 1
    if batch_ndim < 0 or values._spec.ndim <= batch_ndim:
        check_parts(compressed, plain, values, (0, 0), layout)
    block = values._spec.sizes[batch_ndim + 1 : batch_ndim + 3] if layout in BLOCKED else (1, 1)
    if len(block) != 2:
        check_parts(compressed, plain, values, (0, 0), layout)
    lines = compressed._spec.sizes[-1] - 1
    length = truncated(plain.amax().item(), "int64") + 1 if plain._spec.numel else 0
    rows, columns = (lines, length) if layout in ROW_COMPRESSED else (length, lines)
    dense = values._spec.sizes[batch_ndim + (3 if layout in BLOCKED else 1) :]
    return (*compressed._spec.sizes[:-1], rows * block[0], columns * block[1], *dense)


def sparse_compressed_tensor_sized(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Sizes,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> Any:
    """Return ``sparse_compressed_tensor(compressed, plain, values, size)``, with checked indices."""
    kind = expect_compressed("sparse_compressed_tensor", layout)
    ops._validate_sparse_compressed_tensor_args(compressed_indices, plain_indices, values, size, kind)
    return ops._sparse_compressed_tensor_unsafe(
        compressed_indices, plain_indices, values, size, dtype=dtype, layout=kind, device=device
    )


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> Any:
    """Return ``sparse_compressed_tensor(compressed, plain, values)``, with the smallest sizes."""
    kind = expect_compressed("sparse_compressed_tensor", layout)
    size = inferred_size(compressed_indices, plain_indices, values, kind)
    return sparse_compressed_tensor_sized(
        compressed_indices, plain_indices, values, size, dtype, kind, device, pin_memory
    )


def _sparse_compressed_tensor_unsafe(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Sizes,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> Any:
    """Return a sparse tensor over the memory of dense ones, without checking the index values."""
    kind = expect_compressed("sparse_compressed_tensor_unsafe", layout)
    check_parts(compressed_indices, plain_indices, values, size, kind)
    outer, plain, filled = (part.detach() for part in (compressed_indices, plain_indices, values))
    return compressed_tensor(outer, plain, filled, size, kind)


def _of_layout(kind: Layout) -> dict[str, Callable[..., Any]]:
    """Return the functions of one layout: with sizes, with the least sizes, unchecked, and their check."""
    name = f"{kind.name}_tensor"

    def expect(layout: Layout | None) -> None:
        if layout is not None and layout is not kind:
            raise RuntimeError(f"{name}: layout must be {spoken(kind)} but got {spoken(layout)}")

    def sized(
        outer: Any, plain: Any, values: Any, size: Sizes, dtype: Any, layout: Layout | None, *rest: Any
    ) -> Any:
        expect(layout)
        return sparse_compressed_tensor_sized(outer, plain, values, size, dtype, kind, *rest)

    def unsized(outer: Any, plain: Any, values: Any, dtype: Any, layout: Layout | None, *rest: Any) -> Any:
        expect(layout)
        return sparse_compressed_tensor(outer, plain, values, dtype, kind, *rest)

    def unsafe(
        outer: Any, plain: Any, values: Any, size: Sizes, dtype: Any, layout: Layout | None, *rest: Any
    ) -> Any:
        expect(layout)
        return ops._sparse_compressed_tensor_unsafe(outer, plain, values, size, dtype=dtype, layout=kind)

    def validate(outer: Any, plain: Any, values: Any, size: Sizes, check_pinning: bool | None) -> None:
        _validate_sparse_compressed_tensor_args(outer, plain, values, size, kind, check_pinning)

    return {"sized": sized, "unsized": unsized, "unsafe": unsafe, "validate": validate}


_CSR, _CSC, _BSR, _BSC = (_of_layout(kind) for kind in (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc))
sparse_csr_tensor_sized, sparse_csr_tensor = _CSR["sized"], _CSR["unsized"]
sparse_csc_tensor_sized, sparse_csc_tensor = _CSC["sized"], _CSC["unsized"]
sparse_bsr_tensor_sized, sparse_bsr_tensor = _BSR["sized"], _BSR["unsized"]
sparse_bsc_tensor_sized, sparse_bsc_tensor = _BSC["sized"], _BSC["unsized"]
_sparse_csr_tensor_unsafe, _validate_sparse_csr_tensor_args = _CSR["unsafe"], _CSR["validate"]
_sparse_csc_tensor_unsafe, _validate_sparse_csc_tensor_args = _CSC["unsafe"], _CSC["validate"]
_sparse_bsr_tensor_unsafe, _validate_sparse_bsr_tensor_args = _BSR["unsafe"], _BSR["validate"]
_sparse_bsc_tensor_unsafe, _validate_sparse_bsc_tensor_args = _BSC["unsafe"], _BSC["validate"]


def _sparse_compressed_tensor_with_dims(
    nnz: int,
    dense_dim: int,
    size: Sizes,
    blocksize: Sizes,
    index_dtype: ScalarType,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
) -> Any:
    """Return a sparse tensor with empty lines and the requested number of uninitialized values."""
    name = "sparse_compressed_tensor_with_dims"
    kind = expect_compressed(f"{name}:", layout)
    if nnz < 0:
        raise RuntimeError(f"{name}: nnz must be non-negative, got {nnz}")
    batch_ndim = len(size) - dense_dim - 2
    if batch_ndim < 0:
        raise RuntimeError(
            f"{name}: dimensionality must be at least dense_dim(={dense_dim}) + sparse_dim(=2), but got {len(size)}"
        )
    if kind in BLOCKED:
        if len(blocksize) != 2:
            raise RuntimeError(f"{name}: blocksize needs to be a tuple of size 2, but got {len(blocksize)}")
        for i, n in enumerate(blocksize):
            if n <= 0:
                raise RuntimeError(f"{name}: blocksize[{i}] must be positive, got {n}")
            if size[batch_ndim + i] % n:
                raise RuntimeError(
                    f"{name}: dimension {batch_ndim + i} must be multiple of blocksize[{i}](={n}) but got "
                    f"{size[batch_ndim + i]}"
                )
    elif len(blocksize):
        raise RuntimeError(f"{name}: blocksize cannot be specified for non-block layout {spoken(kind)}")
    if index_dtype is not int32 and index_dtype is not int64:
        raise RuntimeError(f"indices dtype must be Int or Long, but got {index_dtype.scalar_name}")
    where = get_default_device() if device is None else device
    batch, dense = tuple(size[:batch_ndim]), size[batch_ndim + 2 :]
    lines, _ = counts_of(size, batch_ndim, blocksize or (1, 1), kind)
    compressed = ops.zeros((*batch, lines + 1), dtype=index_dtype, device=where)
    plain = ops.zeros((*batch, nnz), dtype=index_dtype, device=where)
    values = ops.empty((*batch, nnz, *blocksize, *dense), dtype=dtype or get_default_dtype(), device=where)
    return compressed_tensor(compressed, plain, values, size, kind)


def _part(name: str, which: str, rows: bool) -> Callable[[Any], Any]:
    def part(self: Any) -> Any:
        layout = self._spec.layout
        if layout not in COMPRESSED or (layout in ROW_COMPRESSED) is not rows:
            kind = "row" if rows else "column"
            raise RuntimeError(
                f"{name} expected sparse {kind} compressed tensor layout but got {spoken(layout)}"
            )
        return share_version(getattr(self._data, which).detach(), self)

    return part


crow_indices = _part("crow_indices", "compressed", rows=True)
col_indices = _part("col_indices", "plain", rows=True)
ccol_indices = _part("ccol_indices", "compressed", rows=False)
row_indices = _part("row_indices", "plain", rows=False)


def _to(kind: Layout) -> Callable[..., Any]:
    """Return ``to_sparse_csr`` or a similar function, which returns the tensor itself if nothing changes."""
    name = f"to_{kind.name}"

    def convert(self: Any, *rest: Any) -> Any:
        dense_dim = rest[-1]
        blocksize = tuple(rest[0]) if kind in BLOCKED else None
        if self._spec.layout is kind:
            if dense_dim is not None:
                raise RuntimeError(
                    f"{name}: conversion from {spoken(kind)} to {spoken(kind)} with dense_dim argument given is not "
                    "supported"
                )
            own = blocksize_of(self)
            if blocksize is not None and blocksize != own:
                raise RuntimeError(
                    f"{name}: conversion from {spoken(kind)} to {spoken(kind)} with blocksize changed from "
                    f"{list(own or ())} to {list(blocksize)} is not supported"
                )
            return self
        return getattr(ops, f"_{name}")(self, *rest)

    return convert


to_sparse_csr, to_sparse_csc, to_sparse_bsr, to_sparse_bsc = (
    _to(kind) for kind in (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)
)


def converted(name: str, self: Any, layout: Layout, blocksize: Sizes | None, dense_dim: int | None) -> Any:
    """Convert a tensor to another compressed layout, for ``_to_sparse(layout=)``."""
    own_layout = self._spec.layout
    route = f"{name}: conversion from {spoken(own_layout)} to {spoken(layout)}"
    if layout is strided:
        raise RuntimeError(f"{route} not supported: to_dense gives a strided tensor")
    if layout in BLOCKED:
        if blocksize is None:
            raise RuntimeError(f"{route} without blocksize argument given is not supported")
        return getattr(ops, f"_to_{layout.name}")(self, blocksize, dense_dim)
    if blocksize is not None:
        raise RuntimeError(f"{route} with blocksize argument given is not supported")
    if layout is sparse_coo:
        return ops._to_sparse(self, layout=sparse_coo, dense_dim=dense_dim)
    return getattr(ops, f"_to_{layout.name}")(self, dense_dim)


def _from_strided(kind: Layout) -> Callable[..., Any]:
    name = f"to_{kind.name}"
    spoken_name = f"dense_to_{kind.name}"

    def convert(self: Any, *rest: Any) -> Any:
        dense_dim = rest[-1] or 0
        block = (1, 1)
        size = tuple(self._spec.sizes)
        batch_ndim = len(size) - dense_dim - 2
        if len(size) < 2:
            raise RuntimeError(
                f"{spoken_name}: expected a tensor of at least two dimensions, got {list(size)}"
            )
        if not 0 <= dense_dim <= len(size) - 2:
            raise RuntimeError(
                f"{spoken_name}: dense_dim argument must be in [0,{len(size) - 2}] range, but {dense_dim} is given"
            )
        if kind in BLOCKED:
            check_blocksize(spoken_name, rest[0], size[batch_ndim : batch_ndim + 2])
            block = (rest[0][0], rest[0][1])
        if not math.prod(size[:batch_ndim]):
            raise RuntimeError(f"{name}: Expected product of batch dimensions to be non-zero.")
        return compress(self.detach(), batch_ndim, block, kind)

    return convert


def check_blocksize(name: str, blocksize: Sizes, size: Sizes) -> None:
    """Raise RuntimeError for sizes of blocks that do not divide a matrix."""
    if len(blocksize) != 2:
        raise RuntimeError(f"{name}: blocksize needs to be a tuple of size 2, but got {len(blocksize)}")
    if min(blocksize) <= 0:
        raise RuntimeError(f"{name}: blocksize needs to be positive, but got {list(blocksize)}")
    if size[0] % blocksize[0] or size[1] % blocksize[1]:
        raise RuntimeError(
            f"{name}: tensor sparse size ({size[0]},{size[1]}) must be divisible by given blocksize "
            f"({blocksize[0]},{blocksize[1]})"
        )


def in_blocks(x: Any, batch_ndim: int, block: Sizes, layout: Layout) -> Any:
    """Return a strided tensor as [batch, compressed lines, length of lines, *block, *dense]."""
    size = x._spec.sizes
    batch = math.prod(size[:batch_ndim])
    rows, columns = size[batch_ndim] // block[0], size[batch_ndim + 1] // block[1]
    dense = size[batch_ndim + 2 :]
    by_rows = layout in ROW_COMPRESSED
    if layout in BLOCKED:
        apart = x.reshape((batch, rows, block[0], columns, block[1], *dense))
        order = (0, 1, 3, 2, 4) if by_rows else (0, 3, 1, 2, 4)
        return apart.permute((*order, *range(5, 5 + len(dense))))
    apart = x.reshape((batch, rows, columns, *dense))
    return apart if by_rows else apart.transpose(1, 2)


def compress(x: Any, batch_ndim: int, block: Sizes, layout: Layout) -> Any:
    """Return the nonzero elements of a strided tensor, or its nonzero blocks, by lines."""
    spec = x._spec
    blocks = in_blocks(x, batch_ndim, block, layout)
    batch, lines, length = blocks._spec.sizes[:3]
    cell = blocks._spec.sizes[3:]
    batch_sizes, where = spec.sizes[:batch_ndim], spec.device
    if spec.is_meta:
        return _sparse_compressed_tensor_with_dims(
            0,
            spec.ndim - batch_ndim - 2,
            spec.sizes,
            tuple(block) if layout in BLOCKED else (),
            int64,
            spec.dtype,
            layout,
            where,
            None,
        )
    filled = blocks.ne(0)
    if cell:
        filled = filled.reshape((batch, lines, length, math.prod(cell))).any(-1)
    flat_indices = filled.reshape(-1).nonzero().reshape(-1)
    count = flat_indices._spec.sizes[0]
    if batch > 1:
        each = filled.reshape((batch, lines * length)).sum(1)
        if count % batch or bool(each.ne(count // batch).any()):
            raise RuntimeError("Expect the same number of specified elements per batch.")
    nnz = count // batch
    values = blocks.reshape((batch * lines * length, *cell)).index_select(0, flat_indices)
    line = ops.floor_divide(flat_indices, length) if length else flat_indices
    compressed = begins_of(line, batch, lines, nnz).reshape((*batch_sizes, lines + 1))
    plain = (flat_indices - line * length).reshape((*batch_sizes, nnz))
    return compressed_tensor(
        compressed, plain, values.reshape((*batch_sizes, nnz, *cell)), spec.sizes, layout
    )


def begins_of(line: Any, batch: int, lines: int, nnz: int) -> Any:
    """Return the start of each line of each matrix, [batch, lines + 1], from sorted line numbers over all matrices."""
    where = line._spec.device
    bounds = ops.searchsorted(line, ops.arange(batch * lines, dtype=line.dtype, device=where))
    bounds = bounds.to(line.dtype).reshape((batch, lines))
    begins = bounds - ops.arange(batch, dtype=line.dtype, device=where).reshape((batch, 1)) * nnz
    last = ops.full((batch, 1), nnz, dtype=line.dtype, device=where)
    return ops.cat((begins, last), 1)


_to_sparse_csr, _to_sparse_csc, _to_sparse_bsr, _to_sparse_bsc = (
    _from_strided(kind) for kind in (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)
)


def _convert_indices_from_csr_to_coo(
    crow_indices: Any, col_indices: Any, out_int32: bool, transpose: bool
) -> Any:
    """Return COO indices, [batch dimensions + 2, elements], of compressed rows; of columns with `transpose`."""
    for name, part in (("crow_indices", crow_indices), ("col_indices", col_indices)):
        if part.dtype not in (int32, int64) or not part._spec.ndim:
            raise RuntimeError(
                f"_convert_indices_from_csr_to_coo(): {name} must have a dimension and be int32 or int64, but has "
                f"shape {list(part._spec.sizes)} and dtype {part.dtype}"
            )
    batch_sizes = crow_indices._spec.sizes[:-1]
    lines, nnz = crow_indices._spec.sizes[-1] - 1, col_indices._spec.sizes[-1]
    dtype = int32 if out_int32 else int64
    total = math.prod(batch_sizes) * nnz
    line = lines_of(crow_indices, total)
    plain = col_indices.reshape(-1)
    rest = line
    coordinates = []
    for n in (lines, *reversed(batch_sizes)):
        whole = ops.floor_divide(rest, max(n, 1))
        coordinates.append(rest - whole * max(n, 1))
        rest = whole
    first, *batch = coordinates
    pair = (plain, first) if transpose else (first, plain)
    return ops.stack([part.to(dtype) for part in (*reversed(batch), *pair)], 0)


def _convert_indices_from_coo_to_csr(self: Any, size: int, out_int32: bool) -> Any:
    """Return the start of each of `size` rows among sorted row numbers."""
    if self._spec.ndim > 1:
        raise RuntimeError(f"Input is supposed to be a vector, but got {self._spec.ndim} dimensional tensor.")
    ends = ops.arange(size + 1, dtype=self.dtype, device=self._spec.device)
    return ops.searchsorted(self, ends, out_int32=out_int32)

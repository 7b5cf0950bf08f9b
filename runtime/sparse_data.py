"""Data of a sparse tensor: the dense tensors that it consists of (ATen/SparseTensorImpl.h).

A sparse tensor is a `TensorImpl` with a sparse layout in its spec, and contiguous strides that no code reads. It has
a Sparse or SparseCsr key instead of Dense, so that no dense kernel is called for it. Its `_data` is one of the two
records below. Tensors that share a record, such as a tensor and its detached form, do not see each other resized: a
resize replaces the record as a whole. Other in-place operators also replace COO records, as in PyTorch. Compressed
records get new parts instead, which all tensors of the record see. `TensorImpl` methods that need bytes find none here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from . import memory_format as mf
from .dispatch_key import Functionality, functionality_bit
from .layout import layout as Layout
from .layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from .tensor_spec import TensorSpec

if TYPE_CHECKING:
    from .device import device as Device
    from .scalar_type import dtype as ScalarType
    from .tensor_impl import TensorImpl

KEY_BIT: Final = {
    sparse_coo: functionality_bit(Functionality.Sparse),
    **dict.fromkeys(
        (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc), functionality_bit(Functionality.SparseCsr)
    ),
}
"""Dispatch key of each sparse layout."""

ROW_COMPRESSED: Final = frozenset({sparse_csr, sparse_bsr})
BLOCKED: Final = frozenset({sparse_bsr, sparse_bsc})
COMPRESSED: Final = frozenset({sparse_csr, sparse_csc, sparse_bsr, sparse_bsc})


class WithoutBytes:
    """Data without an address; asking for one raises an error."""

    __slots__ = ()

    @property
    def base(self) -> Any:
        """None: sparse data is no view of another object's memory."""
        return None

    @property
    def __array_interface__(self) -> Any:
        raise NotImplementedError("Cannot access data pointer of Tensor that doesn't have storage")


class SparseCoo(WithoutBytes):
    """COO data: coordinates and values.

    Args:
        indices: int64, shape [sparse_dim, nnz]: the coordinates of each value, columns in any order.
        values: Shape [nnz, *dense sizes].
        is_coalesced: True if the columns of `indices` are known to be sorted and unique.
    """

    __slots__ = ("indices", "is_coalesced", "values")

    def __init__(self, indices: TensorImpl, values: TensorImpl, is_coalesced: bool) -> None:
        self.indices = indices
        self.values = values
        self.is_coalesced = is_coalesced

    @property
    def sparse_dim(self) -> int:
        """Number of leading dimensions with coordinates."""
        return self.indices._spec.sizes[0]

    @property
    def dense_dim(self) -> int:
        """Number of trailing dimensions that are dense in the values."""
        return self.values._spec.ndim - 1

    @property
    def nnz(self) -> int:
        """Number of specified coordinates."""
        return self.indices._spec.sizes[1]


class SparseCompressed(WithoutBytes):
    """Compressed data: rows or columns (of blocks) in order, each with its values.

    Args:
        compressed: int32 or int64, shape [*batch, rows + 1]: the first value of each row (``csr``, ``bsr``) or column
            (``csc``, ``bsc``).
        plain: Same dtype, shape [*batch, nnz]: the other coordinate of each value or block.
        values: Shape [*batch, nnz, *block sizes, *dense sizes].
    """

    __slots__ = ("compressed", "plain", "values")

    def __init__(self, compressed: TensorImpl, plain: TensorImpl, values: TensorImpl) -> None:
        self.compressed = compressed
        self.plain = plain
        self.values = values

    def assign(self, other: SparseCompressed) -> None:
        """Take the parts of another record in this one's dtype, for a write to all tensors that share this one.

        Values at the same indices are copied, so that transposed matrices, which share them, see the write too.
        """
        values: Any = self.values
        if self.compressed is other.compressed and self.plain is other.plain:
            values.copy_(other.values)
        else:
            made: Any = other.values
            self.compressed, self.plain, self.values = other.compressed, other.plain, made.to(values.dtype)

    @property
    def batch_dim(self) -> int:
        """Number of leading batch dimensions."""
        return self.compressed._spec.ndim - 1

    @property
    def nnz(self) -> int:
        """Number of values, or blocks, that each matrix specifies."""
        return self.plain._spec.sizes[-1]


def blocksize_of(tensor: TensorImpl) -> tuple[int, int] | None:
    """Return the two block sizes of a blocked tensor; None for another layout."""
    if tensor._spec.layout not in BLOCKED:
        return None
    data: SparseCompressed = tensor._data
    rows, columns = data.values._spec.sizes[data.batch_dim + 1 : data.batch_dim + 3]
    return rows, columns


def sparse_spec(
    sizes: tuple[int, ...],
    dtype: ScalarType,
    device: Device,
    layout: Layout,
    *,
    requires_grad: bool = False,
    is_inference: bool = False,
) -> TensorSpec:
    """Return the spec of a sparse tensor of these sizes."""
    return TensorSpec.of(
        sizes,
        mf.contiguous_strides(sizes),
        dtype,
        device,
        requires_grad=requires_grad,
        is_inference=is_inference,
        layout=layout,
        keys=KEY_BIT[layout],
    )

"""What stands in a sparse tensor's place of bytes: the dense tensors that it is made of (ATen/SparseTensorImpl.h).

A sparse tensor is a `TensorImpl` whose spec has a sparse layout, contiguous strides that nothing reads, and a Sparse or
SparseCsr key in the place of Dense, so that no dense kernel is ever asked to serve it. Its `_data` is one of the
two records below. They are replaced whole, never changed: tensors that share one, as a tensor and its detached form do,
do not see each other resized. Of `TensorImpl`'s own methods those that ask for bytes find none here.
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
"""The key of each sparse layout."""

ROW_COMPRESSED: Final = frozenset({sparse_csr, sparse_bsr})
BLOCKED: Final = frozenset({sparse_bsr, sparse_bsc})
COMPRESSED: Final = frozenset({sparse_csr, sparse_csc, sparse_bsr, sparse_bsc})


class WithoutBytes:
    """Data that has no address: what asks for one is told so."""

    __slots__ = ()

    @property
    def base(self) -> Any:
        """No memory that another object owns."""
        return None

    @property
    def __array_interface__(self) -> Any:
        raise NotImplementedError("Cannot access data pointer of Tensor that doesn't have storage")


class SparseCoo(WithoutBytes):
    """Coordinates and values.

    Args:
        indices: int64, of shape [sparse_dim, nnz]: the coordinates of each value, columns in any order.
        values: of shape [nnz, *dense sizes].
        is_coalesced: whether the columns of `indices` are known to be sorted and unequal.
    """

    __slots__ = ("indices", "is_coalesced", "values")

    def __init__(self, indices: TensorImpl, values: TensorImpl, is_coalesced: bool) -> None:
        self.indices = indices
        self.values = values
        self.is_coalesced = is_coalesced

    @property
    def sparse_dim(self) -> int:
        """How many dimensions, the first ones, are coordinates."""
        return self.indices._spec.sizes[0]

    @property
    def dense_dim(self) -> int:
        """How many dimensions, the last ones, lie whole in the values."""
        return self.values._spec.ndim - 1

    @property
    def nnz(self) -> int:
        """How many coordinates are specified."""
        return self.indices._spec.sizes[1]


class SparseCompressed(WithoutBytes):
    """Rows or columns (of blocks) one after the other, with what each of them holds.

    Args:
        compressed: int32 or int64, of shape [*batch, rows + 1]: where each row (``csr``, ``bsr``) or column (``csc``,
            ``bsc``) begins among the values.
        plain: of the same dtype, of shape [*batch, nnz]: the other coordinate of each value or block.
        values: of shape [*batch, nnz, *block sizes, *dense sizes].
    """

    __slots__ = ("compressed", "plain", "values")

    def __init__(self, compressed: TensorImpl, plain: TensorImpl, values: TensorImpl) -> None:
        self.compressed = compressed
        self.plain = plain
        self.values = values

    @property
    def batch_dim(self) -> int:
        """How many dimensions, the first ones, are matrices side by side."""
        return self.compressed._spec.ndim - 1

    @property
    def nnz(self) -> int:
        """How many values, or blocks, each matrix specifies."""
        return self.plain._spec.sizes[-1]


def blocksize_of(tensor: TensorImpl) -> tuple[int, int] | None:
    """The two sizes of a blocked tensor's blocks, None for another layout."""
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
    """The spec of a sparse tensor of these sizes."""
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

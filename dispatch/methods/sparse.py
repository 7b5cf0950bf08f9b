"""Methods of `Tensor` that describe a sparse tensor's storage (ATen/native/sparse/SparseTensor.cpp)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.layout import sparse_coo, spoken
from ...runtime.sparse_data import COMPRESSED
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary

if TYPE_CHECKING:
    from ..tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object


class SparseMethods(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    @api_boundary
    def sparse_dim(self) -> int:
        """Return the number of sparse dimensions (`torch.Tensor.sparse_dim`).

        Returns:
            A number; 0 for a strided tensor, 2 for one of compressed rows or columns.

        Example:
            >>> import triten as tt
            >>> tt.ones(2, 3).sparse_dim(), tt.eye(2).to_sparse().sparse_dim()
            (0, 2)
        """
        layout = self._spec.layout
        if layout is sparse_coo:
            return int(self._data.sparse_dim)
        return 2 if layout in COMPRESSED else 0

    @api_boundary
    def dense_dim(self) -> int:
        """Return the number of dense dimensions (`torch.Tensor.dense_dim`).

        Returns:
            A number; all dimensions of a strided tensor.

        Example:
            >>> import triten as tt
            >>> tt.ones(2, 3).dense_dim(), tt.ones(2, 3).to_sparse(1).dense_dim()
            (2, 1)
        """
        layout = self._spec.layout
        if layout is sparse_coo:
            return int(self._data.dense_dim)
        if layout in COMPRESSED:
            return int(self._spec.ndim - 2 - self._data.batch_dim)
        return int(self._spec.ndim)

    _dimI = sparse_dim
    _dimV = dense_dim

    @api_boundary
    def _nnz(self) -> int:
        """Return the number of specified elements, including duplicate coordinates (`torch.Tensor._nnz`).

        Returns:
            A number; of a blocked layout that of the blocks, of batches that of each matrix.

        Raises:
            NotImplementedError: The tensor is not sparse.

        Example:
            >>> import triten as tt
            >>> tt.eye(3).to_sparse()._nnz()
            3
        """
        layout = self._spec.layout
        if layout is not sparse_coo and layout not in COMPRESSED:
            raise NotImplementedError(f"Could not run '_nnz': expected a sparse tensor, got layout {layout}")
        return int(self._data.nnz)

    @api_boundary
    def to_sparse_coo(self) -> Tensor:
        """Convert the tensor to COO layout (`torch.Tensor.to_sparse_coo`), as `to_sparse` without arguments does.

        Returns:
            A tensor of layout `tt.sparse_coo`; the tensor itself if it has that layout.

        Example:
            >>> import triten as tt
            >>> tt.eye(3).to_sparse_csr().to_sparse_coo()._nnz()
            3
        """
        made: Tensor = self.to_sparse()  # type: ignore[attr-defined]
        return made

    @api_boundary
    def is_coalesced(self) -> bool:
        """Return whether the coordinates are known to be sorted and unique (`torch.Tensor.is_coalesced`).

        Returns:
            A bool.

        Raises:
            RuntimeError: The tensor has another layout than `tt.sparse_coo`.

        Example:
            >>> import triten as tt
            >>> x = tt.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,))
            >>> x.is_coalesced(), x.coalesce().is_coalesced()
            (False, True)
        """
        layout = self._spec.layout
        if layout is not sparse_coo:
            raise RuntimeError(
                f"is_coalesced expected sparse coordinate tensor layout but got {spoken(layout)}"
            )
        return bool(self._data.is_coalesced)

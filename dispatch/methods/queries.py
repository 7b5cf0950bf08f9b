"""Methods of `Tensor` that query its properties, and old forms of other functions (torch/_tensor.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...runtime.errors import not_a_tensor
from ...runtime.layout import sparse_coo, sparse_csr
from ...runtime.quantized_data import QUANTIZED_BIT
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_impl import TensorImpl, only_name
from ...runtime.traceback_filter import hide_inner_frames
from ..core.dispatcher import Dispatcher

if TYPE_CHECKING:
    from ..tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object


class QueryMethods(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    @property
    def is_sparse(self) -> bool:
        """True if the tensor is in COO layout (`torch.Tensor.is_sparse`)."""
        return self._spec.layout is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:
        """True if the tensor is in CSR layout (`torch.Tensor.is_sparse_csr`)."""
        return self._spec.layout is sparse_csr

    @property
    def is_quantized(self) -> bool:
        """True if the elements are quantized integers (`torch.Tensor.is_quantized`)."""
        return bool(self._spec.keys & QUANTIZED_BIT)

    @property
    def is_nested(self) -> bool:
        """False: nested tensors are not instances of this class (`torch.Tensor.is_nested`)."""
        return False

    def to_padded_tensor(self, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
        """Raise for a dense tensor (`torch.Tensor.to_padded_tensor`); see `tt.nested.to_padded_tensor`.

        Args:
            padding: The element after the end of shorter sequences.
            output_size: The result's shape; by default the smallest that they fit into.

        Returns:
            A dense tensor.

        Raises:
            NotImplementedError: The tensor is not nested.

        Example:
            >>> import triten as tt
            >>> tt.nested.nested_tensor([tt.ones(1), tt.ones(2)]).to_padded_tensor(0.0)
            tensor([[1., 0.],
                    [1., 1.]])
        """
        raise NotImplementedError(
            f"to_padded_tensor: expected a nested tensor, got a dense one of shape {list(self._spec.sizes)}"
        )

    @property
    def is_mkldnn(self) -> bool:
        """False: no tensor has oneDNN's own layout (`torch.Tensor.is_mkldnn`)."""
        return False

    @property
    def is_xla(self) -> bool:
        """True if the tensor is on an XLA device (`torch.Tensor.is_xla`)."""
        return bool(self._spec.device.type == "xla")

    @property
    def is_xpu(self) -> bool:
        """True if the tensor is on an XPU (`torch.Tensor.is_xpu`)."""
        return bool(self._spec.device.type == "xpu")

    @property
    def is_mps(self) -> bool:
        """True if the tensor is on an MPS device (`torch.Tensor.is_mps`)."""
        return bool(self._spec.device.type == "mps")

    @property
    def is_ipu(self) -> bool:
        """True if the tensor is on an IPU (`torch.Tensor.is_ipu`)."""
        return bool(self._spec.device.type == "ipu")

    def is_conj(self) -> bool:
        """Return False: there is no lazy conjugation, `conj` computes its result (`torch.Tensor.is_conj`).

        Returns:
            False.

        Example:
            >>> import triten as tt
            >>> tt.tensor([1j]).conj().is_conj()
            False
        """
        return False

    def is_neg(self) -> bool:
        """Return False: there is no lazy negation, `imag` of `conj` is computed (`torch.Tensor.is_neg`).

        Returns:
            False.

        Example:
            >>> import triten as tt
            >>> tt.tensor([1j]).conj().imag.is_neg()
            False
        """
        return False

    def is_nonzero(self) -> bool:
        """Return whether the only element is nonzero (`torch.Tensor.is_nonzero`).

        Returns:
            A bool.

        Raises:
            RuntimeError: The tensor has no element or several.

        Example:
            >>> import triten as tt
            >>> tt.tensor([[2.0]]).is_nonzero(), tt.tensor(False).is_nonzero()
            (True, False)
        """
        if self.numel() == 0:
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
        if self.numel() > 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        value: Tensor = self  # type: ignore[assignment]
        return bool(value.item() != 0)

    def is_same_size(self, other: TensorImpl | None = None, x2: TensorImpl | None = None) -> bool:
        """Return whether another tensor has the same sizes (`torch.Tensor.is_same_size`).

        Args:
            other: The other tensor.
            x2: The NumPy name of `other`.

        Returns:
            A bool.

        Raises:
            RuntimeError: One of the tensors is nested, the other is not.

        Example:
            >>> import triten as tt
            >>> tt.ones(2, 3).is_same_size(tt.ones(3, 2))
            False
        """
        if x2 is not None:
            other = only_name("is_same_size", other, x2, "x2")
        if not isinstance(other, TensorImpl):
            raise not_a_tensor(other, "is_same_size", "other")
        if other.is_nested:  # type: ignore[attr-defined]  # a Tensor
            raise RuntimeError("Expected both self and other to be nested tensors.")
        return bool(self._spec.sizes == other._spec.sizes)

    def dim_order(self) -> tuple[int, ...]:
        """Return the dimensions from the outermost in memory to the innermost (`torch.Tensor.dim_order`).

        Returns:
            A tuple of numbers of dimensions, by descending strides.

        Example:
            >>> import triten as tt
            >>> tt.empty(2, 3, 5, 7).dim_order(), tt.empty(2, 3, 5, 7).mT.dim_order()
            ((0, 1, 2, 3), (0, 1, 3, 2))
        """
        strides = self._spec.strides
        return tuple(sorted(range(len(strides)), key=lambda d: -strides[d]))

    def norm(
        self,
        p: float | str | None = "fro",
        dim: int | Sequence[int] | None = None,
        keepdim: bool = False,
        dtype: ScalarType | None = None,
    ) -> Tensor:
        """Return the norm of the elements (`torch.Tensor.norm`; `tt.linalg.vector_norm` and `matrix_norm` are newer).

        Args:
            p: The order; 'fro' and None mean 2, 'nuc' the sum of a matrix's singular values.
            dim: The dimension or dimensions whose elements make up a vector; by default all of them.
            keepdim: If True, keep the reduced dimensions with size 1.
            dtype: The dtype to which the elements are converted first; by default their own.

        Returns:
            A tensor of the real dtype that belongs to the dtype computed in.

        Raises:
            RuntimeError: The dtype is neither floating nor complex.

        Example:
            >>> import triten as tt
            >>> tt.tensor([[3.0, 4.0]]).norm(), tt.tensor([[3.0, 4.0]]).norm(1, dim=0)
            (tensor(5.), tensor([3., 4.]))
        """
        try:
            from ..composite.norm import old_norm

            return old_norm(self, p, dim, keepdim, None, dtype)  # type: ignore[arg-type]
        except BaseException:
            hide_inner_frames()
            raise

    def lu(self, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
        """Return `tt.lu` of this tensor (`torch.Tensor.lu`; `tt.linalg.lu_factor` is newer).

        Args:
            pivot: If True, exchange rows for stability.
            get_infos: If True, also return for each matrix whether the factorization succeeded.

        Returns:
            A tuple of both factors in one tensor of the matrices' shape, the rows that were exchanged (int32, counted
            from
            1), and with `get_infos` a number for each matrix, 0 where a factorization exists.

        Example:
            >>> import triten as tt
            >>> tt.eye(2).lu()[1]
            tensor([1, 2], dtype=triten.int32)
        """
        try:
            operator = Dispatcher.singleton().find_schema_or_throw("aten::_lu_with_info")
            factors = operator.call(self, pivot, False)
            return tuple(factors) if get_infos else tuple(factors)[:2]
        except BaseException:
            hide_inner_frames()
            raise

"""Methods of `Tensor` that say what it is, and old forms of other functions (torch/_tensor.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.tensor_impl import TensorImpl
from .core.dispatcher import Dispatcher

if TYPE_CHECKING:
    from .tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object


class QueryMethods(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    @property
    def is_sparse(self) -> bool:
        """Whether the tensor is stored as coordinates and values (`torch.Tensor.is_sparse`): none is."""
        return False

    @property
    def is_sparse_csr(self) -> bool:
        """Whether the tensor is stored by compressed rows (`torch.Tensor.is_sparse_csr`): none is."""
        return False

    @property
    def is_quantized(self) -> bool:
        """Whether elements are integers with a scale (`torch.Tensor.is_quantized`): those of none are."""
        return False

    @property
    def is_nested(self) -> bool:
        """Whether the tensor is a list of tensors of different sizes (`torch.Tensor.is_nested`): none is."""
        return False

    @property
    def is_mkldnn(self) -> bool:
        """Whether the bytes have oneDNN's own layout (`torch.Tensor.is_mkldnn`): those of none have."""
        return False

    @property
    def is_xla(self) -> bool:
        """Whether the tensor is on an XLA device (`torch.Tensor.is_xla`)."""
        return bool(self._spec.device.type == "xla")

    @property
    def is_xpu(self) -> bool:
        """Whether the tensor is on an XPU (`torch.Tensor.is_xpu`)."""
        return bool(self._spec.device.type == "xpu")

    @property
    def is_mps(self) -> bool:
        """Whether the tensor is on an MPS device (`torch.Tensor.is_mps`)."""
        return bool(self._spec.device.type == "mps")

    @property
    def is_ipu(self) -> bool:
        """Whether the tensor is on an IPU (`torch.Tensor.is_ipu`)."""
        return bool(self._spec.device.type == "ipu")

    def sparse_dim(self) -> int:
        """How many dimensions are stored as coordinates (`torch.Tensor.sparse_dim`): none of a strided tensor."""
        return 0

    def dense_dim(self) -> int:
        """How many dimensions are stored whole (`torch.Tensor.dense_dim`): all of a strided tensor."""
        return int(self._spec.ndim)

    def to_dense(self, dtype: ScalarType | None = None, *, masked_grad: bool | None = None) -> Tensor:
        """The tensor itself, strided as all are; with a dtype converted to it (`torch.Tensor.to_dense`).

        Example:
            >>> import triten as tt
            >>> tt.ones(1).to_dense(), tt.ones(1).to_dense(tt.int64)
            (tensor([1.]), tensor([1]))
        """
        tensor: Tensor = self  # type: ignore[assignment]
        return tensor if dtype is None else tensor.to(dtype)

    def is_conj(self) -> bool:
        """Whether elements are to be conjugated when read (`torch.Tensor.is_conj`): never, `conj` computes them."""
        return False

    def is_neg(self) -> bool:
        """Whether elements are to be negated when read (`torch.Tensor.is_neg`): never, `imag` of `conj` is negative."""
        return False

    def is_nonzero(self) -> bool:
        """Whether the only element is not zero (`torch.Tensor.is_nonzero`). Raises RuntimeError for several or none.

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

    def is_same_size(self, other: TensorImpl) -> bool:
        """Whether another tensor has the same sizes (`torch.Tensor.is_same_size`).

        Example:
            >>> import triten as tt
            >>> tt.ones(2, 3).is_same_size(tt.ones(3, 2))
            False
        """
        return bool(self._spec.sizes == other._spec.sizes)

    def dim_order(self) -> tuple[int, ...]:
        """The dimensions from the outermost in memory to the innermost (`torch.Tensor.dim_order`).

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
        """`tt.norm` of this tensor (`torch.Tensor.norm`; `tt.linalg.vector_norm` and `matrix_norm` are newer).

        Example:
            >>> import triten as tt
            >>> tt.tensor([[3.0, 4.0]]).norm(), tt.tensor([[3.0, 4.0]]).norm(1, dim=0)
            (tensor(5.), tensor([3., 4.]))
        """
        from .composite.norm import old_norm

        tensor: Tensor = self  # type: ignore[assignment]
        return old_norm(tensor, p, dim, keepdim, None, dtype)

    def lu(self, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
        """`tt.lu` of this tensor (`torch.Tensor.lu`; `tt.linalg.lu_factor` is newer).

        Example:
            >>> import triten as tt
            >>> tt.eye(2).lu()[1]
            tensor([1, 2], dtype=triten.int32)
        """
        operator = Dispatcher.singleton().find_schema_or_throw("aten::_lu_with_info")
        found = operator.call(self, pivot, False)
        return tuple(found) if get_infos else tuple(found)[:2]

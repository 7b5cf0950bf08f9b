"""Methods of `Tensor` that say what it is, and old forms of other functions (torch/_tensor.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.tensor_impl import TensorImpl
from .core.dispatcher import Dispatcher

if TYPE_CHECKING:
    _Base = TensorImpl
else:
    _Base = object


class QueryMethods(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

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
        value: Any = self
        return bool(value.item() != 0)

    def is_same_size(self, other: Any) -> bool:
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
        dim: Any = None,
        keepdim: bool = False,
        dtype: ScalarType | None = None,
    ) -> Any:
        """`tt.norm` of this tensor (`torch.Tensor.norm`; `tt.linalg.vector_norm` and `matrix_norm` are newer).

        Example:
            >>> import triten as tt
            >>> tt.tensor([[3.0, 4.0]]).norm(), tt.tensor([[3.0, 4.0]]).norm(1, dim=0)
            (tensor(5.), tensor([3., 4.]))
        """
        from .composite.norm import old_norm

        return old_norm(self, p, dim, keepdim, None, dtype)

    def lu(self, pivot: bool = True, get_infos: bool = False) -> Any:
        """`tt.lu` of this tensor (`torch.Tensor.lu`; `tt.linalg.lu_factor` is newer).

        Example:
            >>> import triten as tt
            >>> tt.eye(2).lu()[1]
            tensor([1, 2], dtype=triten.int32)
        """
        operator = Dispatcher.singleton().find_schema_or_throw("aten::_lu_with_info")
        found = operator.call(self, pivot, False)
        return tuple(found) if get_infos else tuple(found)[:2]

"""Methods of `Tensor` for the names of its dimensions (torch/_tensor.py, torch/_namedtensor_internals.py)."""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, Any

from ..runtime.tensor_impl import TensorImpl
from .core.tensor_function import handle_tensor_function, has_tensor_function

if TYPE_CHECKING:
    from .tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object


class NamedMethods(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    @property
    def names(self) -> tuple[str | None, ...]:
        """The dimensions' names, None for one without (`torch.Tensor.names`). Setting them is `rename_`.

        Example:
            >>> import triten as tt
            >>> tt.zeros(2, 3).names
            (None, None)
        """
        return self._spec.names

    @names.setter
    def names(self, names: Any) -> None:
        from .functional.named.tensor import assign_names

        assign_names(self, names)  # type: ignore[arg-type]

    def has_names(self) -> bool:
        """Whether any dimension has a name (`torch.Tensor.has_names`)."""
        return any(name is not None for name in self._spec.names)

    def rename(self, *names: str | EllipsisType | None, **rename_map: str | None) -> Tensor:
        """A view with other names (`torch.Tensor.rename`): all of them, some by what they were, or none for None.

        ``...`` among `names` stands for the names that its dimensions have.

        Raises:
            RuntimeError: for names that are no identifiers, that stand twice, of a wrong number, or that are not there.
            TypeError: for what is no name.

        Example:
            >>> import triten as tt
            >>> x = tt.zeros(2, 3, names=("N", "C"))
            >>> x.rename("A", ...).names, x.rename(C="channels").names, x.rename(None).names
            (('A', 'C'), ('N', 'channels'), (None, None))
        """
        from .functional.named.tensor import rename

        return rename(self, names, rename_map)  # type: ignore[arg-type]

    def rename_(self, *names: str | None, **rename_map: str | None) -> Tensor:
        """`rename` of this tensor itself (`torch.Tensor.rename_`)."""
        from .functional.named.tensor import rename_

        return rename_(self, names, rename_map)  # type: ignore[arg-type]

    def refine_names(self, *names: str | EllipsisType | None) -> Tensor:
        """A view in which dimensions without names have them (`torch.Tensor.refine_names`); others must match.

        Raises RuntimeError where a name would change or go away.

        Example:
            >>> import triten as tt
            >>> tt.zeros(2, 3, 4).refine_names(..., "H", "W").names
            (None, 'H', 'W')
        """
        from .functional.named.tensor import refine_names

        return refine_names(self, names)  # type: ignore[arg-type]

    def align_to(self, *names: str | EllipsisType) -> Tensor:
        """A view with its dimensions in the order of `names`, new ones of size 1 (`torch.Tensor.align_to`).

        ``...`` stands for all dimensions that are not named, in their order.

        Raises RuntimeError for a tensor with a dimension without name, and where one of its names is missing.

        Example:
            >>> import triten as tt
            >>> x = tt.zeros(2, 3, names=("N", "C"))
            >>> x.align_to("C", "H", "N").shape, x.align_to(..., "N").names
            (triten.Size([3, 1, 2]), ('C', 'N'))
        """
        from .functional.named.tensor import align_to

        return align_to(self, names)  # type: ignore[arg-type]

    def align_as(self, other: Tensor) -> Tensor:
        """`align_to` the names of another tensor (`torch.Tensor.align_as`)."""
        from .functional.named.tensor import align

        return align(self, other._spec.names)  # type: ignore[arg-type]


def align_tensors(*tensors: Tensor) -> tuple[Any, ...]:
    """Tensors with their dimensions in one order, that of the tensor of most dimensions (`torch.align_tensors`).

    Raises:
        RuntimeError: where a tensor has a dimension without name, or one that the largest has not.
        TypeError: for what is no tensor.

    Example:
        >>> import triten as tt
        >>> c, x = tt.zeros(3, names=("C",)), tt.zeros(3, 2, names=("C", "N"))
        >>> [t.shape for t in tt.align_tensors(c, x)]
        [triten.Size([3, 1]), triten.Size([3, 2])]
    """
    from .functional.named.tensor import align_tensors as aligned

    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], tuple | list) else tensors
    if has_tensor_function(given):
        return handle_tensor_function(align_tensors, given, *tensors)  # type: ignore[no-any-return]
    return aligned(tensors)

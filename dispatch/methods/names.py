"""Methods of `Tensor` for the names of its dimensions (torch/_tensor.py, torch/_namedtensor_internals.py)."""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, Any

from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from ..core.tensor_function import handle_tensor_function, has_tensor_function

if TYPE_CHECKING:
    from ..tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object


class NamedMethods(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    @property
    def names(self) -> tuple[str | None, ...]:
        """The dimensions' names, None for an unnamed one (`torch.Tensor.names`). Setting them calls `rename_`.

        Example:
            >>> import triten as tt
            >>> tt.zeros(2, 3).names
            (None, None)
        """
        return self._spec.names

    @names.setter
    def names(self, names: Any) -> None:
        from ..layers.named.tensor import assign_names

        assign_names(self, names)  # type: ignore[arg-type]

    def has_names(self) -> bool:
        """Return whether any dimension has a name (`torch.Tensor.has_names`).

        Returns:
            A bool.

        Example:
            >>> import triten as tt
            >>> tt.zeros(2, 3, names=("N", None)).has_names()
            True
        """
        return any(name is not None for name in self._spec.names)

    @api_boundary
    def rename(self, *names: str | EllipsisType | None, **rename_map: str | None) -> Tensor:
        """Return a view with other dimension names (`torch.Tensor.rename`).

        Args:
            *names: A name or None for each dimension, ``...`` for the existing names of its dimensions; None alone
                removes all names.
            **rename_map: Instead of `names`: old names, and the new one of each.

        Returns:
            A tensor over the same memory.

        Raises:
            RuntimeError: A name is not an identifier, is repeated or unknown, or the number of names is wrong.
            TypeError: A name is neither a string nor None.

        Example:
            >>> import triten as tt
            >>> x = tt.zeros(2, 3, names=("N", "C"))
            >>> x.rename("A", ...).names, x.rename(C="channels").names, x.rename(None).names
            (('A', 'C'), ('N', 'channels'), (None, None))
        """
        from ..layers.named.tensor import rename

        return rename(self, names, rename_map)  # type: ignore[arg-type]

    @api_boundary
    def rename_(self, *names: str | None, **rename_map: str | None) -> Tensor:
        """Rename this tensor's dimensions in place (`torch.Tensor.rename_`).

        Args:
            *names: A name or None for each dimension, as `rename` takes them.
            **rename_map: Instead of `names`: old names, and the new one of each.

        Returns:
            The tensor itself.

        Raises:
            RuntimeError: A name is not an identifier, is repeated or unknown, or the number of names is wrong.
            TypeError: A name is neither a string nor None.

        Example:
            >>> import triten as tt
            >>> tt.zeros(2, 3).rename_("N", "C").names
            ('N', 'C')
        """
        from ..layers.named.tensor import rename_

        return rename_(self, names, rename_map)  # type: ignore[arg-type]

    @api_boundary
    def refine_names(self, *names: str | EllipsisType | None) -> Tensor:
        """Return a view in which unnamed dimensions are named (`torch.Tensor.refine_names`).

        Args:
            *names: A name or None for each dimension; a named dimension keeps its name. ``...`` stands for the names of
                all other dimensions.

        Returns:
            A tensor over the same memory.

        Raises:
            RuntimeError: A name would change or be removed.

        Example:
            >>> import triten as tt
            >>> tt.zeros(2, 3, 4).refine_names(..., "H", "W").names
            (None, 'H', 'W')
        """
        from ..layers.named.tensor import refine_names

        return refine_names(self, names)  # type: ignore[arg-type]

    @api_boundary
    def align_to(self, *names: str | EllipsisType) -> Tensor:
        """Return a view with its dimensions in the order of the given names (`torch.Tensor.align_to`).

        Args:
            *names: The names in their new order; names that the tensor lacks become dimensions of size 1. ``...``
                stands for all dimensions that are not named, in their order.

        Returns:
            A tensor over the same memory.

        Raises:
            RuntimeError: A dimension has no name, or one of the tensor's names is missing among `names`.

        Example:
            >>> import triten as tt
            >>> x = tt.zeros(2, 3, names=("N", "C"))
            >>> x.align_to("C", "H", "N").shape, x.align_to(..., "N").names
            (triten.Size([3, 1, 2]), ('C', 'N'))
        """
        from ..layers.named.tensor import align_to

        return align_to(self, names)  # type: ignore[arg-type]

    @api_boundary
    def align_as(self, other: Tensor) -> Tensor:
        """Return a view with its dimensions in the order of another tensor's names (`torch.Tensor.align_as`).

        Args:
            other: The tensor whose names determine the order, as in `align_to`.

        Returns:
            A tensor over the same memory.

        Raises:
            RuntimeError: A dimension has no name, or one of the tensor's names is missing in `other`.

        Example:
            >>> import triten as tt
            >>> x = tt.zeros(2, 3, names=("N", "C"))
            >>> x.align_as(tt.zeros(3, 2, names=("C", "N"))).shape
            triten.Size([3, 2])
        """
        from ..layers.named.tensor import align

        return align(self, other._spec.names)  # type: ignore[arg-type]


@api_boundary
def align_tensors(*tensors: Tensor) -> tuple[Any, ...]:
    """Permute tensors to the dimension order of the one with most dimensions (`torch.align_tensors`).

    Args:
        *tensors: Tensors whose dimensions have names.

    Returns:
        A tuple of views, with dimensions of size 1 for the names that a tensor lacks.

    Raises:
        RuntimeError: A tensor has an unnamed dimension, or a name that the largest tensor lacks.
        TypeError: An argument is not a tensor.

    Example:
        >>> import triten as tt
        >>> c, x = tt.zeros(3, names=("C",)), tt.zeros(3, 2, names=("C", "N"))
        >>> [t.shape for t in tt.align_tensors(c, x)]
        [triten.Size([3, 1]), triten.Size([3, 2])]
    """
    from ..layers.named.tensor import align_tensors as aligned

    operands = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], tuple | list) else tensors
    if has_tensor_function(operands):
        return handle_tensor_function(align_tensors, operands, *tensors)  # type: ignore[no-any-return]
    return aligned(tensors)

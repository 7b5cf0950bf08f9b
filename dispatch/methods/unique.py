"""`unique` and `unique_consecutive`, whose optional outputs follow their flags (torch/functional.py,
torch/_tensor.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...runtime.errors import not_a_tensor
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from ..core.dispatcher import Dispatcher
from ..schema import bind

if TYPE_CHECKING:
    from ..tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object


def _call(operator: str, *args: Any) -> Any:
    if not isinstance(args[0], TensorImpl):
        raise not_a_tensor(args[0], operator)
    entry = Dispatcher.singleton().find_schema_or_throw(f"aten::{operator}")
    return entry.call(*bind(entry.schema, args, name=operator))


def _asked(
    results: tuple[Tensor, Tensor, Tensor], return_inverse: bool, return_counts: bool
) -> Tensor | tuple[Tensor, ...]:
    """Return the unique elements alone, or a tuple with the other requested outputs."""
    values, inverse, counts = results
    if not (return_inverse or return_counts):
        return values
    return (values, *([inverse] if return_inverse else []), *([counts] if return_counts else []))


def unique(
    input: TensorImpl, sorted: bool, return_inverse: bool, return_counts: bool, dim: int | None
) -> Tensor | tuple[Tensor, ...]:
    """Compute `torch.unique`."""
    if dim is None:
        results = _call("_unique2", input, sorted, return_inverse, return_counts)
    else:
        results = _call("unique_dim", input, dim, sorted, return_inverse, return_counts)
    return _asked(results, return_inverse, return_counts)


def unique_consecutive(
    input: TensorImpl, return_inverse: bool, return_counts: bool, dim: int | None
) -> Tensor | tuple[Tensor, ...]:
    """Compute `torch.unique_consecutive`."""
    results = _call("unique_consecutive", input, return_inverse, return_counts, dim)
    return _asked(results, return_inverse, return_counts)


class UniqueMethods(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    @api_boundary
    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        """Return the unique elements, or entries along `dim`, in ascending order (`torch.Tensor.unique`).

        Args:
            sorted: No effect: the elements are always sorted.
            return_inverse: If True, also return the index of each element, or entry, among the unique ones.
            return_counts: If True, also return the number of occurrences.
            dim: A dimension whose entries are compared lexicographically. Default: None, compare all elements.

        Returns:
            A tensor, or a tuple of it and the requested int64 tensors.

        Raises:
            NotImplementedError: The tensor is complex or on the Meta device.
            RuntimeError: The entries along `dim` have no elements.

        Example:
            >>> import triten as tt
            >>> tt.tensor([3, 1, 3]).unique(return_counts=True)
            (tensor([1, 3]), tensor([1, 2]))
        """
        return unique(self, sorted, return_inverse, return_counts, dim)

    @api_boundary
    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Tensor | tuple[Tensor, ...]:
        """Return one element, or entry along `dim`, of each run of equal ones (`torch.Tensor.unique_consecutive`).

        Args:
            return_inverse: If True, also return the index of the run of each element, or entry.
            return_counts: If True, also return the length of each run.
            dim: A dimension whose entries are compared. Default: None, compare the elements of the flattened tensor.

        Returns:
            A tensor, or a tuple of it and the requested int64 tensors.

        Raises:
            NotImplementedError: The tensor is on the Meta device.

        Example:
            >>> import triten as tt
            >>> tt.tensor([1, 1, 2, 1]).unique_consecutive(return_counts=True)
            (tensor([1, 2, 1]), tensor([2, 1, 1]))
        """
        return unique_consecutive(self, return_inverse, return_counts, dim)

"""`unique` and `unique_consecutive`, which return what they are asked for (torch/functional.py, torch/_tensor.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from ..runtime.tensor_impl import TensorImpl
from .core.dispatcher import Dispatcher

if TYPE_CHECKING:
    from .tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object


def _call(operator: str, *args: Any) -> Any:
    return Dispatcher.singleton().find_schema_or_throw(f"aten::{operator}").call(*args)


def _asked(
    results: tuple[Tensor, Tensor, Tensor], return_inverse: bool, return_counts: bool
) -> Tensor | tuple[Tensor, ...]:
    """The unique elements alone, or a tuple of them and what else was asked for."""
    values, inverse, counts = results
    if not (return_inverse or return_counts):
        return values
    return (values, *([inverse] if return_inverse else []), *([counts] if return_counts else []))


def unique(
    input: TensorImpl, sorted: bool, return_inverse: bool, return_counts: bool, dim: int | None
) -> Tensor | tuple[Tensor, ...]:
    """`torch.unique`."""
    if dim is None:
        found = _call("_unique2", input, sorted, return_inverse, return_counts)
    else:
        found = _call("unique_dim", input, dim, sorted, return_inverse, return_counts)
    return _asked(found, return_inverse, return_counts)


def unique_consecutive(
    input: TensorImpl, return_inverse: bool, return_counts: bool, dim: int | None
) -> Tensor | tuple[Tensor, ...]:
    """`torch.unique_consecutive`."""
    found = _call("unique_consecutive", input, return_inverse, return_counts, dim)
    return _asked(found, return_inverse, return_counts)


class UniqueMethods(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    @overload
    def unique(
        self,
        sorted: bool = True,
        return_inverse: Literal[False] = False,
        return_counts: Literal[False] = False,
        dim: int | None = None,
    ) -> Tensor: ...
    @overload
    def unique(
        self,
        sorted: bool = True,
        *,
        return_inverse: Literal[True],
        return_counts: bool = False,
        dim: int | None = None,
    ) -> tuple[Tensor, ...]: ...
    @overload
    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        *,
        return_counts: Literal[True],
        dim: int | None = None,
    ) -> tuple[Tensor, ...]: ...
    @overload
    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Tensor | tuple[Tensor, ...]: ...
    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        """`tt.unique` of this tensor (`torch.Tensor.unique`)."""
        return unique(self, sorted, return_inverse, return_counts, dim)

    @overload
    def unique_consecutive(
        self,
        return_inverse: Literal[False] = False,
        return_counts: Literal[False] = False,
        dim: int | None = None,
    ) -> Tensor: ...
    @overload
    def unique_consecutive(
        self, return_inverse: Literal[True], return_counts: bool = False, dim: int | None = None
    ) -> tuple[Tensor, ...]: ...
    @overload
    def unique_consecutive(
        self, return_inverse: bool = False, *, return_counts: Literal[True], dim: int | None = None
    ) -> tuple[Tensor, ...]: ...
    @overload
    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Tensor | tuple[Tensor, ...]: ...
    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Tensor | tuple[Tensor, ...]:
        """`tt.unique_consecutive` of this tensor (`torch.Tensor.unique_consecutive`)."""
        return unique_consecutive(self, return_inverse, return_counts, dim)

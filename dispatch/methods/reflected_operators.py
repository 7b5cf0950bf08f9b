"""Python's reflected operators that have no operator of their own; the others are generated."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.overload_packet import packets
from ..core.tensor_function import handle_operator, overloaded, plain_classes

if TYPE_CHECKING:
    from ...runtime.tensor_impl import TensorImpl
    from ..tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object


def reflected(special: str, name: str, other: Any, self: TensorImpl) -> Tensor:
    """Return ``other <operator> self``, or NotImplemented for an operand of a foreign type; `special` is the method."""
    cls = other.__class__
    if cls is self.__class__ and cls in plain_classes:
        return _function(name)(other, self)
    packet = packets[name]
    askers = overloaded((self, other), {})
    if askers:
        return _handled(special, askers, self, other)
    if packet.is_foreign(other):
        return NotImplemented  # type: ignore[no-any-return]
    return packet.call_parameters(other, self, *[p.default for p in packet.parameters[2:]])  # type: ignore[no-any-return]


@cache
def _function(name: str) -> Callable[..., Tensor]:
    from ..generated import functions

    return getattr(functions, name)  # type: ignore[no-any-return]


def _handled(special: str, askers: list[Any], self: TensorImpl, other: Any) -> Tensor:
    from ..tensor import Tensor

    return handle_operator(getattr(Tensor, special), askers, (self, other), {})  # type: ignore[no-any-return]


class ReflectedOperators(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    def __rtruediv__(self, other: Any) -> Tensor:
        askers = overloaded((self, other), {})
        if askers:
            return _handled("__rtruediv__", askers, self, other)
        if packets["div"].is_foreign(other) and not isinstance(other, np.ndarray):
            return NotImplemented
        tensor: Tensor = self  # type: ignore[assignment]
        return tensor.reciprocal() * other  # type: ignore[no-any-return]

    def __rfloordiv__(self, other: Any) -> Tensor:
        return reflected("__rfloordiv__", "floor_divide", other, self)

    def __rmod__(self, other: Any) -> Tensor:
        return reflected("__rmod__", "remainder", other, self)

    def __rpow__(self, other: Any) -> Tensor:
        return reflected("__rpow__", "pow", other, self)

    def __rlshift__(self, other: Any) -> Tensor:
        return reflected("__rlshift__", "bitwise_left_shift", other, self)

    def __rrshift__(self, other: Any) -> Tensor:
        return reflected("__rrshift__", "bitwise_right_shift", other, self)

    def __rmatmul__(self, other: Any) -> Tensor:
        askers = overloaded((self, other), {})
        if askers:
            return _handled("__rmatmul__", askers, self, other)
        if not hasattr(other, "_spec"):
            return NotImplemented
        return packets["matmul"].call_parameters(other, self)  # type: ignore[no-any-return]

    __rdiv__ = __rtruediv__

"""Python's reflected operators that no operator of their own serves; the others are generated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .core.overload_packet import packets

if TYPE_CHECKING:
    from ..runtime.tensor_impl import TensorImpl

    _Base = TensorImpl
else:
    _Base = object


def reflected(name: str, other: Any, self: Any) -> Any:
    """``other <operator> self``, or NotImplemented for an operand of a foreign type."""
    packet = packets[name]
    if packet.is_foreign(other):
        return NotImplemented
    return packet.call_parameters(other, self, *[p.default for p in packet.parameters[2:]])


class ReflectedOperators(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    def __rtruediv__(self, other: Any) -> Any:
        if packets["div"].is_foreign(other):
            return NotImplemented
        tensor: Any = self
        return tensor.reciprocal() * other

    def __rfloordiv__(self, other: Any) -> Any:
        return reflected("floor_divide", other, self)

    def __rmod__(self, other: Any) -> Any:
        return reflected("remainder", other, self)

    def __rpow__(self, other: Any) -> Any:
        return reflected("pow", other, self)

    def __rlshift__(self, other: Any) -> Any:
        return reflected("bitwise_left_shift", other, self)

    def __rrshift__(self, other: Any) -> Any:
        return reflected("bitwise_right_shift", other, self)

    def __rmatmul__(self, other: Any) -> Any:
        packet = packets["matmul"]
        if not hasattr(other, "_spec"):
            return NotImplemented
        return packet.call_parameters(other, self)

    __rdiv__ = __rtruediv__

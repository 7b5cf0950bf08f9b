"""``//`` of floats with an infinite operand: the floor of the true quotient, as in the array API standard.

PyTorch gives Python's results there: NaN for an infinity divided by a number, and -1 for a number divided by an
infinity of the other sign. `tt.floor_divide`, `div` with ``rounding_mode="floor"``, and ``//`` in programs of
`as_torch` also give Python's results.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...runtime import public_name
from ...runtime.layout import strided
from ...runtime.local_dispatch_key_set import modes
from ...runtime.tensor_impl import TensorImpl
from ..core.tensor_function import plain_classes
from ..generated import functions
from ..generated.methods import TensorMethods
from .reflected_operators import reflected

if TYPE_CHECKING:
    _Base = TensorImpl
else:
    _Base = object


_floors: Any = TensorMethods.__floordiv__


class FloorDivision(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    def __floordiv__(self, other: Any) -> Any:
        """Return the quotient rounded down."""
        floors = _floors(self, other)
        try:
            if not floors._spec.dtype.is_floating_point:
                return floors
        except AttributeError:  # another class's result, or NotImplemented
            return floors
        return _with_infinities(floors, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _with_infinities(reflected("__rfloordiv__", "floor_divide", other, self), other, self)

    def __ifloordiv__(self, other: Any) -> Any:
        tensor: Any = self
        if _is_plain_float(tensor):
            floors = tensor // other
            if isinstance(floors, TensorImpl) and floors.shape == tensor.shape:
                return tensor.copy_(floors)
        return TensorMethods.__ifloordiv__(tensor, other)


def _is_plain_float(tensor: Any) -> bool:
    if not isinstance(tensor, TensorImpl) or tensor.__class__ not in plain_classes:
        return False
    if modes:
        from ..layers.python_key import sees_whole

        if sees_whole():
            return False
    spec = tensor._spec
    if tensor.has_names() or public_name.shown == "torch":  # type: ignore[attr-defined]
        return False
    return spec.dtype.is_floating_point and spec.layout is strided


def _with_infinities(floors: Any, a: Any, b: Any) -> Any:
    """Return the floors of ``a / b`` where both are finite, and the quotient itself elsewhere."""
    if not _is_plain_float(floors) or a.__class__ not in plain_classes or b.__class__ not in plain_classes:
        return floors
    pair: tuple[Any, Any] = a, b
    is_number = [isinstance(each, int | float) for each in pair]
    operands = [each if own else each.detach() for each, own in zip(pair, is_number, strict=True)]
    infinite = [functions.isinf(each) for each, own in zip(operands, is_number, strict=True) if not own]
    is_infinite = infinite[0] if len(infinite) == 1 else functions.logical_or(*infinite)
    quotients = operands[0] / operands[1]
    if any(isinstance(each, float) and math.isinf(each) for each in operands):
        return quotients.to(floors.dtype)
    return functions.where(is_infinite, quotients.to(floors.dtype), floors)

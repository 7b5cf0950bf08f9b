"""Division that rounds down, with the standard's results for infinities and zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dispatch.generated.functions import copysign, div, isinf, where
from ..dispatch.generated.functions import floor_divide as python_floor_divide
from ..dispatch.generated.functions import remainder as python_remainder

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor


def floor_divide(x1: Tensor, x2: Tensor) -> Tensor:
    """The quotient rounded down; with an infinite operand it is that of true division, not Python's NaN or -1."""
    quotient = python_floor_divide(x1, x2)
    if not quotient.dtype.is_floating_point:
        return quotient
    return where(isinf(x1).logical_or(isinf(x2)), div(x1, x2), quotient)  # type: ignore[return-value]


def remainder(x1: Tensor, x2: Tensor) -> Tensor:
    """The remainder with the sign of the divisor, of a zero too."""
    rest = python_remainder(x1, x2)
    if not rest.dtype.is_floating_point:
        return rest
    return where(rest == 0, copysign(rest, x2), rest)  # type: ignore[return-value]
